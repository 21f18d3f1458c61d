package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func create(t testing.TB, sp *Space, typ string, key ...string) {
	t.Helper()
	if err := sp.Writes().Create(Identity{"ns", typ, key}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
}

func TestCreatedActorIsFoundByName(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	i := Identity{"ns", "tenant", []string{"acme", "eu\x00\xff"}}
	id := s.NewActorID(i)
	if id.IsZero() || uint16(id[0])<<8|uint16(id[1]) != Slot(i) || s.NewActorID(i) == id {
		t.Fatalf("id %v", id)
	}
	sp, err := s.OpenSpace(id)
	if err != nil {
		t.Fatal(err)
	}
	sp.Writes().Advance(77)
	if err := sp.Writes().Create(i); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := s.Lookup(i); ok {
		t.Fatal("found before its commit")
	}
	commit(t, sp)
	s.Close()
	s = openTest(t, o)
	got, ok, err := s.Lookup(i)
	if err != nil || !ok || got != id {
		t.Fatalf("lookup: %v %v %v", got, ok, err)
	}
	back, created, ok, err := s.Identity(id)
	if err != nil || !ok || created != 77 || !reflect.DeepEqual(back, i) {
		t.Fatalf("identity: %+v %d %v %v", back, created, ok, err)
	}
	if _, ok, err := s.Lookup(Identity{"ns", "tenant", []string{"acme"}}); ok || err != nil {
		t.Fatalf("a part of a key was found: %v", err)
	}
}

func TestOneOfTwoSpacesGetsAName(t *testing.T) {
	s := openTest(t, Options{})
	i := Identity{"ns", "t", []string{"k"}}
	a, b := openSpace(t, s, 1), openSpace(t, s, 2)
	before := b.Writes().Savepoint()
	if err := errors.Join(a.Writes().Create(i), b.Writes().Create(i)); err != nil {
		t.Fatal(err)
	}
	commit(t, a)
	put(t, b.Writes(), []byte{1}, "kept")
	if _, err := commitWait(b); !errors.Is(err, ErrExists) {
		t.Fatalf("second commit: %v", err)
	}
	wantValue(t, b.Writes(), []byte{1}, "kept")
	b.Writes().Rollback(before)
	if _, err := commitWait(b); err != nil {
		t.Fatalf("commit after a rollback: %v", err)
	}
	if err := a.Writes().Create(Identity{"ns", "t", nil}); !errors.Is(err, ErrExists) {
		t.Fatalf("a second name for an actor: %v", err)
	}
}

func TestRaceForANameHasOneWinner(t *testing.T) {
	s := openTest(t, Options{})
	for round := range 30 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for n := range 8 {
			sp := openSpace(t, s, round*8+n)
			wg.Go(func() {
				err := sp.Writes().Create(Identity{"ns", "t", []string{fmt.Sprint(round)}})
				if err == nil {
					_, err = commitWait(sp)
				}
				if err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				} else if !errors.Is(err, ErrExists) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Fatalf("%d actors have one name", won)
		}
	}
}

func TestActorsAreListedByPrefixAndPage(t *testing.T) {
	s := openTest(t, Options{})
	n := 0
	add := func(typ string, key ...string) {
		n++
		create(t, openSpace(t, s, n), typ, key...)
	}
	all := []Identity{{"ns", "room", []string{"a"}}, {"ns", "room", []string{"a", "1"}}, {"ns", "room", []string{"a", "2"}}, {"n", "room", []string{"a"}}}
	add("room", "a")
	add("room", "a", "1")
	add("room", "a", "2")
	add("room", "a\x00b")
	add("room", "ab")
	add("tenant")
	list := func(q ActorsQuery) (names []string) {
		q.Namespace = "ns"
		for {
			page, err := s.Actors(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Actors {
				if want := map[bool]Version{false: 1}[q.Brief]; a.Head.Version != want {
					t.Fatalf("head %+v", a.Head)
				}
				if id, ok, err := s.Lookup(a.Identity); err != nil || !ok || id != a.ID {
					t.Fatalf("%v has the id %v, the list says %v (%v)", a.Identity, id, a.ID, err)
				}
				if !slices.ContainsFunc(all, func(i Identity) bool { return reflect.DeepEqual(i, a.Identity) }) {
					all = append(all, a.Identity)
				}
				names = append(names, a.Identity.Type+"/"+strings.Join(a.Identity.Key, "/"))
			}
			for _, i := range all {
				want := slices.ContainsFunc(page.Actors, func(e ActorEntry) bool { return reflect.DeepEqual(i, e.Identity) })
				if q.Covers(page.Cursor, i) != want {
					t.Errorf("%+v up to %q covers %v: %t", q, page.Cursor, i, !want)
				}
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				return names
			}
		}
	}
	for i := range 8 {
		limit, brief := i%4, i >= 4
		if got := fmt.Sprintf("%q", list(ActorsQuery{Limit: limit, Brief: brief})); got != `["room/a" "room/a/1" "room/a/2" "room/a\x00b" "room/ab" "tenant/"]` {
			t.Errorf("all, limit %d: %s", limit, got)
		}
		if got := fmt.Sprintf("%q", list(ActorsQuery{Type: "room", Prefix: []string{"a"}, Limit: limit, Brief: brief})); got != `["room/a" "room/a/1" "room/a/2"]` {
			t.Errorf("by prefix, limit %d: %s", limit, got)
		}
	}
	if _, err := s.Actors(ActorsQuery{Namespace: "ns", Cursor: "nonsense!"}); err == nil {
		t.Error("a foreign cursor was taken")
	}
	if page, err := s.Actors(ActorsQuery{Namespace: "n"}); err != nil || len(page.Actors) != 0 {
		t.Errorf("another namespace: %v %v", page, err)
	}
}

func TestDestroyRemovesOneActorAndLeavesATombstone(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	victim, other := openSpace(t, s, 1), openSpace(t, s, 2)
	create(t, victim, "t", "victim")
	create(t, other, "t", "other")
	for _, sp := range []*Space{victim, other} {
		put(t, sp.Writes(), []byte{1}, "state")
		put(t, sp.Writes(), []byte{0xFF, 0xFF}, strings.Repeat("x", 25000))
		if err := sp.Writes().Put(kv("e"), nil, PutOptions{ExpireAt: 1 << 50}); err != nil {
			t.Fatal(err)
		}
		commit(t, sp)
	}
	w := victim.Writes()
	w.Advance(555)
	put(t, w, kv("x"), "dropped too")
	if err := w.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := w.Put(kv("y"), nil, PutOptions{}); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("put after destroy: %v", err)
	}
	if _, err := w.DeleteRange(nil, nil); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("delete range after destroy: %v", err)
	}
	v := commit(t, victim)
	if _, ok, err := s.Lookup(Identity{"ns", "t", []string{"victim"}}); ok || err != nil {
		t.Fatalf("the name is still there: %v", err)
	}
	if _, _, ok, _ := s.Identity(testID(1)); ok {
		t.Fatal("the identity is still there")
	}
	tomb, ok, err := s.Tombstone(testID(1))
	if err != nil || !ok || tomb.Destroyed != 555 || tomb.Version != v || tomb.Identity.Key[0] != "victim" {
		t.Fatalf("tombstone %+v %v %v", tomb, ok, err)
	}
	w.Advance(556) // a late turn does not bring a head back
	commit(t, victim)
	lower, upper := keyspace.AppendActorPrefix(nil, testID(1)), keyspace.Successor(keyspace.AppendActorPrefix(nil, testID(1)))
	if n := countRows(t, s, lower, upper); n != 0 {
		t.Fatalf("%d rows are left", n)
	}
	s.Close()
	s = openTest(t, o)
	if _, err := s.OpenSpace(testID(1)); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("open after destroy: %v", err)
	}
	wantValue(t, openSpace(t, s, 2).Writes(), []byte{1}, "state")
	again := openSpace(t, s, 3)
	create(t, again, "t", "victim")
	checkRows(t, s)
}

