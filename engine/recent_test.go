package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

// checkRecent compares what a space remembers with what the store has.
func checkRecent(t testing.TB, sp *Space) {
	t.Helper()
	if sp.recent == nil {
		return
	}
	for i, k := range sp.recent.keys[:min(sp.recent.read, recentKeys)] {
		m, ok, err := readMetadata(sp.store.db, sp.id, k.key)
		if err != nil || ok != k.ok || m != k.meta {
			t.Fatalf("key %x is remembered as %v %+v; the store has %v %+v, error %v", k.key, k.ok, k.meta, ok, m, err)
		}
		if sp.recent.find(k.key) != &sp.recent.keys[i] {
			t.Fatalf("key %x is remembered twice", k.key)
		}
	}
}

// recentSpace returns a space with the keys here, range and, until 50, expired.
func recentSpace(t *testing.T, s *Store) *Space {
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(10)
	put(t, w, kv("here"), "value")
	put(t, w, kv("range"), "value")
	if err := w.Put(kv("expired"), []byte("value"), PutOptions{ExpireAt: 50}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	return sp
}

func TestKeyThatWasReadIsNotLookedUpAgain(t *testing.T) {
	for name, change := range map[string]func(w *WriteSet, key []byte) (was bool, err error){
		"put": func(w *WriteSet, key []byte) (bool, error) {
			before := w.Keys()
			err := w.Put(key, []byte("new"), PutOptions{})
			return w.Keys() == before, err
		},
		"delete": func(w *WriteSet, key []byte) (bool, error) {
			before := w.Keys()
			_, err := w.Delete(key)
			return w.Keys() < before, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, Options{})
			sp := recentSpace(t, s)
			w := sp.Writes()
			w.Advance(100)
			start := w.Savepoint()
			w.Advance(100)
			wantValue(t, w, kv("here"), "value")
			wantAbsent(t, w, kv("absent"))
			wantAbsent(t, w, kv("expired"))
			if page, err := w.List(ListQuery{Prefix: kv("r"), KeysOnly: true}); err != nil || len(page.Entries) != 1 {
				t.Fatal(page.Entries, err)
			}
			checkRecent(t, sp)
			at := w.Savepoint()
			if err := s.Close(); err != nil { // a reader would find the store closed
				t.Fatal(err)
			}
			wantAbsent(t, w, kv("absent"))
			wantAbsent(t, w, kv("expired"))
			for key, exists := range map[string]bool{"here": true, "range": true, "expired": true, "absent": false} {
				if was, err := change(w, kv(key)); err != nil || was != exists {
					t.Errorf("%s: was there %v, error %v", key, was, err)
				}
			}
			if _, err := change(w, kv("not read")); !errors.Is(err, ErrClosed) {
				t.Errorf("a key that was not read: %v", err)
			}
			w.Rollback(at)
			w.Rollback(start)
			if _, err := change(w, kv("here")); !errors.Is(err, ErrClosed) {
				t.Errorf("after a rollback to an empty set: %v", err)
			}
		})
	}
}

