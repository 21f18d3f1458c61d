package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
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

// TestUndoKnowsWhetherTheResultIsKnown: with the result, or with the step's key and without.
func TestUndoKnowsWhetherTheResultIsKnown(t *testing.T) {
	lost, refused := errors.New("the answer was lost"), workflow.Permanent(errors.New("refused"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a result":          {nil, "result true"},
		"a used-up attempt": {lost, " false"},
		"a final failure":   {refused, "not called"},
		"a partial effect":  {workflow.Permanent(fmt.Errorf("half of it: %w", workflow.ErrOutcomeUnknown)), " false"},
	} {
		var key string
		got := "not called"
		h := started(t, owing(func(sc *workflow.StepCtx) (string, error) {
			key = sc.IdempotencyKey()
			if k, known := sc.Undoes(); k != "" || known {
				t.Errorf("%s: the step undoes %q", name, k)
			}
			return "result", c.err
		}, func(sc *workflow.StepCtx, v string) error {
			undone, known := sc.Undoes()
			if undone != key || sc.IdempotencyKey() == key {
				t.Errorf("%s: the undo of %q got %q, and its own key is %q", name, key, undone, sc.IdempotencyKey())
			}
			got = fmt.Sprint(v, " ", known)
			return nil
		}, noRetry), none{})
		drive(t, h)
		wantState(t, h, wfhost.StateFailed)
		if got != c.want {
			t.Errorf("%s: the undo got %q, want %q", name, got, c.want)
		}
	}
}

// TestDutyIsOnRecordWithoutAnotherCommit: it is part of the commit that launches the first attempt.
func TestDutyIsOnRecordWithoutAnotherCommit(t *testing.T) {
	owed := func(h interface{ Reader() wfhost.Reader }) int {
		s, err := wfhost.ReadStatus(h.Reader())
		if err != nil {
			t.Fatal(err)
		}
		return s.Undo
	}
	commits := func(step func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error)) int {
		var during func() int
		h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			return step(ctx, func(*workflow.StepCtx) (int, error) { return during(), nil })
		}).Program(), none{})
		during = func() int { return owed(h) }
		drive(t, h)
		wantState(t, h, wfhost.StateCompleted)
		if owed(h) != 0 {
			t.Error("a run that has ended owes something")
		}
		return h.Commits
	}
	plain := commits(func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error) {
		return workflow.Step(ctx, "pay", do)
	})
	compensated := commits(func(ctx workflow.Context, do func(sc *workflow.StepCtx) (int, error)) (int, error) {
		n, err := workflow.Compensated(ctx, "pay", do, func(*workflow.StepCtx, int) error { return nil })
		if n != 1 {
			t.Errorf("%d are owed while the body runs, want 1", n)
		}
		return n, err
	})
	if plain != compensated {
		t.Errorf("%d commits, and %d without an undo", compensated, plain)
	}
}

// TestUndoThatDoesNotAskPausesTheRun: it may have taken no result for one. Code that asks lets the run go on.
func TestUndoThatDoesNotAskPausesTheRun(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	h := started(t, owing(do, func(*workflow.StepCtx, string) error { return nil }, noRetry), none{})
	drive(t, h)
	wantPause(t, h, wfhost.PausedExhausted, "undo of pay", "StepCtx.Undoes")
	h.Close()
	h.Use(owing(do, func(sc *workflow.StepCtx, _ string) error { sc.Undoes(); return nil }, noRetry))
	if err := h.Transact(wfhost.Resume); err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	wantState(t, h, wfhost.StateFailed)
}

// TestUndoOfStepsWithoutContentNeedNotAsk: there is nothing in the result that could be missing.
func TestUndoOfStepsWithoutContentNeedNotAsk(t *testing.T) {
	undone := 0
	h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		return workflow.Compensated(ctx, "pay", func(*workflow.StepCtx) (none, error) { return none{}, errors.New("lost") },
			func(*workflow.StepCtx, none) error { undone++; return nil }, noRetry)
	}).Program(), none{})
	drive(t, h)
	if wantState(t, h, wfhost.StateFailed); undone != 1 {
		t.Errorf("undone %d times", undone)
	}
}

