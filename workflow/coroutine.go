package workflow

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
)

// A coroutine runs one strand of a workflow function: the root, or one branch. One of a run executes at a time.
type coroutine struct {
	run    *Run
	next   func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	queued bool // stands in Run.runnable
	over   bool
	index  int // in Run.coroutines
	// waits is the op that it is parked for, which Stack and status show; nil while it runs.
	waits *op
}

// spawn makes a coroutine that will run body. It is runnable at once, after the other runnable coroutines.
func (r *Run) spawn(body func(c *coroutine)) *coroutine {
	c := &coroutine{run: r, index: len(r.coroutines)}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		c.main(body)
	})
	r.coroutines = append(r.coroutines, c)
	r.ready(c)
	return c
}

// main runs the body of the coroutine. Run.Stack finds it by its name in the stacks of goroutines.
//
//go:noinline
func (c *coroutine) main(body func(c *coroutine)) {
	r := c.run
	returned := false
	defer func() {
		if !returned {
			if p := recover(); p != nil {
				r.panicked(p, debug.Stack())
			} else if !r.gone {
				// The function called runtime.Goexit. Let through, it would end the goroutine that drives the run; so the
				// coroutine stays here until it is killed.
				r.fail(PausedPanicked, "the function called runtime.Goexit (a failed assertion of a test does)\n\n"+string(debug.Stack()))
				c.yield(struct{}{})
			}
		}
		c.over = true
	}()
	body(c)
	returned = true
}

// step runs a coroutine until it parks or ends.
//
// REQUIRES: called by the driver.
func (r *Run) step(c *coroutine) {
	r.current.Store(c)
	r.moves.enter()
	c.next()
	r.moves.leave()
	r.current.Store(nil)
	if c.over {
		last := len(r.coroutines) - 1
		r.coroutines[c.index], r.coroutines[last].index = r.coroutines[last], c.index
		r.coroutines[last] = nil
		r.coroutines = r.coroutines[:last]
	}
}

// ready makes a parked coroutine runnable, after the other runnable coroutines.
func (r *Run) ready(c *coroutine) {
	if c != nil && !c.queued && !c.over {
		c.queued = true
		r.runnable.push(c)
	}
}

// park suspends the coroutine until a call of ready. It does not return if the run is discarded: then deferred functions of
// the user run, and their operations on the run fail.
//
// REQUIRES: called on the coroutine.
func (c *coroutine) park() {
	if c.run.gone || !c.yield(struct{}{}) {
		runtime.Goexit()
	}
}

// kill unwinds the coroutine. A coroutine that leaves by Goexit also ends the goroutine that stops it, so kill uses an extra
// goroutine.
//
// REQUIRES: not called on a coroutine; Run.gone is set.
func (c *coroutine) kill() {
	if c.over {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.stop()
	}()
	<-done
	c.over = true
}

// panicked records that the function of the user panicked.
func (r *Run) panicked(p any, stack []byte) {
	r.fail(PausedPanicked, fmt.Sprintf("panic: %v\n\n%s", p, stack))
}
