// want:
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

var _ context.Context

type cart struct{ Items []string }

type room struct{ Seats int }

var (
	carts   = actor.NewType[cart]("cart")
	rooms   = actor.NewType[room]("room")
	add     = actor.NewAction[string, int](carts, "add")
	count   = actor.NewQuery[actor.None, int](carts, "count")
	seat    = actor.NewAction[string, int](rooms, "seat")
	added   = actor.NewEvent[string](carts, "added")
	remind  = actor.NewAlarm[int64](carts, "remind")
	tags    = actor.NewMap[string, int](carts, "tags")
	opening = actor.NewCreate[string](carts)
	jobs    = actor.NewQueue[string](carts, "jobs")
	mail    = actor.NewQueue[string](carts, "mail", actor.Workers())
	price   = actor.NewRequestQueue[string, int](carts, "price")
	quotes  = actor.NewRequestQueue[string, int](carts, "quotes", actor.Workers())
	nightly = actor.NewSchedule[int](carts, "nightly")
	tokens  = actor.NewStream[string](carts, "tokens")
	clients = actor.NewConnections[string, int](carts)
)

func (c *cart) add(*actor.Context, string) (int, error) { return 0, nil }

func (c cart) count(*actor.ReadContext, actor.None) (int, error) { return 0, nil }

func (c *cart) remind(*actor.Context, int64) error { return nil }

func (c *cart) open(*actor.Context, string) error { return nil }

func (c *cart) job(*actor.Context, string) error { return nil }

func (c *cart) price(*actor.Context, string) (int, error) { return 0, nil }

func (c *cart) nightly(*actor.Context, int) error { return nil }

func (c *cart) join(*actor.Context, *actor.Connection[int], string) error { return nil }

func (c *cart) leave(*actor.Context, *actor.Connection[int]) error { return nil }

func (c *cart) maySubscribe(*actor.Context, actor.ConnectionInfo) error { return nil }

func (r *room) seat(*actor.Context, string) (int, error) { return 0, nil }

var _ = actor.Define(carts, actor.Spec[cart]{},
	actor.On(add, (*cart).add), actor.OnQuery(count, cart.count), actor.OnAlarm(remind, (*cart).remind),
	actor.OnCreate(opening, (*cart).open), actor.OnMessage(jobs, (*cart).job), actor.OnRequest(price, (*cart).price),
	actor.OnSchedule(nightly, (*cart).nightly), actor.OnConnect(clients, (*cart).join), actor.OnDisconnect(clients, (*cart).leave),
	actor.OnSubscribe(added, (*cart).maySubscribe))

func _(ctx *actor.Context, r *actor.ReadContext) {
	add.Call(ctx, carts.Ref(ctx), "x", actor.Existing(), actor.IdempotencyKey("k"))
	count.Call(r, carts.Ref(r), actor.None{}, actor.Existing())
	opening.Call(ctx, carts.Ref(ctx), "x", actor.IdempotencyKey("k"))
	added.Emit(ctx, "x")
	tags.Put(ctx, "k", 1)
	tags.Get(r, "k")
	seat.Send(ctx, rooms.Ref(ctx), "x")
	ctx.KV().Put(nil, nil)
	r.KV().Get(nil)
	jobs.Put(ctx, "x", actor.Priority(1), actor.Backoff())
	jobs.Send(ctx, carts.Ref(ctx), "x", actor.Delay(1), actor.IdempotencyKey("k"), actor.Existing())
	price.Ask(ctx, carts.Ref(ctx), "x")
	mail.Receive(ctx, carts.Ref(ctx), actor.Max(1), actor.Lock(1), actor.Wait(1))
	mail.Work(ctx, carts.Ref(ctx), 1, func(context.Context, *actor.Delivery[string]) error { return nil }, actor.Lock(1))
	quotes.Work(ctx, carts.Ref(ctx), 1, func(context.Context, *actor.RequestDelivery[string, int]) (int, error) { return 0, nil })
	nightly.Cron(ctx, "@daily", 1, actor.In("UTC"), actor.CatchUpNone())
	nightly.Every(ctx, 1, 1, actor.KeepRuns(1))
	nightly.Get(r)
	tokens.Append(ctx, "x")
	tokens.Info(r)
	clients.Caller(r)
	added.EmitTo(ctx, "c", "x")
	ctx.Go("t", func(t *actor.Task) error {
		tokens.Append(t, "x")
		return actor.Enter(t, func(*cart, *actor.Context) error { return nil })
	})
}
