package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// indebted is a run that owes undos when it completes: by name, by a function of the code, and of early iterations of a loop. It fails
// after its last message if fail is set.
func indebted(undone *[]string, fail *bool) *wfhost.Program {
	note := func(what string) error { *undone = append(*undone, what); return nil }
	return workflow.NewFunction("indebted", func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "named", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", "named")); err != nil {
			return "", err
		}
		if _, err := workflow.Saga(ctx, "settled", func(ctx workflow.Context) (none, error) {
			return none{}, workflow.Do(ctx, "inside", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("repay", "inside"))
		}); err != nil {
			return "", err
		}
		if _, err := workflow.Loop(ctx, "serve", 0, func(it *workflow.Iter[int, none]) error {
			if it.State == 3 {
				return it.Break(none{})
			}
			it.State++
			return compensated(it, "c", it.State, note)
		}, workflow.TrimEvery(1), workflow.Keep(1)); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "end", workflow.Inbox[string]{Name: "end"})
		if err == nil && *fail {
			err = errors.New("it fails")
		}
		return m.Body, err
	}, workflow.WithUndo("repay", func(_ *workflow.StepCtx, what string) error { return note(what) })).Program()
}

func compensated(ctx workflow.Context, name string, n int, undo func(string) error) error {
	_, err := workflow.Compensated(ctx, name, func(*workflow.StepCtx) (int, error) { return n, nil },
		func(sc *workflow.StepCtx, v int) error { sc.Undoes(); return undo(fmt.Sprint("c", v)) })
	return err
}

// TestRewoundRunStillOwesItsUndos: a run that has completed keeps what it would have to undo, so that it can be undone if the run
// is rewound and then fails or is cancelled. What the rewind takes back and what a saga has settled is not undone.
func TestRewoundRunStillOwesItsUndos(t *testing.T) {
	for _, v := range []struct {
		to      string
		state   wfhost.State // how it ends after that
		undoing []string
	}{
		{"end", wfhost.StateFailed, []string{"c3", "c2", "c1", "named"}},
		{"end", wfhost.StateCancelled, []string{"c3", "c2", "c1", "named"}},
		{"serve~2/c", wfhost.StateFailed, []string{"c3", "c2", "c1", "named"}},
		{"serve~2", wfhost.StateCancelled, []string{"c2", "c1", "named"}}, // before anything was done again
		{"serve", wfhost.StateCancelled, []string{"named"}},
		{"settled", wfhost.StateFailed, []string{"c3", "c2", "c1", "named"}},
		{"end", wfhost.StateCompleted, nil},
	} {
		var undone []string
		var fail bool
		p := indebted(&undone, &fail)
		everywhere(t, func(h *memory.Actor) string {
			start(t, h, none{}, p)
			fail = false
			send(t, h, "end", "go")
			drive(t, h)
			wantState(t, h, wfhost.StateCompleted)
			if st := status(t, h); st.Undo != 0 || st.Output == nil {
				t.Errorf("completed: %+v", st)
			}
			h.Close()
			undone = nil
			if err := h.Transact(func(turn *memory.Turn) error { return wfhost.Rewind(turn, entryOf(t, h, v.to)) }); err != nil {
				t.Fatalf("rewind to %s: %v", v.to, err)
			}
			st := status(t, h)
			if st.State != wfhost.StateRunning || !st.Ended.IsZero() || st.Output != nil || st.Epoch != 1 {
				t.Errorf("rewound to %s: %+v", v.to, st)
			}
			fail = v.state == wfhost.StateFailed
			if v.state == wfhost.StateCancelled {
				cancel(t, h)
			}
			drive(t, h)
			wantState(t, h, v.state)
			if got := slices.Compact(slices.Clone(undone)); !slices.Equal(got, v.undoing) { // a crash may have one tried twice
				t.Errorf("rewound to %s, then %s: undone %q, want %q", v.to, v.state, undone, v.undoing)
			}
			return strings.Join(slices.Compact(undone), " ")
		})
	}
}
