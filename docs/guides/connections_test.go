package guides_test

import (
	"context"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
)

var (
	Rooms   = actor.NewType[Room]("room")
	Say     = actor.NewAction[string, actor.None](Rooms, "say")
	Said    = actor.NewEvent[Line](Rooms, "said", actor.EventConfig{})
	Clients = actor.NewConnections[Join, Member](Rooms)
)

type (
	Join   struct{ Name string }
	Member struct{ Name string }
	Line   struct{ From, Text string }
	Room   struct{ Present int }
)

func (r *Room) join(ctx *actor.Context, c *actor.Connection[Member], p Join) error {
	if p.Name == "" {
		return actor.Errorf(actor.PermissionDenied, "a name is required") // the client is refused, and reads this
	}
	c.State.Name = p.Name // kept for as long as the connection lasts
	r.Present++
	return Said.EmitExcept(ctx, Line{p.Name, "came in"}, c.ID)
}

func (r *Room) leave(ctx *actor.Context, c *actor.Connection[Member]) error {
	r.Present--
	return Said.Emit(ctx, Line{c.State.Name, "left"})
}

func (r *Room) say(ctx *actor.Context, text string) (actor.None, error) {
	caller, ok, err := Clients.Caller(ctx)
	if err != nil || !ok {
		return actor.None{}, actor.Errorf(actor.FailedPrecondition, "only members of the room may speak")
	}
	return actor.None{}, Said.Emit(ctx, Line{caller.State.Name, text})
}

func room() actor.Definition {
	return actor.Define(Rooms, actor.Spec[Room]{},
		actor.On(Say, (*Room).say),
		actor.OnConnect(Clients, (*Room).join),
		actor.OnDisconnect(Clients, (*Room).leave),
	)
}

func TestConnections(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := t.Context()
		lobby := Rooms.Ref(h, "lobby")
		if _, err := Say.Call(ctx, lobby, "hello?"); actor.CodeOf(err) != actor.FailedPrecondition {
			t.Errorf("somebody spoke from outside: %v", err)
		}
		address := host.Address{Type: "room", Key: []string{"lobby"}}
		connect := func(params string) (host.LiveConnection, error) {
			return h.Runtime().Connect(ctx, address, host.ConnectRequest{Params: []byte(params), Events: []string{"said"}, Transport: "go"})
		}
		if _, err := connect(`{}`); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("nobody came in: %v", err)
		}
		ada, err := connect(`{"Name":"Ada"}`)
		if err != nil {
			t.Fatal(err)
		}
		bob, err := connect(`{"Name":"Bob"}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Call(ctx, &host.Request{Address: address, Method: "say", Codec: host.JSON, Input: []byte(`"hi"`)}); err != nil {
			t.Error(err)
		}
		if err := bob.Close(ctx, false); err != nil {
			t.Error(err)
		}
		want := []string{`{"From":"Bob","Text":"came in"}`, `{"From":"Bob","Text":"hi"}`, `{"From":"Bob","Text":"left"}`}
		for len(want) > 0 {
			d, err := ada.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range d.Events {
				if len(want) == 0 || string(e.Data) != want[0] {
					t.Fatalf("Ada hears %s, want %q", e.Data, want)
				}
				want = want[1:]
			}
		}
		if err := ada.Close(context.WithoutCancel(ctx), false); err != nil {
			t.Error(err)
		}
	}, room())
}
