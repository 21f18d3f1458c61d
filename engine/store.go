package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

// Store is the embedded database of one node: the rows of all actors, the directory, the wake
// index, the outbox and the audit log. Its claims:
//
//  1. A commit is one batch: after a crash all of it is there or nothing.
//  2. A commit whose onDurable got nil survives a power cut (with Sync), and so does every earlier
//     commit of that space.
//  3. At most one space of an actor can commit: the one opened last.
//  4. After an I/O error of the log or the manifest nothing more reaches the disk, and every later
//     commit fails with ErrReadOnly.
//  5. No I/O error ends the process. Only a panic in one of Pebble's own goroutines can, when it
//     finds its invariants broken: that cannot be recovered, and continuing would be wrong.
//
// Locks, in the order in which they are taken: life (read), Space.mu (of a newer space before that
// of an older one of the same actor), then one of spaces.mu, names.mu, outbox.mu, audit.mu,
// gate.mu, snapshots.mu. Callbacks run under none of them.
//
// A Store may be used by several goroutines.
type Store struct {
	opts      Options
	db        any // *database: see databaseOf
	guard     *guardFS
	lock      *pebble.Lock
	dirLock   io.Closer // nil on a memory disk
	gate      gate
	free      freeSpace
	outbox    outbox
	audit     auditLog
	aside     asideSync
	writing   writeMemory
	written   atomic.Int64  // bytes of Space.written of all spaces
	tableless bool          // tables are missing, and that was accepted
	chunked   bool          // rows of format 1 may be left: their small values have data rows
	older     atomic.Uint64 // the format that the store still has; 0 once this program has applied a commit

	life   sync.RWMutex // held for reading by every call that uses db
	closed bool

	failure atomic.Pointer[failure]
	broken  atomic.Bool // Pebble panicked, so db must not be closed

	spaces struct {
		mu   sync.Mutex
		byID map[keyspace.ActorID]*Space
		most int // since the map was made
	}
	names struct {
		mu    sync.Mutex
		taken map[string]struct{} // directory rows of commits that are being applied
	}
	snapshots struct {
		mu   sync.Mutex
		open *opened // list of all that are open
	}
	metrics struct {
		commits, commitBytes, stalls atomic.Uint64
		stallBegan, stalled          atomic.Int64 // nanoseconds: Unix time, 0 while none is; their sum
		sync, gate                   latency
	}
}

type failure struct {
	cause    error
	readOnly error // ErrReadOnly and the cause
}

// StoreFormat is the version of the store's data outside of versioned values: which rows exist and
// their meaning. It only grows.
//
// Format 2 has small values in the rows of their metadata, and the head with the state; see
// metadata and root. Format 3 has encodings of values, format 4 the listing index. An older store
// gets the current format with its first commit. Its rows are rewritten as they are used, and its
// listing index is built by BuildListing.
const StoreFormat = 4

// Open opens the store in Options.Dir and creates it if it does not exist. ctx is checked only
// before the work begins: recovery is not cancelled.
//
// It returns ErrLocked while the directory is open elsewhere, ErrFormat for a store of a newer
// version, and the joined faults of the options.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.EnsureDefaults()
	s := &Store{opts: o}
	s.writing.limit = o.WriteBytes
	s.spaces.byID = make(map[keyspace.ActorID]*Space)
	s.names.taken = make(map[string]struct{})
	var fs vfs.FS = privateFS{vfs.Default}
	if o.Disk != nil {
		fs = o.Disk.fs
	}
	s.guard = newGuard(fs, s.fail)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("engine: open %s: %w", o.Dir, damaged(err))
	}
	return s, nil
}