func countRows(t testing.TB, s *Store, lower, upper []byte) int {
	t.Helper()
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	n := 0
	for ok := it.SeekGE(lower); ok && string(it.Key()) < string(upper); ok = it.Next() {
		n++
	}
	return n
}

func TestKeptKindsOutliveTheActorUntilTheyAreDeleted(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	create(t, sp, "t", "k")
	out := func(n byte) []byte { return []byte{byte(keyspace.Outgoing.Kind), 0, 0, 0, 0, 0, 0, 0, n} }
	put(t, sp.Writes(), []byte{1}, "state")
	put(t, sp.Writes(), out(1), "stored")
	commit(t, sp)
	put(t, sp.Writes(), out(2), "pending")
	if err := sp.Writes().Destroy(keyspace.Outgoing.Kind, keyspace.FailedSend.Kind); err != nil {
		t.Fatal(err)
	}
	put(t, sp.Writes(), out(3), "after")
	if sp.Writes().Keys() != 3 {
		t.Fatalf("%d keys", sp.Writes().Keys())
	}
	commit(t, sp)
	checkRows(t, s)
	s.Close()
	s = mustOpen(t, o)
	sp = openSpace(t, s, 1)
	if h := sp.Head(); !h.Destroyed || h.Keys != 3 {
		t.Fatalf("head %+v", h)
	}
	w := sp.Writes()
	wantAbsent(t, w, []byte{1})
	if err := w.Put([]byte{1}, nil, PutOptions{}); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("put: %v", err)
	}
	wantValue(t, w, out(2), "pending")
	put(t, w, []byte{byte(keyspace.FailedSend.Kind), 1}, "moved aside")
	start, end := keyspace.Outgoing.Range()
	if n, err := w.DeleteRange(start, end); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	commit(t, sp)
	if ok, err := w.Delete([]byte{byte(keyspace.FailedSend.Kind), 1}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	commit(t, sp)
	s.Close()
	s = openTest(t, o)
	if _, err := s.OpenSpace(testID(1)); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("open when nothing is left: %v", err)
	}
}

