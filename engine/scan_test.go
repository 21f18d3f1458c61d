package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

type scanner interface {
	Scan(start, end []byte, f func(key, value []byte) bool) error
}

type appender interface {
	AppendValue(dst, key []byte) ([]byte, bool, error)
}

// checkAppend compares what AppendValue says with the model; the time does not
// count.
func (w *walker) checkAppend(a appender, key []byte) {
	want, exists := w.model.entries[string(key)]
	dst := make([]byte, 3, 3+w.rnd.IntN(200))
	got, ok, err := a.AppendValue(dst, key)
	if err != nil || ok != exists || string(got) != "\x00\x00\x00"+want.value {
		w.t.Fatalf("append %x: %d bytes, found %v, error %v; want %d bytes, %v", key, len(got), ok, err, 3+len(want.value), exists)
	}
}

// checkScan reads a range, or the beginning of one.
func (w *walker) checkScan(s scanner) {
	start, end := w.randomRange()
	w.checkScanOf(s, start, end, w.rnd.IntN(4)*(1+w.rnd.IntN(20)))
}

// checkScanOf reads up to limit keys of a range; 0 is all.
func (w *walker) checkScanOf(s scanner, start, end []byte, limit int) {
	want := w.model.all(start, end)
	if 0 < limit && limit <= len(want) {
		want = want[:limit]
	} else {
		want = append(want, "") // the end
	}
	err := s.Scan(start, end, func(key, value []byte) bool {
		if key[0] == byte(keyspace.Expiry.Kind) {
			return true // the index is the engine's business
		}
		if len(want) == 0 || string(key) != want[0] || string(value) != w.model.entries[want[0]].value {
			w.t.Fatalf("scan %x %x: key %x with %d bytes, want the rest to be %x", start, end, key, len(value), want)
		}
		want = want[1:]
		return len(want) > 0
	})
	if len(want) > 0 && want[0] == "" {
		want = want[1:]
	}
	if err != nil || len(want) > 0 {
		w.t.Fatalf("scan %x %x misses %x, error %v", start, end, want, err)
	}
}

// eachReader calls read with the write set and with a snapshot of a space.
func eachReader(sp *Space, read func(name string, r interface {
	scanner
	appender
})) {
	read("write set", sp.Writes())
	sn := sp.Snapshot()
	defer sn.Close()
	read("snapshot", sn)
}

func TestAppendValueAndScanReturnValuesOfEverySize(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	want := map[string]string{}
	for i, size := range []int{0, 1, 4096, ChunkSize - 1, ChunkSize, ChunkSize + 1, 2 * ChunkSize, 5*ChunkSize + 7} {
		key := string(kv(fmt.Sprint(i)))
		want[key] = strings.Repeat(fmt.Sprint(i), size)
		put(t, sp.Writes(), []byte(key), want[key])
	}
	for _, stored := range []bool{false, true} {
		if stored {
			commit(t, sp)
		}
		eachReader(sp, func(name string, r interface {
			scanner
			appender
		}) {
			if !stored && name == "snapshot" {
				return
			}
			for key, value := range want {
				got, ok, err := r.AppendValue([]byte("before "), []byte(key))
				if err != nil || !ok || string(got) != "before "+value {
					t.Errorf("%s: append %q: %d bytes, %v, %v", name, key, len(got), ok, err)
				}
			}
			got := map[string]string{}
			if err := r.Scan(kv(""), kv("~"), func(key, value []byte) bool {
				got[string(key)] = string(value)
				return true
			}); err != nil {
				t.Error(err)
			}
			if len(got) != len(want) {
				t.Errorf("%s: scan found %d keys", name, len(got))
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s: scan: %q has %d bytes, want %d", name, key, len(got[key]), len(value))
				}
			}
			if dst, ok, err := r.AppendValue([]byte("x"), kv("absent")); ok || err != nil || string(dst) != "x" {
				t.Errorf("%s: append of an absent key: %q %v %v", name, dst, ok, err)
			}
		})
	}
}

func TestScanAndAppendValueDoNotLookAtTheTime(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	w := sp.Writes()
	w.Advance(100)
	for _, size := range []int{0, 5, ChunkSize} {
		if err := w.Put(kv(fmt.Sprint(size)), make([]byte, size), PutOptions{ExpireAt: 50}); err != nil {
			t.Fatal(err)
		}
	}
	for _, stored := range []bool{false, true} {
		if stored {
			commit(t, sp)
		}
		for _, size := range []int{0, 5, ChunkSize} {
			if v, ok, err := w.AppendValue(nil, kv(fmt.Sprint(size))); !ok || err != nil || len(v) != size {
				t.Errorf("stored %v, %d bytes: %d, %v, %v", stored, size, len(v), ok, err)
			}
		}
		n := 0
		if err := w.Scan(kv(""), kv("~"), func(_, value []byte) bool { n += 1 + len(value); return true }); err != nil || n != 3+5+ChunkSize {
			t.Errorf("stored %v: scan found %d, %v", stored, n, err)
		}
	}
}

