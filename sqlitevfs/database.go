package sqlitevfs

import (
	"context"
	"fmt"
	"slices"
)

// A Database is one database in one keyspace, while only its owner, an awake actor, changes it. Its
// methods may be called from any goroutine.
type Database struct {
	pool    *Pool
	name    string
	decimal bool

	// REQUIRES: pool.mu
	closed bool
	limits Limits   // complete
	epoch  uint64   // grows when the caches of connections become invalid
	writer *Session // has run a statement and not ended
	idle   []*conn  // the last used one is at the end

	extensions extensions // that its statements have needed. REQUIRES: pool.mu
}

// EnableDecimal allows the functions of exact decimals, decimal_add and so on, in the statements of
// the database. It is called before the first session.
func (d *Database) EnableDecimal() { d.decimal = true }

// Write begins the write session. It opens nothing: the first statement does. There is one at a
// time; the statements of a second fail with [ErrBusy]. While statements run, they read ctx.Err,
// but not ctx.Done; when ctx has ended they fail with an error that wraps [ErrInterrupted] and its
// cause. w is used only by the goroutine that runs a statement, or Commit.
func (d *Database) Write(ctx context.Context, w Writer) *Session {
	return d.session(ctx, w, w)
}

// Read begins a read session on r.
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

// Discard drops the caches of connections. Call it if the writer's owner dropped the pages of a
// Commit or an Import, or if others changed the keys: the caches would then be wrong. There must be
// no write session.
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
// begun later fail with [ErrClosed]. Read sessions begun before may continue, and so may a write
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
