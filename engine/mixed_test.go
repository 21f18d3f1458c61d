package engine

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// age rewrites rows of the store that pick chooses as format 1 has them.
func age(t *testing.T, s *Store, pick func() bool) {
	t.Helper()
	b := s.db.NewBatch()
	defer b.Close()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		row, err := keyspace.ParseRow(it.Key())
		if err != nil {
			t.Fatal(err)
		}
		if row.Type != keyspace.RowMetadata || !pick() {
			continue
		}
		key, value := clone(it.Key()), it.Value()
		old := func(m metadata, inline []byte) {
			if m.chunks == 0 && m.size > 0 {
				b.Set(keyspace.AppendDataRow(nil, row.ID, row.Key, 0), inline, nil)
			}
			b.Set(key, chunkedMetadata(&m), nil)
		}
		if value[0] == metadataFormat {
			m, inline, err := parseMetadata(value)
			if err != nil {
				t.Fatal(err)
			}
			old(m, inline)
		} else if value[0] == rootFormat {
			r, err := parseRoot(value)
			if err != nil {
				t.Fatal(err)
			}
			b.Set(keyspace.AppendHeadRow(nil, row.ID), r.head.append([]byte{headFormat}, 0), nil)
			if b.Delete(key, nil); r.state.exists {
				old(r.state.meta, r.state.value)
			}
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.chunked = true
}

func always() bool { return true }

func TestRowsOfBothFormatsReadAsOne(t *testing.T) {
	o := small(Options{})
	for seed := range uint64(20) {
		o.Disk = NewDisk()
		s := mustOpen(t, o)
		rnd := rand.New(rand.NewPCG(seed, 7))
		w := &walker{t: t, rnd: rnd, space: openSpace(t, s, 1), model: &model{entries: map[string]modelEntry{}, now: 1000}}
		for range 20 {
			w.advance()
			for range rnd.IntN(25) {
				w.step()
			}
			w.checkAll(w.space.Writes())
			commit(t, w.space)
			w.checkCounts()
			checkRows(t, s)
			sn := w.space.SnapshotAt(w.model.now)
			w.checkAll(sn)
			w.checkList(sn)
			w.checkScan(sn)
			sn.Close()
			if rnd.IntN(2) == 0 {
				w.space.Close()
				age(t, s, func() bool { return rnd.IntN(2) == 0 })
				w.space = openSpace(t, s, 1)
			}
		}
		w.space.Writes().Advance(w.model.now)
		if err := w.space.Writes().Destroy(); err != nil {
			t.Fatal(err)
		}
		commit(t, w.space)
		checkRows(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A store that was damaged may be opened without what was lost. An actor whose head was in it must not begin anew over
// the rest of its rows.
func TestAnActorWithoutItsHeadIsDamaged(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := mustOpen(t, small(Options{Disk: NewDisk()}))
		sp := openSpace(t, s, 1)
		if err := sp.Writes().Create(Identity{Type: "room", Key: []string{"1"}}); err != nil {
			t.Fatal(err)
		}
		put(t, sp.Writes(), stateKey(), "old state")
		put(t, sp.Writes(), kv("a"), "old value")
		commit(t, sp)
		sp.Close()
		lost := keyspace.AppendMetadataRow(nil, testID(1), stateKey())
		if old {
			age(t, s, always)
			lost = keyspace.AppendHeadRow(nil, testID(1))
			if err := s.db.Delete(keyspace.AppendIdentityRow(nil, testID(1)), pebble.Sync); err != nil { // the state alone tells
				t.Fatal(err)
			}
		}
		if err := s.db.Delete(lost, pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if _, err := s.OpenSpace(testID(1)); !errors.Is(err, &CorruptError{}) {
			t.Errorf("format 1: %v: error %v", old, err)
		}
		if page, err := s.Actors(ActorsQuery{}); err != nil || len(page.Actors) != 1 {
			t.Errorf("format 1: %v: listed %d, error %v", old, len(page.Actors), err)
		}
		sp, err := s.NewSpace(testID(1)) // to destroy it, nothing needs to be read
		if err != nil {
			t.Fatal(err)
		}
		sp.Writes().Advance(2000)
		if err := sp.Writes().Destroy(keyspace.UserKV.Kind); err != nil {
			t.Fatal(err)
		}
		commit(t, sp)
		checkRows(t, s)
		if _, err := s.OpenSpace(testID(1)); !errors.Is(err, ErrDestroyed) {
			t.Errorf("format 1: %v: error %v", old, err)
		}
		it, err := newIter(s.db, nil)
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			if row, err := keyspace.ParseRow(it.Key()); err != nil || row.ID == testID(1) && row.Type != keyspace.RowTombstone {
				t.Errorf("format 1: %v: %s is left, error %v", old, keyspace.FormatRow(it.Key()), err)
			}
		}
		it.Close()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// New over a key that exists breaks a promise. Its old row must not be read as its value.
func TestAStaleDataRowIsNoValue(t *testing.T) {
	s := mustOpen(t, small(Options{Disk: NewDisk()}))
	defer s.Close()
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("a"), "old")
	commit(t, sp)
	sp.Close()
	age(t, s, always)
	sp = openSpace(t, s, 1)
	if err := sp.Writes().Put(kv("a"), []byte("new"), PutOptions{New: true}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	wantValue(t, sp.Writes(), kv("a"), "new")
	err := sp.Writes().Scan(nil, nil, func(key, value []byte) bool {
		t.Errorf("scan: %q", value)
		return true
	})
	if !errors.Is(err, &CorruptError{}) {
		t.Errorf("scan: error %v", err)
	}
}
