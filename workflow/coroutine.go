package workflow

import (
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
	// waits is what it is parked for, for people; nil while it runs.
	waits *op
}

// spawn makes a coroutine that will run body. It is runnable at once, after those that already are.
func (r *Run) spawn(body func(c *coroutine)) *coroutine {
	c := &coroutine{run: r}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			c.over = true
			if p := recover(); p != nil {
				r.panicked(p, debug.Stack())
			}
		}()
		body(c)
	})
	r.coroutines[c] = struct{}{}
	r.ready(c)
	return c
}

// ready makes a parked coroutine run on, after those that are runnable already.
func (r *Run) ready(c *coroutine) {
	if c != nil && !c.queued && !c.over {
		c.queued = true
		r.runnable = append(r.runnable, c)
	}
}

// park suspends the coroutine until somebody calls ready. It does not return if the run is discarded: deferred functions
// of the user run, and nothing that they ask of the run works any more.
//
// REQUIRES: called on the coroutine.
func (c *coroutine) park() {
	if c.run.gone || !c.yield(struct{}{}) {
		runtime.Goexit()
	}
}

// kill unwinds the coroutine. A coroutine that leaves by Goexit takes the goroutine that stops it along, so that is one of
// its own.
//
// REQUIRES: not called on a coroutine.
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
