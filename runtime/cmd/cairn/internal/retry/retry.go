// Package retry tells errors that may go away by themselves, and waits between attempts.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// Shortest is the first pause, and longest the last: each is twice as long as the one before.
	Shortest = 250 * time.Millisecond
	longest  = 10 * time.Second
)

// Passes reports whether an error of a node may go away by itself.
func Passes(err error) bool {
	var e *host.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case host.Unavailable, host.Overloaded, host.ActorPaused, host.ActorFailed,
		host.DeadlineExceeded, host.Canceled, host.Crashed, host.Internal:
		return true
	}
	return e.Retryable
}

// A Backoff is a row of pauses between attempts. The zero value begins with the shortest.
type Backoff struct{ next time.Duration }

// First reports whether there was no pause since the last Reset.
func (b *Backoff) First() bool { return b.next == 0 }

// Peek returns how long the next pause is.
func (b *Backoff) Peek() time.Duration { return max(b.next, Shortest) }

// Wait pauses, or returns early when ctx ends.
func (b *Backoff) Wait(ctx context.Context) {
	pause := time.NewTimer(b.Peek())
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	b.next = min(2*b.Peek(), longest)
}

// Reset begins again, because an attempt went well.
func (b *Backoff) Reset() { b.next = 0 }
