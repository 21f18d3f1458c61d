package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// A lodger is a resident that a test makes busy. It would leave at any time: only Busy keeps its actor.
type lodger struct{ busy atomic.Bool }

func (l *lodger) Busy() bool { return l.busy.Load() }
func (*lodger) Leave() bool  { return true }

// lodge wakes an actor and attaches a busy resident to it.
func (g *stage) lodge(key string) (*kernel.Actor, *lodger) {
	g.t.Helper()
	g.must(key, add(1))
	a := g.Find(pAddr(key))
	l := attach.Make(&a.Attached, func() *lodger { return new(lodger) })
	l.busy.Store(true)
	return a, l
}

func TestActorWithABusyResidentDoesNotFallAsleep(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		a, l := g.lodge("a")
		time.Sleep(10 * time.Minute)
		if g.Find(pAddr("a")) != a || g.Memory.Awake.Load() != 1 {
			t.Error("it fell asleep")
		}
		l.busy.Store(false)
		time.Sleep(10 * time.Minute)
		if g.Find(pAddr("a")) != nil {
			t.Error("it stays awake though its resident is not busy")
		}
	})
}

func TestActorWithABusyResidentStaysThoughMemoryIsShort(t *testing.T) {
	const most = 2
	bubble(t, func(o *Options) { o.MaxAwake = most }, nil, func(t *testing.T, g *stage) {
		wakeOthers := func() {
			time.Sleep(time.Second)
			for i := range 10 {
				g.must(fmt.Sprint("other", i), add(1))
			}
			time.Sleep(5 * time.Second) // less than the idle time
			if n := g.Memory.Awake.Load(); n > most {
				t.Errorf("%d actors are awake", n)
			}
		}
		a, l := g.lodge("a")
		wakeOthers()
		if g.Find(pAddr("a")) != a {
			t.Error("it was put to sleep")
		}
		l.busy.Store(false)
		wakeOthers()
		if g.Find(pAddr("a")) != nil {
			t.Error("it is not the first to sleep though it was used least recently and its resident is not busy")
		}
	})
}

func TestActorWithABusyResidentStaysThoughItsCoreIsLost(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{TurnTimeout: time.Second}}}, func(t *testing.T, g *stage) {
		a, l := g.lodge("a")
		stuck := make(chan struct{})
		defer close(stuck)
		wantCode(t, g.do("a", func(*puppet, host.Turn) error { <-stuck; return nil }), host.DeadlineExceeded)
		time.Sleep(options.DefaultTurnGrace + time.Second) // the turn is abandoned
		synctest.Wait()
		if g.Find(pAddr("a")) != a || g.Memory.Awake.Load() != 0 {
			t.Errorf("it left memory, or its core is not lost: %d are awake", g.Memory.Awake.Load())
		}
		l.busy.Store(false)
		a.Vacate()
		if g.Find(pAddr("a")) != nil {
			t.Error("it stays in memory though its resident is not busy")
		}
	})
}
