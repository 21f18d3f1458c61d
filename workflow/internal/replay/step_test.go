package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

func TestStepRetries(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options []workflow.StepOption
		fail    func(n int) error
		runs    int
		want    string // of the step's error
	}{
		{"succeeds at last", nil, func(n int) error {
			if n < 3 {
				return errors.New("not yet")
			}
			return nil
		}, 3, ""},
		{"four executions by default", nil, func(int) error { return errors.New("never") }, 4, `step "s" failed after 4 attempts: never`},
		{"one", []workflow.StepOption{workflow.Retry(workflow.RetryPolicy{MaxAttempts: 1})}, func(int) error { return errors.New("never") }, 1, `step "s" failed: never`},
		{"permanent", nil, func(int) error { return workflow.Permanent(errors.New("no")) }, 1, `step "s" failed: no`},
		{"not retryable", []workflow.StepOption{workflow.Retry(workflow.RetryPolicy{Retryable: func(err error) bool { return err.Error() != "no" }})},
			func(n int) error {
				if n == 2 {
					return errors.New("no")
				}
				return errors.New("again")
			}, 2, `step "s" failed after 2 attempts: no`},
		{"panic is a failure", []workflow.StepOption{workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2})}, func(int) error { panic("ouch") }, 2, `step "s" failed after 2 attempts: panic: ouch`},
		{"at most once", []workflow.StepOption{workflow.AtMostOnce()}, func(int) error { return errors.New("no") }, 1, `step "s" failed: no`},
		{"elapsed", []workflow.StepOption{workflow.Retry(workflow.RetryPolicy{MaxAttempts: -1, Initial: time.Second, Factor: 1, Jitter: -1, MaxElapsed: 2500 * time.Millisecond})},
			func(int) error { return errors.New("never") }, 3, `step "s" failed after 3 attempts: never`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs := 0
			d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				_, err := workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) {
					runs++
					if sc.Attempt() != runs {
						t.Errorf("attempt %d at execution %d", sc.Attempt(), runs)
					}
					return 1, tt.fail(runs)
				}, tt.options...)
				if err == nil {
					return "", nil
				}
				var se *workflow.StepError
				errorIf(t, !errors.As(err, &se) || se.Step != "s" || se.Attempts != runs, "error %#v after %d runs", err, runs)
				return err.Error(), nil
			})
			h := started(t, d.Program(), none{})
			drive(t, h)
			wantOutput(t, h, tt.want)
			errorIf(t, runs != tt.runs, "ran %d times, want %d", runs, tt.runs)
		})
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
