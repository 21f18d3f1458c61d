package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
		r := newRig(t, Options{MinFreeBytes: 100_000})
		r.o.Disk.SetFree(500_000)
		r.put([]byte{1}, "before")
		r.o.Disk.SetFree(99_999)
		r.put([]byte{1}, "same second") // it looks once a second
		time.Sleep(time.Second)
		for range 2 {
			r.refused([]byte{1}, "refused, since it is longer", ErrDiskFull)
		}
		r.want([]byte{1}, "refused, since it is longer")
		sn := r.sp.Snapshot()
		wantValue(t, sn, []byte{1}, "same second")
		sn.Close()
		r.o.Disk.SetFree(100_000)
		time.Sleep(time.Second)
		r.commit()
		must(t, r.Err())
		r.put([]byte{1}, strings.Repeat("x", 20_000)) // after that it looks early
		r.o.Disk.SetFree(99_999)
		r.refused([]byte{1}, strings.Repeat("x", 20_001), ErrDiskFull)
		must(t, r.Close())
		r.o.Disk.SetFree(4096) // Open fails as well, and does not wait
		began := time.Now()
		wantErr(t, errOf(Open(t.Context(), r.o)), ErrDiskFull)
		same(t, time.Since(began), 0)
		r.o.Disk.SetFree(1 << 30)
		r.start()
	})
}

func TestNearlyFullDiskLetsThroughWhatMakesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MinFreeBytes: 100_000})
		for _, name := range []string{"a", "b", "c", "d"} {
			put(t, r.w, kv(name), strings.Repeat("x", 1000))
		}
		r.commit()
		free := func(n uint64) {
			r.o.Disk.SetFree(n)
			time.Sleep(freeSpaceInterval)
		}
		remove := func(name string) {
			t.Helper()
			returns(t, true)(r.w.Delete(kv(name)))
		}
		free(99_999)
		remove("a")
		r.commit()
		before := r.w.Savepoint()
		remove("b")
		r.refused(kv("e"), strings.Repeat("x", 2000), ErrDiskFull)
		r.w.Rollback(before)
		free(24_999)
		remove("b")
		wantErr(t, errOf(r.sp.Commit(nil)), ErrDiskFull)
		free(99_999)
		must(t, r.w.Destroy())
		r.commit()
	})
}

func TestWatermarkHasADefaultOnAnyDisk(t *testing.T) {
	for free, want := range map[uint64]uint64{0: 256 << 20, 1 << 30: 256 << 20} {
		o := small(Options{})
		if free > 0 {
			o.Disk.SetFree(free)
		}
		same(t, openTest(t, o).free.min, want, free)
	}
	s := openTest(t, Options{Dir: t.TempDir()})
	errorIf(t, s.free.min < 1<<20, "watermark %d", s.free.min)
}

// failOn makes all operations of a kind, or "all", on some files fail with err.
func failOn(d *Disk, op string, file func(path string) bool, err error) {
	d.Fail(func(o, path string) error {
		if (o == op || op == "all") && file(path) {
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
				o := modes()[name]
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				r := newRig(t, o)
				r.put([]byte{1}, "durable")
				failOn(r.o.Disk, op, isLog, errFault)
				told := make(chan int, 10)
				for i := range 10 {
					put(t, r.w, kv(fmt.Sprint(i)), "x")
					_, err := r.sp.Commit(func(err error) {
						errorIf(t, !errors.Is(err, ErrReadOnly) || !errors.Is(err, errFault), "commit %d was told %v", i, err)
						told <- i
					})
					fatalIf(t, err != nil && (i == 0 || !errors.Is(err, ErrReadOnly)), "commit %d: %v", i, err)
					if err != nil {
						break
					}
				}
				fatalIf(t, !errors.Is(r.Close(), errFault) || !errors.Is(r.Err(), errFault), "store says %v", r.Err())
				for next := 0; len(told) > 0; next++ { // all were notified before Close returned
					same(t, <-told, next)
				}
				same(t, strings.Count(log.String(), "store is read-only"), 1, log.String())
				r.o.Disk.Fail(nil)
				after := r.crashed(1, 0)
				after.want([]byte{1}, "durable")
				wantAbsent(t, after.w, kv("0"))
			})
		}
	}
}

