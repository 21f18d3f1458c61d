package replay_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
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

// perRun measures runs of 1,000 operations; the time is that of one operation.
func perRun(b *testing.B, p *wfhost.Program) {
	b.ReportAllocs()
	for i := 0; i < b.N; i += 1000 {
		h := memhost.New(p)
		if err := h.Start(p, min(1000, b.N-i)); err != nil {
			b.Fatal(err)
		}
		if err := h.Drive(nil); err != nil {
			b.Fatal(err)
		}
		if !h.Last.Ended {
			b.Fatalf("%+v", h.Last)
		}
		h.Close()
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
	h := memhost.New(d.Program())
	if err := h.Start(d.Program(), none{}); err != nil {
		b.Fatal(err)
	}
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h.Close()
		if err := h.Advance(); err != nil || h.Last.Wake.IsZero() {
			b.Fatal(err, h.Last)
		}
	}
	h.Close()
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
	var h *memhost.Host
	b.ReportAllocs()
	for i := 0; i < b.N; i++ {
		if i%batch == 0 {
			b.StopTimer()
			if h != nil {
				h.Close()
			}
			h = memhost.New(d.Program())
			if err := h.Start(d.Program(), batch+1); err != nil {
				b.Fatal(err)
			}
			if err := h.Drive(nil); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		h.Send("q", []byte{1})
		reads := h.Reads
		if err := h.Advance(); err != nil {
			b.Fatal(err)
		}
		if h.Reads != reads {
			b.Fatalf("%d reads", h.Reads-reads)
		}
	}
	h.Close()
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
	hosts := make([]*memhost.Host, runs)
	total := func() (heap, stack uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse
	}
	for b.Loop() {
		for i := range hosts {
			hosts[i] = memhost.New(d.Program())
			if err := hosts[i].Start(d.Program(), none{}); err != nil {
				b.Fatal(err)
			}
			if err := hosts[i].Drive(nil); err != nil {
				b.Fatal(err)
			}
			if len(hosts[i].Last.Queues) != 1 {
				b.Fatal(fmt.Sprint(hosts[i].Last))
			}
		}
		heap, stack := total()
		for _, h := range hosts {
			h.Close()
		}
		heapClosed, stackClosed := total()
		b.ReportMetric(float64(heap-heapClosed)/runs, "heap-bytes/run")
		b.ReportMetric(float64(stack-stackClosed)/runs, "stack-bytes/run")
		runtime.KeepAlive(hosts)
	}
}