func TestAnotherDestroyRemovesWhatWasKept(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	create(t, sp, "t", "k")
	key := []byte{byte(keyspace.Outgoing.Kind), 1}
	put(t, sp.Writes(), key, "message")
	if err := sp.Writes().Destroy(keyspace.Outgoing.Kind); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	before, _, _ := s.Tombstone(testID(1))
	// The name may have a new owner by now.
	create(t, openSpace(t, s, 2), "t", "k")
	if err := sp.Writes().Destroy(keyspace.Alarm.Kind); err != nil {
		t.Fatal(err)
	}
	if err := sp.Writes().Put([]byte{byte(keyspace.Alarm.Kind)}, nil, PutOptions{}); !errors.Is(err, ErrDestroyed) {
		t.Fatalf("put of a kind that was not kept the first time: %v", err)
	}
	commit(t, sp)
	prefix := keyspace.AppendActorPrefix(nil, testID(1))
	if n := countRows(t, s, prefix, keyspace.Successor(prefix)); n != 0 {
		t.Fatalf("%d rows are left", n)
	}
	if after, ok, err := s.Tombstone(testID(1)); !ok || err != nil || !reflect.DeepEqual(after, before) {
		t.Fatalf("tombstone %+v, was %+v", after, before)
	}
	if id, ok, err := s.Lookup(Identity{"ns", "t", []string{"k"}}); !ok || err != nil || id != testID(2) {
		t.Fatal("the name of the next actor is gone")
	}
}

func TestWakeRowsComeInTheOrderOfTheirTimes(t *testing.T) {
	s := openTest(t, Options{})
	for n, due := range []int64{30, 10, 20, 10} {
		sp := openSpace(t, s, n)
		sp.Writes().SetWake(due, keyspace.WakeAlarm, fmt.Sprint("alarm ", n), "i")
		if n == 2 {
			sp.Writes().SetWake(5, keyspace.WakeSends, "", "")
			sp.Writes().ClearWake(5, keyspace.WakeSends, "", "")
		}
		commit(t, sp)
	}
	all, err := s.Wakes(nil, 30, 10)
	if err != nil || len(all) != 4 || all[0].Due != 10 || all[3].Due != 30 || all[2].Name != "alarm 2" || all[2].ID != testID(2) || all[2].Kind != keyspace.WakeAlarm || all[2].Instance != "i" {
		t.Fatalf("%+v %v", all, err)
	}
	if due, err := s.Wakes(nil, 29, 10); err != nil || len(due) != 3 {
		t.Fatalf("%+v %v", due, err)
	}
	rest, err := s.Wakes(all[1].Row, 100, 1)
	if err != nil || len(rest) != 1 || rest[0].Due != 20 {
		t.Fatalf("%+v %v", rest, err)
	}
	sp := openSpace(t, s, 2)
	sp.Writes().ClearWake(20, keyspace.WakeAlarm, "alarm 2", "i")
	commit(t, sp)
	if all, err := s.Wakes(nil, 30, 10); err != nil || len(all) != 3 {
		t.Fatalf("%+v %v", all, err)
	}
}

