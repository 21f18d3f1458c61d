package runtime_test

import (
	"bytes"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
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
					must(t, errOf(deskRun.Of(d).Start(t.Context(), claim{How: "pass"}, handle.Replace())))
					claimResult(t, d)
				}
				begun := time.Now()
				must(t, errOf(deskRun.Of(d).Start(t.Context(), claim{How: "block"}, handle.Replace())))
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
				fatalIf(t, p == nil || p.Reason != wfhost.PausedMisuse || !p.Next.IsZero(), "%+v", p)
				for _, part := range []string{"without an operation", "belongs into the body of a step", "workflow_stall_test.go:"} {
					errorIf(t, !strings.Contains(p.Text, part), "the pause does not say %q: %s", part, p.Text)
				}
				if entered.Load() != 1 {
					t.Errorf("the function was called %d times", entered.Load())
				}
				must(t, deskRun.Of(d).Resume(t.Context()))
				if err := deskRun.Of(d).Terminate(t.Context(), "enough"); err != nil {
					t.Error(err)
				}
				if st := claimStatus(t, d); st.State != wfhost.StateTerminated {
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
	must(t, err)
	d := desks.Ref(rt, "a")
	startClaim(t, d, claim{How: "mutex"})
	if _, err := unlock.Call(t.Context(), d, actor.None{}); err != nil {
		t.Error(err)
	}
	for claimStatus(t, d).Pause == nil {
		must(t, errOf(unlock.Call(t.Context(), d, actor.None{})))
	}
	if p := claimStatus(t, d).Pause; p.Reason != wfhost.PausedMisuse || !strings.Contains(p.Text, "sync.(*Mutex).Lock") {
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
	must(t, err)
	defer rt.Close()
	d := desks.Ref(rt, "a")
	startClaim(t, d, claim{How: "compute"})
	wantResult(t, d, "done")
}

// A function whose operation waits for the disk does not block: the disk does.
func TestFunctionThatWaitsForTheStoreIsNotPaused(t *testing.T) {
	does("read", func(ctx workflow.Context, _ claim) (string, error) {
		var read string
		for _, name := range []string{"a", "b"} {
			large, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return strings.Repeat(name, 1<<20), nil })
			if err != nil {
				return "", err
			}
			read += large[:1]
		}
		_, err := workflow.Receive(ctx, "paper", papers)
		return read, err
	})
	for name, limit := range map[string]time.Duration{"longer than an operation may take": 10 * time.Second, "longer than a turn": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := engine.NewDisk()
			open := func() *runtime.Runtime {
				rt, err := runtime.Open(t.Context(), runtime.Options{
					Dir: "data", Disk: disk, Actors: []actor.Definition{deskDefinition()}, Logger: slog.New(slog.DiscardHandler),
					TypeLimits: map[string]actor.Limits{"desk": {TurnTimeout: limit}}, TurnGrace: time.Second,
				})
				must(t, err)
				return rt
			}
			rt := open()
			startClaim(t, desks.Ref(rt, "a"), claim{How: "read"})
			awaitWaiting(t, rt, host.Address{Type: "desk", Key: []string{"a"}})
			must(t, rt.Close())
			rt = open()
			var reads atomic.Int64
			disk.Fail(func(op, _ string) error {
				if op == "read" && bytes.Contains(debug.Stack(), []byte("replay.(*coroutine).main(")) && reads.Add(1) <= 64 {
					time.Sleep(100 * time.Millisecond) // a payload is more than 32 reads
				}
				return nil
			})
			d := desks.Ref(rt, "a")
			sendPapers(t, d, "paper")
			for claimStatus(t, d).State != wfhost.StateCompleted {
				if p := claimStatus(t, d).Pause; p != nil {
					t.Fatalf("after %d reads: %+v", reads.Load(), p)
				}
			}
			if reads.Load() < 64 {
				t.Errorf("%d reads", reads.Load())
			}
			disk.Fail(nil)
			if err := rt.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