// makeDir makes a directory and its missing parents. It syncs the entry of each in its parent, so a
// power cut cannot remove them.
func makeDir(fs vfs.FS, dir string) error {
	var synced []string
	for d := dir; ; {
		if _, err := fs.Stat(d); err == nil {
			break
		}
		above := fs.PathDir(d)
		if above == d {
			break
		}
		synced = append(synced, above)
		d = above
	}
	if err := fs.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	for _, d := range synced {
		f, err := fs.OpenDir(d)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) open() (err error) {
	dir := s.opts.Dir
	if err := makeDir(s.guard, dir); err != nil {
		return err
	}
	if s.lock, err = lockDirectory(dir, s.guard); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	if s.opts.Disk == nil {
		if s.dirLock, err = lockDir(dir); err != nil {
			return err
		}
		warnIfOpenToOthers(s.opts.Logger, s.guard, s.opts.DataDir, dir)
	}
	found, err := surveyDirectory(s.guard.FS, dir)
	if err != nil {
		return err
	}
	if len(found.damages) > 0 && !s.opts.AcceptDataLoss {
		return found.err()
	}
	if usage, err := s.guard.GetDiskUsage(dir); err == nil {
		// Pebble reserves a log as large as a memtable for each memtable, which may not fit on a
		// small disk. Without room to flush a memtable it would wait in Open forever.
		if s.opts.MemTableBytes == DefaultMemTableBytes {
			s.opts.MemTableBytes = min(DefaultMemTableBytes, max(usage.TotalBytes/64, 1<<20))
		}
		if usage.AvailBytes < s.opts.MemTableBytes {
			return fmt.Errorf("%w: %d bytes are free in %s, and opening may need %d", ErrDiskFull,
				usage.AvailBytes, dir, s.opts.MemTableBytes)
		}
	}
	if len(found.damages) > 0 {
		if err := s.salvage(found); err != nil {
			return err
		}
		found.marks = nil
		defer func() {
			if err != nil && !errors.Is(err, ErrDiskFull) {
				err = fmt.Errorf("%w; and what is left cannot be opened: %w", found.err(), err)
			}
		}()
	}
	s.guard.mark.start(found.marks)
	s.free.init(s.guard, dir, s.opts.MinFreeBytes)
	if s.opts.Durability == Sync {
		spare := newSpareLog(s.guard, &s.free, dir, s.opts.MemTableBytes, s.opts.Disk != nil)
		made := spare.start()
		s.guard.spare = spare
		defer func() {
			if err == nil {
				return
			}
			if spare.stop(); made {
				_ = s.guard.Remove(spare.path)
			}
		}()
	}
	options := pebbleOptions(s.opts, s.guard, s)
	options.Lock = s.lock
	db, err := openPebble(dir, options)
	var table *DamageError
	if err != nil && s.opts.AcceptDataLoss && errors.As(damaged(err), &table) {
		s.opts.Logger.Error("tables that are missing or have another size are accepted; what they held cannot be read", "dir", dir, "error", err)
		options = pebbleOptions(s.opts, s.guard, s)
		options.Lock, options.DisableConsistencyCheck = s.lock, true
		db, err = openPebble(dir, options)
	}
	if err != nil {
		return err
	}
	s.db = &database{DB: db}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	older, err := s.checkFormat()
	if err != nil {
		return err
	}
	s.tableless = options.DisableConsistencyCheck
	if err := s.outbox.load(s); err != nil {
		return err
	}
	if s.tableless { // reading a missing table would make the store read-only; numbers continue from the time
		s.audit.next = uint64(max(1, time.Now().UnixMicro()))
	} else if err := s.audit.load(s); err != nil {
		return err
	}
	if _, err := s.guard.Stat(s.guard.PathJoin(dir, salvagedName)); err == nil || s.tableless {
		// Rows of the index may be lost, or the rows that it indexes.
		if err := s.resetListing(); err != nil {
			return err
		}
		if err := s.guard.Remove(s.guard.PathJoin(dir, salvagedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.Err(); err != nil && !s.opts.AcceptDataLoss {
		return err
	}
	s.older.Store(older)
	switch {
	case s.opts.Durability == NoSync:
		databaseOf(s).how = commitUnsynced
	case s.opts.PlainCommit:
		databaseOf(s).how = commitPlain
	}
	s.guard.mark.keep(s.guard.FS, s.guard.PathJoin(dir, markName)) // not earlier: a refused Open changes nothing
	s.guard.armed.Store(true)
	s.guard.stepwise.Store(s.opts.Disk == nil)
	s.gate.start(s)
	return nil
}

// openPebble opens the database. Pebble panics on some errors of the disk, after releasing its
// resources.
func openPebble(dir string, options *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			if cause, ok := r.(error); ok {
				err = fmt.Errorf("pebble panicked: %w", cause)
			} else {
				err = fmt.Errorf("pebble panicked: %v", r)
			}
		}
	}()
	return pebble.Open(dir, options)
}

// lockDirectory takes the lock of the directory. The operating system reports a held lock with
// EAGAIN or EACCES; within a process, Pebble counts locks itself. Open finds out whether the lock
// file can be written at all.
func lockDirectory(dir string, fs vfs.FS) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, syscall.EAGAIN), err.Error() == "lock held by current process":
		return nil, fmt.Errorf("%w (%w)", ErrLocked, err)
	default:
		return nil, err
	}
}

// unlock releases the directory for other processes.
func (s *Store) unlock() error {
	if s.dirLock == nil {
		return s.lock.Close()
	}
	return errors.Join(s.dirLock.Close(), s.lock.Close())
}

const (
	formatRow = "format" // the format of the store
	// the format that the store was made with; absent where an early version of format 2 made it
	firstFormatRow = "made-with-format"
)

// checkFormat reads the format row, or writes it into a store without rows. It returns the format
// of an older store, else 0. The first commit changes that to the current format, so a program that
// only reads changes nothing.
func (s *Store) checkFormat() (older uint64, err error) {
	row := keyspace.AppendMetaRow(nil, formatRow)
	format, found, err := s.number(row)
	switch {
	case err != nil:
		return 0, err
	case found && format > StoreFormat:
		return 0, fmt.Errorf("%w: %d, newest known is %d", ErrFormat, format, StoreFormat)
	case found:
		first, known, err := s.number(keyspace.AppendMetaRow(nil, firstFormatRow))
		s.chunked = format < 2 || !known || first < 2
		if format == StoreFormat {
			format = 0
		}
		return format, err
	}
	return 0, s.initFormat(row)
}

