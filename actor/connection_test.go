package actor_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

var atA = host.Address{Type: "desk", Key: []string{"a"}}

// joining accepts all clients, with the nickname of the parameters.
func joining(d *desks) {
	d.join = func(s *desk, ctx *actor.Context, c *actor.Connection[member], p job) error {
		s.logf("join %s %s", c.ID, p.Name)
		c.State.Nick = p.Name
		return nil
	}
	d.leave = func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error {
		s.logf("leave %s %s %v", c.ID, c.State.Nick, ctx.DisconnectCause())
		return nil
	}
	d.subscribe = func(*desk, *actor.Context, handle.ConnectionInfo) error { return nil }
}

func mustConnect(t testing.TB, n *fakeNode, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := n.connect(t.Context(), atA, id, `{"name":"`+strings.ToUpper(id)+`"}`); err != nil {
			t.Fatal(err)
		}
	}
}

func TestConnectHooksStateIsStoredWhenItReturns(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "one", "two")
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		c, ok, err := d.clients.Get(ctx, "two")
		if err != nil || !ok || c.State.Nick != "TWO" || c.Transport != "go" || !c.Connected.Equal(n.now) || len(c.Events) != 0 {
			return fmt.Errorf("%+v, %t, %w", c, ok, err)
		}
		if c.Lost != nil {
			return errors.New("it is lost")
		}
		p, err := d.clients.Params(c)
		if err != nil || p.Name != "TWO" {
			return fmt.Errorf("parameters %v, %w", p, err)
		}
		if _, ok, err := d.clients.Get(ctx, "three"); ok || err != nil {
			return fmt.Errorf("three: %t, %w", ok, err)
		}
		c.State.Nick = "Second"
		return c.Save(ctx)
	})
	look := func(ctx actor.Reader) error {
		var nicks []string
		for c, err := range d.clients.All(ctx) {
			if err != nil {
				return err
			}
			nicks = append(nicks, c.State.Nick)
		}
		if !slices.Equal(nicks, []string{"ONE", "Second"}) {
			return fmt.Errorf("%q", nicks)
		}
		return nil
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error { return look(ctx) })
	d.read = func(ctx *actor.ReadContext) error {
		if ctx.Caller() != "" {
			return errors.New("the query came over a connection")
		}
		return look(ctx)
	}
	if _, err := d.log.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{}); err != nil {
		t.Error(err)
	}
}

func TestAllListsMoreConnectionsThanAPage(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	for i := range 600 {
		mustConnect(t, n, fmt.Sprintf("c%03d", i))
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		count := 0
		for c, err := range d.clients.All(ctx) {
			if err != nil || c.ID != fmt.Sprintf("c%03d", count) {
				return fmt.Errorf("%d: %s, %w", count, c.ID, err)
			}
			count++
		}
		if count != 600 {
			return fmt.Errorf("%d connections", count)
		}
		return nil
	})
}

func TestParametersDecodeStrictlyAndMayBeMissing(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	for i, params := range []string{"", "null", " \n", "{}", `{"name":"x"}`} {
		if err := n.connect(t.Context(), atA, fmt.Sprint("c", i), params); err != nil {
			t.Errorf("%q: %v", params, err)
		}
	}
	for params, want := range map[string]string{
		`{"nam":1}`:  `parameters of the connection: unknown field "nam"`,
		`{"name":1}`: `field "name": a JSON number where a string is expected`,
		`[]`:         "a JSON array where an object is expected",
		`{}x`:        "data after the JSON value",
	} {
		err := n.connect(t.Context(), atA, "bad", params)
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
		leaksNoGoTypes(t, err)
	}
	if _, ok := n.actors["desk/a"].holding.connections["bad"]; ok {
		t.Error("a refused client is connected")
	}
}

