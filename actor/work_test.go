package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// working runs Work in a bubble until f, which runs beside it, returns. A goroutine that is left over fails the bubble.
func working(
	t *testing.T, workers int, do func(context.Context, *handle.Delivery[job, actor.None]) error, f func(ctx context.Context, d *desks, n *fakeNode),
) {
	t.Helper()
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- d.mail.Of(d.typ.Ref(n, "a")).Work(ctx, handle.WorkConfig{Workers: workers},
				func(ctx context.Context, m *handle.Delivery[job, actor.None]) (none actor.None, err error) {
					return none, do(ctx, m)
				})
		}()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Work: %v", err)
			}
		}()
		f(ctx, d, n)
	})
}

func mustSend(t testing.TB, d *desks, n *fakeNode, names ...string) {
	t.Helper()
	bodies := make([]job, len(names))
	for i, name := range names {
		bodies[i].Name = name
	}
	if _, err := d.mail.Of(d.typ.Ref(n, "a")).SendAll(t.Context(), bodies); err != nil { // in one call: workers act at once
		t.Fatal(err)
	}
}

// held returns what the queue holds.
func held(n *fakeNode) []fakeMessage {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.actors["desk/a"].holding.messages)
}

func TestWorkersHandleEachMessageOnceAndNeverMoreThanTheyAre(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	var now, most atomic.Int32
	working(t, 3, func(_ context.Context, m *handle.Delivery[job, actor.None]) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		seen[m.Body.Name]++
		return nil
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		for i := range 10 {
			mustSend(t, d, n, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		if got := held(n); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
		for _, r := range n.asked() {
			if r.Method == host.QueueExtend {
				t.Error("a lock was extended without need")
			}
		}
	})
	if len(seen) != 10 || most.Load() != 3 {
		t.Errorf("%v, up to %d at once", seen, most.Load())
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s was handled %d times", name, times)
		}
	}
}

func TestLockIsExtendedWhileTheWorkerWorks(t *testing.T) {
	var runs atomic.Int32
	working(t, 1, func(context.Context, *handle.Delivery[job, actor.None]) error {
		runs.Add(1)
		time.Sleep(65 * time.Second) // the queue's lock is 10 s
		return nil
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		mustSend(t, d, n, "long")
		time.Sleep(2 * time.Minute)
		if got := held(n); len(got) != 0 || runs.Load() != 1 {
			t.Errorf("%d runs, left %+v", runs.Load(), got)
		}
	})
}

func TestFailedWorkIsTriedAgainAndBecomesADeadLetter(t *testing.T) {
	var mu sync.Mutex
	var attempts []int
	working(t, 1, func(_ context.Context, m *handle.Delivery[job, actor.None]) error {
		mu.Lock()
		attempts = append(attempts, m.Attempt)
		mu.Unlock()
		if m.Body.Name == "panics" {
			var none *job
			none.N++
		}
		return errors.New("no luck")
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		mustSend(t, d, n, "fails")
		time.Sleep(time.Minute)
		mu.Lock()
		tried := slices.Clone(attempts)
		mu.Unlock()
		if got := held(n); len(got) != 1 || !got[0].dead || got[0].cause != "no luck" || !slices.Equal(tried, []int{1, 2, 3}) {
			t.Errorf("attempts %v, %+v", tried, got)
		}
		mustSend(t, d, n, "panics")
		time.Sleep(time.Minute)
		if got := held(n); len(got) != 2 || !got[1].dead || !strings.Contains(got[1].cause, "nil pointer") ||
			!strings.Contains(got[1].cause, "work_test.go:") {
			t.Errorf("%+v", got)
		}
	})
}

func TestHandlerMaySettleByItself(t *testing.T) {
	working(t, 2, func(ctx context.Context, m *handle.Delivery[job, actor.None]) error {
		if m.Body.Name == "done" {
			if err := m.Ack(ctx, actor.None{}); err != nil {
				return err
			}
			time.Sleep(30 * time.Second)
			if ctx.Err() != nil {
				t.Errorf("the context of a message that is settled ended: %v", context.Cause(ctx))
			}
			return errors.New("after the fact")
		}
		return m.GiveUp(ctx, errors.New("hopeless"))
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		mustSend(t, d, n, "done", "hopeless")
		time.Sleep(time.Minute)
		if got := held(n); len(got) != 1 || !got[0].dead || got[0].cause != "hopeless" || got[0].Body == nil {
			t.Errorf("%+v", got)
		}
	})
}

func TestWorkGoesOnWhileTheNodeIsAway(t *testing.T) {
	var away atomic.Bool
	var handled atomic.Int32
	working(t, 1, func(context.Context, *handle.Delivery[job, actor.None]) error {
		away.Store(true) // before the acknowledgement
		time.AfterFunc(3*time.Second, func() { away.Store(false) })
		handled.Add(1)
		return nil
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) {
			return host.Reply{}, host.Errorf(host.Unavailable, "restarting"), away.Load()
		})
		mustSend(t, d, n, "x", "y")
		time.Sleep(time.Minute)
		if got := held(n); len(got) != 0 || handled.Load() != 2 {
			t.Errorf("handled %d times, left %+v", handled.Load(), got)
		}
		away.Store(true)
		before := len(n.asked())
		time.Sleep(10 * time.Minute)
		if tries := len(n.asked()) - before; tries < 100 || tries > 400 {
			t.Errorf("%d tries in 10 minutes", tries)
		}
		away.Store(false)
	})
}

