// Package timed has contexts with a deadline that cost nothing until something waits for their
// Done.
package timed

import (
	"context"
	"sync"
	"time"
)

// A Context ends with its parent, at its deadline, or when it is canceled, like a context of
// context.WithDeadline. The first call of Done makes such a context. The first call of Err, Cancel
// or Done after the end decides why it has ended; if two ends came before that call, it may be
// either.
type Context struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	ended  error           // nil until an end was found
	made   context.Context // nil until Done is called
	cancel context.CancelFunc
}

// Until returns a context for use until a deadline, or that of its parent if it comes before. The
// caller must call Cancel.
func Until(parent context.Context, at time.Time) *Context {
	if d, ok := parent.Deadline(); ok && d.Before(at) {
		at = d
	}
	return &Context{parent: parent, at: at}
}

// Unmade returns the parent, for a waiter that waits for it and has a timer for the deadline. Such
// a waiter does not notice a Cancel while it waits. When the parent or the timer ends, it waits for
// Done, which takes a moment at most. ok is false if Done was called or an end was found: then it
// waits for Done at once.
func (c *Context) Unmade() (parent context.Context, at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parent, c.at, c.made == nil && c.ended == nil
}

// find returns why the context has ended, or nil. REQUIRES: mu
func (c *Context) find() error {
	switch {
	case c.made != nil:
		return c.made.Err()
	case c.ended != nil:
	case c.parent.Err() != nil:
		c.ended = c.parent.Err()
	case !time.Now().Before(c.at):
		c.ended = context.DeadlineExceeded
	}
	return c.ended
}

// Cancel ends the context.
func (c *Context) Cancel() {
	c.mu.Lock()
	if c.find() == nil {
		c.ended = context.Canceled
	}
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// real returns the context that c stands for. REQUIRES: mu
func (c *Context) real() context.Context {
	if c.made != nil {
		return c.made
	}
	switch c.find() {
	case nil:
		c.made, c.cancel = context.WithDeadline(c.parent, c.at)
	case context.DeadlineExceeded: // the parent may have another reason meanwhile
		c.made, c.cancel = context.WithDeadline(context.WithoutCancel(c.parent), time.Unix(0, 0))
	default:
		c.made, c.cancel = context.WithCancel(context.WithoutCancel(c.parent))
		c.cancel()
	}
	return c.made
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.at, true }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.real().Done()
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find()
}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	from := c.parent
	if c.made != nil || c.ended != nil {
		from = c.real() // package context asks for the cause in this way
	}
	c.mu.Unlock()
	return from.Value(key)
}
