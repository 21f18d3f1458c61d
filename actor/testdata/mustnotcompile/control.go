// want:
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

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
