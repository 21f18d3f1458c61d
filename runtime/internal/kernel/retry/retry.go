// Package retry computes when to try again after a failure, and remembers the actors that have
// failed.
package retry

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// Backoff is the wait before attempt n+1: first doubling up to limit.
func Backoff(n int, first, limit time.Duration) time.Duration {
	if n < 1 {
		return 0
	}
	if n > 30 {
		return limit
	}
	return min(first<<(n-1), limit)
}

// At returns the time that an error names for another try.
func At(err error) (time.Time, bool) {
	if e, ok := err.(*host.Error); ok {
		if at, perr := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"]); perr == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// In returns how long to wait before trying again: until the time that the error names, or else d.
// It is at most the time for which a failed actor is left alone, because a handler may have made
// the error.
func In(err error, d time.Duration) time.Duration {
	if at, ok := At(err); ok {
		return min(max(time.Until(at), time.Millisecond), maxRest)
	}
	return d
}

// Soon is the wait before another try of work that hardly ever fails: a settlement, or the recovery
// of messages.
const Soon = time.Second
