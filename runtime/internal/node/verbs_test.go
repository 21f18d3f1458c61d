package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// TestVerbsAndWorkFromManyGoroutines is for the race detector and for deadlocks: few keys, everything at once. At the end
// every pause is lifted, and what was sent has been handled or moved aside.
func TestVerbsAndWorkFromManyGoroutines(t *testing.T) {
	d := &puppetType{name: "p", alarm: add(1), wake: goes("steady", untilTold)}
	bubble(t, func(o *Options) { o.IdleTimeout = 2 * time.Millisecond }, []*puppetType{d}, everythingAtOnce)
}

func everythingAtOnce(t *testing.T, g *stage) {
	key := func(i int) string { return fmt.Sprint("k", i%4) }
	var wg sync.WaitGroup
	for w := range 8 {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range 120 {
				time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
				a, b := key(random.IntN(4)), key(random.IntN(4))
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				call := func(method string, input []byte) error {
					_, err := g.Call(ctx, &host.Request{Address: pAddr(a), Method: method, Codec: host.JSON, Input: input})
					return err
				}
				var err error
				switch random.IntN(14) {
				case 0, 1, 2:
					err = call("do", remember(add(1)))
				case 3:
					err = call("do", remember(sends(b, 2, add(1))))
				case 4:
					err = call("do", remember(rings("", time.Millisecond)))
				case 5:
					err = call("do", remember(goes("x", func(task host.Task) error { return task.Turn(task, adds(1)) })))
				case 6:
					err = call("look", nil)
				case 7:
					err = call(host.ActorPause, nil)
				case 8:
					err = call(host.ActorResume, nil)
				case 9:
					err = call(host.ActorSleep, nil)
				case 10:
					err = call(host.ActorWake, nil)
				case 11:
					err = call(host.SendSkip, fmt.Appendf(nil, `{"type":"p","key":[%q]}`, b))
				case 12:
					err = call(host.ActorWhy, nil)
				case 13:
					if random.IntN(4) == 0 {
						err = g.Destroy(ctx, pAddr(a))
					} else {
						err = call("do", remember(deed(func(*puppet, host.Turn) error { panic("told to") })))
					}
				}
				cancel()
				switch host.CodeOf(err) {
				case "", host.NotFound, host.ActorPaused, host.FailedPrecondition, host.Crashed, host.ActorFailed, host.Unavailable:
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		for _, verb := range []string{host.ActorResume, host.ActorRetry} {
			if err := g.verb(key(i), verb, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
				t.Error(err)
			}
		}
	}
	time.Sleep(time.Hour)
	for i := range 4 {
		st, err := g.Lookup(context.Background(), pAddr(key(i)))
		if err == nil && (st.PendingSends > 0 || st.Alarms > 0) {
			t.Errorf("%+v", g.whyOf(key(i)))
		}
	}
	if n := g.Waits.Len(); n != 0 {
		t.Errorf("%d wait edges are left", n)
	}
	if n := g.Pauses.Len(); n != 0 {
		t.Errorf("%d actors are still paused", n)
	}
}

// rings is a deed that sets an alarm.
func rings(instance string, in time.Duration) deed {
	return func(_ *puppet, t host.Turn) error {
		return t.SetAlarm(host.Alarm{Name: "ring", Instance: instance, Due: t.Now().Add(in)})
	}
}

// sends is a deed that sends messages to another puppet, each of which runs a closure.
func sends(to string, n int, f deed) deed {
	input := remember(f)
	return func(_ *puppet, t host.Turn) error {
		for range n {
			if err := t.Send(&host.Message{Type: "p", Key: []string{to}, Method: "do", Input: input}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestSleepUnderLoadEndsAndNothingIsLost(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", wake: goes("x", untilTold)}}, func(t *testing.T, g *stage) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if err := g.do("a", add(1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			if err := g.verb("a", host.ActorSleep, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
				t.Error(err)
			}
		}
		wg.Wait()
		if n := g.n("a"); n != 800 {
			t.Fatal(n)
		}
		synctest.Wait()
		if st := g.status("a"); st.Tasks != 1 {
			t.Fatalf("an awake actor has %d tasks", st.Tasks)
		}
	})
}

// series runs deeds one after the other.
func series(all ...deed) deed {
	return func(p *puppet, t host.Turn) error {
		for _, f := range all {
			if err := f(p, t); err != nil {
				return err
			}
		}
		return nil
	}
}

type unit struct{ N int }

var (
	units = actor.NewType[unit]("unit")
	step  = actor.NewAction[string, int](units, "step")
	value = actor.NewQuery[actor.None, int](units, "value")
)

// step does what it is told to.
func (u *unit) step(ctx *actor.Context, what string) (int, error) {
	u.N++
	switch what {
	case "fail":
		return 0, actor.Errorf(actor.FailedPrecondition, "told to")
	case "panic":
		panic("told to")
	case "destroy":
		ctx.DestroySelf()
		return 0, step.Send(ctx, units.Ref(ctx, "sink"), "")
	}
	return u.N, nil
}

func (u unit) value(*actor.ReadContext, actor.None) (int, error) { return u.N, nil }

// newUnits starts a node of units.
func newUnits(t *testing.T) *stage {
	def := actor.Define(units, actor.Spec[unit]{}, actor.On(step, (*unit).step), actor.OnQuery(value, unit.value))
	return newStage(t, func(o *Options) { o.Behaviors = append(o.Behaviors, def.Behavior()) })
}

func TestNothingOfActorsThatAreGoneStaysInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx := newUnits(t), context.Background()
		for i := range 100 {
			ref := units.Ref(s, fmt.Sprint(i))
			step.Call(ctx, ref, "fail")  // leaves nothing
			step.Call(ctx, ref, "panic") // leaves nothing
			value.Call(ctx, ref, actor.None{}, actor.Existing())
			step.Call(ctx, ref, "")
			step.Call(ctx, ref, "panic")
			if i%2 == 0 {
				step.Call(ctx, ref, "destroy")
			} else if err := ref.Destroy(ctx); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		left := 0
		s.Each(func(a *kernel.Actor) {
			if a.Address.Key[0] != "sink" {
				left++
			}
		})
		if left != 0 {
			t.Errorf("%d activations are left", left)
		}
		if n := s.Remains.Len(); n != 0 {
			t.Errorf("the remains of %d actors are left", n)
		}
		if n := s.Waits.Len(); n != 0 {
			t.Errorf("%d wait edges are left", n)
		}
		time.Sleep(time.Hour)
		if n, b := s.Memory.Awake.Load(), s.Memory.Bytes.Load(); n != 0 || b != 0 {
			t.Errorf("%d actors of %d bytes count as awake", n, b)
		}
		if n := s.Failures.Known(); n != 0 {
			t.Errorf("%d failures of actors that are gone are remembered", n)
		}
	})
}

// TestActorsAreUsedFromManyGoroutines is for the race detector: real time, few keys, everything at once.
func TestActorsAreUsedFromManyGoroutines(t *testing.T) {
	s := newUnits(t)
	ctx := t.Context()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 150 {
				ref := units.Ref(s, fmt.Sprint((g+i)%4))
				var err error
				switch i % 8 {
				case 0, 1, 2:
					_, err = step.Call(ctx, ref, "")
				case 3:
					_, err = value.Call(ctx, ref, actor.None{})
				case 4:
					_, err = step.Call(ctx, ref, "fail")
				case 5:
					_, err = step.Call(ctx, ref, "destroy")
				case 6:
					err = ref.Destroy(ctx)
				case 7:
					short, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Microsecond)
					_, err = step.Call(short, ref, "")
					cancel()
				}
				switch actor.CodeOf(err) {
				case "", actor.FailedPrecondition, actor.NotFound, actor.Canceled, actor.DeadlineExceeded:
				default:
					t.Errorf("call %d of goroutine %d: %v", i, g, err)
				}
			}
		})
	}
	wg.Wait()
}
