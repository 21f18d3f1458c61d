package engine

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/keyspace"
)

// overlay is the memory of a write set: the keys that it changes and the changes of the node's own
// rows. Its claims:
//
//  1. There is one slot for each key that was written or deleted, in the order of the first change.
//     A slot wins over hidden ranges, and those win over the store.
//  2. A slot keeps the key's metadata in the store (stored, base), so the commit can remove rows
//     that the new value does not overwrite.
//  3. Keys and values are copied into the arena; no memory of the caller is kept.
//
// Most turns change one to three keys, so those are found by comparing; from linearSlots on there
// is a hash table. Slots are sorted only when a list needs it.
type overlay struct {
	slots   []slot
	table   []int32 // slot + 1, open addressing; empty while there are few slots
	seed    maphash.Seed
	order   []int32 // the first len(order) slots, by key
	undo    []undo
	wakes   []wakeOp
	records []outboxRecord
	held    []*Savepoint // of Hold, in the order of their epochs
	arena   arena

	// The memory reserved from the store for write sets, and where. It is released all at once.
	reserved int64
	of       *writeMemory
}

// slot is a key of the write set.
type slot struct {
	key    []byte
	value  []byte
	meta   metadata // if live
	base   metadata // if stored
	epoch  uint32   // savepoint after which it was last changed
	live   bool     // written; otherwise deleted
	stored bool     // the store has rows of the key
	index  bool     // an entry of the expiry index, which does not count
	sought bool     // a lookup found the key in the store
}

// undo is a slot as it was before a change.
type undo struct {
	slot int32
	was  slot
}

// outboxRecord is a record of the outbox, or of the audit log. The commit stores its sequence
// number in seq, if that is not nil.
type outboxRecord struct {
	data  []byte
	seq   *uint64
	audit bool
}

type wakeOp struct {
	row  []byte
	due  int64
	kind keyspace.WakeKind
	set  bool
}

const linearSlots = 8

var overlayPool = sync.Pool{New: func() any { return &overlay{seed: maphash.MakeSeed()} }}

// release gives the memory back; large buffers are left to the collector.
func (o *overlay) release() {
	if o.of != nil {
		o.of.used.Add(-o.reserved)
		o.reserved, o.of = 0, nil
	}
	const keep = 256
	if cap(o.slots) > keep || cap(o.undo) > keep || cap(o.wakes) > keep || cap(o.records) > keep {
		return
	}
	clear(o.slots)
	clear(o.undo)
	clear(o.wakes)
	clear(o.records)
	clear(o.held)
	o.slots, o.undo = o.slots[:0], o.undo[:0]
	o.wakes, o.records, o.held = o.wakes[:0], o.records[:0], o.held[:0]
	o.order, o.table = o.order[:0], o.table[:0]
	o.arena.reset()
	overlayPool.Put(o)
}

// find returns the slot of a key, or -1.
func (o *overlay) find(key []byte) int {
	if o == nil {
		return -1
	}
	if len(o.slots) <= linearSlots {
		for i := range o.slots {
			if bytes.Equal(o.slots[i].key, key) {
				return i
			}
		}
		return -1
	}
	mask := uint64(len(o.table) - 1)
	for at := maphash.Bytes(o.seed, key) & mask; ; at = (at + 1) & mask {
		i := o.table[at]
		if i == 0 {
			return -1
		}
		if bytes.Equal(o.slots[i-1].key, key) {
			return int(i - 1)
		}
	}
}

// add makes a slot for a key that has none and returns it. Pointers to other
// slots are invalid after it.
func (o *overlay) add(key []byte) *slot {
	o.slots = append(o.slots, slot{key: o.arena.copy(key)})
	if n := len(o.slots); n > linearSlots {
		if 2*n > len(o.table) {
			o.rehash()
		} else {
			o.enter(n - 1)
		}
	}
	return &o.slots[len(o.slots)-1]
}

