package node

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
)

func TestReplyDoesNotWaitForManyTurnsThatAreQuickOneByOne(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		const each = pace.QuickTurn - time.Microsecond
		brief := func(p *puppet, _ host.Turn) error { p.s.N++; time.Sleep(each); return nil }
		for range 20 {
			g.must("a", brief) // the type's pace is known
		}
		waits := make(chan time.Duration, 200)
		begin := time.Now()
		for range cap(waits) {
			go func() {
				g.must("a", brief)
				waits <- time.Since(begin)
			}()
		}
		<-waits // The first turn begins alone; the others share commits.
		w := <-waits
		for range cap(waits) - 2 {
			<-waits
		}
		fatalIf(t, w > pace.QuickTurn+kernel.MaxGroupTime+pace.QuickTurn, "the second reply came after %s; the turns take %s each", w, each)
		n := g.Find(pAddr("a")).Applied.Load()
		fatalIf(t, n > 20+1+200*uint64(each)/uint64(kernel.MaxGroupTime)+2, "they took %d commits", n)
	})
}

// TestFloodedActorDoesNotKeepOthersWaiting counts instead of measuring time: how many turns of a flooded actor overtake a
// call to another, on one processor.
func TestFloodedActorDoesNotKeepOthersWaiting(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	g := newStage(t, nil)
	var stop atomic.Bool
	var turns atomic.Int64
	var wg sync.WaitGroup
	flood := remember(deed(func(p *puppet, _ host.Turn) error { turns.Add(1); return nil }))
	for range 64 {
		wg.Go(func() {
			for !stop.Load() {
				if _, err := g.Call(context.Background(), &host.Request{Address: pAddr("hot"), Method: "do", Input: flood}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var overtaken []int64
	for i := range 300 {
		before := turns.Load()
		g.must(fmt.Sprint("calm", i%100), add(1))
		overtaken = append(overtaken, turns.Load()-before)
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(overtaken)
	t.Logf("turns that overtake a call: median %d, 90 of 100 %d, most %d", overtaken[150], overtaken[270], overtaken[299])
	n := overtaken[270]
	errorIf(t, n > 10*64, "%d turns of the flooded actor, which has 64 callers, overtake a call in ten", n)
}

// On one processor, callers that are ready at once call one after the other, each before the actor runs.
func TestCallsThatComeWhileASyncRunsShareACommit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		thaw := make(chan struct{})
		g.disk.Fail(func(op, path string) error {
			if op == "sync" {
				<-thaw
			}
			return nil
		})
		begin := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { g.must("a", add(1)) })
		const calls = 32
		for range calls {
			wg.Go(func() { <-begin; g.must("a", add(1)) })
		}
		synctest.Wait()
		before := g.Find(pAddr("a")).Applied.Load()
		close(begin)
		synctest.Wait()
		n := g.Find(pAddr("a")).Applied.Load() - before
		errorIf(t, n == 0 || n > calls/4, "%d calls took %d commits", calls, n)
		close(thaw)
		wg.Wait()
	})
}

// TestTurnsAndQueriesFitTheirSizeClasses bounds what each call allocates besides its result, by size classes of the allocator.
func TestTurnsAndQueriesFitTheirSizeClasses(t *testing.T) {
	t.Parallel()
	if n := unsafe.Sizeof(handlerTurn{}); n > 704 {
		t.Errorf("a turn takes %d bytes", n)
	}
	if n := unsafe.Sizeof(handlerQuery{}); n > 176 {
		t.Errorf("a query takes %d bytes", n)
	}
}
