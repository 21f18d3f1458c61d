package kernel

import (
	"sync/atomic"
	"time"
)

// A batch is work that was taken from the mailbox. Each item is given out once: to the goroutine that runs the actor, or,
// with everything after it, to one that takes the actor away.
type batch struct {
	items []*Work
	next  atomic.Int64 // the index of the next item to give out
}

// revoked is the next of a batch that gives out nothing any more.
const revoked = 1 << 40

func (b *batch) take() (*Work, bool) {
	i := b.next.Load()
	if i >= int64(len(b.items)) || !b.next.CompareAndSwap(i, i+1) {
		return nil, false
	}
	return b.items[i], true
}

// revoke returns what was not given out.
//
// REQUIRES: Actor.Mu.
func (b *batch) revoke() []*Work {
	i := b.next.Swap(revoked)
	return append([]*Work(nil), b.items[min(i, int64(len(b.items))):]...)
}

// An actor that has done so much work without a respite, in milliseconds, lets every goroutine run that is ready before it
// goes on. Otherwise a busy actor and its callers hand one processor to each other for as long as the scheduler lets them,
// 10 milliseconds at a time, while the other callers and all other actors wait. Callers that come together share commits.
const (
	maxStreak = 16
	respite   = 5
)

// A commit is shared by at most so many turns, about so many bytes and turns that took about so long, which bounds how
// long the first reply waits for the last turn.
const (
	MaxGroupTurns = 256
	MaxGroupBytes = 1 << 20
	MaxGroupTime  = 5 * time.Millisecond
	// QuickTurn is how long a turn may usually take to share a commit with the turns before it.
	QuickTurn = 500 * time.Microsecond
)

// Fast reports whether what has run at this pace may share a commit.
func Fast(pace *atomic.Int64) bool {
	p := pace.Load()
	return p > 0 && p < int64(QuickTurn)
}
