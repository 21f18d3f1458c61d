package workflow_test

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// Steps of a loop that are undone by a handler, together, after their history is gone.
func ExampleUndoBy() {
	type none struct{}
	release := workflow.WithUndo("release", func(_ *workflow.StepCtx, seat int) error { return nil })
	d := workflow.NewFunction("book", func(ctx workflow.Context, seats int) (none, error) {
		return workflow.Saga(ctx, "seats", func(ctx workflow.Context) (none, error) {
			_, err := workflow.Loop(ctx, "each", 0, func(it *workflow.Iter[int, none]) error {
				if it.State == seats {
					return it.Break(none{})
				}
				seat := it.State
				it.State++
				return workflow.Do(it, "reserve", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("release", seat))
			}, workflow.TrimEvery(1))
			if err != nil {
				return none{}, err
			}
			return none{}, errors.New("the show is cancelled")
		}, workflow.UndoParallel(4), workflow.UndoRetry(workflow.RetryPolicy{MaxAttempts: -1}))
	}, release)
	env := workflowtest.New(t, d).Start(8)
	_, err := env.Result()
	fmt.Println(err, env.Calls("undo of each~*/reserve"))
	// Output: the show is cancelled 8
}
