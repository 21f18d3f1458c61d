package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
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
				if h.Traceparent() != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
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
		_, err = g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			Input: remember(goes("x", func(task host.Task) error {
				_, err := g.Call(task, call("b", func(p *puppet, h host.Turn) error { // the same by its context
					if h.Traceparent() != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" {
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

// The goroutine of a handler that was abandoned still holds the item of the mailbox, which must not
// be used again: its late answer would reach the caller of another.
func TestTurnOfATaskThatIsAbandonedAnswersNobodyElse(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{TurnTimeout: time.Second}}}, func(t *testing.T, g *stage) {
		stuck, going := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 100)
		g.must("a", goes("hang", func(task host.Task) error {
			err := task.Turn(context.Background(), func(any, host.Turn) error { <-stuck; return nil })
			if host.CodeOf(err) != host.DeadlineExceeded {
				t.Errorf("the turn ended with %v", err)
			}
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
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	})
}
