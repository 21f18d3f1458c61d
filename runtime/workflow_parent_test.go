package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// A household waits for the claim of a desk.
type household struct{ N int }

var (
	households = actor.NewType[household]("household")
	awaitClaim = actor.NewWorkflow[claim, string](households, "await")
	knock      = actor.NewAction[actor.None, int](households, "knock")
	sick       atomic.Bool
)

func withHousehold(t *testing.T, f func(t *testing.T, h *actortest.Harness, parent actor.Ref[household])) {
	t.Helper()
	sick.Store(false)
	parents := actor.Define(households, actor.Spec[household]{
		IdleTimeout: time.Second,
		OnWake: func(*household, *actor.Context) error {
			if sick.Load() {
				return errors.New("nobody is at home")
			}
			return nil
		},
	}, actor.On(knock, func(s *household, _ *actor.Context, _ actor.None) (int, error) { s.N++; return s.N, nil }),
		actor.OnRun(awaitClaim, func(ctx workflow.Context, c claim) (string, error) { return childOfDesk(ctx, "child", c) }))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) { f(t, h, households.Ref(h, "p")) }, deskDefinition(), parents)
}

// The result of a child is kept until its parent has taken it, however long the parent does not wake.
func TestWorkflowResultOfAChildWaitsForAParentThatDoesNotWake(t *testing.T) {
	does("an hour", func(ctx workflow.Context, c claim) (string, error) {
		return "done", workflow.Sleep(ctx, "hour", time.Hour)
	})
	withHousehold(t, func(t *testing.T, h *actortest.Harness, parent actor.Ref[household]) {
		ctx := context.Background()
		must(t, errOf(awaitClaim.Of(parent).Start(ctx, claim{"an hour", 1})))
		time.Sleep(time.Minute)
		sick.Store(true)
		time.Sleep(5 * time.Hour)
		child := h.Status("desk", "child")
		fatalIf(t, child.FailedSends != 0 || child.PendingSends != 1, "the child's result: %+v", child)
		if st := h.Status("household", "p"); st.Failure == nil || st.Failure.Attempts > 80 {
			t.Fatalf("the parent is woken more often than it asks for: %+v", st.Failure)
		}
		h.Crash()
		time.Sleep(time.Hour)
		sick.Store(false)
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		if out, err := awaitClaim.Of(parent).Result(ctx); err != nil || out != "done" {
			t.Fatalf("%q, %v", out, err)
		}
	})
}

// A parent whose child has ended asks for a result that was lost when it wakes; and is told if the child is gone.
func TestWorkflowParentAsksForTheResultOfAChildWhenItWakes(t *testing.T) {
	does("an hour", func(ctx workflow.Context, c claim) (string, error) {
		return "done", workflow.Sleep(ctx, "hour", time.Hour)
	})
	for _, destroyed := range []bool{false, true} {
		withHousehold(t, func(t *testing.T, h *actortest.Harness, parent actor.Ref[household]) {
			ctx := context.Background()
			must(t, errOf(awaitClaim.Of(parent).Start(ctx, claim{"an hour", 1})))
			time.Sleep(time.Minute)
			sick.Store(true)
			time.Sleep(2 * time.Hour)
			// An operator throws the result away.
			child := desks.Ref(h, "child")
			skip := host.SendSkipInput{Type: "household", Key: []string{"p"}}
			var skipped host.CountOutput
			askOf(t, h, host.Address{Type: "desk", Key: []string{"child"}}, host.SendSkip, &skip, &skipped)
			fatalIf(t, skipped.Count != 1, "%v", skipped)
			if destroyed {
				must(t, child.Destroy(ctx))
			}
			sick.Store(false)
			time.Sleep(10 * time.Minute)
			if st, err := awaitClaim.Of(parent).Status(ctx); err != nil || st.State.Over() {
				t.Fatalf("it has its answer already: %+v, %v", st, err)
			}
			must(t, errOf(knock.Call(ctx, parent, actor.None{})))
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			out, err := awaitClaim.Of(parent).Result(ctx)
			fatalIf(t, destroyed != (err != nil) || !destroyed && out != "done", "destroyed %v: %q, %v", destroyed, out, err)
			time.Sleep(time.Minute) // the result is there before the message that brought it is off the books
			if st := h.Status("household", "p"); st.FailedSends != 0 || st.PendingSends != 0 {
				t.Fatalf("%+v", st)
			}
		})
	}
}
