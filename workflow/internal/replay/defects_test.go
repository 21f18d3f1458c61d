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
	"github.com/cairn-run/cairn/workflow/internal/memhost"
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
		if err := h.Drive(func() bool { return h.Wakes > wakes || h.Last.Ended }); err != nil {
			t.Fatal(err)
		}
		if !h.Last.Ended {
			h.Close()
		}
	}
	wantState(t, h, wfhost.StateCompleted)
	if runs != 3 {
		t.Errorf("bodies ran %d times, want 3", runs)
	}
}

// TestD05MessagesAreNotLost: a message leaves its queue in the transaction that records it, or not at all.
func TestD05MessagesAreNotLost(t *testing.T) {
	q := workflow.Inbox[string]{Name: "q"}
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		out := ""
		for _, name := range []string{"first", "second", "third"} {
			m, err := workflow.Receive(ctx, name, q)
			if err != nil {
				return "", err
			}
			if _, err := workflow.Update(ctx, "note "+name, func(tx *workflow.Tx) (none, error) {
				s := tx.Host().(*memhost.State)
				s.Set("got", s.Get("got")+m.Body)
				return none{}, workflow.Reply(tx, m, "ok")
			}); err != nil {
				return "", err
			}
			out += m.Body
		}
		return out, nil
	})
	everywhere(t, d.Program(), none{}, func(h *memhost.Host) string {
		for _, s := range []string{"a", "b", "c"} {
			h.Send("q", body(t, s))
		}
		drive(t, h)
		return fmt.Sprint(outcome(t, h), h.State().Get("got"), h.Queued("q"), h.Replies)
	})
}

// TestD06PoisonStepsAreCounted: executions that end the process count, so a body that always does is not repeated for ever.
func TestD06PoisonStepsAreCounted(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("after progress %v", before), func(t *testing.T) {
			runs := 0
			var h *memhost.Host
			d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
				if before {
					if err := workflow.Do(ctx, "harmless", func(*workflow.StepCtx) error { return nil }); err != nil {
						return "", err
					}
				}
				err := workflow.Do(ctx, "poison", func(sc *workflow.StepCtx) error {
					runs++
					if sc.Attempt() != runs {
						t.Errorf("execution %d is called attempt %d", runs, sc.Attempt())
					}
					h.CrashAt, h.CrashAfter = h.Commits+1, false // the process dies before anything is written
					return nil
				}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 3}))
				if !errors.Is(err, workflow.ErrOutcomeUnknown) {
					return "", err
				}
				return err.Error(), nil
			})
			h = started(t, d.Program(), none{})
			drive(t, h)
			wantOutput(t, h, `step "poison" failed after 3 attempts: workflow: outcome unknown: the attempt was cut off`)
			if runs != 3 || h.Crashes != 3 {
				t.Errorf("ran %d times in %d crashes", runs, h.Crashes)
			}
		})
	}
}

// TestD06SleepIsNoCrash: a host that rests in order, and one that wakes between attempts, uses up no attempts.
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
		h := startedLive(t, d.Program(), none{})
		for range 5 {
			if err := h.Drive(func() bool { return h.Running() == 1 }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := h.Rest(); err != nil {
				t.Fatal(err)
			}
		}
		drive(t, h)
		wantOutput(t, h, 1)
		if runs != 6 {
			t.Errorf("ran %d times", runs)
		}
	})
	t.Run("between attempts", func(t *testing.T) {
		runs := 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) {
				runs++
				if runs < 4 {
					return 0, errors.New("not yet")
				}
				return sc.Attempt(), nil
			})
		})
		h := started(t, d.Program(), none{})
		for i := 1; i < 4; i++ {
			if err := h.Drive(func() bool { return runs == i && !h.Last.Wake.IsZero() }); err != nil {
				t.Fatal(err)
			}
			h.Close() // a cold start while the next attempt waits for its time
			if err := h.Advance(); err != nil {
				t.Fatal(err)
			}
			h.Close()
		}
		drive(t, h)
		wantOutput(t, h, 4)
	})
}

