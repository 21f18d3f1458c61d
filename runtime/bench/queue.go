package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// A depot handles parcels that are put into its queue, and counts them. Those of the other queue
// are for workers.
type depot struct {
	Handled int64
}

// A parcel is a message.
type parcel struct {
	N     int64
	Label string
}

var (
	depots  = actor.NewType[depot]("depot")
	parcels = actor.NewQueue[parcel](depots, "parcels", actor.QueueConfig{})
	pallets = actor.NewQueue[parcel](depots, "pallets", actor.QueueConfig{Workers: true, MaxMessages: 2 * longQueue})
)

const parcelLabel = "sixty-four bytes that say where a parcel comes from and goes to.."

// depotDefinition tells handled of each parcel that is handled, before that is durable.
func depotDefinition(handled func(n int64)) []actor.Definition {
	return []actor.Definition{actor.Define(depots, actor.Spec[depot]{},
		actor.OnMessage(parcels, func(d *depot, _ *actor.Context, p parcel) error {
			d.Handled++
			handled(p.N)
			return nil
		}))}
}

// queued returns how many messages a second are sent by so many producers, each waiting until its
// message is durable, and handled by the actor itself. The time ends when the last one is handled
// and that is durable.
func (b *bench) queued(producers int) (v float64) {
	var sent, handled atomic.Int64
	b.node(runtime.Options{Actors: depotDefinition(func(int64) { handled.Add(1) })}, func(rt *runtime.Runtime) {
		ref := depots.Ref(rt, "one")
		v = b.loadUntil(producers, func(_, i int) {
			send(ref, i)
			sent.Add(1)
		}, func() { awaitHandled(ref, &handled, sent.Load()) })
	})
	return v
}

func send(ref actor.Ref[depot], i int) {
	_, err := parcels.Of(ref).Send(context.Background(), parcel{N: int64(i), Label: parcelLabel})
	check(err)
}

// awaitHandled waits until so many messages are handled and that is durable, and holds the queue to
// it.
func awaitHandled(ref actor.Ref[depot], handled *atomic.Int64, n int64) {
	for handled.Load() < n {
		time.Sleep(100 * time.Microsecond)
	}
	for {
		stats, err := parcels.Of(ref).Stats(context.Background()) // passes the gate after the last commit
		check(err)
		switch {
		case stats.Done == uint64(n) && handled.Load() == n:
			return
		case stats.Pending+stats.Delayed == 0:
			fatal(fmt.Errorf("%d messages were sent, %d handled; the queue counts %+v", n, handled.Load(), stats))
		}
	}
}
