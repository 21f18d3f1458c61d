package node

import (
	"context"
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
		called := ""
		if _, err := l.Call(ctx, request(func(_ *puppet, t host.Turn) error { called = t.Caller(); return nil })); err != nil || called != w.Connection {
			t.Errorf("the caller of a turn is %q, %v", called, err)
		}
		look := remember(glance(func(_ *puppetState, r host.Reader) error { called = "query by " + r.Caller(); return nil }))
		if _, err := l.Call(ctx, &host.Request{Method: "look", Codec: host.JSON, Input: look}); err != nil || called != "query by "+w.Connection {
			t.Errorf("the caller of a query is %q, %v", called, err)
		}
		caller := func(token string) (string, error) {
			who := ""
			_, err := h.CallOver(ctx, token, request(func(_ *puppet, t host.Turn) error {
				who = t.Caller()
				return nil
			}))
			return who, err
		}
		who, err := caller(w.Token)
		if who != w.Connection || err != nil {
			t.Errorf("the caller is %q, %v", who, err)
		}
		if err := l.Close(ctx, true); err != nil {
			t.Fatal(err)
		}
		if who, err = caller(w.Token); who != w.Connection || err != nil {
			t.Errorf("the caller that was lost is %q, %v", who, err)
		}
		long := strings.Repeat("x", 1000) + ".x"
		for _, token := range []string{"", "x", w.Connection, w.Connection + ".x", "x" + w.Token, long} {
			if _, err := caller(token); host.CodeOf(err) != host.Unauthenticated {
				t.Errorf("token %q: %v", token, err)
			}
			wantCode(t, h.Disconnect(ctx, pAddr("a"), token), host.Unauthenticated)
		}
		l = h.back(w, 0)
		if err := h.Disconnect(ctx, pAddr("a"), w.Token); err != nil {
			t.Fatal(err)
		}
		_, _, _, err = heard(l)
		wantCode(t, err, host.FailedPrecondition)
		if log := h.log(); !slices.Equal(log, []string{"left"}) {
			t.Errorf("%q", log)
		}
		_, err = caller(w.Token)
		wantCode(t, err, host.Unauthenticated)
		wantCode(t, h.Disconnect(ctx, pAddr("none"), w.Token), host.Unauthenticated)
	})
}

func TestClientThatGivesUpWhileConnectingLeavesNothing(t *testing.T) {
	for _, gone := range []bool{false, true} {
		hold := make(chan struct{})
		d := puppetType{disconnect: noting, connect: func(*puppet, host.Turn) error {
			<-hold
			return nil
		}}
		in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
			hold = make(chan struct{})
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
