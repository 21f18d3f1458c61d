package sqlitevfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

type page = [PageSize]byte

// keptOverlay is the most pages that an overlay may have had to be kept, empty, for the next turn:
// a map does not shrink.
const keptOverlay = 256

const (
	pageKeySize = 7
	// pageCost is the room of a Writer that a new page takes, in bytes.
	pageCost = PageSize + pageKeySize
	// Offset in page 1 of the length of the database, in pages: 4 bytes, big-endian.
	headerPages = 28
	// Offset of the change counter, and the length of the bytes read with it.
	headerStamp, stampSize = 24, 16
	// Offset of the schema cookie.
	headerCookie = 40
)

// A file is the database file of one native connection. Between sessions it has no Reader.
//
// A page is read from the overlay, which has the pages that SQLite has written and not yet synced,
// or else from the Reader of the session. SQLite calls [file.SyncSuper] at the end of the first
// phase of a commit, after it has written all pages. There the overlay is put into the Writer, if
// the session has set committing. It must be the session, because SQLite also syncs while it rolls
// back a transaction with pages written early. If a transaction ends otherwise, the overlay is
// dropped.
//
// SQLite's batch-atomic interface is not offered: as the library is compiled, it does not update
// the change counter, so a second connection would read old pages from its cache.
type file struct {
	write   bool
	buffers *buffers
	limit   int64 // of the bytes written in a session
	stop    *stopper

	r Reader
	w Writer // nil in a read session

	meta       Metadata // as of the last publish
	metaLength int      // of the stored value, or -1
	patches    patches  // as of the last publish
	stored     stored   // nothing in a read session
	loaded     []byte   // memory of the patches that were read
	runs       []byte   // of the patch being made
	pages      uint32   // the length of the file, with the overlay
	base       uint32   // pages from here on are not in the Reader, or were cut off

	overlay map[uint32]*page
	order   []uint32 // the keys of overlay, in the order of their first write

	committing bool  // syncs publish
	published  bool  // the Writer was changed in this session
	spent      int64 // bytes that were published in this session
	fault      error // the first error of the running operation: SQLite may try more after it
	torn       error // error of a publish that failed in the middle: the Reader has a part of it, and is no longer read
	outside    bool  // the Reader or the Writer is being called: a panic is from it

	// stamp is the part of page 1 with the change counter, which SQLite reads at the beginning of
	// each transaction in a read session. It is remembered between sessions while the page is the
	// same.
	stamp   [stampSize]byte
	stamped bool

	ahead readAhead
	key   [pageKeySize]byte
	end   [pageKeySize]byte
	value []byte // of the metadata, while it is read or put
}

// begin attaches the file to the Reader of a session, and to the Writer if w is not nil.
func (f *file) begin(r Reader, w Writer, m Metadata, length int) {
	f.r, f.w = r, w
	f.meta, f.metaLength = m, length
	f.pages, f.base = m.Pages, m.Pages
	f.committing, f.published, f.spent, f.fault, f.torn = false, false, 0, nil, nil
}

// open attaches the file to a Reader and a Writer, and reads the metadata and the patches.
func (f *file) open(r Reader, w Writer) error {
	m, value, err := readMetadata(r, f.value[:0])
	if err != nil {
		return err
	}
	length := -1
	if value != nil {
		length = len(value)
		if cap(value) > cap(f.value) {
			f.value = value[:0]
		}
	}
	f.begin(r, w, m, length)
	return f.load(value)
}

// load reads the patches from the value of the metadata that begin got; nil is none.
func (f *file) load(value []byte) (err error) {
	f.loaded = f.loaded[:0]
	if len(value) > metadataSize {
		f.loaded = append(f.loaded, value[metadataSize:]...)
	}
	f.patches, err = parsePatches(f.patches[:0], f.loaded, f.meta.Pages)
	return err
}

// finish detaches the file, and drops unpublished pages.
func (f *file) finish() {
	f.drop()
	f.ahead.drop(f.buffers)
	f.r, f.w, f.fault, f.torn = nil, nil, nil, nil
}

// drop drops the pages written since the last publish.
func (f *file) drop() {
	for _, n := range f.order {
		f.buffers.putPage(f.overlay[n])
	}
	if cap(f.order) > keptOverlay { // a truncation may have shortened it
		f.overlay, f.order = nil, nil
	} else {
		clear(f.overlay)
		f.order = f.order[:0]
	}
	f.pages, f.base = f.meta.Pages, f.meta.Pages
}

// leave records that the Reader or the Writer is called. It returns false if the call into SQLite
// was stopped.
func (f *file) leave() bool {
	if !f.stop.outside() {
		return false
	}
	f.outside = true
	return true
}

