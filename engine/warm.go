package engine

import (
	"bytes"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spareName is the file in the store's directory that is the next log. Pebble and earlier builds
// ignore it.
const spareName = "spare-log"

const logCategory vfs.DiskWriteCategory = "pebble-wal"

// spareLog keeps one file of zeros ready that becomes the next log.
//
// A sync is slow while a log grows into blocks that were never written: the filesystem must record
// that they are written now, and waits for its own log. Preallocated blocks, as Pebble makes them,
// do not help. Pebble uses its logs again for this reason, but a newly opened store has none, and
// the logs of its first memtables are too small for later ones. The claims of the spare:
//
//  1. The file reads as zeros, regardless of how much was synced. So for its reader, a log that
//     began as the spare ends after its last record, even after a crash at any moment.
//  2. No error of the spare reaches Pebble or the store. After an error there is no spare, and
//     Pebble makes the next log as usual.
//  3. It takes at most the room of the log of a full memtable, and none while the disk is short of
//     room.
//
// A crash or a close leaves the spare on disk. The next Open uses it, so a busy store starts with a
// large enough log. (An older log would also work, since each record has the number of its log;
// Pebble's own reuse relies on that. But zeros cannot be mistaken for records.)
//
// The bytes written to logs so far predict the size of the next log: the first memtable is small
// and each is twice as large as the one before, so the next one has about the size of all before
// it. The spare grows with that, when half of a memtable is full. A store that is only read, or
// only opened and closed, makes only the first spare. Memtables may be larger than predicted,
// because those of the log replayed at Open counted too; then the spare keeps growing.
type spareLog struct {
	guard *guardFS
	free  *freeSpace
	dir   string
	path  string
	first int64 // bytes of a log of the first memtable
	full  int64 // bytes of a log of a full memtable
	step  int64 // bytes between syncs, so the log's own syncs do not wait long

	written atomic.Int64 // bytes written to logs
	due     atomic.Int64 // when written reaches it, the spare is made or grows

	running sync.WaitGroup
	stopped atomic.Bool

	mu     sync.Mutex
	ready  int64    // bytes of the spare; 0 if there is none, or it grows
	next   int64    // size of the spare after its next growth
	unused []string // logs to remove, replaced by a spare
	busy   bool     // a goroutine works
	closed bool     // no goroutine may begin
}

// Sizes of the first spare, and of the steps in which it grows. On a memory disk a spare gains
// nothing, and each sync copies the whole log, so there it is just large enough to test.
//
// It is written page by page: Linux keeps the bytes of one write call in one piece, and then scans
// all of it with each small write there.
const (
	firstSpare       = 256 << 10 // Pebble's first memtable
	spareStep        = 1 << 20
	sparePage        = 4 << 10
	memoryFirstSpare = 4 << 10
	memoryFullSpare  = 64 << 10
	memorySpareStep  = 16 << 10
)

// newSpareLog returns a spare log for a store whose memtables have at most memTable bytes.
func newSpareLog(g *guardFS, free *freeSpace, dir string, memTable uint64, memory bool) *spareLog {
	w := &spareLog{guard: g, free: free, dir: dir, path: g.PathJoin(dir, spareName),
		first: firstSpare, full: int64(memTable), step: spareStep}
	if memory {
		w.first, w.full, w.step = memoryFirstSpare, min(w.full, memoryFullSpare), memorySpareStep
	}
	w.first = min(w.first, w.full)
	return w
}

// start makes a spare unless one is left, and reports whether it did. It is called before any log
// exists.
func (w *spareLog) start() (made bool) {
	if w.ready = w.left(); w.ready == 0 {
		w.ready = w.grow(0, w.first)
		made = true
	}
	w.next = w.first
	w.advance()
	return made
}

// advance sets the spare's next size, and when it grows. REQUIRES: mu, or no other goroutine.
func (w *spareLog) advance() {
	if w.next < w.full {
		w.next = min(2*w.next, w.full)
		w.due.Store(w.next*3/4 - w.first) // half of the memtable before it
		return
	}
	if w.ready == w.full {
		w.due.Store(math.MaxInt64)
		return
	}
	w.due.Store(w.written.Load() + w.full/2)
}

// left returns the size of a usable spare of an earlier process, or 0 if there is none.
func (w *spareLog) left() int64 {
	info, err := w.guard.FS.Stat(w.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() < w.first || info.Size() > w.full {
		return 0
	}
	f, err := w.guard.FS.Open(w.path)
	if err != nil {
		return 0
	}
	defer f.Close()
	_ = f.Prefetch(0, info.Size()) // writing a part of a page that is not in memory reads the page first
	// Anything but a spare shows at its beginning.
	begin := make([]byte, min(w.first, 64<<10))
	if _, err := io.ReadFull(f, begin); err != nil || len(bytes.TrimLeft(begin, "\x00")) > 0 {
		return 0
	}
	return info.Size()
}

// grow extends the spare from from bytes to to bytes, and returns its size: less than to if it had
// to stop, 0 if there is no spare.
func (w *spareLog) grow(from, to int64) int64 {
	if !w.mayWrite(to - from) {
		return from
	}
	fs := w.guard.FS
	var f vfs.File
	var err error
	if from == 0 {
		f, err = fs.Create(w.path, logCategory)
	} else {
		f, err = fs.OpenReadWrite(w.path, logCategory)
	}
	if err != nil {
		return 0
	}
	zeros := make([]byte, sparePage)
	for err == nil && from < to && w.mayWrite(to-from) {
		for end := min(from+w.step, to); err == nil && from < end; {
			var n int
			n, err = f.WriteAt(zeros[:min(sparePage, end-from)], from)
			from += int64(n)
		}
		if err == nil {
			err = f.SyncData()
		}
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = w.guard.Remove(w.path) // else it is written again from the start
		return 0
	}
	return from
}

// mayWrite reports whether the spare may grow by n bytes more.
func (w *spareLog) mayWrite(n int64) bool {
	if w.stopped.Load() || w.guard.frozen.Load() {
		return false
	}
	usage, err := w.guard.FS.GetDiskUsage(w.dir)
	return err != nil || usage.AvailBytes >= 2*w.free.min+uint64(n)
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// take moves the spare to a log's name and returns it open for writing, or nil if there is no spare
// of more than atLeast bytes.
func (w *spareLog) take(name string, atLeast int64) vfs.File {
	if w == nil || !isLog(name) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready <= atLeast {
		return nil
	}
	w.ready = 0
	if w.due.Load() == math.MaxInt64 {
		w.due.Store(w.written.Load() + w.full/2)
	}
	f, err := w.guard.moveForWrite(w.path, name)
	if err != nil {
		return nil // the caller creates a file of that name, replacing any
	}
	return f
}

// replace is take for a log that Pebble uses again, if the spare is the larger
// one. The old log is removed.
func (w *spareLog) replace(old, name string) vfs.File {
	if w == nil {
		return nil
	}
	info, err := w.guard.FS.Stat(old)
	if err != nil {
		return nil
	}
	f := w.take(name, info.Size())
	if f != nil {
		// Removing a large file takes long, and commits wait here. If the store is closed before
		// that, Pebble removes it at the next Open.
		w.mu.Lock()
		w.unused = append(w.unused, old)
		w.mu.Unlock()
		w.ask()
	}
	return f
}

// wrote counts n bytes that were written to a log.
func (w *spareLog) wrote(n int) {
	if w.written.Add(int64(n)) >= w.due.Load() {
		w.ask()
	}
}

// ask starts making or growing the spare. It does not wait.
func (w *spareLog) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed && !w.busy {
		w.busy = true
		w.running.Go(w.run)
	}
}

// run grows the spare and removes logs until there is nothing more to do.
func (w *spareLog) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		unused, due := w.unused, w.written.Load() >= w.due.Load()
		if len(unused) == 0 && !due {
			break
		}
		from, to := w.ready, w.next
		w.unused = nil
		if due {
			w.ready = 0 // it cannot be taken while it grows
		}
		w.mu.Unlock()
		if due && from < to {
			from = w.grow(from, to)
		}
		w.mu.Lock()
		if due {
			w.ready = from
			w.advance()
		}
		w.mu.Unlock()
		for _, name := range unused {
			_ = w.guard.Remove(name)
		}
		w.mu.Lock()
	}
	w.busy = false
}

// stop ends the running work and waits for it. A nil spareLog has none.
func (w *spareLog) stop() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stopped.Store(true)
	w.running.Wait()
}
