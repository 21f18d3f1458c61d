package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/cairn-run/cairn/keyspace"
)

func TestOverwritingALongValueRemovesItsChunks(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	for _, size := range []int{3 * ChunkSize, 1, 200 * ChunkSize, 2*ChunkSize + 1, 0, 90 * ChunkSize} {
		value := strings.Repeat("v", size)
		put(t, sp.Writes(), []byte{9, 0, 0}, value)
		commit(t, sp)
		wantValue(t, sp.Writes(), []byte{9, 0, 0}, value)
		checkRows(t, s)
	}
	if ok, err := sp.Writes().Delete([]byte{9, 0, 0}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	commit(t, sp)
	checkRows(t, s)
	if h := sp.Head(); h.Keys != 0 || h.Bytes != 0 {
		t.Fatalf("head %+v", h)
	}
}

func TestReverseListReturnsWholeValues(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	values := map[string]string{}
	for i, size := range []int{0, 1, ChunkSize, ChunkSize + 1, 3 * ChunkSize, 25000} {
		key := kv(fmt.Sprint(i))
		values[string(key)] = strings.Repeat(fmt.Sprint(i), size)
		put(t, sp.Writes(), key, values[string(key)])
	}
	commit(t, sp)
	for _, keysOnly := range []bool{false, true} {
		page, err := sp.Writes().List(ListQuery{Reverse: true, KeysOnly: keysOnly})
		if err != nil || len(page.Entries) != len(values) {
			t.Fatal(len(page.Entries), err)
		}
		for i, e := range page.Entries {
			if want := kv(fmt.Sprint(len(values) - 1 - i)); !bytes.Equal(e.Key, want) || e.Size != len(values[string(want)]) {
				t.Fatalf("entry %d is %q of %d bytes", i, e.Key, e.Size)
			}
			if !keysOnly && string(e.Value) != values[string(e.Key)] {
				t.Fatalf("value of %q has %d bytes", e.Key, len(e.Value))
			}
		}
	}
}

func TestPrefixListFindsKeysThatGoOnWithFF(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	keys := [][]byte{{4, 0xFE}, {4, 0xFF}, {4, 0xFF, 0}, {4, 0xFF, 0xFF}, {4, 0xFF, 0xFF, 7}}
	for _, key := range keys {
		put(t, sp.Writes(), key, "x")
	}
	put(t, sp.Writes(), []byte{5}, "other")
	for _, stored := range []bool{false, true} {
		if stored {
			commit(t, sp)
		}
		for prefix, want := range map[string]int{"\x04": 5, "\x04\xFF": 4, "\x04\xFF\xFF": 2, "": 6} {
			page, err := sp.Writes().List(ListQuery{Prefix: []byte(prefix)})
			if err != nil || len(page.Entries) != want || page.Next != nil {
				t.Errorf("prefix %x, stored %v: %d entries, error %v, want %d", prefix, stored, len(page.Entries), err, want)
			}
		}
	}
}

func TestListWithoutBoundsIsBoundedByLimits(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{Limits: Limits{ListEntries: 3, ListBytes: 100}}), 1)
	for i := range 10 {
		put(t, sp.Writes(), kv(fmt.Sprint(i)), strings.Repeat("x", 20*i))
	}
	var sizes []int
	q := ListQuery{}
	for {
		page, err := sp.Writes().List(q)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Entries))
		if q.After = page.Next; q.After == nil {
			break
		}
	}
	if fmt.Sprint(sizes) != "[3 1 1 1 1 1 1 1]" {
		t.Fatalf("pages of %v entries", sizes)
	}
}

