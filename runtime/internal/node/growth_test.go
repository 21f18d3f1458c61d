package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

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
