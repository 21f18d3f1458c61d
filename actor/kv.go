package actor

import (
	"bytes"
	"errors"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// pageEntries and pageBytes bound the pages that an iterator reads, and firstBytes the first one.
const (
	pageEntries = 512
	pageBytes   = 64 << 10
	firstBytes  = 4 << 10
)

// A ReadKV reads an actor's key-value store, whose keys are tuples in tuple order. The entries of
// the type's maps are in the same store, under keys that begin with the map's name; [Map] is the
// typed way to them.
type ReadKV struct{ r host.Reader }

// An Entry is one entry of the store as it is kept, with the times of its last write and expiry.
type Entry struct {
	// Key is decoded by its method Unpack.
	Key tuple.Packed
	// Value must not be changed. It is nil in listings with [KeysOnly]. A value from a listing
	// keeps a block of up to 64 KiB in memory; see [Borrowed] for long listings.
	Value []byte
	host.KVInfo
}

// Get returns the value under a key, which must not be changed; false means that there is none.
func (kv ReadKV) Get(key tuple.Tuple) ([]byte, bool, error) {
	k, err := packKey(nil, key)
	if err != nil {
		return nil, false, err
	}
	e, ok, err := kv.r.KVGet(k)
	return e.Value, ok, err
}

// Entry returns the entry under a key; false means that there is none.
func (kv ReadKV) Entry(key tuple.Tuple) (Entry, bool, error) {
	k, err := packKey(nil, key)
	if err != nil {
		return Entry{}, false, err
	}
	e, ok, err := kv.r.KVGet(k)
	if err != nil || !ok {
		return Entry{}, false, err
	}
	return Entry{k, e.Value, e.KVInfo}, true, nil
}

// List ranges over the entries whose keys begin with the elements of prefix; a nil prefix selects
// all. It reads page by page: in a turn, entries that the loop itself writes may or may not appear.
// An error ends it.
func (kv ReadKV) List(prefix tuple.Tuple, opts ...ListOption) iter.Seq2[Entry, error] {
	p, err := packKey(nil, prefix)
	return kv.list(elementRange(p), err, opts)
}

// Count counts the entries whose keys begin with the elements of prefix; a nil prefix selects all.
// It reads one row if a scope has the prefix, and all keys otherwise.
func (kv ReadKV) Count(prefix tuple.Tuple) (int64, error) {
	p, err := packKey(nil, prefix)
	if err != nil {
		return 0, err
	}
	return kv.r.KVCount(p)
}

// Range ranges over the entries with from <= key < to. A nil bound is the beginning or the end of
// the store. Otherwise it is like List.
func (kv ReadKV) Range(from, to tuple.Tuple, opts ...ListOption) iter.Seq2[Entry, error] {
	span, err := boundedRange(from, to)
	return kv.list(span, err, opts)
}

func (kv ReadKV) list(span keyRange, err error, opts []ListOption) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err != nil {
			yield(Entry{}, err)
			return
		}
		l := newListing(opts)
		p := newPager(kv.r, span, l)
		p.page.Reuse = l.borrowed
		for p.next() {
			for i := range p.page.Entries {
				e := (*Entry)(&p.page.Entries[i])
				if !yield(*e, nil) {
					return
				}
			}
		}
		if p.err != nil {
			yield(Entry{}, p.err)
		}
	}
}

// A KV reads and writes an actor's key-value store in a turn. Reads see the turn's own writes.
type KV struct {
	ReadKV
	turn host.Turn
	ctx  *Context
}

// Put stores a value as bytes, or with the encoding that [Encoded] sets. Neither the key nor the
// value may be changed before the turn ends. The error code is TooLarge or QuotaExceeded if a limit
// is exceeded; the entry is then as before, and the handler may go on.
func (kv KV) Put(key tuple.Tuple, value []byte, opts ...PutOption) error {
	k, err := packKey(nil, key)
	if err != nil {
		return err
	}
	return put(kv.turn, k, value, host.EncodedBytes, opts)
}

// Delete removes an entry and reports whether there was one.
func (kv KV) Delete(key tuple.Tuple) (bool, error) {
	k, err := packKey(nil, key)
	if err != nil {
		return false, err
	}
	return kv.turn.KVDelete(k)
}

// DeletePrefix removes the entries whose keys begin with the elements of prefix and counts them.
func (kv KV) DeletePrefix(prefix tuple.Tuple) (int64, error) {
	p, err := packKey(nil, prefix)
	if err != nil {
		return 0, err
	}
	return deleteRange(kv.turn, elementRange(p))
}

// DeleteRange removes the entries with from <= key < to and counts them. A nil bound is the
// beginning or the end of the store.
func (kv KV) DeleteRange(from, to tuple.Tuple) (int64, error) {
	span, err := boundedRange(from, to)
	if err != nil {
		return 0, err
	}
	return deleteRange(kv.turn, span)
}

func deleteRange(t host.Turn, span keyRange) (int64, error) {
	if span.empty() {
		return 0, nil
	}
	return t.KVDeleteRange(span.start, span.end)
}

// put stores a value under a packed key.
func put(t host.Turn, key, value []byte, encoding host.Encoding, opts []PutOption) error {
	p := putting{encoding: encoding}
	if len(opts) > 0 {
		p.now = t.Now()
	}
	for _, o := range opts {
		o.applyPut(&p)
	}
	if p.expires && !p.expire.After(p.now) {
		return Errorf(InvalidArgument, "the entry would expire at %s, which is not in the future",
			p.expire.UTC().Format(time.RFC3339))
	}
	return t.KVPut(key, value, p.encoding, p.expire)
}

