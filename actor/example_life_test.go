package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"
	"time"

	"github.com/cairn-run/cairn/actor"
)

// A purse is opened with an owner, reminds the owner, and is closed for good.
var (
	purses   = actor.NewType[purse]("purse")
	opening  = actor.NewCreate[string](purses)
	remind   = actor.NewAction[time.Time, string](purses, "remind")
	closing  = actor.NewAction[actor.None, string](purses, "close")
	owner    = actor.NewQuery[actor.None, string](purses, "owner")
	reminder = actor.NewAlarm[string](purses, "reminder")
)

type purse struct{ Owner string }

func (a *purse) open(ctx *actor.Context, owner string) error {
	a.Owner = owner
	ctx.Log().Info("opened", "owner", owner)
	return nil
}

func (a *purse) remind(ctx *actor.Context, due time.Time) (string, error) {
	// A failed At fails the turn, so the handler may leave its error.
	reminder.At(ctx, due, "pay")
	reminder.Named("late").After(ctx, time.Hour, "pay now")
	reminder.Named("late").Cancel(ctx)
	next, armed, err := reminder.Get(ctx)
	if err != nil {
		return "", err
	}
	all, err := reminder.List(ctx)
	return fmt.Sprint(next.Payload, " later: ", armed &&
		next.Due.After(ctx.Now()), ", of ", len(all), " by ", ctx.Type(), ctx.Key(), " in turn ", ctx.Version()), err
}

func (a *purse) rings(ctx *actor.Context, what string) error {
	ctx.Log().Info(what, "instance", ctx.AlarmInstance(), "trace", ctx.Traceparent())
	return nil
}

func (a *purse) close(ctx *actor.Context, _ actor.None) (string, error) {
	ctx.DestroySelf()
	return ctx.ID(), nil
}

func (a purse) owner(ctx *actor.ReadContext, _ actor.None) (string, error) {
	ctx.Log().Debug("read", "id", ctx.ID(), "trace", ctx.Traceparent())
	return fmt.Sprint(a.Owner, " owns ", ctx.Type(), ctx.Key(), " as of turn ", ctx.Version()), nil
}

// migrate reads the state as version 0 of this program stored it.
func (a *purse) migrate(old actor.Stored) error {
	if old.Version() > 0 {
		return old.Decode(a)
	}
	var v0 struct{ Name string }
	err := old.Decode(&v0)
	a.Owner = v0.Name
	return err
}

func Example_life() {
	schema := fstest.MapFS{"sql/001_entry.sql": {Data: []byte("CREATE TABLE entry (cents INTEGER)")}} // in a program: go:embed
	spec := actor.Spec[purse]{
		Version: 1, Migrate: (*purse).migrate, Migrations: must(actor.ReadMigrations(schema, "sql/*.sql")),
		Limits: actor.Limits{TurnTimeout: time.Minute},
	}
	d := actor.Define(purses, spec, actor.OnCreate(opening, (*purse).open), actor.On(remind, (*purse).remind),
		actor.On(closing, (*purse).close), actor.OnQuery(owner, purse.owner), actor.OnAlarm(reminder, (*purse).rings))
	fmt.Println(d.Validate(), d.Type(), len(d.Behavior().Methods))
	bad := actor.Define(purses, spec)
	fault, _ := errors.AsType[*actor.ContractError](bad.Validate()) // the first of all faults
	fmt.Println(fault)

	node, stop := open(d)
	defer stop()
	ctx, ada := context.Background(), purses.Ref(node, "ada")
	_, err := owner.Call(ctx, ada, actor.None{}, actor.Existing())
	fmt.Println(actor.CodeOf(err), remind.Name(), owner.Name(), purses.Name())
	fmt.Println(opening.Call(ctx, ada, "Ada"), actor.CodeOf(ada.Create(ctx)) == actor.AlreadyExists)
	once := actor.IdempotencyKey("order 1")
	at := time.Now().Add(time.Hour)
	fmt.Println(must(remind.Call(ctx, ada, at, once, actor.Traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))))
	_, err = remind.Call(ctx, ada, at.Add(time.Hour), once)
	fmt.Println(actor.CodeOf(err) == actor.IdempotencyMismatch)
	fmt.Println(must(owner.Call(ctx, ada, actor.None{})))
	status := must(ada.Lookup(ctx))
	fmt.Println(status.ID == must(closing.Call(ctx, ada, actor.None{})), ada.Type(), ada.Key())
	fmt.Println(actor.CodeOf(ada.Destroy(ctx)) == actor.NotFound)
	// Output:
	// <nil> purse 4
	// actor type "purse": creation "create": is declared but not bound: pass actor.OnCreate(...) to actor.Define
	// not_found remind owner purse
	// <nil> true
	// pay later: true, of 1 by purse[ada] in turn 2
	// true
	// Ada owns purse[ada] as of turn 2
	// true purse [ada]
	// true
}
