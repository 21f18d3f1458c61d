package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// A clerk is a desk without a database.
type clerk struct{ Paid int }

var (
	clerks  = actor.NewType[clerk]("clerk")
	serving = actor.NewWorkflow[claim, string](clerks, "serve")
	letters = actor.NewQueue[string](clerks, "letters", actor.QueueConfig{ByRun: true})
)

// benchDesk starts a node on a real disk.
func benchDesk(b *testing.B) *runtime.Runtime {
	b.Helper()
	rt, err := runtime.Open(context.Background(), runtime.Options{
		Dir: b.TempDir(), Actors: []actor.Definition{actor.Define(clerks, actor.Spec[clerk]{}, actor.OnRun(serving, runClaim))}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	return rt
}

func noBody(*workflow.StepCtx) (int, error) { return 1, nil }

// BenchmarkWorkflowSteps is one run whose steps follow each other; each is durable before the next begins. Compare with
// BenchmarkWorkflowRawCommits.
func BenchmarkWorkflowSteps(b *testing.B) {
	for _, actors := range []int{1, 64} {
		b.Run(fmt.Sprintf("actors=%d", actors), func(b *testing.B) {
			does("bench steps", func(ctx workflow.Context, c claim) (string, error) {
				for i := range c.N {
					if _, err := workflow.Step(ctx, fmt.Sprint("s", i), noBody); err != nil {
						return "", err
					}
				}
				return "done", nil
			})
			rt := benchDesk(b)
			runAll(b, rt, "bench steps", actors, 500)
		})
	}
}

// runAll runs b.N operations in runs of at most most operations, over some actors at once.
func runAll(b *testing.B, rt *runtime.Runtime, how string, actors, most int) {
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for a := range actors {
		share := b.N / actors
		if a == 0 {
			share += b.N % actors
		}
		wg.Go(func() {
			for k := 0; share > 0; k++ {
				n := min(share, most)
				share -= n
				ref := clerks.Ref(rt, fmt.Sprint(a), fmt.Sprint(k))
				if _, err := serving.Of(ref).Start(context.Background(), claim{how, n}); err != nil {
					b.Error(err)
					return
				}
				if _, err := serving.Of(ref).Result(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkWorkflowUpdates is one run whose updates follow each other: they share commits.
func BenchmarkWorkflowUpdates(b *testing.B) {
	does("bench updates", func(ctx workflow.Context, c claim) (string, error) {
		for i := range c.N {
			_, err := actor.UpdateState(ctx, fmt.Sprint("u", i), func(d *clerk, _ *actor.Context) (int, error) { d.Paid++; return d.Paid, nil })
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	rt := benchDesk(b)
	runAll(b, rt, "bench updates", 1, 5000)
}

// BenchmarkWorkflowFiveSteps is a whole run of five steps, from its start to its durable result.
func BenchmarkWorkflowFiveSteps(b *testing.B) {
	does("bench five", func(ctx workflow.Context, c claim) (string, error) {
		for i := range 5 {
			if _, err := workflow.Step(ctx, fmt.Sprint("s", i), noBody); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	for _, at := range []int{1, 32} {
		b.Run(fmt.Sprintf("at once=%d", at), func(b *testing.B) {
			rt := benchDesk(b)
			runAll(b, rt, "bench five", at, 1)
		})
	}
}

// BenchmarkWorkflowWake is a message to a run that waits, until its next commit is durable.
func BenchmarkWorkflowWake(b *testing.B) {
	does("bench wake", func(ctx workflow.Context, c claim) (string, error) {
		for i := range c.N {
			if _, err := workflow.Receive(ctx, fmt.Sprint("r", i), letters); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	rt := benchDesk(b)
	ref := clerks.Ref(rt, "w")
	if _, err := serving.Of(ref).Start(context.Background(), claim{"bench wake", b.N}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := letters.Of(ref).Send(context.Background(), "x"); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := serving.Of(ref).Result(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkWorkflowRawCommits is what one synced commit of a row of the size of a step's costs, one after another.
func BenchmarkWorkflowRawCommits(b *testing.B) {
	s, err := engine.Open(context.Background(), engine.Options{Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	sp, err := s.OpenSpace(s.NewActorID(engine.Identity{Namespace: "n", Type: "t", Key: []string{"k"}}))
	if err != nil {
		b.Fatal(err)
	}
	defer sp.Close()
	ws := sp.Writes()
	done := make(chan error, 1)
	value := make([]byte, 20)
	b.ResetTimer()
	for i := range b.N {
		ws.Advance(time.Now().UnixMilli())
		key := keyspace.QueueMessage.Append(nil, uint64(i+1))
		if err := ws.Put(key, value, engine.PutOptions{New: true}); err != nil {
			b.Fatal(err)
		}
		if _, err := sp.Commit(func(err error) { done <- err }); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
