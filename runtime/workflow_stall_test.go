package runtime_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

// A function that blocks outside of a step is paused as misuse, with its stack, and does not hold its actor: the start is answered
// meanwhile, and then the actor goes on. The run is not tried again by itself.
func TestFunctionThatBlocksIsPausedAndItsActorGoesOn(t *testing.T) {
	for _, when := range []string{"at once", "after a step"} {
		t.Run(when, func(t *testing.T) {
			var release chan struct{} // of the bubble
			var entered atomic.Int64
			does("block", func(ctx workflow.Context, _ claim) (string, error) {
				if when == "after a step" {
					if err := workflow.Do(ctx, "step", func(*workflow.StepCtx) error { return nil }); err != nil {
						return "", err
					}
				}
				entered.Add(1)
				<-release
				return "late", nil
			})
			withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
				release = make(chan struct{})
				defer h.Settle()
				defer close(release)
				does("pass", func(workflow.Context, claim) (string, error) { return "", nil })
				for range 3 { // runs are known to take little time
					if _, err := handle.Start(t.Context(), d, claim{How: "pass"}, actor.Replace()); err != nil {
						t.Fatal(err)
					}
					claimResult(t, d)
				}
				begun := time.Now()
				if _, err := handle.Start(t.Context(), d, claim{How: "block"}, actor.Replace()); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 1500*time.Millisecond {
					t.Errorf("the start was answered after %v", took)
				}
				if _, err := unlock.Call(t.Context(), d, actor.None{}); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("the actor went on after %v", took)
				}
				time.Sleep(time.Hour) // it is not tried again
				p := claimStatus(t, d).Pause
				if p == nil || p.Reason != workflow.PausedMisuse || !p.Next.IsZero() {
					t.Fatalf("%+v", p)
				}
				for _, part := range []string{"without an operation", "belongs into the body of a step", "workflow_stall_test.go:"} {
					if !strings.Contains(p.Text, part) {
						t.Errorf("the pause does not say %q: %s", part, p.Text)
					}
				}
				if entered.Load() != 1 {
					t.Errorf("the function was called %d times", entered.Load())
				}
				if err := handle.Resume(t.Context(), d); err != nil {
					t.Fatal(err)
				}
				if err := handle.Terminate(t.Context(), d, "enough"); err != nil {
					t.Error(err)
				}
				if st := claimStatus(t, d); st.State != workflow.StateTerminated {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// In real time, what a function waits for may be anything: a mutex as well.
func TestFunctionThatWaitsForAMutexIsPaused(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	does("mutex", func(workflow.Context, claim) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return "late", nil
	})
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: t.TempDir(), Actors: []actor.Definition{deskDefinition()}})
	if err != nil {
		t.Fatal(err)
	}
	d := desks.Ref(rt, "a")
	startClaim(t, d, claim{How: "mutex"})
	if _, err := unlock.Call(t.Context(), d, actor.None{}); err != nil {
		t.Error(err)
	}
	for claimStatus(t, d).Pause == nil {
		if _, err := unlock.Call(t.Context(), d, actor.None{}); err != nil {
			t.Fatal(err)
		}
	}
	if p := claimStatus(t, d).Pause; p.Reason != workflow.PausedMisuse || !strings.Contains(p.Text, "sync.(*Mutex).Lock") {
		t.Errorf("%+v", p)
	}
	mu.Unlock()
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
}

// A function that computes for long is no misuse.
func TestFunctionThatComputesIsNotPaused(t *testing.T) {
	does("compute", func(workflow.Context, claim) (string, error) {
		n := 0
		for begun := time.Now(); time.Since(begun) < 3*time.Second; n++ {
		}
		return "done", nil
	})
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: t.TempDir(), Actors: []actor.Definition{deskDefinition()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	d := desks.Ref(rt, "a")
	startClaim(t, d, claim{How: "compute"})
	if got := claimResult(t, d); got != "done" {
		t.Error(got)
	}
}
