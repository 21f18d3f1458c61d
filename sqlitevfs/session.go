package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Session is a transaction on a database.
//
//  1. It has a connection from its first statement to its end. For all that time SQLite is in a
//     transaction.
//  2. If SQLite ends that transaction itself, as after some errors, the session is poisoned:
//     earlier changes are lost, so everything after it fails, even Commit.
type Session struct {
	database *Database
	r        Reader
	w        Writer // nil in a read session
	write    bool
	late     bool // begun after the database was closed

	// front guards the handle. mu is held while a statement runs and calls the Writer. The owner
	// may hold a lock that its Writer needs too while it gets the handle, so mu cannot guard the
	// handle.
	front  sync.Mutex
	handle *sql.DB
	over   bool

	reserved bool                                          // statements may use reserved tables
	observe  func(text string, began time.Time, err error) // may be nil

	used   atomic.Bool
	writes atomic.Int64

	mu        sync.Mutex
	ended     bool
	conn      *conn
	meta      Metadata // as of the first statement
	interrupt interrupt
	faults    bool // result of the stopper's begin, for its end
	poisoned  error
	pending   *Metadata // the migrations in the next publish's metadata
	open                // of the handle
}

// DB returns the session's handle. Its connections are cheap and share the session's transaction
// and see each other's changes, so rows may be read while other statements run. BeginTx, and BEGIN
// in SQL, set savepoints, which end in reverse order. After the session the handle is closed: new
// statements fail with database/sql's own "sql: database is closed", and open rows and the like
// with [ErrClosed].
func (s *Session) DB() *sql.DB {
	s.front.Lock()
	defer s.front.Unlock()
	if s.handle == nil {
		s.handle = newHandle(s)
		if s.over {
			s.handle.Close()
		}
	}
	return s.handle
}

// AllowReserved allows the session's statements to use the tables whose names begin with
// [ReservedPrefix]. It is called before the first statement.
func (s *Session) AllowReserved() { s.reserved = true }

// Observe registers f, which is called when the execution of a text ends, or a query has its first
// row. It is called before the first statement. f must not use the session.
func (s *Session) Observe(f func(text string, began time.Time, err error)) { s.observe = f }

// observed calls the observer for a text; methods that run a text defer it.
func (s *Session) observed(text string, began time.Time, err *error) {
	if s.observe != nil {
		s.observe(text, began, *err)
	}
}

// began returns the time if there is an observer.
func (s *Session) began() (t time.Time) {
	if s.observe != nil {
		t = time.Now()
	}
	return t
}

// closeHandle closes the handle, even one that is created later.
func (s *Session) closeHandle() {
	s.front.Lock()
	h := s.handle
	s.over = true
	s.front.Unlock()
	if h != nil {
		h.Close()
	}
}

// Used reports whether a statement was run.
func (s *Session) Used() bool {
	return s.used.Load()
}

// Writes counts the statements given to the session that may write, regardless of their results.
func (s *Session) Writes() int64 { return s.writes.Load() }

// Shut refuses all statements from now on, even ROLLBACK, and interrupts a running one; it does not
// wait for its end. An open transaction stays open: it can no longer be ended, and Commit fails.
// The owner calls Shut when the code that uses the session is done, before that code's contexts
// end, and then Commit or Rollback.
func (s *Session) Shut() { s.interrupt.shut.Store(true) }

// Wait returns when no statement runs. An interrupted statement may still run for a single step of
// SQLite. After Shut and Wait, neither Commit nor Rollback waits for statements.
func (s *Session) Wait() {
	s.mu.Lock()
	//lint:ignore SA2001 a statement holds mu until it is done
	s.mu.Unlock()
}

