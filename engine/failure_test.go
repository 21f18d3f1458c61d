package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

func TestNearlyFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 100_000})
		s := mustOpen(t, o)
		defer s.Close()
		o.Disk.SetFree(500_000)
		sp := openSpace(t, s, 1)
		put(t, sp.Writes(), []byte{1}, "before")
		commit(t, sp)
		o.Disk.SetFree(99_999)
		put(t, sp.Writes(), []byte{1}, "same second")
		commit(t, sp) // it looks once a second
		time.Sleep(time.Second)
		put(t, sp.Writes(), []byte{1}, "refused, since it is longer")
		for range 2 {
			if _, err := commitWait(sp); !errors.Is(err, ErrDiskFull) {
				t.Fatalf("commit on a full disk: %v", err)
			}
		}
		wantValue(t, sp.Writes(), []byte{1}, "refused, since it is longer")
		sn := sp.Snapshot()
		wantValue(t, sn, []byte{1}, "same second")
		sn.Close()
		o.Disk.SetFree(100_000)
		time.Sleep(time.Second)
		commit(t, sp)
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	})
}

func TestManyBytesMakeTheStoreLookAtTheDiskBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 8000})
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 2000))
		commit(t, sp)
		o.Disk.SetFree(7999)
		put(t, sp.Writes(), []byte{1}, strings.Repeat("refused within the second", 100))
		if _, err := commitWait(sp); !errors.Is(err, ErrDiskFull) {
			t.Fatalf("commit on a full disk: %v", err)
		}
	})
}

func TestOpenOnAFullDiskIsAnErrorAndNotAWait(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "kept")
	commit(t, sp)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Disk.SetFree(4096)
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("open on a full disk: %v", err)
	}
	o.Disk.SetFree(1 << 30)
	s = mustOpen(t, o)
	defer s.Close()
	wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, "kept")
}

func TestDestroyOfASmallActorLeavesNoRangeTombstone(t *testing.T) {
	s := openTest(t, small(Options{}))
	sp := openSpace(t, s, 1)
	w := sp.Writes()
	w.Advance(1000)
	put(t, w, []byte{1}, "state")
	if err := w.Put([]byte("\x04k"), []byte("v"), PutOptions{ExpireAt: 5000}); err != nil {
		t.Fatal(err)
	}
	commit(t, sp)
	put(t, w, []byte("\x04new"), "not stored yet")
	if err := w.Destroy(); err != nil {
		t.Fatal(err)
	}
	if len(w.ranges) != 0 {
		t.Errorf("%d ranges are deleted: every iterator pays for them", len(w.ranges))
	}
	commit(t, sp)
	if page, err := s.Snapshot(sp.ID()).List(ListQuery{}); err != nil || len(page.Entries) != 0 {
		t.Errorf("%d keys are left, %v", len(page.Entries), err)
	}
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keyspace.AppendActorPrefix(nil, sp.ID()), UpperBound: keyspace.Successor(keyspace.AppendActorPrefix(nil, sp.ID()))})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		t.Errorf("row %s is left", keyspace.FormatRow(it.Key()))
	}
}

func TestWatermarkHasADefaultOnAnyDisk(t *testing.T) {
	for free, want := range map[uint64]uint64{0: 256 << 20, 1 << 30: 256 << 20} {
		o := small(Options{})
		if free > 0 {
			o.Disk.SetFree(free)
		}
		s := openTest(t, o)
		if s.free.min != want {
			t.Errorf("free %d: watermark %d, want %d", free, s.free.min, want)
		}
	}
	s := openTest(t, Options{Dir: t.TempDir()})
	if s.free.min < 1<<20 {
		t.Errorf("watermark %d", s.free.min)
	}
}

// failOn makes all operations of a kind on files with a suffix fail with err.
func failOn(d *Disk, op, suffix string, err error) {
	d.Fail(func(o, path string) error {
		if o == op && strings.Contains(path, suffix) {
			return err
		}
		return nil
	})
}

func TestLogThatCannotBeSyncedTurnsTheStoreReadOnly(t *testing.T) {
	for _, name := range []string{"pipelined", "plain"} {
		for _, op := range []string{"sync", "write"} {
			t.Run(name+" "+op, func(t *testing.T) {
				var log bytes.Buffer
				o := small(modes()[name])
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := mustOpen(t, o)
				sp := openSpace(t, s, 1)
				put(t, sp.Writes(), []byte{1}, "durable")
				commit(t, sp)
				failOn(o.Disk, op, ".log", errFault)
				told := make(chan int, 10)
				for i := range 10 {
					put(t, sp.Writes(), kv(fmt.Sprint(i)), "x")
					if _, err := sp.Commit(func(err error) {
						if !errors.Is(err, ErrReadOnly) || !errors.Is(err, errFault) {
							t.Errorf("commit %d was told %v", i, err)
						}
						told <- i
					}); err != nil {
						if i == 0 || !errors.Is(err, ErrReadOnly) {
							t.Fatalf("commit %d: %v", i, err)
						}
						break
					}
				}
				if !errors.Is(s.Close(), errFault) || !errors.Is(s.Err(), errFault) {
					t.Fatalf("store says %v", s.Err())
				}
				next := 0
				for len(told) > 0 { // all were told before Close returned
					if i := <-told; i != next {
						t.Fatalf("told %d, want %d", i, next)
					}
					next++
				}
				if n := strings.Count(log.String(), "store is read-only"); n != 1 {
					t.Fatalf("logged %d times:\n%s", n, log.String())
				}
				o.Disk.Fail(nil)
				o.Disk = o.Disk.Crash(1, 0)
				sp = openSpace(t, openTest(t, o), 1)
				wantValue(t, sp.Writes(), []byte{1}, "durable")
				wantAbsent(t, sp.Writes(), kv("0"))
			})
		}
	}
}

