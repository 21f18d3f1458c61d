package supervisor

import (
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestReplyDoesNotWaitForManyTurnsThatAreQuickOneByOne(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		const each = quickTurn - time.Microsecond
		brief := func(p *puppet, _ host.Turn) error { p.s.N++; time.Sleep(each); return nil }
		for range 20 {
			g.must("a", brief) // the type's pace is known
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var waits []time.Duration
		begin := time.Now()
		for range 200 {
			wg.Go(func() {
				if err := g.do("a", brief); err != nil {
					t.Error(err)
				}
				mu.Lock()
				waits = append(waits, time.Since(begin))
				mu.Unlock()
			})
		}
		wg.Wait()
		// The first turn begins alone; the others share commits.
		if w := waits[1]; w > quickTurn+maxGroupTime+quickTurn {
			t.Fatalf("the second reply came after %s; the turns take %s each", w, each)
		}
		if n := g.find(pAddr("a")).applied.Load(); n > 20+1+200*uint64(each)/uint64(maxGroupTime)+2 {
			t.Fatalf("they took %d commits", n)
		}
	})
}