func TestScanAllocatesNothingForAnEntry(t *testing.T) {
	const entries = 500
	sp := openSpace(t, openTest(t, Options{}), 1)
	for i := range entries {
		put(t, sp.Writes(), kv(fmt.Sprintf("%06d", i)), strings.Repeat("v", 4096))
	}
	commit(t, sp)
	sn := sp.Snapshot()
	defer sn.Close()
	all := func() {
		seen := 0
		if err := sn.Scan(kv(""), kv("~"), func(_, value []byte) bool { seen++; return true }); err != nil || seen != entries {
			t.Error(seen, err)
		}
	}
	scan := math.Inf(1) // the store's own goroutines allocate as well, now and then
	for range 20 {
		if scan = min(scan, testing.AllocsPerRun(5, all)); scan < entries/2 {
			break
		}
	}
	lower, upper := rowRange(sp.id, kv(""), kv("~"))
	bare := testing.AllocsPerRun(5, func() { // Pebble allocates where the race detector is on
		it, err := sn.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
		}
		it.Close()
	})
	if scan > bare+entries/2 {
		t.Errorf("%v allocations for %d entries, %v for a bare iterator", scan, entries, bare)
	}
}

func TestScanWhoseFunctionPanicsLeavesNothingOpen(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("a"), "value")
	commit(t, sp)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		sp.Writes().Scan(nil, nil, func(_, _ []byte) bool { panic("f") })
	}()
	if err := s.Close(); err != nil { // waits for readers, and Pebble counts iterators
		t.Fatal(err)
	}
}

