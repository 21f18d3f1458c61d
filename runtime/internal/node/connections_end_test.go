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
func noting(_ host.Turn, r *room, c *host.ConnectionState, cause *host.Error) error {
	if cause == nil {
		r.Log = append(r.Log, "left")
	} else {
		r.Log = append(r.Log, cause.Message)
	}
	return nil
}

func TestDisconnectHookRunsOnceWhenTheClientLeaves(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{})
		if err := l.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		wantCode(t, ending(t, l), host.FailedPrecondition)
		time.Sleep(time.Hour)
		if log := h.log(); !slices.Equal(log, []string{"left"}) || len(h.records()) != 0 || h.wakes() != 0 {
			t.Errorf("%q; %d connections and %d wake rows are left", log, len(h.records()), h.wakes())
		}
		got := h.connect(host.ConnectRequest{Token: l.Welcome().Token}).Welcome()
		if got.Resumed || got.Connection == l.Welcome().Connection {
			t.Errorf("a connection that ended was resumed: %+v", got)
		}
	})
}

func TestLostClientMayComeBackWithinTheGrace(t *testing.T) {
	joined := 0
	rs := &rooms{disconnect: noting, connect: func(_ host.Turn, _ *room, c *host.ConnectionState, _ []byte) error {
		joined++
		c.State = []byte{7}
		return nil
	}}
	in(t, rs, host.Limits{ConnectionGrace: time.Minute}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}, Transport: "websocket"})
		w := l.Welcome()
		h.say("one")
		expect(t, l, "one")
		if err := l.Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if c := h.records()[0]; c.Lost.IsZero() {
			t.Errorf("not lost: %+v", c)
		}
		h.say("two")
		h.run(func(t host.Turn, _ *room) error { return t.EmitTo(evKept, []byte(`"for you"`), w.Connection, nil) })
		time.Sleep(50 * time.Second)
		l = h.back(w, 1)
		if got := l.Welcome(); got.Cursor != 1 || got.Token != w.Token || !slices.Equal(got.Events, []string{"said"}) {
			t.Errorf("welcome %+v", got)
		}
		h.say("three")
		expect(t, l, "two", "for you", "three")
		if c := h.records()[0]; !c.Lost.IsZero() || c.State[0] != 7 || joined != 1 {
			t.Errorf("%+v, joined %d times", c, joined)
		}
		time.Sleep(time.Hour) // the grace of the first loss passes
		h.say("four")
		expect(t, l, "four")

		if err := l.Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Second)
		log := h.log()
		if !slices.Equal(log, []string{"the client did not come back"}) || len(h.records()) != 0 || h.wakes() != 0 {
			t.Errorf("%q; %d connections and %d wake rows are left", log, len(h.records()), h.wakes())
		}
		late := h.connect(host.ConnectRequest{Token: w.Token, After: 4, HasAfter: true, Events: []string{"said"}})
		if got := late.Welcome(); got.Resumed || got.Connection == w.Connection || joined != 2 {
			t.Errorf("welcome %+v, joined %d times", got, joined)
		}
		expect(t, late, "four") // a new client that says where it was
	})
}

// A client that ends its connection by its token still gets what was there for it: the events of its own calls, above all.
func TestClientThatEndsItsConnectionGetsWhatWasThereBefore(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		h.say("zero")
		after := h.connect(host.ConnectRequest{}).Welcome().Cursor
		for name, c := range map[string]struct {
			first string // that it has not read, in the history
			q     host.ConnectRequest
		}{
			"buffered":       {"", host.ConnectRequest{Events: []string{"said"}}},
			"in the history": {"zero", host.ConnectRequest{Events: []string{"said"}, HasAfter: true, After: after - 1}},
		} {
			l := h.connect(c.q)
			h.say(name)
			if err := h.s.Disconnect(context.Background(), roomA, l.Welcome().Token); err != nil {
				t.Fatal(err)
			}
			h.say("late")
			got, _, missed, err := heard(l)
			if host.CodeOf(err) != host.FailedPrecondition || missed != 0 || len(got) == 0 || !slices.Contains(got, name) || c.first != "" && got[0] != c.first {
				t.Errorf("%s: heard %q, missed %d, %v", name, got, missed, err)
			}
			l.Close(context.Background(), true)
		}
	})
}

func TestClientWithoutAPositionGoesOnFromNow(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}})
		l.Close(t.Context(), true)
		h.say("one")
		l = h.connect(host.ConnectRequest{Token: l.Welcome().Token})
		h.say("two")
		expect(t, l, "two")
	})
}