func TestManifestFaultFreezesTheDisk(t *testing.T) {
	r := newRig(t, Options{})
	r.put([]byte{1}, "durable")
	failOn(r.o.Disk, "sync", func(path string) bool { return strings.Contains(path, "MANIFEST") }, errFault)
	databaseOf(r.Store).Flush()
	wantErr(t, r.Err(), errFault)
	r.want([]byte{1}, "durable")
	r.o.Disk.Fail(nil)
	for _, percent := range []int{0, 100} {
		r.crashed(3, percent).want([]byte{1}, "durable")
	}
	wantErr(t, r.Close(), errFault)
	r.start()
	r.want([]byte{1}, "durable")
}

// TestTableThatCannotBeWritten: a flush is tried again. Meanwhile the store is read-only; if the
// disk is full, commits are refused until it has room.
func TestTableThatCannotBeWritten(t *testing.T) {
	for _, fault := range []error{errFault, syscall.ENOSPC} {
		synctest.Test(t, func(t *testing.T) {
			o := small(Options{})
			o.Disk.SetFree(1 << 30)
			r := newRig(t, o)
			r.put([]byte{1}, "durable")
			var faults atomic.Int64
			r.o.Disk.Fail(func(op, path string) error {
				if op == "create" && isTable(path) {
					faults.Add(1)
					return fault
				}
				return nil
			})
			done, err := databaseOf(r.Store).AsyncFlush()
			must(t, err)
			retries := int64(10)
			if fault != errFault {
				retries = 0 // or it looks at the disk again
			}
			time.Sleep(time.Duration(retries)*tableRetry + tableRetry/2)
			same(t, faults.Load(), retries+1)
			put(t, r.w, []byte{1}, "refused")
			err = errOf(r.sp.Commit(nil))
			r.o.Disk.Fail(nil)
			<-done
			if fault != errFault {
				wantErr(t, err, ErrDiskFull)
				time.Sleep(freeSpaceInterval)
				r.commit()
				return
			}
			wantErr(t, err, ErrReadOnly)
			wantErr(t, r.Err(), errFault)
			wantErr(t, r.Close(), errFault)
			r.start()
			r.want([]byte{1}, "durable")
		})
	}
}

// TestStalledCommitDoesNotKeepAFailedStoreOpen fills all memtables while no table can be written,
// until a commit waits, and closes.
func TestStalledCommitDoesNotKeepAFailedStoreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{MemTableBytes: 64 << 10})
		stalled := make(chan struct{})
		r.o.Disk.Fail(func(op, path string) error {
			if op == "create" && isTable(path) {
				<-stalled
				return errFault
			}
			return nil
		})
		ended := make(chan error, 1)
		go func(sp *Space) {
			var err error
			for err == nil {
				put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 60_000))
				_, err = sp.Commit(nil)
			}
			ended <- err
		}(r.sp)
		synctest.Wait()
		fatalIf(t, r.metrics.stalls.Load() == 0, "no commit waits for a flush")
		close(stalled)
		synctest.Wait()
		wantErr(t, r.Err(), errFault)
		wantErr(t, r.Close(), errFault)
		err := <-ended
		fatalIf(t, !errors.Is(err, ErrReadOnly) && !errors.Is(err, ErrClosed), "the stalled commit: %v", err)
		r.o.Disk.Fail(nil)
		r.start()
		checkRows(t, r.Store)
	})
}

func TestFatalOfPebbleDoesNotEndTheProcess(t *testing.T) {
	r := newRig(t, Options{})
	pebbleLog{r.Store}.Fatalf("invariant %d", 7)
	put(t, r.w, []byte{1}, "a")
	_, err := r.sp.Commit(nil)
	fatalIf(t, !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "invariant 7"), "%v", err)
	r.want([]byte{1}, "a")

	r = newRig(t, Options{})
	batch := databaseOf(r.Store).NewBatch()
	batch.Set([]byte("x"), nil, nil)
	must(t, databaseOf(r.Store).Apply(batch, pebble.NoSync))
	err = apply(r.Store, batch) // Pebble panics on a batch that was applied before
	fatalIf(t, err == nil || !r.broken.Load(), "no panic")
	r.fail(err)
	r.refused([]byte{1}, "a", ErrReadOnly)
	fatalIf(t, r.Close() == nil, "close of a broken store returned nil")
	databaseOf(r.Store).Close() // here it is known to be whole; leaves nothing running
}

