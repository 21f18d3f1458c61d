package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
)

func TestTaskThatDoesNotReturnIsLeftBehindAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g := newStage(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		stop, late := make(chan struct{}), make(chan error, 1)
		g.must("a", goes("stubborn", func(task host.Task) error {
			<-stop
			late <- task.Turn(task, adds(1))
			return nil
		}))
		begin := time.Now()
		err := g.Close(context.Background())
		if took := time.Since(begin); took < limit.DefaultTaskGrace || took > limit.DefaultTaskGrace+time.Second {
			t.Errorf("the shutdown took %s", took)
		}
		if err == nil || !strings.Contains(err.Error(), "1 tasks did not return") {
			t.Errorf("Close returned %v", err)
		}
		if !strings.Contains(log.String(), "task=stubborn") || !strings.Contains(log.String(), "crew_test.go") {
			t.Errorf("the log does not name the task and where it hangs: %s", log.String())
		}
		close(stop)
		wantCode(t, <-late, host.Unavailable)
		synctest.Wait()
		if n := kernel.PartOf[*task.Part](g.Kernel).Left.Load(); n != 0 {
			t.Errorf("%d tasks count as left behind", n)
		}
		g.store.Close()
		g.Node = nil
	})
}

func TestCloseWithADeadlineDoesNotWaitForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil)
		stop := make(chan struct{})
		g.must("a", goes("stubborn", func(task host.Task) error { <-stop; return nil }))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := g.Close(ctx); err == nil {
			t.Error("nothing is said of the task")
		}
		if took := time.Since(begin); took > time.Second+2*task.LastGrace {
			t.Errorf("the shutdown took %s", took)
		}
		close(stop)
		synctest.Wait()
		g.store.Close()
		g.Node = nil
	})
}

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
		if n := len(causes); n != 0 {
			t.Fatalf("%d tasks were stopped though other actors could sleep", n)
		}
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

func TestTasksLeaveNoGoroutinesBehind(t *testing.T) {
	g := newStage(t, nil)
	g.must("warm", add(1))
	running := g.Goroutines.Len
	before := running()
	for i := range 50 {
		key := fmt.Sprint(i)
		for range 4 {
			g.must(key, goes("x", untilTold))
		}
		switch i % 3 {
		case 0:
			if err := g.Destroy(context.Background(), pAddr(key)); err != nil {
				t.Fatal(err)
			}
		case 1:
			g.do(key, func(*puppet, host.Turn) error { panic("told to") })
		case 2:
			g.mustVerb(key, host.ActorSleep, nil, nil)
		}
	}
	soon(t, "the goroutines of the tasks end", func() bool { return running()-g.Workers.Free() <= before+4 }) // and what is about to return
}

// An actor that stays awake for its messages gains nothing if its tasks are stopped.
func TestMemoryPressureLeavesTasksOfAnActorWhoseMessagesAreOnTheirWay(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxAwake = 4 }, nil, func(t *testing.T, g *stage) {
		var told, others atomic.Int32
		g.must("a", series(goes("x", func(task host.Task) error { <-task.Done(); told.Add(1); return nil }),
			sends("b", 1, func(*puppet, host.Turn) error { return errors.New("not now") })))
		time.Sleep(time.Second)
		for i := range 8 {
			g.must(fmt.Sprint("other", i), goes("x", func(task host.Task) error { <-task.Done(); others.Add(1); return nil }))
		}
		time.Sleep(20 * time.Second)
		if n := told.Load(); n != 0 || others.Load() == 0 {
			t.Errorf("%d of its tasks and %d of others were stopped", n, others.Load())
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
		if n := g.Memory.Awake.Load(); n > 10 {
			t.Errorf("%d actors are awake", n)
		}
		if len(causes) == 0 {
			t.Error("no task was stopped")
		}
	})
}
