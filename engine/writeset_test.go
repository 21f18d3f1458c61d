package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unsafe"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

func TestOverwritingALongValueRemovesItsChunks(t *testing.T) {
	r := newRig(t, Options{})
	for _, size := range []int{3 * ChunkSize, 1, 200 * ChunkSize, 2*ChunkSize + 1, 0, 90 * ChunkSize} {
		value := strings.Repeat("v", size)
		r.put([]byte{9, 0, 0}, value)
		r.want([]byte{9, 0, 0}, value)
		checkRows(t, r.Store)
	}
	returns(t, true)(r.w.Delete([]byte{9, 0, 0}))
	r.commit()
	checkRows(t, r.Store)
	h := r.sp.Head()
	fatalIf(t, h.Keys != 0 || h.Bytes != 0, "head %+v", h)
}

func TestDestroyOfASmallActorLeavesNoRangeTombstone(t *testing.T) {
	r := newRig(t, Options{})
	r.w.Advance(1000)
	put(t, r.w, []byte{1}, "state")
	must(t, r.w.Put(kv("k"), []byte("v"), PutOptions{ExpireAt: 5000}))
	r.commit()
	put(t, r.w, kv("new"), "not stored yet")
	must(t, r.w.Destroy())
	errorIf(t, len(r.w.ranges) != 0, "%d ranges are deleted: every iterator pays for them", len(r.w.ranges))
	r.commit()
	prefix := keyspace.AppendActorPrefix(nil, r.sp.ID())
	same(t, countRows(t, r.Store, prefix, keyspace.Successor(prefix)), 0)
}

func TestListWithoutBoundsIsBoundedByLimits(t *testing.T) {
	r := newRig(t, Options{Limits: Limits{ListEntries: 3, ListBytes: 100}})
	for i := range 10 {
		put(t, r.w, kv(fmt.Sprint(i)), strings.Repeat("x", 20*i))
	}
	var sizes []int
	for q, more := (ListQuery{}), true; more; more = q.After != nil {
		page, err := r.w.List(q)
		must(t, err)
		sizes = append(sizes, len(page.Entries))
		q.After = page.Next
	}
	same(t, fmt.Sprint(sizes), "[3 1 1 1 1 1 1 1]")
}

func TestLimitsAreTypedErrorsThatChangeNothing(t *testing.T) {
	w := newRig(t, Options{Limits: Limits{MaxKey: 16, MaxValue: 100, MaxWriteSet: 4 << 10}}).w
	check := func(err error, what string, limit, actual int64) {
		t.Helper()
		var e *LimitError
		errorIf(t, !errors.As(err, &e) || *e != (LimitError{what, limit, actual}) || !errors.Is(err, &LimitError{}),
			"%v, want %s over %d", err, what, limit)
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
	fatalIf(t, w.Keys() != 1 || w.Bytes() != 4001, "%d keys, %d bytes held", w.Keys(), w.Bytes())
	for _, key := range [][]byte{nil, {byte(keyspace.Expiry.Kind), 1}} {
		wantErr(t, w.Put(key, nil, PutOptions{}), ErrReserved, key)
		wantErr(t, errOf(w.Delete(key)), ErrReserved, key)
	}
}

func TestCommitOfAStateReadsNothing(t *testing.T) {
	r := newRig(t, Options{})
	r.put([]byte{1}, "a")
	must(t, r.Close()) // which a reader would find
	put(t, r.w, []byte{1}, "b")
	r.want([]byte{1}, "b")
	wantErr(t, r.w.Put(kv("other"), nil, PutOptions{}), ErrClosed)
}

// Expired keys are found even if they are put, or come back, before the key found last.
func TestExpiredKeysAreFoundBeforeThoseOfLastTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.w.Advance(1)
	expired := func(want string) {
		t.Helper()
		due, _, err := r.w.Expired(100, 10)
		must(t, err)
		got := ""
		for i := range due {
			got += string(due[i].Key)
		}
		same(t, got, want)
		returns(t, int64(want[1]-'a')*10+10)(r.w.NextExpiry())
	}
	put := func(key string) { must(t, r.w.Put(kv(key), nil, PutOptions{ExpireAt: int64(key[0]-'a')*10 + 10})) }
	put("b")
	put("c")
	before := r.w.Savepoint()
	returns(t, true)(r.w.Delete(kv("b")))
	expired("\x04c")
	r.w.Rollback(before)
	expired("\x04b\x04c")
	put("a")
	expired("\x04a\x04b\x04c")
}

