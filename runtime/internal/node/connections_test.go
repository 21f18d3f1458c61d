package node

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// in runs a test in a bubble with a hotel.
func in(t *testing.T, d puppetType, limits host.Limits, f func(t *testing.T, h *hotel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHotel(t, d, limits)) })
}

func TestConnectHookSeesAllAndCredentialsAreNotStored(t *testing.T) {
	const params = `{"name":"ann","Access-Token":"s3cret","deep":[{"my_password":"s3cret","n":12345678901234567890}]}`
	var saw string
	d := puppetType{connect: func(p *puppet, h host.Turn) error {
		saw, p.conn.State = string(p.given), []byte{0x01}
		if h.Caller() != p.conn.ID {
			return fmt.Errorf("the caller is %q", h.Caller())
		}
		return h.EmitTo(evSaid, []byte(`"welcome"`), p.conn.ID, nil)
	}}
	in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Params: []byte(params), Transport: "sse"})
		if saw != params {
			t.Errorf("the hook saw %s", saw)
		}
		w := l.Welcome()
		if w.Resumed || w.Cursor != 0 || !strings.HasPrefix(w.Token, w.Connection+".") {
			t.Errorf("welcome %+v", w)
		}
		c := h.records()[0]
		if c.ID != w.Connection || string(c.Params) != `{"deep":[{"n":12345678901234567890}],"name":"ann"}` ||
			!bytes.Equal(c.State, []byte{0x01}) || c.Transport != "sse" || c.Connected.IsZero() || !c.Lost.IsZero() {
			t.Errorf("stored %+v, parameters %s", c, c.Params)
		}
		page, err := h.Inspect(t.Context(), pAddr("a"), host.InspectQuery{ValueBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_, secret, _ := strings.Cut(w.Token, ".")
		for _, k := range page.Keys {
			if bytes.Contains(k.Value, []byte("s3cret")) || bytes.Contains(k.Value, []byte(secret)) {
				t.Errorf("%s holds a secret", k.Text)
			}
		}
		expect(t, l, "welcome")
	})
}

func TestConnectHookKeepsWhatItSets(t *testing.T) {
	d := puppetType{connect: func(p *puppet, _ host.Turn) error { p.conn.Params = p.given; return nil }}
	in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
		h.connect(host.ConnectRequest{Params: []byte(`{"token":"kept"}`)})
		if got := string(h.records()[0].Params); got != `{"token":"kept"}` {
			t.Errorf("stored %s", got)
		}
	})
}

func TestConnectIsChecked(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		for _, c := range []struct {
			name string
			r    host.ConnectRequest
			want host.Code
		}{
			{"existing", host.ConnectRequest{Existing: true}, host.NotFound},
			{"unknown event", host.ConnectRequest{Events: []string{"sung"}}, host.InvalidArgument},
			{"parameters that are not JSON", host.ConnectRequest{Params: []byte("{")}, host.InvalidArgument},
			{"large parameters", host.ConnectRequest{Params: make([]byte, host.MaxConnectionParams+1)}, host.TooLarge},
			{"unknown transport", host.ConnectRequest{Transport: "pigeon"}, host.InvalidArgument},
		} {
			if _, err := h.Connect(context.Background(), pAddr("a"), c.r); host.CodeOf(err) != c.want {
				t.Errorf("%s: %v, want the code %q", c.name, err, c.want)
			}
		}
		_, err := h.Connect(t.Context(), host.Address{Type: "other"}, host.ConnectRequest{})
		wantCode(t, err, host.UnknownType)
	})
}

