package replay_test

import (
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
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
		"a scope": {func(ctx workflow.Context) error {
			_, err := workflow.Scope(ctx, "a", func(workflow.Context) (chan int, error) { bodies++; return nil, nil })
			return err
		}, `scope "a": its result cannot be recorded`, 0},
		"a saga": {func(ctx workflow.Context) error {
			_, err := workflow.Saga(ctx, "a", func(workflow.Context) (chan int, error) { bodies++; return nil, nil })
			return err
		}, `saga "a": its result cannot be recorded`, 0},
		"a branch": {func(ctx workflow.Context) error {
			return workflow.Join(ctx, "a", workflow.B("b", nil, func(workflow.Context) (chan int, error) { bodies++; return nil, nil }))
		}, `"a/b": its result cannot be recorded`, 0},
		"a race": {func(ctx workflow.Context) error {
			_, _, err := workflow.Race(ctx, "a", workflow.C("b", func(workflow.Context) (chan int, error) { bodies++; return nil, nil }))
			return err
		}, `"a/b": its result cannot be recorded`, 0},
		"a map": {func(ctx workflow.Context) error {
			_, err := workflow.ForEach(ctx, "a", []int{1}, func(workflow.Context, int, int) (chan int, error) { bodies++; return nil, nil })
			return err
		}, `": its result cannot be recorded`, 0},
		"a loop": {func(ctx workflow.Context) error {
			_, err := workflow.Loop(ctx, "a", 0, func(it *workflow.Iter[int, chan int]) error { bodies++; return it.Break(nil) })
			return err
		}, `loop "a": its result cannot be recorded`, 0},
		"the state of a loop": {func(ctx workflow.Context) error {
			_, err := workflow.Loop(ctx, "a", nil, func(it *workflow.Iter[chan int, int]) error { bodies++; return it.Break(1) })
			return err
		}, `loop "a": its result cannot be recorded`, 0},
		"an await": {func(ctx workflow.Context) error {
			_, err := workflow.Await(ctx, "a", func(any) (chan int, bool) { bodies++; return nil, true })
			return err
		}, `await "a": its result cannot be recorded`, 0},
		"the output": {func(ctx workflow.Context) error {
			unrecorded := workflow.NewFunction("u", func(workflow.Context, none) (chan int, error) { bodies++; return nil, nil })
			child, err := workflow.Spawn(ctx, "a", unrecorded, none{})
			if err != nil {
				return err
			}
			_, err = child.Result(ctx)
			return err
		}, "the output of the function", 0},
		"a value of a scope that cannot be encoded": {func(ctx workflow.Context) error {
			_, err := workflow.Scope(ctx, "a", func(workflow.Context) (any, error) { bodies++; return make(chan int), nil })
			return err
		}, `"a": the result cannot be recorded`, 1},
		"a value of a branch that cannot be encoded": {func(ctx workflow.Context) error {
			return workflow.Join(ctx, "a", workflow.B("b", nil, func(workflow.Context) (any, error) { bodies++; return make(chan int), nil }))
		}, `"a/b": the result cannot be recorded`, 1},
		"a value of an await that cannot be encoded": {func(ctx workflow.Context) error {
			_, err := workflow.Await(ctx, "a", func(any) (any, bool) { bodies++; return make(chan int), true })
			return err
		}, `await "a": the result cannot be recorded`, 1},
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
			h := begun(t, func(ctx workflow.Context, _ none) (string, error) { return "", tt.f(ctx) })
			pause(t, h)
			wantPause(t, h, wfhost.PausedMisuse, tt.says)
			errorIf(t, bodies != tt.bodies, "%d bodies ran, want %d", bodies, tt.bodies)
		})
	}
}

// A run whose output cannot be encoded has not failed: what it did is not undone.
func TestOutputThatCannotBeEncodedUndoesNothing(t *testing.T) {
	undone := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (any, error) {
		_, err := workflow.Compensated(ctx, "a", func(*workflow.StepCtx) (int, error) { return 1, nil },
			func(*workflow.StepCtx, int) error { undone++; return nil })
		return make(chan int), err
	})
	h := started(t, d.Program(), none{})
	pause(t, h)
	wantPause(t, h, wfhost.PausedMisuse, "the output of the function")
	errorIf(t, undone != 0, "it was undone %d times", undone)
}
