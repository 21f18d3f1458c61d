package actor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

var atA = host.Address{Type: "desk", Key: []string{"a"}}

// connect connects a client, with JSON parameters.
func (r *rig) connect(params string, events ...string) (host.LiveConnection, error) {
	return r.node.Connect(r.Context(), atA, host.ConnectRequest{Params: []byte(params), Events: events, Transport: "go"})
}

// client connects a client with a nickname and returns it and its id.
func (r *rig) client(nick string, events ...string) (host.LiveConnection, string) {
	r.Helper()
	c, err := r.connect(`{"name":"`+nick+`"}`, events...)
	if err != nil {
		r.Fatal(err)
	}
	return c, c.Welcome().Connection
}

// gets checks the next events of a client.
func (r *rig) gets(c host.LiveConnection, want ...string) {
	r.Helper()
	var got []string
	for len(got) < len(want) {
		d, err := c.Next(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		for _, e := range d.Events {
			got = append(got, e.Name+" "+string(e.Data))
		}
	}
	if !slices.Equal(got, want) {
		r.Errorf("the client got %q, want %q", got, want)
	}
}

func TestConnectHooksStateIsStoredWhenItReturns(t *testing.T) {
	onNode(t, func(r *rig) {
		r.client("ONE")
		_, two := r.client("TWO")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			c, ok, err := r.clients.Get(ctx, two)
			if err != nil || !ok || c.State.Nick != "TWO" || c.Transport != "go" || !c.Connected.Equal(time.Now()) || len(c.Events) != 0 || c.Lost != nil {
				t.Fatalf("%+v, %t, %v", c, ok, err)
			}
			if p, err := r.clients.Params(c); err != nil || p.Name != "TWO" {
				t.Errorf("parameters %v, %v", p, err)
			}
			if _, ok, err := r.clients.Get(ctx, "three"); ok || err != nil {
				t.Errorf("three: %t, %v", ok, err)
			}
			c.State.Nick = "Second"
			return c.Save(ctx)
		})
		r.look(func(ctx actor.Reader) error {
			var nicks []string
			for c, err := range r.clients.All(ctx) {
				if err != nil {
					return err
				}
				nicks = append(nicks, c.State.Nick)
			}
			if slices.Sort(nicks); !slices.Equal(nicks, []string{"ONE", "Second"}) {
				t.Errorf("%q", nicks)
			}
			return nil
		})
	})
}

func TestAllConnectionsAreListedToTheLast(t *testing.T) {
	onNode(t, func(r *rig) {
		var want []string
		for i := range 600 { // more than a page
			_, id := r.client(fmt.Sprint(i))
			want = append(want, id)
		}
		slices.Sort(want)
		var inside, outside []string
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			for c, err := range r.clients.All(ctx) {
				if err != nil {
					return err
				}
				inside = append(inside, c.ID)
			}
			return nil
		})
		for c, err := range r.clients.Of(r.ref).List(r.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			outside = append(outside, c.ID)
		}
		if !slices.Equal(inside, want) || !slices.Equal(outside, want) {
			t.Errorf("%d inside, %d outside", len(inside), len(outside))
		}
		for _, was := range []bool{true, false} {
			if got, err := r.clients.Of(r.ref).Close(r.Context(), want[1], "tidying up"); got != was || err != nil {
				t.Errorf("%t, %v", got, err)
			}
		}
	})
}

func TestConnectHookRefusesAndForgets(t *testing.T) {
	onNode(t, func(r *rig) {
		r.join = func(ctx *actor.Context, c *actor.Connection[member], p job) error {
			if p.Name == "bad" {
				return actor.Errorf(actor.PermissionDenied, "not you")
			}
			own, ok, err := r.clients.Get(ctx, c.ID) // its own connection, not a copy
			if err != nil || !ok || own != c {
				t.Errorf("%v, %t, %v", own, ok, err)
			}
			own.State.Nick = "set"
			if err := own.Save(ctx); err != nil {
				return err
			}
			own.State.Nick = "set again"
			return c.ForgetParams()
		}
		if _, err := r.connect(`{"name":"bad"}`); actor.CodeOf(err) != actor.PermissionDenied {
			t.Error(err)
		}
		_, good := r.client("good")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			c, ok, err := r.clients.Get(ctx, good)
			if err != nil || !ok || c.State.Nick != "set again" {
				t.Fatalf("%+v, %t, %v", c, ok, err)
			}
			if p, err := r.clients.Params(c); p.Name != "" || err != nil {
				t.Errorf("parameters are kept: %v, %v", p, err)
			}
			if err := c.ForgetParams(); actor.CodeOf(err) != actor.FailedPrecondition {
				t.Errorf("forget later: %v", err)
			}
			return nil
		})
	})
}