// enter records that the Reader or the Writer has returned.
func (f *file) enter() {
	f.outside = false
	f.stop.inside()
}

// fail keeps the cause of an error, since SQLite passes on only a code. It ends the commit: SQLite
// now rolls back, and may sync after that.
func (f *file) fail(err error, code sqlite3.ExtendedErrorCode) error {
	f.committing = false
	if f.fault == nil {
		f.fault = err
	}
	switch {
	case errors.Is(err, ErrFull):
		return vfs.SystemError(err, sqlite3.FULL)
	case errors.Is(err, ErrCorrupt):
		return vfs.SystemError(err, sqlite3.IOERR_CORRUPTFS)
	}
	return vfs.SystemError(err, code)
}

// ReadAt reads a page, or a part of one.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n, at := uint32(off/PageSize), int(off%PageSize)
	if n >= f.pages {
		return 0, io.EOF
	}
	if at+len(p) > PageSize {
		return 0, f.fail(fmt.Errorf("read of %d bytes at %d is not of one page", len(p), off), sqlite3.IOERR_READ)
	}
	if len(f.overlay) > 0 {
		if b := f.overlay[n]; b != nil {
			return copy(p, b[at:]), nil
		}
	}
	if n >= f.base {
		clear(p) // between pages that were written beyond the end
		return len(p), nil
	}
	if at == headerStamp && len(p) == stampSize && n == 0 && f.stamped {
		return copy(p, f.stamp[:]), nil
	}
	if b := f.ahead.page(n); b != nil {
		return copy(p, b[at:]), nil
	}
	if !f.leave() {
		return 0, sqlite3.INTERRUPT
	}
	err := f.read(p, n, at)
	f.enter()
	if err != nil {
		return 0, f.fail(err, sqlite3.IOERR_READ)
	}
	return len(p), nil
}

// read reads a page, or a part of page 1, from the Reader.
func (f *file) read(p []byte, n uint32, at int) error {
	if err := f.readable(); err != nil {
		return err
	}
	if n == 0 {
		// SQLite reads the head of the file before the first page: one lookup serves both.
		b, err := f.ahead.first(f)
		if err != nil {
			return err
		}
		copy(f.stamp[:], b[headerStamp:])
		f.stamped = true
		copy(p, b[at:])
		return nil
	}
	if len(p) < PageSize {
		return fmt.Errorf("read of %d bytes is not of a page", len(p))
	}
	if f.ahead.sequential(n) {
		b, err := f.ahead.scan(f, n)
		if err != nil {
			return err
		}
		copy(p, b[:])
		return nil
	}
	return f.get(p, n)
}

// readable returns an error if the Reader cannot be read.
func (f *file) readable() error {
	if f.r == nil {
		return ErrClosed
	}
	return f.torn
}

// schemaCookie returns the number in page 1 that changes with the schema; zeros if there is none.
// SQLite does not look up page 1 again after that.
func (f *file) schemaCookie() (cookie [4]byte, _ error) {
	if f.meta.Pages == 0 {
		return cookie, nil
	}
	f.outside = true
	b, err := f.ahead.first(f)
	f.outside = false
	if err != nil {
		return cookie, err
	}
	copy(cookie[:], b[headerCookie:])
	return cookie, nil
}

// get reads a page of the Reader into p, which has the length of a page.
func (f *file) get(p []byte, n uint32) error {
	v, ok, err := f.r.Get(p[:0], f.pageKey(f.key[:0], n))
	switch {
	case err != nil:
		return fmt.Errorf("read page %d: %w", n, err)
	case !ok:
		return fmt.Errorf("%w: page %d of %d is missing", ErrCorrupt, n, f.meta.Pages)
	case len(v) != PageSize:
		return fmt.Errorf("%w: page %d has %d bytes", ErrCorrupt, n, len(v))
	}
	if &v[0] != &p[0] {
		copy(p, v)
	}
	f.patches.apply(n, p)
	return nil
}

func (f *file) pageKey(dst []byte, n uint32) []byte {
	return keyspace.SQLiteChunk.Append(dst, keyspace.SQLiteMain, n)
}

// WriteAt writes a page into the overlay. p is SQLite's and is copied.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if len(p) != PageSize || off%PageSize != 0 {
		return 0, f.fail(fmt.Errorf("write of %d bytes at %d is not a page", len(p), off), sqlite3.IOERR_WRITE)
	}
	if f.w == nil {
		return 0, f.fail(ErrReadOnly, sqlite3.IOERR_WRITE)
	}
	n := uint32(off / PageSize)
	b := f.overlay[n]
	if b == nil {
		if n := f.spent + int64(len(f.order)+1)*PageSize; n > f.limit {
			err := &LimitError{ErrFull, "pages that the turn changes", f.limit, n}
			return 0, f.fail(err, sqlite3.IOERR_WRITE)
		}
		b = f.buffers.page()
		if f.overlay == nil {
			f.overlay = make(map[uint32]*page)
		}
		f.overlay[n] = b
		f.order = append(f.order, n)
	}
	f.pages = max(f.pages, n+1)
	return copy(b[:], p), nil
}

