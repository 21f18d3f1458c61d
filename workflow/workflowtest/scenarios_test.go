package workflowtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// A scenario is a workflow with its events, for every kind of operation. Its recording in
// testdata/v0 was made when the package was first released. It must replay with the code below for
// ever, so neither is ever changed. New scenarios go into the folder of the next released version.
type scenario struct {
	name   string
	record func(t *testing.T) *wfhost.Recording
	replay func(t testing.TB, rec *wfhost.Recording)
	crash  func(t *testing.T)
}

func scene[In, Out any](name string, d *workflow.Function[In, Out],
	script func(t testing.TB, env *workflowtest.Env[In, Out]), opts ...workflowtest.Option) scenario {
	opts = append(opts, workflowtest.WithState(newShop))
	return scenario{
		name: name,
		record: func(t *testing.T) *wfhost.Recording {
			env := workflowtest.New(t, d, opts...)
			script(t, env)
			env.Settle()
			return env.Export()
		},
		replay: func(t testing.TB, rec *wfhost.Recording) { workflowtest.Replay(t, d, rec, opts...) },
		crash: func(t *testing.T) {
			workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[In, Out]) { script(t, env) }, opts...)
		},
	}
}

// result runs to the end, and checks the output, or the text of an error.
func result[In, Out any](in In, want string) func(t testing.TB, env *workflowtest.Env[In, Out]) {
	return func(t testing.TB, env *workflowtest.Env[In, Out]) {
		t.Helper()
		end(t, env.Start(in), want)
	}
}

func end[In, Out any](t testing.TB, env *workflowtest.Env[In, Out], want string) {
	t.Helper()
	out, err := env.Result()
	got := fmt.Sprint(out)
	if err != nil {
		got = err.Error()
	}
	errorIf(t, got != want, "%s, want %s", got, want)
}

var errBusy = errors.New("busy")

// flaky is a step whose attempts fail before the n-th.
func flaky(ctx workflow.Context, name string, n int, opts ...workflow.StepOption) (int, error) {
	return workflow.Step(ctx, name, func(sc *workflow.StepCtx) (int, error) {
		if sc.Attempt() < n {
			return 0, errBusy
		}
		return n, nil
	}, opts...)
}

var helper = workflow.NewFunction("helper", func(ctx workflow.Context, in int) (int, error) {
	if in < 0 {
		return 0, errors.New("negative")
	}
	v, err := step(ctx, "square", in*in)
	if err != nil {
		return 0, err
	}
	return v, workflow.Sleep(ctx, "nap", time.Minute)
})