func TestQuotaIsExactAndGivesCreditForOverwrittenBytes(t *testing.T) {
	s := openTest(t, Options{Limits: Limits{Quota: 1000}})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	put(t, w, kv("a"), strings.Repeat("x", 498)) // 500 with its key
	commit(t, sp)
	put(t, w, kv("b"), strings.Repeat("x", 498))
	if w.Size() != 1000 {
		t.Fatalf("size %d", w.Size())
	}
	for range 2 {
		if err := w.Put(kv("c"), nil, PutOptions{}); !errors.Is(err, &QuotaError{}) {
			t.Fatalf("put over the quota: %v", err)
		}
		if err := w.Put(kv("a"), make([]byte, 499), PutOptions{}); !errors.Is(err, &QuotaError{}) {
			t.Fatalf("longer value over the quota: %v", err)
		}
		put(t, w, kv("a"), strings.Repeat("y", 498))
		commit(t, sp)
	}
	wantValue(t, w, kv("a"), strings.Repeat("y", 498))
	put(t, w, kv("b"), "short")
	put(t, w, kv("c"), "fits")
	if ok, err := w.Delete(kv("a")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if n, err := w.DeleteRange(nil, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if w.Size() != 0 || w.Keys() != 0 {
		t.Fatalf("%d keys of %d bytes are left", w.Keys(), w.Size())
	}
}

func TestLimitsAreTypedErrorsThatChangeNothing(t *testing.T) {
	s := openTest(t, Options{Limits: Limits{MaxKey: 16, MaxValue: 100, MaxWriteSet: 4 << 10}})
	w := openSpace(t, s, 1).Writes()
	check := func(err error, what string, limit, actual int64) {
		t.Helper()
		var e *LimitError
		if !errors.As(err, &e) || *e != (LimitError{what, limit, actual}) || !errors.Is(err, &LimitError{}) {
			t.Errorf("%v, want %s over %d", err, what, limit)
		}
	}
	before := w.Savepoint()
	put(t, w, kv(strings.Repeat("k", 16)), "")
	w.Rollback(before)
	check(w.Put(kv(strings.Repeat("k", 17)), nil, PutOptions{}), LimitKey, 16, 17)
	check(w.Put(kv("v"), make([]byte, 101), PutOptions{}), LimitValue, 100, 101)
	check(w.Put([]byte{1}, make([]byte, MaxValueCap+1), PutOptions{}), LimitValue, MaxValueCap, MaxValueCap+1)
	put(t, w, []byte{1}, strings.Repeat("x", 4000))
	check(w.Put(kv("v"), make([]byte, 100), PutOptions{}), LimitWriteSet, 4<<10, 4001+102)
	check(w.Outbox(make([]byte, 200), nil), LimitWriteSet, 4<<10, 4001+200)
	if w.Keys() != 1 || w.Bytes() != 4001 {
		t.Fatalf("%d keys, %d bytes held", w.Keys(), w.Bytes())
	}
	for _, key := range [][]byte{nil, {byte(keyspace.Expiry.Kind), 1}} {
		if err := w.Put(key, nil, PutOptions{}); !errors.Is(err, ErrReserved) {
			t.Errorf("put %x: %v", key, err)
		}
		if _, err := w.Delete(key); !errors.Is(err, ErrReserved) {
			t.Errorf("delete %x: %v", key, err)
		}
	}
}

// TestTurnsOfOneCommitHaveALimitEach shows that a turn is refused for what it
// writes itself, whatever the turns before it wrote.
func TestTurnsOfOneCommitHaveALimitEach(t *testing.T) {
	s := openTest(t, Options{Limits: Limits{MaxWriteSet: 4 << 10}})
	w := openSpace(t, s, 1).Writes()
	for i := range 3 {
		w.Advance(int64(i + 1))
		put(t, w, []byte{1, byte(i)}, strings.Repeat("x", 3000))
		if room := w.Room(); room != 4<<10-3002 {
			t.Fatalf("turn %d has room for %d bytes", i, room)
		}
		turn := w.Savepoint()
		if err := w.Put([]byte{2}, make([]byte, 2000), PutOptions{}); !errors.Is(err, &LimitError{}) {
			t.Fatalf("turn %d: %v", i, err)
		}
		w.Rollback(turn)
	}
}

// TestOverwritingWithinATurnHoldsOneValue shows that a turn which writes one key
// over and over does not run into the limit of the write set.
func TestOverwritingWithinATurnHoldsOneValue(t *testing.T) {
	s := openTest(t, Options{Limits: Limits{MaxWriteSet: 64 << 10}})
	sp := openSpace(t, s, 1)
	for range 100 {
		put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 10000))
	}
	if n := sp.Writes().Bytes(); n != 10001 {
		t.Fatalf("%d bytes held", n)
	}
}