func TestLostLockEndsTheHandlersContext(t *testing.T) {
	var cause atomic.Value
	var runs atomic.Int32
	working(t, 1, func(ctx context.Context, m *handle.Delivery[job, actor.None]) error {
		if runs.Add(1) > 1 {
			return nil
		}
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		return ctx.Err()
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
			return host.Reply{}, host.Errorf(host.Unavailable, "cut off"), r.Method == host.QueueExtend
		})
		mustSend(t, d, n, "x")
		time.Sleep(9 * time.Second)
		if early := cause.Load(); early != nil {
			t.Errorf("the lock was given up early: %v", early)
		}
		time.Sleep(time.Minute)
		err, _ := cause.Load().(error)
		if got := held(n); len(got) != 0 || runs.Load() != 2 || actor.CodeOf(err) != actor.Unavailable {
			t.Errorf("%d runs, %v, left %+v", runs.Load(), err, got)
		}
		for _, r := range n.asked() {
			if r.Method == host.QueueNack {
				t.Error("a message was given back that was lost")
			}
		}
	})
}

func TestWorkThatEndsSettlesWhatRuns(t *testing.T) {
	for _, name := range []string{"finishes", "gives up", "fails"} {
		t.Run(name, func(t *testing.T) {
			var node *fakeNode
			working(t, 4, func(ctx context.Context, m *handle.Delivery[job, actor.None]) error {
				<-ctx.Done()
				time.Sleep(25 * time.Second) // longer than the lock
				switch m.Body.Name {
				case "gives up":
					return fmt.Errorf("stopped: %w", ctx.Err())
				case "fails":
					return errors.New("for another reason")
				}
				return nil
			}, func(ctx context.Context, d *desks, n *fakeNode) {
				node = n
				mustSend(t, d, n, name)
				synctest.Wait()
				time.Sleep(time.Second)
			})
			got := held(node)
			switch {
			case name == "finishes" && len(got) == 0:
			case name == "gives up" && len(got) == 1 && got[0].receipt == "" && got[0].attempt == 1:
			case name == "fails" && len(got) == 1 && got[0].cause == "for another reason":
			default:
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestHandlerThatEndsItsGoroutineHoldsNothing(t *testing.T) {
	var runs atomic.Int32
	working(t, 1, func(context.Context, *handle.Delivery[job, actor.None]) error {
		if runs.Add(1) == 1 {
			runtime.Goexit()
		}
		return nil
	}, func(ctx context.Context, d *desks, n *fakeNode) {
		mustSend(t, d, n, "x")
		time.Sleep(time.Minute)
		if got := held(n); len(got) != 0 || runs.Load() != 2 {
			t.Errorf("%d runs, left %+v", runs.Load(), got)
		}
	})
}

func TestWorkReturnsWhatItCannotWorkAround(t *testing.T) {
	for _, method := range []string{host.QueueReceive, host.QueueAck} {
		t.Run(method, func(t *testing.T) {
			bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
				n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
					denied := r.Method == method || method == host.QueueAck && r.Method == host.QueueNack
					return host.Reply{}, host.Errorf(host.PermissionDenied, "not you"), denied
				})
				mustSend(t, d, n, "x")
				err := d.mail.Of(d.typ.Ref(n, "a")).Work(t.Context(), handle.WorkConfig{Workers: 2}, func(context.Context, *handle.Delivery[job, actor.None]) (actor.None, error) { return actor.None{}, nil })
				if actor.CodeOf(err) != actor.PermissionDenied {
					t.Error(err)
				}
			})
		})
	}
}

func TestReplyThatIsRefusedIsAFailureOfTheHandler(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
			return host.Reply{}, host.Errorf(host.TooLarge, "the reply is too large"), r.Method == host.QueueAck
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- d.quotes.Of(d.typ.Ref(n, "a")).Work(ctx, handle.WorkConfig{Workers: 1, Lock: time.Minute}, func(context.Context, *handle.Delivery[string, int]) (int, error) {
				return 1, nil
			})
		}()
		_, err := d.quotes.Of(d.typ.Ref(n, "a")).Ask(ctx, "x")
		if err == nil || !strings.Contains(err.Error(), "the reply is too large") {
			t.Error(err)
		}
		n.intercepting(nil)
		if got, err := d.quotes.Of(d.typ.Ref(n, "a")).Ask(ctx, "x"); err != nil || got != 1 {
			t.Errorf("%d, %v", got, err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWorkRefusesWhatMakesNoSense(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	f := func(context.Context, *handle.Delivery[job, actor.None]) (none actor.None, err error) {
		return none, nil
	}
	for name, err := range map[string]error{
		"no workers":  d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: -1}, f),
		"no function": d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: 1}, nil),
		"no reply":    d.quotes.Of(ref).Work(ctx, handle.WorkConfig{Workers: 1}, nil),
		"no lock":     d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: 1, Lock: -1}, f),
		"no actor":    d.mail.Of(actor.Ref[desk]{}).Work(ctx, handle.WorkConfig{Workers: 1}, f),
	} {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
