package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// TestRewindPastAnUndoOfWhatEndedIsRefused: what a scope, a saga within another one or the winner of a race has done can be undone
// after it has ended, so that it has ended before the target does not mean that its effects are settled.
func TestRewindPastAnUndoOfWhatEndedIsRefused(t *testing.T) {
	pay := func(ctx workflow.Context) (none, error) {
		return none{}, workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", 1))
	}
	fails := func(ctx workflow.Context) (none, error) {
		_, err := pay(ctx)
		return none{}, errors.Join(err, workflow.Do(ctx, "bad", func(*workflow.StepCtx) error { return workflow.Permanent(errors.New("bad")) }))
	}
	for name, c := range map[string]struct {
		first   func(ctx workflow.Context) (none, error)
		settled bool
	}{
		"scope": {func(ctx workflow.Context) (none, error) { return workflow.Scope(ctx, "first", pay) }, false},
		"saga in a saga": {func(ctx workflow.Context) (none, error) {
			return workflow.Saga(ctx, "outer", func(ctx workflow.Context) (none, error) {
				stuck := workflow.Do(ctx, "stuck", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", 2))
				_, err := workflow.Saga(ctx, "first", pay)
				return none{}, errors.Join(stuck, err, workflow.Do(ctx, "between", func(*workflow.StepCtx) error { return nil }), errors.New("outer"))
			})
		}, false},
		"winner": {func(ctx workflow.Context) (none, error) {
			_, _, err := workflow.Race(ctx, "first", workflow.C("wins", pay), workflow.C("waits", func(ctx workflow.Context) (none, error) {
				return none{}, workflow.Sleep(ctx, "nap", 1e12)
			}))
			return none{}, err
		}, false},
		"loser": {func(ctx workflow.Context) (none, error) {
			_, _, err := workflow.Race(ctx, "first", workflow.C("loses", func(ctx workflow.Context) (none, error) {
				_, err := pay(ctx)
				return none{}, errors.Join(err, workflow.Sleep(ctx, "nap", 1e12))
			}), workflow.C("wins", func(ctx workflow.Context) (none, error) { return none{}, workflow.Sleep(ctx, "nap", 1e9) }))
			return none{}, err
		}, true},
		"failed saga": {func(ctx workflow.Context) (none, error) {
			workflow.Saga(ctx, "first", fails)
			return none{}, nil
		}, true},
	} {
		p := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
			if _, err := c.first(ctx); err != nil {
				return none{}, err
			}
			if err := workflow.Do(ctx, "between", func(*workflow.StepCtx) error { return nil }); err != nil {
				return none{}, err
			}
			return none{}, errors.New("the run fails")
		}, workflow.WithUndo("repay", func(_ *workflow.StepCtx, n int) error {
			if n == 2 {
				return workflow.Permanent(errors.New("stuck"))
			}
			return nil
		})).Program()
		h := started(t, p, none{})
		drive(t, h)
		at, want := "between", wfhost.StateFailed
		if name == "saga in a saga" {
			at, want = "outer/between", wfhost.StatePaused // undoing goes on
		}
		wantState(t, h, want)
		h.Close()
		err := h.Transact(func(turn wfhost.Turn) error { return wfhost.Rewind(turn, entryOf(t, h, at)) })
		if refused := err != nil && strings.Contains(err.Error(), "was undone since"); refused == c.settled || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
