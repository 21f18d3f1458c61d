package worker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel/spawn"
)

func TestEveryJobRunsAtOnceAndAFewWorkersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group spawn.Group
		var ran, running atomic.Int64
		p := New(&group, func(d time.Duration) {
			running.Add(1)
			time.Sleep(d)
			running.Add(-1)
			ran.Add(1)
		})
		n := 3 * spares
		for range 5 {
			for range n {
				p.Run(time.Second)
			}
			synctest.Wait()
			fatalIf(t, running.Load() != int64(n) || group.Len() != n, "%d of %d jobs run, on %d workers", running.Load(), n, group.Len())
			time.Sleep(time.Second)
			synctest.Wait()
			fatalIf(t, group.Len() != spares ||
				p.Free() != spares, "%d workers stay, %d of them free, want %d", group.Len(), p.Free(), spares)
		}
		p.Run(time.Hour)
		synctest.Wait()
		p.Close()
		p.Close()
		synctest.Wait()
		errorIf(t, group.Len() != 1 || ran.Load() != int64(5*n), "%d workers are left, %d jobs ran", group.Len(), ran.Load())
		left := group.Close(2 * time.Hour)
		errorIf(t, left != 0, "%d workers are left", left)
		p.Run(time.Hour)
		synctest.Wait()
		errorIf(t, running.Load() != 0, "a job runs after the end")
	})
}

// An errand takes a while, and may end with a job.
type errand struct {
	t     *testing.T
	group *spawn.Group
	next  int
}

func (e errand) Run() (next int, ok bool) {
	before := e.group.Len()
	time.Sleep(time.Second)
	e.group.Done() // it counts by itself
	n := e.group.Len()
	errorIf(e.t, n != before-1, "%d goroutines count while an errand runs, before %d", n, before)
	return e.next, e.next > 0
}

func TestAnErrandEndsWithAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var group spawn.Group
		got := make(chan int, 10)
		p := New(&group, func(n int) { got <- n })
		for i, next := range []int{7, 0, 8} { // on a new worker, and on free ones
			group.Begin()
			p.Send(errand{t, &group, next})
			synctest.Wait()
			n := group.Len()
			fatalIf(t, n != 1, "%d: %d goroutines count", i, n)
			time.Sleep(time.Second)
			synctest.Wait()
			n = group.Len()
			fatalIf(t, n != 1, "%d: %d goroutines count when the worker is free", i, n)
		}
		errorIf(t, len(got) != 2 || <-got != 7 || <-got != 8, "the jobs that errands end with did not run")
		group.Begin()
		p.Send(errand{t, &group, 9})
		synctest.Wait()
		p.Close()
		left := group.Close(time.Minute)
		errorIf(t, left != 0, "%d goroutines are left", left)
		synctest.Wait()
		errorIf(t, len(got) != 0, "a job runs after the end")
	})
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
