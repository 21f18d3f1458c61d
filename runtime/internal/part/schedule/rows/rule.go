package schedulerows

import (
	"math"
	"time"
)

// A rule computes the ticks of a schedule, in Unix ms. One of clock, every and at is set.
type rule struct {
	clock         *clock
	every, anchor int64
	at            int64
}

// after returns the first tick after ms; 0 if there is none.
func (r *rule) after(ms int64) int64 {
	switch {
	case r.at != 0:
		if ms < r.at {
			return r.at
		}
		return 0
	case r.every != 0:
		if ms < r.anchor {
			return r.anchor + r.every
		}
		if ms > maxTime-r.every {
			return 0
		}
		return r.anchor + ((ms-r.anchor)/r.every+1)*r.every
	}
	if ms > maxTime {
		return 0
	}
	t := r.clock.next(time.UnixMilli(ms))
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// maxTime is the end of the year 9999, beyond which times cannot be written as RFC 3339.
const maxTime = 253402300799999

// countMost is how many ticks of an expression are counted one by one. More than that can be missed
// only by schedules that tick every few seconds, over hours; then the count stops there.
const countMost = 100_000

// due looks at the ticks from next, which is one, up to now. n counts them, and first is the first
// of the last few: the last limit ticks are not before it.
func (r *rule) due(next, now int64, limit int) (n uint64, first int64) {
	switch {
	case next > now || next == 0:
		return 0, 0
	case r.at != 0:
		return 1, next
	case r.every != 0:
		n = uint64((now-next)/r.every) + 1
		return n, next + int64(n-min(n, uint64(limit)))*r.every
	}
	last := make([]int64, min(limit, countMost))
	for t := next; t != 0 && t <= now; t = r.after(t) {
		if n >= countMost {
			return n, r.tail(next, now, limit)
		}
		last[n%uint64(len(last))] = t
		n++
	}
	if n <= uint64(len(last)) {
		return n, next
	}
	return n, last[n%uint64(len(last))]
}

// tail returns the first of the last limit ticks from next up to now, by bisection: a tick takes at
// least a second. There are more than limit ticks.
func (r *rule) tail(next, now int64, limit int) int64 {
	enough := func(from int64) bool { // there are limit ticks after from
		for range limit {
			if from = r.after(from); from == 0 || from > now {
				return false
			}
		}
		return true
	}
	lo, hi := next-1, now // enough(lo), not enough(hi)
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; enough(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return r.after(lo)
}

// A one-shot that fails is tried again after 1 second, doubling up to 5 minutes, as an alarm is.
const (
	retryMin = int64(time.Second / time.Millisecond)
	retryMax = int64(5 * time.Minute / time.Millisecond)
)

// backoff is the wait before attempt n+1, in ms.
func backoff(n int) int64 {
	if n < 1 {
		return 0
	}
	if n > 20 {
		return retryMax
	}
	return min(retryMin<<(n-1), retryMax)
}

// maxEvery is the longest interval, in ms: a hundred years.
const maxEvery = 100 * 366 * 24 * int64(time.Hour/time.Millisecond)

// maxPayload bounds a payload, maxInstance the instance of a schedule, in bytes.
const (
	maxPayload  = 128 << 10
	maxInstance = 256
)

// clampMS returns a time in Unix ms, not before the first.
func clampMS(t time.Time) int64 { return min(max(t.UnixMilli(), 1), math.MaxInt64/2) }
