package replay_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A step whose attempt has exceeded its time, and whose body goes on all the same, is not tried again once the run is
// canceled.
func TestCancelOfStepWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		release := make(chan struct{})
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (bool, error) {
			err := workflow.Do(ctx, "step", func(sc *workflow.StepCtx) error {
				ran.Add(1)
				<-release // it ignores its context
				return context.Cause(sc)
			}, workflow.Timeout(time.Second))
			return errors.Is(err, workflow.ErrCanceled), nil
		})
		h := started(t, d.Program(), none{})
		began := time.Now()
		until(t, h, func() bool {
			return time.Since(began) > 5*time.Second || h.Last.Wake.IsZero() && ran.Load() > 0 && time.Since(began) > time.Second
		})
		cancel(t, h)
		h.Advance()
		close(release)
		drive(t, h)
		wantState(t, h, wfhost.StateCancelled)
		if n := ran.Load(); n != 1 {
			t.Errorf("the body ran %d times", n)
		}
	})
}

// What a run does first after Restart is no replay, and what it has published before is seen.
func TestRestartIsNoReplay(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (bool, error) {
		replaying := ctx.Info().Replaying
		if n == 0 {
			workflow.Publish(ctx, "first")
			return false, workflow.Restart(ctx, 1)
		}
		return replaying, nil
	})
	h := started(t, d.Program(), 0)
	drive(t, h)
	wantOutput(t, h, false)
	if s := status(t, h); string(s.Published) != "\x65first" {
		t.Errorf("published %x", s.Published)
	}
}
