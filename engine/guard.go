package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guardFS wraps the disk for Pebble and keeps an I/O error from ending the process.
//
// Pebble cannot continue after an error of its log or its manifest: it panics with locks held, or
// calls Fatalf, and after a Fatalf that returns it may remove files that the manifest still names.
// So the guard hides such errors from it:
//
//  1. The first error of a file that is not a sstable freezes the disk. The store is marked as
//     failed first, so that no later commit is reported as durable: the failed sync returns only
//     when the gate can see the failure.
//  2. On a frozen disk, writes to such files, and all removals and renames, return success and do
//     nothing. The disk stays as a power cut at that moment would have left it, and the next Open
//     recovers as it does from a power cut. Nothing that Pebble does meanwhile changes it.
//  3. Errors of sstables are passed on, because Pebble handles them: it gives up the flush or
//     compaction and tries again at once, so the guard delays it.
//  4. When a failed store is closed, writes of sstables are dropped too. A commit may wait inside
//     Pebble for a flush that can never succeed, and would otherwise keep the store from closing.
//
// Until the store is open the guard passes on every error, and Open returns it.
type guardFS struct {
	vfs.FS
	fail  func(error)
	spare *spareLog   // nil if logs are not made in advance
	mark  durableMark // the synced bytes of logs and manifests

	armed     atomic.Bool // the store is open: claims 1 to 4 hold
	frozen    atomic.Bool
	abandoned atomic.Bool
	retrying  atomic.Bool   // a sstable failed since the last one was created
	closing   chan struct{} // closed by abandon: ends the wait of claim 3
	stepwise  atomic.Bool   // tables and logs are made shorter before they are removed
	shrinker  shrinker
}

// tableRetry is how long a flush or a compaction waits after an I/O error.
const tableRetry = 100 * time.Millisecond

func newGuard(fs vfs.FS, fail func(error)) *guardFS {
	return &guardFS{FS: fs, fail: fail, closing: make(chan struct{})}
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// freeze handles an error of a file that Pebble cannot lose.
func (g *guardFS) freeze(op, name string, err error) {
	g.fail(fmt.Errorf("engine: %s %s: %w", op, name, err))
	g.frozen.Store(true)
}

// abandon drops every further write.
func (g *guardFS) abandon() {
	g.frozen.Store(true)
	if !g.abandoned.Swap(true) {
		close(g.closing)
	}
}

// open opens a file for writing with try, guarded.
func (g *guardFS) open(op, name string, try func() (vfs.File, error)) (vfs.File, error) {
	table := isTable(name)
	if table {
		g.waitToRetry()
		if g.abandoned.Load() {
			return discardFile{}, nil
		}
	} else if g.frozen.Load() {
		return discardFile{}, nil
	}
	f, err := try()
	switch {
	case err == nil:
		file := &guardFile{File: f, g: g, name: name, table: table, log: g.spare != nil && isLog(name)}
		file.kind, file.num = kindOf(g.FS.PathBase(name))
		return file, nil
	case !g.armed.Load():
		return nil, err
	case table:
		g.retrying.Store(true)
		return nil, err
	default:
		g.freeze(op, name, err)
		return discardFile{}, nil
	}
}

func (g *guardFS) waitToRetry() {
	if !g.retrying.Swap(false) {
		return
	}
	timer := time.NewTimer(tableRetry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.closing:
	}
}

func (g *guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open("create", name, func() (vfs.File, error) {
		if f := g.spare.take(name, 0); f != nil {
			return f, nil
		}
		f, err := g.FS.Create(name, category)
		if kind, _ := kindOf(g.FS.PathBase(name)); err == nil && kind == manifestFile {
			// Pebble syncs the directory with the marker that names the manifest. But the manifest
			// must be there before the marker and before marks name it: else a power cut removes
			// it, and its number goes to another one.
			if err := syncDir(g.FS, g.FS.PathDir(name)); err != nil {
				return nil, errors.Join(err, f.Close())
			}
		}
		return f, err
	})
}

// ReuseForWrite is called to use an old log again as another one.
func (g *guardFS) ReuseForWrite(oldname, newname string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return g.open("reuse", newname, func() (vfs.File, error) {
		g.mark.forget(g.FS.PathBase(oldname))
		if f := g.spare.replace(oldname, newname); f != nil {
			return f, nil
		}
		return g.moveForWrite(oldname, newname)
	})
}

// moveForWrite renames a file and opens it with its content. It does not call ReuseForWrite, which
// takes a lock of a memory disk twice and hangs if Crash comes between.
func (g *guardFS) moveForWrite(oldname, newname string) (vfs.File, error) {
	if err := g.FS.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return g.FS.OpenReadWrite(newname, logCategory)
}

func (g *guardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, opts...) })
}

