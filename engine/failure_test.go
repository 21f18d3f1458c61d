package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

func TestNearlyFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 100_000})
		s := mustOpen(t, o)
		defer s.Close()
		o.Disk.SetFree(500_000)
		sp := openSpace(t, s, 1)
		putCommit(t, sp, []byte{1}, "before")
		o.Disk.SetFree(99_999)
		put(t, sp.Writes(), []byte{1}, "same second")
		commit(t, sp) // it looks once a second
		time.Sleep(time.Second)
		put(t, sp.Writes(), []byte{1}, "refused, since it is longer")
		for range 2 {
			wantErr(t, errOf(commitWait(sp)), ErrDiskFull)
		}
		wantValue(t, sp.Writes(), []byte{1}, "refused, since it is longer")
		sn := sp.Snapshot()
		wantValue(t, sn, []byte{1}, "same second")
		sn.Close()
		o.Disk.SetFree(100_000)
		time.Sleep(time.Second)
		commit(t, sp)
		fatalIf(t, s.Err() != nil, "%v", s.Err())
	})
}

func TestManyBytesMakeTheStoreLookAtTheDiskBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 8000})
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		putCommit(t, sp, []byte{1}, strings.Repeat("x", 2000))
		o.Disk.SetFree(7999)
		put(t, sp.Writes(), []byte{1}, strings.Repeat("refused within the second", 100))
		wantErr(t, errOf(commitWait(sp)), ErrDiskFull)
	})
}

func TestOpenOnAFullDiskIsAnErrorAndNotAWait(t *testing.T) {
	o := small(Options{})
	s, sp := mustSpace(t, o)
	putCommit(t, sp, []byte{1}, "kept")
	must(t, s.Close())
	o.Disk.SetFree(4096)
	wantErr(t, errOf(Open(t.Context(), o)), ErrDiskFull)
	o.Disk.SetFree(1 << 30)
	s = mustOpen(t, o)
	defer s.Close()
	wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, "kept")
}

func TestDestroyOfASmallActorLeavesNoRangeTombstone(t *testing.T) {
	s, sp := testSpace(t, small(Options{}))
	w := sp.Writes()
	w.Advance(1000)
	put(t, w, []byte{1}, "state")
	must(t, w.Put([]byte("\x04k"), []byte("v"), PutOptions{ExpireAt: 5000}))
	commit(t, sp)
	put(t, w, []byte("\x04new"), "not stored yet")
	must(t, w.Destroy())
	errorIf(t, len(w.ranges) != 0, "%d ranges are deleted: every iterator pays for them", len(w.ranges))
	commit(t, sp)
	page, err := s.Snapshot(sp.ID()).List(ListQuery{})
	errorIf(t, err != nil || len(page.Entries) != 0, "%d keys are left, %v", len(page.Entries), err)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keyspace.AppendActorPrefix(nil, sp.ID()), UpperBound: keyspace.Successor(keyspace.AppendActorPrefix(nil, sp.ID()))})
	must(t, err)
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
		errorIf(t, s.free.min != want, "free %d: watermark %d, want %d", free, s.free.min, want)
	}
	s := openTest(t, Options{Dir: t.TempDir()})
	errorIf(t, s.free.min < 1<<20, "watermark %d", s.free.min)
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
				s, sp := mustSpace(t, o)
				putCommit(t, sp, []byte{1}, "durable")
				failOn(o.Disk, op, ".log", errFault)
				told := make(chan int, 10)
				for i := range 10 {
					put(t, sp.Writes(), kv(fmt.Sprint(i)), "x")
					if _, err := sp.Commit(func(err error) {
						errorIf(t, !errors.Is(err, ErrReadOnly) || !errors.Is(err, errFault),
							"commit %d was told %v", i, err)
						told <- i
					}); err != nil {
						fatalIf(t, i == 0 || !errors.Is(err, ErrReadOnly), "commit %d: %v", i, err)
						break
					}
				}
				fatalIf(t, !errors.Is(s.Close(), errFault) || !errors.Is(s.Err(), errFault), "store says %v", s.Err())
				next := 0
				for len(told) > 0 { // all were told before Close returned
					same(t, <-told, next)
					next++
				}
				same(t, strings.Count(log.String(), "store is read-only"), 1, log.String())
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
			s, sp := mustSpace(t, o)
			putCommit(t, sp, []byte{1}, "first")
			o.Disk.Fail(func(got, path string) error {
				if got == op && !isTable(path) {
					return errFault
				}
				return nil
			})
			for i := 0; s.Err() == nil && i < 100; i++ {
				put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 50_000))
				_, err := sp.Commit(nil)
				fatalIf(t, err != nil && !errors.Is(err, errFault), "%v", err)
			}
			fatalIf(t, !errors.Is(s.Err(), errFault), "store says %v", s.Err())
			_, ok, err := sp.Writes().Get([]byte{1})
			fatalIf(t, !ok || err != nil, "reads do not go on: %v", err)
			s.Close()
			o.Disk.Fail(nil)
			s = openTest(t, o)
			checkRows(t, s)
		})
	}
}

