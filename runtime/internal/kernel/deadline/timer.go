package deadline

import (
	"sync"
	"time"
)

// A Timer ends contexts at their deadlines, one context after the other. Most contexts end before,
// and setting a timer anew costs less than making one. The zero value is ready.
type Timer struct {
	mu    sync.Mutex
	timer *time.Timer // nil before the first context
	of    *Context    // nil while none waits
}

// start ends c at its deadline, unless stop is called before.
func (k *Timer) start(c *Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of = c
	wait := c.limit - time.Since(c.Start)
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, k.fire)
		return
	}
	k.timer.Reset(wait)
}

// stop forgets c. It may still end at its deadline if that comes at this moment.
func (k *Timer) stop(c *Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == c {
		k.of = nil
		k.timer.Stop()
	}
}

// fire is called by the timer, which may have been set for the context before.
func (k *Timer) fire() {
	k.mu.Lock()
	c := k.of
	if c != nil {
		if wait := c.limit - time.Since(c.Start); wait > 0 {
			k.timer.Reset(wait)
			c = nil
		} else {
			k.of = nil
		}
	}
	k.mu.Unlock()
	if c != nil {
		c.end(expired)
	}
}
