// Package spawn counts goroutines, so that their owner can wait for them.
package spawn

import (
	"context"
	"sync"
	"time"
)

// A Group counts goroutines. Unlike a sync.WaitGroup it can refuse to start more. The zero value
// has none.
//
// Invariant: a goroutine runs only between a Begin that returned true and its Done, and Close
// returns 0 only when every such goroutine is done.
type Group struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when n is 0 and no more may start
}

// Begin counts one goroutine, and reports whether it may start.
func (g *Group) Begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	return true
}

// Done counts one goroutine off.
func (g *Group) Done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.closed {
		close(g.idle)
	}
}

// Go runs f in a goroutine of the group. It returns false if the group is closed.
func (g *Group) Go(f func()) bool {
	if !g.Begin() {
		return false
	}
	go func() {
		defer g.Done()
		f()
	}()
	return true
}

// Len returns the number of goroutines.
func (g *Group) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// Close refuses new goroutines and waits up to grace for the running ones, because a handler that
// does not return cannot be ended. It returns how many are left. It is called once.
func (g *Group) Close(grace time.Duration) int {
	g.mu.Lock()
	g.closed = true
	g.idle = make(chan struct{})
	if g.n == 0 {
		close(g.idle)
	}
	g.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-g.idle:
		return 0
	case <-timer.C:
		return g.Len()
	}
}

// After calls f after d, unless ctx ends first.
func After(ctx context.Context, d time.Duration, f func()) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		f()
	case <-ctx.Done():
	}
}