func TestManifestFaultFreezesTheDisk(t *testing.T) {
	o := small(Options{})
	s, sp := mustSpace(t, o)
	putCommit(t, sp, []byte{1}, "durable")
	failOn(o.Disk, "sync", "MANIFEST", errFault)
	s.db.Flush()
	fatalIf(t, !errors.Is(s.Err(), errFault), "store says %v", s.Err())
	wantValue(t, sp.Writes(), []byte{1}, "durable")
	o.Disk.Fail(nil)
	for _, percent := range []int{0, 100} {
		after := o
		after.Disk = o.Disk.Crash(3, percent)
		wantValue(t, openSpace(t, openTest(t, after), 1).Writes(), []byte{1}, "durable")
	}
	wantErr(t, s.Close(), errFault)
	wantValue(t, openSpace(t, openTest(t, o), 1).Writes(), []byte{1}, "durable")
}

func TestFlushThatFailsTurnsTheStoreReadOnlyAndIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s, sp := mustSpace(t, o)
		putCommit(t, sp, []byte{1}, "durable")
		var faults atomic.Int64
		o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				faults.Add(1)
				return errFault
			}
			return nil
		})
		done, err := s.db.AsyncFlush()
		must(t, err)
		time.Sleep(10*tableRetry + tableRetry/2)
		same(t, faults.Load(), 11)
		fatalIf(t, !errors.Is(s.Err(), errFault), "store says %v", s.Err())
		put(t, sp.Writes(), []byte{1}, "refused")
		wantErr(t, errOf(sp.Commit(nil)), ErrReadOnly)
		o.Disk.Fail(nil)
		<-done
		wantErr(t, s.Close(), errFault)
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
		putCommit(t, sp, []byte{1}, "a")
		o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				return syscall.ENOSPC
			}
			return nil
		})
		done, err := s.db.AsyncFlush()
		must(t, err)
		time.Sleep(tableRetry / 2)
		put(t, sp.Writes(), []byte{1}, "b")
		wantErr(t, errOf(sp.Commit(nil)), ErrDiskFull)
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
		s, sp := mustSpace(t, o)
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
		fatalIf(t, s.metrics.stalls.Load() == 0, "no commit waits for a flush")
		close(stalled)
		synctest.Wait()
		fatalIf(t, !errors.Is(s.Err(), errFault), "store says %v", s.Err())
		wantErr(t, s.Close(), errFault)
		err := <-ended
		fatalIf(t, !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrClosed), "the stalled commit: %v", err)
		o.Disk.Fail(nil)
		s = mustOpen(t, o)
		checkRows(t, s)
		must(t, s.Close())
	})
}

func TestFatalOfPebbleDoesNotEndTheProcess(t *testing.T) {
	s, sp := testSpace(t, Options{})
	pebbleLog{s}.Fatalf("invariant %d", 7)
	put(t, sp.Writes(), []byte{1}, "a")
	_, err := sp.Commit(nil)
	fatalIf(t, !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "invariant 7"), "%v", err)
	wantValue(t, sp.Writes(), []byte{1}, "a")
}

