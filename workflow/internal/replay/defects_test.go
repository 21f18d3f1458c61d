package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// The tests of this file are named after the defects of another engine that this one must not have.

// TestD01VoidResultsAreResults: what returns nothing has ended all the same.
func TestD01VoidResultsAreResults(t *testing.T) {
	runs := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		if err := workflow.Do(ctx, "do", func(*workflow.StepCtx) error { runs++; return nil }); err != nil {
			return none{}, err
		}
		p, err := workflow.Step(ctx, "nil pointer", func(*workflow.StepCtx) (*int, error) { runs++; return nil, nil })
		if err != nil || p != nil {
			return none{}, fmt.Errorf("%v %v", p, err)
		}
		list, err := workflow.Update(ctx, "nil slice", func(*workflow.Tx) ([]byte, error) { runs++; return nil, nil })
		if err != nil || len(list) > 0 {
			return none{}, fmt.Errorf("%v %v", list, err)
		}
		for _, name := range []string{"1", "2", "3"} {
			if err := workflow.Sleep(ctx, name, time.Minute); err != nil {
				return none{}, err
			}
		}
		return none{}, nil
	})
	h := started(t, d.Program(), none{})
	for h.Last.Ended == false {
		wakes := h.Wakes
		until(t, h, func() bool { return h.Wakes > wakes || h.Last.Ended })
		if !h.Last.Ended {
			h.Close()
		}
	}
	wantState(t, h, wfhost.StateCompleted)
	errorIf(t, runs != 3, "bodies ran %d times, want 3", runs)
}

// TestD09SuspensionCannotBeSwallowed: errors and panics that a function ignores do not make it run past a wait.
func TestD09SuspensionCannotBeSwallowed(t *testing.T) {
	careless := func(f func()) {
		defer func() { _ = recover() }()
		f()
	}
	q := workflow.Inbox[int]{Name: "q"}
	unwound := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (time.Time, error) {
		defer func() {
			unwound++
			careless(func() { _ = workflow.Sleep(ctx, "in a deferred function", time.Hour) })
			careless(func() { _ = workflow.Do(ctx, "deferred step", func(*workflow.StepCtx) error { return nil }) })
		}()
		careless(func() { _ = workflow.Sleep(ctx, "sleep", time.Hour) })
		careless(func() { _, _ = workflow.Receive(ctx, "receive", q, workflow.Within(time.Hour)) })
		careless(func() { _ = workflow.Do(ctx, "step", func(*workflow.StepCtx) error { panic("no") }) })
		return ctx.Now(), nil
	})
	h := started(t, d.Program(), none{})
	began := h.Now
	for i := range 4 {
		h.Close() // in the middle of every wait
		wakes := h.Wakes
		until(t, h, func() bool { return h.Wakes > wakes && h.Run != nil })
		_ = i
	}
	drive(t, h)
	s := wantState(t, h, wfhost.StateCompleted)
	if d := s.Ended.Sub(began); d < 3*time.Hour {
		t.Errorf("ended after %v", d)
	}
	errorIf(t, unwound < 4, "unwound %d times", unwound)
}
