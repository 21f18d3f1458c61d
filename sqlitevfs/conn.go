package sqlitevfs

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/cairn-run/cairn/keyspace"
)

// A conn is a native connection. It belongs to one database, and is either in a session or idle in the pool.
type conn struct {
	db      *sqlite3.Conn
	file    *file
	cache   statements
	auth    authorizer
	stained string // why it must be closed when its session ends; "" if it may be kept
	write   bool
	extensions

	database                *Database
	fs                      string // the name under which its file system is registered
	heap                    reflect.Value
	begin, commit, rollback *sqlite3.Stmt
	maxPages                uint32 // PRAGMA max_page_count

	// What its page cache is of, with the sequence of file.meta. REQUIRES: database.pool.mu, or to be in a session.
	epoch uint64

	// While it is idle. REQUIRES: database.pool.mu
	older, newer *conn
	since        time.Time
	bytes        int64 // as the pool counts it, idle or not
}

// noPageLimit is SQLite's own limit of pages.
const noPageLimit = 1<<32 - 2

// goHeap is what a connection takes in Go's heap, roughly, in bytes.
const goHeap = 32 << 10

// size returns what the connection takes, in bytes.
func (c *conn) size() int64 {
	if !c.heap.IsValid() {
		return 512<<10 + goHeap
	}
	return int64(c.heap.Len()) + goHeap
}

// heapOf returns the linear memory of a connection, which is nearly all it takes and which never shrinks. The library does not
// show it, and SQLite's own counters say what is in use now, not how far the memory has grown. Reading the length of an
// unexported slice is all that is done with it. If a later version of the library has other names the value is invalid, and
// a test says so.
func heapOf(db *sqlite3.Conn) reflect.Value {
	v := reflect.ValueOf(db)
	for _, name := range []string{"wrp", "Memory", "Buf"} {
		if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
			return reflect.Value{}
		}
		if v = v.Elem().FieldByName(name); !v.IsValid() {
			return v
		}
	}
	if v.Kind() != reflect.Slice {
		return reflect.Value{}
	}
	return v
}

// openConn opens a connection for a session.
func openConn(s *Session) (_ *conn, err error) {
	d, p := s.database, s.database.pool
	c := &conn{database: d, write: s.write, maxPages: noPageLimit}
	c.file = &file{write: c.write, buffers: &p.buffers, limit: p.options.TurnBytes}
	m, length, err := readMetadata(s.r, c.file.value[:0])
	if err != nil {
		return nil, err
	}
	if err := refuseJournal(s.r); err != nil {
		return nil, err
	}
	c.file.begin(s.r, s.w, m, length)
	p.mu.Lock()
	p.serial++
	c.fs = p.prefix + strconv.FormatUint(p.serial, 36)
	wanted := d.extensions
	p.mu.Unlock()
	vfs.Register(c.fs, &fileSystem{main: c.file, temp: budget{limit: p.options.Temporary}})
	defer func() {
		if v := recover(); v != nil {
			if err = memoryError(v); err == nil {
				c.close()
				panic(v)
			}
		}
		if err != nil {
			err = c.wrap(err, "")
			c.close()
		}
	}()
	c.file.opening = true
	c.db, err = sqlite3.OpenContext(p.open, "file:"+mainName+"?vfs="+c.fs)
	c.file.opening = false
	if err != nil {
		return nil, err
	}
	if err = c.file.fault; err != nil {
		c.file.fault = nil
		return nil, err
	}
	c.heap = heapOf(c.db)
	c.db.Limit(sqlite3.LIMIT_LENGTH, p.options.MaxLength)
	if c.write {
		// One writer by construction: locks would be taken for nothing, and page 1 written with every commit.
		if err = c.db.Exec("PRAGMA locking_mode=EXCLUSIVE"); err != nil {
			return nil, err
		}
	}
	if p.options.CacheBytes != DefaultCacheBytes { // which is SQLite's own, to 2 %
		if err = c.db.Exec(fmt.Sprintf("PRAGMA cache_size=-%d", p.options.CacheBytes/1024)); err != nil {
			return nil, err
		}
	}
	c.cache.limit = p.options.Statements
	c.auth.maxCache = p.options.CacheBytes
	if err = c.auth.install(c); err != nil {
		return nil, err
	}
	if err = c.register(wanted); err != nil {
		return nil, err
	}
	return c, nil
}

// refresh makes a connection that reads one of another reader. What is in its page cache is kept if it is of the same
// version of the database.
func (c *conn) refresh(r Reader, epoch uint64) error {
	f := c.file
	m, length, err := readMetadata(r, f.value[:0])
	if err != nil {
		return err
	}
	same := c.epoch == epoch && f.meta.Sequence == m.Sequence
	f.begin(r, nil, m, length)
	if same {
		return nil
	}
	f.stamped = false
	_, err = c.db.FileControl("main", sqlite3.FCNTL_RESET_CACHE)
	return c.wrap(err, "")
}

