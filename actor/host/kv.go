package host

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A KVEntry is one entry of an actor's key-value store.
type KVEntry struct {
	Key   tuple.Packed // neither it nor Value may be changed
	Value []byte
	KVInfo
}

// A KVInfo describes an entry.
type KVInfo struct {
	// Version is the version of the turn that wrote the entry last.
	Version uint64
	// CreatedMS, UpdatedMS and ExpireMS are the times in Unix milliseconds; 0 is never.
	CreatedMS, UpdatedMS, ExpireMS int64
	// Size is the size of the value in bytes, even if the value is left out.
	Size int
	// Encoding is the encoding of the value.
	Encoding Encoding
}

// Created returns since when there is an entry under the key.
func (i *KVInfo) Created() time.Time { return timeOf(i.CreatedMS) }

// Updated returns when the entry was put last.
func (i *KVInfo) Updated() time.Time { return timeOf(i.UpdatedMS) }

// Expire returns when the entry expires; zero for never.
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
	// The page ends with the entry that reaches Limit entries, or MaxBytes of keys and values; 0
	// means the default, 16,384 and 16 MiB.
	Limit, MaxBytes int
	// KeysOnly leaves the values out.
	KeysOnly bool
	// After continues after an earlier page: its Next.
	After []byte
}

// A KVPage is one page of a listing. Unless Reuse is set, its keys and values stay valid when it is
// filled again; each keeps a block of up to 64 KiB in memory.
type KVPage struct {
	Entries []KVEntry
	// Next is the last key of a full page. Nil means that nothing follows.
	Next []byte
	// Reuse reuses the memory of keys and values for the next page.
	Reuse bool

	block []byte // to which entries are added
}

// kvBlock is the size of a block of a page in bytes, unless one entry is larger.
const kvBlock = 64 << 10

// Clear empties the page.
func (p *KVPage) Clear() {
	if p.block = p.block[:0]; !p.Reuse {
		p.block = nil
		clear(p.Entries)
	}
	p.Next, p.Entries = nil, p.Entries[:0]
}

// Add copies a key and a value to the end of the page and returns the entry. most bounds the bytes
// that the page still gets. The caller sets the KVInfo.
func (p *KVPage) Add(key, value []byte, most int) *KVEntry {
	block, at, n := p.block, len(p.block), len(p.Entries)
	if need := len(key) + len(value); block == nil || cap(block)-at < need {
		block, at = p.begin(need, most), 0
	}
	block = append(append(block, key...), value...)
	p.block = block
	if n == cap(p.Entries) {
		p.Entries = slices.Grow(p.Entries, 1)
	}
	p.Entries = p.Entries[:n+1]
	e, mid := &p.Entries[n], at+len(key)
	if e.Key, e.Value = block[at:mid:mid], block[mid:len(block):len(block)]; value == nil {
		e.Value = nil
	}
	return e
}

// begin begins another block.
func (p *KVPage) begin(need, most int) []byte {
	size := max(need, min(kvBlock, most))
	if p.Reuse { // with room for all of a page, and for the entry that ends it
		size = need + min(kvBlock, max(most, 2*cap(p.block)))
	}
	return make([]byte, 0, size)
}
