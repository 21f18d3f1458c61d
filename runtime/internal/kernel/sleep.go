package kernel

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/patrol"
	"github.com/cairn-run/cairn/runtime/internal/kernel/sweep"
)

// newSweeper returns the patrol that puts actors to sleep.
func (s *Kernel) newSweeper() *patrol.Patrol {
	var shortest time.Duration
	for _, t := range s.Types {
		if t.idle > 0 && (shortest == 0 || t.idle < shortest) {
			shortest = t.idle
		}
	}
	return patrol.New(s.Go, (&sweep.Sweep[*Actor]{
		Over: s.Memory.Over, Enough: s.Memory.Enough, Each: s.Each, Idle: shortest,
		State: (*Actor).repose, Used: func(a *Actor) time.Time { return s.Started.Add(time.Duration(a.lastUsed.Load())) }, Sleep: (*Actor).askToSleep,
		Retire: func(a *Actor) {
			if c := a.Waking(); c.Company() != nil && s.Kept(a) == nil {
				a.Retire(c, causeMemory)
			}
		},
	}).Look, 0)
}

// repose returns whether the actor may fall asleep. Remains of a destroyed one end by themselves.
func (a *Actor) repose() sweep.State {
	rests, k := a.rests()
	return sweep.State{Busy: a.Left() || !rests, Works: SizeOf(k) > 0, Idle: a.Type.idle}
}

// rests reports whether the actor is awake and not running, and returns its company.
func (a *Actor) rests() (bool, Company) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return !a.Running && !a.gone && a.Core != nil, a.Core.Company()
}

// Kept returns why an awake actor cannot be put to sleep even if its company would leave it; nil if
// it can. A part that panics keeps it awake.
func (s *Kernel) Kept(a *Actor) error {
	for p := range attach.As[Keeper](s.Parts) {
		var kept error
		panicked := a.contain("Keeps", p, func() { kept = p.Keeps(a) })
		if err := cmp.Or(kept, panicked); err != nil {
			return err
		}
	}
	return nil
}

// askToSleep puts a resting actor to sleep: at once, or through its hook. False: it stays awake.
func (a *Actor) askToSleep() bool {
	a.Mu.Lock()
	if a.Running || a.gone || a.Core == nil {
		a.Mu.Unlock()
		return true // it is in use, or asleep already
	}
	if a.Pending.Load() > 0 || a.Busy() || SizeOf(a.Core.Company()) > 0 {
		a.Mu.Unlock()
		return false
	}
	if !a.hooked() {
		c := a.Core
		ok := a.Leave()
		a.Mu.Unlock()
		if ok {
			a.slept(c)
		}
		return ok
	}
	a.Mu.Unlock()
	a.askHook()
	return true
}

// hooked reports whether the actor has a sleep hook. The remains of a destroyed one have none.
func (a *Actor) hooked() bool { return a.Type.HasSleep && !a.Left() }

// askHook posts the sleep hook, after which the actor leaves memory if it can.
func (a *Actor) askHook() {
	a.Enqueue(&Work{Job: Sleeping{}, Existing: true, Finish: func(*Work) {}})
}

// Retire asks the company of an actor to return, and then puts the actor to sleep. The channel is
// closed when the company has returned, or its time is over.
func (a *Actor) Retire(c *Core, cause string) <-chan struct{} {
	k := c.Company()
	gone := k.Ask(fault.Unavailable(cause))
	if !k.Retire() {
		return gone
	}
	a.Kernel.Go(func() {
		select {
		case <-gone:
			if a.Waking() != c {
				return // it was restarted meanwhile
			}
			a.Enqueue(&Work{Job: Sleeping{Force: true, Waking: c}, Existing: true, Finish: func(*Work) {}})
		case <-a.Kernel.Life.Done():
		}
	})
	return gone
}

func (a *Actor) slept(c *Core) {
	c.asleep.Store(true)
	a.Kernel.Metrics.Sleeps.Inc()
	c.published("slept", "")
}

// Touch records when the actor was used, as Now returned it.
func (a *Actor) Touch(now time.Duration) { a.lastUsed.Store(int64(now)) }

// sleepAll waits until nothing runs or waits, and puts all actors to sleep with their hooks.
func (s *Kernel) sleepAll(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	asked := make(map[*Actor]bool)
	for {
		left, sample := 0, ""
		s.Each(func(a *Actor) {
			a.Mu.Lock()
			gone, resting := a.gone, !a.Running
			a.Mu.Unlock()
			if gone {
				return
			}
			left++
			sample = a.String()
			if k := a.Waking().Company(); SizeOf(k) > 0 {
				k.Ask(fault.Unavailable(CauseShutdown))
				return
			}
			if !resting {
				return
			}
			if rests, _ := a.rests(); rests && a.hooked() && !asked[a] {
				asked[a] = true
				a.askHook()
				return
			}
			if !a.hooked() {
				a.askToSleep()
			}
			if a.Pending.Load() == 0 {
				// It is asleep, or stays because its messages wait for a target that does not take
				// them; they are in the store.
				left--
			}
		})
		if left == 0 && s.Busy.Load() == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("kernel: %d actors were still at work at the deadline, %s among them: %w", left, sample, ctx.Err())
		}
	}
}

// Sleeping runs the sleep hook and leaves memory.
type Sleeping struct {
	Force  bool  // even if more work waits, which wakes the actor again
	Waking *Core // the core to end, or nil for any; if it slept, the actor was woken since: several may ask for one sleep
}

// Traits implements Job.
func (Sleeping) Traits(*Actor) Traits { return Traits{Kind: "sleep"} }

// TurnedAway implements early.
func (j Sleeping) TurnedAway(c *Core, w *Work) bool {
	if c != nil && (j.Waking == nil || j.Waking == c || !j.Waking.asleep.Load()) {
		return false
	}
	w.Fail(nil) // it sleeps, or did
	return true
}

// Run implements Job.
func (j Sleeping) Run(c *Core, w *Work) {
	if c.Exists && c.Actor.Type.HasSleep && !c.Quiet && !c.Bare {
		if _, err := c.RunTurn(w, "OnSleep", true, func(h *Turn) ([]byte, error) { return nil, c.Instance.Sleep(h.Host) }); err != nil {
			if err == ErrAbandoned {
				return
			}
			c.Actor.Kernel.Public(c.Actor, w, err) // logged; the actor sleeps all the same
		}
	}
	if j.Force {
		c.slept, c.Broken = w, true // answered when the core is gone
		return
	}
	c.Actor.sleepSoon = true
	c.Respond(w, nil, nil)
}

// tellSlept answers a sleep that was asked for.
func (a *Actor) tellSlept(c *Core, w *Work) {
	if c.Refused {
		w.Fail(fault.Unavailable("the commit of the sleep hook failed; the actor sleeps all the same"))
		return
	}
	if !c.Ended {
		a.slept(c)
	}
	a.tell(w, nil)
}
