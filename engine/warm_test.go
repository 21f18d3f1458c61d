package engine

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// contents returns a file of a disk, and false if there is none.
func contents(t testing.TB, d *Disk, name string) ([]byte, bool) {
	t.Helper()
	f, err := d.mem.Open("store/" + name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b, true
}

func logsOf(t testing.TB, d *Disk) (logs []string) {
	t.Helper()
	names, err := d.mem.List("store")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
}

func TestFirstLogIsASpareAndTheNextIsMadeWhenItIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		defer func() { s.Close() }()
		logs := logsOf(t, o.Disk)
		if len(logs) != 1 {
			t.Fatalf("logs %v", logs)
		}
		if b, _ := contents(t, o.Disk, logs[0]); len(b) != memoryFirstSpare {
			t.Errorf("the first log has %d bytes, want %d", len(b), memoryFirstSpare)
		}
		if _, ok := contents(t, o.Disk, spareName); ok {
			t.Error("a store that is not written to has a second spare")
		}
		sp := openSpace(t, s, 1)
		for written, want := 0, 0; written < memoryFullSpare; {
			put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 1000))
			commit(t, sp)
			synctest.Wait()
			spare, _ := contents(t, o.Disk, spareName)
			if !zero(spare) || len(spare) < want || len(spare) > memoryFullSpare {
				t.Fatalf("a spare of %d bytes, zero is %v, after one of %d", len(spare), zero(spare), want)
			}
			written, want = written+1000, len(spare)
			if written > memoryFirstSpare && 2*len(spare) < min(written, memoryFullSpare) {
				t.Fatalf("a spare of %d bytes when %d were written", len(spare), written)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, o)
		found := false
		for _, log := range logsOf(t, o.Disk) {
			b, _ := contents(t, o.Disk, log)
			found = found || len(b) == memoryFullSpare && zero(b)
		}
		if !found {
			t.Error("the spare that was left is not the log of the store that was opened again")
		}
	})
}

func TestStoreWithoutSyncHasNoSpare(t *testing.T) {
	o := small(Options{Durability: NoSync})
	s := openTest(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 100_000))
	commit(t, sp)
	if _, ok := contents(t, o.Disk, spareName); ok || s.guard.spare != nil {
		t.Error("there is a spare")
	}
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
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	for n := 1; n <= 120; n++ {
		put(t, sp.Writes(), []byte{1}, fmt.Sprint(n, strings.Repeat("x", 3000)))
		commit(t, sp)
		acked.Store(int64(n))
		if n%40 == 0 {
			if err := s.db.Flush(); err != nil { // logs can be used again
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Disk.Fail(nil)
	if len(cuts) < 30 {
		t.Fatalf("only %d cuts", len(cuts))
	}
	for _, c := range cuts {
		for _, again := range []bool{true, false} {
			s, err := Open(t.Context(), small(Options{MemTableBytes: o.MemTableBytes, Disk: c.disk}))
			if err != nil {
				t.Fatalf("open after a cut before %s (again: %v): %v", c.step, !again, err)
			}
			checkRows(t, s)
			sp := openSpace(t, s, 1)
			e, ok, err := sp.Writes().Get([]byte{1})
			if err != nil {
				t.Fatal(err)
			}
			var n int64
			if ok {
				fmt.Sscan(strings.TrimRight(string(e.Value), "x"), &n)
			}
			if n < c.acked {
				t.Fatalf("cut before %s: %d of %d that were acknowledged", c.step, n, c.acked)
			}
			c.disk = c.disk.Crash(uint64(n), int(n%2*100))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d cuts", len(cuts))
}

func TestStoreThatIsCutOffBeforeEveryRecordOpensAgain(t *testing.T) {
	o := small(Options{})
	for n := range 8 {
		s := mustOpen(t, o)
		checkRows(t, s)
		o.Disk = o.Disk.Crash(uint64(n), n%3*50)
		s.Close()
	}
}

func TestFileInThePlaceOfTheSpare(t *testing.T) {
	closed := small(Options{})
	s := mustOpen(t, closed)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "old")
	commit(t, sp)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
					if !found {
						t.Errorf("no log of %d bytes; used %v", size, c.used)
					}
				}
				sp := openSpace(t, s, 1)
				want := "old"
				if n > 0 {
					want = fmt.Sprint(n - 1)
				}
				wantValue(t, sp.Writes(), []byte{1}, want)
				put(t, sp.Writes(), []byte{1}, fmt.Sprint(n))
				commit(t, sp)
				o.Disk = o.Disk.Crash(uint64(n), n%3*50)
				s.Close()
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir(), MemTableBytes: 128 << 10})
		if err := os.MkdirAll(filepath.Join(o.Dir, spareName, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		fillAndCheck(t, o)
	})
}