func TestDisconnectHookSeesTheLastState(t *testing.T) {
	onNode(t, func(r *rig) {
		one, _ := r.client("ONE")
		_, second := r.client("TWO")
		leave := r.leave
		r.leave = func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error {
			if _, ok, err := r.clients.Get(ctx, second); c.State.Nick == "ONE" && (!ok || err != nil) {
				t.Errorf("the others are gone: %v", err)
			}
			if err := c.Save(ctx); err != nil { // nothing to save it to, and no harm
				return err
			}
			return leave(s, ctx, c)
		}
		if err := one.Close(r.Context(), false); err != nil {
			t.Error(err)
		}
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			c, ok, err := r.clients.Get(ctx, second)
			if err != nil || !ok {
				return err
			}
			was, err := c.Close(ctx, actor.Errorf(actor.PermissionDenied, "out"))
			again, err2 := c.Close(ctx, nil)
			if !was || again || err != nil || err2 != nil || ctx.DisconnectCause() != nil {
				t.Errorf("close: %t, %t, %v, %v", was, again, err, err2)
			}
			return nil
		})
		r.logged("leave ONE <nil>", "leave TWO permission_denied: out")
	})
}

func TestSubscribeHookIsAskedWithTheConnection(t *testing.T) {
	onNode(t, func(r *rig) {
		r.subscribe = func(ctx *actor.Context, info handle.ConnectionInfo) error {
			c, ok, err := r.clients.Get(ctx, info.ID)
			if err != nil || !ok || info.Transport != "go" || info.Lost != nil {
				t.Errorf("%+v, %t, %v", info, ok, err)
			}
			if c.State.Nick == "MUTE" {
				return actor.Errorf(actor.PermissionDenied, "not you")
			}
			c.State.Nick += "!"
			return c.Save(ctx)
		}
		_, one := r.client("ONE", "said", "nothing")
		later, _ := r.client("TWO", "nothing")
		if err := later.Subscribe(r.Context(), "said"); err != nil {
			t.Error(err)
		}
		if _, err := r.connect(`{"name":"MUTE"}`, "said"); actor.CodeOf(err) != actor.PermissionDenied {
			t.Error(err)
		}
		for id, nick := range map[string]string{one: "ONE!", later.Welcome().Connection: "TWO!"} {
			r.mustTurn(func(_ *desk, ctx *actor.Context) error {
				c, ok, err := r.clients.Get(ctx, id)
				if slices.Sort(c.Events); err != nil || !ok || c.State.Nick != nick || !slices.Equal(c.Events, []string{"nothing", "said"}) {
					t.Errorf("%+v, %t, %v", c, ok, err)
				}
				return nil
			})
		}
	})
}

func TestEventsGoToSomeConnections(t *testing.T) {
	onNode(t, func(r *rig) {
		one, id := r.client("ONE", "said")
		two, _ := r.client("TWO", "said")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.said.EmitTo(ctx, id, "to one")
			r.said.EmitExcept(ctx, "not to one", id)
			return r.said.EmitExcept(ctx, "to all")
		})
		r.gets(one, `said "to one"`, `said "to all"`)
		r.gets(two, `said "not to one"`, `said "to all"`)
	})
}

func TestParametersDecodeStrictlyAndMayBeMissing(t *testing.T) {
	typ := actor.NewType[desk]("desk")
	without := actor.Define(typ, actor.Spec[desk]{}, actor.OnConnect(actor.NewConnections[actor.None, actor.None](typ),
		func(_ *desk, ctx *actor.Context, c *actor.Connection[actor.None], _ actor.None) error {
			return c.Save(ctx)
		})).Behavior().New()
	with := newDesks("desk").definition().Behavior().New()
	plain := actor.Define(actor.NewType[desk]("desk"), actor.Spec[desk]{}).Behavior().New()
	for _, c := range []struct {
		of           host.Instance
		params, want string // "" is accepted
	}{
		{with, "", ""}, {with, "null", ""}, {with, " \n", ""}, {with, "{}", ""}, {with, `{"name":"x"}`, ""},
		{with, `{"nam":1}`, `parameters of the connection: unknown field "nam"`}, {with, `{}x`, "data after the JSON value"},
		{with, `{"name":1}`, `field "name": a JSON number where a string is expected`}, {with, `[]`, "a JSON array where an object is expected"},
		{without, "", ""}, {without, "null", ""}, {without, "{}", ""}, {without, `{"a":1}`, "parameters"}, {plain, `{"any":"thing"}`, ""},
	} {
		err := c.of.Connect(&stub{}, &host.ConnectionState{}, []byte(c.params))
		if (err == nil) != (c.want == "") || err != nil && (actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.params, err, c.want)
		}
		if err != nil {
			leaksNoGoTypes(t, err)
		}
	}
	if err := errors.Join(without.Disconnect(&stub{}, &host.ConnectionState{}, nil), plain.Disconnect(&stub{}, nil, nil)); err != nil {
		t.Errorf("without hooks: %v", err)
	}
}

func TestStoredStateThatDoesNotDecodeIsAnError(t *testing.T) {
	d := newDesks("desk")
	bad := host.ConnectionState{ID: "one", State: []byte("\x01"), Params: []byte("1")}
	if err := d.act(&stub{connections: []host.ConnectionState{bad}}, func(ctx *actor.Context) error {
		if _, _, err := d.clients.Get(ctx, "one"); actor.CodeOf(err) != actor.Internal {
			t.Errorf("get: %v", err)
		}
		if err := first(d.clients.All(ctx)); actor.CodeOf(err) != actor.Internal {
			t.Errorf("all: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := d.definition().Behavior().New().Disconnect(&stub{}, &bad, nil); actor.CodeOf(err) != actor.Internal {
		t.Errorf("disconnect: %v", err)
	}
}
