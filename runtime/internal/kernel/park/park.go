// Package park has the actors that operators have paused, and the work that waits until they are
// resumed.
package park

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// A Lot has the actors whose pause is durable, from the start of the node on. An actor is named by
// the key of its address. The zero value has none.
//
// A paused actor runs none of its code for others: calls, messages, alarms and turns of tasks are
// refused with code actor_paused, and a caller that delivers something that must not be lost parks
// it until the actor is resumed or destroyed. Work that runs no code of the actor goes on: built-in
// methods, the settlement of messages that it sent, the purge of expired keys. Queries go on too;
// they change nothing. The turn that runs when an actor is paused is not interrupted.
//
// Invariants:
//  1. Park keeps a function only while the actor is paused, and Resume returns it: it is neither
//     lost nor kept twice.
//  2. A lookup costs one load of a counter while no actor is paused.
type Lot struct {
	n      atomic.Int64
	mu     sync.Mutex
	paused map[string]*paused
	// resumed is when actors were resumed, if something was parked for them.
	resumed map[string]time.Time
}

type paused struct {
	host.Pause
	parked map[string]func()
}

// MaxReason bounds the reason of a pause, in bytes.
const MaxReason = 1024

// Len returns the number of paused actors.
func (p *Lot) Len() int { return int(p.n.Load()) }

// Of returns the pause of an actor, or nil.
func (p *Lot) Of(key string) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.paused[key]
	if x == nil {
		return nil
	}
	c := x.Pause
	return &c
}

// Each calls f with the keys of the paused actors, in no order. f must not call the lot.
func (p *Lot) Each(f func(key string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.paused {
		f(key)
	}
}

// At is Of for an address.
func (p *Lot) At(addr host.Address) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	return p.Of(string(address.Append(nil, addr)))
}

// Refuse returns the error for work that a paused actor does not do; nil if it is not paused.
func (p *Lot) Refuse(addr host.Address) error {
	if x := p.At(addr); x != nil {
		return Refusal(addr, x)
	}
	return nil
}

// Refusal returns the error for a call to a paused actor.
func Refusal(addr host.Address, p *host.Pause) *host.Error {
	e := host.Errorf(host.ActorPaused, "actor %s is paused", address.Format(addr))
	if p.Reason != "" {
		e = host.Errorf(host.ActorPaused, "actor %s is paused: %s", address.Format(addr), p.Reason)
	}
	return e.With("reason", p.Reason).With("since", p.Since.Format(time.RFC3339Nano)).Retry()
}

// Park keeps f until the actor is resumed or destroyed. It reports whether the actor is paused.
// Under one name it keeps the last f. f must not block.
func (p *Lot) Park(addr host.Address, name string, f func()) bool {
	if p.n.Load() == 0 {
		return false
	}
	key := address.Append(nil, addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.paused[string(key)]
	if x == nil {
		return false
	}
	if x.parked == nil {
		x.parked = make(map[string]func())
	}
	x.parked[name] = f
	return true
}

// Pause records that an actor is paused, or that its pause has changed.
func (p *Lot) Pause(key string, pause host.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(map[string]*paused)
	}
	if x := p.paused[key]; x != nil {
		x.Pause = pause
		return
	}
	p.paused[key] = &paused{Pause: pause}
	p.n.Add(1)
}

// resumedFor is how long the lot remembers when an actor was resumed. By then the parked work has
// begun.
const resumedFor = time.Hour

// Resume records that an actor is no longer paused, and returns its parked functions.
func (p *Lot) Resume(key string) (parked []func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.paused[key]
	if x == nil {
		return nil
	}
	delete(p.paused, key)
	p.n.Add(-1)
	now := time.Now()
	maps.DeleteFunc(p.resumed, func(_ string, at time.Time) bool { return now.Sub(at) > resumedFor })
	if len(x.parked) > 0 {
		if p.resumed == nil {
			p.resumed = make(map[string]time.Time)
		}
		p.resumed[key] = now
	}
	return slices.Collect(maps.Values(x.parked))
}

// ResumedAt returns when an actor for which something was parked was resumed; the zero time if that
// is long ago or never was.
func (p *Lot) ResumedAt(key string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed[key]
}

// Parked returns how many functions wait for each paused actor.
func (p *Lot) Parked() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	parked := make(map[string]int, len(p.paused))
	for key, x := range p.paused {
		parked[key] = len(x.parked)
	}
	return parked
}
