// Package tally counts what an actor does while it is in memory.
package tally

import (
	"sync/atomic"
	"time"
)

// Totals are counts of some time.
type Totals struct {
	Calls   int64 // that were answered: actions, queries and built-in methods
	Turns   int64
	Time    time.Duration // in handlers of turns and queries
	Written int64         // bytes of commits
	Sent    int64         // bytes of answers
}

// Add returns the counts of t and u together.
func (t Totals) Add(u Totals) Totals {
	return Totals{t.Calls + u.Calls, t.Turns + u.Turns, t.Time + u.Time, t.Written + u.Written, t.Sent + u.Sent}
}

// A Tally counts what one actor does, until Take. The zero Tally has counted nothing. Safe for
// concurrent use, and cheap: each method is a few atomic additions.
type Tally struct {
	calls, turns        atomic.Uint32 // which Take empties every minute
	time, written, sent atomic.Int64

	size atomic.Int64
}

// Turn counts a turn.
func (t *Tally) Turn(took time.Duration) {
	t.turns.Add(1)
	t.time.Add(int64(took))
}

// Answer counts the answer to a call, if it is one.
func (t *Tally) Answer(call bool, bytes int) {
	if call {
		t.calls.Add(1)
		t.sent.Add(int64(bytes))
	}
}

// Query counts a query.
func (t *Tally) Query(took time.Duration, bytes int) {
	t.calls.Add(1)
	t.time.Add(int64(took))
	t.sent.Add(int64(bytes))
}

// Commit counts the bytes of a commit. size is what the actor has stored then.
func (t *Tally) Commit(bytes int, size int64) {
	t.written.Add(int64(bytes))
	t.size.Store(size)
}

// Send counts bytes that leave the actor for a client that follows it.
func (t *Tally) Send(bytes int) { t.sent.Add(int64(bytes)) }

// Totals returns the counts.
func (t *Tally) Totals() Totals {
	return Totals{int64(t.calls.Load()), int64(t.turns.Load()), time.Duration(t.time.Load()),
		t.written.Load(), t.sent.Load()}
}

// Take returns the counts, and begins anew.
func (t *Tally) Take() Totals {
	if t.Totals() == (Totals{}) {
		return Totals{}
	}
	return Totals{int64(t.calls.Swap(0)), int64(t.turns.Swap(0)), time.Duration(t.time.Swap(0)),
		t.written.Swap(0), t.sent.Swap(0)}
}

// Size returns the bytes of keys and values that the actor has, as of its last commit or SetSize.
func (t *Tally) Size() int64 { return t.size.Load() }

// SetSize sets what an actor has that was woken.
func (t *Tally) SetSize(bytes int64) { t.size.Store(bytes) }
