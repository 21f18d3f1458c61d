package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// Turn is the view of handlers on the SQLite database.
type Turn struct {
	K   *kernel.Turn
	sql *sqlTurn // nil until it is asked for; set under Turn.Mu
}

// asSQLite returns h itself, which is one of several parts of the handler's view.
func (h *Turn) asSQLite() *Turn { return h }

// sqliteOf returns the view of handlers on the database in a turn.
func sqliteOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asSQLite() *Turn }).asSQLite() }

// Query is what handlers of queries may read of the SQLite database.
type Query struct{ K *call.Query }

// A Database is the SQLite database of one core: of one actor, for as long as it is awake. It is a
// facet, made by the first turn or query that uses it. None of its connections outlives the core,
// so a connection's cache comes only from commits of that core or from earlier ones.
//
// Its methods may be called from any goroutine.
type Database struct {
	mu     sync.Mutex
	d      *sqlitevfs.Database // nil until it is asked for
	limits *limit.Set          // that d has
	closed bool
	// published is the version of the last turn whose pages were put into the write set; used by
	// the goroutine that runs the actor.
	published engine.Version
}

var _ kernel.Facet = (*Database)(nil)

// DatabaseOf returns the database that is attached to a core.
func DatabaseOf(l *attach.List) *Database {
	b := attach.Make(l, func() *Database { return new(Database) })
	if l.Ended.Load() {
		b.Close(nil) // else nobody does
	}
	return b
}

// database returns a database of an actor of a type, which has limits. name is for logs.
func (p *Part) database(t *kernel.Type, name string, l *limit.Set) *sqlitevfs.Database {
	d := p.Pool.Database(name)
	d.SetLimits(sqlLimits(l))
	if t.SQLDecimal {
		d.EnableDecimal()
	}
	return d
}

// Get returns the database of an actor; nil if the core is gone.
func (b *Database) Get(a *kernel.Actor) *sqlitevfs.Database {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made(a)
}

// made is get. REQUIRES: mu
func (b *Database) made(a *kernel.Actor) *sqlitevfs.Database {
	switch l := a.Limits.Load(); {
	case b.d == nil && !b.closed:
		b.d, b.limits = SQLiteIn(a.Kernel).database(a.Type, a.String(), l), l
	case b.d != nil && b.limits != l: // an operator has set others
		b.d.SetLimits(sqlLimits(l))
		b.limits = l
	}
	return b.d
}

// Read begins a read session; nil if the core is gone. A begun session continues to its end if the
// core goes after that.
func (b *Database) Read(ctx context.Context, a *kernel.Actor, r sqlitevfs.Reader) *sqlitevfs.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d := b.made(a); d != nil {
		return d.Read(ctx, r)
	}
	return nil
}

// Forget implements kernel.Facet: connections forget what they read from the write set, if pages of
// it were undone.
func (b *Database) Forget(_ *kernel.Core, version engine.Version) {
	if b.published <= version {
		return
	}
	b.published = version
	b.mu.Lock()
	d := b.d
	b.mu.Unlock()
	if d != nil {
		d.Discard()
	}
}

// Abandon implements kernel.Facet.
func (b *Database) Abandon(c *kernel.Core) { b.Close(c) }

// Close implements kernel.Facet. It closes idle connections now, and the others when their sessions
// end. It may be called again.
func (b *Database) Close(*kernel.Core) {
	b.mu.Lock()
	d := b.d
	b.d, b.closed = nil, true
	b.mu.Unlock()
	if d != nil {
		d.Close()
	}
}

// A sqlTurn is the write session of a turn. It is the session's context, and its writer over the
// core's write set.
//
//  1. While the handler runs, everything happens under Turn.Mu, like all else that it does with the
//     write set.
//  2. When the handler has returned, the session is shut: statements that goroutines of it still
//     run are interrupted, no other begins, and settle waits for their end. Only then the turn is
//     sealed, and only commit goes on.
//  3. When the turn is over, nothing more reaches the write set, even if a handle is still in use:
//     an abandoned handler gets errors and the write set of a core that is never committed.
type sqlTurn struct {
	context.Context // the turn
	t               *kernel.Turn
	b               *Database
	session         *sqlitevfs.Session
	phase           sqlPhase // guarded by Turn.Mu
}

// A sqlPhase says which code may use the session of a turn.
type sqlPhase int

const (
	sqlServes sqlPhase = iota // the handler, until the turn is closed
	sqlSeals                  // the commit
	sqlOver                   // nobody
)

