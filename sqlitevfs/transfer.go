package sqlitevfs

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
	"github.com/ncruces/go-sqlite3/ext/rtree"
	"github.com/ncruces/go-sqlite3/ext/vec1"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

// lockPage is the index of the page at 1 GiB, whose bytes are used for locks. SQLite neither writes
// nor reads it.
const lockPage = 1 << 30 / PageSize

// exportPages is how many pages Export collects before it writes them.
const exportPages = 64

// Export writes a database as a plain SQLite file that passes stock SQLite's integrity_check, and
// returns its length in bytes. It only reads keys and needs no connection. If the database does not
// exist it writes an empty one, of one page. It does not call the writer during a Scan, so the
// writer may be slow.
//
// The error wraps [ErrCorrupt] if pages are missing or more than the metadata says; then a part was
// written. It wraps [ErrInterrupted] and the cause if ctx ends.
func Export(ctx context.Context, w io.Writer, r Reader) (int64, error) {
	m, value, err := readMetadata(r, nil)
	if err != nil {
		return 0, err
	}
	if value == nil {
		n, err := w.Write(emptyFile())
		return int64(n), err
	}
	patches, err := parsePatches(nil, value[metadataSize:], m.Pages)
	if err != nil {
		return 0, err
	}
	var written int64
	buf := make([]byte, 0, exportPages*PageSize)
	end := keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, m.Pages)
	for next := uint32(0); next < m.Pages; {
		if ctx.Err() != nil {
			return written, interrupted(ctx)
		}
		buf = buf[:0]
		if next == lockPage {
			buf = append(buf, make([]byte, PageSize)...)
			next++
		}
		var damage error
		start := keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, next)
		err := r.Scan(start, end, func(key, page []byte) bool {
			if next == lockPage {
				return false
			}
			_, at, err := keyspace.SQLiteChunk.Parse(key)
			switch {
			case err != nil:
				damage = err
			case at != next:
				damage = fmt.Errorf("page %d is missing, %d is there", next, at)
			case len(page) != PageSize:
				damage = fmt.Errorf("page %d has %d bytes, want %d", at, len(page), PageSize)
			default:
				buf = append(buf, page...)
				patches.apply(at, buf[len(buf)-PageSize:])
				next++
			}
			return damage == nil && len(buf) < cap(buf)
		})
		if err != nil {
			return written, err
		}
		if damage == nil && len(buf) == 0 {
			damage = fmt.Errorf("page %d of %d is missing", next, m.Pages)
		}
		if damage == nil && written == 0 {
			damage = checkExported(buf, m)
		}
		if damage != nil {
			return written, fmt.Errorf("%w: %w", ErrCorrupt, damage)
		}
		n, err := w.Write(buf)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, noMorePages(r, end)
}

// noMorePages returns an error if there are pages beyond the end of a database.
func noMorePages(r Reader, end []byte) error {
	_, after := pageRange()
	found := false
	if err := r.Scan(end, after, func(_, _ []byte) bool { found = true; return false }); err != nil {
		return err
	}
	if found {
		return fmt.Errorf("%w: there are pages beyond the end of the database", ErrCorrupt)
	}
	return nil
}

// checkExported compares a database's first page with its metadata. SQLite trusts the number of
// pages in the header if the counters of change and of version are equal.
func checkExported(page []byte, m Metadata) error {
	h, err := parseHeader(page)
	switch {
	case err != nil:
		return err
	case h.pageSize != PageSize:
		return fmt.Errorf("the header says pages of %d bytes, want %d", h.pageSize, PageSize)
	case !h.counted:
		return errors.New("the header's number of pages is not valid")
	case h.pages != m.Pages:
		return fmt.Errorf("the header says %d pages, the metadata %d", h.pages, m.Pages)
	}
	return nil
}

// A fileHeader is the first 100 bytes of a database file. https://sqlite.org/fileformat2.html
type fileHeader struct {
	pageSize int
	wal      bool
	reserved int    // bytes at the end of each page, for extensions
	pages    uint32 // valid if counted
	counted  bool
}

const (
	headerSize = 100
	magic      = "SQLite format 3\x00"
)

