package actor_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor"
)

// The contract: names and types. A caller needs only this.
var (
	Tenants = actor.NewType[Tenant]("tenant")
	Add     = actor.NewAction[Note, Note](Tenants, "add")
	Sent    = actor.NewQuery[actor.None, []int64](Tenants, "sent")
	Tagged  = actor.NewQuery[string, []int64](Tenants, "tagged")
	Added   = actor.NewEvent[Note](Tenants, "added", actor.EventConfig{})
	Remind  = actor.NewAlarm[int64](Tenants, "remind")
	Tags    = actor.NewMap[string, []int64](Tenants, "tags")
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

func (t *Tenant) remind(_ *actor.Context, id int64) error {
	t.Sent = append(t.Sent, id)
	return nil
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
	ctx := context.Background()
	rt, err := newNode(Definition()) // in a program: runtime.Open
	if err != nil {
		fmt.Println(err)
		return
	}
	acme := Tenants.Ref(rt, "acme")
	note, err := Add.Call(ctx, acme, Note{Body: "renew", At: rt.now.Add(time.Hour), Tag: "todo"})
	fmt.Println(note.ID, note.Body, err)
	_, err = Add.Call(ctx, acme, Note{})
	fmt.Println(err)

	if err := rt.ring(ctx, 61*time.Minute); err != nil {
		fmt.Println(err)
	}
	sent, err := Sent.Call(ctx, acme, actor.None{})
	fmt.Println(sent, err)
	tagged, err := Tagged.Call(ctx, acme, "todo")
	fmt.Println(tagged, err)
	fmt.Println(rt.emitted)
	// Output:
	// 1 renew <nil>
	// invalid_argument: a note has a body
	// [1] <nil>
	// [1] <nil>
	// [added {"id":1,"body":"renew","at":"2001-01-02T04:04:05.000000006Z","tag":"todo"}]
}
