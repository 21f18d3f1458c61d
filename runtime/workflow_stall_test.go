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
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

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
