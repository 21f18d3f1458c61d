package sqlitevfs

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// mainName is the name of the database of every connection; each has its own file system.
const mainName = "/db"

// A fileSystem is the virtual file system of one native connection: its database, which can be
// opened once, and temporary files, which are in memory. There is one for each connection, and not
// one for all, because SQLite does not name the owner of a temporary file. So no name in SQL leads
// to another database or to a file of the host.
type fileSystem struct {
	name   string // its registered name
	main   *file
	opened bool
	temp   budget
	undo   budget // for undo of single statements and savepoints
	subs   []*subjournal
}

// Open opens the database or a temporary file.
func (fs *fileSystem) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	switch {
	case name == mainName && flags&vfs.OPEN_MAIN_DB != 0 && !fs.opened:
		fs.opened = true
		if !fs.main.write {
			flags = flags&^(vfs.OPEN_READWRITE|vfs.OPEN_CREATE) | vfs.OPEN_READONLY
		}
		return fs.main, flags, nil
	case name == mainName+"-journal" && flags&vfs.OPEN_MAIN_JOURNAL != 0 && fs.main.write:
		return &journal{file: fs.main, readAt: -1}, flags | vfs.OPEN_MEMORY, nil
	case flags&vfs.OPEN_SUBJOURNAL != 0:
		s := &subjournal{temporary{budget: &fs.undo, main: fs.main,
			what: "what is undone of statements and savepoints"}, fs}
		fs.subs = append(fs.subs, s)
		return s, flags | vfs.OPEN_MEMORY, nil
	case name == "" || flags&vfs.OPEN_DELETEONCLOSE != 0:
		return &temporary{budget: &fs.temp, main: fs.main,
			what: "temporary files of a large sort or VACUUM"}, flags | vfs.OPEN_MEMORY, nil
	}
	return nil, flags, sqlite3.CANTOPEN
}

// A subjournal has the data to undo statements and savepoints. A write connection opens it at the
// first large statement, and writes it from its beginning in each transaction.
type subjournal struct {
	temporary
	fs *fileSystem
}

// Close gives the bytes back.
func (s *subjournal) Close() error {
	s.fs.subs = slices.DeleteFunc(s.fs.subs, func(x *subjournal) bool { return x == s })
	return s.temporary.Close()
}

// rest empties the subjournals. No transaction may be open.
func (fs *fileSystem) rest() {
	for _, s := range fs.subs {
		s.Truncate(0)
	}
}

// close unregisters the name, and gives back the pool's budget of the temporary files: SQLite does
// not close them if its connection is broken.
func (fs *fileSystem) close() {
	vfs.Unregister(fs.name)
	fs.temp.take(-fs.temp.used)
	fs.undo.take(-fs.undo.used)
}

// Delete finds nothing to delete.
func (*fileSystem) Delete(string, bool) error { return sqlite3.IOERR_DELETE_NOENT }

// Access returns false: there is no journal.
func (*fileSystem) Access(string, vfs.AccessFlag) (bool, error) { return false, nil }

// FullPathname returns the name.
func (*fileSystem) FullPathname(name string) (string, error) { return name, nil }

// A budget bounds the bytes of the temporary files of one connection, and of all connections of a
// pool.
type budget struct {
	used, limit int64
	all         *sharedBudget // nil: not shared
	crowded     bool          // all has refused
}

// take takes n bytes, or gives them back if n is negative. It reports whether they fit.
func (b *budget) take(n int64) bool {
	if b.used+n > b.limit && n > 0 {
		return false
	}
	if b.all != nil && !b.all.take(n) {
		b.crowded = true
		return false
	}
	b.used += n
	return true
}

// refusal returns the error for n bytes that take refused; what is their use.
func (b *budget) refusal(n int64, what string) error {
	if actual := b.used + n; actual > b.limit {
		return &LimitError{ErrFull, what, b.limit, actual}
	}
	return b.all.refusal()
}

// A sharedBudget is the part of a budget that connections share.
type sharedBudget struct {
	used  atomic.Int64
	limit int64
}

// part returns a budget of limit bytes within b.
func (b *sharedBudget) part(limit int64) budget { return budget{limit: min(limit, b.limit), all: b} }

// refusal returns the error for bytes that take refused.
func (b *sharedBudget) refusal() error {
	return fmt.Errorf("%w: all temporary files, undo and imports together take %d bytes", ErrBusy, b.limit)
}

func (b *sharedBudget) take(n int64) bool {
	if b.used.Add(n) > b.limit && n > 0 {
		b.used.Add(-n)
		return false
	}
	return true
}

// chunkSize is the unit in which a temporary file grows, in bytes.
const chunkSize = 64 << 10

// A temporary file is in memory, in chunks, so it grows without being copied.
type temporary struct {
	private
	chunks [][]byte
	size   int64
	budget *budget
	main   *file  // records the cause of a failed statement; may be nil
	what   string // its use, for errors
}

// ReadAt reads.
func (t *temporary) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && off < t.size {
		c := t.chunks[off/chunkSize][off%chunkSize:]
		if left := t.size - off; int64(len(c)) > left {
			c = c[:left]
		}
		m := copy(p[n:], c)
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes, as far as the budget allows.
func (t *temporary) WriteAt(p []byte, off int64) (n int, err error) {
	if err := t.grow(off + int64(len(p))); err != nil {
		return 0, err
	}
	for n < len(p) {
		m := copy(t.chunks[off/chunkSize][off%chunkSize:], p[n:])
		n, off = n+m, off+int64(m)
	}
	t.size = max(t.size, off)
	return n, nil
}

func (t *temporary) grow(size int64) error {
	for int64(len(t.chunks))*chunkSize < size {
		if !t.budget.take(chunkSize) {
			if t.main == nil {
				return sqlite3.FULL
			}
			return t.main.fail(t.budget.refusal(chunkSize, t.what), sqlite3.ExtendedErrorCode(sqlite3.FULL))
		}
		t.chunks = append(t.chunks, make([]byte, chunkSize))
	}
	return nil
}

// Truncate cuts the file.
func (t *temporary) Truncate(size int64) error {
	if size > t.size {
		return nil
	}
	keep := (size + chunkSize - 1) / chunkSize
	t.budget.take((keep - int64(len(t.chunks))) * chunkSize)
	clear(t.chunks[keep:])
	t.chunks, t.size = t.chunks[:keep], size
	if rest := size % chunkSize; rest != 0 {
		clear(t.chunks[keep-1][rest:]) // so a later write beyond the end leaves zeros between
	}
	return nil
}

// Close gives the bytes back.
func (t *temporary) Close() error { return t.Truncate(0) }

// Size returns the size.
func (t *temporary) Size() (int64, error) { return t.size, nil }

// private has the common methods of files that only one connection uses and that end with it.
type private struct{}

// Sync does nothing.
func (private) Sync(vfs.SyncFlag) error { return nil }

// Lock does nothing.
func (private) Lock(vfs.LockLevel) error { return nil }

// Unlock does nothing.
func (private) Unlock(vfs.LockLevel) error { return nil }

// CheckReservedLock finds no lock.
func (private) CheckReservedLock() (bool, error) { return false, nil }

// SectorSize returns the size of the header of a journal.
func (private) SectorSize() int { return journalHeader }

// DeviceCharacteristics says that nothing needs to be written twice.
func (private) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_SAFE_APPEND | vfs.IOCAP_SEQUENTIAL | vfs.IOCAP_POWERSAFE_OVERWRITE
}
