package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
)

// entryOf returns the id of the entry at a path.
func entryOf(t *testing.T, h *memhost.Host, path string) wfhost.EntryID {
	t.Helper()
	var all []string
	for e, err := range wfhost.History(h.Reader(), wfhost.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Path == path {
			return e.ID
		}
		all = append(all, e.Path)
	}
	t.Fatalf("no entry %q among %q", path, all)
	return ""
}

// TestRewindPastAnUndoOfATrimmedIterationIsRefused: the loop remembers that a step was undone whose entry is deleted, or the
// run would go on as if the effect were there.
func TestRewindPastAnUndoOfATrimmedIterationIsRefused(t *testing.T) {
	undone := 0
	p := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		if _, err := workflow.Loop(ctx, "serve", 0, func(it *workflow.Iter[int, none]) error {
			if it.State == 3 {
				return it.Break(none{})
			}
			it.State++
			return workflow.Do(it, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", it.State))
		}, workflow.TrimEvery(1)); err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "between", func(*workflow.StepCtx) error { return nil }); err != nil {
			return "", err
		}
		return "", workflow.Do(ctx, "bad", func(*workflow.StepCtx) error { return workflow.Permanent(errors.New("bad")) })
	}, workflow.WithUndo("repay", func(*workflow.StepCtx, int) error { undone++; return nil })).Program()
	everywhere(t, p, none{}, func(h *memhost.Host) string {
		undone = 0
		drive(t, h)
		if wantState(t, h, wfhost.StateFailed); undone < 3 {
			t.Fatalf("undone %d times", undone)
		}
		h.Close()
		var errs []string
		for _, path := range []string{"between", "bad"} {
			err := h.Transact(func(turn wfhost.Turn) error { return wfhost.Rewind(turn, entryOf(t, h, path)) })
			var refused *wfhost.ControlError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "undone") {
				t.Errorf("rewind to %s: %v", path, err)
			} else {
				errs = append(errs, err.Error())
			}
		}
		return strings.Join(errs, "\n")
	})
}