// TestLogThatCannotBeRotatedDoesNotEndTheProcess fails the file operations of
// Pebble when a memtable is full. Pebble panics if one returns an error.
func TestLogThatCannotBeRotatedDoesNotEndTheProcess(t *testing.T) {
	for _, op := range []string{"create", "sync", "write"} {
		t.Run(op, func(t *testing.T) {
			o := small(Options{MemTableBytes: 64 << 10})
			s := mustOpen(t, o)
			sp := openSpace(t, s, 1)
			put(t, sp.Writes(), []byte{1}, "first")
			commit(t, sp)
			o.Disk.Fail(func(got, path string) error {
				if got == op && !isTable(path) {
					return errFault
				}
				return nil
			})
			for i := 0; s.Err() == nil && i < 100; i++ {
				put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 50_000))
				if _, err := sp.Commit(nil); err != nil && !errors.Is(err, errFault) {
					t.Fatal(err)
				}
			}
			if !errors.Is(s.Err(), errFault) {
				t.Fatalf("store says %v", s.Err())
			}
			if _, ok, err := sp.Writes().Get([]byte{1}); !ok || err != nil {
				t.Fatalf("reads do not go on: %v", err)
			}
			s.Close()
			o.Disk.Fail(nil)
			s = openTest(t, o)
			checkRows(t, s)
		})
	}
}

func TestManifestFaultFreezesTheDisk(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "durable")
	commit(t, sp)
	failOn(o.Disk, "sync", "MANIFEST", errFault)
	s.db.Flush()
	if !errors.Is(s.Err(), errFault) {
		t.Fatalf("store says %v", s.Err())
	}
	wantValue(t, sp.Writes(), []byte{1}, "durable")
	o.Disk.Fail(nil)
	for _, percent := range []int{0, 100} {
		after := o
		after.Disk = o.Disk.Crash(3, percent)
		wantValue(t, openSpace(t, openTest(t, after), 1).Writes(), []byte{1}, "durable")
	}
	if err := s.Close(); !errors.Is(err, errFault) {
		t.Fatalf("close: %v", err)
	}
	wantValue(t, openSpace(t, openTest(t, o), 1).Writes(), []byte{1}, "durable")
}

func TestFlushThatFailsTurnsTheStoreReadOnlyAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		sp := openSpace(t, s, 1)
		put(t, sp.Writes(), []byte{1}, "durable")
		commit(t, sp)
		var faults atomic.Int64
		o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				faults.Add(1)
				return errFault
			}
			return nil
		})
		done, err := s.db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*tableRetry + tableRetry/2)
		if n := faults.Load(); n != 11 {
			t.Fatalf("tried %d times in the time of 10 retries", n)
		}
		if !errors.Is(s.Err(), errFault) {
			t.Fatalf("store says %v", s.Err())
		}
		put(t, sp.Writes(), []byte{1}, "refused")
		if _, err := sp.Commit(nil); !errors.Is(err, ErrReadOnly) {
			t.Fatal(err)
		}
		o.Disk.Fail(nil)
		<-done
		if err := s.Close(); !errors.Is(err, errFault) {
			t.Fatalf("close: %v", err)
		}
		s = mustOpen(t, o)
		wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, "durable")
		s.Close()
	})
}

func TestFullDiskDuringAFlushIsNotTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		o.Disk.SetFree(1 << 30)
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		put(t, sp.Writes(), []byte{1}, "a")
		commit(t, sp)
		o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				return syscall.ENOSPC
			}
			return nil
		})
		done, err := s.db.AsyncFlush()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(tableRetry / 2)
		put(t, sp.Writes(), []byte{1}, "b")
		if _, err := sp.Commit(nil); !errors.Is(err, ErrDiskFull) {
			t.Fatal(err)
		}
		o.Disk.Fail(nil)
		<-done
		time.Sleep(freeSpaceInterval)
		commit(t, sp)
	})
}

