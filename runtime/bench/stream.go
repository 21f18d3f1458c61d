package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
	"github.com/cairn-run/cairn/runtime/client"
)

// A model writes tokens into its stream.
type model struct{}

var (
	models = actor.NewType[model]("model")
	run    = actor.NewAction[actor.None, actor.None](models, "run")
	tokens = actor.NewStream[string](models, "tokens", actor.StreamConfig{})
)

// modelDefinition runs task in a task that the action starts.
func modelDefinition(task func(*actor.Task) error) []actor.Definition {
	return []actor.Definition{actor.Define(models, actor.Spec[model]{},
		actor.On(run, func(_ *model, ctx *actor.Context, _ actor.None) (actor.None, error) {
			return actor.None{}, ctx.Go("run", task)
		}))}
}

// streamed returns how many items a second go through a stream: a task appends them, so many at a
// time, each time waiting until they are durable, and a client follows over HTTP. The time ends
// when the client has the last one.
func (b *bench) streamed(size int) (v float64) {
	var appended atomic.Uint64 // what the task has appended in all, when it is done
	items := make([]string, size)
	for i := range items {
		items[i] = "a token"
	}
	task := func(t *actor.Task) error {
		last := uint64(0)
		for end := time.Now().Add(b.time); last == 0 || time.Now().Before(end); {
			var err error
			last, err = tokens.Append(t, items...)
			check(err)
		}
		appended.Store(last)
		_, err := tokens.Append(t, "the last one")
		check(err)
		return nil
	}
	b.node(runtime.Options{Listen: "127.0.0.1:0", Actors: modelDefinition(task)}, func(rt *runtime.Runtime) {
		remote, err := client.New("http://"+rt.Addr(), client.Options{})
		check(err)
		defer remote.Close()
		ctx := context.Background()
		check(models.Ref(rt, "one").Create(ctx))
		begin, spent := time.Now(), usage.Processor()
		_, err = run.Call(ctx, models.Ref(rt, "one"), actor.None{})
		check(err)
		read := uint64(0)
		for item, err := range tokens.Of(models.Ref(remote, "one")).Follow(ctx, handle.Position{}) {
			check(err)
			if read++; item.Sequence != read {
				fatal(fmt.Errorf("item %d of the stream came as number %d", item.Sequence, read))
			}
			if n := appended.Load(); n > 0 && read == n+1 {
				break
			}
		}
		v = float64(read) / time.Since(begin).Seconds()
		b.spend(spent, int(read))
	})
	return v
}