func TestConnectionGetsWhatIsForIt(t *testing.T) {
	d := puppetType{subscribe: add(0)}
	in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
		h.say("before")
		anonymous, err := h.Subscribe(t.Context(), pAddr("a"), host.Subscription{})
		if err != nil {
			t.Fatal(err)
		}
		defer anonymous.Close()
		a := h.connect(host.ConnectRequest{Events: []string{"said", "said"}})
		b := h.connect(host.ConnectRequest{Events: []string{"said", "private"}})
		c := h.connect(host.ConnectRequest{})
		if w := a.Welcome(); w.Cursor != 1 || !slices.Equal(w.Events, []string{"said"}) {
			t.Errorf("welcome %+v", w)
		}
		h.must("a", func(_ *puppet, t host.Turn) error {
			for _, err := range []error{
				t.EmitTo(evSaid, []byte(`"to a"`), a.Welcome().Connection, nil),
				t.EmitTo(evSaid, []byte(`"all but a"`), "", []string{a.Welcome().Connection}),
				t.EmitTo(evSaid, []byte(`"to c"`), c.Welcome().Connection, nil),
				t.Emit(evPrivate, []byte(`"private"`)),
				t.Emit(evSaid, []byte(`"all"`)),
				t.EmitTo(evSaid, []byte(`"nobody but c"`), "", []string{
					a.Welcome().Connection, b.Welcome().Connection, "x", "y", "z",
				}),
			} {
				if err != nil {
					return err
				}
			}
			return nil
		})
		expect(t, a, "to a", "all")
		expect(t, b, "all but a", "private", "all")
		expect(t, c, "to c")
		again := h.connect(host.ConnectRequest{Token: a.Welcome().Token, After: 1, HasAfter: true}) // reads them from the history
		expect(t, again, "to a", "all")
		d, err := anonymous.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range d.Events {
			got = append(got, string(e.Data))
		}
		if want := []string{`"all but a"`, `"all"`, `"nobody but c"`}; !slices.Equal(got, want) || d.Missed != 0 {
			t.Errorf("an anonymous subscriber heard %q, missed %d; want %q", got, d.Missed, want)
		}
		err = h.do("a", func(_ *puppet, t host.Turn) error { return t.EmitTo(evSaid, []byte("1"), "nobody", nil) })
		wantCode(t, err, host.NotFound)
		err = h.do("a", func(_ *puppet, t host.Turn) error {
			return t.EmitTo(evSaid, []byte("1"), a.Welcome().Connection, []string{"x"})
		})
		wantCode(t, err, host.InvalidArgument)
	})
}

func TestAnonymousSubscribersAreKeptOut(t *testing.T) {
	in(t, puppetType{subscribe: add(0)}, host.Limits{}, func(t *testing.T, h *hotel) {
		_, err := h.Subscribe(t.Context(), pAddr("a"), host.Subscription{Names: []string{"private"}})
		wantCode(t, err, host.PermissionDenied)
	})
	in(t, puppetType{connect: add(0)}, host.Limits{}, func(t *testing.T, h *hotel) {
		_, err := h.Subscribe(t.Context(), pAddr("a"), host.Subscription{})
		wantCode(t, err, host.PermissionDenied)
	})
}

func TestActorSleepsWhileClientsStayAndACallWakesIt(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(listening)
		time.Sleep(time.Hour)
		synctest.Wait()
		st, err := h.Lookup(t.Context(), pAddr("a"))
		if err != nil || st.State != host.Asleep || st.Connections != 1 {
			t.Errorf("%+v, %v", st, err)
		}
		caller := ""
		if _, err := l.Call(t.Context(), request(func(p *puppet, t host.Turn) error {
			caller = t.Caller()
			return says("good morning")(p, t)
		})); err != nil {
			t.Fatal(err)
		}
		if caller != l.Welcome().Connection {
			t.Errorf("the caller is %q", caller)
		}
		if _, err = l.Call(t.Context(), &host.Request{Method: "look", Codec: host.JSON,
			Input: remember(glance(func(_ *puppetState, r host.Reader) error { caller = "query by " + r.Caller(); return nil }))}); err != nil ||
			caller != "query by "+l.Welcome().Connection {
			t.Errorf("the caller of a query is %q, %v", caller, err)
		}
		expect(t, l, "good morning")
	})
}

func TestTurnCannotHoldAConnection(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		err := h.do("a", func(_ *puppet, turn host.Turn) error {
			_, err := h.Connect(turn, pAddr("a"), host.ConnectRequest{})
			return err
		})
		wantCode(t, err, host.FailedPrecondition)
	})
}

func TestEventsThatShareTheCommitOfAConnectionAreDelivered(t *testing.T) {
	for _, connecting := range []bool{true, false} {
		in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
			h.say("before")
			old := h.connect(host.ConnectRequest{})
			hold := make(chan struct{})
			go h.do("a", func(*puppet, host.Turn) error { <-hold; return nil })
			synctest.Wait()
			// All of this waits, and is worked through as one batch.
			joined := make(chan host.LiveConnection, 1)
			go h.do("a", says("earlier"))
			synctest.Wait()
			go func() {
				if connecting {
					joined <- h.connect(listening)
					return
				}
				if err := old.Subscribe(context.Background(), "said"); err != nil {
					t.Error(err)
				}
				joined <- old
			}()
			synctest.Wait()
			go h.do("a", says("later"))
			synctest.Wait()
			a := h.Find(pAddr("a"))
			before := a.Applied.Load()
			close(hold)
			expect(t, <-joined, "later")
			if n := a.Applied.Load() - before; n > 2 {
				t.Errorf("%d commits: the last two turns did not share one", n)
			}
		})
	}
}
