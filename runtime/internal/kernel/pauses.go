package kernel

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// pauses knows which actors operators have paused: what is durable of it, from the start of the node on.
//
// A paused actor runs none of its code for others: calls, messages, alarms and turns of tasks are refused with code
// actor_paused, and whoever delivers something that must not be lost parks it until the actor is resumed or destroyed.
// What runs no code of the actor goes on: built-in methods, the settlement of messages that it sent, the purge of expired
// keys. Queries go on too; they change nothing. The turn that runs when an actor is paused is not interrupted.
type pauses struct {
	n  atomic.Int64 // how many there are, so that nobody pays for a lookup while there are none
	mu sync.Mutex
	M  map[string]*paused // by address key
	// resumed is when actors were resumed for which something was parked.
	resumed map[string]time.Time
}

type paused struct {
	host.Pause
	Parked map[string]func()
}

// Of returns the pause of the actor with an address key, or nil.
func (p *pauses) Of(key string) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.get(key)
}

// At is of for an address.
func (p *pauses) At(addr host.Address) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	return p.Of(string(AppendAddress(nil, addr)))
}

// get returns a copy of a pause, or nil.
//
// REQUIRES: p.mu
func (p *pauses) get(key string) *host.Pause {
	x := p.M[key]
	if x == nil {
		return nil
	}
	c := x.Pause
	return &c
}

// Refuse returns the error for what a paused actor does not do, or nil if it is not paused.
func (p *pauses) Refuse(addr host.Address) error {
	x := p.At(addr)
	if x == nil {
		return nil
	}
	return PausedError(addr, x)
}

// PausedError returns the error for a call to a paused actor.
func PausedError(addr host.Address, p *host.Pause) *host.Error {
	e := host.Errorf(host.ActorPaused, "actor %s is paused", FormatAddress(addr))
	if p.Reason != "" {
		e = host.Errorf(host.ActorPaused, "actor %s is paused: %s", FormatAddress(addr), p.Reason)
	}
	return e.With("reason", p.Reason).With("since", p.Since.Format(time.RFC3339Nano)).Retry()
}

// Park keeps f until the actor is resumed or destroyed; false means that it is not paused. Of those that park under one
// name the last counts. f must not block.
func (p *pauses) Park(addr host.Address, name string, f func()) bool {
	if p.n.Load() == 0 {
		return false
	}
	key := string(AppendAddress(nil, addr))
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.M[key]
	if x == nil {
		return false
	}
	if x.Parked == nil {
		x.Parked = make(map[string]func())
	}
	x.Parked[name] = f
	return true
}

// Set notes that an actor is paused.
func (p *pauses) Set(key string, pause host.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.M == nil {
		p.M = make(map[string]*paused)
	}
	if x := p.M[key]; x != nil {
		x.Pause = pause
		return
	}
	p.M[key] = &paused{Pause: pause}
	p.n.Add(1)
}

// clear notes that an actor is not paused any more and returns what was parked.
func (p *pauses) clear(key string) map[string]func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.M[key]
	if x == nil {
		return nil
	}
	delete(p.M, key)
	p.n.Add(-1)
	now := time.Now()
	maps.DeleteFunc(p.resumed, func(_ string, at time.Time) bool { return now.Sub(at) > resumedFor })
	if len(x.Parked) > 0 {
		if p.resumed == nil {
			p.resumed = make(map[string]time.Time)
		}
		p.resumed[key] = now
	}
	return x.Parked
}

// resumedFor is how long it is remembered when an actor was resumed: by then what was parked has been taken up.
const resumedFor = time.Hour

// ResumedAt returns when an actor for which something was parked was resumed; zero if that is long ago or never was.
func (p *pauses) ResumedAt(key string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed[key]
}

// Unpause lets an actor go on. It does not block.
func (s *Kernel) Unpause(key string) {
	if parked := s.Pauses.clear(key); len(parked) > 0 {
		s.Go(func() {
			for _, f := range parked {
				f()
			}
		})
	}
}

// staysQuiet reports that an actor is not to be woken with its hook for w, because it is paused.
func (a *Actor) staysQuiet(w *Work) bool {
	return !w.destroys() && a.Kernel.Pauses.Of(a.Key) != nil
}

// turnedAway answers work that is not to run now, and reports that it did.
func (a *Actor) turnedAway(c *Core, w *Work) bool {
	if j, ok := w.Job.(early); ok && j.TurnedAway(c, w) {
		return true
	}
	if a.Kernel.Pauses.n.Load() == 0 || !w.Job.Traits(a).Code {
		return false
	}
	p := a.Kernel.Pauses.Of(a.Key)
	if p == nil {
		return false
	}
	w.Paused = true
	w.Fail(PausedError(a.Address, p))
	return true
}
