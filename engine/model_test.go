package engine

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

var rounds = flag.Uint64("rounds", 1, "how often the random tests run, each time with other seeds")

// modelEntry is a key of the model.
type modelEntry struct {
	value           string
	version         Version
	created, expire int64
}

// model is one actor as a Go map; the engine must agree with it.
type model struct {
	entries map[string]modelEntry
	version Version
	now     int64
	records int
}

func (m *model) clone() *model {
	c := *m
	c.entries = maps.Clone(m.entries)
	return &c
}

func (e modelEntry) gone(now int64) bool { return e.expire != 0 && e.expire <= now }

func (m *model) size() (keys, bytes int64) {
	for k, e := range m.entries {
		keys++
		bytes += int64(len(k) + len(e.value))
	}
	return keys, bytes
}

// put sets a key; unread means that the old entry was not read, so created begins anew.
func (m *model) put(key, value []byte, expire int64, unread bool) {
	e := modelEntry{string(value), m.version, m.now, expire}
	if was, ok := m.entries[string(key)]; ok && !unread && !was.gone(m.now) {
		e.created = was.created
	}
	m.entries[string(key)] = e
}

func (m *model) delete(key []byte) bool {
	e, ok := m.entries[string(key)]
	delete(m.entries, string(key))
	return ok && !e.gone(m.now)
}

func (m *model) deleteRange(start, end []byte) int64 {
	n := int64(0)
	for k := range m.entries {
		if k >= string(start) && (end == nil || k < string(end)) && m.delete([]byte(k)) {
			n++
		}
	}
	return n
}

// list returns the keys of the range in order, expired ones left out.
func (m *model) list(start, end []byte, reverse bool) []string {
	keys := slices.DeleteFunc(m.all(start, end), func(k string) bool { return m.entries[k].gone(m.now) })
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}

