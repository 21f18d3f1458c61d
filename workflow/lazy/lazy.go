// Package lazy has a context that is made only when Done is called.
package lazy

import (
	"context"
	"sync"
	"time"
)

// A Context ends when its parent ends or when it is canceled, as a context of
// context.WithCancelCause does. The first call of Done makes such a context; most bodies never call
// Done. The zero value is not usable before Init. It must not be copied.
type Context struct {
	parent context.Context

	mu     sync.Mutex
	made   context.Context // nil until the first call of Done, or of another method that needs it
	cancel context.CancelCauseFunc
	cause  error // the cause of a cancellation before it was made
}

// Init sets the parent of c. It must be called first.
func (c *Context) Init(parent context.Context) { c.parent = parent }

// Cancel ends c. Of several causes the first counts; nil is context.Canceled.
func (c *Context) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	cancel := c.cancel
	if cancel == nil && c.cause == nil && c.parent.Err() == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// real returns the context that c stands for.
func (c *Context) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made != nil {
		return c.made
	}
	if c.cause != nil {
		// the parent ended later, if at all
		c.made, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
		c.cancel(c.cause)
	} else {
		c.made, c.cancel = context.WithCancelCause(c.parent)
	}
	return c.made
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} { return c.real().Done() }

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	made, cause := c.made, c.cause
	c.mu.Unlock()
	switch {
	case made != nil:
		return made.Err()
	case cause != nil:
		return context.Canceled
	}
	return c.parent.Err()
}

// Value implements context.Context.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	made, cause := c.made, c.cause
	c.mu.Unlock()
	switch {
	case made != nil:
		return made.Value(key)
	case cause != nil:
		return c.real().Value(key) // package context reads the cause in this way
	}
	return c.parent.Value(key)
}
