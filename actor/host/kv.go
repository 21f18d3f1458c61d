package host

import "time"

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

// A KVPage is one page of a listing. A page that is filled again uses its memory again; that of keys and values only if it was
// transient. Else they stay valid, in blocks of up to 64 KiB, which are in memory as long as one of their entries is.
type KVPage struct {
	// Next is the last key of a page that is full, and else nil: then nothing follows.
	Next   []byte
	rows   []kvRow
	blocks [][]byte
}

// A kvRow describes an entry. It has no pointer: the collector has nothing to do with a page.
type kvRow struct {
	KVInfo
	block, at, key int32
	value          int32 // bytes; -1 is none
}

// kvBlock is how many bytes a block of a page has, unless one entry has more.
const kvBlock = 64 << 10

// Clear empties the page. What was in it stays valid.
func (p *KVPage) Clear() {
	p.Next, p.rows, p.blocks = nil, p.rows[:0], nil
}

// Add copies an entry to the end of the page, to which up to so many bytes are added in all.
func (p *KVPage) Add(key, value []byte, info KVInfo, most int) {
	need, last := len(key)+len(value), len(p.blocks)-1
	if last < 0 || cap(p.blocks[last])-len(p.blocks[last]) < need {
		p.blocks = append(p.blocks, make([]byte, 0, max(need, min(kvBlock, most))))
		last++
	}
	block := p.blocks[last]
	r := kvRow{KVInfo: info, block: int32(last), at: int32(len(block)), key: int32(len(key)), value: -1}
	if value != nil {
		r.value = int32(len(value))
	}
	p.rows = append(p.rows, r)
	p.blocks[last] = append(append(block, key...), value...)
}

// Len returns the number of entries.
func (p *KVPage) Len() int { return len(p.rows) }

// Entry returns an entry, counted from 0: its packed key, its value, and what is known of it.
func (p *KVPage) Entry(i int) (key, value []byte, info *KVInfo) {
	r := &p.rows[i]
	block, at := p.blocks[r.block], r.at+r.key
	if r.value >= 0 {
		value = block[at : at+r.value : at+r.value]
	}
	return block[r.at:at:at], value, &r.KVInfo
}
