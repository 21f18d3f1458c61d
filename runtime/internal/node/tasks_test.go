package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
)

// goes is a deed that starts a task.
func goes(name string, f func(host.Task) error) deed {
	return func(_ *puppet, t host.Turn) error { return t.Go(name, f) }
}

// untilTold is a task that returns when its context ends.
func untilTold(t host.Task) error { <-t.Done(); return t.Err() }

// adds is what a task does in a turn.
func adds(n int) func(any, host.Turn) error {
	return func(state any, _ host.Turn) error { state.(*puppetState).N += n; return nil }
}

// bubble runs a test with a node in a synctest bubble, which fails if a goroutine is left at its end.
func bubble(t *testing.T, options func(*Options), types []*puppetType, f func(t *testing.T, g *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, options, types...)
		f(t, g)
	})
}

func TestTaskChangesTheStateInTurnsOfItsOwn(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		done := make(chan error, 1)
		g.must("a", goes("import", func(task host.Task) error {
			if task.Self().Key[0] != "a" || task.Self().ID == "" {
				t.Errorf("it is %v", task.Self())
			}
			for range 3 {
				if err := task.Turn(task, adds(10)); err != nil {
					return err
				}
			}
			err := task.Turn(task, func(state any, h host.Turn) error {
				state.(*puppetState).N = -1
				return h.KVPut([]byte("\x02k\x00"), []byte("v"), time.Time{})
			})
			done <- err
			return err
		}))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := g.n("a"); n != -1 {
			t.Fatal(n)
		}
		g.restart()
		if n := g.n("a"); n != -1 {
			t.Fatalf("after a restart it is %d", n)
		}
	})
}

func TestTurnOfATaskThatFailsChangesNothingAndHandsTheErrorBackAsItIs(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		errMine := errors.New("mine")
		errs := make(chan error, 2)
		g.must("a", goes("x", func(task host.Task) error {
			errs <- task.Turn(task, func(state any, h host.Turn) error {
				state.(*puppetState).N = 7
				if err := h.Go("y", untilTold); err != nil {
					return err
				}
				return errMine
			})
			return nil
		}))
		if err := <-errs; err != errMine {
			t.Fatalf("it got %v", err)
		}
		synctest.Wait()
		if n, st := g.n("a"), g.status("a"); n != 0 || st.Tasks != 0 {
			t.Fatalf("n is %d, and %d tasks run", n, st.Tasks)
		}
	})
}

func TestTaskOfATurnThatFailsNeverStarts(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		var ran atomic.Bool
		err := g.do("a", func(_ *puppet, h host.Turn) error {
			if err := h.Go("x", func(host.Task) error { ran.Store(true); return nil }); err != nil {
				return err
			}
			return host.Errorf(host.FailedPrecondition, "no")
		})
		wantCode(t, err, host.FailedPrecondition)
		g.must("a", add(1))
		synctest.Wait()
		if ran.Load() {
			t.Fatal("it ran")
		}
	})
}

func TestTaskStartsOnlyWhenItsTurnIsDurable(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		var ran atomic.Bool
		g.must("a", add(1))
		hold := make(chan struct{})
		go g.do("a", func(p *puppet, h host.Turn) error {
			p.s.N++
			if err := h.Go("x", func(host.Task) error { ran.Store(true); return nil }); err != nil {
				return err
			}
			<-hold
			return nil
		})
		synctest.Wait()
		if ran.Load() {
			t.Fatal("it ran before the turn had returned")
		}
		close(hold)
		synctest.Wait()
		if !ran.Load() {
			t.Fatal("it did not run")
		}
	})
}

func TestTaskKeepsItsActorAwakeAndNoLonger(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		stop := make(chan struct{})
		g.must("a", goes("x", func(task host.Task) error { <-stop; return nil }))
		time.Sleep(time.Hour)
		if st := g.status("a"); st.State != host.Awake || st.Tasks != 1 {
			t.Fatalf("%+v", st)
		}
		close(stop)
		time.Sleep(30 * time.Second)
		if st := g.status("a"); st.State != host.Awake || st.Tasks != 0 {
			t.Fatalf("%+v", st)
		}
		time.Sleep(time.Hour)
		if st := g.status("a"); st.State != host.Asleep {
			t.Fatalf("%+v", st)
		}
	})
}