func TestScanAndAppendValueReportDamage(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	for _, key := range []string{"a", "b"} {
		put(t, sp.Writes(), kv(key), strings.Repeat("v", ChunkSize+1))
		put(t, sp.Writes(), kv(key+" long"), strings.Repeat("v", 3*ChunkSize))
	}
	commit(t, sp)
	damage := func(rows ...[]byte) {
		for _, row := range rows {
			if err := s.db.Delete(row, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	scan := func(start, end string) error {
		return sp.Writes().Scan(kv(start), kv(end), func(_, _ []byte) bool { return true })
	}
	damage(keyspace.AppendMetadataRow(nil, sp.id, kv("a")), keyspace.AppendDataRow(nil, sp.id, kv("a long"), 1))
	damage(keyspace.AppendDataRow(nil, sp.id, kv("b"), 0), keyspace.AppendMetadataRow(nil, sp.id, kv("b long")))
	for _, r := range [][2]string{{"a", "a "}, {"a", "b"}, {"a long", "b"}, {"b", "b "}, {"b long", "c"}} {
		if err := scan(r[0], r[1]); !errors.Is(err, &CorruptError{}) {
			t.Errorf("scan %q: %v", r, err)
		}
	}
	for _, key := range []string{"a long", "b"} {
		if v, ok, err := sp.Writes().AppendValue([]byte("x"), kv(key)); ok || !errors.Is(err, &CorruptError{}) || string(v) != "x" {
			t.Errorf("append %q: %q, %v, %v", key, v, ok, err)
		}
	}
}

func TestPutWithKnownLengthCountsExactly(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(100)
	sizes := map[string]int{"short": 10, "long": 3 * ChunkSize, "gone": -1, "empty": 0}
	for key, size := range sizes {
		if size >= 0 {
			put(t, w, kv(key), strings.Repeat("v", size))
		}
	}
	commit(t, sp)
	for turn, to := range []int{4096, 2*ChunkSize + 1, 0, 7} {
		w.Advance(int64(200 + turn))
		at := w.Savepoint()
		for range 2 { // the second time, the slot knows
			for key, size := range sizes {
				if err := w.Put(kv(key), bytes.Repeat([]byte{'v'}, to), PutOptions{Known: true, Old: size}); err != nil {
					t.Fatal(err)
				}
			}
		}
		keys, size := w.Keys(), w.Size()
		w.Rollback(at)
		for key := range sizes {
			put(t, w, kv(key), strings.Repeat("v", to))
		}
		if w.Keys() != keys || w.Size() != size {
			t.Errorf("%d keys of %d bytes with known lengths, %d of %d with lookups", keys, size, w.Keys(), w.Size())
		}
		w.Rollback(at)
		for key, size := range sizes {
			if err := w.Put(kv(key), bytes.Repeat([]byte{'v'}, to), PutOptions{Known: true, Old: size}); err != nil {
				t.Fatal(err)
			}
			sizes[key] = to
		}
		commit(t, sp)
		checkRows(t, s)
		if e := wantValue(t, w, kv("long"), strings.Repeat("v", to)); e.Created != int64(200+turn) {
			t.Errorf("created %d", e.Created)
		}
	}
}

func TestPutWithWrongLengthLeavesAHeadThatCanBeRead(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	put(t, w, kv("a"), "value")
	commit(t, sp)
	if err := w.Put(kv("a"), nil, PutOptions{Known: true, Old: MaxValueCap + 1}); !errors.Is(err, &LimitError{What: LimitValue}) {
		t.Errorf("length over the cap: %v", err)
	}
	if err := w.Put(kv("a"), nil, PutOptions{Known: true, Old: MaxValueCap}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	sp = openSpace(t, s, 1)
	if h := sp.Head(); h.Keys != 1 || h.Bytes != 0 {
		t.Errorf("head %+v", h)
	}
	wantValue(t, sp.Writes(), kv("a"), "")
}

func TestRoomIsWhatCanStillBePut(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		room   int64
		err    error
	}{
		"quota":     {Limits{Quota: 10000, MaxWriteSet: 1 << 20}, 10000, &QuotaError{}},
		"write set": {Limits{Quota: 1 << 30, MaxWriteSet: 8192}, 8192, &LimitError{What: LimitWriteSet}},
	} {
		t.Run(name, func(t *testing.T) {
			sp := openSpace(t, openTest(t, Options{Limits: c.limits}), 1)
			w := sp.Writes()
			if w.Room() != c.room {
				t.Fatalf("room %d", w.Room())
			}
			put(t, w, kv("a"), strings.Repeat("v", 998))
			if w.Room() != c.room-1000 {
				t.Fatalf("room %d after 1000 bytes", w.Room())
			}
			rest := int(w.Room()) - 2
			if err := w.Put(kv("b"), make([]byte, rest+1), PutOptions{}); !errors.Is(err, c.err) {
				t.Fatalf("put of more than there is room for: %v", err)
			}
			put(t, w, kv("b"), strings.Repeat("v", rest))
			if w.Room() != 0 {
				t.Fatalf("room %d in a full set", w.Room())
			}
			// What only takes the place of something needs no room.
			put(t, w, kv("b"), strings.Repeat("w", rest))
			if err := w.Put(kv("b"), make([]byte, rest+1), PutOptions{}); err == nil {
				t.Fatal("a longer value fits")
			}
			sp.SetLimits(&Limits{MaxKey: 16, MaxValue: 1, MaxWriteSet: 4 << 10, Quota: 1, ListEntries: 1, ListBytes: 1})
			if w.Room() != 0 {
				t.Fatalf("room %d over the limits", w.Room())
			}
		})
	}
}

func TestRewritingAPageInATurnHoldsItOnce(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	w := sp.Writes()
	w.Advance(1)
	put(t, w, pageKey(1), strings.Repeat("v", pageSize))
	held := w.Bytes()
	for i := range 100 {
		put(t, w, pageKey(1), strings.Repeat(fmt.Sprint(i%10), pageSize))
	}
	if w.Bytes() != held {
		t.Errorf("%d bytes held after rewriting, %d before", w.Bytes(), held)
	}
	at := w.Savepoint()
	if w.Bytes() != held {
		t.Error("a savepoint copies values")
	}
	for range 100 {
		put(t, w, pageKey(1), strings.Repeat("w", pageSize))
	}
	if w.Bytes() != held+pageSize {
		t.Errorf("%d bytes held after a savepoint and rewriting, %d before", w.Bytes(), held)
	}
	w.Rollback(at)
	wantValue(t, w, pageKey(1), strings.Repeat("9", pageSize))
	if w.Bytes() != held {
		t.Errorf("%d bytes held after the rollback, %d before", w.Bytes(), held)
	}
}

func TestScanGoesOnAfterTheLastKey(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	w := sp.Writes()
	for n := range 20 {
		if n%2 == 0 {
			put(t, w, pageKey(n), fmt.Sprint(n))
		}
	}
	commit(t, sp)
	for n := range 20 {
		if n%2 == 1 {
			put(t, w, pageKey(n), fmt.Sprint(n))
		}
	}
	var seen []string
	start, end := pageKey(0), pageKey(20)
	for last := []byte(nil); ; start = append(last, 0) {
		n := 0
		if err := w.Scan(start, end, func(key, value []byte) bool {
			last, seen = append(last[:0], key...), append(seen, string(value))
			n++
			return n < 3
		}); err != nil {
			t.Fatal(err)
		}
		if n < 3 {
			break
		}
	}
	if len(seen) != 20 || !slices.IsSortedFunc(seen, func(a, b string) int { return len(a) - len(b) }) {
		t.Fatalf("pages %v", seen)
	}
}