func TestOpenReturnsErrorsOfTheDisk(t *testing.T) {
	for n := int64(0); n < 200; n += stride(3) {
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
		if s, err := Open(t.Context(), o); err == nil {
			s.Close()
			continue
		} else {
			wantErr(t, err, errFault, n)
		}
		o.Disk.Fail(nil)
		mustOpen(t, o).Close()
	}
}

// TestCorruptRowsAreReported breaks each row of an actor, and reads it in every way.
func TestCorruptRowsAreReported(t *testing.T) {
	r := newRig(t, Options{})
	put(t, r.w, kv("a"), strings.Repeat("x", 25000))
	put(t, r.w, kv("b"), strings.Repeat("v", ChunkSize+1))
	r.put(kv("c"), "c")
	all := func(_, _ []byte) bool { return true }
	it, err := databaseOf(r.Store).NewIter(nil)
	must(t, err)
	rows, parts := map[string]string{}, map[string]keyspace.Row{}
	for ok := it.First(); ok; ok = it.Next() {
		row, err := keyspace.ParseRow(it.Key())
		if err == nil && len(row.Key) > 1 && (row.Type == keyspace.RowData || row.Type == keyspace.RowMetadata) {
			rows[string(it.Key())], parts[string(it.Key())] = string(it.Value()), row
		}
	}
	it.Close()
	same(t, len(rows), 8)
	for row, value := range rows {
		parsed := parts[row]
		for _, broken := range []string{"", "nonsense"} {
			databaseOf(r.Store).Set([]byte(row), []byte(broken), pebble.NoSync)
			if broken == "" {
				if parsed.Key[1] == 'c' { // of a value in one row, nothing is left to see
					continue
				}
				databaseOf(r.Store).Delete([]byte(row), pebble.NoSync)
			}
			where := fmt.Sprint(keyspace.FormatRow([]byte(row)), " ", broken)
			for _, q := range []ListQuery{{}, {Reverse: true}} {
				wantErr(t, errOf(r.w.List(q)), &CorruptError{}, where, q.Reverse)
			}
			for _, end := range [][]byte{nil, append(parsed.Key, 0)} {
				wantErr(t, r.w.Scan(parsed.Key, end, all), &CorruptError{}, where)
			}
			if parsed.Type == keyspace.RowData || broken != "" {
				v, ok, err := r.w.AppendValue([]byte("x"), parsed.Key)
				errorIf(t, ok || !errors.Is(err, &CorruptError{}) || string(v) != "x", "append, %s: %q, %v, %v", where, v, ok, err)
			}
			databaseOf(r.Store).Set([]byte(row), []byte(value), pebble.NoSync)
		}
	}
}

// contents returns a file of a disk, and false if there is none.
func contents(t testing.TB, d *Disk, name string) ([]byte, bool) {
	t.Helper()
	f, err := memoryOf(d).Open("store/" + name)
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
	names, err := memoryOf(d).List("store")
	must(t, err)
	for _, name := range names {
		if isLog(name) {
			logs = append(logs, name)
		}
	}
	return logs
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func isSpare(path string) bool { return strings.Contains(path, spareName) }

// fill commits about n bytes, and waits for the work on the spare, in a bubble.
func (r *rig) fill(n int) {
	r.t.Helper()
	r.put([]byte{1}, fmt.Sprint(n, strings.Repeat("x", n)))
	synctest.Wait()
}

// spare returns the spare, which must be zeros.
func (r *rig) spare() []byte {
	r.t.Helper()
	b, _ := contents(r.t, r.o.Disk, spareName)
	fatalIf(r.t, !zero(b), "a spare of %d bytes is not zero", len(b))
	return b
}

func TestFirstLogIsASpareAndTheNextIsMadeWhenItIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		synctest.Wait()
		logs := logsOf(t, r.o.Disk)
		fatalIf(t, len(logs) != 1, "logs %v", logs)
		b, _ := contents(t, r.o.Disk, logs[0])
		same(t, len(b), memoryFirstSpare)
		_, ok := contents(t, r.o.Disk, spareName)
		errorIf(t, ok, "a store that is not written to has a second spare")
		for written, want := 0, 0; written < memoryFullSpare; {
			r.fill(1000)
			spare := r.spare()
			fatalIf(t, len(spare) < want || len(spare) > memoryFullSpare, "a spare of %d bytes after one of %d", len(spare), want)
			written, want = written+1000, len(spare)
			fatalIf(t, written > memoryFirstSpare && 2*len(spare) < min(written, memoryFullSpare),
				"a spare of %d bytes when %d were written", len(spare), written)
		}
		r.again()
		errorIf(t, !slices.ContainsFunc(logsOf(t, r.o.Disk), func(log string) bool {
			b, _ := contents(t, r.o.Disk, log)
			return len(b) == memoryFullSpare && zero(b)
		}), "the spare that was left is not the log of the store that was opened again")
	})
	r := newRig(t, Options{Durability: NoSync})
	r.put([]byte{1}, strings.Repeat("x", 100_000))
	_, ok := contents(t, r.o.Disk, spareName)
	errorIf(t, ok || r.guard.spare != nil, "a store without sync has a spare")
}

