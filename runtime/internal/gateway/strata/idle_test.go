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
			must(t, r.begin(s))
		}
		r.leave(idles)
		time.Sleep(2 * idle)
		r.mu.Lock()
		r.sweep(time.Now())
		r.mu.Unlock()
		errorIf(t, used.lapsed || used.tx == nil || !idles.lapsed, "the one in use has ended: %v; the other: %v", used.lapsed, idles.lapsed)
		r.leave(used)
	})
}

// Transactions that ended by themselves, or because they read too much, leave their room to others of their actor.
func TestTheRoomOfTransactionsThatEnded(t *testing.T) {
	r := &sessions{open: make(map[sessionKey]*session), taken: make(map[sessionKey]usage)}
	began := func(name string) *session {
		t.Helper()
		s := &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: name}, tx: new(kv.Tx), link: new(link)}
		must(t, r.begin(s))
		return s
	}
	stays := began("stays")
	for i := range 5 {
		s := began("other")
		must(t, r.grow(s, maxBytes), i)
		if err := (reads{s: s, r: r}).grow(1); err == nil || s.tx != nil || r.open[s.key] != nil {
			t.Errorf("%d: a transaction that has read too much goes on: %v", i, err)
		}
	}
	for _, k := range stays.key.takers() {
		errorIf(t, r.taken[k] != (usage{transactions: 1}), "%+v has taken %+v", k, r.taken[k])
	}
	r.end(stays)
	errorIf(t, len(r.taken) != 0, "after the last, %+v is taken", r.taken)
}
