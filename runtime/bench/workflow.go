package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
	"github.com/cairn-run/cairn/workflow"
)

// The actor whose runs are measured.
type mill struct{ Turned int64 }

var (
	mills  = actor.NewType[mill]("mill")
	five   = actor.NewWorkflow[actor.None, int](mills, "five")
	grind  = actor.NewWorkflow[string, int](mills, "grind")
	parked = actor.NewWorkflow[actor.None, actor.None](mills, "parked")
)

// fiveSteps is the workflow that is measured beside other systems too: five steps, each of which
// returns a small number.
func fiveSteps(ctx workflow.Context, _ actor.None) (int, error) {
	sum := 0
	for i, name := range [5]string{"a", "b", "c", "d", "e"} {
		n, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (int, error) { return i, nil })
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// perIteration is how many operations an iteration of grind has, so that the loop's own entry
// counts little.
const perIteration = 50

// A quern counts what runs of grind do, and ends them.
type quern struct {
	done atomic.Int64
	stop atomic.Bool
}

// grind repeats steps, or updates, until the measurement ends. Whether it goes on is asked of a
// variable, which a workflow must not do: it would be wrong in a run that is replayed, and none is
// here.
func (q *quern) grind(ctx workflow.Context, what string) (int, error) {
	var names [perIteration]string
	for i := range names {
		names[i] = fmt.Sprint("op-", i)
	}
	return workflow.Loop(ctx, "grind", 0, func(it *workflow.Iter[int, int]) error {
		for _, name := range names {
			var err error
			if what == "step" {
				_, err = workflow.Step(it, name, func(*workflow.StepCtx) (int, error) { return 7, nil })
			} else {
				_, err = actor.UpdateState(it, name,
					func(m *mill, _ *actor.Context) (int, error) { m.Turned++; return 7, nil })
			}
			if err != nil {
				return err
			}
			q.done.Add(1)
		}
		if q.stop.Load() {
			return it.Break(0)
		}
		return nil
	})
}

func waitForever(ctx workflow.Context, _ actor.None) (actor.None, error) {
	return actor.None{}, workflow.Sleep(ctx, "rest", 365*24*time.Hour)
}

func millDefinition(q *quern) []actor.Definition {
	return []actor.Definition{actor.Define(mills, actor.Spec[mill]{},
		actor.OnRun(five, fiveSteps), actor.OnRun(grind, q.grind), actor.OnRun(parked, waitForever))}
}

// ground returns how many steps or updates a second the runs of so many actors do.
func (b *bench) ground(what string, actors int) (v float64) {
	q := new(quern)
	b.node(runtime.Options{Actors: millDefinition(q)}, func(rt *runtime.Runtime) {
		ctx := context.Background()
		for i := range actors {
			_, err := grind.Of(mills.Ref(rt, fmt.Sprint(i))).Start(ctx, what)
			check(err)
		}
		from, begin, spent := q.done.Load(), time.Now(), usage.Processor()
		time.Sleep(b.time)
		done := q.done.Load() - from
		v = float64(done) / time.Since(begin).Seconds()
		b.spend(spent, int(done))
		q.stop.Store(true)
		for i := range actors {
			_, err := grind.Of(mills.Ref(rt, fmt.Sprint(i))).Result(ctx)
			check(err)
		}
	})
	return v
}

// stepTime returns how long a step of a lone run takes, in seconds.
func (b *bench) stepTime() float64 { return 1 / b.ground("step", 1) }

func runFive(ctx context.Context, rt *runtime.Runtime, key string) {
	ref := mills.Ref(rt, key)
	_, err := five.Of(ref).Start(ctx, actor.None{})
	check(err)
	sum, err := five.Of(ref).Result(ctx)
	check(err)
	if sum != 10 {
		fatal(fmt.Errorf("a run returned %d", sum))
	}
}

// fiveAlone returns the median time from the start of a run of five steps to its durable result.
func (b *bench) fiveAlone() (v float64) {
	b.node(runtime.Options{Actors: millDefinition(new(quern))}, func(rt *runtime.Runtime) {
		v = b.p50(func(i int) { runFive(context.Background(), rt, fmt.Sprint(i)) })
	})
	return v
}

// fives returns how many runs of five steps end in a second, with so many at once.
func (b *bench) fives(n int) (v float64) {
	b.node(runtime.Options{Actors: millDefinition(new(quern))}, func(rt *runtime.Runtime) {
		v = b.load(n, func(w, i int) { runFive(context.Background(), rt, fmt.Sprint(w, "-", i)) })
	})
	return v
}

// millCommits returns the commits of a lone run, each on its own: those of a run of five steps, and
// one of a later step or update of a long run.
func (b *bench) millCommits(what string) []commit {
	q := new(quern)
	commits := b.logged(runtime.Options{Actors: millDefinition(q)}, func(rt *runtime.Runtime) {
		ctx := context.Background()
		runFive(ctx, rt, "first") // what only a node's first actor writes
		if what == "five" {
			runFive(ctx, rt, "one")
			return
		}
		q.stop.Store(true)
		ref := mills.Ref(rt, "one")
		_, err := grind.Of(ref).Start(ctx, what)
		check(err)
		_, err = grind.Of(ref).Result(ctx)
		check(err)
	})
	return ofLastActor(commits)
}

// ofLastActor returns the commits that write workflow rows of the actor that wrote some last. The
// store has commits of its own around them.
func ofLastActor(commits []commit) (of []commit) {
	var id keyspace.ActorID
	for _, c := range slices.Backward(commits) {
		if id.IsZero() {
			id = c.actor()
		}
		if !id.IsZero() && c.actor() == id && c.has(keyspace.KindWorkflow, false) {
			of = append(of, c)
		}
	}
	slices.Reverse(of)
	return of
}

// actor returns the actor whose workflow rows the commit writes.
func (c commit) actor() keyspace.ActorID {
	for _, w := range c {
		if w.logical(keyspace.KindWorkflow) {
			return w.is.ID
		}
	}
	return keyspace.ActorID{}
}

// step returns the commit of a step of a long run.
func (b *bench) step() commit {
	steps := b.millCommits("step")
	if len(steps) < perIteration {
		fatal(fmt.Errorf("the steps of the run did not make a commit each: %d of %d in the log",
			len(steps), perIteration))
	}
	return steps[len(steps)/2]
}

// rawStep returns the median time of a synced batch with the rows of one step, in seconds.
func (b *bench) rawStep() (v float64) {
	step := b.step()
	b.pebbleDB(func(db *pebble.DB) { v = b.p50(func(int) { sync1(db, step) }) })
	return v
}

func sync1(db *pebble.DB, c commit) {
	batch := c.batch(db)
	check(batch.Commit(pebble.Sync))
	batch.Close()
}

// rawSteps commits the rows of a step from n goroutines.
func (b *bench) rawSteps(n int) (v float64) {
	step := b.step()
	b.pebbleDB(func(db *pebble.DB) { v = b.load(n, func(int, int) { sync1(db, step) }) })
	return v
}

// rawUpdates applies the rows of an update from one goroutine, with up to depth batches that wait
// for the log.
func (b *bench) rawUpdates(depth int) (v float64) {
	c := b.step() // of the same size: an update adds the state
	b.pebbleDB(func(db *pebble.DB) {
		waiting := make(chan *pebble.Batch, depth)
		var wg sync.WaitGroup
		wg.Go(func() {
			for batch := range waiting {
				check(batch.SyncWait())
				batch.Close()
			}
		})
		v = b.load(1, func(int, int) {
			batch := c.batch(db)
			check(db.ApplyNoSyncWait(batch, pebble.Sync))
			waiting <- batch
		})
		close(waiting)
		wg.Wait()
	})
	return v
}

// rawFives does from n goroutines the commits of runs of five steps, each synced before the next,
// and returns runs a second.
func (b *bench) rawFives(n int) (v float64) {
	run := b.millCommits("five")
	if len(run) < 5 {
		fatal(fmt.Errorf("the run of 5 steps did not make a commit for each: %d in the log", len(run)))
	}
	b.pebbleDB(func(db *pebble.DB) {
		v = b.load(n, func(int, int) {
			for _, c := range run {
				sync1(db, c)
			}
		})
	})
	return v
}

// parkedRuns is how many runs are held for their memory.
const parkedRuns = 100_000

// parkedMemory returns what an actor takes of heap and stacks whose run waits, in bytes.
func (b *bench) parkedMemory(asleep bool) (v float64) {
	idle := time.Hour
	if asleep {
		idle = time.Second
	}
	o := runtime.Options{NoSync: true, IdleTimeout: idle, Actors: millDefinition(new(quern))}
	b.node(o, func(rt *runtime.Runtime) {
		before := inUse()
		rateOnce(16, parkedRuns, func(i int) {
			_, err := parked.Of(mills.Ref(rt, fmt.Sprint(i))).Start(context.Background(), actor.None{})
			check(err)
		})
		for asleep && awake(rt) > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		v = (inUse() - before) / parkedRuns
	})
	return v
}

func workflowRows() []row {
	return []row{
		{name: "workflow: step of one run, its result durable before the next starts / one raw synced commit of its rows",
			target: "at most 1.5, 5,000/s", latency: true, ours: (*bench).stepTime, raw: (*bench).rawStep},
		{name: "workflow: updates of one run / raw pipelined, depth 64", target: "at least 50,000/s",
			ours: func(b *bench) float64 { return b.ground("update", 1) }, raw: func(b *bench) float64 { return b.rawUpdates(64) }},
		{name: "workflow: steps of 64 actors / 64 raw committers of their rows", target: "at least 40,000/s",
			ours: func(b *bench) float64 { return b.ground("step", 64) }, raw: func(b *bench) float64 { return b.rawSteps(64) }},
		{name: "workflow: start to durable result of 5 steps, p50 / one raw synced commit",
			target: "at most 8", latency: true,
			ours: (*bench).fiveAlone, raw: (*bench).rawStep},
		{name: "workflow: runs of 5 steps, 32 at once / 32 raw committers of the same commits",
			target: "at least 0.5, at most 3 x the processor time",
			ours:   func(b *bench) float64 { return b.fives(32) }, raw: func(b *bench) float64 { return b.rawFives(32) }},
		{name: "workflow: memory of an awake actor whose run waits, of 100,000", bytes: true, long: true,
			ours: func(b *bench) float64 { return b.parkedMemory(false) }},
		{name: "workflow: memory of a sleeping actor whose run waits, of 100,000", target: "0 B",
			bytes: true, long: true,
			ours: func(b *bench) float64 { return b.parkedMemory(true) }},
	}
}