func TestIdleSpaceIsSmall(t *testing.T) {
	n := unsafe.Sizeof(Space{})
	fatalIf(t, n > 600, "an idle space takes %d bytes", n)
	r := newRig(t, Options{})
	for i := range 1000 {
		put(t, r.w, kv(fmt.Sprint(i)), "x")
	}
	r.commit()
	fatalIf(t, r.sp.set.overlay != nil || r.sp.set.ranges != nil, "a space without writes holds their buffers")
}

func TestIndexEntriesOfARangeThatWasDeletedGoWhenTheyComeUp(t *testing.T) {
	r := newRig(t, Options{})
	r.w.Advance(1)
	for i := range 200 {
		must(t, r.w.Put(kv(fmt.Sprint(i)), nil, PutOptions{ExpireAt: 10}))
	}
	r.commit()
	r.w.Advance(2)
	returns(t, int64(200))(r.w.DeleteRange([]byte{4}, []byte{5}))
	must(t, r.w.Put(kv("7"), nil, PutOptions{ExpireAt: 10}))
	r.commit()
	due, more, err := r.w.Expired(10, 10) // stale entries count as read
	fatalIf(t, err != nil || len(due) > 1 || !more, "expired: %v, %v, %v", due, more, err)
	r.commit()
	for more && len(due) == 0 {
		due, more, err = r.w.Expired(10, 150)
	}
	fatalIf(t, err != nil || len(due) != 1 || !bytes.Equal(due[0].Key, kv("7")), "expired: %v, %v", due, err)
	for more {
		_, more, err = r.w.Expired(10, 150)
		must(t, err)
	}
	r.commit()
	page, err := r.w.List(ListQuery{Prefix: []byte{byte(keyspace.Expiry.Kind)}})
	fatalIf(t, err != nil || len(page.Entries) != 1, "%d entries in the index: %v", len(page.Entries), err)
}

func TestScanAllocatesNothingForAnEntry(t *testing.T) {
	const entries = 500
	r := newRig(t, Options{})
	for i := range entries {
		put(t, r.w, kv(fmt.Sprintf("%06d", i)), strings.Repeat("v", 4096))
	}
	r.commit()
	sn := r.sp.Snapshot()
	defer sn.Close()
	all := func() {
		seen := 0
		err := sn.Scan(kv(""), kv("~"), func(_, value []byte) bool { seen++; return true })
		errorIf(t, err != nil || seen != entries, "%v %v", seen, err)
	}
	scan := math.Inf(1) // the store's own goroutines allocate as well, now and then
	for range 20 {
		if scan = min(scan, testing.AllocsPerRun(5, all)); scan < entries/2 {
			break
		}
	}
	lower, upper := rowRange(r.sp.id, kv(""), kv("~"))
	bare := testing.AllocsPerRun(5, func() { // Pebble allocates where the race detector is on
		it, err := snapOf(sn.opened).NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
		must(t, err)
		for ok := it.First(); ok; ok = it.Next() {
		}
		it.Close()
	})
	errorIf(t, scan > bare+entries/2, "%v allocations for %d entries, %v for a bare iterator", scan, entries, bare)
}

func TestScanWhoseFunctionPanicsLeavesNothingOpen(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "value")
	func() {
		defer func() { errorIf(t, recover() == nil, "no panic") }()
		r.w.Scan(nil, nil, func(_, _ []byte) bool { panic("f") })
	}()
	must(t, r.Close()) // waits for readers, and Pebble counts iterators
}

func TestPutWithWrongLengthLeavesAHeadThatCanBeRead(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "value")
	wantErr(t, r.w.Put(kv("a"), nil, PutOptions{Known: true, Old: MaxValueCap + 1}), &LimitError{What: LimitValue})
	must(t, r.w.Put(kv("a"), nil, PutOptions{Known: true, Old: MaxValueCap}))
	r.commit()
	r.open()
	h := r.sp.Head()
	errorIf(t, h.Keys != 1 || h.Bytes != 0, "head %+v", h)
	r.want(kv("a"), "")
}

