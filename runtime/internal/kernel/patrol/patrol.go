// Package patrol looks at something repeatedly while there is something to look at.
package patrol

import (
	"sync"
	"sync/atomic"
	"time"
)

// A Patrol is a goroutine that runs only while there is something to look at.
//
// Invariant: if Start is called after the last look began, another look follows, unless Stop was
// called.
type Patrol struct {
	spawn  func(func()) bool
	look   func(now time.Time) (wait time.Duration, more bool)
	linger int
	active atomic.Bool
	mu     sync.Mutex // held while it looks: a goroutine that is about to end and the next one may overlap
	poke   chan struct{}
	quit   chan struct{}
	once   sync.Once
}

// New makes a Patrol that does not run. spawn starts its goroutine, and returns false if it may not
// start. look returns how long to wait until the next look, and whether there is something left to
// look at. The patrol ends when so many looks after the first, as linger says, have found nothing:
// if things come and go quickly, they share one goroutine.
func New(spawn func(func()) bool, look func(now time.Time) (wait time.Duration, more bool), linger int) *Patrol {
	return &Patrol{spawn: spawn, look: look, linger: linger, poke: make(chan struct{}, 1), quit: make(chan struct{})}
}

// Start starts the patrol if it does not run, because there is something to look at. It costs one
// atomic load if it runs.
func (p *Patrol) Start() {
	if p.active.Load() || !p.active.CompareAndSwap(false, true) {
		return
	}
	if !p.spawn(p.run) {
		p.active.Store(false)
	}
}

// Poke makes a running patrol look now.
func (p *Patrol) Poke() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// Stop ends the patrol. It does not wait for the goroutine.
func (p *Patrol) Stop() { p.once.Do(func() { close(p.quit) }) }

// Look looks once, whether the patrol runs or not.
func (p *Patrol) Look(now time.Time) (wait time.Duration, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.look(now)
}

func (p *Patrol) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	nothing := 0
	for {
		wait, more := p.Look(time.Now())
		if nothing++; more {
			nothing = 0
		}
		if nothing > p.linger {
			p.active.Store(false)
			// A Start since that look found the patrol active and did nothing, so look again.
			if wait, more = p.Look(time.Now()); !more || !p.active.CompareAndSwap(false, true) {
				return
			}
			nothing = 0
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.poke:
		case <-p.quit:
			return
		}
	}
}