// stain notes why the connection must be closed when its session ends.
func (c *conn) stain(why string) {
	if c.stained == "" {
		c.stained = why
	}
}

// refuseJournal refuses a database that was not closed cleanly by what had it before, which must have been something else.
func refuseJournal(r Reader) error {
	key := keyspace.AppendSQLiteMetadata(make([]byte, 0, 64), keyspace.SQLiteJournal)
	_, ok, err := r.Get(key[len(key):], key)
	switch {
	case err != nil:
		return fmt.Errorf("look for a rollback journal: %w", err)
	case ok:
		return fmt.Errorf("%w: there is a rollback journal beside it, which cannot be played back here", ErrCorrupt)
	}
	return nil
}

// transact executes BEGIN, COMMIT or ROLLBACK of the session, and prepares it if need be.
func (c *conn) transact(stmt **sqlite3.Stmt, sql string) error {
	internal := c.auth.internal
	c.auth.internal = true
	defer func() { c.auth.internal = internal }()
	if *stmt == nil {
		s, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			return err
		}
		*stmt = s
	}
	return (*stmt).Exec()
}

// exec executes text of this package's.
func (c *conn) exec(sql string) error {
	internal := c.auth.internal
	c.auth.internal = true
	defer func() { c.auth.internal = internal }()
	return c.db.Exec(sql)
}

// journal turns the undo journal on or off, between transactions. Without it VACUUM takes no more memory than any large
// transaction; a failure then costs the connection, which the overlay of the file makes harmless to the database.
func (c *conn) journal(on bool) error {
	mode := "OFF"
	if on {
		mode = "MEMORY"
	}
	// A defensive connection ignores the pragma.
	if _, err := c.db.Config(sqlite3.DBCONFIG_DEFENSIVE, false); err != nil {
		return err
	}
	if err := c.exec("PRAGMA main.journal_mode=" + mode); err != nil {
		return err
	}
	_, err := c.db.Config(sqlite3.DBCONFIG_DEFENSIVE, true)
	return err
}

// wrap is the function wrap, with the cause that the file noted.
func (c *conn) wrap(err error, sql string) error {
	fault := c.file.fault
	c.file.fault = nil
	if err == nil {
		return nil
	}
	err = wrap(err, sql)
	var e *Error
	if fault == nil || !errors.As(err, &e) {
		return err
	}
	switch sqlite3.ErrorCode(e.Code & 0xff) {
	case sqlite3.IOERR, sqlite3.FULL, sqlite3.CANTOPEN:
		e.Err = fault
	}
	return err
}

// limitPages sets how far the database may grow in the session, so that the statement fails that needs more, and not the
// commit. It is left alone if there is room for most of what TurnBytes allows, which bounds the session then: a Writer that
// has room for that much and no more, less what the turn has put there before, would have the limit set in every session.
func (c *conn) limitPages() error {
	limit := uint32(noPageLimit)
	room := c.file.w.Room() - metadataSize
	if room < c.database.pool.options.TurnBytes/8*7 {
		limit = uint32(min(int64(c.file.meta.Pages)+max(room, 0)/pageCost, noPageLimit))
		limit = max(limit, 1) // 0 asks for the limit that there is
	}
	if limit == c.maxPages {
		return nil
	}
	if err := c.exec("PRAGMA main.max_page_count=" + strconv.FormatUint(uint64(limit), 10)); err != nil {
		return err
	}
	c.maxPages = limit
	return nil
}

// close closes the connection, whatever state it is in.
func (c *conn) close() {
	defer vfs.Unregister(c.fs)
	if c.db == nil {
		return
	}
	if err := c.closeNative(); err != nil {
		c.database.pool.options.Logger.Error("a SQLite connection could not be closed, and its memory is lost",
			"database", c.database.name, "bytes", c.size(), "error", err)
	}
}

func (c *conn) closeNative() error {
	// A statement that ran out of memory panics when it is closed, and is closed all the same.
	_ = attempt(func() error { c.cache.close(); return nil })
	return closeNative(c.db)
}

// closeNative closes a connection and the statements that are left of it, also after it ran out of memory. The library drops a
// statement from Stmts before it panics with the error of the last step, so none is finalized twice.
func closeNative(db *sqlite3.Conn) error {
	for _, s := range slices.Collect(db.Stmts()) {
		_ = attempt(s.Close) // the error is that of its last step
	}
	return attempt(db.Close)
}

// attempt makes an error of a panic.
func attempt(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