// parseHeader reads a header. The error says what is wrong with the file.
func parseHeader(b []byte) (h fileHeader, err error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return h, errors.New("it is not a SQLite database, or it is encrypted")
	}
	h.pageSize = int(binary.BigEndian.Uint16(b[16:]))
	if h.pageSize == 1 {
		h.pageSize = 65536
	}
	if h.pageSize < 512 || h.pageSize&(h.pageSize-1) != 0 {
		return h, fmt.Errorf("its header says pages of %d bytes", h.pageSize)
	}
	if b[18] > 2 || b[19] > 2 || b[18] == 0 || b[19] == 0 {
		return h, fmt.Errorf("its header says the versions %d and %d of the file format, want 1 or 2", b[18], b[19])
	}
	h.wal = b[18] == 2 || b[19] == 2
	h.reserved = int(b[20])
	if h.pageSize-h.reserved < 480 || string(b[21:24]) != "\x40\x20\x20" {
		return h, errors.New("its header is damaged")
	}
	h.pages = binary.BigEndian.Uint32(b[28:])
	h.counted = h.pages > 0 && string(b[24:28]) == string(b[92:96])
	return h, nil
}

// emptyFile returns a database without tables, of one page.
func emptyFile() []byte {
	b := make([]byte, PageSize)
	copy(b, magic)
	binary.BigEndian.PutUint16(b[16:], PageSize)
	copy(b[18:], "\x01\x01\x00\x40\x20\x20")
	b[27], b[95] = 1, 1 // changes
	b[31] = 1           // pages
	b[47] = 4           // format of the schema
	b[59] = 1           // UTF-8
	binary.BigEndian.PutUint32(b[96:], 3_053_004)
	b[headerSize] = 0x0d // an empty leaf of a table
	binary.BigEndian.PutUint16(b[headerSize+5:], PageSize)
	return b
}

// pageRange returns the bounds of all pages of the database.
func pageRange() (start, end []byte) {
	start = keyspace.SQLiteChunk.Prefix(nil, keyspace.SQLiteMain)
	return start, keyspace.Successor(start)
}

// An ImportError says why a file cannot be imported.
type ImportError struct{ Reason string }

func (e *ImportError) Error() string { return "the file cannot be imported: " + e.Reason }

// Import replaces a database by a plain SQLite file of up to maxBytes, and returns its metadata.
// The owner of the writer commits or drops the changes; if it drops them, it must call Discard.
//
// Before it writes, it reads the whole file, which must pass SQLite's integrity_check; rows that
// violate a foreign key are accepted. If the pages have another size, VACUUM copies the file in
// memory, and the copy must be within maxBytes too. Reserved bytes at the end of pages are kept;
// eight of them are checksums, which must be right. A file in WAL mode is imported without its log,
// so changes that are only in the log are missing. The migrations in its table cairn_migration
// count as applied.
//
// The error is an *ImportError, which says what is wrong with the file; or [ErrBusy] if there is a
// write session; or it wraps [ErrFull], [ErrMemory] or [ErrInterrupted], or the error of the file's
// reader. After an error part of the file may be in the writer, so its owner must drop everything.
func (d *Database) Import(ctx context.Context, w Writer, file io.Reader, maxBytes int64) (Metadata, error) {
	if d.writing() {
		return Metadata{}, fmt.Errorf("a write session is open: %w", ErrBusy)
	}
	f, err := d.pool.ReadFile(file, maxBytes)
	if err != nil {
		return Metadata{}, err
	}
	defer f.Close()
	return d.ImportFile(ctx, w, f)
}

// A File is a SQLite file in memory, for one import. Files, like the temporary files of the
// connections, are bounded by MaxTemporary.
type File struct {
	max int64

	mu           sync.Mutex
	image        *image
	used, closed bool // used: by an import that has not ended
}

// ReadFile reads a file of up to maxBytes for [Database.ImportFile]. The error is an *ImportError
// if it is longer, a [LimitError] if it needs more than MaxTemporary, [ErrBusy] if other files
// leave no memory for it, or wraps the error of the reader. The caller must close the File.
func (p *Pool) ReadFile(file io.Reader, maxBytes int64) (*File, error) {
	m, err := readImage(file, maxBytes, &p.temporary)
	switch {
	case errors.Is(err, errTooLong):
		return nil, &ImportError{fmt.Sprintf("it is longer than %d bytes", maxBytes)}
	case err != nil:
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	return &File{max: maxBytes, image: m}, nil
}

// Close gives the memory back, at once or at the end of the import that uses it.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if !f.used {
		f.image.release()
	}
}

