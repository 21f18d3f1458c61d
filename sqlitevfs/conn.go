package sqlitevfs

import (
	"errors"
	"fmt"
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
	fs                      *fileSystem
	begin, commit, rollback *sqlite3.Stmt
	maxPages                uint32 // PRAGMA max_page_count

	inner  inner   // nil if the library does not show it
	memory *[]byte // nil, too; as is stack
	stack  *int32
	rest   int32 // *stack while nothing runs
	seen   int   // len(*memory) when the pool was told last
	broken bool  // a panic has left a call into SQLite: there must be no other

	// Of the database when it was opened. If that has another it is not kept: what it remembers, of which the schema is a
	// part that SQLite cannot be told to forget, may be of pages that never were. REQUIRES: database.pool.mu, or to be in a session.
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
	size := int64(goHeap)
	if c.write {
		size += keptImages * PageSize
	}
	if c.memory == nil {
		return 512<<10 + size
	}
	return int64(len(*c.memory)) + size
}

// openConn opens a connection for a session.
func openConn(s *Session) (_ *conn, err error) {
	d, p := s.database, s.database.pool
	c := &conn{database: d, write: s.write, maxPages: noPageLimit}
	c.file = &file{write: c.write, buffers: &p.buffers, limit: p.options.TurnBytes}
	if err := c.file.open(s.r, s.w); err != nil {
		return nil, err
	}
	if err := refuseJournal(s.r); err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.serial++
	name := p.prefix + strconv.FormatUint(p.serial, 36)
	wanted := d.extensions
	p.mu.Unlock()
	c.fs = &fileSystem{name: name, main: c.file, temp: budget{limit: p.options.Temporary, all: &p.temporary}}
	vfs.Register(name, c.fs)
	defer func() {
		if v := recover(); v != nil {
			if err = c.failure(v); err == nil {
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
	db, err := sqlite3.OpenContext(p.open, "file:"+mainName+"?vfs="+name)
	c.file.opening = false
	if err != nil {
		return nil, err
	}
	c.attach(db)
	if err = c.file.fault; err != nil {
		c.file.fault = nil
		return nil, err
	}
	c.limit(p.options.MaxLength)
	if err = c.functions(); err != nil {
		return nil, err
	}
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

// limit sets the limits of SQLite that its defaults leave too high here.
func (c *conn) limit(length int) {
	for _, l := range []struct {
		id    sqlite3.LimitCategory
		value int
	}{
		{sqlite3.LIMIT_LENGTH, length},
		// The library reads names up to so many bytes, and panics at longer ones.
		{sqlite3.LIMIT_SQL_LENGTH, 1_000_000},
		// Beyond these, or a little beyond, C's stack is used up, which costs the connection and the session.
		{sqlite3.LIMIT_PARSER_DEPTH, 500},
		{sqlite3.LIMIT_EXPR_DEPTH, 500},
		{sqlite3.LIMIT_COMPOUND_SELECT, 150},
		// A pattern takes time in proportion to its length times that of the text, and no context interrupts that.
		{sqlite3.LIMIT_LIKE_PATTERN_LENGTH, 1000},
	} {
		c.db.Limit(l.id, l.value)
	}
}

// refresh makes a connection that reads one of another reader, and reports whether what is in its page cache is of the
// same version of the database.
func (c *conn) refresh(r Reader) (same bool, _ error) {
	f := c.file
	before := f.meta.Sequence
	if err := f.open(r, nil); err != nil {
		return false, err
	}
	same = f.meta.Sequence == before
	f.stamped = f.stamped && same
	return same, nil
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
