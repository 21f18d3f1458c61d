package timed

import (
	"context"
	"time"
)

// Await waits for done, and returns false if ctx ends before. The timer, nil at first, is for the
// deadline of a [Context], which then makes none itself; a caller that waits again passes the same
// timer.
func Await(ctx context.Context, done <-chan struct{}, timer **time.Timer) bool {
	if c, ok := ctx.(*Context); ok {
		if parent, at, ok := c.Unmade(); ok {
			select {
			case <-done:
				if *timer != nil {
					(*timer).Stop()
				}
				return true
			case <-parent.Done():
			case <-until(at, timer):
			}
			(*timer).Stop()
		}
	}
	ended := ctx.Done()
	if ended == nil {
		<-done
		return true
	}
	select {
	case <-done:
		return true
	case <-ended:
		return false
	}
}

// until returns a channel that has a value from a time on, until the timer is stopped.
func until(at time.Time, timer **time.Timer) <-chan time.Time {
	if *timer == nil {
		*timer = time.NewTimer(time.Until(at))
	} else {
		(*timer).Reset(time.Until(at))
	}
	return (*timer).C
}