func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	return g.open("open", name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

func (g *guardFS) Remove(name string) error {
	if g.frozen.Load() {
		return nil
	}
	g.mark.forget(g.FS.PathBase(name))
	if isTable(name) || isLog(name) {
		g.shrinker.shrink(name, g.pause)
		if g.frozen.Load() {
			return nil // the next Open removes it, as Pebble does not need it
		}
	}
	return g.FS.Remove(name)
}

// pause waits between two steps of a removal. It returns false if no more steps are needed.
func (g *guardFS) pause() bool {
	if !g.stepwise.Load() || g.frozen.Load() {
		return false
	}
	time.Sleep(shrinkPause)
	return true
}

func (g *guardFS) RemoveAll(name string) error {
	if g.frozen.Load() {
		return nil
	}
	return g.FS.RemoveAll(name)
}

func (g *guardFS) Rename(oldname, newname string) error {
	if g.frozen.Load() {
		return nil
	}
	return g.FS.Rename(oldname, newname)
}

func (g *guardFS) Link(oldname, newname string) error {
	if g.frozen.Load() {
		return nil
	}
	return g.FS.Link(oldname, newname)
}

// GetDiskUsage hides errors from Pebble, which would report an unknown free space as a failed
// background write.
func (g *guardFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	usage, err := g.FS.GetDiskUsage(path)
	if err != nil {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	return usage, nil
}

func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// guardFile is a file open for writing, or a directory open for syncing.
type guardFile struct {
	vfs.File
	g     *guardFS
	name  string
	table bool
	log   bool // the spare log counts the bytes written
	kind  fileKind
	num   uint64
	end   atomic.Int64 // bytes written, of a file that is written from its beginning
}

// dropped reports whether a write must be skipped.
func (f *guardFile) dropped() bool {
	if f.table {
		return f.g.abandoned.Load()
	}
	return f.g.frozen.Load()
}

// result returns the error for Pebble.
func (f *guardFile) result(op string, err error) error {
	switch {
	case err == nil || !f.g.armed.Load():
		return err
	case f.table:
		f.g.retrying.Store(true)
		return err
	default:
		f.g.freeze(op, f.name, err)
		return nil
	}
}

func (f *guardFile) Write(p []byte) (int, error) {
	if f.dropped() {
		return len(p), nil
	}
	n, err := f.File.Write(p)
	f.end.Add(int64(n))
	if err != nil {
		if err = f.result("write", err); err == nil {
			n = len(p)
		}
	}
	if f.log {
		f.g.spare.wrote(n)
	}
	return n, err
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	if f.dropped() {
		return len(p), nil
	}
	n, err := f.File.WriteAt(p, off)
	if err != nil {
		if err = f.result("write", err); err == nil {
			n = len(p)
		}
	}
	return n, err
}

func (f *guardFile) Sync() error {
	if f.dropped() {
		return nil
	}
	return f.sync(f.File.Sync)
}

func (f *guardFile) SyncData() error {
	if f.dropped() {
		return nil
	}
	return f.sync(f.File.SyncData)
}

// sync syncs the file and marks its earlier content as durable before it returns.
func (f *guardFile) sync(sync func() error) error {
	end := f.end.Load()
	err := sync()
	if err == nil && (f.kind == logFile || f.kind == manifestFile) && !f.g.frozen.Load() {
		f.g.mark.synced(f.kind, f.num, end)
	}
	return f.result("sync", err)
}

func (f *guardFile) SyncTo(length int64) (bool, error) {
	if f.dropped() {
		return false, nil
	}
	full, err := f.File.SyncTo(length)
	return full, f.result("sync", err)
}

func (f *guardFile) Preallocate(offset, length int64) error {
	if f.dropped() {
		return nil
	}
	// Preallocation is a hint: a disk without the room refuses commits by the watermark, long
	// before a write fails.
	_ = f.File.Preallocate(offset, length)
	return nil
}

func (f *guardFile) Close() error { return f.result("close", f.File.Close()) }

// discardFile is a file that Pebble believes it created on a frozen disk.
type discardFile struct{}

func (discardFile) Close() error                             { return nil }
func (discardFile) Read([]byte) (int, error)                 { return 0, io.EOF }
func (discardFile) ReadAt([]byte, int64) (int, error)        { return 0, io.EOF }
func (discardFile) Write(p []byte) (int, error)              { return len(p), nil }
func (discardFile) WriteAt(p []byte, off int64) (int, error) { return len(p), nil }
func (discardFile) Preallocate(int64, int64) error           { return nil }
func (discardFile) Stat() (vfs.FileInfo, error)              { return discardInfo{}, nil }
func (discardFile) Sync() error                              { return nil }
func (discardFile) SyncTo(int64) (bool, error)               { return false, nil }
func (discardFile) SyncData() error                          { return nil }
func (discardFile) Prefetch(int64, int64) error              { return nil }
func (discardFile) Fd() uintptr                              { return vfs.InvalidFd }

type discardInfo struct{}

func (discardInfo) Name() string           { return "discarded" }
func (discardInfo) Size() int64            { return 0 }
func (discardInfo) Mode() os.FileMode      { return 0 }
func (discardInfo) ModTime() time.Time     { return time.Time{} }
func (discardInfo) IsDir() bool            { return false }
func (discardInfo) Sys() any               { return nil }
func (discardInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
