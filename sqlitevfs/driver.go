package sqlitevfs

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/ncruces/go-sqlite3"
)

// open has the open transactions and rows of a session. Access needs the session's mutex.
type open struct {
	tx   []*transaction // savepoints, the innermost last
	rows *rows          // statements whose rows are being read, in a list
}

// newHandle returns the handle of a session. The end of the session closes it.
func newHandle(s *Session) *sql.DB { return sql.OpenDB(connector{s}) }

// A connector makes links. It is its own driver, which cannot open a database by name: only its
// session opens it.
type connector struct{ s *Session }

// Connect implements driver.Connector.
func (k connector) Connect(context.Context) (driver.Conn, error) { return &link{s: k.s}, nil }

// Driver implements driver.Connector.
func (k connector) Driver() driver.Driver { return k }

// Open implements driver.Driver.
func (k connector) Open(string) (driver.Conn, error) {
	return nil, errors.New("sqlite: a database of an actor is opened by its session, not by a name")
}

// A link is a connection of database/sql. All links of a session use its native connection and its
// transaction. Each call enters the session, so one link may be read while another writes, and a
// call after the session's end is harmless.
type link struct {
	s  *Session
	tx *transaction // begun by BeginTx on this link
}

var (
	_ driver.ConnPrepareContext = (*link)(nil)
	_ driver.ExecerContext      = (*link)(nil)
	_ driver.QueryerContext     = (*link)(nil)
	_ driver.ConnBeginTx        = (*link)(nil)
	_ driver.SessionResetter    = (*link)(nil)
	_ driver.Validator          = (*link)(nil)
	_ driver.NamedValueChecker  = (*link)(nil)
	_ driver.Pinger             = (*link)(nil)
)

// Close implements driver.Conn. The native connection is the session's.
func (l *link) Close() error { return nil }

// IsValid implements driver.Validator.
func (l *link) IsValid() bool { return true }

// ResetSession implements driver.SessionResetter: a link has no state of its own.
func (l *link) ResetSession(context.Context) error { return nil }

// CheckNamedValue implements driver.NamedValueChecker.
func (l *link) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv.Value) }

// Ping implements driver.Pinger. It opens the database if that was not done yet.
func (l *link) Ping(ctx context.Context) (err error) {
	_, err = l.s.enter(ctx)
	if err == nil {
		l.s.leave()
	}
	return err
}

// Prepare implements driver.Conn.
func (l *link) Prepare(text string) (driver.Stmt, error) {
	return l.PrepareContext(context.Background(), text)
}

// PrepareContext implements driver.ConnPrepareContext.
func (l *link) PrepareContext(ctx context.Context, text string) (_ driver.Stmt, err error) {
	c, err := l.s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.s.leave()
	defer l.s.guard(&err)
	st, tail, err := c.statement(text)
	if err != nil {
		return nil, l.s.wrap(ctx, err, text)
	}
	inputs := st.parameters
	if st.names != nil {
		inputs = -1 // an argument may be used for several parameters: they are counted when they are bound
	}
	c.cache.put(st)
	if tail != "" {
		return nil, errors.New("sqlite: several statements cannot be prepared as one: prepare each, or use Exec")
	}
	return &prepared{l: l, text: text, inputs: inputs}, nil
}

// ExecContext implements driver.ExecerContext.
func (l *link) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (_ driver.Result, err error) {
	defer l.s.observed(text, l.s.began(), &err)
	c, err := l.s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.s.leave()
	defer l.s.guard(&err)
	var r result
	for rest, used := text, 0; ; {
		st, tail, err := l.next(ctx, c, rest, args, &used)
		if err != nil {
			return nil, err
		}
		if tail == "" {
			err = leftOver(args, used)
		}
		if err == nil {
			err = l.run(ctx, c, st, &r)
		}
		if closed := c.cache.put(st); err == nil && closed != nil {
			err = l.s.wrap(ctx, closed, rest)
		}
		if err != nil {
			return nil, err
		}
		if tail == "" {
			return r, nil
		}
		rest = tail
	}
}

// QueryContext implements driver.QueryerContext. It runs all statements to their end except the
// last, whose rows it returns. It runs the last up to its first row, so a statement that changes
// something does so even if no row is read.
func (l *link) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (_ driver.Rows, err error) {
	defer l.s.observed(text, l.s.began(), &err)
	c, err := l.s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer l.s.leave()
	defer l.s.guard(&err)
	for rest, used := text, 0; ; {
		st, tail, err := l.next(ctx, c, rest, args, &used)
		if err != nil {
			return nil, err
		}
		if tail == "" {
			if err := leftOver(args, used); err != nil {
				c.cache.put(st)
				return nil, err
			}
			return l.query(ctx, c, st)
		}
		err = l.run(ctx, c, st, nil)
		if closed := c.cache.put(st); err == nil && closed != nil {
			err = l.s.wrap(ctx, closed, rest)
		}
		if err != nil {
			return nil, err
		}
		rest = tail
	}
}