func TestRoomIsWhatCanStillBePut(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		room   int64
		err    error
	}{
		{Limits{Quota: 10000, MaxWriteSet: 1 << 20}, 10000, &QuotaError{}},
		{Limits{Quota: 1 << 30, MaxWriteSet: 8192}, 8192, &LimitError{What: LimitWriteSet}},
	} {
		r := newRig(t, Options{Limits: c.limits})
		w := r.w
		same(t, w.Room(), c.room)
		put(t, w, kv("a"), strings.Repeat("v", 998))
		same(t, w.Room(), c.room-1000)
		must(t, w.Refusal(w.Room()))
		rest := int(w.Room()) - 2
		refused, refusal := w.Put(kv("b"), make([]byte, rest+1), PutOptions{}), w.Refusal(w.Room()+1)
		errorIf(t, !errors.Is(refused, c.err) || !errors.Is(refusal, c.err) ||
			refused.Error() != refusal.Error(), "Put: %v; Refusal: %v", refused, refusal)
		put(t, w, kv("b"), strings.Repeat("v", rest))
		same(t, w.Room(), 0)
		put(t, w, kv("b"), strings.Repeat("w", rest)) // a replacement of the same size needs no room
		wantErr(t, w.Put(kv("b"), make([]byte, rest+1), PutOptions{}), c.err)
		must(t, r.sp.SetLimits(&Limits{MaxKey: 16, MaxValue: 1, MaxWriteSet: 4 << 10, Quota: 1, ListEntries: 1, ListBytes: 1}))
		same(t, w.Room(), 0)
		fatalIf(t, r.sp.SetLimits(&Limits{Quota: -1}) == nil, "bad limits were taken")
		put(t, openSpace(t, r.Store, 2).Writes(), []byte{1}, strings.Repeat("x", 1000)) // another actor keeps its own
	}
}

func TestRewritingAPageInATurnHoldsItOnce(t *testing.T) {
	w := newRig(t, Options{}).w
	w.Advance(1)
	put(t, w, pageKey(1), strings.Repeat("v", pageSize))
	held := w.Bytes()
	for i := range 100 {
		put(t, w, pageKey(1), strings.Repeat(fmt.Sprint(i%10), pageSize))
	}
	errorIf(t, w.Bytes() != held, "%d bytes held after rewriting, %d before", w.Bytes(), held)
	at := w.Savepoint()
	errorIf(t, w.Bytes() != held, "a savepoint copies values")
	for range 100 {
		put(t, w, pageKey(1), strings.Repeat("w", pageSize))
	}
	errorIf(t, w.Bytes() != held+pageSize, "%d bytes held after a savepoint and rewriting, %d before", w.Bytes(), held)
	w.Rollback(at)
	wantValue(t, w, pageKey(1), strings.Repeat("9", pageSize))
	errorIf(t, w.Bytes() != held, "%d bytes held after the rollback, %d before", w.Bytes(), held)
}

func TestSetThatCannotBeDividedIsLeftWhole(t *testing.T) {
	r := newRig(t, Options{})
	w := r.w
	for i := range 400 {
		put(t, w, fmt.Appendf([]byte{5}, "%03d", i), "x")
		put(t, w, fmt.Appendf([]byte{7}, "%03d", i), "x")
	}
	r.commit()
	nothing := func() error { return nil }
	for name, turns := range map[string][2]func() error{
		"both hide ranges": {
			func() error { return errOf(w.DeleteRange([]byte{5}, []byte{6})) },
			func() error { return errOf(w.DeleteRange([]byte{7}, []byte{8})) },
		},
		"open turn creates":  {nothing, func() error { return w.Create(Identity{"ns", "t", nil}) }},
		"open turn destroys": {nothing, func() error { return w.Destroy() }},
	} {
		before := w.Savepoint()
		w.Advance(1)
		must(t, turns[0]())
		at := w.Savepoint()
		w.Advance(2)
		must(t, turns[1]())
		_, split, err := r.sp.CommitBefore(at, nil)
		errorIf(t, split || err != nil, "%s: split %v, error %v", name, split, err)
		errorIf(t, w.Version() != 3 || r.sp.Head().Version != 1, "%s: version %d on %d", name, w.Version(), r.sp.Head().Version)
		w.Rollback(before)
	}
}

