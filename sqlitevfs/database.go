package sqlitevfs

import (
	"context"
	"fmt"
	"slices"
)

// A Database is one database in one keyspace, as long as its owner, an awake actor, is the only one
// to change it. Its methods may be called from any goroutine.
type Database struct {
	pool    *Pool
	name    string
	decimal bool

	// REQUIRES: pool.mu
	closed bool
	limits Limits   // complete
	epoch  uint64   // grows when what connections remember is void
	writer *Session // has run a statement and not ended
	idle   []*conn  // the one that was used last is at the end

	extensions extensions // that its statements needed so far. REQUIRES: pool.mu
}

// EnableDecimal allows the functions of exact decimals, decimal_add and so on, in the statements of
// the database. It is called before the first session.
func (d *Database) EnableDecimal() { d.decimal = true }

// Write begins the write session. It opens nothing: the first statement does. There is one at a
// time; the statements of a second fail with [ErrBusy]. ctx is asked for its Err while statements
// run, and never for Done; when it has ended they fail with an error that wraps [ErrInterrupted]
// and its cause. w is used only by the goroutine that runs a statement, or Commit.
func (d *Database) Write(ctx context.Context, w Writer) *Session {
	return d.session(ctx, w, w)
}

// Read begins a read session on what r shows.
func (d *Database) Read(ctx context.Context, r Reader) *Session {
	return d.session(ctx, r, nil)
}

func (d *Database) session(ctx context.Context, r Reader, w Writer) *Session {
	d.pool.mu.Lock()
	late := d.closed
	d.pool.mu.Unlock()
	s := &Session{database: d, r: r, w: w, write: w != nil, late: late}
	s.interrupt.session = ctx
	return s
}

// Discard says that something which a Commit of this database handed to a Writer, or that an Import
// put there, was dropped by the writer's owner, or that the keys were changed by others: what
// connections remember is forgotten, which otherwise is taken for what is there. There must be no
// write session.
func (d *Database) Discard() {
	p := d.pool
	p.mu.Lock()
	d.epoch++
	var gone []*conn
	for _, c := range slices.Clone(d.idle) {
		gone = append(gone, p.drop(c))
	}
	p.mu.Unlock()
	p.closeAll(gone)
}

// Close closes the connections of the database, those in use when their session ends. Sessions
// begun later fail with [ErrClosed]. Read sessions that were begun before may go on, and a write
// session that has run a statement.
func (d *Database) Close() {
	p := d.pool
	p.mu.Lock()
	d.closed = true
	var gone []*conn
	for _, c := range slices.Clone(d.idle) {
		gone = append(gone, p.drop(c))
	}
	p.mu.Unlock()
	p.closeAll(gone)
}

// writing reports whether a write session has run a statement and not ended.
func (d *Database) writing() bool {
	d.pool.mu.Lock()
	defer d.pool.mu.Unlock()
	return d.writer != nil
}

// claim makes s the write session of the database. REQUIRES: pool.mu
func (d *Database) claim(s *Session) error {
	switch {
	case s.late || s.write && d.closed:
		return fmt.Errorf("%w: the database was closed", ErrClosed)
	case !s.write:
		return nil
	case d.writer != nil && d.writer != s:
		return fmt.Errorf("%w: the database has another write session", ErrBusy)
	}
	d.writer = s
	return nil
}