func TestConnectHookRefusesAndForgets(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	d.join = func(s *desk, ctx *actor.Context, c *actor.Connection[member], p job) error {
		if p.Name == "bad" {
			return actor.Errorf(actor.PermissionDenied, "not you")
		}
		own, ok, err := d.clients.Get(ctx, c.ID) // its own connection, not a copy
		if err != nil || !ok || own != c {
			return fmt.Errorf("%v, %t, %w", own, ok, err)
		}
		for other, err := range d.clients.All(ctx) {
			if err != nil || other != c {
				return fmt.Errorf("%v, %w", other, err)
			}
		}
		own.State.Nick = "set"
		if err := own.Save(ctx); err != nil {
			return err
		}
		own.State.Nick = "set again"
		return c.ForgetParams()
	}
	if err := n.connect(t.Context(), atA, "bad", `{"name":"bad"}`); actor.CodeOf(err) != actor.PermissionDenied {
		t.Error(err)
	}
	if err := n.connect(t.Context(), atA, "good", `{"name":"good"}`); err != nil {
		t.Fatal(err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		c, ok, err := d.clients.Get(ctx, "good")
		if err != nil || !ok || c.State.Nick != "set again" {
			return fmt.Errorf("%+v, %t, %w", c, ok, err)
		}
		if err := c.ForgetParams(); actor.CodeOf(err) != actor.FailedPrecondition {
			return fmt.Errorf("forget later: %w", err)
		}
		return nil
	})
}

func TestDisconnectHookSeesTheLastState(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "one", "two", "three")
	leave := d.leave
	d.leave = func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error {
		if _, ok, err := ctxGet(d, ctx, "two"); c.ID == "one" && (!ok || err != nil) {
			return fmt.Errorf("the others are gone: %w", err)
		}
		if err := c.Save(ctx); err != nil { // nothing to save it to, and no harm
			return err
		}
		return leave(s, ctx, c)
	}
	if err := n.disconnect(t.Context(), atA, "one", nil); err != nil {
		t.Fatal(err)
	}
	if err := n.disconnect(t.Context(), atA, "two", host.Errorf(host.Unavailable, "it did not come back")); err != nil {
		t.Fatal(err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		c, ok, err := d.clients.Get(ctx, "three")
		if err != nil || !ok {
			return err
		}
		was, err := c.Close(ctx, actor.Errorf(actor.PermissionDenied, "out"))
		again, err2 := c.Close(ctx, nil)
		if !was || again || err != nil || err2 != nil || ctx.DisconnectCause() != nil {
			return fmt.Errorf("close: %t, %t, %v, %v", was, again, err, err2)
		}
		return nil
	})
	d.logged(t, n, "join one ONE", "join two TWO", "join three THREE", "leave one ONE <nil>",
		"leave two TWO unavailable: it did not come back", "leave three THREE permission_denied: out")
}

func ctxGet(d *desks, ctx *actor.Context, id string) (*actor.Connection[member], bool, error) {
	return d.clients.Get(ctx, id)
}

func TestSubscribeHookIsAskedWithTheConnection(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	d.subscribe = func(s *desk, ctx *actor.Context, info handle.ConnectionInfo) error {
		c, ok, err := d.clients.Get(ctx, info.ID)
		if err != nil || !ok || info.Transport != "go" || info.Lost != nil {
			return fmt.Errorf("%+v, %t, %w", info, ok, err)
		}
		if c.State.Nick == "MUTE" {
			return actor.Errorf(actor.PermissionDenied, "not you")
		}
		c.State.Nick += "!"
		return c.Save(ctx)
	}
	if err := n.connect(t.Context(), atA, "one", `{"name":"ONE"}`, "said", "quiet"); err != nil {
		t.Fatal(err)
	}
	if err := n.subscribe(t.Context(), atA, "one", "said"); err != nil {
		t.Fatal(err)
	}
	if err := n.connect(t.Context(), atA, "mute", `{"name":"MUTE"}`, "said"); actor.CodeOf(err) != actor.PermissionDenied {
		t.Error(err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		c, ok, err := d.clients.Get(ctx, "one")
		if err != nil || !ok || c.State.Nick != "ONE!!" || !slices.Equal(c.Events, []string{"said", "quiet"}) {
			return fmt.Errorf("%+v, %t, %w", c, ok, err)
		}
		return nil
	})
}

