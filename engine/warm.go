package engine

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spareName is the file in the store's directory that is the next log. Neither
// Pebble nor a build before this one takes it for a file of the database.
const spareName = "spare-log"

const logCategory vfs.DiskWriteCategory = "pebble-wal"

// spareLog keeps one file of zeros ready that becomes the next log.
//
// A sync is slow while a log grows into blocks that were never written: the
// filesystem has to record that they are written now, and waits for its own log.
// Setting blocks aside, as Pebble does, does not help. Pebble uses its logs
// again for this reason, but a store that was opened a moment ago has none, and
// the logs of its first memtables are too small to serve for later ones. Its
// claims:
//
//  1. The file reads as zeros, whatever of it was synced, so a log that begins
//     as the spare ends, for who reads it, where its last record ends. That
//     holds too if a crash comes in the middle of anything that is done here.
//  2. No error of the spare reaches Pebble or the store: there is no spare then,
//     and the next log is made as it was without one.
//  3. It asks for no more room than a log of a full memtable takes, and for none
//     while the disk is short of it.
//
// Of a crashed process, or a closed store, the spare that it had is left. It is
// used, so that a busy store opens with a log that is large enough. (An older
// file would do as well as zeros, since each record carries the number of its
// log, as it does for the logs that Pebble uses again; but zeros cannot be
// mistaken.)
//
// The next spare is made when the log that took the last one is in use, and is
// twice as large, because memtables begin small and double: a store that only
// reads, or is opened and closed, makes the first and no other.
type spareLog struct {
	guard *guardFS
	free  *freeSpace
	dir   string
	path  string
	first int64 // bytes of the first spare
	full  int64 // bytes of the log of a full memtable
	step  int64 // bytes between syncs, so that the log's own syncs do not wait for long

	running sync.WaitGroup
	stopped atomic.Bool

	mu     sync.Mutex
	ready  int64    // bytes of the spare; 0 if there is none
	next   int64    // bytes of the spare to make next
	wanted bool     // that is to be made
	unused []string // logs to remove, in whose place a spare was taken
	busy   bool     // a goroutine works
	closed bool     // none may begin
}

// newSpareLog returns a spare log for a store whose memtables have at most memTable bytes.
func newSpareLog(g *guardFS, free *freeSpace, dir string, memTable uint64, memory bool) *spareLog {
	w := &spareLog{guard: g, free: free, dir: dir, path: g.PathJoin(dir, spareName), first: 1 << 20, full: int64(memTable), step: 1 << 20}
	if memory { // nothing is gained there, and each sync copies the file
		w.first, w.full, w.step = 4<<10, min(w.full, 64<<10), 16<<10
	}
	w.first = min(w.first, w.full)
	return w
}

// start sees that there is a spare.
func (w *spareLog) start() {
	w.ready = w.left()
	if w.ready == 0 {
		w.ready = w.make(w.first)
	}
	w.next = w.after(max(w.ready, w.first))
}

// after returns the size of the spare that follows one of a size.
func (w *spareLog) after(size int64) int64 { return min(2*size, w.full) }

// left returns the size of the spare that a process before this one left, or 0
// if there is none of use.
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
	// Anything but a spare shows at its beginning.
	begin := make([]byte, min(w.first, 64<<10))
	if _, err := io.ReadFull(f, begin); err != nil || len(bytes.TrimLeft(begin, "\x00")) > 0 {
		return 0
	}
	return info.Size()
}

// make writes a spare and returns its size, or 0 if there is none.
func (w *spareLog) make(size int64) int64 {
	fs := w.guard.FS
	f, err := fs.Create(w.path, logCategory)
	if err != nil {
		return 0
	}
	zeros := make([]byte, min(w.step, size))
	written := int64(0)
	for err == nil && written < size && w.mayWrite(size-written) {
		zeros = zeros[:min(int64(len(zeros)), size-written)]
		if _, err = f.Write(zeros); err == nil {
			err = f.SyncData()
		}
		written += int64(len(zeros))
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil && written == size {
		return size
	}
	if !w.guard.frozen.Load() && !w.stopped.Load() {
		_ = fs.Remove(w.path) // best effort: what is left is overwritten or used
	}
	return 0
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

// take makes the spare the log of a name and returns it open for writing, or
// nil if there is no spare of more than atLeast bytes.
func (w *spareLog) take(name string, atLeast int64) vfs.File {
	if w == nil || !isLog(name) {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready <= atLeast {
		return nil
	}
	size := w.ready
	w.ready = 0
	f, err := w.guard.moveForWrite(w.path, name)
	if err != nil {
		return nil // the caller makes a file of that name, whatever is there
	}
	w.next = w.after(size)
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
		// To remove a large file takes long, and commits wait here. If it is not done before the store is closed, Pebble does it at the next Open.
		w.mu.Lock()
		w.unused = append(w.unused, old)
		w.mu.Unlock()
	}
	return f
}

// ask has the next spare made if there is none. It does not wait.
func (w *spareLog) ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	if !w.closed && !w.busy {
		w.busy = true
		w.running.Go(w.run)
	}
}

// run removes and makes files until there is nothing more to do.
func (w *spareLog) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && (w.wanted || len(w.unused) > 0) {
		unused, wanted, size := w.unused, w.wanted && w.ready == 0, w.next
		w.unused, w.wanted = nil, false
		w.mu.Unlock()
		for _, name := range unused {
			_ = w.guard.Remove(name)
		}
		if wanted {
			size = w.make(size)
		}
		w.mu.Lock()
		if wanted {
			w.ready = size
		}
	}
	w.busy = false
}

// stop ends what is under way and waits for it. A nil spareLog has nothing to stop.
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
