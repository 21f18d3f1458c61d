package patrol

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func TestPatrolRunsOnlyWhileThereIsSomethingToLookAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var goroutines, looks, left atomic.Int64
		p := New(func(f func()) bool {
			goroutines.Add(1)
			go func() { defer goroutines.Add(-1); f() }()
			return true
		}, func(time.Time) (time.Duration, bool) {
			looks.Add(1)
			return time.Second, left.Add(-1) >= 0
		}, 0)
		left.Store(3)
		p.Start()
		p.Start()
		synctest.Wait()
		n := goroutines.Load()
		errorIf(t, n != 1, "%d goroutines look", n)
		time.Sleep(time.Minute)
		n = goroutines.Load()
		errorIf(t, n != 0, "%d goroutines are left though there is nothing to look at", n)
		n = looks.Load()
		errorIf(t, n != 5, "it looked %d times: 3 with something there, and twice to end", n)
		left.Store(1)
		p.Start()
		synctest.Wait()
		n = goroutines.Load()
		errorIf(t, n != 1, "%d goroutines look when there is something again", n)
		p.Stop()
		synctest.Wait()
		n = goroutines.Load()
		errorIf(t, n != 0, "%d goroutines are left after Stop", n)
	})
}

func TestPokeMakesAPatrolLookAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		p := New(func(f func()) bool { go f(); return true }, func(time.Time) (time.Duration, bool) {
			looks.Add(1)
			return time.Hour, true
		}, 0)
		p.Start()
		synctest.Wait()
		p.Poke()
		synctest.Wait()
		n := looks.Load()
		errorIf(t, n != 2, "it looked %d times", n)
		p.Stop()
	})
}

// Every Start is followed by a look, regardless of its moment.
func TestStartIsNeverLost(t *testing.T) {
	var wg sync.WaitGroup
	var left atomic.Int64
	seen := make(chan bool, 1)
	p := New(func(f func()) bool {
		wg.Go(f)
		return true
	}, func(time.Time) (time.Duration, bool) {
		if left.Swap(0) > 0 {
			seen <- true
		}
		return 0, false
	}, 0)
	for range 20_000 {
		left.Add(1)
		p.Start()
		<-seen // or the test does not end
	}
	p.Stop()
	wg.Wait()
}

func TestPatrolThatMayNotStartDoesNotCountAsRunning(t *testing.T) {
	may := false
	var wg sync.WaitGroup
	looked := false
	p := New(func(f func()) bool {
		if may {
			wg.Go(f)
		}
		return may
	}, func(time.Time) (time.Duration, bool) { looked = true; return 0, false }, 0)
	p.Start()
	may = true
	p.Start()
	wg.Wait()
	errorIf(t, !looked, "the second Start started nothing")
}

// Things that are over before the first look must not cost a goroutine each time.
func TestPatrolLingersWhenItFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started, looks atomic.Int64
		p := New(func(f func()) bool {
			started.Add(1)
			go f()
			return true
		}, func(time.Time) (time.Duration, bool) {
			looks.Add(1)
			return time.Second, false
		}, 3)
		for range 2 {
			started.Store(0)
			looks.Store(0)
			for range 100 {
				p.Start()
				synctest.Wait()
			}
			errorIf(t, started.Load() != 1 || looks.Load() != 1,
				"100 starts began %d goroutines, which looked %d times", started.Load(), looks.Load())
			time.Sleep(time.Minute)
			n := looks.Load()
			errorIf(t, n != 5, "it looked %d times: once, 3 times more, and once to end", n)
		}
	})
}

var errorIf = testutil.ErrorIf