// SQL implements host.Reader.
func (h *Turn) SQL() *sql.DB {
	s, err := h.write()
	if err != nil {
		return closedDB()
	}
	return s.session.DB()
}

// write returns the write session of the turn, which it begins if need be.
func (h *Turn) write() (*sqlTurn, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return nil, err
	}
	defer t.Leave()
	if h.sql == nil {
		b := DatabaseOf(&t.Core.Attached)
		d := b.Get(t.Actor)
		if d == nil {
			return nil, fault.Unavailable("the actor was restarted")
		}
		s := &sqlTurn{Context: t, t: t, b: b}
		s.session = d.Write(s, s)
		if of := t.From.Span.Span(); of.Sampled() {
			s.session.Observe(func(text string, began time.Time, err error) { span.Caused(t.Actor.Spans, of, "sql", text, began, err) })
		}
		h.sql, t.Session = s, s
		t.Enlist(s)
	}
	return h.sql, nil
}

// Err implements context.Context. The commit ignores the turn's end.
func (s *sqlTurn) Err() error {
	s.t.Lock()
	defer s.t.Leave()
	if s.phase == sqlOver || s.t.Closed {
		return context.Canceled
	}
	return s.t.ErrLocked()
}

// enter locks the turn for one access to its write set.
func (s *sqlTurn) enter() error {
	s.t.Lock()
	if s.phase == sqlOver || s.phase == sqlServes && s.t.Closed {
		s.t.Leave()
		return sqlitevfs.ErrClosed
	}
	return nil
}

// Get implements sqlitevfs.Reader.
func (s *sqlTurn) Get(dst, key []byte) ([]byte, bool, error) {
	if err := s.enter(); err != nil {
		return dst, false, err
	}
	defer s.t.Leave()
	return s.t.Core.Rows.AppendValue(dst, key)
}

// Scan implements sqlitevfs.Reader.
func (s *sqlTurn) Scan(start, end []byte, f func(key, value []byte) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.t.Leave()
	return s.t.Core.Rows.Scan(start, end, f)
}

// Put implements sqlitevfs.Writer.
func (s *sqlTurn) Put(key, value []byte, old int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.t.Leave()
	return sqlFull(s.t.Core.Rows.Put(key, value, engine.PutOptions{Known: true, Old: old}))
}

// DeleteRange implements sqlitevfs.Writer.
func (s *sqlTurn) DeleteRange(start, end []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.t.Leave()
	_, err := s.t.Core.Rows.DeleteRange(start, end)
	return sqlFull(err)
}

// Room implements sqlitevfs.Writer.
func (s *sqlTurn) Room() int64 {
	if s.enter() != nil {
		return 0
	}
	defer s.t.Leave()
	return s.t.Core.Rows.Room()
}

// Refusal implements sqlitevfs.Bounded.
func (s *sqlTurn) Refusal(n int64) error {
	if s.enter() != nil {
		return nil
	}
	defer s.t.Leave()
	return sqlFull(s.t.Core.Rows.Refusal(n))
}

// sqlFull marks, for package sqlitevfs, writes that a write set refuses for lack of room.
func sqlFull(err error) error {
	if errors.Is(err, &engine.QuotaError{}) || errors.Is(err, &engine.LimitError{}) {
		return fmt.Errorf("%w: %w", sqlitevfs.ErrFull, err)
	}
	return err
}

// enters begins a phase.
func (s *sqlTurn) enters(p sqlPhase) {
	s.t.Lock()
	defer s.t.Leave()
	s.phase = p
}

// Seal implements kernel.Participant: it puts the turn's SQL changes into the write set.
func (s *sqlTurn) Seal(t *kernel.Turn) error {
	s.enters(sqlSeals)
	changed, err := s.session.Commit()
	s.enters(sqlOver)
	if err != nil {
		return err
	}
	if changed {
		s.b.published = t.Core.Rows.Version()
		t.Change(engine.ChangeSQL, "", func() any { return map[string]any{"op": "write"} })
	}
	return nil
}

// Collected counts changes that are in no row before the seal. REQUIRES: Turn.Mu
func (s *sqlTurn) Collected() int { return int(s.session.Writes()) }

// Shut implements kernel.Session. It comes before the end of the context, at which package
// database/sql rolls open transactions back.
func (s *sqlTurn) Shut() { s.session.Shut() }