func TestResumingTellsWhatIsNoLongerKept(t *testing.T) {
	in(t, &rooms{}, host.Limits{EventHistory: 5}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}})
		h.say("0")
		expect(t, l, "0")
		l.Close(t.Context(), true)
		for i := range 9 {
			h.say(fmt.Sprint(i + 1))
		}
		got, _, missed, err := heard(h.back(l.Welcome(), 1))
		if want := []string{"5", "6", "7", "8", "9"}; !slices.Equal(got, want) || missed != 4 || err != nil {
			t.Errorf("heard %q, missed %d, %v; want %q, 4", got, missed, err, want)
		}
	})
}

func TestLongHistoryIsReadInPages(t *testing.T) {
	in(t, &rooms{}, host.Limits{EventHistory: 2000, ConnectionBytes: 4096}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}})
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

func TestTokenUsedTwiceTakesTheConnectionOver(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		first := h.connect(host.ConnectRequest{Events: []string{"said"}})
		h.say("one")
		second := h.back(first.Welcome(), 0)
		got, _, _, err := heard(first)
		wantCode(t, err, host.Unavailable)
		if e := err.(*host.Error); e.Metadata["reason"] != "taken_over" || !slices.Equal(got, []string{"one"}) {
			t.Errorf("%v, heard %q", e, got)
		}
		if err := first.Close(t.Context(), false); err != nil { // it has nothing to end
			t.Error(err)
		}
		h.say("two")
		expect(t, second, "one", "two")
		if log := h.log(); len(log) != 0 || len(h.records()) != 1 {
			t.Errorf("%q, %d connections", log, len(h.records()))
		}
		wrong := h.connect(host.ConnectRequest{Token: first.Welcome().Connection + ".AAAAAAAAAAAAAAAAAAAAAA"})
		if w := wrong.Welcome(); w.Resumed || w.Connection == first.Welcome().Connection {
			t.Errorf("a wrong token resumed a connection: %+v", w)
		}
	})
}

func TestConnectionEndsAlthoughItsHookFails(t *testing.T) {
	for name, fail := range map[string]func(h host.Turn) error{
		"error": func(host.Turn) error { return host.Errorf(host.Unavailable, "told to") },
		"panic": func(host.Turn) error { panic("told to") },
		"stuck": func(h host.Turn) error { <-h.Done(); time.Sleep(time.Hour); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			rs := &rooms{disconnect: func(h host.Turn, r *room, _ *host.ConnectionState, _ *host.Error) error {
				r.Log = append(r.Log, "half")
				return fail(h)
			}}
			in(t, rs, host.Limits{ConnectionGrace: time.Minute}, func(t *testing.T, h *hotel) {
				left, lost := h.connect(host.ConnectRequest{}), h.connect(host.ConnectRequest{})
				closed := h.connect(host.ConnectRequest{})
				if err := left.Close(context.Background(), false); err != nil {
					t.Error(err)
				}
				if n := len(h.records()); n != 2 {
					t.Errorf("%d connections are left, want 2", n)
				}
				if err := lost.Close(context.Background(), true); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				if n := len(h.records()); n != 1 {
					t.Errorf("%d connections are left, want 1", n)
				}
				_, err := h.s.Call(context.Background(), &host.Request{
					Address: roomA, Method: host.ConnectionClose, Codec: host.JSON,
					Input: []byte(`{"connection":"` + closed.Welcome().Connection + `"}`),
				})
				if name == "error" {
					if err != nil || len(h.records()) != 0 {
						t.Errorf("closed by an operator: %v, %d connections are left", err, len(h.records()))
					}
				} else if err == nil {
					t.Error("a handler that failed was not told")
				}
				if log := h.log(); len(log) != 0 {
					t.Errorf("a hook that failed left %q", log)
				}
				time.Sleep(2 * time.Hour) // the goroutine of the stuck hooks ends
			})
		})
	}
}