var scenarios = []scenario{
	scene("steps", workflow.NewFunction("steps", func(ctx workflow.Context, in string) (string, error) {
		a, err := step(ctx, "a/b~1", in)
		if err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "void", func(*workflow.StepCtx) error { return nil }); err != nil {
			return "", err
		}
		n, err := workflow.Update(ctx, "count", func(tx *workflow.Tx) (int, error) {
			s := tx.Host().(*shop)
			s.sales[in]++
			return s.sales[in], nil
		})
		if err != nil {
			return "", err
		}
		_, err = workflow.Update(ctx, "refused", func(*workflow.Tx) (none, error) { return none{}, errBusy })
		workflow.Publish(ctx, n)
		secret, serr := workflow.Step(ctx, "secret", func(*workflow.StepCtx) (string, error) { return "pin", nil },
			workflow.Sensitive(), workflow.Deferred())
		return fmt.Sprintf("%s %d %v %s %v", a, n, err, secret, serr), nil
	}), result[string, string]("tea", `tea 1 step "refused" failed: busy pin <nil>`)),

	scene("retries", workflow.NewFunction("retries", func(ctx workflow.Context, _ none) (string, error) {
		a, err := flaky(ctx, "third", 3)
		if err != nil {
			return "", err
		}
		_, err = workflow.Step(ctx, "never", func(*workflow.StepCtx) (int, error) { return 0, errBusy },
			workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2, Initial: time.Hour}))
		_, perm := workflow.Step(ctx, "at once", func(*workflow.StepCtx) (int, error) { return 0, workflow.Permanent(&declined{5}) })
		var de *declined
		return fmt.Sprint(a, err != nil, errors.As(perm, &de)), nil
	}, workflow.WithError[*declined]("declined")), result[none, string](none{}, "3 true true")),

	scene("loops", workflow.NewFunction("loops", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "outer", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == n {
				return it.Break(it.State)
			}
			sum, err := workflow.Loop(it, "inner", 0, func(in *workflow.Iter[int, int]) error {
				if in.Iteration() == 3 {
					return in.Break(in.State)
				}
				v, err := step(in, "work", it.Iteration())
				in.State += v
				return err
			}, workflow.Keep(1), workflow.TrimEvery(1))
			it.State += sum
			return err
		}, workflow.TrimEvery(2))
	}), result[int, int](7, "63")),

	scene("joins", workflow.NewFunction("joins", func(ctx workflow.Context, _ none) (string, error) {
		var a, b int
		err := workflow.Join(ctx, "both",
			workflow.B("retries", &a, func(ctx workflow.Context) (int, error) { return flaky(ctx, "s", 3) }),
			workflow.B("sleeps", &b, func(ctx workflow.Context) (int, error) { return 7, workflow.Sleep(ctx, "s", time.Hour) }),
			workflow.B("fails", nil, func(ctx workflow.Context) (int, error) { return 0, errBusy }))
		fast := workflow.JoinFast(ctx, "fast",
			workflow.B("fails", nil, func(ctx workflow.Context) (none, error) { return none{}, errBusy }),
			workflow.B("waits", nil, func(ctx workflow.Context) (none, error) { return none{}, workflow.Sleep(ctx, "s", 1000*time.Hour) }))
		return fmt.Sprint(a, b, err, fast), nil
	}), result[none, string](none{}, "3 7 workflow: both: branch fails: busy workflow: fast: branch fails: busy (and 1 more)")),

	scene("races", workflow.NewFunction("races", func(ctx workflow.Context, _ none) (string, error) {
		name, v, err := workflow.Race(ctx, "first",
			workflow.C("message", func(ctx workflow.Context) (string, error) {
				m, err := workflow.Receive(ctx, "m", orders)
				if err != nil {
					return "", err
				}
				return m.Body, workflow.Sleep(ctx, "think", 2*time.Hour)
			}),
			workflow.C("timer", func(ctx workflow.Context) (string, error) { return "late", workflow.Sleep(ctx, "t", time.Hour) }))
		return name + " " + v, err
	}), func(t testing.TB, env *workflowtest.Env[none, string]) {
		env.Start(none{})
		env.Send("orders", "tea")
		end(t, env, "timer late")
		if env.Queued("orders") != 1 {
			t.Errorf("%d orders", env.Queued("orders"))
		}
	}),

	scene("maps", workflow.NewFunction("maps", func(ctx workflow.Context, items []int) ([]int, error) {
		return workflow.ForEach(ctx, "squares", items,
			func(ctx workflow.Context, i, item int) (int, error) { return step(ctx, "square", item*item) }, workflow.Concurrency(2))
	}), result[[]int, []int]([]int{1, 2, 3, 4, 5}, "[1 4 9 16 25]")),

	scene("sagas", workflow.NewFunction("sagas", func(ctx workflow.Context, _ none) (string, error) {
		note := func(sc *workflow.StepCtx, s string) error {
			sc.OnCommit(func(tx *workflow.Tx) error { tx.Host().(*shop).sales[s]++; return nil })
			return nil
		}
		_, err := workflow.Saga(ctx, "trip", func(ctx workflow.Context) (none, error) {
			if _, err := workflow.Compensated(ctx, "flight",
				func(*workflow.StepCtx) (string, error) { return "flight", nil }, note); err != nil {
				return none{}, err
			}
			_, err := workflow.Loop(ctx, "rooms", 0, func(it *workflow.Iter[int, int]) error {
				if it.Iteration() == 2 {
					return it.Break(0)
				}
				return workflow.Do(it, "room", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("room", it.Iteration()))
			})
			if err != nil {
				return none{}, err
			}
			return none{}, workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return workflow.Permanent(errBusy) })
		})
		return fmt.Sprint(err != nil), nil // the text has the number of attempts, which depends on crashes
	}, workflow.WithUndo("room", func(sc *workflow.StepCtx, i int) error {
		sc.OnCommit(func(tx *workflow.Tx) error { tx.Host().(*shop).sales[fmt.Sprint("room", i)]++; return nil })
		return nil
	})), func(t testing.TB, env *workflowtest.Env[none, string]) {
		end(t, env.Start(none{}), "true")
		s := workflowtest.StateOf[shop](env.Actor).sales
		errorIf(t, s["flight"] != 1 || s["room0"] != 1 || s["room1"] != 1, "undone: %v", s)
	}),

	scene("messages", workflow.NewFunction("messages", func(ctx workflow.Context, _ none) (string, error) {
		batch, err := workflow.ReceiveBatch(ctx, "batch", orders, 2)
		if err != nil || len(batch) != 2 {
			return "", fmt.Errorf("%d messages: %v", len(batch), err)
		}
		_, err = workflow.Update(ctx, "answer",
			func(tx *workflow.Tx) (none, error) { return none{}, workflow.Reply(tx, batch[0], "thanks") })
		if err != nil {
			return "", err
		}
		_, late := workflow.Receive(ctx, "none", orders, workflow.Within(time.Hour))
		raw, err := workflow.ReceiveAny(ctx, "any", []string{"other", "orders"})
		return fmt.Sprint(batch[0].Body+batch[1].Body+" ", errors.Is(late, workflow.ErrTimeout), " "+raw.Queue), err
	}), func(t testing.TB, env *workflowtest.Env[none, string]) {
		q := env.Request("orders", "a")
		env.Send("orders", "b")
		env.Start(none{}).Advance(2 * time.Hour)
		env.Send("other", "c")
		end(t, env, "ab true other")
		var answer string
		ok, err := q.Reply(&answer)
		errorIf(t, !ok || err != nil || answer != "thanks", "%v, %v, %q", ok, err, answer)
	}),

	scene("conditions", workflow.NewFunction("conditions", func(ctx workflow.Context, _ none) (string, error) {
		probe := func(s *shop) (int, bool) { return s.sales["tea"], s.Open }
		_, late := workflow.Await(ctx, "soon", probe, workflow.Within(time.Minute))
		n, err := workflow.Await(ctx, "some time", probe)
		return fmt.Sprint(n, errors.Is(late, workflow.ErrTimeout)), err
	}), func(t testing.TB, env *workflowtest.Env[none, string]) {
		env.Start(none{}).Advance(time.Hour)
		workflowtest.Change(env.Actor, func(s *shop) { s.Open, s.sales["tea"] = true, 4 })
		end(t, env, "4 true")
	}),

	scene("gates", workflow.NewFunction("gates", func(ctx workflow.Context, _ none) (string, error) {
		v := workflow.Version(ctx, "pricing", 3)
		if !workflow.Patched(ctx, "audit") {
			return "", errors.New("a new run is not patched")
		}
		_, err := workflow.Scope(ctx, "inner", func(ctx workflow.Context) (int, error) { return workflow.Version(ctx, "pricing", 5), nil })
		return fmt.Sprint(v, workflow.Version(ctx, "pricing", 3)), err
	}), result[none, string](none{}, "3 3")),

	scene("futures", workflow.NewFunction("futures", func(ctx workflow.Context, _ none) (string, error) {
		timer, err := workflow.Timer(ctx, "limit", time.Hour)
		if err != nil {
			return "", err
		}
		f, err := workflow.Begin(ctx, "background", func(*workflow.StepCtx) (string, error) { return "done", nil })
		if err != nil {
			return "", err
		}
		if err := workflow.SleepUntil(ctx, "past", ctx.Now().Add(-time.Hour)); err != nil {
			return "", err
		}
		s, err := f.Get(ctx)
		if err != nil {
			return "", err
		}
		at, err := timer.Get(ctx)
		return fmt.Sprint(s, " ", at.UTC().Format("15:04"), " ", ctx.Rand().IntN(1000) < 1000), err
	}), result[none, string](none{}, "done 10:00 true")),

	scene("children", workflow.NewFunction("children", func(ctx workflow.Context, _ none) (string, error) {
		within, err := workflow.Spawn(ctx, "within", helper, 3)
		if err != nil {
			return "", err
		}
		away, err := workflow.Spawn(ctx, "away", helper, 4, workflow.OnActor(workflow.Destination{Type: "worker", Key: []string{"1"}}))
		if err != nil {
			return "", err
		}
		fails, err := workflow.Spawn(ctx, "fails", helper, -1, workflow.OnActor(workflow.Destination{Type: "worker", Key: []string{"2"}}))
		if err != nil {
			return "", err
		}
		a, err := within.Result(ctx)
		if err != nil {
			return "", err
		}
		b, err := away.Result(ctx)
		if err != nil {
			return "", err
		}
		_, err = fails.Result(ctx)
		return fmt.Sprint(a, b, err), nil
	}), result[none, string](none{}, `9 16 workflow: child "fails" (helper): negative`), workflowtest.WithPrograms(helper.Program())),

	scene("cancelled", workflow.NewFunction("cancelled", func(ctx workflow.Context, _ none) (none, error) {
		_, err := workflow.Saga(ctx, "work", func(ctx workflow.Context) (none, error) {
			_, err := workflow.Compensated(ctx, "take", func(*workflow.StepCtx) (int, error) { return 1, nil },
				func(*workflow.StepCtx, int) error { return nil })
			if err != nil {
				return none{}, err
			}
			return none{}, workflow.Sleep(ctx, "long", 1000*time.Hour)
		})
		if _, cerr := step(workflow.Detach(ctx), "clean", 1); cerr != nil {
			return none{}, cerr
		}
		return none{}, err
	}), func(t testing.TB, env *workflowtest.Env[none, none]) {
		env.Start(none{})
		env.Reach("long")
		must(t, env.Cancel("changed my mind"))
		if s := env.Wait(); s.State != wfhost.StateCancelled || env.Calls("undo of take") == 0 || env.Calls("clean") == 0 {
			t.Errorf("%s, undone %d, cleaned %d", s.State, env.Calls("undo of take"), env.Calls("clean"))
		}
	}),

	scene("large", workflow.NewFunction("large", func(ctx workflow.Context, _ none) (int, error) {
		text := strings.Repeat("0123456789abcdef", 1500)
		a, err := step(ctx, "a", text)
		if err != nil {
			return 0, err
		}
		b, err := step(ctx, "b", text)
		return len(a) + len(b), err
	}), result[none, int](none{}, "48000")),

	scene("failed", workflow.NewFunction("failed", func(ctx workflow.Context, _ none) (int, error) {
		if _, err := workflow.Compensated(ctx, "take", func(*workflow.StepCtx) (int, error) { return 1, nil },
			func(*workflow.StepCtx, int) error { return nil }); err != nil {
			return 0, err
		}
		return workflow.Step(ctx, "panics", func(*workflow.StepCtx) (int, error) { panic("ouch") },
			workflow.Retry(workflow.RetryPolicy{MaxAttempts: 3}))
	}), func(t testing.TB, env *workflowtest.Env[none, int]) {
		if s := env.Start(none{}).Wait(); s.State != wfhost.StateFailed ||
			env.Crashes() == 0 && !strings.Contains(s.Failure.Message, "panic: ouch") || env.Calls("undo of take") == 0 {
			t.Errorf("%+v", s)
		}
	}, workflowtest.WithTolerance(func(want, got *workflowtest.Ending) bool { // the last attempt is cut off, with an unknown outcome
		w, g := want.Actors[0], got.Actors[0]
		return strings.HasPrefix(g.Run, "failed: ") && slices.Equal(w.Undone, g.Undone) && g.Owed == 0
	})),

	scene("restarted", workflow.NewFunction("restarted", func(ctx workflow.Context, n int) (int, error) {
		if _, err := step(ctx, "work", n); err != nil || n == 0 {
			return len(ctx.Info().RunID), err
		}
		return 0, workflow.Restart(ctx, n-1)
	}), result[int, int](3, "32")),

	scene("waiting", workflow.NewFunction("waiting", func(ctx workflow.Context, _ none) (string, error) {
		if _, err := step(ctx, "before", 1); err != nil {
			return "", err
		}
		_, err := workflow.Compensated(ctx, "hold", func(*workflow.StepCtx) (int, error) { return 1, nil },
			func(*workflow.StepCtx, int) error { return nil })
		if err != nil {
			return "", err
		}
		var m workflow.Received[string]
		err = workflow.Join(ctx, "either",
			workflow.B("approval", &m, func(ctx workflow.Context) (workflow.Received[string], error) {
				return workflow.Receive(ctx, "approval", orders)
			}),
			workflow.B("reminder", nil,
				func(ctx workflow.Context) (none, error) { return none{}, workflow.Sleep(ctx, "week", 7*24*time.Hour) }))
		return m.Body, err
	}), func(t testing.TB, env *workflowtest.Env[none, string]) {
		env.Start(none{}).Advance(24 * time.Hour)
		s := env.Status()
		errorIf(t, s.State != wfhost.StateWaiting || len(s.Waiting) != 2 || s.Undo != 1, "%+v", s)
	}),
}

func TestScenariosCrashEverywhere(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, s.crash)
	}
}

func recordingOf(s *scenario) string { return "testdata/v0/" + s.name + ".rec" }

// TestRecordedVersionsReplay replays the recordings of released versions of the package.
func TestRecordedVersionsReplay(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			fresh := s.record(t)
			s.replay(t, fresh)
			workflowtest.Record(t, recordingOf(&s), fresh)
			old := workflowtest.Load(t, recordingOf(&s))
			s.replay(t, old)
			diff := workflowtest.Diff(old, fresh)
			errorIf(t, diff != "", "the history is not what version 0 records:\n%s", diff)
		})
	}
}
