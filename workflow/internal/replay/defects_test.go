package replay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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

// TestD06SleepIsNoCrash: a host that rests in order uses up no attempts. TestRetryWaits has one that wakes between attempts.
func TestD06SleepIsNoCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Step(ctx, "slow", func(sc *workflow.StepCtx) (int, error) {
				runs++
				if runs <= 5 {
					<-sc.Done()
					return 0, sc.Err()
				}
				return sc.Attempt(), nil
			}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2}))
		})
		h := started(t, d.Program(), none{})
		for range 5 {
			until(t, h, func() bool { return h.Running() == 1 })
			synctest.Wait()
			h.Rest()
		}
		drive(t, h)
		wantOutput(t, h, 1)
		errorIf(t, runs != 6, "ran %d times", runs)
	})
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

// TestD10CancelIsNotLost: a request that comes while a step runs is seen when it ends, and the run ends as cancelled.
func TestD10CancelIsNotLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		heed bool
	}{{"the body heeds it", true}, {"the body succeeds all the same", false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got error
				var cause error
				after := 0
				d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
					_, got = workflow.Step(ctx, "slow", func(sc *workflow.StepCtx) (int, error) {
						select {
						case <-sc.Done():
							cause = context.Cause(sc)
							if tt.heed {
								return 0, sc.Err()
							}
						case <-time.After(time.Hour):
						}
						return 1, nil
					})
					err := workflow.Do(ctx, "after", func(*workflow.StepCtx) error { after++; return nil })
					if !errors.Is(err, workflow.ErrCanceled) || !errors.Is(ctx.Err(), workflow.ErrCanceled) {
						t.Errorf("after: %v, Err %v", err, ctx.Err())
					}
					if err := workflow.Do(workflow.Detach(ctx), "clean up", func(*workflow.StepCtx) error { after += 10; return nil }); err != nil {
						t.Error(err)
					}
					return "returned nil", nil
				})
				h := started(t, d.Program(), none{})
				until(t, h, func() bool { return h.Running() == 1 })
				control(t, h, func(tx wfhost.Turn) error { return wfhost.Cancel(tx, "no longer wanted") })
				drive(t, h)
				s := wantState(t, h, wfhost.StateCancelled)
				errorIf(t, s.Cancel == nil || s.Cancel.Reason != "no longer wanted", "cancel %+v", s.Cancel)
				errorIf(t, tt.heed != errors.Is(got, workflow.ErrCanceled) || !tt.heed && got != nil, "the step returned %v", got)
				errorIf(t, !errors.Is(cause, workflow.ErrCanceled) || after != 10, "cause %v, after %d", cause, after)
			})
		})
	}
}

// TestD16TimedOutBodiesCommitNothing: what a body returns after its time limit is dropped, and the next attempt begins after
// it.
func TestD16TimedOutBodiesCommitNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, inside := 0, 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			return workflow.Step(ctx, "slow", func(sc *workflow.StepCtx) (string, error) {
				runs++
				inside++
				defer func() { inside-- }()
				errorIf(t, inside > 1, "two attempts at once")
				n := runs
				sc.OnCommit(func(tx *workflow.Tx) error {
					put(tx, "committed", fmt.Sprint(n))
					return nil
				})
				if n == 1 {
					time.Sleep(time.Minute) // deaf
				}
				return fmt.Sprint("attempt ", n), nil
			}, workflow.Timeout(time.Second))
		})
		h := started(t, d.Program(), none{})
		began := time.Now()
		drive(t, h)
		wantOutput(t, h, "attempt 2")
		if got := stateOf(h)["committed"]; got != "2" {
			t.Errorf("committed %q", got)
		}
		if d := time.Since(began); d < time.Minute || d > 61*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

// TestD16LimitsThatFail: with FailOnTimeout, and with TotalTimeout, the step fails at once, and what the body still does is
// dropped.
func TestD16LimitsThatFail(t *testing.T) {
	for name, options := range map[string][]workflow.StepOption{
		"FailOnTimeout": {workflow.Timeout(time.Second), workflow.FailOnTimeout()},
		"TotalTimeout":  {workflow.TotalTimeout(time.Second)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (time.Duration, error) {
					began := ctx.Now()
					err := workflow.Do(ctx, "slow", func(sc *workflow.StepCtx) error {
						sc.OnCommit(func(tx *workflow.Tx) error { put(tx, "late", "yes"); return nil })
						time.Sleep(time.Minute)
						return nil
					}, options...)
					errorIf(t, !errors.Is(err, workflow.ErrTimeout), "error %v", err)
					took := ctx.Now().Sub(began)
					return took, workflow.Sleep(ctx, "let it end", time.Hour)
				})
				h := started(t, d.Program(), none{})
				drive(t, h)
				wantOutput(t, h, time.Second)
				errorIf(t, stateOf(h)["late"] != "", "the body committed after its time")
			})
		})
	}
}
