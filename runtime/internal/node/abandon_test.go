package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

var (
	gates = actor.NewType[unit]("gate")
	pause = actor.NewAction[actor.None, int](gates, "pause")
)

func TestTurnIsNotCommittedOnceItsAbandonmentHasBegun(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	def := actor.Define(gates, actor.Spec[unit]{}, actor.On(pause, func(u *unit, ctx *actor.Context, _ actor.None) (int, error) {
		u.N++
		entered <- struct{}{}
		<-release
		return u.N, nil
	}))
	store, err := engine.Open(t.Context(), engine.Options{Disk: engine.NewDisk()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := New(Options{Options: options.Options{Store: store, Behaviors: []*host.Behavior{def.Behavior()}, Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	reply := make(chan error, 1)
	go func() {
		_, err := pause.Call(context.Background(), gates.Ref(s, "a"), actor.None{})
		reply <- err
	}()
	<-entered
	a := s.Find(host.Address{Type: "gate", Key: []string{"a"}})
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
	synctest.Test(t, func(t *testing.T) {
		s := newTest(t)
		ctx := context.Background()
		ref := units.Ref(s, "a")
		if _, err := step.Call(ctx, ref, ""); err != nil {
			t.Fatal(err)
		}
		a, before := s.Find(host.Address{Type: "unit", Key: []string{"a"}}), s.Destroys.Load()
		// The goroutine that runs the actor stops between the commit that ends the actor and the end of its core.
		stop := &stopper{goOn: make(chan struct{})}
		attach.Make(&a.Core.Attached, func() *stopper { return stop })
		err := s.Destroy(ctx, a.Address)
		v, after := a.AcquireView(), s.Destroys.Load()
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
