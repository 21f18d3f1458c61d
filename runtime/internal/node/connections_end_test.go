package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// noting makes a disconnect hook that notes why connections end.
func noting(p *puppet, _ host.Turn) error {
	why := "left"
	if p.cause != nil {
		why = p.cause.Message
	}
	p.s.Log = append(p.s.Log, why)
	return nil
}

func TestLongHistoryIsReadInPages(t *testing.T) {
	in(t, puppetType{}, host.Limits{EventHistory: 2000, ConnectionBytes: 4096}, func(t *testing.T, h *hotel) {
		l := h.connect(listening)
		l.Close(t.Context(), true)
		var want []string
		for i := range 1000 {
			want = append(want, fmt.Sprint(i))
		}
		h.say(want...)
		l = h.back(l.Welcome(), 0)
		var got []string
		for len(got) < len(want) {
			d, err := l.Next(t.Context())
			if err != nil || d.Missed > 0 {
				t.Fatalf("after %d: missed %d, %v", len(got), d.Missed, err)
			}
			for _, e := range d.Events {
				got = append(got, strings.Trim(string(e.Data), `"`))
			}
			if len(want) < 1500 { // what is emitted meanwhile does not cut the client off
				for range 100 {
					want = append(want, fmt.Sprint(len(want)))
				}
				h.say(want[len(want)-100:]...)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("heard %q", got)
		}
	})
}

func TestCallsOverATokenNameTheirConnection(t *testing.T) {
	in(t, puppetType{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		ctx := t.Context()
		l := h.connect(host.ConnectRequest{})
		w := l.Welcome()
		named := ""
		turn := request(func(_ *puppet, t host.Turn) error { named = t.Caller(); return nil })
		look := remember(glance(func(_ *puppetState, r host.Reader) error { named = r.Caller(); return nil }))
		over := func(token string) error { _, err := h.CallOver(ctx, token, turn); return err }
		for name, call := range map[string]func() error{
			"a turn": func() error { _, err := l.Call(ctx, turn); return err },
			"a query": func() error {
				_, err := l.Call(ctx, &host.Request{Method: "look", Codec: host.JSON, Input: look})
				return err
			},
			"a turn over the token":   func() error { return over(w.Token) },
			"a turn of a lost client": func() error { return errors.Join(l.Close(ctx, true), over(w.Token)) },
		} {
			named = ""
			if err := call(); err != nil || named != w.Connection {
				t.Errorf("the caller of %s is %q, %v", name, named, err)
			}
			l = h.back(w, 0)
		}
		for _, token := range []string{"", "x", w.Connection, w.Connection + ".x", "x" + w.Token, strings.Repeat("x", 1000) + ".x"} {
			wantCode(t, over(token), host.Unauthenticated)
			wantCode(t, h.Disconnect(ctx, pAddr("a"), token), host.Unauthenticated)
		}
		if err := h.Disconnect(ctx, pAddr("a"), w.Token); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := heard(l)
		wantCode(t, err, host.FailedPrecondition)
		if log := h.log(); !slices.Equal(log, []string{"left"}) {
			t.Errorf("%q", log)
		}
		wantCode(t, over(w.Token), host.Unauthenticated)
		wantCode(t, h.Disconnect(ctx, pAddr("none"), w.Token), host.Unauthenticated)
	})
}

func TestClientThatGivesUpWhileConnectingLeavesNothing(t *testing.T) {
	for _, gone := range []bool{false, true} {
		var hold chan struct{}
		d := puppetType{disconnect: noting, connect: func(*puppet, host.Turn) error { <-hold; return nil }}
		in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
			hold = make(chan struct{}) // of the bubble
			h.say("x")
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := h.Connect(ctx, pAddr("a"), host.ConnectRequest{Events: []string{"said"}})
				failed <- err
			}()
			if gone { // before the turn begins
				cancel()
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			wantCode(t, <-failed, host.Canceled)
			close(hold)
			synctest.Wait()
			if n := len(event.HubOf(h.Kernel).Audiences); n != 0 || len(h.records()) != 0 || h.wakes() != 0 {
				t.Errorf("%d audiences, %d connections, %d wake rows are left", n, len(h.records()), h.wakes())
			}
			if log := h.log(); len(log) > 1 || len(log) == 1 && log[0] != "the client gave up" {
				t.Errorf("%q", log)
			}
		})
	}
}

func TestAStartFindsMoreConnectionsThanOneSweepTakes(t *testing.T) {
	in(t, puppetType{disconnect: noting}, host.Limits{ConnectionGrace: time.Minute}, func(t *testing.T, h *hotel) {
		const n = conn.SweepPage + 44
		var ends []host.LiveConnection
		for range n {
			ends = append(ends, h.connect(listening))
		}
		h.cut(1, 50)
		h.back(ends[1].Welcome(), 0)
		time.Sleep(2 * time.Minute)
		if log := h.log(); len(log) != n-1 || len(h.records()) != 1 || h.wakes() != 1 {
			t.Errorf("%d connections ended, %d are there, with %d wake rows", len(log), len(h.records()), h.wakes())
		}
	})
}