// next returns the first statement of a text with its arguments set, and the rest of the text. The
// statement may be run on this link.
func (l *link) next(ctx context.Context, c *conn, text string, args []driver.NamedValue,
	used *int) (*statement, string, error) {
	if l.tx != nil && l.tx.over {
		return nil, "", errTransactionOver
	}
	st, tail, err := c.statement(text)
	if err != nil {
		return nil, "", l.s.wrap(ctx, err, text)
	}
	if l.tx != nil && l.tx.readOnly && !st.readOnly {
		err = &Error{Code: int(sqlite3.READONLY), Message: "attempt to write in a read-only transaction"}
	}
	var n int
	if err == nil {
		n, err = st.bindAll(args, *used)
		*used += n
	}
	if err != nil {
		c.cache.put(st)
		return nil, "", limited(wrap(err, text), c.bounds(), 0, longest(args))
	}
	if !st.readOnly {
		l.s.writes.Add(1)
	}
	return st, tail, nil
}

// run runs a statement to its end and stores its result in r, if r is not nil.
func (l *link) run(ctx context.Context, c *conn, st *statement, r *result) error {
	switch {
	case st.class != runOrdinary:
		return l.s.control(ctx, c, st)
	case st.readOnly || r == nil:
		return l.s.ran(ctx, c, st, c.run(st))
	}
	before := c.db.TotalChanges()
	if err := l.s.ran(ctx, c, st, c.run(st)); err != nil {
		return err
	}
	if c.db.TotalChanges() != before {
		r.changes = c.db.Changes()
	} else {
		r.changes = 0
	}
	r.id = c.db.LastInsertRowID()
	return nil
}

// ran handles the error of a statement. It runs VACUUM: SQLite refuses VACUUM inside a transaction
// before it does anything else, and only that error identifies the statement without parsing it.
func (s *Session) ran(ctx context.Context, c *conn, st *statement, err error) error {
	if isVacuum(err) {
		err = s.vacuum(c, st, err)
	}
	if err != nil {
		return s.wrap(ctx, err, st.text)
	}
	return nil
}

// guard turns the library's panic on lack of memory into an error. It is deferred.
func (s *Session) guard(err *error) {
	if p := recover(); p != nil {
		*err = s.recovered(p)
	}
}

// isVacuum reports whether an error looks like the refusal of a VACUUM inside a transaction.
func isVacuum(err error) bool {
	if err == nil || !errors.Is(err, sqlite3.ERROR) {
		return false
	}
	e, ok := wrap(err, "").(*Error)
	return ok && e.Message == "cannot VACUUM from within a transaction"
}

// vacuum runs a VACUUM between two transactions of the session. Another statement, which gave the
// same error by RAISE, keeps its error.
func (s *Session) vacuum(c *conn, st *statement, refused error) error {
	is, into, err := c.isVacuum(st.text)
	switch {
	case err != nil:
		return err
	case !is:
		return refused
	case !c.write:
		return &Error{Code: int(sqlite3.READONLY), Message: "attempt to write a readonly database"}
	case into:
		return refuse("VACUUM INTO", "it writes a file of the host; an export does that")
	case len(s.tx) > 0:
		return refused
	case s.rows != nil:
		return sqlFault("cannot VACUUM - SQL statements in progress: read or close the rows first")
	}
	return s.republish(func() error {
		c.auth.vacuuming = true
		defer func() { c.auth.vacuuming = false }()
		return c.wrap(c.run(st), st.text)
	})
}

// isVacuum reports whether a statement is a VACUUM, and whether it has an INTO: then its opcode has
// a register for the file's name, which is not 0.
func (c *conn) isVacuum(text string) (is, into bool, err error) {
	native, _, err := c.db.Prepare("EXPLAIN " + text)
	if err != nil {
		return false, false, err
	}
	defer finalize(native)
	for native.Step() {
		if native.ColumnText(1) == "Vacuum" {
			is, into = true, native.ColumnInt64(3) != 0
		}
	}
	return is, into, native.Err()
}

// A result is the driver.Result of a statement, or of the last of several.
type result struct{ id, changes int64 }

// LastInsertId implements driver.Result.
func (r result) LastInsertId() (int64, error) { return r.id, nil }

// RowsAffected implements driver.Result.
func (r result) RowsAffected() (int64, error) { return r.changes, nil }

// prepared is the driver.Stmt of database/sql: a text that compiled. The native connection keeps
// the compiled statement and provides it for each use, so a statement can run while its own rows
// are read.
type prepared struct {
	l      *link
	text   string
	inputs int
}

var (
	_ driver.StmtExecContext   = (*prepared)(nil)
	_ driver.StmtQueryContext  = (*prepared)(nil)
	_ driver.NamedValueChecker = (*prepared)(nil)
)

// Close implements driver.Stmt.
func (p *prepared) Close() error { return nil }

// NumInput implements driver.Stmt.
func (p *prepared) NumInput() int { return p.inputs }

// CheckNamedValue implements driver.NamedValueChecker.
func (p *prepared) CheckNamedValue(nv *driver.NamedValue) error { return checkValue(nv.Value) }

// ExecContext implements driver.StmtExecContext.
func (p *prepared) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return p.l.ExecContext(ctx, p.text, args)
}

// QueryContext implements driver.StmtQueryContext.
func (p *prepared) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return p.l.QueryContext(ctx, p.text, args)
}

// Exec implements driver.Stmt.
func (p *prepared) Exec(args []driver.Value) (driver.Result, error) {
	return p.ExecContext(context.Background(), unnamed(args))
}

// Query implements driver.Stmt.
func (p *prepared) Query(args []driver.Value) (driver.Rows, error) {
	return p.QueryContext(context.Background(), unnamed(args))
}

func unnamed(args []driver.Value) []driver.NamedValue {
	out := make([]driver.NamedValue, len(args))
	for i, v := range args {
		out[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return out
}