// Commit ends a write session and puts the pages that it changed into its Writer; changed is false
// if there are none. If it fails the session is rolled back: [ErrFull] if there is no room,
// [ErrOpenTransaction] if a transaction begun in the session was neither committed nor rolled back,
// [ErrConstraint] for a deferred foreign key. If it fails and changed is true, pages were already
// put into the Writer, and the owner of the writer must drop them; Discard was called.
//
// Commit ignores the context of the session. A read session has nothing to commit, and just ends.
func (s *Session) Commit() (changed bool, err error) {
	s.Shut()
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false, ErrClosed
	}
	s.ended = true
	if s.conn != nil {
		if err = s.commit(); err != nil {
			s.rollback()
		}
		changed = s.conn.file.published
		s.release(changed && err != nil)
	} else {
		err = s.poisoned
	}
	s.mu.Unlock()
	s.closeHandle()
	return changed, err
}

// Rollback ends a session without changes. It does nothing after Commit. If it returns true, pages
// were already put into the Writer, as by VACUUM, and the owner of the writer must drop them;
// Discard was called.
func (s *Session) Rollback() (published bool) {
	s.Shut()
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false
	}
	s.ended = true
	if s.conn != nil {
		s.rollback()
		published = s.conn.file.published
		s.release(published)
	}
	s.mu.Unlock()
	s.closeHandle()
	return published
}

// cleanup is the context of cleanup statements.
var cleanup context.Context

