package main

import (
	"context"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/runtime"
)

// How the load on the calm actors looks while fairness is measured.
const (
	calmActors = 100
	calmPause  = 20 * time.Millisecond
)

// calmOneCore is calmP99 on one processor and without waiting for the disk, which leaves what the
// scheduling of actors does.
func (b *bench) calmOneCore(flood int) float64 {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(1))
	return b.calmP99(flood, runtime.Options{NoSync: true})
}

// calmP99 returns the 99th percentile of the time of calls to 100 actors, each called every 20
// milliseconds by a caller of its own, while so many callers flood one more actor with the same
// call.
func (b *bench) calmP99(flood int, o runtime.Options) (v float64) {
	b.node(o, func(rt *runtime.Runtime) {
		ctx := context.Background()
		hot := meters.Ref(rt, "hot")
		var stop atomic.Bool
		var flooders sync.WaitGroup
		for range flood {
			flooders.Go(func() {
				for !stop.Load() {
					call(ctx, hot)
				}
			})
		}
		times := make([][]float64, calmActors)
		var calm sync.WaitGroup
		for i, ref := range refsOf(rt, calmActors) {
			calm.Go(func() {
				call(ctx, ref)
				tick := time.NewTicker(calmPause)
				defer tick.Stop()
				time.Sleep(calmPause * time.Duration(i) / calmActors)
				for end := time.Now().Add(b.time); times[i] == nil || time.Now().Before(end); <-tick.C {
					t := time.Now()
					call(ctx, ref)
					times[i] = append(times[i], time.Since(t).Seconds())
				}
			})
		}
		calm.Wait()
		stop.Store(true)
		flooders.Wait()
		v = percentile(slices.Concat(times...), 0.99)
	})
	return v
}

func percentile(v []float64, p float64) float64 {
	slices.Sort(v)
	return v[min(int(float64(len(v))*p), len(v)-1)]
}
