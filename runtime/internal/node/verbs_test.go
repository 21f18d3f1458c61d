package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// TestActorsAreUsedFromManyGoroutines is for the race detector and for deadlocks: few keys, everything at once. At the end
// every pause is lifted, what was sent has been handled or moved aside, and nothing is stored of actors that were destroyed.
func TestActorsAreUsedFromManyGoroutines(t *testing.T) {
	d := &puppetType{name: "p", alarm: add(1), wake: goes("steady", untilTold)}
	bubble(t, func(o *Options) {
		o.IdleTimeout, o.UsageOff = 2*time.Millisecond, false
		o.Traces = parttrace.Options{PerSecond: 1 << 40, MaxBytes: 64 << 10}
	}, []*puppetType{d}, everythingAtOnce)
}

func everythingAtOnce(t *testing.T, g *stage) {
	key := func(i int) string { return fmt.Sprint("k", i%4) }
	steps := []func(to string) deed{
		func(string) deed { return add(1) },
		func(string) deed { return add(1) },
		func(to string) deed { return sends(to, 2, add(1)) },
		func(string) deed { return rings("", time.Millisecond) },
		func(string) deed { return goes("x", func(task host.Task) error { return task.Turn(task, adds(1)) }) },
		func(string) deed { return failing },
		func(string) deed { return func(*puppet, host.Turn) error { panic("told to") } },
		func(string) deed { return destroySelf },
		func(string) deed {
			return func(*puppet, host.Turn) error { g.timeIsUp(); return nil } // the turn is abandoned
		},
	}
	verbs := []string{
		host.ActorPause, host.ActorResume, host.ActorSleep, host.ActorWake, host.ActorWhy, host.TraceRead, host.SendSkip, "look",
	}
	var dead sync.Map // ids of destroyed actors
	var wg sync.WaitGroup
	for w := range 8 {
		random := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range 120 {
				time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
				a, b := key(random.IntN(4)), key(random.IntN(4))
				limit := 5 * time.Second
				if random.IntN(8) == 0 {
					limit = time.Duration(random.IntN(1000)) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				r := jsonCall(a, "do", "")
				r.Traceparent = []string{"", sampledFrom, unsampledFrom}[random.IntN(3)]
				var err error
				switch n := random.IntN(len(steps) + len(verbs) + 1); {
				case n < len(steps):
					r.Input = remember(steps[n](b))
					_, err = g.Call(ctx, r)
				case n < len(steps)+len(verbs):
					if r.Method = verbs[n-len(steps)]; r.Method == host.SendSkip {
						r.Input = fmt.Appendf(nil, `{"type":"p","key":[%q]}`, b)
					}
					_, err = g.Call(ctx, r)
				default:
					id, ok, lerr := g.store.Lookup(g.Identity(pAddr(a)))
					if err = g.Destroy(ctx, pAddr(a)); err == nil && ok && lerr == nil {
						dead.Store(id, true) // it, or one that was there before its successor
					}
				}
				cancel()
				switch host.CodeOf(err) {
				case "", host.NotFound, host.ActorPaused, host.FailedPrecondition, host.Crashed, host.ActorFailed, host.Unavailable,
					host.Internal, host.DeadlineExceeded:
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
	if w, p := g.Waits.Len(), g.Pauses.Len(); w != 0 || p != 0 {
		t.Errorf("%d wait edges are left, and %d actors are still paused", w, p)
	}
	for range 2 {
		dead.Range(func(id, _ any) bool {
			snap := g.store.Snapshot(id.(keyspace.ActorID))
			defer snap.Close()
			left := 0
			if err := snap.Scan(nil, nil, func(_, _ []byte) bool { left++; return true }); err != nil || left > 0 {
				t.Errorf("%d rows of %v are left, %v", left, id, err)
			}
			return true
		})
		g.crash()
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
					check(t, g.do("a", add(1)))
				}
			})
		}
		for range 20 {
			if err := g.verb("a", host.ActorSleep, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
				t.Error(err)
			}
		}
		wg.Wait()
		n := g.n("a")
		fatalIf(t, n != 800, "%v", n)
		synctest.Wait()
		st := g.status("a")
		fatalIf(t, st.Tasks != 1, "an awake actor has %d tasks", st.Tasks)
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

func TestNothingOfActorsThatAreGoneStaysInMemory(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		panics := func(*puppet, host.Turn) error { panic("told to") }
		for i := range 100 {
			key := fmt.Sprint(i)
			g.do(key, failing) // leaves nothing
			g.do(key, panics)  // leaves nothing
			g.look(key, func(*puppetState, host.Reader) error { return nil })
			g.must(key, add(1))
			g.do(key, panics)
			if i%2 == 0 {
				g.destroy(key)
			} else {
				g.do(key, series(destroySelf, sends("sink", 1, add(1))))
			}
		}
		synctest.Wait()
		left := 0
		g.Each(func(a *kernel.Actor) {
			if a.Address.Key[0] != "sink" {
				left++
			}
		})
		errorIf(t, left != 0, "%d activations are left", left)
		same(t, g.Remains.Len(), 0, "actors have remains")
		same(t, g.Waits.Len(), 0, "wait edges are left")
		time.Sleep(time.Hour)
		if n, b := g.Memory.Awake.Load(), g.Memory.Bytes.Load(); n != 0 || b != 0 {
			t.Errorf("%d actors of %d bytes count as awake", n, b)
		}
		same(t, g.Failures.Known(), 0, "failures of actors that are gone are remembered")
	})
}

func destroySelf(_ *puppet, h host.Turn) error { h.DestroySelf(); return nil }