func TestFileInThePlaceOfTheSpare(t *testing.T) {
	closed := newRig(t, Options{})
	closed.put([]byte{1}, "old")
	must(t, closed.Close())
	log, _ := contents(t, closed.o.Disk, logsOf(t, closed.o.Disk)[0])
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
			m := &image{disk: closed.o.Disk.Crash(1, 0)}
			m.set(t, spareName, c.content)
			r := newRig(t, Options{Disk: m.disk})
			size := memoryFirstSpare
			if c.used {
				size = len(c.content)
			}
			errorIf(t, !slices.ContainsFunc(logsOf(t, r.o.Disk), func(log string) bool {
				b, _ := contents(t, r.o.Disk, log)
				return len(b) == size && (!c.used || bytes.Equal(b, c.content))
			}), "no log of %d bytes; used %v", size, c.used)
			for n, want := range []string{"old", "0", "1"} {
				r.want([]byte{1}, want)
				r.put([]byte{1}, fmt.Sprint(n))
				after := r.crashed(uint64(n), n%3*50)
				r.Close()
				r = after
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		o := Options{Dir: t.TempDir(), MemTableBytes: 128 << 10}
		must(t, os.MkdirAll(filepath.Join(o.Dir, spareName, "full"), 0o755))
		fillAndCheck(t, o)
	})
}

