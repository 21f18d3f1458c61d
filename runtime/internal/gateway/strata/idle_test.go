package strata

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/kv"
)

// A transaction does not end as idle while a request uses it, however long the request takes.
func TestATransactionInUseIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sessions{open: make(map[sessionKey]*session), taken: make(map[sessionKey]usage)}
		used, idles := &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: "used"}}, &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: "idle"}}
		for _, s := range []*session{used, idles} {
			s.tx, s.link = new(kv.Tx), new(link)
			if err := r.begin(s); err != nil {
				t.Fatal(err)
			}
		}
		r.leave(idles)
		time.Sleep(2 * idle)
		r.mu.Lock()
		r.sweep(time.Now())
		r.mu.Unlock()
		if used.lapsed || used.tx == nil || !idles.lapsed {
			t.Errorf("the one in use has ended: %v; the other: %v", used.lapsed, idles.lapsed)
		}
		r.leave(used)
	})
}

// Transactions that ended by themselves, or because they read too much, leave their room to others of their actor.
func TestTheRoomOfTransactionsThatEnded(t *testing.T) {
	r := &sessions{open: make(map[sessionKey]*session), taken: make(map[sessionKey]usage)}
	began := func(name string) *session {
		t.Helper()
		s := &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: name}, tx: new(kv.Tx), link: new(link)}
		if err := r.begin(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	stays := began("stays")
	for i := range 5 {
		s := began("other")
		if err := r.grow(s, maxBytes); err != nil {
			t.Fatal(i, err)
		}
		if err := (reads{s: s, r: r}).grow(1); err == nil || s.tx != nil || r.open[s.key] != nil {
			t.Errorf("%d: a transaction that has read too much goes on: %v", i, err)
		}
	}
	for _, k := range stays.key.takers() {
		if r.taken[k] != (usage{transactions: 1}) {
			t.Errorf("%+v has taken %+v", k, r.taken[k])
		}
	}
	r.end(stays)
	if len(r.taken) != 0 {
		t.Errorf("after the last, %+v is taken", r.taken)
	}
}
