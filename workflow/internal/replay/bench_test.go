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

// names are the names of the benchmarks' operations, so that formatting is not measured.
var names = func() (list []string) {
	for i := range 1000 {
		list = append(list, "step-"+strconv.Itoa(i))
	}
	return list
}()

func stepOf(ctx workflow.Context, i int) (int, error) {
	return workflow.Step(ctx, names[i], func(*workflow.StepCtx) (int, error) { return i, nil })
}

func updateOf(ctx workflow.Context, i int) (int, error) {
	return workflow.Update(ctx, names[i], func(*workflow.Tx) (int, error) { return i, nil })
}

// sum makes a program of n operations, and of a part that follows them.
func sum(do func(ctx workflow.Context, i int) (int, error), then func(ctx workflow.Context) error) *wfhost.Program {
	return workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		sum := 0
		for i := range n {
			v, err := do(ctx, i)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		if then == nil {
			return sum, nil
		}
		return sum, then(ctx)
	}).Program()
}

func BenchmarkSteps(b *testing.B)   { perRun(b, sum(stepOf, nil), 1000) }
func BenchmarkUpdates(b *testing.B) { perRun(b, sum(updateOf, nil), 1000) }

// BenchmarkLoopIterations is one iteration with one step, with trimming. Short and long loops
// should take the same time.
func BenchmarkLoopIterations(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "loop", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == n {
				return it.Break(it.State)
			}
			v, err := stepOf(it, 1)
			it.State += v
			return err
		})
	})
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { perRun(b, d.Program(), n) })
	}
}

// perRun measures runs of n operations; the time is that of one operation.
func perRun(b *testing.B, p *wfhost.Program, n int) {
	b.ReportAllocs()
	for i := 0; i < b.N; i += n {
		toTheEnd(b, p, min(n, b.N-i))
	}
}

func BenchmarkColdReplay1000(b *testing.B) {
	e := newEngine(b, sum(stepOf, func(ctx workflow.Context) error { return workflow.Sleep(ctx, "wait", 24*365*time.Hour) }), 1000)
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

func receiveOf(ctx workflow.Context, i int) (int, error) {
	m, err := workflow.Receive(ctx, names[i], workflow.Inbox[int]{Name: "q"})
	return m.Body, err
}

// BenchmarkWarmWake is a message for a parked run, until it is parked again.
func BenchmarkWarmWake(b *testing.B) {
	batch := len(names) - 1
	p := sum(receiveOf, nil)
	var e *engine
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%batch == 0 {
			b.StopTimer()
			if e != nil {
				e.run.Close()
			}
			e = newEngine(b, p, batch+1)
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

// BenchmarkParkedMemory reports the memory of a run that waits for a message after five steps.
func BenchmarkParkedMemory(b *testing.B) {
	p := sum(stepOf, func(ctx workflow.Context) error { return errOf(receiveOf(ctx, 999)) })
	engines := make([]*engine, 2000)
	total := func() (heap, stack uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse
	}
	for b.Loop() {
		for i := range engines {
			engines[i] = newEngine(b, p, 5)
			engines[i].drive()
			fatalIf(b, len(engines[i].last.Queues) != 1, "%+v", engines[i].last)
		}
		heap, stack := total()
		for _, e := range engines {
			e.run.Close()
			e.run, e.last = nil, wfhost.Outcome{}
		}
		heapClosed, stackClosed := total()
		b.ReportMetric(float64(heap-heapClosed)/float64(len(engines)), "heap-bytes/run")
		b.ReportMetric(float64(stack-stackClosed)/float64(len(engines)), "stack-bytes/run")
		runtime.KeepAlive(engines)
	}
}

// BenchmarkBranches is a join of 64 branches, and a map of 10,000 elements, of one step each.
func BenchmarkBranches(b *testing.B) {
	for name, v := range map[string]struct {
		n  int
		fn workflow.Func[int, int]
	}{
		"join": {64, func(ctx workflow.Context, n int) (int, error) {
			branches := make([]workflow.Branch, n)
			for i := range branches {
				branches[i] = workflow.B[int](names[i], nil, func(ctx workflow.Context) (int, error) { return stepOf(ctx, 0) })
			}
			return n, workflow.Join(ctx, "join", branches...)
		}},
		"map": {10_000, func(ctx workflow.Context, n int) (int, error) {
			out, err := workflow.ForEach(ctx, "map", make([]int, n),
				func(ctx workflow.Context, _, _ int) (int, error) { return stepOf(ctx, 0) },
				workflow.Concurrency(256))
			return len(out), err
		}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				toTheEnd(b, workflow.NewFunction("w", v.fn).Program(), v.n)
			}
		})
	}
}

// An engine is a run without a host: rows, queues, and a loop that advances it and runs bodies on
// the goroutine of the benchmark. It is its own transaction.
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

// drive advances the run until it waits or has ended.
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
