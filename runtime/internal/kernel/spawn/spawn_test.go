package spawn

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestCloseWaitsUpToItsGrace(t *testing.T) {
	for _, c := range []struct{ runs, grace, took time.Duration }{
		{0, time.Second, 0}, {time.Second, time.Minute, time.Second}, {time.Hour, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			var g Group
			if c.runs > 0 {
				for range 3 {
					fatalIf(t, !g.Go(func() { time.Sleep(c.runs) }), "an open group refuses a goroutine")
				}
			}
			begun, want := time.Now(), 0
			if c.took == c.grace {
				want = 3
			}
			left := g.Close(c.grace)
			errorIf(t, left != want || g.Len() != want ||
				time.Since(begun) != c.took, "%+v: %d are left after %s", c, left, time.Since(begun))
			errorIf(t, g.Begin() || g.Go(func() { t.Error("a closed group runs a goroutine") }), "a closed group takes a goroutine")
			time.Sleep(c.runs)
			synctest.Wait()
			n := g.Len()
			errorIf(t, n != 0, "%d goroutines count though they are done", n)
		})
	}
}

// TestNoGoroutineRunsAfterClose starts goroutines while the group closes.
func TestNoGoroutineRunsAfterClose(t *testing.T) {
	for range 200 {
		var g Group
		var running atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for g.Go(func() { running.Add(1); running.Add(-1) }) {
				}
			})
		}
		left := g.Close(time.Minute)
		fatalIf(t, left != 0 || running.Load() != 0, "%d goroutines are left, %d run", left, running.Load())
		wg.Wait()
		fatalIf(t, running.Load() != 0 || g.Len() != 0, "%d goroutines began after the end", g.Len())
	}
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
