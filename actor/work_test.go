package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
)

// working runs Work until f, which runs beside it, returns. A goroutine that is left over fails the bubble.
func working(t *testing.T, workers int, do func(context.Context, *delivery) error, f func(r *rig), then ...func(r *rig)) {
	t.Helper()
	onNode(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error)
		go func() {
			done <- r.mail.Of(r.ref).Work(ctx, handle.WorkConfig{Workers: workers},
				func(ctx context.Context, m *delivery) (none actor.None, err error) { return none, do(ctx, m) })
		}()
		f(r)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Work: %v", err)
		}
		for _, f := range then {
			f(r)
		}
	})
}

func TestWorkersHandleEachMessageOnceAndNeverMoreThanTheyAre(t *testing.T) {
	var now, most atomic.Int32
	seen := make(chan string, 20)
	working(t, 3, func(_ context.Context, m *delivery) error {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		time.Sleep(time.Second)
		seen <- m.Body.Name
		if m.Attempt != 1 {
			t.Errorf("%s was received before a worker was free", m.Body.Name)
		}
		return nil
	}, func(r *rig) {
		var want, got []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			r.send(want[i])
		}
		time.Sleep(time.Minute)
		r.mailHolds()
		if extended := called[host.QueueExtendInput](r, host.QueueExtend); len(extended) > 0 {
			t.Error("a lock was extended without need")
		}
		for len(seen) > 0 {
			got = append(got, <-seen)
		}
		if slices.Sort(got); !slices.Equal(got, want) || most.Load() != 3 {
			t.Errorf("%v, up to %d at once", got, most.Load())
		}
	})
}

