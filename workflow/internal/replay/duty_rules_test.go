package replay_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// owing makes a workflow whose step is compensated and is then failed by what follows it.
func owing(do func(sc *workflow.StepCtx) (string, error), undo func(sc *workflow.StepCtx, v string) error, options ...workflow.StepOption) *wfhost.Program {
	return workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		v, err := workflow.Compensated(ctx, "pay", do, undo, options...)
		if err != nil {
			return "", err
		}
		return v, errors.New("later")
	}).Program()
}

var noRetry = workflow.Retry(workflow.RetryPolicy{MaxAttempts: 1})

// TestDutyIsOnRecordWithoutAnotherCommit: it is part of the commit that launches the first attempt.
func TestDutyIsOnRecordWithoutAnotherCommit(t *testing.T) {
	commits := func(step func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error)) int {
		var during func() int
		h := begun(t, func(ctx workflow.Context, _ none) (int, error) {
			return step(ctx, func(*workflow.StepCtx) (int, error) { return during(), nil })
		})
		during = func() int { return status(t, h).Undo }
		drive(t, h)
		wantState(t, h, wfhost.StateCompleted)
		errorIf(t, status(t, h).Undo != 0, "a run that has ended owes something")
		return h.Commits
	}
	plain := commits(func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error) {
		return workflow.Step(ctx, "pay", do)
	})
	compensated := commits(func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error) {
		n, err := workflow.Compensated(ctx, "pay", do, func(*workflow.StepCtx, int) error { return nil })
		errorIf(t, n != 1, "%d are owed while the body runs, want 1", n)
		return n, err
	})
	errorIf(t, plain != compensated, "%d commits, and %d without an undo", compensated, plain)
}

// TestUndoThatDoesNotAskPausesTheRun: it may have taken no result for one. Code that asks lets the run go on.
func TestUndoThatDoesNotAskPausesTheRun(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	h := started(t, owing(do, func(*workflow.StepCtx, string) error { return nil }, noRetry), none{})
	drive(t, h)
	wantPause(t, h, wfhost.PausedExhausted, "undo of pay", "StepCtx.Undoes")
	h.Close()
	h.Use(owing(do, func(sc *workflow.StepCtx, _ string) error { sc.Undoes(); return nil }, noRetry))
	control(t, h, wfhost.Resume)
	drive(t, h)
	wantState(t, h, wfhost.StateFailed)
}

// TestUndoOfStepsWithoutContentNeedNotAsk: there is nothing in the result that could be missing.
func TestUndoOfStepsWithoutContentNeedNotAsk(t *testing.T) {
	undone := 0
	h := begun(t, func(ctx workflow.Context, _ none) (none, error) {
		return workflow.Compensated(ctx, "pay", func(*workflow.StepCtx) (none, error) { return none{}, errors.New("lost") },
			func(*workflow.StepCtx, none) error { undone++; return nil }, noRetry)
	})
	drive(t, h)
	if wantState(t, h, wfhost.StateFailed); undone != 1 {
		t.Errorf("undone %d times", undone)
	}
}

