package workflowtest_test

import (
	"testing"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// A body may have the process die: what it returns is lost, and it is executed again.
func TestCrashInABody(t *testing.T) {
	var env *workflowtest.Env[none, int]
	var attempts []int
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		return workflow.Step(ctx, "step", func(sc *workflow.StepCtx) (int, error) {
			if attempts = append(attempts, sc.Attempt()); len(attempts) == 1 {
				env.Crash()
			}
			return len(attempts), nil
		})
	})
	env = workflowtest.New(t, d)
	if out, err := env.Start(none{}).Result(); out != 2 || err != nil || env.Crashes() != 1 {
		t.Errorf("%d, %v, attempts %v, %d crashes", out, err, attempts, env.Crashes())
	}
}
