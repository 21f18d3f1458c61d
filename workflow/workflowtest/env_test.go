package workflowtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

type none = struct{}

func step[T any](ctx workflow.Context, name string, v T) (T, error) {
	return workflow.Step(ctx, name, func(*workflow.StepCtx) (T, error) { return v, nil })
}

type declined struct{ Code int }

func (e *declined) Error() string { return fmt.Sprintf("declined %d", e.Code) }

func TestResult(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, in int) (int, error) {
		if in == 0 {
			return 0, workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return workflow.Permanent(&declined{51}) })
		}
		v, err := step(ctx, "double", 2*in)
		return v + 1, err
	}, workflow.WithError[*declined]("declined"))
	env := workflowtest.New(t, d).Start(20)
	end(t, env, "41")
	e := env.Entry("double")
	errorIf(t, env.Calls("double") != 1 || e.Kind != workflow.KindStep ||
		e.Status != wfhost.Completed, "%d calls, %+v", env.Calls("double"), e)
	_, err := workflowtest.New(t, d).Start(0).Result()
	var de *declined
	errorIf(t, !errors.As(err, &de) || de.Code != 51, "%v", err)
}

func TestClockJumpsAndAdvances(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (time.Time, error) {
		err := workflow.Sleep(ctx, "night", 12*time.Hour)
		return ctx.Now(), err
	})
	env := workflowtest.New(t, d).Start(none{})
	start := env.Now()
	for _, to := range []time.Duration{0, 11 * time.Hour} {
		env.Advance(to)
		s, at := env.Status().State, env.Now().Sub(start)
		errorIf(t, s != wfhost.StateSleeping || at != to, "%s after %v", s, at)
	}
	env.Settle()
	env.Sleep()
	out, err := env.Result()
	at, now := out.Sub(start), env.Now().Sub(start)
	errorIf(t, err != nil || at != 12*time.Hour || now != at, "%v after %v; %v", at, now, err)
}

func TestStub(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		var a, b string
		err := workflow.Join(ctx, "both",
			workflow.B("left", &a, func(ctx workflow.Context) (string, error) { return step(ctx, "load", "L") }),
			workflow.B("right", &b, func(ctx workflow.Context) (string, error) { return step(ctx, "load", "R") }))
		return a + b, err
	})
	for pattern, want := range map[string]string{"load": "xx", "right/load": "Lx", "both/*/load": "xx", "l??d": "xx",
		"le*/load": "xR", "both": "LR"} {
		n := 0
		env := workflowtest.New(t, d).Stub(pattern, func(*workflow.StepCtx) (any, error) {
			if n++; n == 1 {
				return nil, errors.New("once")
			}
			return "x", nil
		}).Start(none{})
		end(t, env, want)
		errorIf(t, env.Calls(pattern) != n, "%s: %d calls of %d", pattern, env.Calls(pattern), n)
	}
}

// TestStubOfAnUndoHandler also checks that the pattern of a step does not match its undo handler.
func TestStubOfAnUndoHandler(t *testing.T) {
	undone := ""
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		return workflow.Saga(ctx, "trip", func(ctx workflow.Context) (none, error) {
			_, err := workflow.Compensated(ctx, "book", func(*workflow.StepCtx) (int, error) { return 1, nil },
				func(*workflow.StepCtx, int) error { undone += "own "; return nil })
			if err != nil {
				return none{}, err
			}
			return none{}, errors.New("rain")
		})
	})
	env := workflowtest.New(t, d).Start(none{})
	env.Stub("book", func(*workflow.StepCtx) (any, error) { return 7, nil })
	end(t, env, "rain")
	errorIf(t, undone != "own " || env.Calls("book") != 1 || env.Calls("undo of book") != 1, "undone %q", undone)
	env = workflowtest.New(t, d).Start(none{})
	env.Stub("undo of trip/b*", func(*workflow.StepCtx) (any, error) { undone += "stub"; return nil, nil })
	end(t, env, "rain")
	errorIf(t, undone != "own stub", "undone %q", undone)
}

var orders = workflow.Inbox[string]{Name: "orders"}