// Truncate cuts the file.
func (f *file) Truncate(size int64) error {
	n := uint32((size + PageSize - 1) / PageSize)
	if n >= f.pages {
		return nil
	}
	f.order = slices.DeleteFunc(f.order, func(at uint32) bool {
		if at < n {
			return false
		}
		f.buffers.putPage(f.overlay[at])
		delete(f.overlay, at)
		return true
	})
	f.pages, f.base = n, min(f.base, n)
	return nil
}

// SyncSuper publishes if the session commits.
func (f *file) SyncSuper(super string) error {
	if super != "" {
		return f.fail(fmt.Errorf("%w: a transaction over several files", ErrRefused), sqlite3.IOERR_FSYNC)
	}
	if !f.committing {
		return nil
	}
	pages := f.pages
	if first := f.overlay[0]; first != nil {
		// SQLite truncates the file after the sync, but page 1 already has the length.
		if n := binary.BigEndian.Uint32(first[headerPages:]); n > 0 && n < pages {
			pages = n
		}
	}
	if len(f.order) == 0 && pages == f.meta.Pages {
		return nil
	}
	if !f.leave() {
		return sqlite3.INTERRUPT
	}
	err := f.publish(pages)
	f.enter()
	if err != nil {
		return f.fail(err, sqlite3.IOERR_FSYNC)
	}
	return nil
}

// CommitPhaseTwo publishes a truncation that SyncSuper could not foresee.
func (f *file) CommitPhaseTwo() error {
	if !f.committing || f.pages == f.meta.Pages {
		return nil
	}
	if !f.leave() {
		return sqlite3.INTERRUPT
	}
	err := f.publish(f.pages)
	f.enter()
	if err != nil {
		return f.fail(err, sqlite3.ExtendedErrorCode(sqlite3.IOERR))
	}
	return nil
}

// publish puts the overlay into the Writer as a database of so many pages. If it fails in the
// middle, f.torn is set: the pages already put stay, so the session is lost.
func (f *file) publish(pages uint32) (err error) {
	if f.torn != nil {
		return f.torn
	}
	old, room := f.meta.Pages, f.w.Room()
	if pages > old {
		if need := int64(pages-old) * pageCost; need > room {
			return f.refusal(need)
		}
		room -= int64(pages-old) * pageCost
	}
	// Patches need room, and rewritten pages do not. So a nearly full actor gets pages instead of
	// patches.
	small := room-int64(len(f.order))*pageCost >= maxPatches+2*PageSize
	f.published = true
	defer func() { f.torn = err }()
	slices.Sort(f.order)
	next := f.base // the first page that is neither in the Reader nor put there yet
	for _, n := range f.order {
		if n >= pages {
			break
		}
		if err := f.fill(next, n); err != nil {
			return err
		}
		if !small || !f.patch(n) {
			if err := f.putOverlay(n); err != nil {
				return err
			}
		}
		next = max(next, n+1)
	}
	if err := f.fill(next, pages); err != nil {
		return err
	}
	if pages < old {
		f.patches.cut(pages)
		f.stored.remove(pages, old, f.buffers)
		start := f.pageKey(f.key[:0], pages)
		if err := f.w.DeleteRange(start, f.pageKey(f.end[:0], old)); err != nil {
			return fmt.Errorf("delete the pages from %d on: %w", pages, err)
		}
	}
	if small {
		if err := f.settle(); err != nil {
			return err
		}
	}
	m := f.meta
	m.Pages = pages
	m.Sequence++
	if err := f.putMetadata(m); err != nil {
		return err
	}
	f.spent += int64(len(f.order)) * PageSize
	f.drop()
	f.ahead.drop(f.buffers)
	f.stamped = false
	return nil
}

