// Package pace measures how long code usually takes, and estimates waits from that.
package pace

import (
	"sync/atomic"
	"time"
)

// QuickTurn is how long a turn may usually take to share a commit with the turns before it.
const QuickTurn = 500 * time.Microsecond

// The least and the most that a caller must wait for room in a mailbox.
const (
	MinDrain = 10 * time.Millisecond
	MaxDrain = time.Second
)

// An Average is a moving average of the time that something takes. The zero Average has no runs.
// Safe for concurrent use; of two runs that end together one may not count.
type Average struct{ ns atomic.Int64 }

// Add counts a run. Each counts for an eighth.
func (p *Average) Add(took time.Duration) {
	n := max(int64(took), 1)
	if old := p.ns.Load(); old > 0 {
		n = old + (n-old)/8
	}
	p.ns.Store(n)
}

// Quick reports whether so many runs together usually take less time than [QuickTurn].
func (p *Average) Quick(runs int) bool {
	n := p.ns.Load()
	return n > 0 && n*int64(runs) < int64(QuickTurn)
}

// Drain estimates when half of a full mailbox of n calls is done, if they take as long as next, or
// as the average of all when that is nil or has never run.
func Drain(next *Average, all []Average, n int64) time.Duration {
	var sum, known int64
	if next != nil {
		sum, known = next.ns.Load(), 1
	}
	if sum == 0 {
		known = 0
		for i := range all {
			if p := all[i].ns.Load(); p > 0 {
				sum, known = sum+p, known+1
			}
		}
	}
	if known == 0 {
		return MinDrain
	}
	return min(max(time.Duration(sum/known*(n/2)), MinDrain), MaxDrain)
}
