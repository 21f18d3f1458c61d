package replay_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// TestProgress: what an attempt saves is there for the next, whether it failed, was cut off by a crash, or rested.
func TestProgress(t *testing.T) {
	for _, how := range []string{"failure", "crash", "rest"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen []int
				var keys []string
				d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
					return workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (int, error) {
						n, _ := workflow.LastProgress[int](sc)
						seen = append(seen, n)
						keys = append(keys, sc.IdempotencyKey())
						if _, ok := workflow.LastProgress[string](sc); ok {
							t.Error("progress of another type")
						}
						if len(seen) < 3 {
							for range 10 {
								n++
								if err := sc.Progress(n); err != nil {
									return 0, err
								}
							}
							if got, _ := workflow.LastProgress[int](sc); got != n {
								t.Errorf("own progress %d, want %d", got, n)
							}
							if how == "failure" {
								return 0, errors.New("again")
							}
							<-sc.Done()
							return 0, sc.Err()
						}
						return n, nil
					})
				})
				h := started(t, d.Program(), none{})
				if how != "failure" {
					for i := range 2 {
						until(t, h, func() bool { synctest.Wait(); return len(seen) == i+1 && h.Idle() })
						if how == "crash" {
							h.Close()
						} else {
							h.Rest()
						}
					}
				}
				drive(t, h)
				wantOutput(t, h, 20)
				if fmt.Sprint(seen) != "[0 10 20]" || keys[0] != keys[1] || keys[1] != keys[2] {
					t.Errorf("seen %v, keys %v", seen, keys)
				}
			})
		})
	}
}

// TestRetryWaits: the times of retries are as the policy says, RetryAfter beats it, and both are kept across a crash.
func TestRetryWaits(t *testing.T) {
	for _, crash := range []bool{false, true} {
		var at []time.Duration
		var h *memory.Actor
		var began time.Time
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
			err := workflow.Do(ctx, "s", func(sc *workflow.StepCtx) error {
				at = append(at, h.Now.Sub(began))
				switch sc.Attempt() {
				case 3:
					return workflow.RetryAfter(errors.New("busy"), time.Hour)
				case 6:
					return nil
				}
				return errors.New("no")
			}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 7, Initial: time.Second, Factor: 3, Max: 20 * time.Second, Jitter: -1}))
			return none{}, err
		})
		h = started(t, d.Program(), none{})
		began = h.Now
		for !h.Last.Ended {
			until(t, h, func() bool { return h.Last.Wake.After(h.Now) || h.Last.Ended })
			if crash {
				wake := h.Last.Wake
				h.Close()
				h.Advance()
				errorIf(t, !h.Last.Wake.Equal(wake), "wakes at %v instead of %v", h.Last.Wake, wake)
			}
			if h.Last.Ended {
				break
			}
			h.Now = h.Last.Wake
			h.Advance()
		}
		if got := fmt.Sprint(at); got != "[0s 1s 4s 1h0m4s 1h0m24s 1h0m44s]" {
			t.Errorf("crash %v: attempts at %s", crash, got)
		}
	}
}

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

// TestHold: an operator's pause stops what would begin, keeps what ends, and goes on where it was.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran []string
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			for _, name := range []string{"a", "b"} {
				if err := workflow.Do(ctx, name, func(*workflow.StepCtx) error {
					time.Sleep(time.Minute)
					ran = append(ran, name)
					return nil
				}); err != nil {
					return "", err
				}
			}
			return fmt.Sprint(ran), nil
		})
		h := started(t, d.Program(), none{})
		until(t, h, func() bool { return h.Running() == 1 })
		control(t, h, func(tx wfhost.Turn) error { return wfhost.Hold(tx, "maintenance") })
		drive(t, h)
		wantPause(t, h, wfhost.PausedOperator, "maintenance")
		errorIf(t, fmt.Sprint(ran) != "[a]", "ran %v", ran)
		control(t, h, wfhost.Resume)
		drive(t, h)
		wantOutput(t, h, "[a b]")
	})
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

// TestTotalTimeoutSurvivesCrashes: the limit counts from when the step began first.
func TestTotalTimeoutSurvivesCrashes(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		began := ctx.Now()
		err := workflow.Do(ctx, "s", func(*workflow.StepCtx) error { return errors.New("no") },
			workflow.TotalTimeout(time.Minute), workflow.Retry(workflow.RetryPolicy{MaxAttempts: -1, Initial: 7 * time.Second, Factor: 1, Jitter: -1}))
		return fmt.Sprint(ctx.Now().Sub(began), errors.Is(err, workflow.ErrTimeout)), nil
	})
	h := started(t, d.Program(), none{})
	for !h.Last.Ended {
		wakes := h.Wakes
		until(t, h, func() bool { return h.Wakes > wakes || h.Last.Ended })
		if !h.Last.Ended {
			h.Close()
		}
	}
	wantOutput(t, h, "1m0s true")
}

// TestBodiesThatLeaveByGoexit: such a body has failed, and its host is told.
func TestBodiesThatLeaveByGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			err := workflow.Do(ctx, "s", func(sc *workflow.StepCtx) error {
				runtime.Goexit()
				return nil
			}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2}))
			return err.Error(), nil
		})
		h := started(t, d.Program(), none{})
		drive(t, h)
		wantOutput(t, h, `step "s" failed after 2 attempts: the function called runtime.Goexit, which a failed assertion of a test does`)
	})
}

// TestCloseWhileBodiesRun: what they come to is dropped, and the step runs again.
func TestCloseWhileBodiesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) {
				runs++
				n := runs
				select {
				case <-sc.Done():
				case <-time.After(time.Minute):
				}
				return n, nil // succeeds all the same
			})
		})
		h := started(t, d.Program(), none{})
		until(t, h, func() bool { return h.Running() == 1 })
		synctest.Wait()
		run := h.Run
		h.Close()
		if _, err := run.Advance(nil); !errors.Is(err, wfhost.ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := run.Rest(nil); !errors.Is(err, wfhost.ErrClosed) {
			t.Errorf("%v", err)
		}
		drive(t, h)
		wantOutput(t, h, 2)
	})
}

// TestFaultWhileBodiesRun: a run that pauses while bodies run ends their contexts, and does not begin them again before they
// have returned.
func TestFaultWhileBodiesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken, inside, runs := true, 0, 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			f, err := workflow.Begin(ctx, "slow", func(sc *workflow.StepCtx) (int, error) {
				runs++
				inside++
				defer func() { inside-- }()
				errorIf(t, inside > 1, "two at once")
				if runs == 1 {
					<-sc.Done()
					errorIf(t, context.Cause(sc) == nil, "no cause")
					time.Sleep(time.Hour) // slow to leave
				}
				return 5, nil
			})
			if err != nil {
				return 0, err
			}
			if err := workflow.Sleep(ctx, "minute", time.Minute); err != nil {
				return 0, err
			}
			if broken {
				panic("ouch")
			}
			return f.Get(ctx)
		})
		h := started(t, d.Program(), none{})
		pause(t, h)
		wantPause(t, h, wfhost.PausedPanicked, "ouch")
		broken = false
		drive(t, h)
		wantOutput(t, h, 5)
		errorIf(t, runs != 2, "ran %d times", runs)
	})
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
