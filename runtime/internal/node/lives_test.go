package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// A row of the wake index without a record behind it would come up again and again.
func TestRowOfTheWakeIndexWithoutARecordIsRemovedWhenItIsDue(t *testing.T) {
	for _, kind := range []keyspace.WakeKind{keyspace.WakeAlarm, keyspace.WakeSchedule, keyspace.WakeConnections, keyspace.WakeRun} {
		t.Run(kind.String(), func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				due := time.Now().Add(time.Minute).UnixMilli()
				g.must("a", func(p *puppet, h host.Turn) error {
					p.s.N++
					name := "ring"
					if kind == keyspace.WakeRun {
						name = ""
					}
					kernelTurn(h).Core.Rows.SetWake(due, kind, name, "")
					return nil
				})
				rows := func() int {
					all, err := g.store.Wakes(nil, due, 100)
					must(t, err)
					return len(all)
				}
				before := rows()
				time.Sleep(2 * time.Minute)
				after := rows()
				errorIf(t, before != 1 || after != 0, "%d rows stood before it was due, and %d after", before, after)
			})
		})
	}
}

// farewell is a destroyer that sends a message, as the part of workflow runs does for the run of a
// child.
type farewell struct{ f deed }

func (x farewell) Destroy(t *kernel.Turn) error {
	return mail.MailOf(t).Post(pAddr("b"), "do", remember(x.f))
}

func TestMessageThatADestroyerIsTheFirstToSendIsOfTheRemains(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		typ := g.Kernel.Types["p"]
		typ.Hooks.Destroyers = append(typ.Hooks.Destroyers, farewell{add(1)})
		g.must("b", add(0))
		g.must("a", add(1))
		a := g.Find(pAddr("a"))
		must(t, g.Destroy(context.Background(), pAddr("a")))
		synctest.Wait()
		time.Sleep(time.Minute)
		s := mail.Mail(a)
		errorIf(t, s.Part != nil && !s.Closed, "the sender of the destroyed actor still sends; %d messages are pending", s.Pending)
		errorIf(t, g.Find(pAddr("a")) != nil, "the destroyed actor is still in memory")
		same(t, g.n("b"), 1, "messages were handled")
	})
}

func TestTurnIsNotCommittedOnceItsAbandonmentHasBegun(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	g := newStage(t, nil)
	reply := make(chan error, 1)
	go func() {
		reply <- g.do("a", func(p *puppet, _ host.Turn) error {
			p.s.N++
			entered <- struct{}{}
			<-release
			return nil
		})
	}()
	<-entered
	a := g.Find(pAddr("a"))
	// Abandon the turn as abandonTurn does, but let the handler return in the middle of it.
	a.Mu.Lock()
	turn := a.Turn.Swap(nil)
	close(release)
	select {
	case err := <-reply:
		a.Mu.Unlock()
		t.Fatal("the turn was committed, and its caller was told", err)
	case <-time.After(50 * time.Millisecond): // it waits for the abandonment
	}
	a.Epoch.Add(1)
	a.Core, a.Running = nil, false
	a.Mailbox.Revoke()
	a.Kernel.Busy.Add(-1)
	a.Weight.Sleep(&a.Kernel.Memory)
	a.Mu.Unlock()
	turn.Work.Fail(host.Errorf(host.DeadlineExceeded, "nothing of the turn was kept"))
	// The goroutine that runs the actor may also be the first to answer.
	code := host.CodeOf(<-reply)
	fatalIf(t, code != host.DeadlineExceeded && code != host.Unavailable, "the caller was told %v", code)
	n := a.Applied.Load()
	fatalIf(t, n != 0, "%d commits of a turn whose caller was told that nothing was kept", n)
}

// A stopper is a facet that holds up the end of its core.
type stopper struct{ goOn chan struct{} }

func (*stopper) Forget(*kernel.Core, engine.Version) {}
func (s *stopper) Close(*kernel.Core)                { <-s.goOn }
func (s *stopper) Abandon(*kernel.Core)              {}

