package replay

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync"
)

// Coroutines keeps the goroutines of ended coroutines for new ones of any run, so that their stacks
// need not grow again.
type Coroutines struct {
	// Begin is called on the goroutine of each coroutine before it runs; nil for nothing.
	Begin func()

	mu     sync.Mutex
	free   []*carrier
	closed bool
}

// maxFree is how many goroutines are kept: enough for the runs of one sync of the log.
const maxFree = 256

// A carrier is the goroutine of one coroutine after another.
type carrier struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	of    *coroutine // the current one
}

// get returns a carrier that runs c from the first next on.
func (s *Coroutines) get(c *coroutine) *carrier {
	var t *carrier
	if s != nil {
		s.mu.Lock()
		if last := len(s.free) - 1; last >= 0 {
			t, s.free[last] = s.free[last], nil
			s.free = s.free[:last]
		}
		s.mu.Unlock()
	}
	if t == nil {
		t = s.make()
	}
	t.of = c
	return t
}

func (s *Coroutines) make() *carrier {
	t := new(carrier)
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for more := true; more; more = yield(struct{}{}) {
			if s != nil && s.Begin != nil {
				s.Begin()
			}
			t.of.main()
			t.of = nil
		}
	})
	return t
}

// put takes back a carrier whose coroutine has ended.
func (s *Coroutines) put(t *carrier) {
	if s == nil || !s.keep(t) {
		t.stop()
	}
}

func (s *Coroutines) keep(t *carrier) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free) == maxFree {
		return false
	}
	s.free = append(s.free, t)
	return true
}

// Close ends the goroutines that are kept. Runs may go on; theirs end with their coroutines.
func (s *Coroutines) Close() {
	s.mu.Lock()
	free := s.free
	s.free, s.closed = nil, true
	s.mu.Unlock()
	for _, t := range free {
		t.stop()
	}
}

// A coroutine runs one strand of a workflow function: the root, or one branch. Only one coroutine
// of a run executes at a time.
type coroutine struct {
	run     *Run
	body    func(c *coroutine)
	carrier *carrier
	queued  bool // stands in Run.runnable
	over    bool
	index   int // in Run.coroutines
	// waits is the op that it is parked for, for Stack and status; nil while it runs.
	waits *op
}

// spawn makes a coroutine that will run body. It is runnable at once, after the other runnable
// coroutines.
func (r *Run) spawn(body func(c *coroutine)) *coroutine {
	c := &coroutine{run: r, body: body, index: len(r.coroutines)}
	c.carrier = r.options.Coroutines.get(c)
	r.coroutines = append(r.coroutines, c)
	r.ready(c)
	return c
}

// main runs the body of the coroutine. Run.Stack finds it by its name in the stacks of goroutines.
//
//go:noinline
func (c *coroutine) main() {
	r := c.run
	returned := false
	defer func() {
		if !returned {
			if p := recover(); p != nil {
				r.panicked(p, debug.Stack())
			} else if !r.gone {
				// The function called runtime.Goexit. Unstopped, that would end the goroutine that
				// drives the run, so the coroutine stays here until it is killed.
				r.fail(PausedPanicked,
					"the function called runtime.Goexit (a failed assertion of a test does)\n\n"+string(debug.Stack()))
				c.carrier.yield(struct{}{})
			}
		}
		c.over = true
	}()
	c.body(c)
	returned = true
}

// step runs a coroutine until it parks or ends.
//
// REQUIRES: called by the driver.
func (r *Run) step(c *coroutine) {
	r.current.Store(c)
	r.moves.enter()
	c.carrier.next()
	r.moves.leave()
	r.current.Store(nil)
	if c.over {
		r.options.Coroutines.put(c.carrier)
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

// park suspends the coroutine until a call of ready. It does not return if the run is discarded:
// then deferred functions of the user run, and their operations on the run fail.
//
// REQUIRES: called on the coroutine.
func (c *coroutine) park() {
	if c.run.gone || c.over || !c.carrier.yield(struct{}{}) {
		runtime.Goexit()
	}
}

// kill unwinds the coroutine. A coroutine that leaves by Goexit also ends the goroutine that stops
// it, so kill uses an extra goroutine.
//
// REQUIRES: not called on a coroutine; Run.gone is set.
func (c *coroutine) kill() {
	if c.over {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.carrier.stop()
	}()
	<-done
	c.over = true
}

// panicked records that the function of the user panicked.
func (r *Run) panicked(p any, stack []byte) {
	r.fail(PausedPanicked, fmt.Sprintf("panic: %v\n\n%s", p, stack))
}
