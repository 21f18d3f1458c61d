package runtime_test

import (
	"bytes"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
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
			does("pass", func(workflow.Context, claim) (string, error) { return "", nil })
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
			actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
				release = make(chan struct{})
				defer h.Settle()
				defer close(release)
				ctx, r := t.Context(), office.at(h, "a")
				for range 3 { // runs are known to take little time
					must(t, errOf(r.Start(ctx, claim{How: "pass"}, handle.Replace())))
					must(t, errOf(r.Result(ctx)))
				}
				within(t, 5*time.Second, func() {
					within(t, 1500*time.Millisecond, func() { must(t, errOf(r.Start(ctx, claim{How: "block"}, handle.Replace()))) })
					touch(t, h)
				})
				time.Sleep(time.Hour) // it is not tried again
				p := claimStatus(t, h, "a").Pause
				fatalIf(t, p == nil || p.Reason != wfhost.PausedMisuse || !p.Next.IsZero(), "%+v", p)
				for _, part := range []string{"without an operation", "belongs into the body of a step", "workflow_stall_test.go:"} {
					errorIf(t, !strings.Contains(p.Text, part), "the pause does not say %q: %s", part, p.Text)
				}
				errorIf(t, entered.Load() != 1, "the function was called %d times", entered.Load())
				must(t, r.Resume(ctx))
				must(t, r.Terminate(ctx, "enough"))
				st := claimStatus(t, h, "a")
				errorIf(t, st.State != wfhost.StateTerminated, "%+v", st)
			}, office.definition())
		})
	}
}

// touch calls an action of the desk a.
func touch(t *testing.T, n actor.Node) {
	t.Helper()
	must(t, errOf(office.order.Call(t.Context(), office.typ.Ref(n, "a"), order{What: "open"})))
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
	rt := openDir(t, t.TempDir(), office.definition())
	startClaim(t, rt, "a", "mutex")
	for touch(t, rt); claimStatus(t, rt, "a").Pause == nil; touch(t, rt) {
		time.Sleep(10 * time.Millisecond)
	}
	p := claimStatus(t, rt, "a").Pause
	errorIf(t, p.Reason != wfhost.PausedMisuse || !strings.Contains(p.Text, "sync.(*Mutex).Lock"), "%+v", p)
	mu.Unlock()
	must(t, rt.Close())
}

// A function that computes for long is no misuse.
func TestFunctionThatComputesIsNotPaused(t *testing.T) {
	does("compute", func(workflow.Context, claim) (string, error) {
		n := 0
		for begun := time.Now(); time.Since(begun) < 3*time.Second; n++ {
		}
		return "done", nil
	})
	rt := openDir(t, t.TempDir(), office.definition())
	defer rt.Close()
	startClaim(t, rt, "a", "compute")
	wantResult(t, rt, "a", "done")
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
		_, err := workflow.Receive(ctx, "paper", office.papers)
		return read, err
	})
	for name, limit := range map[string]time.Duration{"longer than an operation may take": 10 * time.Second, "longer than a turn": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode()
			rt := n.open(t, func(o *runtime.Options) { o.Actors = []actor.Definition{office.definition()} })
			startClaim(t, rt, "a", "read")
			awaitWaiting(t, rt, "a")
			must(t, rt.Close())
			rt = n.open(t, func(o *runtime.Options) {
				o.Actors, o.TurnGrace = []actor.Definition{office.definition()}, 3*time.Second
				o.TypeLimits = map[string]actor.Limits{"desk": {TurnTimeout: limit}}
			})
			var reads atomic.Int64
			n.disk.Fail(func(op, _ string) error {
				if op == "read" && bytes.Contains(debug.Stack(), []byte("replay.(*coroutine).main(")) && reads.Add(1) <= 64 {
					time.Sleep(100 * time.Millisecond) // a payload is more than 32 reads
				}
				return nil
			})
			send := func() error { return errOf(office.papers.Of(office.typ.Ref(rt, "a")).Send(t.Context(), "paper")) }
			err := send()
			for actor.CodeOf(err) == actor.DeadlineExceeded { // on a slow machine this takes longer than a turn may, too
				err = send()
			}
			must(t, err)
			for st := claimStatus(t, rt, "a"); st.State != wfhost.StateCompleted; st = claimStatus(t, rt, "a") {
				time.Sleep(100 * time.Millisecond)
				fatalIf(t, st.Pause != nil, "after %d reads: %+v", reads.Load(), st.Pause)
			}
			errorIf(t, reads.Load() < 64, "%d reads", reads.Load())
			n.disk.Fail(nil)
			must(t, rt.Close())
		})
	}
}
