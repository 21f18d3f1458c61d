package engine

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Disk is a filesystem in memory that tracks which of its bytes were synced. A store on a Disk
// behaves as on a real one, even in a testing/synctest bubble; Crash returns the disk after a power
// cut. It is for tests and caches.
//
// A Disk may be used by several goroutines.
type Disk struct {
	mem  any // see memoryOf
	fs   vfs.FS
	hook atomic.Pointer[func(op, path string) error]
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return newDisk(vfs.NewCrashableMem()) }

func newDisk(mem *vfs.MemFS) *Disk {
	d := &Disk{mem: mem}
	d.fs = errorfs.Wrap(mem, errorfs.InjectorFunc(d.inject))
	return d
}

// memoryOf returns the files of a disk. Their type has generic ones, which each package that uses a
// Disk would compile.
func memoryOf(d *Disk) *vfs.MemFS { return d.mem.(*vfs.MemFS) }

// Crash returns a copy of the disk as a power cut at this moment would leave it: everything that
// was synced, and of the rest each block and directory entry with a probability of unsyncedPercent
// (0 to 100), drawn from seed. The disk itself, and a store on it, are not changed. Free space and
// faults are not copied.
func (d *Disk) Crash(seed uint64, unsyncedPercent int) *Disk {
	return newDisk(memoryOf(d).CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: unsyncedPercent,
		RNG:                 rand.New(rand.NewPCG(seed, 0)),
	}))
}

// Fail injects the errors that fault returns into the disk's operations. op is one of "create",
// "open", "open dir", "remove", "rename", "mkdir", "lock", "list", "stat", "usage", "read",
// "write", "preallocate" and "sync"; closing a file never fails. fault is called by several
// goroutines at once and must not use the disk. Nil ends all faults.
func (d *Disk) Fail(fault func(op, path string) error) {
	if fault == nil {
		d.hook.Store(nil)
		return
	}
	d.hook.Store(&fault)
}

// SetFree sets the free space, in bytes, that the disk reports; before the
// first call it has no bounds. It does not limit what can be written.
func (d *Disk) SetFree(free uint64) {
	memoryOf(d).TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: free, TotalBytes: 1 << 40,
		UsedBytes: 1<<40 - min(free, 1<<40)})
}

func (d *Disk) inject(op errorfs.Op) error {
	fault := d.hook.Load()
	if fault == nil {
		return nil
	}
	return (*fault)(opName(op.Kind), op.Path)
}

func opName(k errorfs.OpKind) string {
	switch k {
	case errorfs.OpCreate:
		return "create"
	case errorfs.OpOpen:
		return "open"
	case errorfs.OpOpenDir:
		return "open dir"
	case errorfs.OpRemove, errorfs.OpRemoveAll:
		return "remove"
	case errorfs.OpRename, errorfs.OpLink:
		return "rename"
	case errorfs.OpMkdirAll:
		return "mkdir"
	case errorfs.OpLock:
		return "lock"
	case errorfs.OpList:
		return "list"
	case errorfs.OpStat, errorfs.OpFileStat:
		return "stat"
	case errorfs.OpGetDiskUsage:
		return "usage"
	case errorfs.OpFileRead, errorfs.OpFileReadAt:
		return "read"
	case errorfs.OpFileWrite, errorfs.OpFileWriteAt:
		return "write"
	case errorfs.OpFilePreallocate:
		return "preallocate"
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileFlush:
		return "sync"
	default:
		return fmt.Sprintf("operation %d", k)
	}
}

// freeSpace refuses commits while the disk is nearly full. A commit reads the free space if the
// last reading is a second old or more, so an idle store costs nothing and a busy one a system call
// a second.
type freeSpace struct {
	fs    vfs.FS
	dir   string
	min   uint64
	start time.Time
	next  atomic.Int64  // nanoseconds after start
	spent atomic.Uint64 // bytes committed since an early look at the disk
	full  atomic.Bool
	low   atomic.Bool // there is no room even for commits that free space
}

const freeSpaceInterval = time.Second

// wrote counts the bytes of a commit. After many, the next commit looks at the disk early.
func (f *freeSpace) wrote(n int) {
	if f.spent.Add(uint64(n)) > f.min/8 {
		f.spent.Store(0)
		f.next.Store(0)
	}
}

// checkCommit is check for a commit. A commit that makes the actor smaller frees space, so it may
// pass until three quarters of the watermark are used up. The rest is for the log and the tables
// that hold the deletion.
func (f *freeSpace) checkCommit(shrinks bool) error {
	err := f.check()
	if err != nil && shrinks && !f.low.Load() {
		return nil
	}
	return err
}

// init sets the watermark; zero means the default for the disk.
func (f *freeSpace) init(fs vfs.FS, dir string, minimum uint64) {
	f.fs, f.dir, f.start = fs, dir, time.Now()
	f.min = minimum
	if minimum == 0 {
		f.min = DefaultMinFreeBytes
		if usage, err := fs.GetDiskUsage(dir); err == nil {
			f.min = max(min(f.min, usage.TotalBytes/16), 1<<20)
		}
	}
}

// check returns ErrDiskFull if the disk is nearly full. A disk that cannot report its free space
// has room.
func (f *freeSpace) check() error {
	now := int64(time.Since(f.start))
	if next := f.next.Load(); now >= next && f.next.CompareAndSwap(next, now+int64(freeSpaceInterval)) {
		usage, err := f.fs.GetDiskUsage(f.dir)
		f.full.Store(err == nil && usage.AvailBytes < f.min)
		f.low.Store(err == nil && usage.AvailBytes < f.min/4)
	}
	if f.full.Load() {
		return ErrDiskFull
	}
	return nil
}
