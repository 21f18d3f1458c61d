package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// The actor under test: a small state that every call changes.
type meter struct {
	Count int64
	Sum   int64
	Label string
}

var (
	meters = actor.NewType[meter]("meter")
	record = actor.NewAction[int64, int64](meters, "record")
	read   = actor.NewQuery[actor.None, int64](meters, "read")
)

func (m *meter) record(_ *actor.Context, n int64) (int64, error) {
	m.Count++
	m.Sum += n
	m.Label = "a label of some thirty bytes.."
	return m.Count, nil
}

func (m meter) read(*actor.ReadContext, actor.None) (int64, error) { return m.Count, nil }

func definition() actor.Definition {
	return actor.Define(meters, actor.Spec[meter]{}, actor.On(record, (*meter).record), actor.OnQuery(read, meter.read))
}

// node runs f with a node on a fresh directory, that of the options if they name one, which is then
// kept. It hosts the actors of the options, or the meter.
func (b *bench) node(o runtime.Options, f func(*runtime.Runtime)) {
	if o.Dir == "" {
		dir, err := os.MkdirTemp(b.dir, "node-")
		check(err)
		defer os.RemoveAll(dir)
		o.Dir = dir
	}
	if o.Actors == nil {
		o.Actors = []actor.Definition{definition()}
	}
	o.Logger, o.Traces.Off = slog.New(slog.DiscardHandler), b.untraced
	if b.every {
		o.Traces.PerSecond = 1 << 40
	}
	rt, err := runtime.Open(context.Background(), o)
	check(err)
	f(rt)
	check(rt.Close())
}

// load runs op from n goroutines, by each at least once, for the bench's time and returns
// operations per second. op is told which goroutine runs it and how often it did.
func (b *bench) load(n int, op func(worker, i int)) float64 {
	return b.loadUntil(n, op, func() {})
}

// loadUntil is load with something to wait for after the last operation, which counts as part of
// the time.
func (b *bench) loadUntil(n int, op func(worker, i int), last func()) float64 {
	var done atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	begin, spent := time.Now(), usage.Processor()
	for w := range n {
		wg.Go(func() {
			i := 0
			for ; i == 0 || !stop.Load(); i++ {
				op(w, i)
			}
			done.Add(int64(i))
		})
	}
	time.Sleep(b.time)
	stop.Store(true)
	wg.Wait()
	last()
	took := time.Since(begin).Seconds()
	b.spend(spent, int(done.Load()))
	return float64(done.Load()) / took
}

// p50 returns the median time of op in seconds.
func (b *bench) p50(op func(i int)) float64 { return b.p50Before(op, nil) }

// p50Before is p50 with something to do after each op, unless after is nil. Its time does not
// count.
func (b *bench) p50Before(op func(i int), after func()) float64 {
	var times []float64
	spent := usage.Processor()
	for i, end := 0, time.Now().Add(b.time); i == 0 || time.Now().Before(end); i++ {
		t := time.Now()
		op(i)
		times = append(times, time.Since(t).Seconds())
		if after != nil {
			before := usage.Processor()
			after()
			spent += usage.Processor() - before
		}
	}
	b.spend(spent, len(times))
	return median(times)
}

func keys(n int) []string {
	k := make([]string, n)
	for i := range k {
		k[i] = fmt.Sprintf("meter-%d", i)
	}
	return k
}

func (b *bench) durableAlone() (v float64) {
	b.node(runtime.Options{}, func(rt *runtime.Runtime) {
		ctx, ref := context.Background(), meters.Ref(rt, "one")
		v = b.p50(func(i int) { call(ctx, ref) })
	})
	return v
}

func call(ctx context.Context, ref actor.Ref[meter]) {
	_, err := record.Call(ctx, ref, 7)
	check(err)
}

func (b *bench) durable(callers, actors int) (v float64) {
	b.node(runtime.Options{}, func(rt *runtime.Runtime) {
		ctx := context.Background()
		refs := refsOf(rt, actors)
		v = b.load(callers, func(w, i int) { call(ctx, refs[(w+i*callers)%actors]) })
	})
	return v
}

func refsOf(rt *runtime.Runtime, n int) []actor.Ref[meter] {
	refs := make([]actor.Ref[meter], n)
	for i, k := range keys(n) {
		refs[i] = meters.Ref(rt, k)
	}
	return refs
}

// queries measures on one processor.
func (b *bench) queries() (v float64) {
	b.node(runtime.Options{}, func(rt *runtime.Runtime) {
		ctx, ref := context.Background(), meters.Ref(rt, "one")
		call(ctx, ref)
		time.Sleep(10 * time.Millisecond)
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
		v = b.load(1, func(int, int) {
			_, err := read.Call(ctx, ref, actor.None{})
			check(err)
		})
	})
	return v
}

// wakes measures the first query of actors that sleep.
func (b *bench) wakes() (v float64) {
	const n = 10_000
	b.node(runtime.Options{IdleTimeout: 50 * time.Millisecond}, func(rt *runtime.Runtime) {
		ctx := context.Background()
		refs := refsOf(rt, n)
		rateOnce(64, n, func(i int) { call(ctx, refs[i]) })
		for awake(rt) > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		order := rand.Perm(n)
		times := make([]float64, n)
		spent := usage.Processor()
		for i, k := range order {
			t := time.Now()
			_, err := read.Call(ctx, refs[k], actor.None{})
			check(err)
			times[i] = time.Since(t).Seconds()
		}
		b.spend(spent, n)
		v = median(times)
	})
	return v
}

func rateOnce(workers, n int, op func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				op(i)
			}
		})
	}
	wg.Wait()
}

// awake reads the gauge of awake actors.
func awake(rt *runtime.Runtime) int { return int(gauge(rt, "cairn_actors_awake")) }

// gauge reads a metric without labels.
func gauge(rt *runtime.Runtime, name string) float64 {
	families, err := rt.Gatherer().Gather()
	check(err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	fatal(fmt.Errorf("there is no metric %s", name))
	return 0
}

// memoryOf returns the bytes of heap and stacks per actor, of 20,000 that were called once, when
// they are awake and idle or, after that, asleep. The store's memory, which without cgo is in Go's
// heap, is small, so that it does not count.
func (b *bench) memoryOf(asleep bool) (v float64) {
	const n = 20_000
	b.node(runtime.Options{IdleTimeout: 5 * time.Second, MemTableBytes: 256 << 10,
		CacheBytes: 1 << 20}, func(rt *runtime.Runtime) {
		ctx := context.Background()
		refs := refsOf(rt, n)
		rateOnce(64, 64, func(i int) { call(ctx, meters.Ref(rt, "warm", refs[i].Key()[0])) })
		before := inUse()
		rateOnce(64, n, func(i int) { call(ctx, refs[i]) })
		if asleep {
			for awake(rt) > 0 {
				time.Sleep(100 * time.Millisecond)
			}
		}
		v = max(0, (inUse()-before)/n)
		goruntime.KeepAlive(refs)
	})
	return v
}

func (b *bench) memoryAwake() float64  { return b.memoryOf(false) }
func (b *bench) memoryAsleep() float64 { return b.memoryOf(true) }

func inUse() float64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
