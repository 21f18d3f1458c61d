package actor_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// The contract: names and types. A caller needs only this.
var (
	Tenants = actor.NewType[Tenant]("tenant")
	Add     = actor.NewAction[Note, Note](Tenants, "add")
	Sent    = actor.NewQuery[actor.None, []int64](Tenants, "sent")
	Tagged  = actor.NewQuery[string, []int64](Tenants, "tagged")
	Added   = actor.NewEvent[Note](Tenants, "added", actor.EventConfig{Durable: true})
	Done    = actor.NewEvent[int64](Tenants, "reminded", actor.EventConfig{Durable: true})
	Remind  = actor.NewAlarm[int64](Tenants, "remind")
	Tags    = actor.NewMap[string, []int64](Tenants, "tags", actor.MapConfig{})
)

// A Note is the input and the output of Add.
type Note struct {
	ID   int64     `json:"id"`
	Body string    `json:"body"`
	At   time.Time `json:"at"`
	Tag  string    `json:"tag,omitempty"`
}

// A Tenant is the durable state.
type Tenant struct {
	LastID int64
	Sent   []int64
}

// A pointer receiver: an action may write.
func (t *Tenant) add(ctx *actor.Context, n Note) (Note, error) {
	if n.Body == "" {
		return Note{}, actor.Errorf(actor.InvalidArgument, "a note has a body") // nothing of this turn is kept
	}
	t.LastID++
	n.ID = t.LastID
	ids, _, err := Tags.Get(ctx, n.Tag)
	if err != nil {
		return Note{}, err
	}
	if err := Tags.Put(ctx, n.Tag, append(ids, n.ID)); err != nil {
		return Note{}, err
	}
	Remind.Named(fmt.Sprint(n.ID)).At(ctx, n.At, n.ID)
	Added.Emit(ctx, n)
	return n, nil // state, map, alarm, event, reply: one commit
}

func (t *Tenant) remind(ctx *actor.Context, id int64) error {
	t.Sent = append(t.Sent, id)
	return Done.Emit(ctx, id)
}

// A value receiver: a query only reads.
func (t Tenant) sent(*actor.ReadContext, actor.None) ([]int64, error) { return t.Sent, nil }

func (t Tenant) tagged(ctx *actor.ReadContext, tag string) ([]int64, error) {
	ids, _, err := Tags.Get(ctx, tag)
	return slices.Clip(ids), err
}

// Definition is the implementation. A runtime takes it.
func Definition() actor.Definition {
	return actor.Define(Tenants, actor.Spec[Tenant]{IdleTimeout: time.Minute},
		actor.On(Add, (*Tenant).add), actor.OnQuery(Sent, Tenant.sent), actor.OnQuery(Tagged, Tenant.tagged),
		actor.OnAlarm(Remind, (*Tenant).remind))
}

func Example() {
	node, stop := open(Definition())
	defer stop()
	ctx, acme := context.Background(), Tenants.Ref(node, "acme")
	note, err := Add.Call(ctx, acme, Note{Body: "renew", At: time.Now(), Tag: "todo"})
	fmt.Println(note.ID, note.Body, err)
	_, err = Add.Call(ctx, acme, Note{})
	fmt.Println(err)

	// Clients follow events over a WebSocket or server-sent events; this is what the gateway does
	// for them.
	events := must(node.Subscribe(ctx, host.Address{Type: "tenant", Key: []string{"acme"}}, host.Subscription{Resume: true}))
	defer events.Close()
	for seen := 0; seen < 2; {
		for _, e := range must(events.Next(ctx)).Events {
			fmt.Println(e.Sequence, e.Name)
			seen++
		}
	}
	fmt.Println(must(Sent.Call(ctx, acme, actor.None{})))
	fmt.Println(must(Tagged.Call(ctx, acme, "todo")))
	// Output:
	// 1 renew <nil>
	// invalid_argument: a note has a body
	// 1 added
	// 2 reminded
	// [1]
	// [1]
}