// fillAndCheck writes more than a memtable in the options' store, closes it and checks it again.
func fillAndCheck(t *testing.T, o Options) {
	t.Helper()
	r := newRig(t, o)
	n := int(r.opts.MemTableBytes/10_000) * 2
	for i := range n {
		r.put(kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
	}
	must(t, r.Err())
	r.again()
	checkRows(t, r.Store)
	for i := range n {
		r.want(kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
	}
	must(t, r.Close())
}

func TestNoErrorOfTheSpareReachesTheStore(t *testing.T) {
	for at, op := range []string{"create", "open", "write", "sync", "rename", "stat", "remove", "all"} {
		for i, err := range []error{errFault, syscall.ENOSPC} {
			if !long() && i != at%2 { // the others in turn
				continue
			}
			t.Run(fmt.Sprint(op, " ", err), func(t *testing.T) {
				o := small(Options{MemTableBytes: 128 << 10})
				failOn(o.Disk, op, isSpare, err)
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
		r := newRig(t, o)
		for _, room := range []bool{false, true} {
			if room {
				o.Disk.SetFree(1 << 30)
			}
			for range 20 {
				r.fill(1000)
			}
			same(t, len(r.spare()) > 0, room)
		}
	})
}

// growsFrom is the size of the spare before it grows in more than one step.
const growsFrom = memoryFullSpare / 2

// The log changes while the spare grows: late zeros must not overwrite records. Close ends the
// growth, and waits for it.
func TestSpareThatGrowsIsNoLogAndIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		release := r.stopSpare()
		must(t, databaseOf(r.Store).Flush()) // another log begins
		for range memoryFullSpare/1000 + 1 {
			r.fill(1000)
		}
		r.fill(999)
		close(release)
		synctest.Wait()
		r.o.Disk.Fail(nil)
		after := r.crashed(1, 0)
		checkRows(t, after.Store)
		after.want([]byte{1}, fmt.Sprint(999, strings.Repeat("x", 999)))

		r = newRig(t, Options{})
		release = r.stopSpare()
		closed := make(chan error, 1)
		go func(s *Store) { closed <- s.Close() }(r.Store)
		synctest.Wait()
		errorIf(t, len(closed) > 0, "closed while the spare is written")
		close(release)
		check(t, <-closed)
		r.o.Disk.Fail(nil)
		same(t, len(r.spare()), growsFrom+memorySpareStep, "one step more")
		r.start()
		checkRows(t, r.Store)
	})
}

// stopSpare fills the store until the spare would grow beyond growsFrom, and delays its writes
// until the channel is closed.
func (r *rig) stopSpare() (release chan struct{}) {
	r.t.Helper()
	release = make(chan struct{})
	const most = growsFrom/sparePage + 1
	var writes atomic.Int64
	r.o.Disk.Fail(func(op, path string) error {
		if op == "write" && isSpare(path) && writes.Add(1) >= most {
			<-release
		}
		return nil
	})
	for i := 0; i < 100 && writes.Load() < most; i++ {
		r.fill(1000)
	}
	same(r.t, writes.Load(), most)
	return release
}

// TestPowerCutAtEveryStepOfTheSpare cuts the power before each operation on a spare or a log, while
// a store fills memtables and uses logs again. It opens each result twice, with another cut
// between.
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
		spare := isSpare(path)
		if !spare && !isLog(path) || op == "stat" || op == "read" || op == "preallocate" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if steps++; !spare && op != "create" && op != "rename" && steps%64 > 0 {
			return nil
		}
		at := acked.Load()
		cuts = append(cuts, cut{o.Disk.Crash(uint64(steps), []int{0, 50, 100}[steps%3]), at, op + " " + path})
		return nil
	})
	r := newRig(t, o)
	for n := 1; n <= 120; n++ {
		r.put([]byte{1}, fmt.Sprint(n, strings.Repeat("x", 3000)))
		acked.Store(int64(n))
		if n%40 == 0 {
			must(t, databaseOf(r.Store).Flush()) // logs can be used again
		}
	}
	must(t, r.Close())
	o.Disk.Fail(nil)
	fatalIf(t, len(cuts) < 20, "only %d cuts", len(cuts))
	for _, c := range cuts {
		for range 2 {
			r := newRig(t, Options{MemTableBytes: o.MemTableBytes, Disk: c.disk})
			checkRows(t, r.Store)
			e, ok, err := r.w.Get([]byte{1})
			must(t, err)
			var n int64
			if ok {
				fmt.Sscan(strings.TrimRight(string(e.Value), "x"), &n)
			}
			fatalIf(t, n < c.acked, "cut before %s: %d of %d that were acknowledged", c.step, n, c.acked)
			c.disk = c.disk.Crash(uint64(n), int(n%2*100))
			must(t, r.Close())
		}
	}
}

// TestLogThatCannotBeRotatedDoesNotEndTheProcess fails the file operations of
// Pebble when a memtable is full. Pebble panics if one returns an error.
func TestLogThatCannotBeRotatedDoesNotEndTheProcess(t *testing.T) {
	for _, op := range []string{"create", "sync", "write"} {
		r := newRig(t, Options{MemTableBytes: 64 << 10})
		r.put([]byte{1}, "first")
		failOn(r.o.Disk, op, func(path string) bool { return !isTable(path) }, errFault)
		for i := 0; r.Err() == nil && i < 100; i++ {
			put(t, r.w, []byte{1}, strings.Repeat("x", 50_000))
			_, err := r.sp.Commit(nil)
			fatalIf(t, err != nil && !errors.Is(err, errFault), "%s: %v", op, err)
		}
		wantErr(t, r.Err(), errFault, op)
		_, ok, err := r.w.Get([]byte{1})
		fatalIf(t, !ok || err != nil, "%s: reads do not go on: %v", op, err)
		r.Close()
		r.o.Disk.Fail(nil)
		r.start()
		checkRows(t, r.Store)
	}
}

func TestPanicOfPebbleDuringACommitIsAnError(t *testing.T) {
	r := newRig(t, Options{})
	batch := databaseOf(r.Store).NewBatch()
	batch.Set([]byte("x"), nil, nil)
	must(t, databaseOf(r.Store).Apply(batch, pebble.NoSync))
	// Pebble panics on a batch that was applied before.
	err := apply(r.Store, batch)
	fatalIf(t, err == nil || !r.broken.Load(), "no panic")
	r.fail(err)
	r.refused([]byte{1}, "a", ErrReadOnly)
	fatalIf(t, r.Close() == nil, "close of a broken store returned nil")
	databaseOf(r.Store).Close() // here it is known to be whole; leaves nothing running
}