// A PutOption changes how one entry is stored.
type PutOption interface{ applyPut(*putting) }

// putting holds the settings of PutOptions.
type putting struct {
	now, expire time.Time
	expires     bool
	encoding    host.Encoding
}

// Encoded sets the encoding of the value's bytes, for other readers: callers of the methods kv.*
// see the value as JSON. A [Map] stores CBOR and needs no other encoding.
func Encoded(as host.Encoding) PutOption { return encoded(as) }

type encoded host.Encoding

func (e encoded) applyPut(p *putting) { p.encoding = host.Encoding(e) }

// TTL makes the entry expire d after the turn's time. Expired entries are never read; some time
// later they are removed and credited to the quota.
func TTL(d time.Duration) PutOption { return ttl(d) }

type ttl time.Duration

func (d ttl) applyPut(p *putting) { p.expires, p.expire = true, p.now.Add(time.Duration(d)) }

// ExpireAt makes the entry expire at a time, like [TTL].
func ExpireAt(t time.Time) PutOption { return expireAt(t) }

type expireAt time.Time

func (t expireAt) applyPut(p *putting) { p.expires, p.expire = true, time.Time(t) }

// A ListOption changes a listing of entries.
type ListOption interface{ applyList(*listing) }

// Reverse lists from the last key to the first.
func Reverse() ListOption { return reverse{} }

type reverse struct{}

func (reverse) applyList(l *listing) { l.reverse = true }

// Limit ends the listing after n entries; 0 or less does not limit it.
func Limit(n int) ListOption { return limit(n) }

type limit int

func (n limit) applyList(l *listing) { l.limit = int(n) }

// KeysOnly leaves the values out of the listing.
func KeysOnly() ListOption { return keysOnly{} }

type keysOnly struct{}

func (keysOnly) applyList(l *listing) { l.keysOnly = true }

// Borrowed reuses the memory of keys and values in a raw listing, which makes long listings faster.
// They are valid only until the loop's next step, as with a database iterator: copy what you keep.
// Entries of a [Map] stay valid with it.
func Borrowed() ListOption { return borrowed{} }

type borrowed struct{}

func (borrowed) applyList(l *listing) { l.borrowed = true }

// A listing holds the settings of ListOptions.
type listing struct {
	reverse, keysOnly, borrowed bool
	limit                       int
}

func newListing(opts []ListOption) listing {
	var l listing
	for _, o := range opts {
		o.applyList(&l)
	}
	return l
}

// A keyRange selects packed keys: start <= key < end. Nil bounds are the ends of the store.
type keyRange struct{ start, end []byte }

func (s keyRange) empty() bool { return s.end != nil && bytes.Compare(s.start, s.end) >= 0 }

// boundedRange selects the keys with from <= key < to; nil bounds are the ends of the store.
func boundedRange(from, to tuple.Tuple) (span keyRange, err error) {
	if from != nil {
		if span.start, err = packKey(nil, from); err != nil {
			return keyRange{}, err
		}
	}
	if to != nil {
		if span.end, err = packKey([]byte{}, to); err != nil {
			return keyRange{}, err
		}
	}
	return span, nil
}

// A pager reads a range of the store page by page.
type pager struct {
	r    host.Reader
	q    host.KVQuery
	page host.KVPage
	left int // entries; 0 or less is without a limit
	end  bool
	err  error
}

func newPager(r host.Reader, span keyRange, l listing) *pager {
	q := host.KVQuery{Start: span.start, End: span.end, Reverse: l.reverse, KeysOnly: l.keysOnly,
		Limit: pageEntries, MaxBytes: firstBytes}
	return &pager{r: r, q: q, left: l.limit, end: span.empty()}
}

// next reads the next page. It returns false at the end, and after an error.
func (p *pager) next() bool {
	if p.end {
		return false
	}
	if p.left > 0 {
		p.q.Limit = min(pageEntries, p.left)
	}
	if p.err = p.r.KVList(p.q, &p.page); p.err != nil {
		return false
	}
	p.end = p.page.Next == nil || p.left > 0 && p.left == len(p.page.Entries)
	p.left -= len(p.page.Entries)
	p.q.After, p.q.MaxBytes = p.page.Next, min(4*p.q.MaxBytes, pageBytes)
	return true
}

// elementRange selects the keys that begin with the elements of a packed tuple. The bound is the
// prefix and FF, not the successor of the prefix: no element begins with the byte FF, but a string
// that continues past a zero byte does.
func elementRange(prefix []byte) keyRange {
	if len(prefix) == 0 {
		return keyRange{}
	}
	return keyRange{start: prefix, end: append(prefix[:len(prefix):len(prefix)], 0xFF)}
}

// byteRange selects the keys that begin with the bytes of prefix, which do not end an element.
func byteRange(prefix []byte) keyRange {
	end := append([]byte(nil), prefix...)
	for len(end) > 0 && end[len(end)-1] == 0xFF {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return keyRange{start: prefix}
	}
	end[len(end)-1]++
	return keyRange{start: prefix, end: end}
}

// packKey appends the packed form of a key. Its error names the part that does not pack, counted
// from 1.
func packKey(dst []byte, key tuple.Tuple) ([]byte, error) {
	out, err := tuple.Append(dst, key)
	if err != nil {
		var bad *tuple.ElementError
		if errors.As(err, &bad) {
			return nil, Errorf(InvalidArgument, "key part %d: %s", bad.Index+1, bad.Err)
		}
		return nil, Errorf(InvalidArgument, "the key: %s", err)
	}
	return out, nil
}
