package runtime_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/workflow"
)

// An actor is taken away from a handler that does not return, while the body of a step runs that does not look at its context.
// The step is tried again when that body has returned, or was given up: two bodies of a step, or a body and its undo, are
// never at work at once.
func TestBodyOfAnActorThatIsTakenAwayReturnsBeforeTheNextAttempt(t *testing.T) {
	for _, c := range []struct {
		name     string
		body     time.Duration
		atOnce   int64
		attempts int64
	}{
		{"within the grace", 18 * time.Second, 1, 2},
		{"given up", 40 * time.Second, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var running, most, attempts atomic.Int64
			does("stubborn", func(ctx workflow.Context, _ claim) (string, error) {
				return "done", workflow.Do(ctx, "body", func(*workflow.StepCtx) error {
					if n := running.Add(1); n > most.Load() {
						most.Store(n)
					}
					defer running.Add(-1)
					if attempts.Add(1) == 1 {
						time.Sleep(c.body)
					}
					time.Sleep(time.Second)
					return nil
				})
			})
			withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
				free := make(chan struct{})
				wedged.Store(free)
				startClaim(t, d, claim{How: "stubborn"})
				if _, err := wedge.Call(t.Context(), d, actor.None{}); actor.CodeOf(err) != actor.DeadlineExceeded {
					t.Fatal(err)
				}
				if out := claimResult(t, d); out != "done" {
					t.Fatal(out)
				}
				if most.Load() != c.atOnce || attempts.Load() != c.attempts {
					t.Errorf("%d bodies at once in %d attempts", most.Load(), attempts.Load())
				}
				close(free)
				time.Sleep(time.Minute)
			})
		})
	}
}