// Wait implements kernel.Session: it waits for the statements that goroutines of the handler left.
// The turn is closed, so they are interrupted, but a single step of SQLite's may take long: the
// watchdog must still see the turn.
func (s *sqlTurn) Wait() { s.session.Wait() }

// Drop implements kernel.Session: it ends the session, if it did not end, without changes. It waits
// for statements that goroutines of the handler run. The turn is closed.
func (s *sqlTurn) Drop() {
	s.enters(sqlOver)
	s.session.Rollback()
}

// Stuck implements kernel.Session.
func (s *sqlTurn) Stuck() (fault, what, where string) {
	return "a handler's goroutine does not return from SQL",
		"left an SQL statement that did not end", "sqlitevfs.(*link)"
}

// A sqlQuery is the read session of a query.
type sqlQuery struct {
	context.Context // the reader
	r               *call.Query
	session         *sqlitevfs.Session
	// if the view had no core, or one that was gone when the query first used SQL; nil else
	own  *sqlitevfs.Database
	over atomic.Bool
}

// SQL implements host.Reader.
func (h Query) SQL() *sql.DB {
	r := h.K
	r.Lock()
	defer r.Leave()
	if r.Closed {
		return closedDB()
	}
	q, ok := r.Session.(*sqlQuery)
	if !ok {
		q = newQuery(r)
		r.Session = q
	}
	return q.session.DB()
}

// newQuery begins the session of a query.
func newQuery(r *call.Query) *sqlQuery {
	q := &sqlQuery{Context: r, r: r}
	if r.View.Of != nil {
		q.session = DatabaseOf(r.View.Of).Read(q, r.Actor, q)
	}
	if q.session == nil {
		q.own = SQLiteIn(r.Actor.Kernel).database(r.Actor.Type, r.Actor.String(), r.Actor.Limits.Load())
		q.session = q.own.Read(q, q)
	}
	return q
}

// Err implements context.Context.
func (q *sqlQuery) Err() error {
	if q.over.Load() || q.r.Actor.Kernel.Killed.Load() {
		return context.Canceled
	}
	return q.r.Err()
}

// snapshot locks the query for one access to its view.
func (q *sqlQuery) snapshot() (*engine.Snapshot, error) {
	if err := q.r.Enter(); err != nil {
		return nil, sqlitevfs.ErrClosed
	}
	s, err := q.r.Snapshot()
	if err != nil {
		q.r.Leave()
	}
	return s, err
}

// Get implements sqlitevfs.Reader.
func (q *sqlQuery) Get(dst, key []byte) ([]byte, bool, error) {
	s, err := q.snapshot()
	if err != nil {
		return dst, false, err
	}
	defer q.r.Leave()
	return s.AppendValue(dst, key)
}

// Scan implements sqlitevfs.Reader.
func (q *sqlQuery) Scan(start, end []byte, f func(key, value []byte) bool) error {
	s, err := q.snapshot()
	if err != nil {
		return err
	}
	defer q.r.Leave()
	return s.Scan(start, end, f)
}

// End implements call.Session. It interrupts statements that goroutines of the query run,
// and waits for them.
func (q *sqlQuery) End() {
	q.over.Store(true)
	q.session.Rollback()
	if q.own != nil {
		q.own.Close()
	}
}

// closedDB returns the handle of a turn or query that is over.
func closedDB() *sql.DB {
	db := sql.OpenDB(noConnector{})
	db.Close()
	return db
}

// A noConnector connects to nothing.
type noConnector struct{}

// Connect implements driver.Connector.
func (noConnector) Connect(context.Context) (driver.Conn, error) { return nil, sqlitevfs.ErrClosed }

// Driver implements driver.Connector.
func (noConnector) Driver() driver.Driver { return nil }

// SnapshotReader is a sqlitevfs.Reader over a snapshot of its own.
type SnapshotReader struct{ *engine.Snapshot }

// Get implements sqlitevfs.Reader; Scan is the snapshot's own.
func (r SnapshotReader) Get(dst, key []byte) ([]byte, bool, error) { return r.AppendValue(dst, key) }

// writesReader is a sqlitevfs.Reader over a write set, for the goroutine that runs the actor,
// between turns.
type writesReader struct{ *engine.WriteSet }

// Get implements sqlitevfs.Reader; Scan is the write set's own.
func (r writesReader) Get(dst, key []byte) ([]byte, bool, error) { return r.AppendValue(dst, key) }