// take returns the image for an import, which must call done.
func (f *File) take() (m *image, done func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.used {
		return nil, nil, ErrClosed
	}
	f.used = true
	return f.image, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.used = false
		if f.closed {
			f.image.release()
		}
	}, nil
}

// ImportFile is [Database.Import] of a file from ReadFile.
func (d *Database) ImportFile(ctx context.Context, w Writer, file *File) (Metadata, error) {
	if d.writing() {
		return Metadata{}, fmt.Errorf("a write session is open: %w", ErrBusy)
	}
	m, done, err := file.take()
	if err != nil {
		return Metadata{}, err
	}
	defer done()
	h, err := prepareImage(m)
	if err != nil {
		return Metadata{}, err
	}
	c := &importer{ctx: ctx, pool: d.pool, max: file.max}
	rows, err := c.check(m)
	if err == nil && h.pageSize != PageSize {
		m, err = c.convert(m)
		defer m.release()
		if err == nil {
			h, err = prepareImage(m)
		}
		if err == nil && h.pageSize != PageSize {
			err = &ImportError{fmt.Sprintf("its pages have %d bytes, and because they have checksums SQLite does not convert them", h.pageSize)}
		}
	}
	if err != nil {
		return Metadata{}, err
	}
	old, _, err := ReadMetadata(w)
	if err != nil && !errors.Is(err, ErrCorrupt) { // a damaged database may be replaced
		return Metadata{}, err
	}
	meta := Metadata{Pages: h.pages, Sequence: old.Sequence + 1, Migrations: uint32(len(rows)),
		Fingerprint: fingerprint(rows)}
	err = putImage(ctx, w, m, meta)
	d.Discard()
	return meta, err
}

// prepareImage reads the header of a file, cuts off bytes after the database, switches WAL mode
// off, and writes the length into the header if it is missing.
func prepareImage(m *image) (fileHeader, error) {
	if m.size == 0 {
		return fileHeader{}, &ImportError{"it is empty"}
	}
	var b [headerSize]byte
	n, _ := m.ReadAt(b[:], 0)
	h, err := parseHeader(b[:n])
	if err != nil {
		return h, &ImportError{err.Error()}
	}
	has := m.size / int64(h.pageSize)
	if !h.counted {
		h.pages = uint32(min(has, 1<<32-1))
	}
	if int64(h.pages) > has || h.pages == 0 {
		return h, &ImportError{fmt.Sprintf("it is cut short: it has %d of %d pages", has, h.pages)}
	}
	if h.pageSize == PageSize && int64(h.pages) > maxPages {
		return h, &ImportError{fmt.Sprintf("it has %d pages, at most %d are possible", h.pages, maxPages)}
	}
	if err := m.Truncate(int64(h.pages) * int64(h.pageSize)); err != nil {
		return h, err
	}
	header := m.chunks[0][:headerSize]
	copy(header[18:20], "\x01\x01")
	if !h.counted { // SQLite before 3.7.0 wrote it last
		binary.BigEndian.PutUint32(header[28:], h.pages)
		copy(header[92:96], header[24:28])
	}
	return h, nil
}

// maxPages is SQLite's own bound.
const maxPages = 1<<32 - 2

// putImage replaces the keys of a database.
func putImage(ctx context.Context, w Writer, m *image, meta Metadata) error {
	all := []byte{byte(keyspace.KindSQLite)}
	if err := w.DeleteRange(all, keyspace.Successor(bytes.Clone(all))); err != nil {
		return err
	}
	var key []byte
	for i := range meta.Pages {
		if ctx.Err() != nil {
			return interrupted(ctx)
		}
		if i == lockPage {
			continue
		}
		key = keyspace.SQLiteChunk.Append(key[:0], keyspace.SQLiteMain, i)
		if err := w.Put(key, m.page(i), -1); err != nil {
			return err
		}
	}
	return w.Put(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain), meta.append(nil), -1)
}

// An importer checks and converts files on its own connections, which have only the file.
type importer struct {
	ctx  context.Context
	pool *Pool
	max  int64
}

// check runs SQLite's check and returns the rows of the table of migrations.
func (c *importer) check(m *image) (rows []migrationRow, err error) {
	err = c.open(map[string]*image{"file": m}, func(db *sqlite3.Conn, _ string) error {
		err := eachRow(db, "PRAGMA integrity_check(1)", func(s *sqlite3.Stmt) error {
			if text := s.ColumnText(0); text != "ok" {
				return &ImportError{"SQLite's integrity_check says: " + text}
			}
			return nil
		})
		if err == nil {
			rows, err = readMigrations(db)
		}
		var foreign *MigrationError
		if errors.As(err, &foreign) {
			rows, err = nil, nil // another table of that name: Migrate will report it
		}
		return err
	})
	return rows, err
}