func TestActorClosesAConnectionInItsTurn(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}})
		id := l.Welcome().Connection
		kick := func(fail bool) script {
			return func(t host.Turn, r *room) error {
				if err := says("bye")(t, r); err != nil {
					return err
				}
				ok, err := t.CloseConnection(id, host.Errorf(host.PermissionDenied, "out"))
				if err != nil || !ok {
					return fmt.Errorf("closed: %v, %v", ok, err)
				}
				if _, there, _ := t.Connection(id); there {
					return fmt.Errorf("it is still there")
				}
				if ok, err := t.CloseConnection(id, nil); ok || err != nil {
					return fmt.Errorf("closed twice: %v", err)
				}
				if fail {
					return host.Errorf(host.FailedPrecondition, "told to")
				}
				return nil
			}
		}
		wantCode(t, h.try(kick(true)), host.FailedPrecondition)
		h.say("still here")
		expect(t, l, "still here")
		h.run(kick(false))
		got, _, _, err := heard(l)
		wantCode(t, err, host.PermissionDenied)
		if !slices.Equal(got, []string{"bye"}) {
			t.Errorf("heard %q", got)
		}
		if log := h.log(); !slices.Equal(log, []string{"out"}) || h.wakes() != 0 {
			t.Errorf("%q, %d wake rows are left", log, h.wakes())
		}
		wantCode(t, h.try(func(t host.Turn, _ *room) error { return t.SetConnectionState(id, nil) }), host.NotFound)
	})
}

func TestStateOfAConnectionIsPartOfTheTurn(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{})
		id := l.Welcome().Connection
		h.run(func(t host.Turn, _ *room) error { return t.SetConnectionState(id, []byte{1}) })
		h.try(func(t host.Turn, _ *room) error {
			t.SetConnectionState(id, []byte{2})
			return host.Errorf(host.FailedPrecondition, "told to")
		})
		h.crash(1, 0)
		if c := h.records(); len(c) != 1 || len(c[0].State) != 1 || c[0].State[0] != 1 {
			t.Errorf("%+v", c)
		}
	})
}

func TestCallsOverATokenNameTheirConnection(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		ctx := t.Context()
		l := h.connect(host.ConnectRequest{})
		w := l.Welcome()
		caller := func(token string) (string, error) {
			who := ""
			_, err := h.s.CallOver(ctx, token, h.rooms.request(func(t host.Turn, _ *room) error {
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
			wantCode(t, h.s.Disconnect(ctx, roomA, token), host.Unauthenticated)
		}
		l = h.back(w, 0)
		if err := h.s.Disconnect(ctx, roomA, w.Token); err != nil {
			t.Fatal(err)
		}
		wantCode(t, ending(t, l), host.FailedPrecondition)
		if log := h.log(); !slices.Equal(log, []string{"left"}) {
			t.Errorf("%q", log)
		}
		_, err = caller(w.Token)
		wantCode(t, err, host.Unauthenticated)
		wantCode(t, h.s.Disconnect(ctx, host.Address{Type: "room", Key: []string{"none"}}, w.Token), host.Unauthenticated)
	})
}

func TestOperatorsListAndCloseConnections(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		call := func(method, input, key string) (string, error) {
			r, err := h.s.Call(t.Context(), &host.Request{
				Address: roomA, Method: method, Codec: host.JSON, Input: []byte(input), IdempotencyKey: key,
			})
			return string(r.Output), err
		}
		var ids []string
		lives := make(map[string]host.LiveConnection)
		for range 3 {
			l := h.connect(host.ConnectRequest{Events: []string{"said"}})
			ids = append(ids, l.Welcome().Connection)
			lives[l.Welcome().Connection] = l
		}
		slices.Sort(ids)
		if err := lives[ids[0]].Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Format(time.RFC3339)
		out, err := call(host.ConnectionList, `{"limit":2}`, "")
		rest := `,"events":["said"],"transport":"go","connected":"` + at + `"`
		want := `{"connections":[{"id":"` + ids[0] + `"` + rest + `,"lost":"` + at + `"},` +
			`{"id":"` + ids[1] + `"` + rest + `}],"more":true}`
		if out != want || err != nil {
			t.Errorf("%s, %v\nwant %s", out, err, want)
		}
		out, err = call(host.ConnectionList, `{"after":"`+ids[1]+`"}`, "")
		if !strings.Contains(out, ids[2]) || strings.Contains(out, ids[1]) || strings.Contains(out, "more") || err != nil {
			t.Errorf("%s, %v", out, err)
		}
		_, err = call(host.ConnectionList, `{"limit":1001}`, "")
		wantCode(t, err, host.InvalidArgument)
		closing := `{"connection":"` + ids[1] + `","reason":"maintenance"}`
		for range 2 { // the second is replayed
			if out, err = call(host.ConnectionClose, closing, "key"); out != `{"count":1}` || err != nil {
				t.Errorf("%s, %v", out, err)
			}
		}
		if e := ending(t, lives[ids[1]]); e.Message != "maintenance" {
			t.Error(e)
		}
		if out, err = call(host.ConnectionClose, closing, ""); out != `{"count":0}` || err != nil {
			t.Errorf("%s, %v", out, err)
		}
		_, err = call(host.ConnectionClose, `{"connection":"x","reason":"`+strings.Repeat("x", 1025)+`"}`, "")
		wantCode(t, err, host.TooLarge)
		if log := h.log(); !slices.Equal(log, []string{"maintenance"}) {
			t.Errorf("%q", log)
		}
	})
}