// all returns the keys of the range in order, expired ones too.
func (m *model) all(start, end []byte) []string {
	var keys []string
	for k := range m.entries {
		if k >= string(start) && (end == nil || k < string(end)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// walker does random operations on a space and on a model of it.
type walker struct {
	t     *testing.T
	rnd   *rand.Rand
	space *Space
	model *model
	depth int // of turns in turns
	last  []byte
}

func newWalker(t *testing.T, sp *Space, seed, stream uint64) *walker {
	return &walker{t: t, rnd: rand.New(rand.NewPCG(seed, stream)), space: sp, model: &model{entries: map[string]modelEntry{}, now: 1000}}
}

// randomKey draws from few keys, full of the hard bytes 00 and FF. Often it is the key of the
// operation before, so operations of all kinds use the same key.
func (w *walker) randomKey() []byte {
	if len(w.last) == 0 || w.rnd.IntN(3) > 0 {
		w.last = w.drawKey()
	}
	return slices.Clone(w.last)
}

func (w *walker) drawKey() []byte {
	if w.rnd.IntN(8) == 0 {
		if w.rnd.IntN(3) == 0 { // more than a space remembers
			return keyspace.Attribute.Append(nil, fmt.Sprint("d", w.rnd.IntN(2*maxListed)))
		}
		return keyspace.Attribute.Append(nil, []string{"a", "b\x00", "c"}[w.rnd.IntN(3)])
	}
	kinds := []keyspace.Kind{keyspace.Persisted.Kind, keyspace.UserKV.Kind, keyspace.UserKV.Kind,
		keyspace.QueueMessage.Kind, keyspace.KindSQLite, keyspace.Outgoing.Kind, 0xFF}
	key := []byte{byte(kinds[w.rnd.IntN(len(kinds))])}
	for range w.rnd.IntN(4) {
		key = append(key, []byte{0x00, 0x01, 0x7F, 0xFE, 0xFF}[w.rnd.IntN(5)])
	}
	return key
}

func (w *walker) randomValue() []byte {
	var n int
	switch w.rnd.IntN(12) {
	case 0:
		n = 0
	case 1:
		n = ChunkSize*w.rnd.IntN(4) + w.rnd.IntN(3)
	default:
		n = w.rnd.IntN(100)
	}
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(w.rnd.Uint32())
	}
	return value
}

// randomAttribute draws from few values, so that some stay the same.
func (w *walker) randomAttribute() []byte {
	switch n := w.rnd.IntN(3); n {
	case 0:
		return tuple.AppendString(nil, []string{"", "free\x00", "pro"}[w.rnd.IntN(3)])
	default:
		return tuple.AppendInt(nil, int64(w.rnd.IntN(3))<<(20*n))
	}
}

func (w *walker) randomRange() (start, end []byte) {
	start, end = w.randomKey(), w.randomKey()
	switch w.rnd.IntN(6) {
	case 0:
		start = nil
	case 1:
		end = nil
	case 2:
		start = start[:1]
		end = keyspace.Successor(start)
	}
	if end != nil && bytes.Compare(start, end) > 0 {
		start, end = end, start
	}
	return start, end
}

// fill puts many keys, so that ranges of many are deleted too.
func (w *walker) fill() {
	for i := range 150 {
		key := fmt.Appendf([]byte{byte(keyspace.UserKV.Kind)}, "fill %03d", i)
		w.put(key, key, 0)
	}
}

func (w *walker) put(key, value []byte, expire int64) {
	if isAttribute(key) && w.rnd.IntN(8) > 0 { // else the index leaves it out
		value = w.randomAttribute()
	}
	o := w.randomKnowledge(key)
	o.ExpireAt, o.Encoding = expire, encodingOf(key, len(value))
	set := w.space.Writes()
	unread := o.Known && set.overlay.find(key) < 0
	w.model.put(key, value, expire, unread)
	must(w.t, set.Put(key, value, o))
}

// randomKnowledge sometimes says what is under a key: the truth, or anything if the set has the key
// itself.
func (w *walker) randomKnowledge(key []byte) (o PutOptions) {
	set := w.space.Writes()
	was, exists := w.model.entries[string(key)]
	better := set.overlay.find(key) >= 0
	switch w.rnd.IntN(4) {
	case 0:
		o.New = !exists || better
	case 1:
		o.Known, o.Old = true, -1
		if exists {
			o.Old = len(was.value)
		}
		if better || set.hidden(key) {
			o.Old = w.rnd.IntN(30000) - 1
		}
	}
	return o
}

// step does one operation that changes nothing outside of the write set.
func (w *walker) step() {
	set, m := w.space.Writes(), w.model
	switch op := w.rnd.IntN(100); {
	case op < 35:
		expire := int64(0)
		if w.rnd.IntN(5) == 0 {
			expire = m.now + int64(w.rnd.IntN(20)) - 5
		}
		w.put(w.randomKey(), w.randomValue(), expire)
	case op < 50:
		key, old := w.randomKey(), -1
		was, ok := m.entries[string(key)]
		if ok {
			old = len(was.value)
		}
		want := m.delete(key)
		if was.expire != 0 || w.rnd.IntN(3) > 0 {
			returns(w.t, want, "delete", key)(set.Delete(key))
		} else {
			returns(w.t, want, "delete known", key)(set.DeleteKnown(key, old))
		}
	case op < 55:
		start, end := w.randomRange()
		returns(w.t, m.deleteRange(start, end), "delete range", start, end)(set.DeleteRange(start, end))
	case op < 57:
		w.fill()
	case op < 75:
		held := set.Bytes()
		key := w.randomKey()
		w.checkGet(set, key)
		w.checkAppend(set, key)
		w.checkHeld(held)
	case op < 90:
		held := set.Bytes()
		w.checkList(set)
		w.checkScan(set)
		w.checkHeld(held)
	case op < 93:
		w.checkExpired()
	case op < 95:
		must(w.t, set.Outbox(fmt.Appendf(nil, "record %d", m.records), nil))
		m.records++
	default:
		before := m.clone()
		savepoint := set.Savepoint()
		fatalIf(w.t, set.Changed(&savepoint), "changed since now")
		w.advance()
		w.steps(8)
		w.checkChanged(before, &savepoint)
		if w.depth == 0 && w.rnd.IntN(2) == 0 {
			inner, held := w.hold(), w.hold()
			kept, split, err := w.space.CommitBefore(savepoint, nil)
			must(w.t, err)
			fatalIf(w.t, split && w.space.Head().Version != before.version,
				"version %d of the part before the turn, want %d", w.space.Head().Version, before.version)
			savepoint = kept
			w.checkChanged(before, &savepoint)
			w.steps(4)
			held()
			inner()
		}
		if w.rnd.IntN(2) == 0 {
			set.Rollback(savepoint)
			fatalIf(w.t, set.Changed(&savepoint), "changed after a rollback")
			w.model = before
			if !set.turned {
				w.advance() // without a turn, the clock is the real one
			}
		}
	}
	w.checkCounts()
}

// steps does fewer than n steps within a turn.
func (w *walker) steps(n int) {
	w.depth++
	for range w.rnd.IntN(n) {
		w.step()
	}
	w.depth--
}

// hold holds a savepoint for a part of a turn. The result ends it, and may undo the part.
func (w *walker) hold() (end func()) {
	set, before := w.space.Writes(), w.model.clone()
	held := set.Hold()
	w.steps(4)
	return func() {
		if w.rnd.IntN(2) == 0 {
			set.Rollback(*held)
			fatalIf(w.t, set.Changed(held), "changed after a rollback")
			w.model = before
		}
		fatalIf(w.t, !set.Release(held) || set.Release(held), "a hold that ended, or did not end")
		w.checkCounts()
	}
}

// checkChanged fails if the model differs since a savepoint but the set reports no change.
func (w *walker) checkChanged(before *model, since *Savepoint) {
	w.t.Helper()
	differs := before.records != w.model.records || !reflect.DeepEqual(before.entries, w.model.entries)
	fatalIf(w.t, differs && !w.space.Writes().Changed(since), "the set does not know that it changed")
}

func (w *walker) advance() {
	w.model.now += int64(w.rnd.IntN(5))
	if w.rnd.IntN(20) == 0 {
		w.model.now += 60_000
	}
	w.model.version++
	same(w.t, w.space.Writes().Advance(w.model.now), w.model.version)
}

func (w *walker) checkCounts() {
	keys, bytes := w.model.size()
	set := w.space.Writes()
	fatalIf(w.t, set.Keys() != keys || set.Size() != bytes, "%d keys of %d bytes, want %d of %d", set.Keys(), set.Size(), keys, bytes)
}

// checkHeld checks that a read added nothing to the write set.
func (w *walker) checkHeld(before int) {
	if set := w.space.Writes(); set.Bytes() != before || set.Version() != w.model.version {
		w.t.Fatalf("%d bytes held, version %d after a read; want %d and %d", set.Bytes(), set.Version(), before, w.model.version)
	}
}

func (w *walker) checkGet(g getter, key []byte) {
	e, ok, err := g.Get(key)
	want, exists := w.model.entries[string(key)]
	exists = exists && !want.gone(w.model.now)
	fatalIf(w.t, err != nil || ok != exists, "get %x: found %v, error %v, want %v", key, ok, err, exists)
	if ok {
		w.checkEntry(&e, want, false)
	}
}

// encodingOf is the encoding that the walker puts a value with.
func encodingOf(key []byte, size int) uint8 {
	if isState(key) {
		return 0
	}
	return uint8(size % 3)
}

func (w *walker) checkEntry(e *Entry, want modelEntry, keyOnly bool) {
	w.t.Helper()
	if keyOnly {
		fatalIf(w.t, e.Value != nil, "a list of keys has values")
		return
	}
	same(w.t, e.Encoding, encodingOf(e.Key, e.Size))
	fatalIf(w.t, string(e.Value) != want.value || e.Version != want.version || e.Created != want.created ||
		e.Expire != want.expire || e.Size != len(want.value),
		"entry %x: %d bytes %+v, want %d bytes %+v", e.Key, len(e.Value), e.Version, len(want.value), want.version)
}

// checkAppend compares AppendValue with the model; the time does not count.
func (w *walker) checkAppend(a readable, key []byte) {
	want, exists := w.model.entries[string(key)]
	dst := make([]byte, 3, 3+w.rnd.IntN(200))
	got, ok, err := a.AppendValue(dst, key)
	fatalIf(w.t, err != nil || ok != exists || string(got) != "\x00\x00\x00"+want.value,
		"append %x: %d bytes, found %v, error %v; want %d bytes, %v", key, len(got), ok, err, 3+len(want.value), exists)
}

// A readable is a write set or a snapshot.
type readable interface {
	getter
	AppendValue(dst, key []byte) ([]byte, bool, error)
	List(ListQuery) (Page, error)
	Each(ListQuery, func(*Entry) bool) error
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

// A reading is the rest of a read.
type reading struct {
	*walker
	keys []string
	what any
}

// next compares a key that the read returns. It ignores the index of expiring keys, which is
// internal to the engine.
func (r *reading) next(key []byte) (want modelEntry, counts bool) {
	if key[0] == byte(keyspace.Expiry.Kind) {
		return want, false
	}
	fatalIf(r.t, len(r.keys) == 0 || string(key) != r.keys[0], "%+v: key %x, want the rest to be %x", r.what, key, r.keys)
	want = r.model.entries[r.keys[0]]
	r.keys = r.keys[1:]
	return want, true
}

func (r *reading) end() { fatalIf(r.t, len(r.keys) > 0, "%+v misses %x", r.what, r.keys) }

// checkList reads a range page by page.
func (w *walker) checkList(l readable) {
	start, end := w.randomRange()
	q := ListQuery{Start: start, End: end, Reverse: w.rnd.IntN(2) == 0, KeysOnly: w.rnd.IntN(4) == 0}
	if w.rnd.IntN(3) == 0 {
		q.Prefix = w.randomKey()
		start, end = q.Prefix, keyspace.Successor(q.Prefix)
	}
	switch w.rnd.IntN(3) {
	case 0:
		q.Limit = 1 + w.rnd.IntN(20)
	case 1:
		q.MaxBytes = 1 + w.rnd.IntN(30000)
	}
	w.checkListOf(l, q, start, end)
	w.checkEach(l, q, start, end)
}

// checkEach visits a range in parts, or only the first of them. Other visits happen between them.
func (w *walker) checkEach(l readable, q ListQuery, start, end []byte) {
	rest := reading{w, w.model.list(start, end, q.Reverse), q}
	for stopped := true; stopped; {
		most := 1 + w.rnd.IntN(40)
		stopped = false
		must(w.t, l.Each(q, func(e *Entry) bool {
			if want, counts := rest.next(e.Key); counts {
				w.checkEntry(e, want, q.KeysOnly)
				most--
			}
			if stopped = most == 0; stopped {
				q.After = clone(e.Key)
			}
			return !stopped
		}), q)
		if !stopped {
			rest.end()
		}
		switch w.rnd.IntN(6) {
		case 0:
			return
		case 1: // the rest of another range, from the same key
			other := ListQuery{Start: start, End: w.randomKey(), After: q.After}
			from := start
			if q.After != nil {
				from = append(clone(q.After), 0)
			}
			left := reading{w, w.model.list(from, other.End, false), other}
			must(w.t, l.Each(other, func(e *Entry) bool { left.next(e.Key); return w.rnd.IntN(20) != 0 }))
		case 2:
			must(w.t, l.Each(ListQuery{}, func(*Entry) bool { return w.rnd.IntN(5) != 0 }))
		}
	}
}

// checkListOf reads all pages of a query, which is for the range from start to end.
func (w *walker) checkListOf(l readable, q ListQuery, start, end []byte) {
	rest := reading{w, w.model.list(start, end, q.Reverse), q}
	for more := true; more; more = q.After != nil {
		page, err := l.List(q)
		must(w.t, err, q)
		size := 0
		for i, e := range page.Entries {
			if want, counts := rest.next(e.Key); counts {
				w.checkEntry(&e, want, q.KeysOnly)
				size += len(e.Key) + len(e.Value)
				fatalIf(w.t, q.MaxBytes > 0 && i > 0 && size > q.MaxBytes, "list %+v: %d bytes", q, size)
			}
		}
		n := len(page.Entries)
		fatalIf(w.t, q.Limit > 0 && n > q.Limit || page.Next != nil && n == 0, "list %+v: %d entries on a page", q, n)
		q.After = page.Next
	}
	rest.end()
}

// checkScan reads a range, or the beginning of one.
func (w *walker) checkScan(s readable) {
	start, end := w.randomRange()
	w.checkScanOf(s, start, end, w.rnd.IntN(4)*(1+w.rnd.IntN(20)))
}

// checkScanOf reads up to limit keys of a range; 0 is all.
func (w *walker) checkScanOf(s readable, start, end []byte, limit int) {
	all := w.model.all(start, end)
	stops := 0 < limit && limit <= len(all)
	if stops {
		all = all[:limit]
	}
	rest := reading{w, all, [2][]byte{start, end}}
	must(w.t, s.Scan(start, end, func(key, value []byte) bool {
		want, counts := rest.next(key)
		fatalIf(w.t, counts && string(value) != want.value, "scan: key %x with %d bytes, want %d", key, len(value), len(want.value))
		return !stops || len(rest.keys) > 0
	}))
	rest.end()
}

func (w *walker) checkExpired() {
	limit := 1 + w.rnd.IntN(5)
	due, more, err := w.space.Writes().Expired(w.model.now, limit)
	must(w.t, err)
	for more && len(due) == 0 { // it read only stale entries, and removed them
		due, more, err = w.space.Writes().Expired(w.model.now, limit)
		must(w.t, err)
	}
	var want int
	for _, e := range w.model.entries {
		if e.gone(w.model.now) {
			want++
		}
	}
	fatalIf(w.t, len(due) > min(want, limit) || len(due) < want && !more, "%d keys have expired, want %d", len(due), min(want, limit))
	first := int64(0)
	for _, e := range w.model.entries {
		if e.expire != 0 && (first == 0 || e.expire < first) {
			first = e.expire
		}
	}
	next, err := w.space.Writes().NextExpiry()
	fatalIf(w.t, err != nil ||
		first != 0 && (next == 0 || next > first), "the next key expires at %d, %v; the first does at %d", next, err, first)
	last := int64(-1 << 62)
	for i := range due {
		key := due[i].Key
		e, ok := w.model.entries[string(key)]
		fatalIf(w.t, !ok || !e.gone(w.model.now) || e.expire < last,
			"key %x expired at %d, %d is now, %d before", key, e.expire, w.model.now, last)
		last = e.expire
		if w.rnd.IntN(2) == 0 {
			was, err := w.space.Writes().DeleteFound(&due[i])
			fatalIf(w.t, err != nil || was, "delete of an expired key: %v, %v", was, err)
			w.model.delete(key)
		}
	}
}

// checkAll compares everything.
func (w *walker) checkAll(r readable) {
	w.checkScanOf(r, nil, nil, 0)
	w.checkListOf(r, ListQuery{Limit: 1 << 20, MaxBytes: 1 << 30}, nil, nil)
}

// TestRandomOperationsAgreeWithAMap commits now and then, reopens spaces, and
// compares write set, snapshot and store with the model. Every second walk is on rows of format 1
// as well.
func TestRandomOperationsAgreeWithAMap(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		for seed := range seeds(3) {
			o.Disk = NewDisk()
			s := mustOpen(t, o)
			w := newWalker(t, openSpace(t, s, 1), seed, 1)
			for i := range 40 {
				w.advance()
				if seed > 0 {
					writtenSoon(w.space)
				}
				if i == int(seed)*3 { // its rows of before are found from now on
					must(t, w.space.Writes().Create(Identity{"ns", "t", []string{"1"}}))
				}
				for range w.rnd.IntN(25) {
					w.step()
				}
				w.checkAll(w.space.Writes())
				if w.rnd.IntN(3) == 0 {
					w.advance()
				}
				commit(t, w.space)
				w.checkCounts()
				checkRows(t, s)
				checkWritten(t, w.space)
				same(t, w.space.Head().Version, w.model.version)
				sn := w.space.SnapshotAt(w.model.now)
				w.checkAll(sn)
				w.checkList(sn)
				w.checkScan(sn)
				for range 3 {
					key := w.randomKey()
					w.checkGet(sn, key)
					w.checkAppend(sn, key)
				}
				sn.Close()
				switch n := w.rnd.IntN(8); {
				case n == 0:
					w.space.Close()
					w.space = openSpace(t, s, 1)
				case n == 1:
					must(t, databaseOf(s).Flush())
				case seed%2 == 1 && n < 6:
					w.space.Close()
					age(t, s, func() bool { return w.rnd.IntN(2) == 0 })
					w.space = openSpace(t, s, 1)
				case seed%2 == 0 && n == 2:
					must(t, s.Close())
					s = mustOpen(t, o)
					w.space = openSpace(t, s, 1)
				}
			}
			rows, _ := s.OutboxSize()
			same(t, rows, int64(w.model.records))
			w.space.Writes().Advance(w.model.now)
			must(t, w.space.Writes().Destroy())
			commit(t, w.space)
			checkRows(t, s)
			must(t, s.Close())
		}
	})
}

// checkRows reads every row of the store: each parses, no chunk is left over from an older value,
// and each head has the exact counts.
func checkRows(t testing.TB, s *Store) {
	t.Helper()
	it, err := databaseOf(s).NewIter(nil)
	must(t, err)
	defer it.Close()
	var keys, bytes int64
	chunks, size := 0, 0
	var of keyspace.ActorID // whose rows are being read
	var heads int
	var want head
	check := func(next keyspace.ActorID) {
		fatalIf(t, !of.IsZero() && heads != 1 || want.Keys != keys || want.Bytes != bytes || chunks > 0,
			"%d heads of %v, %+v; there are %d keys of %d bytes, and %d chunks", heads, of, want, keys, bytes, chunks)
		of, heads, keys, bytes, want = next, 0, 0, 0, head{}
	}
	for ok := it.First(); ok; ok = it.Next() {
		row, err := keyspace.ParseRow(it.Key())
		must(t, err)
		switch row.Type {
		case keyspace.RowData, keyspace.RowMetadata, keyspace.RowHead:
			if row.ID != of {
				check(row.ID)
			}
		}
		switch row.Type {
		case keyspace.RowData:
			fatalIf(t, row.Chunk != chunks, "chunk %d of %x, want %d", row.Chunk, row.Key, chunks)
			chunks++
			size += len(it.Value())
		case keyspace.RowMetadata:
			m, value, ok, err := parseEntry(it.Value())
			if size += len(value); err != nil || int(m.chunks) != chunks || int(m.size) != size {
				t.Fatalf("key %x: %d chunks of %d bytes, metadata %+v, error %v", row.Key, chunks, size, m, err)
			}
			chunks = 0
			if it.Value()[0] == rootFormat {
				r, _ := parseRoot(it.Value())
				want = r.head
				heads++
			}
			if ok && keyspace.Kind(row.Key[0]) != keyspace.Expiry.Kind {
				keys++
				bytes += int64(len(row.Key) + size)
			}
			size = 0
		case keyspace.RowHead:
			want, err = parseHead(it.Value())
			must(t, err)
			heads++
		}
	}
	must(t, it.Error())
	check(keyspace.ActorID{})
	checkListing(t, s)
}

// checkListing compares the listing index with a scan of all rows, and returns how many rows it
// has.
func checkListing(t testing.TB, s *Store) int {
	t.Helper()
	rows, err := s.CheckListing(context.Background(),
		func(row string, missing bool) { t.Errorf("%s of the index is missing: %v", row, missing) })
	fatalIf(t, err != nil, "check of the index: %v", err)
	return rows
}

const crashActors = 5

var errFault = errors.New("injected fault")