// TestD06CrashesWithoutProgressPause: with unlimited attempts, it is the run that is paused.
func TestD06CrashesWithoutProgressPause(t *testing.T) {
	runs := 0
	var h *memhost.Host
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		return none{}, workflow.Do(ctx, "poison", func(*workflow.StepCtx) error {
			runs++
			h.CrashAt = h.Commits + 1
			return nil
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: -1}))
	})
	h = started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantPause(t, h, wfhost.PausedCrashing, "10 times", `"poison"`)
	if runs != 10 {
		t.Errorf("ran %d times", runs)
	}
	// It is tried again by itself, but once and seldom: the process would go down ten times a second for ever.
	for n := 11; n < 14; n++ {
		p := status(t, h).Pause
		if wait := p.Next.Sub(p.Since); wait < 5*time.Minute {
			t.Errorf("it is tried again after %v", wait)
		}
		next := p.Next
		if err := h.Drive(func() bool { p := status(t, h).Pause; return p != nil && !p.Next.Equal(next) }); err != nil {
			t.Fatal(err)
		}
		if wantPause(t, h, wfhost.PausedCrashing, `"poison"`); runs != n {
			t.Errorf("ran %d times, want %d", runs, n)
		}
	}
}

// TestD07NamesAreNotJoined: names are told apart by segment, whatever is in them.
func TestD07NamesAreNotJoined(t *testing.T) {
	odd := []string{"p/q/r", "p", "~0", "p~0", "p\x00q", "/", "//", "ä", "p/q"}
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		out := ""
		for _, name := range odd {
			v, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return "<" + name + ">", nil })
			if err != nil {
				return "", err
			}
			out += v
		}
		return out, workflow.Sleep(ctx, "wait\x00", time.Hour)
	})
	want := ""
	for _, name := range odd {
		want += "<" + name + ">"
	}
	h := started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	drive(t, h)
	wantOutput(t, h, want)
}

// steps makes a workflow of steps with these names, and a sleep at the end.
func steps(names ...string) *wfhost.Program {
	return workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		for _, name := range names {
			if err := workflow.Do(ctx, name, func(*workflow.StepCtx) error { return nil }); err != nil {
				return none{}, err
			}
		}
		return none{}, workflow.Sleep(ctx, "wait", time.Hour)
	}).Program()
}

// TestD08ChangedOrderIsFound: steps of the root that were removed, added or put in another order pause the run.
func TestD08ChangedOrderIsFound(t *testing.T) {
	for _, tt := range []struct {
		name string
		now  []string
		says []string
	}{
		{"removed", []string{"a", "c"}, []string{`position 1`, `asks for: step "c"`, `has:   step "b"`, `workflow.Removed(ctx, "b", workflow.KindStep)`}},
		{"removed at the end", []string{"a", "b"}, []string{`asks for: sleep "wait"`, `has:   step "c"`}},
		{"order", []string{"a", "c", "b"}, []string{`asks for: step "c"`, `has:   step "b"`}},
		{"added", []string{"a", "b", "new", "c"}, []string{`asks for: step "new"`, `has:   step "c"`, "workflow.Patched"}},
		{"renamed", []string{"a", "bb", "c"}, []string{`asks for: step "bb"`, `has:   step "b"`, `workflow.Renamed(ctx, "b", "bb")`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := started(t, steps("a", "b", "c"), none{})
			if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
				t.Fatal(err)
			}
			rows := len(h.Rows())
			h.Close()
			h.Use(steps(tt.now...))
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
			wantPause(t, h, wfhost.PausedDiverged, tt.says...)
			if got := len(h.Rows()); got != rows+1 {
				t.Errorf("%d rows became %d", rows, got)
			}
			// A build that agrees with the history goes on by itself.
			h.Close()
			h.Use(steps("a", "b", "c"))
			drive(t, h)
			wantState(t, h, wfhost.StateCompleted)
			if s := status(t, h); s.Pause != nil {
				t.Errorf("still %+v", s.Pause)
			}
		})
	}
}