// convert returns a copy with pages of PageSize.
func (c *importer) convert(m *image) (*image, error) {
	out := newImage(c.max, &c.pool.temporary)
	err := c.open(map[string]*image{"file": m, "copy": out}, func(db *sqlite3.Conn, name string) error {
		if err := execute(db, fmt.Sprintf("PRAGMA page_size=%d", PageSize)); err != nil {
			return err
		}
		return execute(db, "VACUUM INTO ?", "file:copy?vfs="+name)
	})
	// The copy takes about as much as the file.
	switch both := m.budget.used + max(m.budget.used, out.budget.used+chunkSize); {
	case !errors.Is(err, ErrFull):
	case both > c.pool.temporary.limit:
		err = &LimitError{ErrFull, "the file and its copy with other pages", c.pool.temporary.limit, both}
	case out.budget.crowded:
		err = c.pool.temporary.refusal()
	default:
		err = &ImportError{fmt.Sprintf("with pages of %d bytes it is longer than %d bytes", PageSize, c.max)}
	}
	return out, err
}

// open calls f with a read-only connection on the image "file". Errors of SQLite become an
// *ImportError if the file is to blame.
func (c *importer) open(files map[string]*image, f func(db *sqlite3.Conn, vfsName string) error) (err error) {
	if c.ctx.Err() != nil {
		return interrupted(c.ctx)
	}
	name := "cairn-import-" + rand.Text()
	images := &images{files: files, temp: c.pool.temporary.part(c.pool.options.Temporary)}
	vfs.Register(name, images)
	defer func() {
		vfs.Unregister(name)
		images.temp.take(-images.temp.used)
	}()
	var db *sqlite3.Conn
	var stop stopper // for CHECK constraints and indexes of the file, which call functions
	done := func() error { return nil }
	defer func() {
		p := recover()
		stopped := done()
		lost := false // the panic left a call into SQLite: no other call is safe
		if db != nil {
			// Its heap is not Go's: it must be closed to be given back.
			in, closed := innerOf(db), errBroken
			_, fault := p.(runtime.Error)
			if lost = fault && in != nil || stopped != nil; !lost {
				closed = closeNative(db)
			}
			if closed != nil && in != nil {
				closed = attempt(in.Close)
			}
			if closed != nil {
				c.pool.options.Logger.Error("a SQLite connection could not be closed after an import, and its memory is lost", "error", closed)
			}
		}
		switch {
		case stopped != nil:
			err = stopped
		case lost:
			err = tooComplex()
		case p != nil:
			if err = memoryError(p); err == nil {
				panic(p)
			}
		}
		err = c.blame(err)
	}()
	db, err = sqlite3.OpenContext(c.pool.open, "file:file?mode=ro&vfs="+name)
	if err != nil {
		return wrap(err, "")
	}
	db.SetInterrupt(c.ctx)
	if in := innerOf(db); in != nil {
		stop.attach(in.Slice())
	}
	done = c.pool.watchImport(&stop, c.ctx)
	for _, register := range []func(*sqlite3.Conn) error{fts5.Register, rtree.Register, vec1.Register} {
		if err := register(db); err != nil {
			return wrap(err, "")
		}
	}
	// The file is not trusted: functions in its schema must not run with the rights of the program.
	if err := execute(db, "PRAGMA trusted_schema=OFF"); err != nil {
		return err
	}
	if err := execute(db, "PRAGMA cell_size_check=ON"); err != nil {
		return err
	}
	return f(db, name)
}

// blame distinguishes faults of the file from faults of the environment.
func (c *importer) blame(err error) error {
	if err == nil {
		return nil
	}
	if c.ctx.Err() != nil {
		return interrupted(c.ctx)
	}
	err = limited(err, c.pool.limits(Limits{}), 0, 0)
	var e *Error
	if errors.As(err, &e) && !errors.Is(err, ErrMemory) && !errors.Is(err, ErrFull) && !errors.Is(err, ErrBusy) {
		return &ImportError{"SQLite says: " + e.Message}
	}
	return err
}