func TestTasksSaveWhatTheyHaveWhenTheNodeShutsDown(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		cause := make(chan error, 1)
		g.must("a", goes("x", func(task host.Task) error {
			<-task.Done()
			cause <- context.Cause(task)
			time.Sleep(time.Second)
			return task.Turn(task, adds(42))
		}))
		begin := time.Now()
		g.restart()
		if took := time.Since(begin); took < time.Second || took > 2*time.Second {
			t.Errorf("the shutdown took %s", took)
		}
		if e := wantCode(t, <-cause, host.Unavailable); !strings.Contains(e.Message, "shutting down") {
			t.Error(e)
		}
		if n := g.n("a"); n != 42 {
			t.Fatalf("%d was saved", n)
		}
	})
}

func TestOperatorPutsAnActorWithTasksToSleep(t *testing.T) {
	var wakes atomic.Int64
	d := &puppetType{name: "p"}
	d.wake = func(_ *puppet, h host.Turn) error {
		wakes.Add(1)
		return h.Go("steady", func(task host.Task) error {
			<-task.Done()
			return task.Turn(task, adds(1))
		})
	}
	d.sleep = func(p *puppet, _ host.Turn) error {
		p.s.Log = append(p.s.Log, fmt.Sprint("slept at ", p.s.N))
		return nil
	}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.must("a", add(10))
		if st := g.status("a"); st.Tasks != 1 {
			t.Fatalf("%+v", st)
		}
		g.mustVerb("a", host.ActorSleep, nil, nil)
		if st := g.status("a"); st.State != host.Asleep || st.Tasks != 0 {
			t.Fatalf("%+v", st)
		}
		var log []string
		g.must("a", func(p *puppet, _ host.Turn) error { log = p.s.Log; return nil })
		if len(log) != 1 || log[0] != "slept at 11" {
			t.Fatalf("the log is %q: the task saves before the hook runs", log)
		}
		if n, st := wakes.Load(), g.status("a"); n != 2 || st.Tasks != 1 {
			t.Fatalf("woken %d times, %d tasks", n, st.Tasks)
		}
		g.restart()
		g.must("a", add(0))
		if st := g.status("a"); st.Tasks != 1 {
			t.Fatalf("after a restart %d tasks run", st.Tasks)
		}
	})
}

func TestTasksEndWithTheirActor(t *testing.T) {
	for _, tt := range []struct {
		name string
		code host.Code
		end  func(g *stage) error
	}{
		{"destroy", host.Destroyed, func(g *stage) error { return g.Destroy(context.Background(), pAddr("a")) }},
		{"destroy itself", host.Destroyed, func(g *stage) error {
			return g.do("a", func(_ *puppet, h host.Turn) error { h.DestroySelf(); return nil })
		}},
		{"crash", host.Unavailable, func(g *stage) error {
			if err := g.do("a", func(*puppet, host.Turn) error { panic("told to") }); host.CodeOf(err) != host.Crashed {
				return err
			}
			return nil
		}},
		{"abandonment", host.Unavailable, func(g *stage) error {
			if err := g.do("a", func(*puppet, host.Turn) error { time.Sleep(time.Minute); return nil }); host.CodeOf(err) != host.DeadlineExceeded {
				return err
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				causes := make(chan error, 2)
				g.must("a", goes("x", func(task host.Task) error {
					<-task.Done()
					causes <- context.Cause(task)
					causes <- task.Turn(context.Background(), adds(1))
					return nil
				}))
				if err := tt.end(g); err != nil {
					t.Fatal(err)
				}
				wantCode(t, <-causes, tt.code)
				wantCode(t, <-causes, tt.code)
				synctest.Wait()
				g.must("a", add(5))
				if n, st := g.n("a"), g.status("a"); n != 5 || st.Tasks != 0 {
					t.Fatalf("n is %d, and %d tasks run", n, st.Tasks)
				}
				time.Sleep(time.Minute) // the handler that was abandoned returns
			})
		})
	}
}

func TestTaskThatPanicsOrEndsItsGoroutineHurtsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newStage(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		g.must("a", goes("bad", func(host.Task) error { panic("told to") }))
		g.must("a", goes("gone", func(host.Task) error { runtime.Goexit(); return nil }))
		g.must("a", goes("sad", func(host.Task) error { return errors.New("no luck") }))
		synctest.Wait()
		g.must("a", add(1))
		if st := g.status("a"); st.Tasks != 0 || st.State != host.Awake || g.n("a") != 1 {
			t.Fatalf("%+v", st)
		}
		for _, want := range []string{"task panicked", "task=bad", "error_id=", "task ended its goroutine", "task=gone", "task failed", "no luck"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q", want)
			}
		}
	})
}