func TestRollbackRestoresEverything(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	if err := w.Create(Identity{"ns", "t", []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	put(t, w, []byte{1}, "one")
	commit(t, sp)

	w.Advance(10)
	put(t, w, []byte{1}, "two")
	outer := w.Savepoint()
	w.Advance(20)
	put(t, w, []byte{1}, "three")
	put(t, w, kv("x"), "x")
	w.SetWake(5, keyspace.WakeAlarm, "a", "")
	w.Outbox([]byte("r"), nil)
	inner := w.Savepoint()
	if err := w.Destroy(); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, w, []byte{1})
	w.Rollback(inner)
	wantValue(t, w, []byte{1}, "three")
	wantValue(t, w, kv("x"), "x")
	if w.Version() != 3 || w.Keys() != 2 {
		t.Fatalf("version %d, %d keys", w.Version(), w.Keys())
	}
	for range 2 { // a savepoint can be used again
		w.Rollback(outer)
		wantValue(t, w, []byte{1}, "two")
		wantAbsent(t, w, kv("x"))
		if w.Version() != 2 || w.Keys() != 1 || w.Size() != 4 {
			t.Fatalf("version %d, %d keys, %d bytes", w.Version(), w.Keys(), w.Size())
		}
		put(t, w, []byte{1}, "four")
		w.Outbox([]byte("again"), nil)
	}
	w.Rollback(outer)
	commit(t, sp)
	if rows, _ := s.OutboxSize(); rows != 0 {
		t.Fatalf("%d rows in the outbox", rows)
	}
	if rows, err := s.Wakes(nil, 1<<62, 1); len(rows) > 0 || err != nil {
		t.Fatalf("a wake row: %v", err)
	}

	empty := w.Savepoint()
	w.Advance(30)
	put(t, w, kv("y"), "y")
	w.Rollback(empty)
	if w.turned || w.Bytes() != 0 {
		t.Fatal("the set is not empty after a rollback to its start")
	}
	wantValue(t, w, []byte{1}, "two")
}

func TestTurnsThatShareACommitKeepTheirVersions(t *testing.T) {
	sp := openSpace(t, openTest(t, Options{}), 1)
	w := sp.Writes()
	for i := range 5 {
		before := w.Savepoint()
		w.Advance(int64(100 + i))
		put(t, w, kv(fmt.Sprint(i)), "x")
		if i == 2 {
			w.Rollback(before)
		}
	}
	if v := commit(t, sp); v != 4 {
		t.Fatalf("version %d", v)
	}
	for i, want := range map[int]Version{0: 1, 1: 2, 3: 3, 4: 4} {
		if e := wantValue(t, w, kv(fmt.Sprint(i)), "x"); e.Version != want || e.Created != int64(100+i) {
			t.Errorf("turn %d: %+v", i, e)
		}
	}
}

func TestCommitOfAStateReadsNothing(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "a")
	commit(t, sp)
	// A reader would find the store closed.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, sp.Writes(), []byte{1}, "b")
	wantValue(t, sp.Writes(), []byte{1}, "b")
	if err := sp.Writes().Put(kv("other"), nil, PutOptions{}); !errors.Is(err, ErrClosed) {
		t.Fatalf("put of a key that has to be looked up: %v", err)
	}
}

func TestManyKeysAreDeletedAsARange(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	const n = 5000
	for i := range n {
		put(t, w, fmt.Appendf([]byte{5}, "%05d", i), "message")
	}
	put(t, w, kv("stays"), "x")
	commit(t, sp)
	got, err := w.DeleteRange([]byte{5}, []byte{6})
	if err != nil || got != n {
		t.Fatalf("deleted %d: %v", got, err)
	}
	if w.Bytes() > 100 {
		t.Fatalf("%d bytes held for a range", w.Bytes())
	}
	put(t, w, []byte("\x0500007"), "again")
	if got, err := w.DeleteRange([]byte{5}, []byte{6}); err != nil || got != 1 {
		t.Fatalf("deleted %d: %v", got, err)
	}
	put(t, w, []byte("\x0500008"), "again")
	commit(t, sp)
	page, err := w.List(ListQuery{})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("%d entries: %v", len(page.Entries), err)
	}
	checkRows(t, s)
}

func TestIdleSpaceIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Space{}); n > 600 {
		t.Fatalf("an idle space takes %d bytes", n)
	}
	sp := openSpace(t, openTest(t, Options{}), 1)
	for i := range 1000 {
		put(t, sp.Writes(), kv(fmt.Sprint(i)), "x")
	}
	commit(t, sp)
	if sp.set.overlay != nil || sp.set.ranges != nil {
		t.Fatal("a space without writes holds their buffers")
	}
}

func TestExpiredKeysReadAsAbsent(t *testing.T) {
	s := openTest(t, Options{Limits: Limits{Quota: 100}})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(1000)
	if err := w.Put(kv("a"), []byte("soon"), PutOptions{ExpireAt: 2000}); err != nil {
		t.Fatal(err)
	}
	if err := w.Put(kv("b"), []byte("later"), PutOptions{ExpireAt: 3000}); err != nil {
		t.Fatal(err)
	}
	put(t, w, kv("c"), "never")
	commit(t, sp)

	w.Advance(1999)
	if e := wantValue(t, w, kv("a"), "soon"); e.Expire != 2000 {
		t.Fatalf("expires at %d", e.Expire)
	}
	w.Advance(2000)
	wantAbsent(t, w, kv("a"))
	if w.Keys() != 3 {
		t.Fatalf("%d keys; an expired one counts until it is deleted", w.Keys())
	}
	due, err := w.Expired(2500, 10)
	if err != nil || len(due) != 1 || !bytes.Equal(due[0], kv("a")) {
		t.Fatalf("expired: %q, %v", due, err)
	}
	sn := sp.SnapshotAt(1500)
	wantValue(t, sn, kv("a"), "soon")
	sn.Close()
	sn = sp.SnapshotAt(2000)
	wantAbsent(t, sn, kv("a"))
	if page, err := sn.List(ListQuery{Prefix: []byte{4}}); err != nil || len(page.Entries) != 2 {
		t.Fatalf("%d entries: %v", len(page.Entries), err)
	}
	sn.Close()

	// A put over an expired key makes it anew, with credit for its bytes.
	if err := w.Put(kv("a"), []byte("anew"), PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := wantValue(t, w, kv("a"), "anew"); e.Created != 2000 || w.Keys() != 3 {
		t.Fatalf("created %d, %d keys", e.Created, w.Keys())
	}
	commit(t, sp)
	if due, err := w.Expired(1<<50, 10); err != nil || len(due) != 1 {
		t.Fatalf("expired: %q, %v", due, err)
	}
	w.Advance(5000)
	if was, err := w.Delete(kv("b")); was || err != nil {
		t.Fatal(was, err)
	}
	commit(t, sp)
	page, err := w.List(ListQuery{})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("%d entries, index included: %v", len(page.Entries), err)
	}
	checkRows(t, s)
}

