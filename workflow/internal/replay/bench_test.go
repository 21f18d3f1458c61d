package replay_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

// names are what the benchmarks call their operations: formatting is not what they measure.
var names = func() (list []string) {
	for i := range 1000 {
		list = append(list, "step-"+strconv.Itoa(i))
	}
	return list
}()

func BenchmarkSteps(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for i := range n {
			v, err := workflow.Step(ctx, names[i], func(*workflow.StepCtx) (int, error) { return i, nil })
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	perRun(b, d.Program())
}

func BenchmarkUpdates(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for i := range n {
			v, err := workflow.Update(ctx, names[i], func(*workflow.Tx) (int, error) { return i, nil })
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	perRun(b, d.Program())
}

// An engine is a run without a host: rows, queues, and a loop that advances it and runs bodies on the goroutine of the
// benchmark. It is its own transaction.
type engine struct {
	*memory.Rows
	*memory.Queues
	b      *testing.B
	o      wfhost.RunOptions
	run    *wfhost.Run
	last   wfhost.Outcome
	launch []*wfhost.Attempt
	reads  int
}

// newEngine returns an engine with a run that was started and has not advanced.
func newEngine(b *testing.B, p *wfhost.Program, in any) *engine {
	b.Helper()
	input, err := p.EncodeInput(in)
	must(b, err)
	e := &engine{Rows: rowmap.New(), Queues: memory.NewQueues(), b: b}
	e.o.Programs = func(string) *wfhost.Program { return p }
	_, err = wfhost.Start(e, p, input, wfhost.StartOptions{})
	must(b, err)
	e.Commit()
	e.run = wfhost.Open(e.o)
	return e
}

func (e *engine) advance() {
	out, err := e.run.Advance(e)
	if err != nil || out.Undo {
		e.b.Fatal(err, out.Undo)
	}
	e.Commit()
	e.Keep()
	e.last, e.launch = out, append(e.launch, out.Launch...)
}

// drive goes on until the run waits or has ended.
func (e *engine) drive() {
	e.advance()
	for {
		switch {
		case e.last.Again:
		case len(e.launch) > 0:
			_ = e.launch[0].Run(context.Background(), nil, nil)
			e.launch = slices.Delete(e.launch, 0, 1)
		default:
			return
		}
		e.advance()
	}
}

// toTheEnd runs p with an input to its end.
func toTheEnd(b *testing.B, p *wfhost.Program, in any) {
	b.Helper()
	e := newEngine(b, p, in)
	e.drive()
	fatalIf(b, !e.last.Ended, "%+v", e.last)
	e.run.Close()
}

func (e *engine) Get(key []byte) ([]byte, bool, error) { e.reads++; return e.Rows.Get(key) }

func (e *engine) Scan(start, end []byte, visit func(key, value []byte) error) error {
	e.reads++
	return e.Rows.Scan(start, end, visit)
}

func (*engine) Now() time.Time                                        { return time.UnixMilli(1_700_000_000_000) }
func (*engine) Value() any                                            { return nil }
func (*engine) Reply(*wfhost.Delivery, []byte, *wfhost.Failure) error { return nil }
func (*engine) Send(*wfhost.Outgoing) error                           { return nil }

// perRun measures runs of 1,000 operations; the time is that of one operation.
func perRun(b *testing.B, p *wfhost.Program) {
	b.ReportAllocs()
	for i := 0; i < b.N; i += 1000 {
		toTheEnd(b, p, min(1000, b.N-i))
	}
}

func BenchmarkColdReplay1000(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		sum := 0
		for i := range 1000 {
			v, err := workflow.Step(ctx, names[i], func(*workflow.StepCtx) (int, error) { return i, nil })
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, workflow.Sleep(ctx, "wait", 24*365*time.Hour)
	})
	e := newEngine(b, d.Program(), none{})
	e.drive()
	b.ReportAllocs()
	for b.Loop() {
		e.run.Close()
		e.run = wfhost.Open(e.o)
		e.advance()
		fatalIf(b, e.last.Wake.IsZero(), "%+v", e.last)
	}
	e.run.Close()
}

// BenchmarkWarmWake is a message for a parked run, until it is parked again.
func BenchmarkWarmWake(b *testing.B) {
	q := workflow.Inbox[int]{Name: "q"}
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.Receive(ctx, strconv.Itoa(i), q); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	const batch = 1000
	var e *engine
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%batch == 0 {
			b.StopTimer()
			if e != nil {
				e.run.Close()
			}
			e = newEngine(b, d.Program(), batch+1)
			e.drive()
			b.StartTimer()
		}
		e.Add(wfhost.Delivery{Queue: "q", ID: uint64(i), Body: []byte{1}})
		reads := e.reads
		e.advance()
		fatalIf(b, e.reads != reads, "%d reads", e.reads-reads)
	}
	e.run.Close()
}

// BenchmarkParkedMemory reports what a run takes that waits for a message after five steps.
func BenchmarkParkedMemory(b *testing.B) {
	q := workflow.Inbox[int]{Name: "q"}
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		for i := range 5 {
			if err := workflow.Do(ctx, names[i], func(*workflow.StepCtx) error { return nil }); err != nil {
				return 0, err
			}
		}
		_, err := workflow.Receive(ctx, "wait", q)
		return 0, err
	})
	const runs = 2000
	engines := make([]*engine, runs)
	total := func() (heap, stack uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse
	}
	for b.Loop() {
		for i := range engines {
			engines[i] = newEngine(b, d.Program(), none{})
			engines[i].drive()
			fatalIf(b, len(engines[i].last.Queues) != 1, "%+v", engines[i].last)
		}
		heap, stack := total()
		for _, e := range engines {
			e.run.Close()
			e.run, e.last = nil, wfhost.Outcome{}
		}
		heapClosed, stackClosed := total()
		b.ReportMetric(float64(heap-heapClosed)/runs, "heap-bytes/run")
		b.ReportMetric(float64(stack-stackClosed)/runs, "stack-bytes/run")
		runtime.KeepAlive(engines)
	}
}

// BenchmarkLoopIterations is one iteration with one step, with trimming. Short and long loops should take the same time.
func BenchmarkLoopIterations(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "loop", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == n {
				return it.Break(it.State)
			}
			v, err := workflow.Step(it, "step", func(*workflow.StepCtx) (int, error) { return 1, nil })
			it.State += v
			return err
		})
	})
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				toTheEnd(b, d.Program(), min(n, b.N-i))
			}
		})
	}
}

// BenchmarkJoin64 is a join of 64 branches of one step each.
func BenchmarkJoin64(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		out := make([]int, n)
		branches := make([]workflow.Branch, n)
		for i := range out {
			branches[i] = workflow.B(names[i], &out[i], func(ctx workflow.Context) (int, error) {
				return workflow.Step(ctx, "step", func(*workflow.StepCtx) (int, error) { return i, nil })
			})
		}
		return n, workflow.Join(ctx, "join", branches...)
	})
	b.ReportAllocs()
	for b.Loop() {
		toTheEnd(b, d.Program(), 64)
	}
}

// BenchmarkMap10000 is a map of 10,000 elements of one step each.
func BenchmarkMap10000(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		out, err := workflow.ForEach(ctx, "map", make([]int, n), func(ctx workflow.Context, i, _ int) (int, error) {
			return workflow.Step(ctx, "step", func(*workflow.StepCtx) (int, error) { return i, nil })
		}, workflow.Concurrency(256))
		return len(out), err
	})
	b.ReportAllocs()
	for b.Loop() {
		toTheEnd(b, d.Program(), 10_000)
	}
}
