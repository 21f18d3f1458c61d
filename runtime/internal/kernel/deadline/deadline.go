// Package deadline has contexts with a deadline that cost nothing until code waits for them,
// because most handlers never do.
package deadline

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Context ends with its parent, at its deadline, or when its owner ends it. Its channel and its
// timer are made when the channel is first asked for. It keeps neither parent nor timer, so that it
// stays small: the owner gives them to each method. The parent may be nil.
type Context struct {
	// Mu guards the context, and what its owner keeps with it.
	Mu     sync.Mutex
	Closed bool // by its owner: the parent no longer matters
	ended  ending
	Start  time.Time     // constant
	limit  time.Duration // how long after Start it ends; constant
	done   chan struct{} // nil until it is asked for
	unlink func() bool   // from the parent, if that can end
}

// An ending is why a context has ended. It takes less room than the error.
type ending uint8

const (
	going ending = iota
	canceled
	expired
)

// endingOf returns the ending that the error of a context stands for.
func endingOf(err error) ending {
	switch {
	case err == nil:
		return going
	case errors.Is(err, context.DeadlineExceeded):
		return expired
	}
	return canceled
}

func (e ending) err() error {
	switch e {
	case canceled:
		return context.Canceled
	case expired:
		return context.DeadlineExceeded
	}
	return nil
}

// Begin sets the deadline: limit after start, or that of the parent if it comes before.
func (c *Context) Begin(parent context.Context, start time.Time, limit time.Duration) {
	if parent != nil {
		if d, ok := parent.Deadline(); ok {
			limit = min(limit, d.Sub(start))
		}
	}
	c.Start, c.limit = start, limit
}

// Latest returns when the context ends at the latest.
func (c *Context) Latest() time.Time { return c.Start.Add(c.limit) }

// Wait returns the channel that is closed when the context ends. first: this is the first call, and
// the context goes on.
//
// REQUIRES: c.Mu
func (c *Context) Wait(parent context.Context, timer *Timer) (done <-chan struct{}, first bool) {
	if c.done != nil {
		return c.done, false
	}
	c.ended = c.over(parent)
	c.done = make(chan struct{})
	if c.ended != going {
		close(c.done)
		return c.done, false
	}
	if parent != nil && parent.Done() != nil {
		c.unlink = context.AfterFunc(parent, func() { c.end(endingOf(parent.Err())) })
	}
	timer.start(c)
	return c.done, true
}

// Cause returns why the context has ended, or nil.
//
// REQUIRES: c.Mu
func (c *Context) Cause(parent context.Context) error {
	if c.done == nil {
		return c.over(parent).err()
	}
	return c.ended.err()
}

// over returns why the context has ended, as far as that shows without the channel.
//
// REQUIRES: c.Mu
func (c *Context) over(parent context.Context) ending {
	if c.Closed {
		return canceled
	}
	if parent != nil {
		if why := endingOf(parent.Err()); why != going {
			return why
		}
	}
	if time.Since(c.Start) >= c.limit {
		return expired
	}
	return going
}

// Cancel ends the context if the channel was asked for. Without the channel, Closed ends it.
func (c *Context) Cancel(timer *Timer) {
	c.Mu.Lock()
	asked := c.done != nil
	c.Mu.Unlock()
	if asked {
		c.end(canceled)
		timer.stop(c)
	}
}

// end closes the channel, which was asked for.
func (c *Context) end(why ending) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.ended != going {
		return
	}
	c.ended = why
	close(c.done)
	if c.unlink != nil {
		c.unlink()
	}
}