func TestRollbackToAnOpenTurnKeepsWhatWasRead(t *testing.T) {
	sp := recentSpace(t, openTest(t, Options{}))
	w := sp.Writes()
	w.Advance(20)
	put(t, w, kv("other"), "x")
	at := w.Savepoint()
	wantValue(t, w, kv("here"), "value")
	if ok, err := w.Delete(kv("here")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.Rollback(at)
	if sp.recent == nil {
		t.Fatal("what was read is forgotten in the middle of a set")
	}
	put(t, w, kv("here"), "again")
	if e := wantValue(t, w, kv("here"), "again"); e.Created != 10 {
		t.Fatalf("created %d", e.Created)
	}
}

func TestHiddenKeyThatWasReadIsMadeAnew(t *testing.T) {
	s := openTest(t, Options{})
	sp := recentSpace(t, s)
	w := sp.Writes()
	for i := range 2 * pointDeletes {
		put(t, w, kv(fmt.Sprint(i)), "x")
	}
	commit(t, sp)
	w.Advance(20)
	put(t, w, []byte{byte(keyspace.KindPersisted)}, "state")
	keys := w.Keys()
	for range 2 {
		at := w.Savepoint()
		wantValue(t, w, kv("here"), "value")
		if _, err := w.DeleteRange([]byte{byte(keyspace.KindUserKV)}, nil); err != nil || len(w.ranges) != 1 {
			t.Fatal(w.ranges, err)
		}
		wantAbsent(t, w, kv("here"))
		if ok, err := w.Delete(kv("here")); ok || err != nil {
			t.Fatal(ok, err)
		}
		put(t, w, kv("here"), "anew")
		if e := wantValue(t, w, kv("here"), "anew"); e.Created != 20 || w.Keys() != 2 {
			t.Fatalf("created %d, %d keys", e.Created, w.Keys())
		}
		w.Rollback(at)
		if ok, err := w.Delete(kv("here")); !ok || err != nil || w.Keys() != keys-1 {
			t.Fatal(ok, err, w.Keys())
		}
		w.Rollback(at)
	}
	commit(t, sp)
	checkRows(t, s)
}

func TestClockDecidesAboutARememberedKey(t *testing.T) {
	s := openTest(t, Options{})
	sp := recentSpace(t, s)
	w := sp.Writes()
	w.Advance(20)
	for _, turn := range []struct {
		now  int64
		gone bool
	}{{20, false}, {50, true}, {49, false}} {
		at := w.Savepoint()
		w.Advance(turn.now)
		if _, ok, err := w.Get(kv("expired")); ok == turn.gone || err != nil {
			t.Fatalf("at %d: found %v, error %v", turn.now, ok, err)
		}
		put(t, w, kv("expired"), "new")
		created := int64(10)
		if turn.gone {
			created = turn.now
		}
		if e := wantValue(t, w, kv("expired"), "new"); e.Created != created || w.Keys() != 3 {
			t.Fatalf("at %d: created %d, %d keys", turn.now, e.Created, w.Keys())
		}
		w.Rollback(at)
		if was, err := w.Delete(kv("expired")); err != nil || !was || w.Keys() != 2 {
			t.Fatalf("at 20: %v, error %v", was, err)
		}
		w.Rollback(at)
	}
}

func TestCommitEndsWhatIsRemembered(t *testing.T) {
	s := openTest(t, Options{})
	sp := recentSpace(t, s)
	w := sp.Writes()
	long := strings.Repeat("x", 3*ChunkSize)
	w.Advance(20)
	wantAbsent(t, w, kv("long"))
	wantValue(t, w, kv("here"), "value")
	put(t, w, kv("long"), long)
	at := w.Savepoint()
	w.Advance(30)
	if ok, err := w.Delete(kv("long")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := w.Delete(kv("here")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, split, err := sp.CommitBefore(at, nil); !split || err != nil {
		t.Fatal(split, err)
	}
	commit(t, sp)
	checkRows(t, s)
	w.Advance(40)
	wantAbsent(t, w, kv("here"))
	put(t, w, kv("here"), "anew")
	if w.Keys() != 3 {
		t.Fatalf("%d keys", w.Keys())
	}
	commit(t, sp)
	if ok, err := w.Delete(kv("here")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	commit(t, sp)
	checkRows(t, s)
}

func TestDestroyCountsKeysThatWereRead(t *testing.T) {
	s := openTest(t, Options{})
	sp := recentSpace(t, s)
	w := sp.Writes()
	message := keyspace.AppendOutgoing(nil, 1)
	put(t, w, message, "message")
	commit(t, sp)
	w.Advance(20)
	wantValue(t, w, message, "message")
	wantValue(t, w, kv("here"), "value")
	if err := w.Destroy(keyspace.KindOutgoing); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, w, kv("here"))
	put(t, w, message, "message of another length")
	if w.Keys() != 1 || w.Size() != int64(len(message)+25) {
		t.Fatalf("%d keys of %d bytes", w.Keys(), w.Size())
	}
	commit(t, sp)
	checkRows(t, s)
	wantValue(t, w, message, "message of another length")
	if ok, err := w.Delete(message); !ok || err != nil || w.Keys() != 0 || w.Size() != 0 {
		t.Fatal(ok, err, w.Keys(), w.Size())
	}
	commit(t, sp)
	checkRows(t, s)
}

// TestReadsAreNoChanges shows that what is remembered is nowhere in the set.
func TestReadsAreNoChanges(t *testing.T) {
	s := openTest(t, Options{})
	sp := recentSpace(t, s)
	w := sp.Writes()
	keys, size, commits := w.Keys(), w.Size(), s.metrics.commits.Load()
	for _, end := range []struct {
		name string
		give func()
	}{
		{"commit", func() { commit(t, sp) }},
		{"rollback", func() { w.Rollback(w.Savepoint()) }},
		{"close", sp.Close},
	} {
		wantValue(t, w, kv("here"), "value")
		wantAbsent(t, w, kv("absent"))
		if sp.recent == nil {
			t.Fatal("nothing is remembered")
		}
		if w.turned || w.Bytes() != 0 || w.Keys() != keys || w.Size() != size || w.overlay != nil {
			t.Fatalf("%d bytes held, %d keys of %d bytes, overlay %v", w.Bytes(), w.Keys(), w.Size(), w.overlay)
		}
		end.give()
		if sp.recent != nil {
			t.Errorf("%s does not give the memory back", end.name)
		}
	}
	if n := s.metrics.commits.Load(); n != commits || sp.Head().Version != 1 {
		t.Fatalf("%d commits, version %d", n-commits, sp.Head().Version)
	}
}

func TestScansGrowNothing(t *testing.T) {
	const n = 16384
	s := openTest(t, Options{Limits: Limits{MaxKey: 2048}})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	for i := range n {
		put(t, w, kv(fmt.Sprintf("%05d", i)), "x")
	}
	commit(t, sp)
	page, err := w.List(ListQuery{Limit: n})
	if err != nil || len(page.Entries) != n {
		t.Fatal(len(page.Entries), err)
	}
	if sp.recent != nil {
		t.Fatal("a long list is remembered")
	}
	wantAbsent(t, w, kv(strings.Repeat("k", recentLength)))
	if sp.recent != nil {
		t.Fatal("a long key is remembered")
	}
	for i := range page.Entries {
		if _, ok, err := w.Get(page.Entries[i].Key); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for i, e := range page.Entries[n-2*recentKeys:] {
		if _, ok, known := sp.recall(e.Key); known != (i >= recentKeys) || ok != known {
			t.Errorf("key %d of the last: %v %v", i, ok, known)
		}
	}
	checkRecent(t, sp)
	i := 0
	if allocs := testing.AllocsPerRun(1000, func() {
		key := page.Entries[i].Key
		if _, _, known := sp.recall(key); !known {
			sp.remember(key, &metadata{}, true)
		}
		i++
	}); allocs != 0 {
		t.Fatalf("%v allocations for a key", allocs)
	}
}
