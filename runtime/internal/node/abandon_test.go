package node

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

func TestTurnIsNotCommittedOnceItsAbandonmentHasBegun(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	g := newStage(t, nil)
	reply := make(chan error, 1)
	go func() {
		reply <- g.do("a", func(p *puppet, _ host.Turn) error {
			p.s.N++
			entered <- struct{}{}
			<-release
			return nil
		})
	}()
	<-entered
	a := g.Find(pAddr("a"))
	// Abandon the turn as abandonTurn does, but let the handler return in the middle of it.
	a.Mu.Lock()
	turn := a.Turn.Swap(nil)
	close(release)
	select {
	case err := <-reply:
		a.Mu.Unlock()
		t.Fatal("the turn was committed, and its caller was told", err)
	case <-time.After(50 * time.Millisecond): // it waits for the abandonment
	}
	a.Epoch.Add(1)
	a.Core, a.Running = nil, false
	a.Mailbox.Revoke()
	a.Kernel.Busy.Add(-1)
	a.Weight.Sleep(&a.Kernel.Memory)
	a.Mu.Unlock()
	turn.Work.Fail(host.Errorf(host.DeadlineExceeded, "nothing of the turn was kept"))
	// The goroutine that runs the actor may be the first to tell, too.
	if code := host.CodeOf(<-reply); code != host.DeadlineExceeded && code != host.Unavailable {
		t.Fatal("the caller was told", code)
	}
	if n := a.Applied.Load(); n != 0 {
		t.Fatalf("%d commits of a turn whose caller was told that nothing was kept", n)
	}
}

// A stopper is a facet that holds up the end of its core.
type stopper struct{ goOn chan struct{} }

func (*stopper) Forget(*kernel.Core, engine.Version) {}
func (s *stopper) Close(*kernel.Core)                { <-s.goOn }
func (s *stopper) Abandon(*kernel.Core)              {}

func TestDestroyedActorIsNotReadOnceItsEndIsKnown(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		a, before := g.Find(pAddr("a")), g.Destroys.Load()
		// The goroutine that runs the actor stops between the commit that ends the actor and the end of its core.
		stop := &stopper{goOn: make(chan struct{})}
		attach.Make(&a.Core.Attached, func() *stopper { return stop })
		err := g.Destroy(t.Context(), a.Address)
		v, after := a.AcquireView(), g.Destroys.Load()
		close(stop.goOn)
		if err != nil {
			t.Fatal(err)
		}
		if v != nil {
			t.Error("a query would be answered with the state of an actor whose end was acknowledged")
		}
		if after == before {
			t.Error("a message would be bound to an actor whose end was acknowledged")
		}
	})
}
