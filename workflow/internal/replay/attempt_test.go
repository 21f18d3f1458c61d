package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// TestJitterIsKept: with the default jitter, waits differ between runs and do not change when a run replays.
func TestJitter(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 20 {
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
			return none{}, workflow.Do(ctx, "s", func(*workflow.StepCtx) error { return errors.New("no") }, workflow.Retry(workflow.RetryPolicy{Initial: 10 * time.Second}))
		})
		h := started(t, d.Program(), none{})
		untilAsleep(t, h)
		wait := h.Last.Wake.Sub(h.Now)
		errorIf(t, wait < 8*time.Second || wait > 12*time.Second, "waits %v", wait)
		waits[wait] = true
	}
	errorIf(t, len(waits) < 5, "only %d different waits in 20 runs", len(waits))
}

// TestDeferred: only a transaction that holds nothing but records of deferred steps need not be durable.
func TestDeferred(t *testing.T) {
	var list []bool
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		for _, name := range names[:3] {
			if err := workflow.Do(ctx, name, ok, workflow.Deferred()); err != nil {
				return none{}, err
			}
		}
		return none{}, errors.Join(workflow.Do(ctx, "plain", ok), workflow.Do(ctx, "last", ok))
	})
	h := started(t, d.Program(), none{})
	until(t, h, func() bool {
		if len(h.Last.Launch) > 0 {
			list = append(list, h.Last.Deferred)
			h.Last.Launch = nil
		}
		return false
	})
	if got := fmt.Sprint(list); got != "[false true true true false]" {
		t.Errorf("%s", got)
	}
}

// TestManyStepsAtOnce: more resolutions than one transaction may have, from bodies that run concurrently.
func TestManyStepsAtOnce(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		var fs []*workflow.Future[int]
		for i := range n {
			f, err := workflow.Begin(ctx, names[i], func(*workflow.StepCtx) (int, error) { return i, nil })
			if err != nil {
				return 0, err
			}
			fs = append(fs, f)
		}
		sum := 0
		for _, f := range fs {
			v, err := f.Get(ctx)
			if err != nil {
				return 0, err
			}
			sum += v
		}
		return sum, nil
	})
	synctest.Test(t, func(t *testing.T) {
		h := started(t, d.Program(), 900)
		h.Racing = true
		drive(t, h)
		wantOutput(t, h, 899*900/2)
	})
	h := started(t, d.Program(), 300)
	h.CrashAt = 7
	drive(t, h)
	wantOutput(t, h, 299*300/2)
}

// TestUndoOfStepsWithoutContentNeedNotAsk: there is nothing in the result that could be missing.
func TestUndoOfStepsWithoutContentNeedNotAsk(t *testing.T) {
	undone := 0
	h := begun(t, func(ctx workflow.Context, _ none) (none, error) {
		return workflow.Compensated(ctx, "pay", func(*workflow.StepCtx) (none, error) { return none{}, errors.New("lost") },
			func(*workflow.StepCtx, none) error { undone++; return nil }, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 1}))
	})
	drive(t, h)
	if wantState(t, h, wfhost.StateFailed); undone != 1 {
		t.Errorf("undone %d times", undone)
	}
}

// TestStepErrorIsTheSameAfterReplay holds what the function sees of a failed step against what it sees when it runs again.
func TestStepErrorIsTheSameAfterReplay(t *testing.T) {
	var sentinel = errors.New("sold out")
	var seen []string
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		_, err := workflow.Step(ctx, "typed", func(*workflow.StepCtx) (int, error) {
			return 0, fmt.Errorf("wrapped: %w", &declined{Code: 51})
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2}))
		var de *declined
		errors.As(err, &de)
		err2 := workflow.Do(ctx, "value", func(*workflow.StepCtx) error { return workflow.Permanent(sentinel) })
		seen = append(seen, fmt.Sprintf("%v; %+v; %v %v", err, *de, err2, errors.Is(err2, sentinel)))
		return none{}, workflow.Sleep(ctx, "wait", time.Hour)
	}, workflow.WithError[*declined]("declined"), workflow.WithErrorValue("sold out", sentinel))
	h := started(t, d.Program(), none{})
	until(t, h, func() bool { return len(seen) == 1 })
	h.Close()
	drive(t, h)
	wantState(t, h, wfhost.StateCompleted)
	errorIf(t, len(seen) != 2 || seen[0] != seen[1], "seen %q", seen)
	if want := `step "typed" failed after 2 attempts: wrapped: declined 51; {Code:51}; step "value" failed: sold out true`; seen[0] != want {
		t.Errorf("seen %q, want %q", seen[0], want)
	}
}

type declined struct{ Code int }

func (e *declined) Error() string { return fmt.Sprintf("declined %d", e.Code) }

// A run that is closed does nothing more.
func TestClosedRun(t *testing.T) {
	h := begun(t, func(ctx workflow.Context, _ none) (none, error) { return none{}, workflow.Sleep(ctx, "s", time.Hour) })
	untilAsleep(t, h)
	run := h.Run
	h.Close()
	_, err := run.Advance(nil)
	errorIf(t, !errors.Is(err, wfhost.ErrClosed) || !errors.Is(run.Rest(nil), wfhost.ErrClosed), "%v, %v", err, run.Rest(nil))
}