// initFormat writes the format row of a store that has no rows yet.
func (s *Store) initFormat(row []byte) error {
	it, err := newIter(databaseOf(s).DB, nil)
	if err != nil {
		return err
	}
	used := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if used {
		return &CorruptError{Row: row, Reason: "no format in a store that has rows"}
	}
	b := databaseOf(s).NewBatch()
	defer b.Close()
	now := binary.AppendUvarint(nil, StoreFormat)
	return errors.Join(b.Set(keyspace.AppendMetaRow(nil, firstFormatRow), now, nil), b.Set(row, now, nil),
		b.Set(keyspace.AppendMetaRow(nil, listingRow), []byte{listingBuilt}, nil), b.Commit(pebble.Sync))
}

// number reads a row that holds a number.
func (s *Store) number(row []byte) (n uint64, ok bool, err error) {
	ok, err = get(databaseOf(s).DB, row, func(b []byte) error {
		d := decoder{b: b}
		n = d.uvarint()
		return d.end()
	})
	return n, ok, err
}

// Close waits until the applied commits are durable and notified, and closes the store. Spaces and
// snapshots need not be closed before; their methods return ErrClosed from then on, unless they do
// not use the store. If the store had failed, Close returns Err. A second Close returns ErrClosed.
func (s *Store) Close() error {
	if s.Err() != nil {
		s.guard.abandon()
	}
	s.life.Lock()
	if s.closed {
		s.life.Unlock()
		return ErrClosed
	}
	s.closed = true
	s.life.Unlock()
	s.aside.stop()
	s.gate.close()
	if s.Err() != nil {
		s.guard.abandon()
	}
	s.guard.stepwise.Store(false)
	s.guard.spare.stop()
	if s.broken.Load() {
		return s.Err()
	}
	err := s.closeSnapshots()
	err = errors.Join(err, databaseOf(s).Close())
	s.guard.mark.stop()
	err = errors.Join(err, s.unlock())
	if failure := s.Err(); failure != nil {
		return failure
	}
	return err
}

// Writable returns nil, or the reason why a commit would be refused now: ErrReadOnly, ErrDiskFull
// or ErrClosed.
func (s *Store) Writable() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return err
	}
	return s.free.check()
}

// Err returns nil, or the error that turned the store read-only. It never changes back: the store
// must be opened again.
func (s *Store) Err() error {
	if f := s.failure.Load(); f != nil {
		return f.cause
	}
	return nil
}

// readOnly returns nil, or the error that a commit gets after a failure.
func (s *Store) readOnly() error {
	if f := s.failure.Load(); f != nil {
		return f.readOnly
	}
	return nil
}

// fail turns the store read-only; only the first cause is kept.
func (s *Store) fail(cause error) {
	f := &failure{cause: cause, readOnly: fmt.Errorf("%w: %w", ErrReadOnly, cause)}
	if s.failure.CompareAndSwap(nil, f) {
		s.opts.Logger.Error("store is read-only", "dir", s.opts.Dir, "error", cause)
	}
}

// enter begins a use of the database; leave ends it.
func (s *Store) enter() error {
	s.life.RLock()
	if s.closed {
		s.life.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.life.RUnlock() }

// reader is the common interface of a database and its snapshots.
type reader interface {
	pebble.Reader
}

// get reads a row and passes its value, valid during the call, to use. It
// returns false if there is no such row.
func get(r reader, row []byte, use func(value []byte) error) (bool, error) {
	value, closer, err := r.Get(row)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return false, nil
		}
		return false, damaged(err)
	}
	err = at(row, use(value))
	if failed := closer.Close(); failed != nil { // Get returns an empty value instead of this error
		err = damaged(failed)
	}
	return err == nil, err
}

// An iterator is a Pebble iterator whose errors name a damaged table. It returns an error once:
// Close returns nil for an error that was returned before.
type iterator struct {
	*pebble.Iterator
	failed bool
}

func newIter(r reader, o *pebble.IterOptions) (iterator, error) {
	it, err := r.NewIter(o)
	return iterator{Iterator: it}, damaged(err)
}

func (it *iterator) Error() error { return it.told(it.Iterator.Error()) }

func (it *iterator) ValueAndErr() ([]byte, error) {
	value, err := it.Iterator.ValueAndErr()
	return value, it.told(err)
}

func (it *iterator) Close() error {
	err := it.Iterator.Close()
	if it.failed {
		return nil
	}
	return damaged(err)
}

func (it *iterator) told(err error) error {
	if err == nil {
		return nil
	}
	it.failed = true
	return damaged(err)
}

// rows is a pair of buffers for rows and their values.
type rows struct{ b, value []byte }

var rowPool = sync.Pool{New: func() any { return &rows{b: make([]byte, 0, 256), value: make([]byte, 0, 64)} }}

func rowBuffer() *rows { return rowPool.Get().(*rows) }

func (r *rows) free() { rowPool.Put(r) }