// TestD08LeftoversAreFound: a function that ends, or waits for something new, before it has asked for all that is recorded.
func TestD08LeftoversAreFound(t *testing.T) {
	q := workflow.Inbox[int]{Name: "q"}
	old := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		f, err := workflow.Timer(ctx, "long", time.Hour)
		if err != nil {
			return none{}, err
		}
		if err := workflow.Do(ctx, "a", func(*workflow.StepCtx) error { return nil }); err != nil {
			return none{}, err
		}
		_, err = f.Get(ctx)
		return none{}, err
	}).Program()
	for name, now := range map[string]workflow.Func[none, none]{
		"ends": func(ctx workflow.Context, _ none) (none, error) { return none{}, nil },
		"waits": func(ctx workflow.Context, _ none) (none, error) {
			f, err := workflow.Timer(ctx, "long", time.Hour)
			if err != nil {
				return none{}, err
			}
			_, err = f.Get(ctx)
			return none{}, err
		},
		"something new": func(ctx workflow.Context, _ none) (none, error) {
			_, err := workflow.Receive(ctx, "m", q)
			return none{}, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := started(t, old, none{})
			if err := h.Drive(func() bool { return h.Commits == 2 }); err != nil {
				t.Fatal(err)
			}
			h.Close()
			h.Use(workflow.NewFunction("w", now).Program())
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
			wantPause(t, h, wfhost.PausedDiverged)
		})
	}
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
		if err := h.Drive(func() bool { return h.Wakes > wakes && h.Run() != nil }); err != nil {
			t.Fatal(err)
		}
		_ = i
	}
	drive(t, h)
	s := wantState(t, h, wfhost.StateCompleted)
	if d := s.Ended.Sub(began); d < 3*time.Hour {
		t.Errorf("ended after %v", d)
	}
	if unwound < 4 {
		t.Errorf("unwound %d times", unwound)
	}
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
				h := startedLive(t, d.Program(), none{})
				if err := h.Drive(func() bool { return h.Running() == 1 }); err != nil {
					t.Fatal(err)
				}
				if err := h.Transact(func(tx wfhost.Turn) error { return wfhost.Cancel(tx, "no longer wanted") }); err != nil {
					t.Fatal(err)
				}
				drive(t, h)
				s := wantState(t, h, wfhost.StateCancelled)
				if s.Cancel == nil || s.Cancel.Reason != "no longer wanted" {
					t.Errorf("cancel %+v", s.Cancel)
				}
				if tt.heed != errors.Is(got, workflow.ErrCanceled) || !tt.heed && got != nil {
					t.Errorf("the step returned %v", got)
				}
				if !errors.Is(cause, workflow.ErrCanceled) || after != 10 {
					t.Errorf("cause %v, after %d", cause, after)
				}
			})
		})
	}
}

// TestD11ConcurrentEndsAreAllKept: steps that end at the same time are each recorded, void ones included.
func TestD11ConcurrentEndsAreAllKept(t *testing.T) {
	runs := map[string]int{}
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		var fs []*workflow.Future[none]
		for _, name := range names[:10] {
			f, err := workflow.Begin(ctx, name, func(*workflow.StepCtx) (none, error) { runs[name]++; return none{}, nil })
			if err != nil {
				return 0, err
			}
			fs = append(fs, f)
		}
		for i := len(fs) - 1; i >= 0; i-- {
			if _, err := fs[i].Get(ctx); err != nil {
				return 0, err
			}
		}
		return len(fs), workflow.Sleep(ctx, "wait", time.Hour)
	})
	h := started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	drive(t, h)
	wantOutput(t, h, 10)
	for name, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times", name, n)
		}
	}
	everywhere(t, d.Program(), none{}, func(h *memhost.Host) string {
		drive(t, h)
		return outcome(t, h)
	})
}