// refusal returns the error for a database that needs n more bytes than the Writer has room for.
func (f *file) refusal(n int64) error {
	room := f.w.Room()
	if w, ok := f.w.(Bounded); ok {
		if err := w.Refusal(max(n, room+1)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: new pages need %d bytes, and there is room for %d", ErrFull, n, max(room, 0))
}

// patch makes a patch of a page in the overlay; if it returns false, the page must be put.
func (f *file) patch(n uint32) bool {
	was := f.stored.find(n)
	if was == nil {
		return false
	}
	runs, ok := appendRuns(f.runs[:0], was, f.overlay[n], maxPatches-patchHead)
	f.runs = runs[:0]
	if !ok {
		return false
	}
	if len(runs) == 0 {
		f.patches.remove(n)
		return true
	}
	if i, had := f.patches.find(n); had && f.patches[i].paid+patchHead+len(runs) >= PageSize {
		return false
	}
	f.patches.set(n, runs)
	return true
}

// settle adds the cost of this publish to each patch. It puts the pages of the patches that have
// cost as much as a page, and of the largest patches while all together exceed maxPatches.
func (f *file) settle() error {
	total := f.patches.size()
	for i := range f.patches {
		p := &f.patches[i]
		p.paid += p.size()
	}
	for {
		due := -1
		for i := range f.patches {
			if p := &f.patches[i]; p.paid >= PageSize ||
				total > maxPatches && (due < 0 || p.size() > f.patches[due].size()) {
				due = i
			}
		}
		if due < 0 {
			return nil
		}
		total -= f.patches[due].size()
		if err := f.putPatched(f.patches[due].page); err != nil {
			return err
		}
	}
}

// putPatched puts a page that has a patch.
func (f *file) putPatched(n uint32) error {
	if f.overlay[n] != nil {
		return f.putOverlay(n)
	}
	b := f.buffers.page()
	err := f.get(b[:], n)
	if err == nil {
		err = f.put(n, b[:])
	}
	if err != nil {
		f.buffers.putPage(b)
		return err
	}
	f.buffers.putPage(f.stored.add(n, b))
	return nil
}

// putOverlay puts a page of the overlay.
func (f *file) putOverlay(n uint32) error {
	b := f.overlay[n]
	if err := f.put(n, b[:]); err != nil {
		return err
	}
	kept := f.buffers.page()
	*kept = *b
	f.buffers.putPage(f.stored.add(n, kept))
	return nil
}

// fill puts pages of zeros from one up to another. SQLite does not write pages that a transaction
// added and freed again. The lock page, which it never uses, is not stored, as after an import.
func (f *file) fill(from, to uint32) error {
	if from >= to {
		return nil
	}
	zero := f.buffers.page()
	defer f.buffers.putPage(zero)
	clear(zero[:])
	for n := from; n < to; n++ {
		if n == lockPage {
			continue
		}
		if err := f.put(n, zero[:]); err != nil {
			return err
		}
	}
	return nil
}

// put puts a whole page, which then has no patch.
func (f *file) put(n uint32, b []byte) error {
	old := -1
	if n < f.meta.Pages {
		old = PageSize
	}
	f.published = true // even if Put fails, which may leave the Writer in any state
	if err := f.w.Put(f.pageKey(f.key[:0], n), b, old); err != nil {
		return fmt.Errorf("write page %d: %w", n, err)
	}
	f.patches.remove(n)
	f.stored.remove(n, n+1, f.buffers)
	return nil
}

// putMetadata puts m, and records it as the stored metadata.
func (f *file) putMetadata(m Metadata) error {
	f.published = true
	v := m.appendWith(f.value[:0], f.patches)
	f.value = v[:0]
	if err := f.w.Put(keyspace.SQLiteMetadata.Append(f.key[:0], keyspace.SQLiteMain), v, f.metaLength); err != nil {
		return fmt.Errorf("write the metadata of the database: %w", err)
	}
	f.meta, f.metaLength = m, len(v)
	return nil
}

// Pragma handles the pragmas that would change the form of the file.
func (f *file) Pragma(name, value string) (string, error) {
	switch {
	case value == "":
	case name == "page_size":
		return "", nil // ignored, as by any database that has a table
	}
	return "", sqlite3.NOTFOUND
}

// Size returns the length of the file.
func (f *file) Size() (int64, error) { return int64(f.pages) * PageSize, nil }

// Sync does nothing: the owner of the Writer decides what is durable.
func (*file) Sync(vfs.SyncFlag) error { return nil }

// Lock does nothing. There is one writer by construction, and readers have snapshots.
func (*file) Lock(vfs.LockLevel) error { return nil }

// Unlock does nothing.
func (*file) Unlock(vfs.LockLevel) error { return nil }

// CheckReservedLock finds no lock.
func (*file) CheckReservedLock() (bool, error) { return false, nil }

// SectorSize returns the size of the header of a journal.
func (*file) SectorSize() int { return journalHeader }

// DeviceCharacteristics says that writing a page leaves its neighbours alone and, for the journal,
// that appended bytes need no re-read and no sync before them.
func (*file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_POWERSAFE_OVERWRITE | vfs.IOCAP_SAFE_APPEND | vfs.IOCAP_SEQUENTIAL
}

// Close does nothing: the session has dropped all pages.
func (*file) Close() error { return nil }
