package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// What comes for a run while its actor is paused and out of memory is looked at when the actor is resumed.
func TestWorkflowTakesWhatCameWhileItsActorWasPaused(t *testing.T) {
	does("parked", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"parked", 1})
		h.Settle()
		askDesk(t, h, host.ActorPause, &host.PauseInput{Reason: "stocktaking"}, nil)
		h.Restart()
		h.Settle()
		if _, err := papers.Send(context.Background(), d, "deed"); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if st := claimStatus(t, d); st.State.Over() {
			t.Fatalf("it went on: %+v", st)
		}
		askDesk(t, h, host.ActorResume, nil, nil)
		h.Settle()
		if got := claimResult(t, d); got != "deed" {
			t.Errorf("%q", got)
		}
	})
}

// What comes for a run between the end of its actor's tasks and the actor's sleep brings the actor back.
func TestWorkflowTakesWhatCameWhileItsActorFellAsleep(t *testing.T) {
	var asked atomic.Bool
	stop := make(chan struct{})
	does("drowsy", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		stop = make(chan struct{})
		startClaim(t, d, claim{"drowsy", 1})
		chores.Store(func(task *actor.Task) error { // it takes its time when it is told to return
			<-task.Done()
			asked.Store(true)
			<-stop
			return nil
		})
		if _, err := chore.Call(context.Background(), d, actor.None{}); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		slept := make(chan error)
		go func() {
			_, err := h.Call(context.Background(), &host.Request{Address: host.Address{Type: "desk", Key: []string{"a"}}, Method: host.ActorSleep, Codec: host.JSON})
			slept <- err
		}()
		h.Settle()
		if !asked.Load() {
			t.Fatal("the task was not asked to return")
		}
		if _, err := papers.Send(context.Background(), d, "deed"); err != nil {
			t.Fatal(err)
		}
		close(stop)
		if err := <-slept; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if got, err := handle.Result(ctx, d); err != nil || got != "deed" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// An attempt whose turn is not durable yet does not begin when the run is terminated meanwhile, and the next run does not wait
// for it.
func TestWorkflowThatIsTerminatedBeginsNoAttempt(t *testing.T) {
	var bodies atomic.Int64
	does("too late", func(ctx workflow.Context, c claim) (string, error) {
		if c.N > 0 {
			return "next", nil
		}
		return workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (string, error) {
			bodies.Add(1)
			<-sc.Done()
			return "", sc.Err()
		}, workflow.Timeout(0))
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		if _, err := unlock.Call(ctx, d, actor.None{}); err != nil {
			t.Fatal(err)
		}
		synced := make(chan struct{})
		h.Disk().Fail(func(op, _ string) error {
			if op == "sync" {
				<-synced
			}
			return nil
		})
		errs := make(chan error, 2)
		go func() { _, err := handle.Start(ctx, d, claim{"too late", 0}); errs <- err }()
		h.Settle()
		go func() { errs <- handle.Terminate(ctx, d, "a mistake") }()
		h.Settle()
		close(synced)
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		h.Disk().Fail(nil)
		h.Settle()
		if n := bodies.Load(); n != 0 {
			t.Errorf("%d bodies of a run that is over", n)
		}
		if _, err := handle.Start(ctx, d, claim{"too late", 1}, actor.Replace()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if got, err := handle.Result(ctx, d); err != nil || got != "next" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// childOfDesk spawns a claim at another desk.
func childOfDesk(ctx workflow.Context, key string, c claim) (string, error) {
	child, err := actor.Spawn(ctx, "sub", handle, []string{key}, c)
	if err != nil {
		return "", err
	}
	return child.Result(ctx)
}

func TestWorkflowChildrenWhoseActorsAreDestroyed(t *testing.T) {
	does("naps", func(ctx workflow.Context, c claim) (string, error) {
		return "napped", workflow.Sleep(ctx, "nap", time.Hour)
	})
	does("mother", func(ctx workflow.Context, c claim) (string, error) { return childOfDesk(ctx, "b", claim{"naps", 1}) })
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		b := desks.Ref(h, "b")
		startClaim(t, d, claim{"mother", 1})
		h.Settle()
		if err := b.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
		if out, err := handle.Result(ctx, d); err == nil || !strings.Contains(err.Error(), "destroyed") {
			t.Fatalf("the child's actor is gone: %q, %v", out, err)
		}
		// A child that its actor refuses.
		startClaim(t, b, claim{"naps", 7})
		if _, err := handle.Start(ctx, d, claim{"mother", 1}, actor.Replace()); err != nil {
			t.Fatal(err)
		}
		if out, err := handle.Result(ctx, d); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Fatalf("the child's actor has another run: %q, %v", out, err)
		}
		if err := handle.Terminate(ctx, b, ""); err != nil {
			t.Fatal(err)
		}
		// The parent's actor is destroyed: the child ends with it, and what it has to say does not bring the actor back.
		m := desks.Ref(h, "m")
		does("mother of c", func(ctx workflow.Context, c claim) (string, error) { return childOfDesk(ctx, "c", claim{"naps", 1}) })
		startClaim(t, m, claim{"mother of c", 1})
		h.Settle()
		if err := m.Destroy(ctx); err != nil {
			t.Fatal(err)
		}
		h.Settle()
		if st := claimStatus(t, desks.Ref(h, "c")); st.State != workflow.StateCancelled {
			t.Errorf("the child is %s", st.State)
		}
		time.Sleep(2 * time.Hour)
		h.Settle()
		if _, err := h.Lookup(ctx, host.Address{Type: "desk", Key: []string{"m"}}); actor.CodeOf(err) != actor.NotFound {
			t.Errorf("the parent's actor is back: %v", err)
		}
	})
}

// A child of a type that the node does not host cannot stop its parent.
func TestWorkflowChildThatCannotBeSent(t *testing.T) {
	def := workflow.Define("handle", runClaim)
	does("nowhere", func(ctx workflow.Context, c claim) (string, error) {
		child, err := workflow.Spawn(ctx, "sub", def, claim{"naps", c.N}, workflow.At(workflow.Destination{Type: "unknown", Key: []string{"b"}}))
		if err != nil {
			return "", err
		}
		if _, err = child.Result(ctx); err == nil {
			return "", fmt.Errorf("it was started")
		}
		return "told", nil
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"nowhere", 1})
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if got, err := handle.Result(ctx, d); err != nil || got != "told" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