func TestIndexEntriesOfARangeThatWasDeletedGoWhenTheyComeUp(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(1)
	for i := range 200 {
		if err := w.Put(kv(fmt.Sprint(i)), nil, PutOptions{ExpireAt: 10}); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, sp)
	w.Advance(2)
	if n, err := w.DeleteRange([]byte{4}, []byte{5}); n != 200 || err != nil {
		t.Fatal(n, err)
	}
	if err := w.Put(kv("7"), nil, PutOptions{ExpireAt: 10}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	due, err := w.Expired(10, 1000)
	if err != nil || len(due) != 1 || !bytes.Equal(due[0], kv("7")) {
		t.Fatalf("expired: %q, %v", due, err)
	}
	commit(t, sp)
	page, err := w.List(ListQuery{Prefix: []byte{byte(keyspace.Expiry.Kind)}})
	if err != nil || len(page.Entries) != 1 {
		t.Fatalf("%d entries in the index: %v", len(page.Entries), err)
	}
}

func TestRefusalSaysWhatPutWould(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits Limits
		want   error
	}{
		{Limits{Quota: 10_000, MaxWriteSet: 4096}, &LimitError{What: LimitWriteSet}},
		{Limits{Quota: 4000, MaxWriteSet: 8192}, &QuotaError{}},
	} {
		w := openSpace(t, openTest(t, Options{Limits: c.limits}), 1).Writes()
		room := w.Room()
		if err := w.Refusal(room); err != nil {
			t.Errorf("%d bytes of %d: %v", room, room, err)
		}
		refusal, put := w.Refusal(room+1), w.Put(kv("k"), make([]byte, int(room)+1-len(kv("k"))), PutOptions{})
		if !errors.Is(refusal, c.want) || !errors.Is(put, c.want) || refusal.Error() != put.Error() {
			t.Errorf("Refusal: %v; Put: %v", refusal, put)
		}
	}
}

func TestEachKindOfWriteIsAChange(t *testing.T) {
	for name, write := range map[string]func(w *WriteSet) error{
		"put":          func(w *WriteSet) error { return w.Put(kv("new"), nil, PutOptions{}) },
		"put again":    func(w *WriteSet) error { return w.Put(kv("there"), []byte("x"), PutOptions{}) },
		"delete":       func(w *WriteSet) error { _, err := w.Delete(kv("there")); return err },
		"delete range": func(w *WriteSet) error { _, err := w.DeleteRange(kv("a"), kv("z")); return err },
		"set wake":     func(w *WriteSet) error { w.SetWake(0, keyspace.WakeSends, "", ""); return nil },
		"clear wake":   func(w *WriteSet) error { w.ClearWake(0, keyspace.WakeSends, "", ""); return nil },
		"outbox":       func(w *WriteSet) error { return w.Outbox(nil, nil) },
		"create":       func(w *WriteSet) error { return w.Create(Identity{"ns", "t", []string{"k"}}) },
		"destroy":      func(w *WriteSet) error { return w.Destroy() },
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, Options{})
			sp := openSpace(t, s, 1)
			w := sp.Writes()
			for i := range 3 * pointDeletes {
				put(t, w, kv("m"+strings.Repeat("x", i)), "")
			}
			put(t, w, kv("there"), "x")
			commit(t, sp)
			w.Advance(10)
			before := w.Savepoint()
			w.Advance(20)
			if _, err := w.Delete(kv("absent")); err != nil {
				t.Fatal(err)
			}
			if w.Changed(&before) {
				t.Fatal("nothing was written, and the set says that it changed")
			}
			if err := write(w); err != nil {
				t.Fatal(err)
			}
			if !w.Changed(&before) {
				t.Fatal("the set does not know that it changed")
			}
			w.Rollback(before)
			if w.Changed(&before) {
				t.Fatal("the set says that it changed after a rollback")
			}
		})
	}
}

func TestDeletingAKnownKeyCountsWithoutReading(t *testing.T) {
	s := mustOpen(t, small(Options{Disk: NewDisk()}))
	defer s.Close()
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	long := strings.Repeat("x", 3*ChunkSize)
	put(t, w, kv("a"), long)
	put(t, w, kv("b"), "short")
	put(t, w, kv("c"), "stays")
	commit(t, sp)
	for key, old := range map[string]int{"a": len(long), "b": 5} {
		if ok, err := w.DeleteKnown(kv(key), old); !ok || err != nil {
			t.Fatal(key, ok, err)
		}
		if ok, err := w.DeleteKnown(kv(key), old); ok || err != nil {
			t.Fatal(key, "again", ok, err)
		}
	}
	if ok, err := w.DeleteKnown(kv("none"), -1); ok || err != nil {
		t.Fatal("absent", ok, err)
	}
	commit(t, sp)
	checkRows(t, s)
	if h := sp.Head(); h.Keys != 1 || h.Bytes != int64(len(kv("c"))+5) {
		t.Fatalf("%+v", h)
	}
}