func TestTasksAreBounded(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		stop := make(chan struct{})
		wait := func(host.Task) error { <-stop; return nil }
		for range 2 { // what a failed turn started does not count
			g.do("a", func(_ *puppet, h host.Turn) error {
				for range 600 {
					if err := h.Go("x", wait); err != nil {
						t.Error(err)
					}
				}
				return errors.New("undone")
			})
		}
		var err error
		g.must("a", func(_ *puppet, h host.Turn) error {
			for range task.MaxTasks {
				if err := h.Go("x", wait); err != nil {
					return err
				}
			}
			err = h.Go("x", wait)
			return nil
		})
		if e := wantCode(t, err, host.Overloaded); !e.Retryable || e.Metadata["retry_at"] == "" {
			t.Fatalf("%+v", e)
		}
		if st := g.status("a"); st.Tasks != task.MaxTasks {
			t.Fatalf("%d tasks run", st.Tasks)
		}
		close(stop)
		synctest.Wait()
		g.must("a", goes("x", func(host.Task) error { return nil }))
	})
}

func TestNamesOfTasksAreChecked(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		for _, name := range []string{"", "1", "a b", "é", strings.Repeat("x", 65), "a.b"} {
			wantCode(t, g.do("a", goes(name, untilTold)), host.InvalidArgument)
		}
		g.must("a", goes(strings.Repeat("x", 64), func(host.Task) error { return nil }))
		wantCode(t, g.do("a", goes("x", nil)), host.InvalidArgument)
	})
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
		if task.Err() == nil {
			t.Error("its context goes on")
		}
	})
}

func TestTaskCallsActorsWithoutMakingThemWait(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		// The task of a calls b, whose turn calls a: no cycle, because a's turn does not wait for its task.
		done := make(chan error, 1)
		call := func(key string, f deed) *host.Request {
			return &host.Request{Address: pAddr(key), Method: "do", Codec: host.JSON, Input: remember(f)}
		}
		g.must("a", goes("x", func(task host.Task) error {
			_, err := task.Call(context.Background(), call("b", func(p *puppet, h host.Turn) error {
				if h.Traceparent() != "00-aa-bb-01" {
					return fmt.Errorf("traceparent %q", h.Traceparent())
				}
				_, err := h.Call(h, call("a", add(3)))
				return err
			}))
			done <- err
			return nil
		}))
		err := <-done
		if err == nil || !strings.Contains(err.Error(), "internal") {
			t.Fatalf("without a trace context it answered %v", err)
		}
		_, err = g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Traceparent: "00-aa-bb-01",
			Input: remember(goes("x", func(task host.Task) error {
				_, err := g.Call(task, call("b", func(p *puppet, h host.Turn) error { // the same by its context
					if h.Traceparent() != "00-aa-bb-01" {
						return fmt.Errorf("traceparent %q", h.Traceparent())
					}
					_, err := h.Call(h, call("a", add(3)))
					return err
				}))
				done <- err
				return nil
			}))})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if n := g.n("a"); n != 3 {
			t.Fatal(n)
		}
	})
}

func TestTurnInsideATurnOfTheSameActorIsACycle(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		errs := make(chan error, 1)
		g.must("a", goes("x", func(task host.Task) error {
			return task.Turn(task, func(_ any, h host.Turn) error {
				errs <- task.Turn(h, adds(1))
				return nil
			})
		}))
		wantCode(t, <-errs, host.Cycle)
	})
}

func TestTaskGivesUpATurnThatHasNotBegun(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		errs, hold := make(chan error, 2), make(chan struct{})
		g.must("a", goes("x", func(task host.Task) error {
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(task, time.Second)
			defer cancel()
			errs <- task.Turn(ctx, adds(1))
			return nil
		}))
		go func() { errs <- g.do("a", func(*puppet, host.Turn) error { <-hold; return nil }) }()
		wantCode(t, <-errs, host.DeadlineExceeded)
		close(hold)
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		if n := g.n("a"); n != 0 {
			t.Fatal("the turn ran although nobody waited for it")
		}
	})
}

// A turn that does nothing but start tasks takes no version, and the next one that fails has the same.
func TestTasksOfATurnThatWritesNothingAreCounted(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		stop := make(chan struct{})
		defer close(stop)
		wait := func(host.Task) error { <-stop; return nil }
		g.must("a", func(_ *puppet, h host.Turn) error { return nil })
		for range 3 {
			g.must("a", func(_ *puppet, h host.Turn) error {
				for range 600 {
					if h.Go("x", wait) != nil {
						break
					}
				}
				return nil
			})
			g.do("a", func(_ *puppet, h host.Turn) error { return errors.New("no") })
		}
		if st := g.status("a"); st.Tasks != task.MaxTasks {
			t.Fatalf("%d tasks run, not %d", st.Tasks, task.MaxTasks)
		}
	})
}
