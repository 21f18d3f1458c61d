package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/bench/internal/rawpebble"
	"github.com/cairn-run/cairn/runtime/bench/internal/sample"
)

// A raw is the side of raw Pebble: one row for each value, under the keys that Cairn's data rows
// have.
type raw struct {
	db        *pebble.DB
	committed atomic.Int64 // bytes

	mu      sync.Mutex
	expires []expiring // in the order of their times
}

// An expiring is an entry that a later commit removes.
type expiring struct {
	at   time.Time
	rows [][]byte
}

func openRaw(dir string) *raw {
	db, err := rawpebble.Open(dir)
	check(err)
	return &raw{db: db}
}

func directoryRow(i int) []byte {
	return keyspace.AppendDirectoryRow(nil, "default", accounts.Name(), []string{keyOf(i)})
}

func stateRow(id keyspace.ActorID) []byte {
	return keyspace.AppendMetadataRow(nil, id, keyspace.Persisted.Append(nil))
}

func entryKeyspace(k int) []byte {
	packed, err := entryKey(k).Pack()
	check(err)
	return keyspace.UserKV.Append(nil, packed)
}

// What Cairn has in a row beside a value, by its size.
var (
	stateFrame    = make([]byte, 16) // the encoding of the state: names, count, lengths
	metadataValue = make([]byte, 14) // of an entry
	rootValue     = make([]byte, 37) // of the state: its metadata, and the head of the actor
)

func (w *raw) commit(b *pebble.Batch) {
	w.committed.Add(int64(b.Len()))
	check(b.Commit(pebble.Sync))
	check(b.Close())
}

func (w *raw) create(i int) {
	p, id, b := payloadOf(i), sample.ActorID(i), w.db.NewBatch()
	check(b.Set(directoryRow(i), id[:], nil))
	check(b.Set(stateRow(id), append(stateFrame[:len(stateFrame):len(stateFrame)], p.text...), nil))
	for k, e := range p.entries {
		check(b.Set(keyspace.AppendMetadataRow(nil, id, entryKeyspace(k)), e, nil))
	}
	w.commit(b)
}

// A pair is a row with its value.
type pair struct{ row, value []byte }

// callRows returns the rows that a durable call writes in Cairn: the root. Change it together with
// what a call writes there. The raw row begins without what a root has beside the state; the first
// call adds it, and its first byte says so.
func callRows(id keyspace.ActorID, state []byte) []pair {
	if len(state) > 0 && state[0] == 0 {
		state = append(slices.Clip(state), rootValue...)
		state[0] = 1
	}
	return []pair{{stateRow(id), state}}
}

// expiringRows returns the rows that an entry which expires adds: its metadata with its value, and
// its place in the order of expiry.
func expiringRows(id keyspace.ActorID, at time.Time) []pair {
	key := entryKeyspace(entriesOf)
	return []pair{
		{keyspace.AppendMetadataRow(nil, id, key), append(slices.Clip(metadataValue), expiringEntry...)},
		{keyspace.AppendMetadataRow(nil, id, keyspace.Expiry.Append(nil, at.UnixMilli(), key)), metadataValue},
	}
}

func (w *raw) call(i int, expires bool) bool {
	id := sample.ActorID(i)
	state, closer, err := w.db.Get(stateRow(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return false
	}
	check(err)
	rows := callRows(id, state)
	b := w.db.NewBatch()
	if expires {
		e := expiring{at: time.Now().Add(entryTTL)}
		for _, r := range expiringRows(id, e.at) {
			rows = append(rows, r)
			e.rows = append(e.rows, r.row)
		}
		w.mu.Lock()
		w.expires = append(w.expires, e)
		w.mu.Unlock()
	}
	for _, r := range rows {
		check(b.Set(r.row, r.value, nil))
	}
	check(closer.Close())
	w.expire(b)
	w.commit(b)
	return true
}

// expire removes up to two entries whose time is over.
func (w *raw) expire(b *pebble.Batch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range 2 {
		if len(w.expires) == 0 || time.Now().Before(w.expires[0].at) {
			return
		}
		for _, row := range w.expires[0].rows {
			check(b.Delete(row, nil))
		}
		w.expires = w.expires[1:]
	}
}

func (w *raw) get(i int) bool {
	state, closer, err := w.db.Get(stateRow(sample.ActorID(i)))
	if errors.Is(err, pebble.ErrNotFound) {
		return false
	}
	check(err)
	ok := len(state) > len(stateFrame)
	check(closer.Close())
	return ok
}

func (w *raw) list() (n int) {
	prefix := keyspace.AppendDirectoryPrefix(nil, "default", accounts.Name(), nil)
	it, err := w.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: keyspace.Successor(prefix)})
	check(err)
	for it.First(); it.Valid(); it.Next() {
		if _, err := it.ValueAndErr(); err == nil {
			n++
		}
	}
	check(it.Close())
	return n
}

func (w *raw) destroy(i int) {
	id, b := sample.ActorID(i), w.db.NewBatch()
	check(b.Delete(directoryRow(i), nil))
	for _, r := range callRows(id, nil) {
		check(b.Delete(r.row, nil))
	}
	for k := range entriesOf {
		check(b.Delete(keyspace.AppendMetadataRow(nil, id, entryKeyspace(k)), nil))
	}
	w.commit(b)
}

func (w *raw) disk() float64    { return float64(w.db.Metrics().DiskSpaceUsage()) }
func (w *raw) logical() float64 { return float64(w.committed.Load()) }
func (w *raw) close()           { check(w.db.Close()) }

func compactRaw(dir string) {
	w := openRaw(dir)
	check(w.db.Compact(context.Background(), nil, []byte{0xFF}, true))
	w.close()
}