func TestOutboxIsOrderedCountedAndAcknowledged(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		o = small(o)
		s := mustOpen(t, o)
		sp := openSpace(t, s, 1)
		bytes := int64(0)
		for i := range 10 {
			record := fmt.Appendf(nil, "record %d", i)
			bytes += int64(len(record))
			if err := sp.Writes().Outbox(record, nil); err != nil {
				t.Fatal(err)
			}
			if i%3 == 0 {
				commit(t, sp)
			}
		}
		commit(t, sp)
		check := func(s *Store, wantRows, wantBytes int64) {
			t.Helper()
			if rows, n := s.OutboxSize(); rows != wantRows || n != wantBytes {
				t.Fatalf("%d rows of %d bytes, want %d of %d", rows, n, wantRows, wantBytes)
			}
		}
		check(s, 10, bytes)
		rows, err := s.Outbox(0, 4)
		if err != nil || len(rows) != 4 || rows[0].Seq != 1 || string(rows[3].Record) != "record 3" {
			t.Fatalf("%v %v", rows, err)
		}
		rows, err = s.Outbox(rows[3].Seq, 100)
		if err != nil || len(rows) != 6 || rows[0].Seq != 5 {
			t.Fatalf("%v %v", rows, err)
		}
		if err := s.AckOutbox([]uint64{1, 2, 2, 99}); err != nil {
			t.Fatal(err)
		}
		check(s, 8, bytes-16)
		s.Close()
		s = openTest(t, o)
		check(s, 8, bytes-16)
		sp = openSpace(t, s, 1)
		sp.Writes().Outbox([]byte("next"), nil)
		commit(t, sp)
		rows, err = s.Outbox(10, 10)
		if err != nil || len(rows) != 1 || rows[0].Seq != 11 {
			t.Fatalf("%v %v", rows, err)
		}
	})
}

// TestOutboxReaderMissesNothing reads after the last sequence it saw while many
// spaces commit: every record comes, once and in order.
func TestOutboxReaderMissesNothing(t *testing.T) {
	s := openTest(t, Options{})
	const spaces, records = 8, 200
	var wg sync.WaitGroup
	for n := range spaces {
		sp := openSpace(t, s, n)
		wg.Go(func() {
			for i := range records {
				sp.Writes().Outbox(fmt.Appendf(nil, "%d %d", n, i), nil)
				if _, err := sp.Commit(nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next, seen, after := [spaces]int{}, 0, uint64(0)
	for seen < spaces*records {
		rows, err := s.Outbox(after, 50)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			var n, i int
			fmt.Sscan(string(row.Record), &n, &i)
			if row.Seq != after+1 || i != next[n] {
				t.Fatalf("row %d after %d: record %d of space %d, want %d", row.Seq, after, i, n, next[n])
			}
			next[n]++
			after = row.Seq
			seen++
		}
	}
	wg.Wait()
}

// TestOutboxRowsAreAcknowledgedInAnyOrder compares acknowledgements of rows in
// and out of order, near to one another and far apart, there and gone, with a map.
func TestOutboxRowsAreAcknowledgedInAnyOrder(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	rng := rand.New(rand.NewPCG(1, 2))
	const records = 600
	left, bytes := map[uint64]int{}, 0
	for i := range records {
		record := make([]byte, rng.IntN(50))
		sp.Writes().Outbox(record, nil)
		left[uint64(i+1)] = len(record)
		bytes += len(record)
		if i%50 == 49 {
			commit(t, sp)
		}
	}
	for len(left) > 0 {
		seqs := make([]uint64, 1+rng.IntN(40))
		from, near := rng.Uint64N(records), 1+rng.Uint64N(4*outboxStride)
		for i := range seqs {
			seqs[i] = from + rng.Uint64N(near) // also 0 and rows beyond the last
			if rng.IntN(8) == 0 {
				seqs[i] = rng.Uint64N(records + 2)
			}
		}
		if rng.IntN(2) == 0 {
			slices.Sort(seqs)
		}
		given := slices.Clone(seqs)
		if err := s.AckOutbox(seqs); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seqs, given) {
			t.Fatalf("AckOutbox changed its argument: %v, was %v", seqs, given)
		}
		for _, seq := range seqs {
			bytes -= left[seq]
			delete(left, seq)
		}
		if rows, n := s.OutboxSize(); rows != int64(len(left)) || n != int64(bytes) {
			t.Fatalf("%d rows of %d bytes, want %d of %d", rows, n, len(left), bytes)
		}
		rows, err := s.Outbox(0, records)
		if err != nil || len(rows) != len(left) {
			t.Fatalf("%d rows, want %d: %v", len(rows), len(left), err)
		}
		for _, row := range rows {
			if size, ok := left[row.Seq]; !ok || size != len(row.Record) {
				t.Fatalf("row %d of %d bytes, want %d, %v", row.Seq, len(row.Record), size, ok)
			}
		}
	}
}