func (o *overlay) enter(i int) {
	mask := uint64(len(o.table) - 1)
	at := maphash.Bytes(o.seed, o.slots[i].key) & mask
	for o.table[at] != 0 {
		at = (at + 1) & mask
	}
	o.table[at] = int32(i + 1)
}

// rehash rebuilds the table, with room for twice the slots.
func (o *overlay) rehash() {
	size := 4 * linearSlots
	for size < 4*len(o.slots) {
		size *= 2
	}
	if cap(o.table) >= size {
		o.table = o.table[:size]
		clear(o.table)
	} else {
		o.table = make([]int32, size)
	}
	for i := range o.slots {
		o.enter(i)
	}
}

// truncate removes the slots from n on.
func (o *overlay) truncate(n int) {
	if n == len(o.slots) {
		return
	}
	clear(o.slots[n:])
	o.slots = o.slots[:n]
	o.order = slices.DeleteFunc(o.order, func(i int32) bool { return int(i) >= n })
	if n > linearSlots {
		o.rehash()
	} else {
		o.table = o.table[:0]
	}
}

// sorted returns the slots in the order of their keys.
func (o *overlay) sorted() []int32 {
	if o == nil {
		return nil
	}
	compare := func(a, b int32) int { return bytes.Compare(o.slots[a].key, o.slots[b].key) }
	done, all := len(o.order), len(o.slots)
	if all-done <= 16 {
		// A few new keys: move them to their places, which costs less than a sort if lists and
		// writes alternate.
		for i := done; i < all; i++ {
			at, _ := slices.BinarySearchFunc(o.order, int32(i), compare)
			o.order = slices.Insert(o.order, at, int32(i))
		}
		return o.order
	}
	for i := done; i < all; i++ {
		o.order = append(o.order, int32(i))
	}
	slices.SortFunc(o.order, compare)
	return o.order
}

// arena is memory that is taken piece by piece and freed at once.
type arena struct {
	blocks [][]byte // the last one is being filled
	held   int      // bytes taken
}

const (
	firstBlock   = 4 << 10
	largestBlock = 1 << 20
	keptBlock    = 64 << 10 // the most that a pooled arena may keep
)

// alloc returns n bytes of undefined content.
func (a *arena) alloc(n int) []byte {
	a.held += n
	last := len(a.blocks) - 1
	if last < 0 || cap(a.blocks[last])-len(a.blocks[last]) < n {
		size := firstBlock
		if last >= 0 {
			size = min(2*cap(a.blocks[last]), largestBlock)
		}
		a.blocks = append(a.blocks, make([]byte, 0, max(size, n)))
		last++
	}
	from := len(a.blocks[last])
	a.blocks[last] = a.blocks[last][:from+n]
	return a.blocks[last][from : from+n : from+n]
}

func (a *arena) copy(b []byte) []byte {
	c := a.alloc(len(b))
	copy(c, b)
	return c
}

// mark is a state of the arena to return to.
type mark struct{ blocks, used, held int }

func (a *arena) mark() mark {
	m := mark{blocks: len(a.blocks), held: a.held}
	if m.blocks > 0 {
		m.used = len(a.blocks[m.blocks-1])
	}
	return m
}

// rewind gives back everything taken after the mark.
func (a *arena) rewind(m mark) {
	clear(a.blocks[m.blocks:])
	a.blocks = a.blocks[:m.blocks]
	if m.blocks > 0 {
		a.blocks[m.blocks-1] = a.blocks[m.blocks-1][:m.used]
	}
	a.held = m.held
}

// reset gives back everything. It keeps one block, large enough for the bytes taken this time
// unless they were many.
func (a *arena) reset() {
	switch {
	case len(a.blocks) == 1 && cap(a.blocks[0]) <= keptBlock:
		a.blocks[0] = a.blocks[0][:0]
	case len(a.blocks) > 1 && a.held <= keptBlock/2:
		size := firstBlock
		for size < a.held {
			size *= 2
		}
		clear(a.blocks)
		a.blocks = append(a.blocks[:0], make([]byte, 0, size))
	default:
		a.blocks = nil
	}
	a.held = 0
}