func TestClientThatGivesUpWhileConnectingLeavesNothing(t *testing.T) {
	for _, gone := range []bool{false, true} {
		hold := make(chan struct{})
		rs := &rooms{disconnect: noting, connect: func(host.Turn, *room, *host.ConnectionState, []byte) error {
			<-hold
			return nil
		}}
		in(t, rs, host.Limits{}, func(t *testing.T, h *hotel) {
			hold = make(chan struct{})
			h.say("x")
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := h.s.Connect(ctx, roomA, host.ConnectRequest{Events: []string{"said"}})
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
			if n := len(event.HubOf(h.s.Kernel).Audiences); n != 0 || len(h.records()) != 0 || h.wakes() != 0 {
				t.Errorf("%d audiences, %d connections, %d wake rows are left", n, len(h.records()), h.wakes())
			}
			if log := h.log(); len(log) > 1 || len(log) == 1 && log[0] != "the client gave up" {
				t.Errorf("%q", log)
			}
		})
	}
}

func TestRestartLosesNoConnection(t *testing.T) {
	for name, stop := range map[string]func(h *hotel){
		"restart": (*hotel).restart,
		"crash":   func(h *hotel) { h.crash(1, 50) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, &rooms{disconnect: noting}, host.Limits{ConnectionGrace: time.Minute}, func(t *testing.T, h *hotel) {
				const n = conn.SweepPage + 44
				var ends []host.LiveConnection
				for range n {
					ends = append(ends, h.connect(host.ConnectRequest{Events: []string{"said"}}))
				}
				ends[0].Close(t.Context(), true)
				h.say("one")
				stop(h)
				quick := h.back(ends[1].Welcome(), 0) // before or after the sweep
				time.Sleep(10 * time.Second)
				lost := 0
				for _, c := range h.records() {
					if !c.Lost.IsZero() {
						lost++
					}
				}
				if lost != n-1 {
					t.Errorf("%d connections count as lost, want %d", lost, n-1)
				}
				later := h.back(ends[2].Welcome(), 0)
				h.say("two")
				expect(t, quick, "one", "two")
				expect(t, later, "one", "two")
				time.Sleep(2 * time.Minute)
				if log := h.log(); len(log) != n-2 || len(h.records()) != 2 || h.wakes() != 1 {
					t.Errorf("%d connections ended, %d are there, with %d wake rows", len(log), len(h.records()), h.wakes())
				}
			})
		})
	}
}

func TestLossIsNotedOnceTheDiskTakesWritesAgain(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{})
		h.disk.SetFree(1)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, l.Close(ctx, true), host.DeadlineExceeded)
		_, err := h.s.Connect(t.Context(), roomA, host.ConnectRequest{Token: l.Welcome().Token})
		wantCode(t, err, host.Unavailable)
		h.disk.SetFree(1 << 40)
		time.Sleep(time.Minute)
		if c := h.records(); len(c) != 1 || c[0].Lost.IsZero() {
			t.Errorf("%+v", c)
		}
		h.back(l.Welcome(), 0)
	})
}

func TestPausedActorRefusesConnectionsAndEndsThemWhenItIsResumed(t *testing.T) {
	in(t, &rooms{disconnect: noting}, host.Limits{ConnectionGrace: time.Minute}, func(t *testing.T, h *hotel) {
		left, lost := h.connect(host.ConnectRequest{}), h.connect(host.ConnectRequest{})
		if err := lost.Close(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		operate := func(method string) {
			q := &host.Request{Address: roomA, Method: method, Codec: host.JSON}
			if _, err := h.s.Call(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		operate(host.ActorPause)
		_, err := h.s.Connect(t.Context(), roomA, host.ConnectRequest{})
		wantCode(t, err, host.ActorPaused)
		ended := make(chan error, 1)
		go func() { ended <- left.Close(context.Background(), false) }()
		time.Sleep(time.Hour)
		select {
		case err := <-ended:
			t.Errorf("a paused actor ended a connection: %v", err)
		default:
		}
		operate(host.ActorResume)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if log := h.log(); len(log) != 2 || len(h.records()) != 0 || h.wakes() != 0 {
			t.Errorf("%q; %d connections and %d wake rows are left", log, len(h.records()), h.wakes())
		}
	})
}
