package kernel

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

// RetryIn returns how long to wait before trying again: until the error's retry_at, or else d. It is no longer than a failed
// actor is left alone, because the error may be one that a handler has made.
func RetryIn(err error, d time.Duration) time.Duration {
	if e, ok := err.(*host.Error); ok {
		if at, perr := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"]); perr == nil {
			return min(max(time.Until(at), time.Millisecond), failureRetryMax)
		}
	}
	return d
}

// SettleRetry is how long a settlement, or the recovery of messages, that failed waits for its next attempt.
const SettleRetry = time.Second
