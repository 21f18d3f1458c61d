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
func in(t *testing.T, rs *rooms, limits host.Limits, f func(t *testing.T, h *hotel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHotel(t, rs, limits)) })
}

func TestConnectHookSeesAllAndCredentialsAreNotStored(t *testing.T) {
	const params = `{"name":"ann","Access-Token":"s3cret","deep":[{"my_password":"s3cret","n":12345678901234567890}]}`
	var saw string
	rs := &rooms{connect: func(h host.Turn, r *room, c *host.ConnectionState, params []byte) error {
		saw = string(params)
		r.Log = append(r.Log, "joined "+c.ID)
		c.State = []byte{0x01}
		if h.Caller() != c.ID {
			return fmt.Errorf("the caller is %q", h.Caller())
		}
		return h.EmitTo(evSaid, []byte(`"welcome"`), c.ID, nil)
	}}
	in(t, rs, host.Limits{}, func(t *testing.T, h *hotel) {
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
		page, err := h.s.Inspect(t.Context(), roomA, host.InspectQuery{ValueBytes: 1 << 20})
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
	rs := &rooms{connect: func(_ host.Turn, _ *room, c *host.ConnectionState, params []byte) error {
		c.Params = params
		return nil
	}}
	in(t, rs, host.Limits{}, func(t *testing.T, h *hotel) {
		h.connect(host.ConnectRequest{Params: []byte(`{"token":"kept"}`)})
		if got := string(h.records()[0].Params); got != `{"token":"kept"}` {
			t.Errorf("stored %s", got)
		}
	})
}

func TestConnectIsChecked(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
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
			if _, err := h.s.Connect(context.Background(), roomA, c.r); host.CodeOf(err) != c.want {
				t.Errorf("%s: %v, want the code %q", c.name, err, c.want)
			}
		}
		_, err := h.s.Connect(t.Context(), host.Address{Type: "other"}, host.ConnectRequest{})
		wantCode(t, err, host.UnknownType)
	})
}

func TestConnectionGetsWhatIsForIt(t *testing.T) {
	rs := &rooms{subscribe: func(host.Turn, int, *host.ConnectionState) error { return nil }}
	in(t, rs, host.Limits{}, func(t *testing.T, h *hotel) {
		h.say("before")
		anonymous, err := h.s.Subscribe(t.Context(), roomA, host.Subscription{})
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
		h.run(func(t host.Turn, _ *room) error {
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
		err = h.try(func(t host.Turn, _ *room) error { return t.EmitTo(evSaid, []byte("1"), "nobody", nil) })
		wantCode(t, err, host.NotFound)
		err = h.try(func(t host.Turn, _ *room) error {
			return t.EmitTo(evSaid, []byte("1"), a.Welcome().Connection, []string{"x"})
		})
		wantCode(t, err, host.InvalidArgument)
	})
}

func TestAnonymousSubscribersAreKeptOut(t *testing.T) {
	may := func(host.Turn, int, *host.ConnectionState) error { return nil }
	in(t, &rooms{subscribe: may}, host.Limits{}, func(t *testing.T, h *hotel) {
		_, err := h.s.Subscribe(t.Context(), roomA, host.Subscription{Names: []string{"private"}})
		wantCode(t, err, host.PermissionDenied)
	})
	join := func(host.Turn, *room, *host.ConnectionState, []byte) error { return nil }
	in(t, &rooms{connect: join}, host.Limits{}, func(t *testing.T, h *hotel) {
		_, err := h.s.Subscribe(t.Context(), roomA, host.Subscription{})
		wantCode(t, err, host.PermissionDenied)
	})
}

func TestActorSleepsWhileClientsStayAndACallWakesIt(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Events: []string{"said"}})
		time.Sleep(time.Hour)
		synctest.Wait()
		st, err := h.s.Lookup(t.Context(), roomA)
		if err != nil || st.State != host.Asleep || st.Connections != 1 {
			t.Errorf("%+v, %v", st, err)
		}
		caller := ""
		if _, err := l.Call(t.Context(), h.rooms.request(func(t host.Turn, r *room) error {
			caller = t.Caller()
			return says("good morning")(t, r)
		})); err != nil {
			t.Fatal(err)
		}
		if caller != l.Welcome().Connection {
			t.Errorf("the caller is %q", caller)
		}
		reply, err := l.Call(t.Context(), &host.Request{Method: "who", Codec: host.JSON})
		if err != nil || string(reply.Output) != l.Welcome().Connection {
			t.Errorf("the caller of a query is %q, %v", reply.Output, err)
		}
		expect(t, l, "good morning")
	})
}

func TestTurnCannotHoldAConnection(t *testing.T) {
	in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
		err := h.try(func(turn host.Turn, _ *room) error {
			_, err := h.s.Connect(turn, roomA, host.ConnectRequest{})
			return err
		})
		wantCode(t, err, host.FailedPrecondition)
	})
}

func TestEventsThatShareTheCommitOfAConnectionAreDelivered(t *testing.T) {
	for _, connecting := range []bool{true, false} {
		in(t, &rooms{}, host.Limits{}, func(t *testing.T, h *hotel) {
			h.say("before")
			old := h.connect(host.ConnectRequest{})
			hold := make(chan struct{})
			go h.try(func(host.Turn, *room) error { <-hold; return nil })
			synctest.Wait()
			// All of this waits, and is worked through as one batch.
			joined := make(chan host.LiveConnection, 1)
			go h.try(says("earlier"))
			synctest.Wait()
			go func() {
				if connecting {
					joined <- h.connect(host.ConnectRequest{Events: []string{"said"}})
					return
				}
				if err := old.Subscribe(context.Background(), "said"); err != nil {
					t.Error(err)
				}
				joined <- old
			}()
			synctest.Wait()
			go h.try(says("later"))
			synctest.Wait()
			a := h.s.Find(roomA)
			before := a.Applied.Load()
			close(hold)
			expect(t, <-joined, "later")
			if n := a.Applied.Load() - before; n > 2 {
				t.Errorf("%d commits: the last two turns did not share one", n)
			}
		})
	}
}