// TestStalledCommitDoesNotKeepAFailedStoreOpen fills all memtables while no
// sstable can be written, until a commit waits inside Pebble, and closes.
func TestStalledCommitDoesNotKeepAFailedStoreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MemTableBytes: 64 << 10})
		s := mustOpen(t, o)
		sp := openSpace(t, s, 1)
		stalled := make(chan struct{})
		o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				<-stalled
				return errFault
			}
			return nil
		})
		ended := make(chan error, 1)
		go func() {
			for {
				put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 60_000))
				if _, err := sp.Commit(nil); err != nil {
					ended <- err
					return
				}
			}
		}()
		synctest.Wait()
		if s.metrics.stalls.Load() == 0 {
			t.Fatal("no commit waits for a flush")
		}
		close(stalled)
		synctest.Wait()
		if !errors.Is(s.Err(), errFault) {
			t.Fatalf("store says %v", s.Err())
		}
		if err := s.Close(); !errors.Is(err, errFault) {
			t.Fatalf("close: %v", err)
		}
		if err := <-ended; !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrClosed) {
			t.Fatalf("the stalled commit: %v", err)
		}
		o.Disk.Fail(nil)
		s = mustOpen(t, o)
		checkRows(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFatalOfPebbleDoesNotEndTheProcess(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	pebbleLog{s}.Fatalf("invariant %d", 7)
	put(t, sp.Writes(), []byte{1}, "a")
	if _, err := sp.Commit(nil); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "invariant 7") {
		t.Fatal(err)
	}
	wantValue(t, sp.Writes(), []byte{1}, "a")
}

func TestPanicOfPebbleDuringACommitIsAnError(t *testing.T) {
	s := mustOpen(t, Options{})
	sp := openSpace(t, s, 1)
	batch := s.db.NewBatch()
	batch.Set([]byte("x"), nil, nil)
	if err := s.db.Apply(batch, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	// Pebble panics on a batch that was applied before.
	err := s.apply(batch)
	if err == nil || !s.broken.Load() {
		t.Fatal("no panic")
	}
	s.fail(err)
	put(t, sp.Writes(), []byte{1}, "a")
	if _, err := sp.Commit(nil); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil {
		t.Fatal("close of a broken store returned nil")
	}
	s.db.Close() // here it is known to be whole; leaves nothing running
}

func TestOpenReturnsErrorsOfTheDisk(t *testing.T) {
	for n := range 200 {
		o := small(Options{})
		left := n
		o.Disk.Fail(func(op, path string) error {
			if op == "usage" {
				return nil
			}
			if left--; left < 0 {
				return errFault
			}
			return nil
		})
		s, err := Open(t.Context(), o)
		if err == nil {
			s.Close()
			continue
		}
		if !errors.Is(err, errFault) {
			t.Fatalf("fault %d: %v", n, err)
		}
		o.Disk.Fail(nil)
		if s, err = Open(t.Context(), o); err != nil {
			t.Fatalf("open after fault %d: %v", n, err)
		}
		s.Close()
	}
}

func TestCorruptRowsAreReported(t *testing.T) {
	s := openTest(t, Options{})
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), kv("a"), strings.Repeat("x", 25000))
	put(t, sp.Writes(), kv("b"), "b")
	commit(t, sp)
	rows := map[string]func(){}
	it, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if key := it.Key(); len(key) > actorPrefix+1 && key[actorPrefix] == 0x05 {
			row, value := string(key), clone(it.Value())
			rows[row] = func() { s.db.Set([]byte(row), value, pebble.NoSync) }
		}
	}
	it.Close()
	for row, restore := range rows {
		for _, broken := range []string{"", "nonsense"} {
			if broken == "" {
				if !strings.Contains(row, "a") { // of a value that lies in one row nothing is left to see
					continue
				}
				s.db.Delete([]byte(row), pebble.NoSync)
			} else {
				s.db.Set([]byte(row), []byte(broken), pebble.NoSync)
			}
			for _, q := range []ListQuery{{}, {Reverse: true}} {
				if _, err := sp.Writes().List(q); !errors.Is(err, &CorruptError{}) {
					t.Errorf("row %x %q, list reverse %v: %v", row, broken, q.Reverse, err)
				}
			}
			restore()
		}
	}
}

func TestStoreLeavesNothingRunningInABubble(t *testing.T) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o.Disk = NewDisk()
				s := mustOpen(t, o)
				sp := openSpace(t, s, 1)
				start := time.Now()
				for i := range 50 {
					put(t, sp.Writes(), []byte{1}, fmt.Sprint(i))
					commit(t, sp)
				}
				if time.Since(start) != 0 {
					t.Errorf("commits took %v of virtual time", time.Since(start))
				}
				if err := s.db.Flush(); err != nil {
					t.Error(err)
				}
				crashed := o
				crashed.Disk = o.Disk.Crash(1, 0)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				s = mustOpen(t, crashed)
				if o.Durability == Sync {
					wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, "49")
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