func TestQueuesAndReplies(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (string, error) {
		return workflow.Loop(ctx, "serve", "", func(it *workflow.Iter[string, string]) error {
			if it.Iteration() == n {
				return it.Break(it.State)
			}
			m, err := workflow.Receive(it, "next", orders, workflow.Within(time.Hour))
			if err != nil {
				return err
			}
			it.State += m.Body
			_, err = workflow.Update(it, "answer", func(tx *workflow.Tx) (none, error) {
				if m.Body == "bad" {
					return none{}, workflow.ReplyError(tx, m, errors.New("no"))
				}
				return none{}, workflow.Reply(tx, m, len(m.Body))
			})
			return err
		})
	})
	env := workflowtest.New(t, d).Start(3)
	a, b := env.Request("orders", "tea"), env.Request("orders", "bad")
	var size int
	ok, err := a.Reply(&size)
	errorIf(t, ok, "answered before anything ran: %v", err)
	env.Send("orders", "milk")
	env.Send("orders", "left")
	end(t, env, "teabadmilk")
	ok, err = a.Reply(&size)
	errorIf(t, !ok || err != nil || size != 3, "%v, %v, %d", ok, err, size)
	ok, err = b.Reply(nil)
	errorIf(t, !ok || err == nil || err.Error() != "no", "%v, %v", ok, err)
	errorIf(t, env.Queued("orders") != 1, "%d are left", env.Queued("orders"))
	end(t, workflowtest.New(t, d).Start(1), `receive "next": workflow: time limit passed`)
}

type shop struct {
	Open  bool
	sales map[string]int
}

func newShop() *shop { return &shop{sales: map[string]int{}} }

func TestUnfinished(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		ctx.Logger().Info("begun")
		m, err := workflow.Receive(ctx, "next", orders)
		return m.Body, err
	})
	var log bytes.Buffer
	env := workflowtest.New(t, d, workflowtest.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Start(none{})
	waits := func() bool { return len(env.Status().Waiting) > 0 }
	errorIf(t, !env.Until(waits) || env.Until(func() bool { return !waits() }), "it waits for %v", env.Status().Waiting)
	_, err := env.Result()
	var unfinished *workflowtest.UnfinishedError
	const says = `workflowtest: the run is waiting, and waits for receive "next" (queue ["orders"])`
	errorIf(t, !errors.As(err, &unfinished) || err.Error() != says, "%v", err)
	env.Send("orders", "tea")
	end(t, env, "tea")
	errorIf(t, !strings.Contains(log.String(), "msg=begun"), "the log is %q", log.String())
}

func TestControl(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		v, err := step(ctx, "a", 1)
		if err != nil {
			return 0, err
		}
		if err := workflow.Do(ctx, "long", workflowtest.Block); err != nil {
			return 0, err
		}
		return v, workflow.Sleep(ctx, "wait", time.Hour)
	})
	begun := func(reach string) *workflowtest.Env[none, int] {
		env := workflowtest.New(t, d).Start(none{})
		if reach != "long" {
			env.Stub("long", func(*workflow.StepCtx) (any, error) { return nil, nil })
		}
		env.Reach(reach)
		return env
	}
	env := begun("long")
	must(t, env.Cancel("enough"))
	_, err := env.Result()
	errorIf(t, !errors.Is(err, workflow.ErrCanceled) || env.Status().State != wfhost.StateCancelled, "%v, %s", err, env.Status().State)
	var refused *wfhost.ControlError
	err = env.Pause("again")
	errorIf(t, !errors.As(err, &refused), "%v", err)
	env = begun("long")
	must(t, env.Terminate("enough"))
	errorIf(t, env.Wait().State != wfhost.StateTerminated, "%s", env.Status().State)

	env = begun("wait")
	must(t, env.Pause("look"))
	errorIf(t, env.Wait().State != wfhost.StatePaused, "%s", env.Status().State)
	env.Advance(2 * time.Hour)
	errorIf(t, env.Status().State != wfhost.StatePaused, "%s", env.Status().State)
	must(t, env.Resume())
	end(t, env, "1")

	env = workflowtest.New(t, d).Start(none{})
	fail := true
	env.Stub("long", func(*workflow.StepCtx) (any, error) {
		if fail {
			return nil, workflow.RetryAfter(errors.New("busy"), 24*time.Hour)
		}
		return nil, nil
	})
	env.Settle()
	fail = false
	must(t, env.Retry(env.Entry("long").ID))
	start := env.Now()
	env.Reach("wait")
	errorIf(t, !env.Now().Equal(start), "retried after %v", env.Now().Sub(start))

	env.Stub("a", func(*workflow.StepCtx) (any, error) { return 2, nil })
	must(t, env.Rewind(env.Entry("a").ID))
	end(t, env, "2")
}

