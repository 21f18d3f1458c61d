package actor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The contract of a room: clients join it and talk, workers send letters, and callers ask for a
// price.
var (
	Rooms   = actor.NewType[Room]("room")
	Greet   = actor.NewAction[string, actor.None](Rooms, "greet")
	Jobs    = actor.NewQueue[string](Rooms, "jobs", actor.QueueConfig{})
	Mail    = actor.NewQueue[Letter](Rooms, "mail", actor.QueueConfig{Workers: true, Lock: time.Minute})
	Price   = actor.NewRequestQueue[string, int](Rooms, "price", actor.QueueConfig{})
	Nightly = actor.NewSchedule[int](Rooms, "nightly")
	Tokens  = actor.NewStream[string](Rooms, "tokens", actor.StreamConfig{MaxItems: 1000})
	Clients = actor.NewConnections[Join, Member](Rooms)
	Said    = actor.NewEvent[string](Rooms, "said", actor.EventConfig{})
)

// A Letter is a message to be sent by a worker.
type Letter struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// A Join has the parameters of a client, a Member the room's state for it.
type (
	Join   struct{ Name string }
	Member struct{ Nick string }
)

// A Room is the durable state.
type Room struct {
	Greeted int
	Nights  int
}

func (r *Room) greet(ctx *actor.Context, name string) (actor.None, error) {
	r.Greeted++
	Jobs.Put(ctx, name, actor.DedupID(name)) // once a day at most
	Mail.Put(ctx, Letter{To: name, Text: "welcome"}, actor.Priority(5), actor.Backoff(time.Minute, time.Hour),
		actor.KeysIfUndelivered(tuple.Tuple{"undelivered", name}))
	Nightly.Set(ctx, actor.Rule{Cron: "0 3 * * *", Zone: "Europe/Zurich"}, r.Greeted)
	Said.Emit(ctx, "hello "+name)
	return actor.None{}, nil // state, messages, schedule, event: one commit
}

func (r *Room) job(ctx *actor.Context, name string) error {
	m := ctx.Message()
	words := []string{fmt.Sprintf("job %d, attempt %d:", m.ID, m.Attempt), "dear", name}
	return ctx.Go("compose", func(t *actor.Task) error {
		for _, word := range words { // from a slow service
			if _, err := Tokens.Append(t, word); err != nil {
				return err
			}
		}
		return actor.Enter(t, func(r *Room, ctx *actor.Context) error { return Tokens.Close(ctx) })
	})
}

func (r *Room) price(_ *actor.Context, item string) (int, error) {
	if item == "" {
		return 0, actor.Errorf(actor.InvalidArgument, "an item has a name")
	}
	return 100 * len(item), nil
}

func (r *Room) nightly(ctx *actor.Context, greeted int) error {
	r.Nights += int(ctx.Tick().Missed) + 1
	return nil
}

func (r *Room) join(_ *actor.Context, c *actor.Connection[Member], p Join) error {
	if p.Name == "" {
		return actor.Errorf(actor.InvalidArgument, "a member has a name")
	}
	c.State.Nick = p.Name // stored with the connection
	return nil
}

func (r *Room) leave(ctx *actor.Context, c *actor.Connection[Member]) error {
	return Said.Emit(ctx, c.State.Nick+" left")
}

func (r *Room) maySubscribe(ctx *actor.Context, c handle.ConnectionInfo) error {
	member, ok, err := Clients.Get(ctx, c.ID)
	if err == nil && (!ok || member.State.Nick == "ghost") {
		err = actor.Errorf(actor.PermissionDenied, "ghosts hear nothing")
	}
	return err
}

// RoomDefinition is the implementation. A runtime takes it.
func RoomDefinition() actor.Definition {
	return actor.Define(Rooms, actor.Spec[Room]{},
		actor.On(Greet, (*Room).greet), actor.OnMessage(Jobs, (*Room).job), actor.OnRequest(Price, (*Room).price),
		actor.OnSchedule(Nightly, (*Room).nightly), actor.OnConnect(Clients, (*Room).join),
		actor.OnDisconnect(Clients, (*Room).leave), actor.OnSubscribe(Said, (*Room).maySubscribe))
}

