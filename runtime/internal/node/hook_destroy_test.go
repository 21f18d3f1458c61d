package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// destroyedBy runs f for an actor whose hook destroys it while on is true.
func destroyedBy(t *testing.T, f func(t *testing.T, g *stage, on *bool, runs *int)) {
	for _, where := range []string{"create", "wake"} {
		t.Run(where, func(t *testing.T) {
			on, runs := where == "create", 0
			typ := &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}}
			hook := func(_ *puppet, h host.Turn) error {
				if runs++; on && runs < 1_000 {
					h.DestroySelf()
				}
				return nil
			}
			if where == "create" {
				typ.create = hook
			} else {
				typ.wake = hook
			}
			bubble(t, nil, []*puppetType{typ}, func(t *testing.T, g *stage) {
				if where == "wake" {
					g.must("a", add(5))
					g.restart()
					on, runs = true, 0
				}
				f(t, g, &on, &runs)
			})
		})
	}
}

// An action of an actor that its hook destroys does not run.
func TestAnActionOfAnActorThatItsHookDestroysIsRefused(t *testing.T) {
	destroyedBy(t, func(t *testing.T, g *stage, on *bool, _ *int) {
		same(t, host.CodeOf(g.do("a", add(1))), host.Destroyed)
		*on = false
		g.must("a", add(1))
		same(t, g.n("a"), 1)
	})
}

// A query of an actor that its hook destroys comes to an end.
func TestAQueryOfAnActorThatItsHookDestroysEnds(t *testing.T) {
	destroyedBy(t, func(t *testing.T, g *stage, _ *bool, runs *int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.CBOR,
			Input: remember(glance(func(*puppetState, host.Reader) error { return nil }))})
		synctest.Wait()
		errorIf(t, err == nil || *runs > 3, "the hook ran %d times; the error is %v", *runs, err)
	})
}

// Operators can destroy an actor that its hook destroys.
func TestAnActorThatItsHookDestroysIsDestroyed(t *testing.T) {
	destroyedBy(t, func(t *testing.T, g *stage, _ *bool, _ *int) {
		err := g.Destroy(t.Context(), pAddr("a"))
		errorIf(t, err != nil && host.CodeOf(err) != host.NotFound, "%v", err)
	})
}

// A destruction that is undone, with the creation before it, ends no wait.
func TestADestructionThatIsUndoneEndsNoWait(t *testing.T) {
	typ := &puppetType{name: "p", queues: []host.Queue{{Name: "jobs"}}, create: func(_ *puppet, h host.Turn) error {
		h.DestroySelf()
		return nil
	}}
	bubble(t, nil, []*puppetType{typ}, func(t *testing.T, g *stage) {
		ended := make(chan error, 1)
		defer g.EndWaits()
		go func() {
			ended <- g.verb("a", host.QueueReceive, &host.QueueReceiveInput{Queue: "jobs", WaitMS: 60_000}, nil)
		}()
		synctest.Wait()
		before := g.Destroys.Load()
		_ = g.do("a", func(_ *puppet, h host.Turn) error { return h.Send(&host.Message{}) }) // fails
		synctest.Wait()
		select {
		case err := <-ended:
			t.Errorf("the wait has ended: %v", err)
		default:
		}
		same(t, g.Destroys.Load(), before)
	})
}

// If a program keeps fewer events than the one before it, the others go with the next events.
func TestFewerEventsAreKeptAfterTheLimitIsLowered(t *testing.T) {
	typ := &puppetType{name: "p", events: []host.Event{{Name: "said"}, {Name: "private"}}, limits: host.Limits{EventHistory: 1000}}
	bubble(t, nil, []*puppetType{typ}, func(t *testing.T, g *stage) {
		for range 10 {
			g.must("a", emits(100, 100))
		}
		before := g.status("a").Keys
		g.stop()
		typ.limits.EventHistory = 10
		g.start()
		for range 20 {
			g.must("a", emits(100, 100))
		}
		same(t, g.status("a").Keys, before-990)
	})
}
