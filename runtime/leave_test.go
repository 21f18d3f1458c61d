package runtime_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A step that a run reaches while the node stops begins after the next start.
func TestStepThatComesUpWhileTheNodeStopsRunsAfterTheNextStart(t *testing.T) {
	for name, options := range map[string][]workflow.StepOption{"at least once": nil, "at most once": {workflow.AtMostOnce()}} {
		t.Run(name, func(t *testing.T) {
			does("leaves", func(ctx workflow.Context, _ claim) (string, error) {
				slow, err := workflow.Begin(ctx, "slow", func(sc *workflow.StepCtx) (string, error) {
					<-sc.Done()
					time.Sleep(time.Second)
					return "slow", nil
				})
				if err != nil {
					return "", err
				}
				first, err := workflow.Step(ctx, "first", func(sc *workflow.StepCtx) (string, error) {
					<-sc.Done()
					return "first", nil
				})
				if err != nil {
					return "", err
				}
				next, err := workflow.Step(ctx, "next", func(*workflow.StepCtx) (string, error) { return "next", nil }, options...)
				if err != nil {
					return "", err
				}
				last, err := slow.Get(ctx)
				return first + " " + next + " " + last, err
			})
			actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
				startClaim(t, h, "a", "leaves")
				h.Settle()
				h.Restart()
				time.Sleep(time.Minute)
				st := claimStatus(t, h, "a")
				errorIf(t, st.State != wfhost.StateCompleted || !strings.Contains(string(st.Output), "first next slow"), "%+v", st)
			}, office.definition())
		})
	}
}

// The results of bodies that return while the node stops in order are kept, however many.
func TestManyStepsEndWhileTheNodeStops(t *testing.T) {
	for _, n := range []int{200, 900} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			does("many", func(ctx workflow.Context, _ claim) (string, error) {
				_, err := workflow.ForEach(ctx, "many", make([]int, n), func(ctx workflow.Context, _, _ int) (string, error) {
					return workflow.Step(ctx, "once", func(sc *workflow.StepCtx) (string, error) {
						<-sc.Done()
						return "done", nil
					}, workflow.AtMostOnce())
				}, workflow.Concurrency(1000))
				return "fine", err
			})
			actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
				startClaim(t, h, "a", "many")
				h.Settle()
				h.Restart()
				time.Sleep(time.Minute)
				st := claimStatus(t, h, "a")
				errorIf(t, st.State != wfhost.StateCompleted || !strings.Contains(string(st.Output), "fine"), "%s %.300v", st.State, st.Failure)
			}, office.definition())
		})
	}
}