// TestStepUnderWayKeepsItsDutyWithOtherCode: code that no longer has the undo does not forget it.
func TestStepUnderWayKeepsItsDutyWithOtherCode(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	h := started(t, owing(do, func(sc *workflow.StepCtx, _ string) error { sc.Undoes(); return nil }), none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil { // it waits for the second attempt
		t.Fatal(err)
	}
	h.Close()
	h.Use(workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		return workflow.Step(ctx, "pay", do)
	}).Program())
	drive(t, h)
	wantPause(t, h, wfhost.PausedExhausted, "undo of pay", "undo function is not known")
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
			h := startedLive(t, owing(func(sc *workflow.StepCtx) (string, error) {
				select {
				case <-sc.Done():
				case <-time.After(time.Hour):
				}
				return "result", nil
			}, func(_ *workflow.StepCtx, v string) error { undone = append(undone, v); return nil }, options...), none{})
			if err := h.Drive(func() bool { synctest.Wait(); return h.Running() == 1 && h.Idle() }); err != nil {
				t.Fatal(err)
			}
			if err := h.Transact(func(t wfhost.Turn) error { return wfhost.Cancel(t, "enough") }); err != nil {
				t.Fatal(err)
			}
			drive(t, h)
			wantState(t, h, wfhost.StateCancelled)
			if len(undone) != 1 || undone[0] != "result" {
				t.Errorf("undone: %q", undone)
			}
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
			h := startedLive(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				return workflow.Compensated(ctx, "pay", func(sc *workflow.StepCtx) (string, error) {
					<-sc.Done()
					ended++
					time.Sleep(time.Second)
					return name, nil
				}, func(*workflow.StepCtx, string) error { t.Error("it was undone"); return nil }, option)
			}).Program(), none{})
			drive(t, h)
			wantOutput(t, h, name)
			if ended != 1 {
				t.Errorf("%s: %d attempts", name, ended)
			}
		})
	}
}

// TestBodyThatDoesNotReturnPausesTheRun: while its effect is unknown, nothing is undone, and the run shows why. It goes on
// when the body has returned.
func TestBodyThatDoesNotReturnPausesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Bool
		undone := 0
		h := startedLive(t, owing(func(*workflow.StepCtx) (string, error) {
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
		if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
			t.Fatal(err)
		}
		wantPause(t, h, wfhost.PausedMisuse, `step "pay" does not return`, "its context ended 30s ago")
		if !running.Load() {
			t.Error("the body has returned")
		}
		drive(t, h)
		if wantState(t, h, wfhost.StateFailed); undone != 1 {
			t.Errorf("undone %d times", undone)
		}
	})
}

// TestRunCanceledWhileItUndoesStaysCanceled: a run that had succeeded except for what is unknown, was canceled then and cut
// off, undoes everything, although its function returns success again.
func TestRunCanceledWhileItUndoesStaysCanceled(t *testing.T) {
	for n := range 6 {
		for _, after := range []bool{false, true} {
			undone := map[string]int{}
			undo := func(name string) func(sc *workflow.StepCtx, _ none) error {
				return func(sc *workflow.StepCtx, _ none) error {
					if name == "unknown" && undone[name] == 0 {
						undone[name]++
						return errors.New("busy")
					}
					undone[name]++
					return nil
				}
			}
			h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
				if _, err := workflow.Compensated(ctx, "known", func(*workflow.StepCtx) (none, error) { return none{}, nil }, undo("known")); err != nil {
					return none{}, err
				}
				_, _ = workflow.Compensated(ctx, "unknown", func(*workflow.StepCtx) (none, error) { return none{}, errors.New("lost") }, undo("unknown"), noRetry)
				return none{}, nil
			}).Program(), none{})
			if err := h.Drive(func() bool { return undone["unknown"] == 1 && h.Idle() }); err != nil {
				t.Fatal(err)
			}
			if err := h.Transact(func(t wfhost.Turn) error { return wfhost.Cancel(t, "enough") }); err != nil {
				t.Fatal(err)
			}
			h.CrashAt, h.CrashAfter = h.Commits+n, after
			drive(t, h)
			wantState(t, h, wfhost.StateCancelled)
			if undone["known"] == 0 || undone["unknown"] < 2 {
				t.Errorf("crash at commit %d (after it: %v): undone %v", n, after, undone)
			}
		}
	}
}

// TestRewoundStepKeepsTheKeyThatIsOwed: a rewind does not give a step under way another key, under which the undo would
// not find what the first attempt did.
func TestRewoundStepKeepsTheKeyThatIsOwed(t *testing.T) {
	var keys []string
	fails := true
	p := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		f, err := workflow.Begin(ctx, "pay", func(sc *workflow.StepCtx) (string, error) {
			keys = append(keys, sc.IdempotencyKey())
			if fails {
				return "", errors.New("the answer was lost")
			}
			return "paid", nil
		}, workflow.UndoBy("repay", none{}), workflow.Retry(workflow.RetryPolicy{MaxAttempts: -1, Initial: time.Hour, Max: time.Hour}))
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "sleep", time.Minute); err != nil {
			return "", err
		}
		if _, err := f.Get(ctx); err != nil {
			return "", err
		}
		return "", workflow.Do(ctx, "bad", func(*workflow.StepCtx) error { return workflow.Permanent(errors.New("bad")) })
	}, workflow.WithUndo("repay", func(sc *workflow.StepCtx, _ none) error {
		key, _ := sc.Undoes()
		keys = append(keys, key)
		return nil
	})).Program()
	h := started(t, p, none{})
	var sleep wfhost.EntryID
	if err := h.Drive(func() bool {
		for e, err := range wfhost.History(h.Reader(), wfhost.Filter{}) {
			if err == nil && e.Kind == workflow.KindSleep && e.Status == wfhost.Completed {
				sleep = e.ID
			}
		}
		return sleep != ""
	}); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if err := h.Transact(func(t wfhost.Turn) error { return wfhost.Rewind(t, sleep) }); err != nil {
		t.Fatal(err)
	}
	fails = false
	drive(t, h)
	wantState(t, h, wfhost.StateFailed)
	if len(keys) != 3 || keys[0] != keys[1] || keys[0] != keys[2] {
		t.Errorf("keys %q", keys)
	}
}

