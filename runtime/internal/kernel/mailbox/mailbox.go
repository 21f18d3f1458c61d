// Package mailbox keeps the items that wait for an actor, and the batch that the goroutine which
// runs the actor works through.
package mailbox

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A Box holds items in the order in which they came. The counts are safe for concurrent use.
// Everything else is guarded by the caller's mutex.
//
// An item waits until a batch gives it out. It counts for the box until then, or until Drain
// returns it.
type Box[T any] struct {
	// All is the bytes that wait in all boxes of the node. It must be set before the first Put.
	All *atomic.Int64
	// Waits observes how long items waited, about one in WaitSample; nil observes nothing. It must
	// be set before the first Put.
	Waits        *Waits
	count, bytes atomic.Int64
	puts         uint32 // from a random number on, to choose what Waits observes

	queue []entry[T]
	spare []entry[T] // empty: the array of an old batch, for the next queue
	taken *Batch[T]  // what Take returned last; nil if it was revoked
}

type entry[T any] struct {
	item  T
	bytes int64
	since int64 // when it came, in Unix nanoseconds; 0 if it is not observed
}

// WaitSample: one item in so many is observed.
const WaitSample = 64

// Waits observes how long items waited, in seconds.
type Waits struct{ Observe func(float64) }

// since returns when an item came, if its wait is observed. The first to be observed is chosen at
// random, so that boxes with few items count, too.
func (b *Box[T]) since() int64 {
	if b.puts == 0 {
		b.puts = rand.Uint32()
	}
	b.puts++
	if b.puts%WaitSample != 0 || b.Waits == nil {
		return 0
	}
	return time.Now().UnixNano()
}

// Limits bound what waits.
type Limits struct {
	Count int   // items in the box
	Bytes int64 // bytes in the box; one item may be larger
	All   int64 // bytes in all boxes; one item may be larger
}

// Fullness says which limit another item would exceed.
type Fullness uint8

// The limits that an item can exceed.
const (
	Room Fullness = iota // none
	FullCount
	FullBytes
	FullNode
)

// Check returns the limit that an item of so many bytes would exceed.
func (b *Box[T]) Check(bytes int64, l Limits) Fullness {
	mine, all := b.bytes.Load(), b.All.Load()
	switch {
	case b.count.Load() >= int64(l.Count):
		return FullCount
	case mine > 0 && mine+bytes > l.Bytes:
		return FullBytes
	case all > 0 && all+bytes > l.All:
		return FullNode
	}
	return Room
}

// Put adds an item that counts for so many bytes.
func (b *Box[T]) Put(item T, bytes int64) {
	b.add(1, bytes)
	b.queue = append(b.queue, entry[T]{item, bytes, b.since()})
}

// add changes the counts.
func (b *Box[T]) add(n, bytes int64) {
	b.count.Add(n)
	b.bytes.Add(bytes)
	b.All.Add(bytes)
}

// Count returns how many items wait, including items that a batch has not given out.
func (b *Box[T]) Count() int64 { return b.count.Load() }

// Bytes returns the size of these items.
func (b *Box[T]) Bytes() int64 { return b.bytes.Load() }

// Empty reports whether nothing waits outside a batch.
func (b *Box[T]) Empty() bool { return len(b.queue) == 0 }

// Take returns everything that waits as a batch; nil if nothing does. The caller owns the batch
// until the next Take, or until Revoke. It must have worked through the batch before.
func (b *Box[T]) Take() *Batch[T] {
	t := b.taken
	if t == nil {
		t = &Batch[T]{box: b}
		b.taken = t
	}
	if t.entries != nil {
		clear(t.entries)
		if cap(t.entries) <= maxSpare {
			b.spare = t.entries[:0]
		}
		t.entries = nil
	}
	if len(b.queue) == 0 {
		if b.spare != nil {
			b.queue, b.spare = b.spare, nil // an actor at rest keeps one array
		}
		return nil
	}
	t.entries = b.queue
	t.next.Store(0)
	b.queue, b.spare = b.spare, nil
	return t
}

// maxSpare is the capacity of the largest array that a box keeps.
const maxSpare = 256

// Revoke takes the batch away from its owner. The items that it has not given out wait again,
// before all others.
func (b *Box[T]) Revoke() {
	t := b.taken
	if t == nil {
		return
	}
	b.taken = nil
	rest := t.entries[min(t.next.Swap(revoked), int64(len(t.entries))):]
	if len(rest) > 0 {
		b.queue = append(append([]entry[T](nil), rest...), b.queue...)
	}
}

// Drain removes and returns everything that waits outside a batch.
func (b *Box[T]) Drain() []T {
	items := make([]T, len(b.queue))
	for i, e := range b.queue {
		items[i] = e.item
		b.add(-1, -e.bytes)
	}
	b.queue = nil
	return items
}

// A Batch has items that were taken from a box. It gives each item out once, to its owner. Revoke
// puts the rest back.
type Batch[T any] struct {
	box     *Box[T]
	entries []entry[T]   // changed by the owner, under the mutex of the box
	next    atomic.Int64 // the index of the next item to give out
}

// revoked is the next of a batch that gives out nothing.
const revoked = 1 << 40

// Next gives out an item. ok is false if none is left, or the batch was revoked. It needs no lock.
func (t *Batch[T]) Next() (item T, ok bool) {
	i := t.next.Load()
	if i >= int64(len(t.entries)) || !t.next.CompareAndSwap(i, i+1) {
		return item, false
	}
	e := &t.entries[i]
	t.box.add(-1, -e.bytes)
	if e.since != 0 {
		t.box.Waits.Observe(time.Duration(max(0, time.Now().UnixNano()-e.since)).Seconds())
	}
	return e.item, true
}
