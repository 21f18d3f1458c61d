package workflow_test

import (
	"testing"

	"github.com/cairn-run/cairn/workflow"
)

// What a body may not do pauses the run as misuse, instead of failing the step: before the body runs, if its type tells.
func TestMisuseInABodyPausesTheRun(t *testing.T) {
	bodies := 0
	for name, tt := range map[string]struct {
		f      func(ctx workflow.Context) error
		says   string
		bodies int
	}{
		"a result of a type that cannot be encoded": {func(ctx workflow.Context) error {
			_, err := workflow.Step(ctx, "a", func(*workflow.StepCtx) (struct{ C chan int }, error) {
				bodies++
				return struct{ C chan int }{}, nil
			})
			return err
		}, `step "a": its result cannot be recorded`, 0},
		"begun": {func(ctx workflow.Context) error {
			_, err := workflow.Begin(ctx, "a", func(*workflow.StepCtx) (func(), error) { bodies++; return nil, nil })
			return err
		}, `step "a": its result cannot be recorded`, 0},
		"an update": {func(ctx workflow.Context) error {
			_, err := workflow.Update(ctx, "a", func(*workflow.Tx) (chan int, error) { bodies++; return nil, nil })
			return err
		}, `step "a": its result cannot be recorded`, 0},
		"a value that cannot be encoded": {func(ctx workflow.Context) error {
			_, err := workflow.Step(ctx, "a", func(*workflow.StepCtx) (any, error) { bodies++; return make(chan int), nil })
			return err
		}, `step "a": the result cannot be recorded`, 1},
		"a value of an update that cannot be encoded": {func(ctx workflow.Context) error {
			_, err := workflow.Update(ctx, "a", func(*workflow.Tx) (any, error) { bodies++; return make(chan int), nil })
			return err
		}, `update "a": the result cannot be recorded`, 1},
		"an operation in a body": {func(ctx workflow.Context) error {
			return workflow.Do(ctx, "a", func(*workflow.StepCtx) error {
				bodies++
				return workflow.Do(ctx, "b", func(*workflow.StepCtx) error { return nil })
			})
		}, "was used outside of its workflow function", 1},
		"an operation in OnCommit": {func(ctx workflow.Context) error {
			return workflow.Do(ctx, "a", func(sc *workflow.StepCtx) error {
				bodies++
				sc.OnCommit(func(*workflow.Tx) error {
					return workflow.Do(ctx, "b", func(*workflow.StepCtx) error { return nil })
				})
				return nil
			})
		}, "was used outside of its workflow function", 1},
		"an operation in an update": {func(ctx workflow.Context) error {
			_, err := workflow.Update(ctx, "a", func(*workflow.Tx) (none, error) {
				bodies++
				return none{}, workflow.Do(ctx, "b", func(*workflow.StepCtx) error { return nil })
			})
			return err
		}, "was used outside of its workflow function", 1},
		"Break without return": {func(ctx workflow.Context) error {
			_, err := workflow.Loop(ctx, "a", 0, func(it *workflow.Iter[int, int]) error {
				_ = it.Break(1)
				return nil
			})
			return err
		}, `the body of loop "a" has called Break and returned nil`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bodies = 0
			h := started(t, workflow.Define("w", func(ctx workflow.Context, _ none) (string, error) { return "", tt.f(ctx) }).Program(), none{})
			if err := h.Drive(func() bool { return h.Last.Paused || h.Last.Ended }); err != nil {
				t.Fatal(err)
			}
			wantPause(t, h, workflow.PausedMisuse, tt.says)
			if bodies != tt.bodies {
				t.Errorf("%d bodies ran, want %d", bodies, tt.bodies)
			}
		})
	}
}