// TestD12DivergenceRunsNothing: a deploy that does not agree with the history runs no code of the user's but the function
// up to that place: no step, no compensation.
func TestD12DivergenceRunsNothing(t *testing.T) {
	h := started(t, steps("a", "b"), none{})
	if err := h.Drive(func() bool { return !h.Last.Wake.IsZero() }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	ran := 0
	h.Use(workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		defer func() {
			_ = workflow.Do(ctx, "deferred", func(*workflow.StepCtx) error { ran++; return nil })
		}()
		if err := workflow.Do(ctx, "a", func(*workflow.StepCtx) error { ran++; return nil }); err != nil {
			return none{}, err
		}
		_, err := workflow.Update(ctx, "other", func(*workflow.Tx) (int, error) { ran++; return 0, nil })
		if err != nil {
			ran++
		}
		return none{}, workflow.Do(ctx, "refund", func(*workflow.StepCtx) error { ran++; return nil })
	}).Program())
	before := h.Rows()
	for i := range 8 {
		if err := h.Drive(func() bool { return h.Advances > 0 && h.Last.Paused }); err != nil {
			t.Fatal(err)
		}
		wantPause(t, h, wfhost.PausedDiverged)
		wait := h.Last.Wake.Sub(h.Now)
		if want := min(time.Second<<i, 5*time.Minute); wait != want {
			t.Errorf("tries again after %v, want %v", wait, want)
		}
		h.Last.Paused = false // let it try again
	}
	if ran != 0 {
		t.Errorf("%d things ran", ran)
	}
	after := h.Rows()
	for k, v := range before {
		if after[k] != v {
			t.Errorf("row %x changed", k)
		}
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
				if inside > 1 {
					t.Error("two attempts at once")
				}
				n := runs
				sc.OnCommit(func(tx *workflow.Tx) error {
					tx.Host().(*memhost.State).Set("committed", fmt.Sprint(n))
					return nil
				})
				if n == 1 {
					time.Sleep(time.Minute) // deaf
				}
				return fmt.Sprint("attempt ", n), nil
			}, workflow.Timeout(time.Second))
		})
		h := startedLive(t, d.Program(), none{})
		began := time.Now()
		drive(t, h)
		wantOutput(t, h, "attempt 2")
		if got := h.State().Get("committed"); got != "2" {
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
						sc.OnCommit(func(tx *workflow.Tx) error { tx.Host().(*memhost.State).Set("late", "yes"); return nil })
						time.Sleep(time.Minute)
						return nil
					}, options...)
					if !errors.Is(err, workflow.ErrTimeout) {
						t.Errorf("error %v", err)
					}
					took := ctx.Now().Sub(began)
					return took, workflow.Sleep(ctx, "let it end", time.Hour)
				})
				h := startedLive(t, d.Program(), none{})
				drive(t, h)
				wantOutput(t, h, time.Second)
				if h.State().Get("late") != "" {
					t.Error("the body committed after its time")
				}
			})
		})
	}
}

// TestD17EndedRunsAreLatched: waking a run that has ended runs nothing and changes nothing.
func TestD17EndedRunsAreLatched(t *testing.T) {
	for _, fails := range []bool{false, true} {
		calls := 0
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
			calls++
			if fails {
				return 0, fmt.Errorf("failure %d", calls)
			}
			return calls, nil
		})
		h := started(t, d.Program(), none{})
		drive(t, h)
		rows := h.Rows()
		for range 3 {
			h.Close()
			if err := h.Advance(); err != nil {
				t.Fatal(err)
			}
			if !h.Last.Ended {
				t.Errorf("%+v", h.Last)
			}
		}
		if calls != 1 {
			t.Errorf("called %d times", calls)
		}
		for k, v := range h.Rows() {
			if rows[k] != v {
				t.Errorf("row %x changed", k)
			}
		}
	}
}