func TestPanicOfPebbleDuringACommitIsAnError(t *testing.T) {
	s, sp := mustSpace(t, Options{})
	batch := s.db.NewBatch()
	batch.Set([]byte("x"), nil, nil)
	must(t, s.db.Apply(batch, pebble.NoSync))
	// Pebble panics on a batch that was applied before.
	err := s.apply(batch)
	fatalIf(t, err == nil || !s.broken.Load(), "no panic")
	s.fail(err)
	put(t, sp.Writes(), []byte{1}, "a")
	wantErr(t, errOf(sp.Commit(nil)), ErrReadOnly)
	err = s.Close()
	fatalIf(t, err == nil, "close of a broken store returned nil")
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
		fatalIf(t, !errors.Is(err, errFault), "fault %d: %v", n, err)
		o.Disk.Fail(nil)
		if s, err = Open(t.Context(), o); err != nil {
			t.Fatalf("open after fault %d: %v", n, err)
		}
		s.Close()
	}
}

func TestCorruptRowsAreReported(t *testing.T) {
	s, sp := testSpace(t, Options{})
	put(t, sp.Writes(), kv("a"), strings.Repeat("x", 25000))
	putCommit(t, sp, kv("b"), "b")
	rows := map[string]func(){}
	it, err := s.db.NewIter(nil)
	must(t, err)
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
				wantErr(t, errOf(sp.Writes().List(q)), &CorruptError{}, row, broken, q.Reverse)
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
				s, sp := mustSpace(t, o)
				start := time.Now()
				for i := range 50 {
					putCommit(t, sp, []byte{1}, fmt.Sprint(i))
				}
				errorIf(t, time.Since(start) != 0, "commits took %v of virtual time", time.Since(start))
				check(t, s.db.Flush())
				crashed := o
				crashed.Disk = o.Disk.Crash(1, 0)
				check(t, s.Close())
				s = mustOpen(t, crashed)
				if o.Durability == Sync {
					wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, "49")
				}
				check(t, s.Close())
			})
		})
	}
}

// contents returns a file of a disk, and false if there is none.
func contents(t testing.TB, d *Disk, name string) ([]byte, bool) {
	t.Helper()
	f, err := d.mem.Open("store/" + name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	must(t, err)
	return b, true
}

func logsOf(t testing.TB, d *Disk) (logs []string) {
	t.Helper()
	names, err := d.mem.List("store")
	must(t, err)
	for _, name := range names {
		if isLog(name) {
			logs = append(logs, name)
		}
	}
	return logs
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// writeLeft puts a file in the place of the spare of a disk that no store has open.
func writeLeft(t testing.TB, d *Disk, content []byte) {
	t.Helper()
	f, err := d.mem.Create("store/"+spareName, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(bytes.Clone(content)) // the disk spoils what it is given, in builds that check invariants
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	must(t, err)
}

func TestFirstLogIsASpareAndTheNextIsMadeWhenItIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		defer func() { s.Close() }()
		logs := logsOf(t, o.Disk)
		fatalIf(t, len(logs) != 1, "logs %v", logs)
		b, _ := contents(t, o.Disk, logs[0])
		errorIf(t, len(b) != memoryFirstSpare, "the first log has %d bytes, want %d", len(b), memoryFirstSpare)
		_, ok := contents(t, o.Disk, spareName)
		errorIf(t, ok, "a store that is not written to has a second spare")
		sp := openSpace(t, s, 1)
		for written, want := 0, 0; written < memoryFullSpare; {
			putCommit(t, sp, []byte{1}, strings.Repeat("x", 1000))
			synctest.Wait()
			spare, _ := contents(t, o.Disk, spareName)
			fatalIf(t, !zero(spare) || len(spare) < want || len(spare) > memoryFullSpare,
				"a spare of %d bytes, zero is %v, after one of %d", len(spare), zero(spare), want)
			written, want = written+1000, len(spare)
			fatalIf(t, written > memoryFirstSpare && 2*len(spare) < min(written, memoryFullSpare),
				"a spare of %d bytes when %d were written", len(spare), written)
		}
		must(t, s.Close())
		s = mustOpen(t, o)
		found := false
		for _, log := range logsOf(t, o.Disk) {
			b, _ := contents(t, o.Disk, log)
			found = found || len(b) == memoryFullSpare && zero(b)
		}
		errorIf(t, !found, "the spare that was left is not the log of the store that was opened again")
	})
}

