package sqlitevfs

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/cairn-run/cairn/keyspace"
)

// A conn is a native connection: an instance that serves one database. It is either in a session or
// idle in the pool.
type conn struct {
	*instance // nil when the conn was closed and its instance is new again
	cache     statements
	auth      authorizer
	schema    [4]byte // the schema cookie of a read connection's last session
	stained   string  // why it must be closed when its session ends; "" if it may be kept
	extensions
	guards    *sqlite3.Stmt // queries whether the database has triggers or foreign keys
	unguarded bool          // they are switched off

	database *Database
	limits   Limits // of the session, or the last one
	maxPages uint32 // PRAGMA max_page_count
	seen     int    // len(*memory) when the pool last counted it

	// The database's epoch when the connection was opened. If the database has another one now, the
	// connection is not kept: its caches may come from pages that were never committed, and SQLite
	// cannot drop its schema. REQUIRES: database.pool.mu, or to be in a session.
	epoch uint64

	// While it is idle. REQUIRES: database.pool.mu
	older, newer *conn
	since        time.Time
	bytes        int64 // as the pool counts it, idle or not
	granted      int64 // how far it may grow in its session, in bytes. REQUIRES: database.pool.mu
	short        bool  // that is less than ConnMemory allows
}

// noPageLimit is SQLite's own limit of pages.
const noPageLimit = 1<<32 - 2

// goHeap is roughly the size of a connection in Go's heap, in bytes.
const goHeap = 32 << 10

// size returns the memory of the connection, in bytes.
func (c *conn) size() int64 {
	size := int64(goHeap)
	if c.write {
		size += keptImages * PageSize
	}
	if c.memory == nil {
		return 512<<10 + size
	}
	return int64(max(len(*c.memory), c.extent)) + size
}

// openConn opens a connection for a session.
func openConn(s *Session) (_ *conn, err error) {
	d, p := s.database, s.database.pool
	m, value, err := readMetadata(s.r, make([]byte, 0, metadataSize+3))
	if err != nil {
		return nil, err
	}
	if err := refuseJournal(s.r); err != nil {
		return nil, err
	}
	in, err := p.instance(s.write)
	if err != nil {
		return nil, err
	}
	c := &conn{instance: in, database: d, maxPages: noPageLimit}
	in.serves = c
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
	length := -1
	if value != nil {
		length = len(value)
	}
	c.file.begin(s.r, s.w, m, length)
	if err = c.file.load(value); err != nil {
		return nil, err
	}
	if !s.write {
		if c.schema, err = c.file.schemaCookie(); err != nil {
			return nil, err
		}
	}
	c.cache.limit = p.options.Statements
	c.auth.c, c.auth.maxCache = c, p.options.CacheBytes
	if p.options.CacheBytes != DefaultCacheBytes { // the default is SQLite's own, to 2 %
		if err = c.exec(fmt.Sprintf("PRAGMA cache_size=-%d", p.options.CacheBytes/1024)); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	wanted := d.extensions
	p.mu.Unlock()
	if err = c.register(wanted); err != nil {
		return nil, err
	}
	return c, nil
}

// close makes the connection's instance a spare, or closes it. The connection may be in any state.
func (c *conn) close() {
	in, p := c.instance, c.database.pool
	if p.reuse(in) {
		c.instance = nil // a stale pointer to c must not reach an instance that serves another database
		return
	}
	in.close(p.options.Logger.With("database", c.database.name))
}

// refresh attaches another reader to a read connection. It reports whether the page cache is of the
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

// forgetSchema makes SQLite read the schema again if it has changed since the last session of a
// read connection. Ordinary statements check that when they begin. Pragmas that read the schema do
// not: foreign_key_check found no keys in a table that was made since.
func (c *conn) forgetSchema() error {
	now, err := c.file.schemaCookie()
	if err != nil || now == c.schema {
		return err
	}
	c.schema = now
	return c.exec("SELECT 1 FROM main.sqlite_schema LIMIT 0")
}

// stain records why the connection must be closed when its session ends.
func (c *conn) stain(why string) {
	if c.stained == "" {
		c.stained = why
	}
}

// refuseJournal refuses a database that another program used before and did not close cleanly.
func refuseJournal(r Reader) error {
	key := keyspace.SQLiteMetadata.Append(make([]byte, 0, 64), keyspace.SQLiteJournal)
	_, ok, err := r.Get(key[len(key):], key)
	switch {
	case err != nil:
		return fmt.Errorf("look for a rollback journal: %w", err)
	case ok:
		return fmt.Errorf("%w: there is a rollback journal beside it, which cannot be played back here", ErrCorrupt)
	}
	return nil
}

// transact executes BEGIN, COMMIT or ROLLBACK of the session.
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

// exec executes text of this package.
func (c *conn) exec(sql string) error {
	internal := c.auth.internal
	c.auth.internal = true
	defer func() { c.auth.internal = internal }()
	return c.db.Exec(sql)
}

// journal turns the undo journal on or off, between transactions. Without it VACUUM takes only the
// memory of a large transaction. A failure then costs the connection, but the overlay of the file
// protects the database.
func (c *conn) journal(on bool) error {
	mode := "OFF"
	if on {
		mode = journalMode
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

// wrap is the function wrap with the cause that the file recorded.
func (c *conn) wrap(err error, sql string) error {
	fault := c.file.fault
	c.file.fault = nil
	if err == nil {
		return nil
	}
	err = limited(c.crowded(wrap(err, sql)), c.bounds(), len(sql), 0)
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	if fault == nil && e.Code&0xff == int(sqlite3.FULL) && c.maxPages != noPageLimit && c.file.w != nil {
		// SQLite's limit of pages is reached, which limitPages set from the room of the Writer.
		more := int64(c.maxPages) + 1 - int64(c.file.meta.Pages)
		fault = c.file.refusal(more*pageCost + metadataSize)
	}
	if fault == nil {
		return err
	}
	switch sqlite3.ErrorCode(e.Code & 0xff) {
	case sqlite3.IOERR, sqlite3.FULL, sqlite3.CANTOPEN:
		e.Err = fault
	}
	return err
}

// limitPages limits the growth of the database in the session, so a statement without room fails
// instead of the commit. With room for most of TurnBytes, TurnBytes bounds the session and there is
// no limit. Otherwise each session would have to set a new limit if the Writer's room is close to
// TurnBytes.
func (c *conn) limitPages() error {
	limit := uint32(noPageLimit)
	room := c.file.w.Room() - metadataSize
	if room < c.limits.TurnBytes/8*7 {
		limit = uint32(min(int64(c.file.meta.Pages)+max(room, 0)/pageCost, noPageLimit))
		limit = max(limit, 1) // with 0 the pragma only returns the limit
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
