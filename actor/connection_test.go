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
	ensure(r, err)
	return c, c.Welcome().Connection
}

// gets checks the next events of a client.
func (r *rig) gets(c host.LiveConnection, want ...string) {
	r.Helper()
	var got []string
	for len(got) < len(want) {
		d, err := c.Next(r.Context())
		ensure(r, err)
		for _, e := range d.Events {
			got = append(got, e.Name+" "+string(e.Data))
		}
	}
	errorIf(r, !slices.Equal(got, want), "the client got %q, want %q", got, want)
}

func TestAllConnectionsAreListedToTheLast(t *testing.T) {
	onNode(t, func(r *rig) {
		var want, inside, outside []string
		for i := range 600 { // more than a page
			_, id := r.client(fmt.Sprint(i))
			want = append(want, id)
		}
		slices.Sort(want)
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			for _, c := range all(r, r.clients.All(ctx)) {
				inside = append(inside, c.ID)
			}
			return nil
		})
		for _, c := range all(r, r.clients.Of(r.ref).List(r.Context())) {
			outside = append(outside, c.ID)
		}
		errorIf(r, !slices.Equal(inside, want) || !slices.Equal(outside, want), "%d inside, %d outside", len(inside), len(outside))
		for _, was := range []bool{true, false} {
			got, err := r.clients.Of(r.ref).Close(r.Context(), want[1], "tidying up")
			errorIf(r, got != was || err != nil, "close: %t, %v", got, err)
		}
	})
}

func TestConnectHookRefusesAndForgets(t *testing.T) {
	onNode(t, func(r *rig) {
		_, plain := r.client("plain")
		r.join = func(ctx *actor.Context, c *actor.Connection[member], p job) error {
			if p.Name == "bad" {
				return actor.Errorf(actor.PermissionDenied, "not you")
			}
			own, ok, err := r.clients.Get(ctx, c.ID) // its own connection, not a copy
			errorIf(r, err != nil || !ok || own != c, "%v, %t, %v", own, ok, err)
			own.State.Nick = "set"
			check(r, own.Save(ctx))
			own.State.Nick = "set again"
			return c.ForgetParams()
		}
		_, err := r.connect(`{"name":"bad"}`)
		hasCode(r, "bad", err, actor.PermissionDenied)
		_, good := r.client("good")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			for id, want := range map[string]string{good: "set again ", plain: "plain plain"} {
				c, ok, err := r.clients.Get(ctx, id)
				if err != nil || !ok {
					return errors.Join(err, errors.New("it is gone"))
				}
				p, err := r.clients.Params(c)
				errorIf(r, err != nil || c.State.Nick+" "+p.Name != want, "%+v, parameters %v, %v", c, p, err)
				errorIf(r, c.Transport != "go" || !c.Connected.Equal(time.Now()) || len(c.Events) != 0 || c.Lost != nil, "%+v", c)
				hasCode(r, "forget later", c.ForgetParams(), actor.FailedPrecondition)
				c.State.Nick += "!"
				check(r, c.Save(ctx))
			}
			_, ok, err := r.clients.Get(ctx, "none")
			errorIf(r, ok || err != nil, "none: %t, %v", ok, err)
			return nil
		})
		r.look(func(ctx actor.Reader) error {
			for _, c := range all(r, r.clients.All(ctx)) {
				errorIf(r, !strings.HasSuffix(c.State.Nick, "!"), "%+v", c)
			}
			return nil
		})
	})
}

func TestSubscribeHookIsAskedWithTheConnection(t *testing.T) {
	onNode(t, func(r *rig) {
		r.subscribe = func(ctx *actor.Context, info handle.ConnectionInfo) error {
			c, ok, err := r.clients.Get(ctx, info.ID)
			errorIf(r, err != nil || !ok || info.Transport != "go" || info.Lost != nil, "%+v, %t, %v", info, ok, err)
			if c.State.Nick == "MUTE" {
				return actor.Errorf(actor.PermissionDenied, "not you")
			}
			c.State.Nick += "!"
			return c.Save(ctx)
		}
		r.client("ONE", "said", "nothing")
		later, _ := r.client("TWO", "nothing")
		check(r, later.Subscribe(r.Context(), "said"))
		_, err := r.connect(`{"name":"MUTE"}`, "said")
		hasCode(r, "mute", err, actor.PermissionDenied)
		var got []string
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			for _, c := range all(r, r.clients.All(ctx)) {
				slices.Sort(c.Events)
				got = append(got, fmt.Sprint(c.State.Nick, c.Events))
			}
			return nil
		})
		slices.Sort(got)
		errorIf(r, !slices.Equal(got, []string{"ONE![nothing said]", "TWO![nothing said]"}), "%q", got)
	})
}

func TestEventsGoToSomeConnections(t *testing.T) {
	onNode(t, func(r *rig) {
		one, id := r.client("ONE", "said", "nothing")
		two, _ := r.client("TWO", "said")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.said.EmitTo(ctx, id, "to one")
			r.said.EmitExcept(ctx, "not to one", id)
			r.nothing.Emit(ctx, actor.None{})
			return r.said.EmitExcept(ctx, "<to all>")
		})
		r.gets(one, `said "to one"`, `nothing null`, `said "<to all>"`)
		r.gets(two, `said "not to one"`, `said "<to all>"`)
		v, err := r.said.Decode([]byte(`"<one>"`))
		errorIf(r, err != nil || v != "<one>", "%q, %v", v, err)
		_, err = r.said.Decode([]byte(`1`))
		hasCode(r, "decode", err, actor.InvalidArgument)
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
		{with, `{"name":1}`, `field "name": a JSON number where a string is expected`}, {with, `[]`,
			"a JSON array where an object is expected"},
		{without, "", ""}, {without, "null", ""}, {without, "{}", ""}, {without, `{"a":1}`, "parameters"}, {plain, `{"any":"thing"}`, ""},
	} {
		err := c.of.Connect(&stub{}, &host.ConnectionState{}, []byte(c.params))
		if (err == nil) != (c.want == "") ||
			err != nil && (actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.params, err, c.want)
		}
		leaksNoGoTypes(t, err)
	}
	check(t, without.Disconnect(&stub{}, &host.ConnectionState{}, nil), plain.Disconnect(&stub{}, nil, nil)) // there are no hooks
}

func TestStoredStateThatDoesNotDecodeIsAnError(t *testing.T) {
	d := newDesks("desk")
	bad := host.ConnectionState{ID: "one", State: []byte("\x01"), Params: []byte("1")}
	check(t, d.act(&stub{connections: []host.ConnectionState{bad}}, func(ctx *actor.Context) error {
		hasCode(t, "get", third(d.clients.Get(ctx, "one")), actor.Internal)
		hasCode(t, "all", first(d.clients.All(ctx)), actor.Internal)
		return nil
	}))
	hasCode(t, "disconnect", d.definition().Behavior().New().Disconnect(&stub{}, &bad, nil), actor.Internal)
}
