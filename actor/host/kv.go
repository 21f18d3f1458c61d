package host

import (
	"slices"
	"time"
)

// A KVEntry is one entry of an actor's key-value store.
type KVEntry struct {
	// Key is a packed tuple; it and Value must not be changed.
	Key, Value []byte
	KVInfo
}

// A KVInfo is what is known of an entry.
type KVInfo struct {
	// Version is that of the turn that wrote the entry last.
	Version uint64
	// CreatedMS, UpdatedMS and ExpireMS are the times in Unix milliseconds; 0 is never.
	CreatedMS, UpdatedMS, ExpireMS int64
	// Encoding says what the value is.
	Encoding Encoding
}

// Created returns since when there is an entry under the key.
func (i *KVInfo) Created() time.Time { return timeOf(i.CreatedMS) }

// Updated returns when the entry was put last.
func (i *KVInfo) Updated() time.Time { return timeOf(i.UpdatedMS) }

// Expire returns when the entry ceases to exist; zero for never.
func (i *KVInfo) Expire() time.Time { return timeOf(i.ExpireMS) }

// timeOf returns the time of Unix milliseconds; 0 is the zero time.
func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// A KVQuery selects entries by range: Start <= key < End. Nil bounds are the ends of the store.
type KVQuery struct {
	Start, End []byte
	Reverse    bool
	// The page ends with the entry with which it has Limit entries, or MaxBytes of keys and values; 0 means the default,
	// 16,384 and 16 MiB.
	Limit, MaxBytes int
	// KeysOnly leaves the values out.
	KeysOnly bool
	// After continues after an earlier page: its Next.
	After []byte
}

// A KVPage is one page of a listing. Keys and values stay valid when it is filled again, in blocks of up to 64 KiB, which are in
// memory as long as one of them is; unless Reuse is set.
type KVPage struct {
	// Next is the last key of a page that is full, and else nil: then nothing follows.
	Next []byte
	// Reuse uses the memory of keys and values for the next page.
	Reuse bool

	rows  []kvRow
	block []byte   // to which entries are added
	full  [][]byte // blocks before it
}

// A kvRow describes an entry. It has no pointer: the collector has nothing to do with a page.
type kvRow struct {
	KVInfo
	block, at, key int32
	value          int32 // bytes; -1 is none
}

// kvBlock is how many bytes a block of a page has, unless one entry has more.
const kvBlock = 64 << 10

// Clear empties the page.
func (p *KVPage) Clear() {
	if p.block = p.block[:0]; !p.Reuse {
		p.block = nil
	}
	p.Next, p.rows, p.full = nil, p.rows[:0], nil
}

// Add copies an entry to the end of the page, to which up to so many more bytes are added in all, and returns where to say what is
// known of it before the next is added.
func (p *KVPage) Add(key, value []byte, most int) *KVInfo {
	need, at, n := len(key)+len(value), len(p.block), len(p.rows)
	if p.block == nil || cap(p.block)-at < need {
		at = p.begin(need, most)
	}
	p.block = p.block[:at+need]
	copy(p.block[at:], key)
	copy(p.block[at+len(key):], value)
	if n == cap(p.rows) {
		p.rows = slices.Grow(p.rows, 1)
	}
	p.rows = p.rows[:n+1]
	r := &p.rows[n]
	r.block, r.at, r.key, r.value = int32(len(p.full)), int32(at), int32(len(key)), int32(len(value))
	if value == nil {
		r.value = -1
	}
	r.KVInfo = KVInfo{}
	return &r.KVInfo
}

// begin begins another block, and returns where the next entry is put in it.
func (p *KVPage) begin(need, most int) int {
	size := max(need, min(kvBlock, most))
	if p.Reuse { // with room for all of a page, and for the entry that ends it
		size = need + min(kvBlock, max(most, 2*cap(p.block)))
	}
	if len(p.block) > 0 {
		p.full = append(p.full, p.block)
	}
	p.block = make([]byte, 0, size)
	return 0
}

// Len returns the number of entries.
func (p *KVPage) Len() int { return len(p.rows) }

// Entry returns an entry, counted from 0: its packed key, its value, and what is known of it.
func (p *KVPage) Entry(i int) (key, value []byte, info *KVInfo) {
	r := &p.rows[i]
	block, at := p.block, r.at+r.key
	if int(r.block) < len(p.full) {
		block = p.full[r.block]
	}
	if r.value >= 0 {
		value = block[at : at+r.value : at+r.value]
	}
	return block[r.at:at:at], value, &r.KVInfo
}