// enter locks the session for a statement of ctx and returns its connection, which the first call
// takes. The caller must leave. A statement of cleanup runs even if contexts have ended.
func (s *Session) enter(ctx context.Context) (*conn, error) {
	s.mu.Lock()
	ready := false
	defer func() {
		if !ready { // even by a panic
			s.interrupt.call = nil
			s.mu.Unlock()
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	s.faults = s.conn.stop.begin(&s.interrupt, ctx)
	ready = true
	return s.conn, nil
}

// prepare makes the session ready for a statement. REQUIRES: mu
func (s *Session) prepare(ctx context.Context) error {
	if s.ended || s.interrupt.shut.Load() {
		return ErrClosed
	}
	if s.poisoned != nil {
		return fmt.Errorf("the session cannot go on: %w", s.poisoned)
	}
	s.interrupt.call, s.interrupt.off = ctx, ctx == cleanup
	if err := s.interrupt.cause(); err != nil {
		return err
	}
	if s.conn == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	s.used.Store(true)
	s.conn.file.fault = nil
	return nil
}

// leave unlocks the session after enter.
func (s *Session) leave() {
	c := s.conn
	stopped := c.stop.end(s.faults)
	switch {
	case stopped != nil:
		c.broken = true
		s.poison(stopped)
	case s.poisoned != nil:
	case !c.atRest(): // the goroutine ends, as by t.FailNow
		c.broken = true
		s.poison(errBroken)
	case c.db.GetAutocommit():
		s.poison(errRolledBack)
	}
	if c.memory != nil && len(*c.memory) != c.seen {
		c.seen = len(*c.memory)
		s.database.pool.grown(c)
	}
	s.interrupt.call = nil
	s.mu.Unlock()
}

// errRolledBack is the reason of a poisoned session if no better one is known.
var errRolledBack = errors.New("SQLite rolled the transaction back after an error")

// poison makes all later calls fail except Rollback. REQUIRES: mu
func (s *Session) poison(err error) {
	if s.poisoned == nil {
		s.poisoned = err
	}
	if s.conn != nil {
		s.conn.stain("its transaction was lost: " + err.Error())
	}
}

// recovered turns a panic of the library, for a full heap of the connection or a full C stack, into
// an error, and poisons the session. It repeats any other panic. REQUIRES: mu
func (s *Session) recovered(p any) error {
	err := s.conn.failure(p)
	if err == nil {
		s.poison(fmt.Errorf("panic: %v", p))
		panic(p)
	}
	err = limited(s.conn.crowded(err), s.conn.bounds(), 0, 0)
	s.poison(err)
	return err
}

// wrap turns an error of the library into an *Error. To SQLite's code it adds the cause: from the
// Reader or the Writer, or from the contexts. If SQLite has ended the transaction, it poisons the
// session. REQUIRES: mu
func (s *Session) wrap(ctx context.Context, err error, sql string) error {
	if err == nil {
		return nil
	}
	err = s.conn.wrap(err, sql)
	var e *Error
	if errors.As(err, &e) && e.Code&0xff == int(sqlite3.INTERRUPT) && e.Err == nil {
		for _, c := range []context.Context{ctx, s.interrupt.session} {
			if c != nil && c.Err() != nil {
				e.Err = context.Cause(c)
				break
			}
		}
	}
	if s.poisoned == nil && s.conn.db.GetAutocommit() {
		s.poison(err)
	}
	return err
}

// migrated sets the migrations for the next publish's metadata. REQUIRES: mu
func (s *Session) migrated(count uint32, fingerprint [16]byte) {
	s.pending = &Metadata{Migrations: count, Fingerprint: fingerprint}
}

// begin takes a connection and begins the transaction. REQUIRES: mu
func (s *Session) begin() (err error) {
	p := s.database.pool
	c, epoch, err := p.take(s)
	if err != nil {
		return err
	}
	fresh := false // the connection must drop its cached pages
	begun := false
	defer func() {
		if !begun { // even by a panic
			if c != nil {
				c.stain("its session could not begin")
				c.file.finish()
			}
			s.conn = nil
			p.put(s, c)
		}
	}()
	switch {
	case c == nil:
		if c, err = openConn(s); err != nil {
			return err
		}
		c.epoch = epoch
	case s.write:
		// The last published metadata is the stored one: the database has one writer, and Discard
		// closes it.
		c.file.begin(s.r, s.w, c.file.meta, c.file.metaLength)
	default:
		same, err := c.refresh(s.r)
		if err != nil {
			return err
		}
		fresh = !same
	}
	p.grant(c)
	s.meta, s.conn = c.file.meta, c
	c.auth.reserved = s.reserved
	p.use(c)
	s.interrupt.off = true
	c.db.SetInterrupt(&s.interrupt)
	defer func() { s.interrupt.off = s.interrupt.call == nil }()
	err = s.native(func() error {
		if fresh {
			if _, err := c.db.FileControl("main", sqlite3.FCNTL_RESET_CACHE); err != nil {
				return err
			}
		}
		if err := c.transact(&c.begin, "BEGIN"); err != nil {
			return err
		}
		if s.reserved && s.write {
			if err := c.unguard(); err != nil {
				return err
			}
		}
		if !s.write {
			if fresh {
				return c.forgetSchema()
			}
			return nil
		}
		return c.limitPages()
	})
	begun = err == nil
	return err
}

// native calls the library, and turns its panics into errors. REQUIRES: mu, conn
func (s *Session) native(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.recovered(v)
		}
	}()
	return s.conn.wrap(f(), "")
}

// commit ends SQLite's transaction and publishes. REQUIRES: mu, conn
func (s *Session) commit() error {
	if s.poisoned != nil {
		return s.poisoned
	}
	if len(s.tx) > 0 {
		return ErrOpenTransaction
	}
	s.interrupt.off = true
	c, f := s.conn, s.conn.file
	err := s.native(func() error {
		s.resetAll()
		f.committing = s.write
		return c.transact(&c.commit, "COMMIT")
	})
	f.committing = false
	if err != nil {
		if s.poisoned == nil && c.db.GetAutocommit() {
			c.stain("its commit failed: " + err.Error())
		}
		return err
	}
	return s.publishMigrations()
}

