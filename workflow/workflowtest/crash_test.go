package workflowtest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// attempt is a step whose result depends on crashes.
func attempt(ctx workflow.Context) (int, error) {
	return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) { return sc.Attempt(), nil })
}

// TestCrashEverywhereFindsWhatDependsOnCrashes has wrong workflows, each in a way that only a crash
// shows.
func TestCrashEverywhereFindsWhatDependsOnCrashes(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   workflow.Func[none, int]
		want []string
	}{
		{"output", func(ctx workflow.Context, _ none) (int, error) { return attempt(ctx) },
			[]string{`when the process died after commit 1 of 2 (test/"main": the run is running), it ends differently`,
				"run", "without a crash: completed: 1", "with it:         completed: 2"}},
		{"at most once", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) { return 1, nil }, workflow.AtMostOnce())
		}, []string{"the process died after commit 1", "completed: 1", "failed: "}},
		{"state", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) {
				n := sc.Attempt()
				sc.OnCommit(func(tx *workflow.Tx) error { tx.Host().(*shop).sales["tea"] = n; return nil })
				return 1, nil
			})
		}, []string{"state", "map[tea:1]", "map[tea:2]"}},
		{"published", func(ctx workflow.Context, _ none) (int, error) {
			n, err := attempt(ctx)
			workflow.Publish(ctx, n)
			return 1, err
		}, []string{"published"}},
		{"undone", func(ctx workflow.Context, _ none) (int, error) {
			return workflow.Saga(ctx, "saga", func(ctx workflow.Context) (int, error) {
				n, err := workflow.Compensated(ctx, "s",
					func(sc *workflow.StepCtx) (int, error) { return sc.Attempt(), nil }, func(*workflow.StepCtx, int) error { return nil })
				if n > 1 {
					return 0, errors.New("twice")
				}
				return n, err
			})
		}, []string{"undone", "[saga/s]"}},
		{"queue", func(ctx workflow.Context, _ none) (int, error) {
			n, err := attempt(ctx)
			if err == nil && n > 1 {
				_, err = workflow.Receive(ctx, "m", orders)
			}
			return 1, err
		}, []string{"queues", `map[orders:["tea"]]`, "map[]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := failing(t, func(t testing.TB) {
				workflowtest.CrashEverywhere(t, workflow.NewFunction("w", tt.fn), func(env *workflowtest.Env[none, int]) {
					env.Send("orders", "tea")
					env.Start(none{}).Wait()
				}, workflowtest.WithState(newShop))
			})
			wantText(t, text, tt.want...)
		})
	}
}

// TestCrashEverywhereSaysWhichCommit tests the assertions of a script.
func TestCrashEverywhereSaysWhichCommit(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) { return attempt(ctx) })
	for _, fatal := range []bool{false, true} {
		text := failing(t, func(t testing.TB) {
			workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[none, int]) {
				if out, err := env.Start(none{}).Result(); out != 1 || err != nil {
					fatalIf(t, fatal, "no fatal one")
					t.Errorf("%d is no one", out)
				}
			})
		})
		wantText(t, text, "no", "that is when the process died after commit 1 of 2")
	}
	text := failing(t, func(t testing.TB) {
		workflowtest.CrashEverywhere(t, d, func(*workflowtest.Env[none, int]) { t.Error("broken anyway") })
	})
	errorIf(t, text != "broken anyway\n", "%q", text)
}

// A script must do the same each time. It runs with some of the crashes.
func TestCrashEverywhereRunsAScriptOften(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "l", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == n {
				return it.Break(n)
			}
			_, err := step(it, "s", 1)
			return err
		})
	})
	runs := 0
	text := failing(t, func(t testing.TB) {
		workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[int, int]) {
			if runs++; runs == 1 {
				env.Start(1).Wait()
			}
		})
	})
	wantText(t, text, "the script does not do the same each time")
	runs = 0
	workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[int, int]) {
		runs++
		env.Start(20).Wait()
	}, workflowtest.WithCrashes(3))
	errorIf(t, runs < 3 || runs > 1+2*3, "%d runs", runs)
}

func TestCrashAtCommit(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		if _, err := step(ctx, "a", 1); err != nil {
			return 0, err
		}
		return step(ctx, "b", 2)
	})
	for _, tt := range []struct {
		n     int
		when  workflowtest.When
		calls string
	}{
		{1, workflowtest.Before, "a1b1"}, {1, workflowtest.After, "a1b1"}, {2, workflowtest.Before, "a2b1"}, {2,
			workflowtest.After, "a1b1"},
		{3, workflowtest.Before, "a1b2"}, {3, workflowtest.After, "a1b1"},
	} {
		env := workflowtest.New(t, d).CrashAtCommit(tt.n, tt.when).Start(none{})
		end(t, env, "2")
		calls := fmt.Sprintf("a%db%d", env.Calls("a"), env.Calls("b"))
		errorIf(t, calls != tt.calls || env.Crashes() != 1, "%d %s: %s, want %s, %d crashes", tt.n, tt.when, calls, tt.calls, env.Crashes())
	}
}

// TestCrashLosesWhatABodyReturns also checks that a crash waits for bodies.
func TestCrashLosesWhatABodyReturns(t *testing.T) {
	ended := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		return workflow.Step(ctx, "s", func(sc *workflow.StepCtx) (int, error) {
			if sc.Attempt() == 1 {
				_ = workflowtest.Block(sc)
				ended++
			}
			return sc.Attempt(), nil
		})
	})
	env := workflowtest.New(t, d).Start(none{})
	env.Reach("s")
	env.Crash()
	errorIf(t, ended != 1, "%d bodies have ended", ended)
	end(t, env, "2")
	env = workflowtest.New(t, d).Start(none{})
	env.Reach("s")
	env.Sleep() // it counts as not run, unless it succeeds as this one does
	end(t, env, "1")
}

func TestRunThatDoesNotComeToRest(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		return workflow.Loop(ctx, "tick", 0, func(it *workflow.Iter[int, int]) error { return workflow.Sleep(it, "s", time.Second) })
	})
	text := failing(t, func(t testing.TB) { workflowtest.New(t, d, workflowtest.WithLimit(1000)).Start(none{}).Wait() })
	wantText(t, text, "the run does not come to rest")
}

// A body may crash the process: its result is lost, and it is executed again.
func TestCrashInABody(t *testing.T) {
	var env *workflowtest.Env[none, int]
	var attempts []int
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		return workflow.Step(ctx, "step", func(sc *workflow.StepCtx) (int, error) {
			if attempts = append(attempts, sc.Attempt()); len(attempts) == 1 {
				env.Crash()
			}
			return len(attempts), nil
		})
	})
	env = workflowtest.New(t, d)
	end(t, env.Start(none{}), "2")
	errorIf(t, env.Crashes() != 1, "attempts %v, %d crashes", attempts, env.Crashes())
}