func TestDestroyedActorIsNotReadOnceItsEndIsKnown(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		a, before := g.Find(pAddr("a")), g.Destroys.Load()
		// The goroutine that runs the actor stops between the commit that ends the actor and the
		// end of its core.
		stop := &stopper{goOn: make(chan struct{})}
		attach.Make(&a.Core.Attached, func() *stopper { return stop })
		err := g.Destroy(t.Context(), a.Address)
		v, after := a.AcquireView(), g.Destroys.Load()
		close(stop.goOn)
		must(t, err)
		errorIf(t, v != nil, "a query would be answered with the state of an actor whose end was acknowledged")
		errorIf(t, after == before, "a message would be bound to an actor whose end was acknowledged")
	})
}

// A lodger is a resident that a test makes busy. It would leave at any time: only Busy keeps its
// actor.
type lodger struct{ busy atomic.Bool }

func (l *lodger) Busy() bool { return l.busy.Load() }
func (*lodger) Leave() bool  { return true }

// lodge wakes an actor and attaches a busy resident to it.
func (g *stage) lodge(key string) (*kernel.Actor, *lodger) {
	g.t.Helper()
	g.must(key, add(1))
	a := g.Find(pAddr(key))
	l := attach.Make(&a.Attached, func() *lodger { return new(lodger) })
	l.busy.Store(true)
	return a, l
}

func TestActorWithABusyResidentDoesNotFallAsleep(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		a, l := g.lodge("a")
		time.Sleep(10 * time.Minute)
		errorIf(t, g.Find(pAddr("a")) != a || g.Memory.Awake.Load() != 1, "it fell asleep")
		l.busy.Store(false)
		time.Sleep(10 * time.Minute)
		errorIf(t, g.Find(pAddr("a")) != nil, "it stays awake though its resident is not busy")
	})
}

func TestActorWithABusyResidentStaysThoughMemoryIsShort(t *testing.T) {
	const most = 2
	bubble(t, func(o *Options) { o.MaxAwake = most }, nil, func(t *testing.T, g *stage) {
		wakeOthers := func() {
			time.Sleep(time.Second)
			for i := range 10 {
				g.must(fmt.Sprint("other", i), add(1))
			}
			time.Sleep(5 * time.Second) // less than the idle time
			n := g.Memory.Awake.Load()
			errorIf(t, n > most, "%d actors are awake", n)
		}
		a, l := g.lodge("a")
		wakeOthers()
		errorIf(t, g.Find(pAddr("a")) != a, "it was put to sleep")
		l.busy.Store(false)
		wakeOthers()
		errorIf(t, g.Find(pAddr("a")) != nil, "it is not the first to sleep though it was used least recently and its resident is not busy")
	})
}

func TestActorWithABusyResidentStaysThoughItsCoreIsLost(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{TurnTimeout: time.Second}}}, func(t *testing.T, g *stage) {
		a, l := g.lodge("a")
		stuck := make(chan struct{})
		defer close(stuck)
		wantCode(t, g.do("a", func(*puppet, host.Turn) error { <-stuck; return nil }), host.DeadlineExceeded)
		time.Sleep(options.DefaultTurnGrace + time.Second) // the turn is abandoned
		synctest.Wait()
		errorIf(t, g.Find(pAddr("a")) != a || g.Memory.Awake.Load() != 0,
			"it left memory, or its core is not lost: %d are awake", g.Memory.Awake.Load())
		l.busy.Store(false)
		a.Vacate()
		errorIf(t, g.Find(pAddr("a")) != nil, "it stays in memory though its resident is not busy")
	})
}

// TestActorsAreUsedFromManyGoroutines is for the race detector and for deadlocks: few keys,
// everything at once. At the end every pause is lifted, every message has been handled or moved
// aside, and nothing is stored of destroyed actors.
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