// fillAndCheck writes more than a memtable in the options' store, closes it and looks at it again.
func fillAndCheck(t *testing.T, o Options) {
	t.Helper()
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	n := int(s.opts.MemTableBytes/10_000) * 2
	for i := range n {
		put(t, sp.Writes(), kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
		commit(t, sp)
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, o)
	checkRows(t, s)
	sp = openSpace(t, s, 1)
	for i := range n {
		wantValue(t, sp.Writes(), kv(fmt.Sprint(i)), strings.Repeat("x", 9000))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
				put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 1000))
				commit(t, sp)
				synctest.Wait()
			}
			b, _ := contents(t, o.Disk, spareName)
			return len(b)
		}
		if n := fill(); n != 0 {
			t.Fatalf("a spare of %d bytes", n)
		}
		o.Disk.SetFree(1 << 30)
		if n := fill(); n == 0 {
			t.Fatal("no spare when there is room")
		}
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
			put(t, sp.Writes(), []byte{1}, fmt.Sprint(i, strings.Repeat("x", 1000)))
			commit(t, sp)
			synctest.Wait()
		}
		if n := writes.Load(); n != before+1 {
			t.Errorf("%d writes of the spare before one is done, want %d", n, before+1)
		}
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
		if err := <-closed; err != nil {
			t.Error(err)
		}
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
			put(t, sp.Writes(), []byte{1}, fmt.Sprint(last, strings.Repeat("x", 1000)))
			commit(t, sp)
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
		if err := s.Close(); err != nil {
			t.Error(err)
		}
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
			put(t, sp.Writes(), []byte{1}, fmt.Sprint(last, strings.Repeat("x", 2000)))
			commit(t, sp)
			if last%20 == 0 {
				if err := s.db.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		if spares.Load() < 3 {
			t.Errorf("%d spares, %d old logs, %d new files became logs", spares.Load(), logs.Load(), created.Load())
		}
		o.Disk.Fail(nil)
		names := 0
		for _, path := range replaced {
			if path == "" {
				continue // a new log
			}
			names++
			if _, err := o.Disk.mem.Stat(path); err == nil {
				t.Errorf("%s is there, in whose place a spare was taken", path)
			}
		}
		if names == 0 {
			t.Error("no log was replaced")
		}
		crashed := o
		crashed.Disk = o.Disk.Crash(1, 0)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = mustOpen(t, crashed)
		checkRows(t, s)
		wantValue(t, openSpace(t, s, 1).Writes(), []byte{1}, fmt.Sprint(last, strings.Repeat("x", 2000)))
	})
}

func TestSpareOfARealDirectory(t *testing.T) {
	o := small(Options{Dir: t.TempDir(), MemTableBytes: 1 << 20})
	fillAndCheck(t, o)
	b, err := os.ReadFile(filepath.Join(o.Dir, spareName))
	if err == nil && (!zero(b) || int64(len(b)) > 1<<20) || err != nil && !os.IsNotExist(err) {
		t.Fatalf("a spare of %d bytes, zero is %v, %v", len(b), zero(b), err)
	}
}
