package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
)

// A shutdown waits for a task as long as a task is given, or until its own deadline.
func TestTaskThatDoesNotReturnIsLeftBehindAndReported(t *testing.T) {
	for _, c := range []struct{ deadline, least, most time.Duration }{
		{time.Hour, limit.DefaultTaskGrace, limit.DefaultTaskGrace + time.Second},
		{time.Second, 0, time.Second + 2*task.LastGrace},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			g := newStage(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			stop, late := make(chan struct{}), make(chan error, 1)
			g.must("a", goes("stubborn", func(task host.Task) error {
				<-stop
				late <- task.Turn(task, adds(1))
				return nil
			}))
			ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
			defer cancel()
			begin := time.Now()
			err := g.Close(ctx)
			took := time.Since(begin)
			errorIf(t, took < c.least || took > c.most, "the shutdown took %s", took)
			errorIf(t, err == nil || !strings.Contains(err.Error(), "1 tasks did not return"), "Close returned %v", err)
			errorIf(t, !strings.Contains(log.String(), "task=stubborn") || !strings.Contains(log.String(), "crew_test.go"),
				"the log does not name the task and where it hangs: %s", log.String())
			close(stop)
			wantCode(t, <-late, host.Unavailable)
			synctest.Wait()
			same(t, kernel.PartOf[*task.Part](g.Kernel).Left.Load(), 0, "tasks count as left behind")
			g.store.Close()
			g.Node = nil
		})
	}
}

// Tasks are stopped when nothing else can be put to sleep, even while they run the attempt of a
// step.
func TestMemoryPressureStopsTasksAfterEverythingElse(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxAwake = 10 }, nil, func(t *testing.T, g *stage) {
		causes := make(chan error, 100)
		for i := range 8 {
			g.must(fmt.Sprint("task", i), goes("x", func(task host.Task) error {
				<-task.Done()
				causes <- context.Cause(task)
				return task.Turn(task, adds(1))
			}))
		}
		for i := range 20 {
			g.must(fmt.Sprint("idle", i), add(1))
		}
		time.Sleep(time.Second)
		n := len(causes)
		fatalIf(t, n != 0, "%d tasks were stopped though other actors could sleep", n)
		for i := range 8 {
			g.must(fmt.Sprint("more", i), goes("x", untilTold))
		}
		time.Sleep(10 * time.Second)
		if n := g.Memory.Awake.Load(); n > 10 {
			t.Errorf("%d actors are awake", n)
		}
		if len(causes) == 0 {
			t.Error("no task was stopped")
		} else if e := wantCode(t, <-causes, host.Unavailable); !strings.Contains(e.Message, "memory") {
			t.Error(e)
		}
	})
}

func TestMemoryPressureStopsAttemptsOfSteps(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxAwake = 10 }, nil, func(t *testing.T, g *stage) {
		causes := make(chan error, 100)
		for i := range 20 {
			key := fmt.Sprint("task", i)
			g.must(key, goes("x", func(task host.Task) error {
				r := run.RunOf(g.Find(pAddr(key)))
				r.Attempts.Add(1)
				<-task.Done()
				r.Attempts.Add(-1)
				causes <- context.Cause(task)
				return nil
			}))
		}
		time.Sleep(10 * time.Second)
		n := g.Memory.Awake.Load()
		errorIf(t, n > 10, "%d actors are awake", n)
		errorIf(t, len(causes) == 0, "no task was stopped")
	})
}

func TestTasksLeaveNoGoroutinesBehind(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("warm", add(1))
		synctest.Wait()
		running := func() int { return g.Goroutines.Len() - g.Workers.Free() }
		before := running()
		for i := range 50 {
			key := fmt.Sprint(i)
			for range 4 {
				g.must(key, goes("x", untilTold))
			}
			switch i % 3 {
			case 0:
				g.ok(g.Destroy(context.Background(), pAddr(key)))
			case 1:
				g.do(key, func(*puppet, host.Turn) error { panic("told to") })
			case 2:
				g.mustVerb(key, host.ActorSleep, nil, nil)
			}
		}
		synctest.Wait()
		n := running()
		errorIf(t, n > before, "%d goroutines run, before the tasks it were %d", n, before)
	})
}