func Example_queuesAndStreams() {
	node, stop := open(RoomDefinition())
	defer stop()
	ctx, lobby := context.Background(), Rooms.Ref(node, "lobby")
	must(Greet.Call(ctx, lobby, "ada"))
	for _, l := range must(Mail.Of(lobby).Receive(ctx, handle.ReceiveConfig{Max: 10})) { // a worker; Mail.Work does all of this
		fmt.Println("letter to", l.Body.To, "attempt", l.Attempt)
	}
	for item, err := range Tokens.Of(lobby).Follow(ctx, handle.Position{}) {
		fmt.Println(item.Sequence, item.Value, err)
	}
	set, _, err := Nightly.Of(lobby).Get(ctx)
	fmt.Println(set.Rule, set.Rule.Zone, set.Payload, err)
	// Output:
	// letter to ada attempt 1
	// 1 job 1, attempt 1: <nil>
	// 2 dear <nil>
	// 3 ada <nil>
	// 0 3 * * * Europe/Zurich 1 <nil>
}

func ExampleNewRequestQueue() {
	node, stop := open(RoomDefinition())
	defer stop()
	ctx, lobby := context.Background(), Rooms.Ref(node, "lobby")
	fmt.Println(Price.Of(lobby).Ask(ctx, "table"))
	_, err := Price.Of(lobby).Ask(ctx, "", actor.Backoff()) // one attempt, then the error
	fmt.Println(err)
	for dead, err := range Price.Of(lobby).DeadLetters().List(ctx) {
		fmt.Println(dead.ID, dead.Attempts, dead.Error, err)
	}
	fmt.Println(Price.Of(lobby).DeadLetters().DeleteAll(ctx))
	// Output:
	// 500 <nil>
	// invalid_argument: an item has a name
	// 2 1 an item has a name <nil>
	// 1 <nil>
}

func ExampleQueue_Work() {
	ctx, cancel := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	defer cancel()
	node, stop := open(RoomDefinition()) // or a client of a node
	defer stop()
	letters := Mail.Of(Rooms.Ref(node, "lobby"))
	must(letters.Send(ctx, Letter{To: "ada", Text: "welcome"}))
	err := letters.Work(ctx, handle.WorkConfig{Workers: 4},
		func(ctx context.Context, l *handle.Delivery[Letter, actor.None]) (actor.None, error) {
			fmt.Println("to", l.Body.To+":", l.Body.Text)
			cancel()
			return actor.None{}, nil // acknowledged; an error would have it tried again
		})
	fmt.Println(err)
	stats, err := letters.Stats(context.Background())
	fmt.Println(stats.Pending, stats.Processing, stats.Dead, err)
	// Output:
	// to ada: welcome
	// <nil>
	// 0 0 0 <nil>
}

func ExampleConnections() {
	node, stop := open(RoomDefinition())
	defer stop()
	ctx, at := context.Background(), host.Address{Type: "room", Key: []string{"lobby"}}
	for _, params := range []string{`{"Name":"ada"}`, `{"Name":"ghost"}`, `{}`} { // what a gateway does for a WebSocket
		_, err := node.Connect(ctx, at, host.ConnectRequest{Params: []byte(params), Events: []string{"said"}, Transport: "go"})
		fmt.Println(err)
	}
	clients := Clients.Of(Rooms.Ref(node, "lobby"))
	for c, err := range clients.List(ctx) {
		fmt.Println(c.Transport, c.Events, err)
		fmt.Println(clients.Close(ctx, c.ID, "the room closes"))
	}
	// Output:
	// <nil>
	// permission_denied: ghosts hear nothing
	// invalid_argument: a member has a name
	// go [said] <nil>
	// true <nil>
}