func TestCallerIsTheConnectionOfTheCall(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "one")
	d.script = func(s *desk, ctx *actor.Context) (string, error) {
		c, ok, err := d.clients.Caller(ctx)
		if err != nil || !ok {
			return "nobody", err
		}
		return ctx.Caller() + " " + c.State.Nick, nil
	}
	for connection, want := range map[string]string{"one": "\x67one ONE", "": "\x66nobody", "gone": "\x66nobody"} {
		reply, err := n.Call(t.Context(), &host.Request{Address: atA, Method: "do", Codec: host.CBOR, Connection: connection})
		if err != nil || string(reply.Output) != want {
			t.Errorf("%q: %q, %v", connection, reply.Output, err)
		}
	}
}

func TestEventsGoToSomeConnections(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		d.said.EmitTo(ctx, "one", "hello")
		d.said.EmitExcept(ctx, "all", "one", "two")
		d.quiet.EmitExcept(ctx, 1)
		return nil
	})
	if want := []string{
		`said "hello" to "one" except []`, `said "all" to "" except ["one" "two"]`, `quiet 1 to "" except []`,
	}; !slices.Equal(n.emitted, want) {
		t.Errorf("%q", n.emitted)
	}
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error { d.said.EmitTo(ctx, "", "to all"); return nil })
	if actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("to nobody in particular: %v", err)
	}
}

func TestConnectionsAreListedAndClosedFromOutside(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "c1", "c2", "c3", "c4", "c5")
	ref := d.typ.Ref(n, "a")
	var ids []string
	for c, err := range d.clients.Of(ref).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
	}
	if !slices.Equal(ids, []string{"c1", "c2", "c3", "c4", "c5"}) {
		t.Errorf("%q", ids)
	}
	for _, want := range []bool{true, false} {
		if was, err := d.clients.Of(ref).Close(t.Context(), "c2", "tidying up"); was != want || err != nil {
			t.Errorf("%t, %v", was, err)
		}
	}
	for _, err := range d.clients.Of(actor.Ref[desk]{}).List(t.Context()) {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
	}
}

func TestConnectionsWithoutParametersOrState(t *testing.T) {
	typ := actor.NewType[desk]("desk")
	clients := actor.NewConnections[actor.None, actor.None](typ)
	joined := false
	n := mustNode(t, actor.Define(typ, actor.Spec[desk]{},
		actor.OnConnect(clients, func(_ *desk, ctx *actor.Context, c *actor.Connection[actor.None], _ actor.None) error {
			joined = true
			return c.Save(ctx)
		})))
	for i, params := range []string{"", "null", "{}"} {
		if err := n.connect(t.Context(), atA, fmt.Sprint("c", i), params); err != nil || !joined {
			t.Error(err)
		}
	}
	if err := n.connect(t.Context(), atA, "x", `{"a":1}`); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
	if err := n.disconnect(t.Context(), atA, "c1", nil); err != nil {
		t.Error(err)
	}
	plain := actor.NewType[desk]("desk")
	n = mustNode(t, actor.Define(plain, actor.Spec[desk]{}))
	if err := n.connect(t.Context(), atA, "c", `{"any":"thing"}`); err != nil {
		t.Errorf("a type without Connections: %v", err)
	}
}

func TestStoredStateThatDoesNotDecodeIsAnError(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	joining(d)
	mustConnect(t, n, "one")
	c := n.actors["desk/a"].holding.connections["one"]
	c.State, c.Params = []byte("\x01"), []byte("1")
	n.actors["desk/a"].holding.connections["one"] = c
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		if _, _, err := d.clients.Get(ctx, "one"); actor.CodeOf(err) != actor.Internal {
			t.Errorf("get: %v", err)
		}
		for c, err := range d.clients.All(ctx) {
			if c != nil || actor.CodeOf(err) != actor.Internal {
				t.Errorf("all: %v, %v", c, err)
			}
		}
		return nil
	})
	if err := n.disconnect(t.Context(), atA, "one", nil); actor.CodeOf(err) != actor.Internal {
		t.Errorf("disconnect: %v", err)
	}
}
