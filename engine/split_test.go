package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func TestCommitBeforeKeepsTheOpenTurn(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(10)
	put(t, w, []byte{1}, strings.Repeat("long", 6000))
	put(t, w, kv("gone"), "x")
	var first, second uint64
	w.Outbox([]byte("first"), &first)
	at := w.Savepoint()
	w.Advance(20)
	put(t, w, []byte{1}, "short")
	put(t, w, kv("new"), "y")
	if ok, err := w.Delete(kv("gone")); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.SetWake(30, keyspace.WakeAlarm, "a", "")
	w.SetWake(0, keyspace.WakeSends, "", "")
	w.Outbox([]byte("second"), &second)

	told := make(chan error, 1)
	kept, split, err := sp.CommitBefore(at, func(err error) { told <- err })
	if err != nil || !split || <-told != nil {
		t.Fatalf("split %v: %v", split, err)
	}
	sn := s.Snapshot(testID(1))
	wantValue(t, sn, []byte{1}, strings.Repeat("long", 6000))
	wantValue(t, sn, kv("gone"), "x")
	wantAbsent(t, sn, kv("new"))
	if h, err := sn.Head(); err != nil || h.Version != 1 || h.Keys != 2 {
		t.Fatalf("head %+v: %v", h, err)
	}
	sn.Close()
	wantValue(t, w, []byte{1}, "short")
	wantAbsent(t, w, kv("gone"))
	if w.Version() != 2 || w.Keys() != 2 || first != 1 || second != 0 {
		t.Fatalf("version %d, %d keys, records %d and %d", w.Version(), w.Keys(), first, second)
	}

	if !w.Changed(&kept) || w.NextWake() != 30 {
		t.Fatalf("the open turn changed: %v, next wake %d", w.Changed(&kept), w.NextWake())
	}
	again := w.Savepoint()
	put(t, w, []byte{1}, "undone")
	w.SetWake(7, keyspace.WakeAlarm, "b", "")
	if !w.Changed(&again) || w.NextWake() != 7 {
		t.Fatalf("changed: %v, next wake %d", w.Changed(&again), w.NextWake())
	}
	w.Rollback(again)
	if w.Changed(&again) || w.NextWake() != 30 {
		t.Fatalf("after a rollback: changed %v, next wake %d", w.Changed(&again), w.NextWake())
	}
	commit(t, sp)
	if second != 2 {
		t.Fatalf("the second record has sequence %d", second)
	}
	wantValue(t, w, []byte{1}, "short")
	wantAbsent(t, w, kv("gone"))
	checkRows(t, s)

	w.Advance(40)
	at = w.Savepoint()
	w.Advance(50)
	put(t, w, []byte{1}, "dropped")
	if kept, split, err = sp.CommitBefore(at, nil); err != nil || !split {
		t.Fatal(split, err)
	}
	w.Rollback(kept)
	if w.turned || w.Version() != 3 {
		t.Fatalf("version %d after the open turn was dropped", w.Version())
	}
	wantValue(t, w, []byte{1}, "short")
}

func TestRefusedCommitBeforeChangesNothing(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	put(t, w, []byte{1}, "one")
	at := w.Savepoint()
	w.Advance(2)
	put(t, w, []byte{1}, "two")
	put(t, w, kv("k"), "v")
	openSpace(t, s, 1)
	if _, _, err := sp.CommitBefore(at, nil); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	wantValue(t, w, []byte{1}, "two")
	wantValue(t, w, kv("k"), "v")
	w.Rollback(at)
	wantValue(t, w, []byte{1}, "one")
	wantAbsent(t, w, kv("k"))
}

func TestSetThatCannotBeDividedIsLeftWhole(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	for i := range 400 {
		put(t, w, fmt.Appendf([]byte{5}, "%03d", i), "x")
		put(t, w, fmt.Appendf([]byte{7}, "%03d", i), "x")
	}
	commit(t, sp)
	for name, turns := range map[string][2]func() error{
		"both hide ranges": {
			func() error { _, err := w.DeleteRange([]byte{5}, []byte{6}); return err },
			func() error { _, err := w.DeleteRange([]byte{7}, []byte{8}); return err },
		},
		"open turn creates": {
			func() error { return nil },
			func() error { return w.Create(Identity{"ns", "t", nil}) },
		},
		"open turn destroys": {
			func() error { return nil },
			func() error { return w.Destroy() },
		},
	} {
		before := w.Savepoint()
		w.Advance(1)
		if err := turns[0](); err != nil {
			t.Fatal(err)
		}
		at := w.Savepoint()
		w.Advance(2)
		if err := turns[1](); err != nil {
			t.Fatal(err)
		}
		if _, split, err := sp.CommitBefore(at, nil); split || err != nil {
			t.Errorf("%s: split %v, error %v", name, split, err)
		}
		if w.Version() != 3 || sp.Head().Version != 1 {
			t.Errorf("%s: version %d on %d", name, w.Version(), sp.Head().Version)
		}
		w.Rollback(before)
	}
}

func TestSpaceCanHaveLimitsOfItsOwn(t *testing.T) {
	s := openTest(t, Options{})
	sp, other := openSpace(t, s, 1), openSpace(t, s, 2)
	if err := sp.SetLimits(&Limits{Quota: 10}); err != nil {
		t.Fatal(err)
	}
	if err := sp.SetLimits(&Limits{Quota: -1}); err == nil {
		t.Fatal("bad limits were taken")
	}
	if err := sp.Writes().Put([]byte{1}, make([]byte, 10), PutOptions{}); !errors.Is(err, &QuotaError{}) {
		t.Fatal(err)
	}
	put(t, other.Writes(), []byte{1}, strings.Repeat("x", 10))
}

func TestOrphanedWakeRowsCanBeDropped(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	sp.Writes().SetWake(0, keyspace.WakeSends, "", "")
	sp.Writes().SetWake(5, keyspace.WakeAlarm, "a", "b")
	commit(t, sp)
	wakes, err := s.Wakes(nil, 100, 10)
	if err != nil || len(wakes) != 2 {
		t.Fatal(wakes, err)
	}
	if err := s.DropWakes([][]byte{[]byte("not a wake row")}); err == nil {
		t.Fatal("a row of another space was dropped")
	}
	if err := s.DropWakes([][]byte{wakes[0].Row}); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Wakes(nil, 100, 10); err != nil || len(left) != 1 || left[0].Due != 5 {
		t.Fatal(left, err)
	}
}