func TestStoreWithoutSyncHasNoSpare(t *testing.T) {
	o := small(Options{Durability: NoSync})
	s, sp := testSpace(t, o)
	putCommit(t, sp, []byte{1}, strings.Repeat("x", 100_000))
	_, ok := contents(t, o.Disk, spareName)
	errorIf(t, ok || s.guard.spare != nil, "there is a spare")
}

// TestPowerCutAtEveryStepOfTheSpare takes what a cut would leave before each
// operation on a spare or a log, while a store fills memtables and uses logs
// again, and opens it twice, with another cut between.
func TestPowerCutAtEveryStepOfTheSpare(t *testing.T) {
	o := small(Options{MemTableBytes: 64 << 10})
	var acked atomic.Int64
	type cut struct {
		disk  *Disk
		acked int64
		step  string
	}
	var mu sync.Mutex
	var cuts []cut
	var steps int
	o.Disk.Fail(func(op, path string) error {
		spare := strings.Contains(path, spareName)
		if !spare && !isLog(path) || op == "stat" || op == "read" || op == "preallocate" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if steps++; !spare && op != "create" && op != "rename" && steps%16 > 0 {
			return nil
		}
		at := acked.Load()
		cuts = append(cuts, cut{o.Disk.Crash(uint64(steps), []int{0, 50, 100}[steps%3]), at, op + " " + path})
		return nil
	})
	s, sp := mustSpace(t, o)
	for n := 1; n <= 120; n++ {
		putCommit(t, sp, []byte{1}, fmt.Sprint(n, strings.Repeat("x", 3000)))
		acked.Store(int64(n))
		if n%40 == 0 {
			if err := s.db.Flush(); err != nil { // logs can be used again
				t.Fatal(err)
			}
		}
	}
	must(t, s.Close())
	o.Disk.Fail(nil)
	fatalIf(t, len(cuts) < 30, "only %d cuts", len(cuts))
	for _, c := range cuts {
		for _, again := range []bool{true, false} {
			s, err := Open(t.Context(), small(Options{MemTableBytes: o.MemTableBytes, Disk: c.disk}))
			fatalIf(t, err != nil, "open after a cut before %s (again: %v): %v", c.step, !again, err)
			checkRows(t, s)
			sp := openSpace(t, s, 1)
			e, ok, err := sp.Writes().Get([]byte{1})
			must(t, err)
			var n int64
			if ok {
				fmt.Sscan(strings.TrimRight(string(e.Value), "x"), &n)
			}
			fatalIf(t, n < c.acked, "cut before %s: %d of %d that were acknowledged", c.step, n, c.acked)
			c.disk = c.disk.Crash(uint64(n), int(n%2*100))
			must(t, s.Close())
		}
	}
	t.Logf("%d cuts", len(cuts))
}

func TestFileInThePlaceOfTheSpare(t *testing.T) {
	closed := small(Options{})
	s, sp := mustSpace(t, closed)
	putCommit(t, sp, []byte{1}, "old")
	must(t, s.Close())
	log, _ := contents(t, closed.Disk, logsOf(t, closed.Disk)[0])
	for name, c := range map[string]struct {
		content []byte
		used    bool
	}{
		"zeros":           {make([]byte, 3*memoryFirstSpare), true},
		"odd size":        {make([]byte, memoryFirstSpare+1), true},
		"empty":           {nil, false},
		"too small":       {make([]byte, memoryFirstSpare-1), false},
		"too large":       {make([]byte, memoryFullSpare+1), false},
		"foreign":         {bytes.Repeat([]byte("not a log "), 1000), false},
		"foreign later":   {append(make([]byte, memoryFirstSpare), bytes.Repeat([]byte{1, 2, 3}, 9000)...), true},
		"log of before":   {append(bytes.Clone(log), make([]byte, memoryFirstSpare)...), false},
		"log later in it": {append(make([]byte, memoryFirstSpare), log...), true},
	} {
		t.Run(name, func(t *testing.T) {
			o := closed
			o.Disk = closed.Disk.Crash(1, 0)
			writeLeft(t, o.Disk, c.content)
			for n := range 3 {
				s := mustOpen(t, o)
				if n == 0 {
					size := memoryFirstSpare
					if c.used {
						size = len(c.content)
					}
					found := false
					for _, log := range logsOf(t, o.Disk) {
						b, _ := contents(t, o.Disk, log)
						found = found || len(b) == size && (!c.used || bytes.Equal(b, c.content))
					}
					errorIf(t, !found, "no log of %d bytes; used %v", size, c.used)
				}
				sp := openSpace(t, s, 1)
				want := "old"
				if n > 0 {
					want = fmt.Sprint(n - 1)
				}
				wantValue(t, sp.Writes(), []byte{1}, want)
				putCommit(t, sp, []byte{1}, fmt.Sprint(n))
				o.Disk = o.Disk.Crash(uint64(n), n%3*50)
				s.Close()
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir(), MemTableBytes: 128 << 10})
		must(t, os.MkdirAll(filepath.Join(o.Dir, spareName, "full"), 0o755))
		fillAndCheck(t, o)
	})
}