// TestForkOwesNothingForStepsUnderWay: what the recorded run may have done is that run's to undo.
func TestForkOwesNothingForStepsUnderWay(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	p := owing(do, func(sc *workflow.StepCtx, _ string) error { sc.Undoes(); return nil })
	h := started(t, p, none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		t.Fatal(err)
	}
	if s := status(t, h); s.Undo != 1 {
		t.Fatalf("it owes %d", s.Undo)
	}
	rec, err := wfhost.Export(h.Reader())
	if err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Load(nil)
	if err := h.Transact(func(t wfhost.Turn) error {
		_, err := wfhost.Import(t, rec, wfhost.StartOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if s := status(t, h); s.Undo != 0 {
		t.Errorf("the fork owes %d", s.Undo)
	}
}

// TestHistoryOfStepsThatWereNotOnRecordGoesOn: a step under way of an earlier version of this package, whose row does not
// say that it is owed, is executed again and undone.
func TestHistoryOfStepsThatWereNotOnRecordGoesOn(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		return workflow.Step(ctx, "pay", do) // its row is as those of compensated steps were
	}).Program(), none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	undone := 0
	h.Use(owing(do, func(sc *workflow.StepCtx, _ string) error {
		if key, known := sc.Undoes(); known || !strings.Contains(key, ".") {
			t.Errorf("key %q, known: %v", key, known)
		}
		undone++
		return nil
	}))
	drive(t, h)
	if wantState(t, h, wfhost.StateFailed); undone != 1 {
		t.Errorf("undone %d times", undone)
	}
}

// TestBodyThatReturnedIsNotBlamedForTheNext: how long a body lingers is counted for each attempt.
func TestBodyThatReturnedIsNotBlamedForTheNext(t *testing.T) {
	for _, second := range []time.Duration{40 * time.Second, time.Hour} { // the first returns, and the second does not in time
		synctest.Test(t, func(t *testing.T) {
			var attempts atomic.Int64
			h := startedLive(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				return workflow.Compensated(ctx, "pay", func(sc *workflow.StepCtx) (string, error) {
					if attempts.Add(1) == 1 {
						<-sc.Done()
						return "", sc.Err()
					}
					time.Sleep(second)
					return "result", nil
				}, func(*workflow.StepCtx, string) error { t.Error("it was undone"); return nil }, workflow.Timeout(time.Minute))
			}).Program(), none{})
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
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

// TestChildThatWasCanceledIsNotCompleted: what it did was undone, whatever its function returned.
func TestChildThatWasCanceledIsNotCompleted(t *testing.T) {
	undone := 0
	child := workflow.NewFunction("child", func(ctx workflow.Context, _ none) (string, error) {
		if _, err := workflow.Compensated(ctx, "pay", func(*workflow.StepCtx) (none, error) { return none{}, nil },
			func(*workflow.StepCtx, none) error { undone++; return nil }); err != nil {
			return "", err
		}
		_ = workflow.Sleep(ctx, "nap", time.Hour)
		return "paid", nil
	})
	p := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		c, err := workflow.Spawn(ctx, "child", child, none{})
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "wait", time.Minute); err != nil {
			return "", err
		}
		if err := c.Cancel(ctx, "enough"); err != nil {
			return "", err
		}
		_, err = c.Result(ctx)
		return fmt.Sprint(err), nil
	}).Program()
	everywhere(t, p, none{}, func(h *memhost.Host) string {
		undone = 0
		drive(t, h)
		out := outcome(t, h)
		if !strings.Contains(out, "cancel") || undone == 0 {
			t.Errorf("%s; undone %d times", out, undone)
		}
		return out
	})
}

// Verify lists the undos of steps under way, too, which are owed already.
func TestVerifyListsUndosOfStepsUnderWay(t *testing.T) {
	do := func(*workflow.StepCtx) (string, error) { return "", errors.New("the answer was lost") }
	for _, waits := range []bool{false, true} { // for its second attempt, or it is being executed
		h := started(t, owing(do, func(*workflow.StepCtx, string) error { return nil }), none{})
		if err := h.Drive(func() bool { return waits == !h.Last.Wake.IsZero() && h.Commits > 0 }); err != nil {
			t.Fatal(err)
		}
		for p, want := range map[*wfhost.Program]string{
			owing(do, func(*workflow.StepCtx, string) error { return nil }):                                                                  "",
			workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) { return workflow.Step(ctx, "pay", do) }).Program(): `the undo function of step "pay"`,
		} {
			rep, err := wfhost.Verify(h.Reader(), func(string) *wfhost.Program { return p })
			if err != nil || rep.Problem != nil || strings.Join(rep.MissingUndos, ", ") != want {
				t.Errorf("it waits: %v: %+v, %v, want %q", waits, rep, err, want)
			}
		}
	}
}
