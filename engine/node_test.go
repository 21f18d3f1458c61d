package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func create(t testing.TB, sp *Space, typ string, key ...string) {
	t.Helper()
	must(t, sp.Writes().Create(Identity{"ns", typ, key}))
	commit(t, sp)
}

func TestRaceForANameHasOneWinner(t *testing.T) {
	s := openTest(t, Options{})
	for round := range 30 {
		var wg sync.WaitGroup
		var won atomic.Int64
		for n := range 8 {
			sp := openSpace(t, s, round*8+n)
			wg.Go(func() {
				err := sp.Writes().Create(Identity{"ns", "t", []string{fmt.Sprint(round)}})
				if err == nil {
					_, err = commitWait(sp)
				}
				if err == nil {
					won.Add(1)
				}
				errorIf(t, err != nil && !errors.Is(err, ErrExists), "%v", err)
			})
		}
		wg.Wait()
		same(t, won.Load(), 1, "actors have one name")
	}
}

func TestActorsAreListedByPrefixAndPage(t *testing.T) {
	s := openTest(t, Options{})
	all := []Identity{{"n", "room", []string{"a"}}} // not in the store
	add := func(typ string, key ...string) {
		create(t, openSpace(t, s, len(all)), typ, key...)
		all = append(all, Identity{"ns", typ, key})
	}
	add("room", "a")
	add("room", "a", "1")
	add("room", "a", "2")
	add("room", "a\x00b")
	add("room", "ab")
	add("tenant")
	list := func(q ActorsQuery) string {
		q.Namespace = "ns"
		var names []string
		for {
			page, err := s.Actors(q)
			must(t, err)
			for _, a := range page.Actors {
				same(t, a.Head.Version, map[bool]Version{false: 1}[q.Brief])
				id, ok, err := s.Lookup(a.Identity)
				fatalIf(t, err != nil || !ok || id != a.ID, "%v has the id %v, the list says %v (%v)", a.Identity, id, a.ID, err)
				names = append(names, a.Identity.Type+"/"+strings.Join(a.Identity.Key, "/"))
			}
			for _, i := range all {
				want := slices.ContainsFunc(page.Actors, func(e ActorEntry) bool { return reflect.DeepEqual(i, e.Identity) })
				errorIf(t, q.Covers(page.Cursor, i) != want, "%+v up to %q covers %v: %t", q, page.Cursor, i, !want)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				return fmt.Sprintf("%q", names)
			}
		}
	}
	for i := range 8 {
		q := ActorsQuery{Limit: i % 4, Brief: i >= 4}
		same(t, list(q), `["room/a" "room/a/1" "room/a/2" "room/a\x00b" "room/ab" "tenant/"]`, q)
		q.Type, q.Prefix = "room", []string{"a"}
		same(t, list(q), `["room/a" "room/a/1" "room/a/2"]`, q)
	}
	errorIf(t, errOf(s.Actors(ActorsQuery{Namespace: "ns", Cursor: "nonsense!"})) == nil, "a foreign cursor was taken")
	page, err := s.Actors(ActorsQuery{Namespace: "n"})
	errorIf(t, err != nil || len(page.Actors) != 0, "another namespace: %v %v", page, err)
}

func countRows(t testing.TB, s *Store, lower, upper []byte) int {
	t.Helper()
	it, err := databaseOf(s).NewIter(nil)
	must(t, err)
	defer it.Close()
	n := 0
	for ok := it.SeekGE(lower); ok && string(it.Key()) < string(upper); ok = it.Next() {
		n++
	}
	return n
}

// TestOutboxReaderMissesNothing reads after the last sequence it saw while many spaces commit: it
// gets every record once and in order.
func TestOutboxReaderMissesNothing(t *testing.T) {
	s := openTest(t, Options{})
	const spaces, records = 8, 200
	var wg sync.WaitGroup
	for n := range spaces {
		sp := openSpace(t, s, n)
		wg.Go(func() {
			for i := range records {
				sp.Writes().Outbox(fmt.Appendf(nil, "%d %d", n, i), nil)
				check(t, errOf(sp.Commit(nil)))
			}
		})
	}
	next, seen, after := [spaces]int{}, 0, uint64(0)
	for seen < spaces*records {
		rows, err := s.Outbox(after, 50)
		must(t, err)
		for _, row := range rows {
			var n, i int
			fmt.Sscan(string(row.Record), &n, &i)
			fatalIf(t, row.Seq != after+1 || i != next[n],
				"row %d after %d: record %d of space %d, want %d", row.Seq, after, i, n, next[n])
			next[n]++
			after = row.Seq
			seen++
		}
	}
	wg.Wait()
}

// TestOutboxShowsOnlyDurableRows delays the sync of the log while a commit waits for it.
func TestOutboxShowsOnlyDurableRows(t *testing.T) {
	r := newRig(t, Options{})
	s, sp := r.Store, r.sp
	r.put([]byte{1}, "first")
	hold := make(chan struct{})
	r.o.Disk.Fail(func(op, path string) error {
		if op == "sync" && isLog(path) {
			<-hold
		}
		return nil
	})
	must(t, sp.Writes().Outbox([]byte("record"), nil))
	told := make(chan error, 1)
	must(t, errOf(sp.Commit(func(err error) { told <- err })))
	early, err := s.Outbox(0, 9)
	close(hold)
	fatalIf(t, err != nil || len(early) > 0 || <-told != nil, "%v before the sync, %v", early, err)
	rows, err := s.Outbox(0, 9)
	fatalIf(t, err != nil || len(rows) != 1, "%v after the sync, %v", rows, err)
}

// TestOutboxRowsAreAcknowledgedInAnyOrder compares acknowledgements of rows in
// and out of order, near to one another and far apart, there and gone, with a map.
func TestOutboxRowsAreAcknowledgedInAnyOrder(t *testing.T) {
	r := newRig(t, Options{})
	s, sp := r.Store, r.sp
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
		must(t, s.AckOutbox(seqs))
		fatalIf(t, !slices.Equal(seqs, given), "AckOutbox changed its argument: %v, was %v", seqs, given)
		for _, seq := range seqs {
			bytes -= left[seq]
			delete(left, seq)
		}
		if rows, n := s.OutboxSize(); rows != int64(len(left)) || n != int64(bytes) {
			t.Fatalf("%d rows of %d bytes, want %d of %d", rows, n, len(left), bytes)
		}
		rows, err := s.Outbox(0, records)
		fatalIf(t, err != nil || len(rows) != len(left), "%d rows, want %d: %v", len(rows), len(left), err)
		for _, row := range rows {
			size, ok := left[row.Seq]
			fatalIf(t, !ok || size != len(row.Record), "row %d of %d bytes, want %d, %v", row.Seq, len(row.Record), size, ok)
		}
	}
}