// fillAndCheck writes more than a memtable in the options' store, closes it and looks at it again.
func fillAndCheck(t *testing.T, o Options) {
	t.Helper()
	s, sp := mustSpace(t, o)
	n := int(s.opts.MemTableBytes/10_000) * 2
	for i := range n {
		putCommit(t, sp, kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
	}
	fatalIf(t, s.Err() != nil, "%v", s.Err())
	must(t, s.Close())
	s = mustOpen(t, o)
	checkRows(t, s)
	sp = openSpace(t, s, 1)
	for i := range n {
		wantValue(t, sp.Writes(), kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
	}
	must(t, s.Close())
}

func TestNoErrorOfTheSpareReachesTheStore(t *testing.T) {
	for _, op := range []string{"create", "open", "write", "sync", "rename", "stat", "remove", "all"} {
		for _, err := range []error{errFault, syscall.ENOSPC} {
			t.Run(fmt.Sprint(op, " ", err), func(t *testing.T) {
				o := small(Options{MemTableBytes: 128 << 10})
				o.Disk.Fail(func(got, path string) error {
					if strings.Contains(path, spareName) && (got == op || op == "all") {
						return err
					}
					return nil
				})
				fillAndCheck(t, o)
			})
		}
	}
}

func TestSpareTakesNoRoomThatIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const watermark = 100_000
		o := small(Options{MinFreeBytes: watermark, MemTableBytes: 128 << 10})
		o.Disk.SetFree(2*watermark + memoryFirstSpare - 1)
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		fill := func() int {
			for range 20 {
				putCommit(t, sp, []byte{1}, strings.Repeat("x", 1000))
				synctest.Wait()
			}
			b, _ := contents(t, o.Disk, spareName)
			return len(b)
		}
		same(t, fill(), 0)
		o.Disk.SetFree(1 << 30)
		n := fill()
		fatalIf(t, n == 0, "no spare when there is room")
	})
}

// blockSpare makes the n-th write of a spare, and those after it, wait until the
// channel is closed, and counts them.
func blockSpare(d *Disk, n int64) (release chan struct{}, writes *atomic.Int64) {
	release, writes = make(chan struct{}), new(atomic.Int64)
	d.Fail(func(op, path string) error {
		if op == "write" && strings.Contains(path, spareName) && writes.Add(1) >= n {
			<-release
		}
		return nil
	})
	return release, writes
}

// growsFrom is the size of the spare, and the number of writes it took, before it grows in more than one step.
const (
	growsFrom = memoryFullSpare / 2
	before    = growsFrom / sparePage
)

