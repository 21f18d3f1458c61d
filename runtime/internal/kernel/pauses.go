package kernel

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/control"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
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
	return p.Of(string(address.Append(nil, addr)))
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
	e := host.Errorf(host.ActorPaused, "actor %s is paused", address.Format(addr))
	if p.Reason != "" {
		e = host.Errorf(host.ActorPaused, "actor %s is paused: %s", address.Format(addr), p.Reason)
	}
	return e.With("reason", p.Reason).With("since", p.Since.Format(time.RFC3339Nano)).Retry()
}

// Park keeps f until the actor is resumed or destroyed; false means that it is not paused. Of those that park under one
// name the last counts. f must not block.
func (p *pauses) Park(addr host.Address, name string, f func()) bool {
	if p.n.Load() == 0 {
		return false
	}
	key := string(address.Append(nil, addr))
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

// unpause lets an actor go on. It does not block.
func (s *Kernel) unpause(key string) {
	if parked := s.Pauses.clear(key); len(parked) > 0 {
		s.Go(func() {
			for _, f := range parked {
				f()
			}
		})
	}
}

// loadPauses reads which actors are paused. It runs before anything else does.
func (s *Kernel) loadPauses() {
	var after []byte
	for {
		rows, err := s.Store.Wakes(after, 0, 1024)
		if err != nil {
			s.Logger.Error("read which actors are paused", "error", err)
			return
		}
		for _, row := range rows {
			if row.Kind == keyspace.WakePaused {
				if err := s.loadPause(row); err != nil {
					s.Logger.Error("read why an actor is paused", "actor_id", row.ID.String(), "error", err)
				}
			}
		}
		if len(rows) < 1024 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

func (s *Kernel) loadPause(row engine.Wake) error {
	ident, _, ok, err := s.Store.Identity(row.ID)
	if err != nil {
		return err
	}
	snap := s.Store.Snapshot(row.ID)
	defer snap.Close()
	rec, err := control.Read(snap)
	if err != nil {
		return err
	}
	if !ok || rec.Empty() {
		return s.Store.DropWakes([][]byte{row.Row}) // nothing stands behind it
	}
	if ident.Namespace != s.Options.Namespace {
		return nil
	}
	key := string(address.Append(nil, host.Address{Type: ident.Type, Key: ident.Key}))
	if pause := rec.Pause(); pause != nil {
		s.Pauses.Set(key, *pause)
	}
	if t := s.Types[ident.Type]; t != nil {
		l, err := limit.Override(t.Base.Limits, rec.Override(), t.Hooks.Limiters)
		if err != nil {
			return err
		}
		s.Overrides.Put(key, l)
	}
	return nil
}

// staysQuiet reports that an actor is not to be woken with its hook for w, because it is paused.
func (a *Actor) staysQuiet(w *Work) bool {
	return !w.destroys() && a.Kernel.Pauses.Of(a.Key) != nil
}

// TurnedAway answers work that is not to run now, and reports that it did.
func (a *Actor) TurnedAway(c *Core, w *Work) bool {
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

// ClearPause removes an actor's pause, if it has one.
func (c *Core) ClearPause(h *Turn) (bool, error) {
	rec, err := control.Read(c.Rows)
	if err != nil || rec.Since == 0 {
		return false, err
	}
	rec.SetPause(nil)
	if err := c.PutControl(&rec); err != nil {
		return false, err
	}
	a := c.Actor
	h.Then(func() { a.Kernel.unpause(a.Key) })
	return true, nil
}