// Changed reports whether there is anything to commit since a savepoint. Only reports whether a
// rollback undoes only the keys of a part.
func TestEachKindOfWriteIsAChange(t *testing.T) {
	r := newRig(t, Options{})
	w := r.w
	for i := range 400 { // a range of so many is hidden as a range
		put(t, w, fmt.Appendf([]byte{4}, "%03d", i), "x")
		put(t, w, fmt.Appendf([]byte{5}, "%03d", i), "x")
	}
	r.commit()
	w.Advance(10)
	put(t, w, []byte{5, 'b'}, "before")
	held := w.Bytes()
	start := w.Savepoint()
	w.Advance(20)
	for name, c := range map[string]struct {
		only bool
		f    func() error
	}{
		"nothing":          {true, func() error { return errOf(w.Delete(kv("absent"))) }},
		"a put":            {true, func() error { return w.Put([]byte{4, 'a'}, nil, PutOptions{ExpireAt: 1 << 50}) }},
		"a wake of expiry": {true, func() error { w.SetWake(5, keyspace.WakeExpiry, "", ""); return nil }},
		"a delete":         {true, func() error { return errOf(w.Delete([]byte("\x04000"))) }},
		"a range":          {true, func() error { return errOf(w.DeleteRange([]byte{4}, []byte{5})) }},
		"another put":      {false, func() error { return w.Put([]byte{5, 'a'}, nil, PutOptions{}) }},
		"put again":        {false, func() error { return w.Put([]byte{5, 'b'}, nil, PutOptions{}) }},
		"another range":    {false, func() error { return errOf(w.DeleteRange([]byte{5}, []byte{6})) }},
		"both ranges": {false, func() error {
			return errors.Join(errOf(w.DeleteRange([]byte{4}, []byte{5})), errOf(w.DeleteRange([]byte{5}, []byte{6})))
		}},
		"a wake":     {false, func() error { w.SetWake(5, keyspace.WakeAlarm, "a", "b"); return nil }},
		"no wake":    {false, func() error { w.ClearWake(5, keyspace.WakeAlarm, "a", "b"); return nil }},
		"a record":   {false, func() error { return w.Outbox([]byte("x"), new(uint64)) }},
		"a creation": {false, func() error { return w.Create(Identity{"ns", "t", []string{"k"}}) }},
		"the end":    {false, func() error { return w.Destroy() }},
	} {
		must(t, c.f())
		errorIf(t, w.Changed(&start) != (name != "nothing"), "%s: changed %v", name, name == "nothing")
		errorIf(t, w.Only(&start, 4) != c.only, "%s: only %v", name, !c.only)
		errorIf(t, strings.Contains(name, "range") && w.Bytes() > held+100, "%s: %d bytes are held", name, w.Bytes())
		w.Rollback(start)
		errorIf(t, w.Changed(&start) || !w.Only(&start, 4), "%s: not undone", name)
		w.Advance(20)
	}
	r.commit()
	errorIf(t, w.Only(&start, 4), "a savepoint outlives a commit")
}

func TestOrphanedWakeRowsCanBeDropped(t *testing.T) {
	s := newRig(t, Options{})
	s.w.SetWake(0, keyspace.WakeSends, "", "")
	s.w.SetWake(5, keyspace.WakeAlarm, "a", "b")
	s.commit()
	wakes, err := s.Wakes(nil, 100, 10)
	fatalIf(t, err != nil || len(wakes) != 2, "%v %v", wakes, err)
	fatalIf(t, s.DropWakes([][]byte{[]byte("not a wake row")}) == nil, "a row of another space was dropped")
	must(t, s.DropWakes([][]byte{wakes[0].Row}))
	left, err := s.Wakes(nil, 100, 10)
	fatalIf(t, err != nil || len(left) != 1 || left[0].Due != 5, "%v %v", left, err)
}
