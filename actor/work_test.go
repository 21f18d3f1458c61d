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

// working runs Work until f, which runs beside it, returns. A goroutine that is left over fails the
// bubble.
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
		check(t, <-done)
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
		errorIf(t, m.Attempt != 1, "%s was received before a worker was free", m.Body.Name)
		return nil
	}, func(r *rig) {
		for i := range 10 {
			r.send(fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		r.mailHolds()
		errorIf(r, len(called[host.QueueExtendInput](r, host.QueueExtend)) > 0, "a lock was extended without need")
		var got []string
		for len(seen) > 0 {
			got = append(got, <-seen)
		}
		slices.Sort(got)
		errorIf(r, strings.Join(got, "") != "0123456789" || most.Load() != 3, "%v, up to %d at once", got, most.Load())
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
		r.mailHolds()
		errorIf(r, runs.Load() != 1, "%d runs", runs.Load())
	})
}

func TestFailedWorkIsTriedAgainAndBecomesADeadLetter(t *testing.T) {
	working(t, 1, func(_ context.Context, m *delivery) error {
		switch m.Body.Name {
		case "ends its goroutine": // which holds nothing
			if m.Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		case "panics":
			var none *job
			none.N++
		}
		return errors.New("no luck")
	}, func(r *rig) {
		r.send("fails", "ends its goroutine")
		time.Sleep(time.Minute)
		r.mailHolds("fails dead 3 no luck")
		r.send("panics")
		time.Sleep(time.Minute)
		dead := all(r, r.mail.Of(r.ref).DeadLetters().List(r.Context()))
		text := dead[len(dead)-1].Error
		errorIf(r, !strings.Contains(text, "nil pointer") || !strings.Contains(text, "work_test.go:"), "%s", text)
	})
}

func TestHandlerMaySettleByItself(t *testing.T) {
	working(t, 2, func(ctx context.Context, m *delivery) error {
		if m.Body.Name == "done" {
			if err := m.Ack(ctx, actor.None{}); err != nil {
				return err
			}
			time.Sleep(30 * time.Second)
			errorIf(t, ctx.Err() != nil, "the context of a message that is settled ended: %v", context.Cause(ctx))
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
		r.mailHolds()
		errorIf(r, handled.Load() != 2, "handled %d times", handled.Load())
		away.Store(true)
		before := len(r.node.Requests())
		time.Sleep(10 * time.Minute)
		tries := len(r.node.Requests()) - before
		errorIf(r, tries < 100 || tries > 400, "%d tries in 10 minutes", tries)
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
		errorIf(r, cause.Load() != nil, "the lock was given up early")
		time.Sleep(time.Minute)
		r.mailHolds()
		err, _ := cause.Load().(error)
		hasCode(r, "the cause", err, actor.Unavailable)
		errorIf(r, runs.Load() != 2, "%d runs", runs.Load())
		errorIf(r, len(called[host.QueueNackInput](r, host.QueueNack)) > 0, "a message was given back that was lost")
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
				nacks := called[host.QueueNackInput](r, host.QueueNack)
				errorIf(t, len(nacks) > 0 && (nacks[0].DelayMS != nil) != (name == "stops"), "%+v", nacks)
			})
		})
	}
}

func TestWorkReturnsWhatItCannotWorkAround(t *testing.T) {
	f := func(context.Context, *delivery) (none actor.None, err error) { return none, nil }
	for _, methods := range [][]string{{host.QueueReceive}, {host.QueueAck, host.QueueNack}} {
		onNode(t, func(r *rig) {
			r.refusing(host.Errorf(host.PermissionDenied, "not you"), methods...)
			r.send("x")
			err := r.mail.Of(r.ref).Work(r.Context(), handle.WorkConfig{Workers: 2}, f)
			hasCode(r, fmt.Sprint(methods), err, actor.PermissionDenied)
		})
	}
	d := newDesks("desk")
	ctx, mail := t.Context(), d.mail.Of(d.typ.Ref(&replies{}, "a"))
	hasCode(t, "no workers", mail.Work(ctx, handle.WorkConfig{Workers: -1}, f), actor.InvalidArgument)
	hasCode(t, "no function", mail.Work(ctx, handle.WorkConfig{Workers: 1}, nil), actor.InvalidArgument)
	hasCode(t, "no lock", mail.Work(ctx, handle.WorkConfig{Workers: 1, Lock: -1}, f), actor.InvalidArgument)
	hasCode(t, "no actor", d.mail.Of(actor.Ref[desk]{}).Work(ctx, handle.WorkConfig{}, f), actor.InvalidArgument)
}

func TestReplyThatIsRefusedIsAFailureOfTheHandler(t *testing.T) {
	onNode(t, func(r *rig) {
		r.refusing(host.Errorf(host.TooLarge, "the reply is too large"), host.QueueAck)
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error)
		quotes := r.quotes.Of(r.ref)
		go func() {
			one := func(context.Context, *handle.Delivery[string, int]) (int, error) { return 1, nil }
			done <- quotes.Work(ctx, handle.WorkConfig{Lock: time.Minute}, one)
		}()
		_, err := quotes.Ask(ctx, "x")
		errorIf(r, err == nil || !strings.Contains(err.Error(), "the reply is too large"), "%v", err)
		synctest.Wait()
		r.refusing(nil)
		got, err := quotes.Ask(ctx, "x")
		errorIf(r, err != nil || got != 1, "%d, %v", got, err)
		cancel()
		check(r, <-done)
	})
}

func TestWorkEndsWithItsActor(t *testing.T) {
	for name, takes := range map[string]time.Duration{
		"while it waits": 0, "when it settles": 2 * time.Second, "when it extends the lock": time.Hour, // of 10 s
	} {
		onNode(t, func(r *rig) {
			if takes > 0 {
				r.send("last")
			} else {
				check(r, r.ref.Create(r.Context()))
			}
			done := make(chan error, 1)
			go func() {
				handles := func(ctx context.Context, _ *delivery) (none actor.None, err error) {
					select {
					case <-time.After(takes):
					case <-ctx.Done():
					}
					return none, nil
				}
				done <- r.mail.Of(r.ref).Work(r.Context(), handle.WorkConfig{}, handles)
			}()
			time.Sleep(time.Second)
			check(r, r.ref.Destroy(r.Context()))
			time.Sleep(time.Minute)
			select {
			case err := <-done:
				hasCode(r, name, err, actor.Destroyed)
			default:
				r.Fatal("Work goes on")
			}
		})
	}
}

func TestOfAnAnswerThatDoesNotDecodeNothingIsTaken(t *testing.T) {
	d := newDesks("desk")
	node := &replies{Reply: host.Reply{Output: []byte("\xa1\x68messages\x82\xa2\x62id\x01\x64body\x61x\xa1\x62id\x61x")}}
	got, err := d.mail.Of(d.typ.Ref(node, "a")).Receive(t.Context(), handle.ReceiveConfig{})
	hasCode(t, "receive", err, actor.Internal)
	errorIf(t, len(got) > 0 || node.calls != 1, "%d messages in %d calls", len(got), node.calls)
}