func TestChildrenInOtherActors(t *testing.T) {
	at := workflow.Destination{Type: "worker", Key: []string{"1"}}
	child := workflow.NewFunction("child", func(ctx workflow.Context, in int) (int, error) {
		return workflow.Update(ctx, "note",
			func(tx *workflow.Tx) (int, error) { tx.Host().(*shop).sales["child"] += in; return 10 * in, nil })
	})
	d := workflow.NewFunction("parent", func(ctx workflow.Context, _ none) (int, error) {
		c, err := workflow.Spawn(ctx, "c", child, 2, workflow.OnActor(at))
		if err != nil {
			return 0, err
		}
		return c.Result(ctx)
	})
	opts := []workflowtest.Option{workflowtest.WithPrograms(child.Program()), workflowtest.WithState(newShop, "worker")}
	workflowtest.CrashEverywhere(t, d, func(env *workflowtest.Env[none, int]) {
		end(t, env.Start(none{}), "20")
		a := env.At(at)
		s, sales := a.Status(), workflowtest.StateOf[shop](a).sales
		errorIf(t, s.State != wfhost.StateCompleted || s.Workflow != "child" || sales["child"] != 2, "%+v, %v", s, sales)
	}, opts...)
	env := workflowtest.New(t, d, opts...)
	env.Refuse(at, errors.New("full"))
	end(t, env.Start(none{}), `workflow: child "c" (child): full`)
}

func TestEverythingInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, now atomic.Int32
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			err := workflow.Do(ctx, "hangs", func(sc *workflow.StepCtx) error {
				<-sc.Done()
				return context.Cause(sc)
			}, workflow.Timeout(time.Hour), workflow.FailOnTimeout())
			if !errors.Is(err, workflow.ErrTimeout) {
				return "", err
			}
			_, err = workflow.ForEach(ctx, "all", []int{1, 2, 3}, func(ctx workflow.Context, i, item int) (none, error) {
				return none{}, workflow.Do(ctx, "work", func(*workflow.StepCtx) error {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Duration(item) * time.Minute)
					now.Add(-1)
					return nil
				})
			})
			if err != nil {
				return "", err
			}
			return "done", workflow.Sleep(ctx, "rest", 24*time.Hour)
		})
		start := time.Now()
		env := workflowtest.New(t, d).Start(none{})
		env.Advance(30 * time.Minute)
		errorIf(t, env.Calls("hangs") != 1 ||
			time.Since(start) != 30*time.Minute, "%d calls after %v", env.Calls("hangs"), time.Since(start))
		end(t, env, "done")
		errorIf(t, most.Load() != 3 ||
			time.Since(start) != 25*time.Hour+3*time.Minute, "%d at once, after %v", most.Load(), time.Since(start))
	})
}

// TestBodiesMayUseTheEnv is about locks: a body sends to its own run.
func TestBodiesMayUseTheEnv(t *testing.T) {
	var env *workflowtest.Env[none, string]
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "send", func(*workflow.StepCtx) error { env.Send("orders", "self"); return nil }); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "next", orders)
		return m.Body, err
	})
	env = workflowtest.New(t, d)
	end(t, env.Start(none{}), "self")
}

func TestBodiesRunInOrder(t *testing.T) {
	var ran []int
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		_, err := workflow.ForEach(ctx, "all", make([]none, 20), func(ctx workflow.Context, i int, _ none) (none, error) {
			return none{}, workflow.Do(ctx, "s", func(*workflow.StepCtx) error { ran = append(ran, i); return nil })
		})
		return none{}, err
	})
	end(t, workflowtest.New(t, d).Start(none{}), "{}")
	errorIf(t, len(ran) != 20 || !slices.IsSorted(ran), "%v", ran)
}