func TestLockIsExtendedWhileTheWorkerWorks(t *testing.T) {
	var runs atomic.Int32
	working(t, 1, func(context.Context, *delivery) error {
		runs.Add(1)
		time.Sleep(65 * time.Second) // the queue's lock is 10 s
		return nil
	}, func(r *rig) {
		r.send("long")
		time.Sleep(2 * time.Minute)
		if r.mailHolds(); runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestFailedWorkIsTriedAgainAndBecomesADeadLetter(t *testing.T) {
	working(t, 1, func(_ context.Context, m *delivery) error {
		if m.Body.Name == "panics" {
			var none *job
			none.N++
		}
		return errors.New("no luck")
	}, func(r *rig) {
		r.send("fails")
		time.Sleep(time.Minute)
		r.mailHolds("fails dead 3 no luck")
		r.send("panics")
		time.Sleep(time.Minute)
		for l := range r.mail.Of(r.ref).DeadLetters().List(r.Context()) {
			if l.Body.Name == "panics" && (!strings.Contains(l.Error, "nil pointer") || !strings.Contains(l.Error, "work_test.go:")) {
				t.Errorf("%+v", l)
			}
		}
	})
}

func TestHandlerMaySettleByItself(t *testing.T) {
	working(t, 2, func(ctx context.Context, m *delivery) error {
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
	}, func(r *rig) {
		r.send("done", "not")
		time.Sleep(time.Minute)
		r.mailHolds("not dead 1 hopeless")
	})
}

func TestWorkGoesOnWhileTheNodeIsAway(t *testing.T) {
	var away atomic.Bool
	var handled atomic.Int32
	working(t, 1, func(context.Context, *delivery) error {
		away.Store(true) // before the acknowledgement
		time.AfterFunc(3*time.Second, func() { away.Store(false) })
		handled.Add(1)
		return nil
	}, func(r *rig) {
		synctest.Wait() // until Work has asked
		r.node.Before = func(context.Context, string, *host.Request) error {
			if away.Load() {
				return host.Errorf(host.Unavailable, "restarting")
			}
			return nil
		}
		r.send("x", "y")
		time.Sleep(time.Minute)
		if r.mailHolds(); handled.Load() != 2 {
			t.Errorf("handled %d times", handled.Load())
		}
		away.Store(true)
		before := len(r.node.Requests())
		time.Sleep(10 * time.Minute)
		if tries := len(r.node.Requests()) - before; tries < 100 || tries > 400 {
			t.Errorf("%d tries in 10 minutes", tries)
		}
		away.Store(false)
	})
}

func TestLostLockEndsTheHandlersContext(t *testing.T) {
	var cause atomic.Value
	var runs atomic.Int32
	working(t, 1, func(ctx context.Context, m *delivery) error {
		if runs.Add(1) > 1 {
			return nil
		}
		<-ctx.Done()
		cause.Store(context.Cause(ctx))
		return ctx.Err()
	}, func(r *rig) {
		synctest.Wait()
		r.refusing(host.Errorf(host.Unavailable, "cut off"), host.QueueExtend)
		r.send("x")
		time.Sleep(9 * time.Second)
		if early := cause.Load(); early != nil {
			t.Errorf("the lock was given up early: %v", early)
		}
		time.Sleep(time.Minute)
		err, _ := cause.Load().(error)
		if r.mailHolds(); runs.Load() != 2 || actor.CodeOf(err) != actor.Unavailable {
			t.Errorf("%d runs, %v", runs.Load(), err)
		}
		if given := called[host.QueueNackInput](r, host.QueueNack); len(given) > 0 {
			t.Error("a message was given back that was lost")
		}
	})
}

func TestWorkThatEndsSettlesWhatRuns(t *testing.T) {
	for name, left := range map[string][]string{"finishes": nil, "stops": {"stops pending 1"}, "fails": {"fails pending 1"}} {
		t.Run(name, func(t *testing.T) {
			working(t, 4, func(ctx context.Context, m *delivery) error {
				<-ctx.Done()
				time.Sleep(25 * time.Second) // longer than the lock
				switch name {
				case "stops":
					return fmt.Errorf("stopped: %w", ctx.Err())
				case "fails":
					return errors.New("for another reason")
				}
				return nil
			}, func(r *rig) {
				r.send(name)
				time.Sleep(time.Second)
			}, func(r *rig) {
				r.mailHolds(left...)
				if nacks := called[host.QueueNackInput](r, host.QueueNack); len(nacks) > 0 && (nacks[0].DelayMS != nil) != (name == "stops") {
					t.Errorf("%+v", nacks)
				}
			})
		})
	}
}

func TestHandlerThatEndsItsGoroutineHoldsNothing(t *testing.T) {
	var runs atomic.Int32
	working(t, 1, func(context.Context, *delivery) error {
		if runs.Add(1) == 1 {
			runtime.Goexit()
		}
		return nil
	}, func(r *rig) {
		r.send("x")
		time.Sleep(time.Minute)
		if r.mailHolds(); runs.Load() != 2 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestWorkReturnsWhatItCannotWorkAround(t *testing.T) {
	for _, methods := range [][]string{{host.QueueReceive}, {host.QueueAck, host.QueueNack}} {
		onNode(t, func(r *rig) {
			r.refusing(host.Errorf(host.PermissionDenied, "not you"), methods...)
			r.send("x")
			err := r.mail.Of(r.ref).Work(r.Context(), handle.WorkConfig{Workers: 2}, func(context.Context, *delivery) (none actor.None, err error) { return })
			if actor.CodeOf(err) != actor.PermissionDenied {
				t.Errorf("%v: %v", methods, err)
			}
		})
	}
}

func TestReplyThatIsRefusedIsAFailureOfTheHandler(t *testing.T) {
	onNode(t, func(r *rig) {
		var fine atomic.Bool
		r.node.Before = func(_ context.Context, _ string, q *host.Request) error {
			if q.Method == host.QueueAck && !fine.Load() {
				return host.Errorf(host.TooLarge, "the reply is too large")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error)
		quotes := r.quotes.Of(r.ref)
		go func() {
			done <- quotes.Work(ctx, handle.WorkConfig{Lock: time.Minute}, func(context.Context, *handle.Delivery[string, int]) (int, error) { return 1, nil })
		}()
		if _, err := quotes.Ask(ctx, "x"); err == nil || !strings.Contains(err.Error(), "the reply is too large") {
			t.Error(err)
		}
		fine.Store(true)
		if got, err := quotes.Ask(ctx, "x"); err != nil || got != 1 {
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
	ctx, ref := t.Context(), d.typ.Ref(&replies{}, "a")
	f := func(context.Context, *delivery) (none actor.None, err error) { return none, nil }
	for name, err := range map[string]error{
		"no workers":  d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: -1}, f),
		"no function": d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: 1}, nil),
		"no lock":     d.mail.Of(ref).Work(ctx, handle.WorkConfig{Workers: 1, Lock: -1}, f),
		"no actor":    d.mail.Of(actor.Ref[desk]{}).Work(ctx, handle.WorkConfig{Workers: 1}, f),
	} {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWorkEndsWithItsActor(t *testing.T) {
	for name, takes := range map[string]time.Duration{
		"while it waits": 0, "when it settles": 2 * time.Second, "when it extends the lock": time.Hour, // of 10 s
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(r *rig) {
				if takes > 0 {
					r.send("last")
				}
				done := make(chan error, 1)
				go func() {
					done <- r.mail.Of(r.ref).Work(r.Context(), handle.WorkConfig{}, func(ctx context.Context, m *delivery) (none actor.None, err error) {
						select {
						case <-time.After(takes):
						case <-ctx.Done():
						}
						return none, nil
					})
				}()
				time.Sleep(time.Second)
				if err := r.ref.Destroy(r.Context()); takes > 0 && err != nil {
					t.Fatal(err)
				} else if takes == 0 { // Work has not created the actor
					if actor.CodeOf(err) != actor.NotFound {
						t.Fatal(err)
					}
					if err := r.ref.Create(r.Context()); err != nil {
						t.Fatal(err)
					}
					if err := r.ref.Destroy(r.Context()); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				select {
				case err := <-done:
					if actor.CodeOf(err) != actor.Destroyed {
						t.Errorf("Work: %v", err)
					}
				default:
					t.Fatal("Work goes on")
				}
			})
		})
	}
}