func TestCloseEndsTheWorkOnTheSpareAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		defer func() { s.Close() }()
		sp := openSpace(t, s, 1)
		release, writes := blockSpare(o.Disk, before+1)
		for i := 0; i < 100 && writes.Load() <= before; i++ {
			putCommit(t, sp, []byte{1}, fmt.Sprint(i, strings.Repeat("x", 1000)))
			synctest.Wait()
		}
		same(t, writes.Load(), before+1)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("closed while the spare is written: %v", err)
			closed <- err
		default:
		}
		close(release)
		check(t, <-closed)
		o.Disk.Fail(nil)
		if b, _ := contents(t, o.Disk, spareName); !zero(b) || len(b) != growsFrom+memorySpareStep {
			t.Errorf("a spare of %d bytes is left, zero is %v; want one step more than %d", len(b), zero(b), growsFrom)
		}
		s = mustOpen(t, o)
		checkRows(t, s)
	})
}

// TestSpareThatGrowsIsNoLog changes the log while the spare grows: zeros that are
// written late must not be written over records.
func TestSpareThatGrowsIsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		defer func() { s.Close() }()
		sp := openSpace(t, s, 1)
		release, writes := blockSpare(o.Disk, before+1)
		last := 0
		fill := func() {
			last++
			putCommit(t, sp, []byte{1}, fmt.Sprint(last, strings.Repeat("x", 1000)))
			synctest.Wait()
		}
		for last < 100 && writes.Load() <= before {
			fill()
		}
		if err := s.db.Flush(); err != nil { // another log begins
			t.Error(err)
		}
		for range memoryFullSpare/1000 + 1 {
			fill()
		}
		close(release)
		synctest.Wait()
		o.Disk.Fail(nil)
		crashed := o
		crashed.Disk = o.Disk.Crash(1, 0)
		check(t, s.Close())
		s = mustOpen(t, crashed)
		checkRows(t, s)
		wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, fmt.Sprint(last, strings.Repeat("x", 1000)))
	})
}

// TestLogsThatAreUsedAgainGiveWayToALargerSpare counts which files become logs.
func TestLogsThatAreUsedAgainGiveWayToALargerSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MemTableBytes: 64 << 10})
		var spares, logs, created atomic.Int64
		var mu sync.Mutex
		var looked string // at this log, to see whether the spare is larger
		var replaced []string
		o.Disk.Fail(func(op, path string) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case op == "stat" && isLog(path):
				looked = path
			case op == "rename" && strings.Contains(path, spareName):
				spares.Add(1)
				replaced = append(replaced, looked)
				looked = ""
			case op == "rename" && isLog(path):
				logs.Add(1)
				looked = ""
			case op == "create" && isLog(path):
				created.Add(1)
			}
			return nil
		})
		s := mustOpen(t, o)
		defer func() { s.Close() }()
		sp := openSpace(t, s, 1)
		last := 0
		for logs.Load() < 5 {
			if last++; last > 5000 {
				t.Fatalf("%d spares, %d old logs, %d new files became logs", spares.Load(), logs.Load(), created.Load())
			}
			putCommit(t, sp, []byte{1}, fmt.Sprint(last, strings.Repeat("x", 2000)))
			if last%20 == 0 {
				must(t, s.db.Flush())
			}
			synctest.Wait()
		}
		errorIf(t, spares.Load() < 3,
			"%d spares, %d old logs, %d new files became logs", spares.Load(), logs.Load(), created.Load())
		o.Disk.Fail(nil)
		names := 0
		for _, path := range replaced {
			if path == "" {
				continue // a new log
			}
			names++
			_, err := o.Disk.mem.Stat(path)
			errorIf(t, err == nil, "%s is there, in whose place a spare was taken", path)
		}
		errorIf(t, names == 0, "no log was replaced")
		crashed := o
		crashed.Disk = o.Disk.Crash(1, 0)
		must(t, s.Close())
		s = mustOpen(t, crashed)
		checkRows(t, s)
		wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, fmt.Sprint(last, strings.Repeat("x", 2000)))
	})
}

func TestSpareOfARealDirectory(t *testing.T) {
	o := small(Options{Dir: t.TempDir(), MemTableBytes: 1 << 20})
	fillAndCheck(t, o)
	b, err := os.ReadFile(filepath.Join(o.Dir, spareName))
	fatalIf(t, err == nil && (!zero(b) || int64(len(b)) > 1<<20) || err != nil && !os.IsNotExist(err),
		"a spare of %d bytes, zero is %v, %v", len(b), zero(b), err)
}