// TestBodyUnderADutyIsNotInterrupted: a request to cancel waits for it, unless the author says otherwise; a result that
// comes late is undone with the result.
func TestBodyUnderADutyIsNotInterrupted(t *testing.T) {
	for _, interrupted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var undone []string
			var options []workflow.StepOption
			if interrupted {
				options = append(options, workflow.CancelBody())
			}
			begun := time.Now()
			h := started(t, owing(func(sc *workflow.StepCtx) (string, error) {
				select {
				case <-sc.Done():
				case <-time.After(time.Hour):
				}
				return "result", nil
			}, func(_ *workflow.StepCtx, v string) error { undone = append(undone, v); return nil }, options...), none{})
			until(t, h, func() bool { synctest.Wait(); return h.Running() == 1 && h.Idle() })
			cancel(t, h)
			drive(t, h)
			wantState(t, h, wfhost.StateCancelled)
			errorIf(t, len(undone) != 1 || undone[0] != "result", "undone: %q", undone)
			if took := time.Since(begun); (took < time.Hour) != interrupted {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestLateResultOfATimedOutBodyCounts: the step has succeeded, with Timeout and with TotalTimeout.
func TestLateResultOfATimedOutBodyCounts(t *testing.T) {
	for name, option := range map[string]workflow.StepOption{"Timeout": workflow.Timeout(time.Second), "TotalTimeout": workflow.TotalTimeout(time.Second)} {
		synctest.Test(t, func(t *testing.T) {
			ended := 0
			h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				return workflow.Compensated(ctx, "pay", func(sc *workflow.StepCtx) (string, error) {
					<-sc.Done()
					ended++
					time.Sleep(time.Second)
					return name, nil
				}, func(*workflow.StepCtx, string) error { t.Error("it was undone"); return nil }, option)
			}).Program(), none{})
			drive(t, h)
			wantOutput(t, h, name)
			errorIf(t, ended != 1, "%s: %d attempts", name, ended)
		})
	}
}

// TestBodyThatDoesNotReturnPausesTheRun: while its effect is unknown, nothing is undone, and the run shows why. It goes on
// when the body has returned.
func TestBodyThatDoesNotReturnPausesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Bool
		undone := 0
		h := started(t, owing(func(*workflow.StepCtx) (string, error) {
			running.Store(true)
			time.Sleep(time.Hour)
			running.Store(false)
			return "result", nil
		}, func(sc *workflow.StepCtx, _ string) error {
			if _, known := sc.Undoes(); known || running.Load() {
				t.Errorf("undone with known %v, while the body runs: %v", known, running.Load())
			}
			undone++
			return nil
		}, workflow.TotalTimeout(time.Second)), none{})
		pause(t, h)
		wantPause(t, h, wfhost.PausedMisuse, `step "pay" does not return`, "its context ended 30s ago")
		errorIf(t, !running.Load(), "the body has returned")
		drive(t, h)
		if wantState(t, h, wfhost.StateFailed); undone != 1 {
			t.Errorf("undone %d times", undone)
		}
	})
}

// TestBodyThatReturnedIsNotBlamedForTheNext: how long a body lingers is counted for each attempt.
func TestBodyThatReturnedIsNotBlamedForTheNext(t *testing.T) {
	for _, second := range []time.Duration{40 * time.Second, time.Hour} { // the first returns, and the second does not in time
		synctest.Test(t, func(t *testing.T) {
			var attempts atomic.Int64
			h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				return workflow.Compensated(ctx, "pay", func(sc *workflow.StepCtx) (string, error) {
					if attempts.Add(1) == 1 {
						<-sc.Done()
						return "", sc.Err()
					}
					time.Sleep(second)
					return "result", nil
				}, func(*workflow.StepCtx, string) error { t.Error("it was undone"); return nil }, workflow.Timeout(time.Minute))
			}).Program(), none{})
			pause(t, h)
			if second < time.Minute {
				wantOutput(t, h, "result")
			} else {
				wantPause(t, h, wfhost.PausedMisuse, `step "pay" does not return`)
			}
			if attempts.Load() != 2 {
				t.Errorf("%d attempts", attempts.Load())
			}
		})
	}
}

// TestErrorThatIsNotRetriedLeavesTheOutcomeOpen: only Permanent says that nothing was done.
func TestErrorThatIsNotRetriedLeavesTheOutcomeOpen(t *testing.T) {
	undone := 0
	h := started(t, owing(func(*workflow.StepCtx) (string, error) { return "", errors.New("connection reset") },
		func(sc *workflow.StepCtx, _ string) error {
			if _, known := sc.Undoes(); known {
				t.Error("the result is known")
			}
			undone++
			return nil
		}, workflow.Retry(workflow.RetryPolicy{Retryable: func(error) bool { return false }})), none{})
	drive(t, h)
	if wantState(t, h, wfhost.StateFailed); undone != 1 {
		t.Errorf("undone %d times", undone)
	}
}