// goes is a deed that starts a task.
func goes(name string, f func(host.Task) error) deed {
	return func(_ *puppet, t host.Turn) error { return t.Go(name, f) }
}

// untilTold is a task that returns when its context ends.
func untilTold(t host.Task) error { <-t.Done(); return t.Err() }

// adds is the turn of a task that adds n.
func adds(n int) func(any, host.Turn) error {
	return func(state any, _ host.Turn) error { state.(*puppetState).N += n; return nil }
}

// bubble runs a test with a node in a synctest bubble, which fails if a goroutine is left at its
// end.
func bubble(t *testing.T, options func(*Options), types []*puppetType, f func(t *testing.T, g *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newStage(t, options, types...)) })
}

func TestTaskIsNotUsedAfterItReturned(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		tasks := make(chan host.Task, 1)
		g.must("a", goes("x", func(task host.Task) error { tasks <- task; return nil }))
		task := <-tasks
		synctest.Wait()
		wantCode(t, task.Turn(context.Background(), adds(1)), host.FailedPrecondition)
		_, err := task.Call(context.Background(), &host.Request{Address: pAddr("b"), Method: "do", Input: remember(add(1))})
		wantCode(t, err, host.FailedPrecondition)
		errorIf(t, task.Err() == nil, "its context goes on")
	})
}

// The task of a calls b, whose turn calls a: no cycle, because a's turn does not wait for its task.
// Its calls have the trace of the turn that started it, whether it calls by itself or by its
// context.
func TestTaskCallsActorsWithoutMakingThemWait(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		call := func(key string, f deed) *host.Request {
			return &host.Request{Address: pAddr(key), Method: "do", Codec: host.JSON, Input: remember(f)}
		}
		back := func(_ *puppet, h host.Turn) error {
			if h.Traceparent() != trace {
				return host.Errorf(host.NotFound, "traceparent %q", h.Traceparent())
			}
			_, err := h.Call(h, call("a", add(3)))
			return err
		}
		for _, c := range []struct {
			trace     string
			byContext bool
			want      host.Code
		}{{"", false, host.NotFound}, {trace, false, ""}, {trace, true, ""}} {
			done := make(chan error, 1)
			r := call("a", goes("x", func(task host.Task) (err error) {
				if c.byContext {
					_, err = g.Call(task, call("b", back))
				} else {
					_, err = task.Call(context.Background(), call("b", back))
				}
				done <- err
				return nil
			}))
			r.Traceparent = c.trace
			must(t, errOf(g.Call(t.Context(), r)))
			if err := <-done; host.CodeOf(err) != c.want {
				t.Errorf("%+v: %v", c, err)
			}
		}
		same(t, g.n("a"), 6)
	})
}

// The goroutine of an abandoned handler still holds the item of the mailbox, which must not be used
// again: its late answer would reach the caller of another item.
func TestTurnOfATaskThatIsAbandonedAnswersNobodyElse(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{TurnTimeout: time.Second}}}, func(t *testing.T, g *stage) {
		stuck, going := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 100)
		g.must("a", goes("hang", func(task host.Task) error {
			err := task.Turn(context.Background(), func(any, host.Turn) error { <-stuck; return nil })
			errorIf(t, host.CodeOf(err) != host.DeadlineExceeded, "the turn ended with %v", err)
			for i := range cap(errs) {
				go func() {
					errs <- g.do(fmt.Sprint("b", i), func(*puppet, host.Turn) error { <-going; return nil })
				}()
			}
			return nil
		}))
		time.Sleep(options.DefaultTurnGrace + 1500*time.Millisecond)
		synctest.Wait()
		close(stuck)
		synctest.Wait()
		close(going)
		for range cap(errs) {
			g.ok(<-errs)
		}
	})
}