// publishMigrations puts the metadata again if its migrations have changed. REQUIRES: mu, conn
func (s *Session) publishMigrations() error {
	f := s.conn.file
	if s.pending == nil || f.meta.Migrations == s.pending.Migrations && f.meta.Fingerprint == s.pending.Fingerprint {
		return nil
	}
	m := f.meta
	m.Migrations, m.Fingerprint = s.pending.Migrations, s.pending.Fingerprint
	if !f.published {
		m.Sequence++
	}
	if err := f.putMetadata(m); err != nil {
		return err
	}
	return nil
}

// republish ends SQLite's transaction and publishes, calls f, which may run VACUUM, and begins a
// transaction again. If f fails after it has written something, the session is poisoned. REQUIRES:
// mu, conn
func (s *Session) republish(f func() error) error {
	c := s.conn
	defer func() { s.interrupt.off = s.interrupt.call == nil }()
	if err := s.commit(); err != nil {
		if s.poisoned == nil && c.db.GetAutocommit() {
			s.poison(err)
		}
		return err
	}
	err := s.native(func() error { return c.journal(false) })
	if err == nil {
		c.file.committing = true
		s.interrupt.off = s.interrupt.call == nil
		err = f()
		c.file.committing = false
		if err != nil && (len(c.file.order) > 0 || c.file.torn != nil) {
			s.poison(err) // without a journal it cannot be undone
		}
		s.interrupt.off = true
	}
	if s.poisoned != nil {
		if err == nil {
			err = s.poisoned
		}
		return err
	}
	again := s.native(func() error {
		if err := c.journal(true); err != nil {
			return err
		}
		return c.transact(&c.begin, "BEGIN")
	})
	if again != nil {
		s.poison(again)
	}
	return errors.Join(err, again)
}

// rollback ends SQLite's transaction. REQUIRES: mu, conn
func (s *Session) rollback() {
	c := s.conn
	if c.stained != "" && s.poisoned != nil {
		return // the connection is closed instead
	}
	s.interrupt.off = true
	err := s.native(func() error {
		s.resetAll()
		if c.db.GetAutocommit() {
			return nil
		}
		return c.transact(&c.rollback, "ROLLBACK")
	})
	if err != nil {
		c.stain("it could not be rolled back: " + err.Error())
	}
}

// release gives the connection back. REQUIRES: mu, conn
func (s *Session) release(discard bool) {
	c := s.conn
	if c.unguarded && c.stained == "" {
		if err := s.native(func() error { return c.enforce(true) }); err != nil {
			c.stain("its triggers cannot be switched on: " + err.Error())
		}
	}
	s.conn = nil
	c.file.finish()
	c.fs.rest()
	c.db.SetInterrupt(context.Background())
	if discard {
		c.stain("what it published was dropped")
		s.database.Discard()
	}
	if c.size() > s.database.pool.due() {
		c.stain("it has grown")
	}
	s.database.pool.put(s, c)
}

// An interrupt is the context that SQLite polls. It joins the contexts of a session and of a call.
type interrupt struct {
	session, call context.Context
	off           bool
	shut          atomic.Bool // only the end of the session may still run
}

// Deadline returns none: SQLite does not use it.
func (*interrupt) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done returns nil: only Err is used.
func (*interrupt) Done() <-chan struct{} { return nil }

// Value returns nil.
func (*interrupt) Value(any) any { return nil }

// Err returns the reason to stop the running call, or nil.
func (i *interrupt) Err() error {
	if i.off {
		return nil
	}
	if i.shut.Load() {
		return context.Canceled
	}
	if err := i.session.Err(); err != nil {
		return err
	}
	if i.call != nil {
		return i.call.Err()
	}
	return nil
}

// ended returns the reason why the session has ended, or nil. Unlike the other methods it may be
// called from any goroutine.
func (i *interrupt) ended() error {
	if i.shut.Load() {
		return context.Canceled
	}
	return causeOf(i.session)
}

// cause returns the same as Err, as an *Error.
func (i *interrupt) cause() error {
	if i.off {
		return nil
	}
	if err := interrupted(i.session); err != nil {
		return err
	}
	return interrupted(i.call)
}
