package sqlitevfs

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"reflect"
	"strings"
	"time"
	"unsafe"
)

// rows are the driver.Rows of a statement. While they are open they are in the list of their
// session, which resets them when it ends.
type rows struct {
	s   *Session
	ctx context.Context
	c   *conn

	st         *statement // nil if it was put back
	prev, next *rows      // in the session's list
	state      rowState
	over       bool // the end was returned, or Close was called; not guarded by the session

	columns []string
	kinds   []kind

	drained bool // rest has all further rows
	rest    [][]driver.Value
	fault   error // after the rest
}

// A rowState is the position of the statement.
type rowState uint8

const (
	onRow    rowState = iota // a row that was returned
	onNewRow                 // a row that was not returned yet
	atEnd
)

var (
	_ driver.Rows                           = (*rows)(nil)
	_ driver.RowsColumnTypeDatabaseTypeName = (*rows)(nil)
	_ driver.RowsColumnTypeNullable         = (*rows)(nil)
	_ driver.RowsColumnTypeScanType         = (*rows)(nil)
)

// query runs a statement up to its first row.
func (l *link) query(ctx context.Context, c *conn, st *statement) (driver.Rows, error) {
	r := &rows{s: l.s, ctx: ctx, c: c, st: st}
	if st.class != runOrdinary {
		err := l.s.control(ctx, c, st)
		c.cache.put(st)
		r.st, r.over = nil, true
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	r.link()
	if err := r.first(); err != nil {
		return nil, err
	}
	return r, nil
}

// link adds the rows to the session's list.
func (r *rows) link() {
	r.next = r.s.rows
	if r.next != nil {
		r.next.prev = r
	}
	r.s.rows = r
}

// detach removes the rows from the list, and the statement from the rows.
func (r *rows) detach() *statement {
	st := r.st
	r.st = nil
	if r.next != nil {
		r.next.prev = r.prev
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		r.s.rows = r.next
	}
	r.prev, r.next = nil, nil
	return st
}

// finish puts the statement back. It returns the error of a statement that did not run to its end.
func (r *rows) finish() error { return r.c.cache.put(r.detach()) }

// resetAll resets the statements that are being read. It needs the session's mutex.
func (s *Session) resetAll() {
	for s.rows != nil {
		s.rows.finish() // the transaction ends, so the error of an unfinished statement does not matter
	}
}

// settle runs the statements that write to their end, and keeps their remaining rows: SQLite opens
// and closes no savepoint while such a statement runs.
func (s *Session) settle() {
	for r := s.rows; r != nil; {
		next := r.next
		if !r.st.readOnly {
			r.drain()
		}
		r = next
	}
}

func (r *rows) drain() {
	text := r.st.text
	var err error
	for {
		if r.state == onRow {
			err = r.step()
		}
		if r.state == atEnd {
			break
		}
		row := make([]driver.Value, len(r.columns))
		if err = r.fetch(row); err != nil {
			break
		}
		r.rest = append(r.rest, row)
	}
	if finished := r.finish(); err == nil {
		err = finished
	}
	r.drained, r.fault = true, r.s.wrap(r.ctx, r.c.explain(err), text)
}

// first goes to the first row. Before that SQLite may compile the statement again, and its columns
// may change.
func (r *rows) first() error {
	err := r.step()
	for err != nil && r.c.extend(err) {
		r.st.native.Reset()
		err = r.step()
	}
	if err != nil {
		st := r.detach()
		err = r.s.ran(r.ctx, r.c, st, r.c.explain(err))
		r.c.cache.put(st)
		if err != nil {
			return err
		}
		r.columns, r.over = []string{}, true // it was a VACUUM
		return nil
	}
	r.st.describe()
	r.columns, r.kinds = r.st.columns, r.st.kinds
	if r.kinds != nil && isRaw(r.ctx) {
		r.kinds = nil
	}
	if r.state == onRow {
		r.state = onNewRow
	} else if len(r.columns) == 0 {
		r.over = true
		if err := r.finish(); err != nil {
			return r.s.wrap(r.ctx, err, "")
		}
	}
	return nil
}

// step goes to the next row or to the end.
func (r *rows) step() error {
	r.state, r.st.dirty = onRow, true
	r.c.auth.checking = r.st.checks
	defer func() { r.c.auth.checking = false }()
	if !r.st.native.Step() {
		r.state = atEnd
		return r.st.native.Err()
	}
	return nil
}

// Columns implements driver.Rows.
func (r *rows) Columns() []string { return r.columns }

// Next implements driver.Rows. dest never refers to SQLite's memory.
func (r *rows) Next(dest []driver.Value) (err error) {
	if r.over {
		return io.EOF
	}
	_, err = r.s.enter(r.ctx)
	if err != nil {
		return err
	}
	defer r.s.leave()
	defer r.s.guard(&err)
	if r.st == nil {
		return r.nextOfRest(dest)
	}
	if r.state == onRow {
		if err := r.step(); err != nil {
			r.over = true
			st := r.detach()
			r.c.cache.put(st)
			return r.s.wrap(r.ctx, r.c.explain(err), st.text)
		}
	}
	if r.state == atEnd {
		return io.EOF
	}
	return r.s.wrap(r.ctx, r.fetch(dest), r.st.text)
}

// nextOfRest is Next after the statement was put back.
func (r *rows) nextOfRest(dest []driver.Value) error {
	switch {
	case len(r.rest) > 0:
		copy(dest, r.rest[0])
		r.rest = r.rest[1:]
		return nil
	case r.fault != nil:
		return r.fault
	case r.drained:
		return io.EOF
	}
	return ErrClosed
}

// fetch returns the statement's current row.
func (r *rows) fetch(dest []driver.Value) error {
	r.state = onRow
	clear(dest) // else the library would write into the bytes of the last row
	if err := r.st.native.Columns(unsafe.Slice((*any)(unsafe.SliceData(dest)), len(dest))...); err != nil {
		return err
	}
	for i, v := range dest {
		if r.kinds != nil && r.kinds[i] != asIs {
			dest[i] = r.kinds[i].convert(v)
		} else if b, ok := v.([]byte); ok && b == nil {
			dest[i] = []byte{} // empty is not NULL
		}
	}
	return nil
}

// Close implements driver.Rows. It returns the error of a statement that changes something and was
// not read to its end.
func (r *rows) Close() (err error) {
	if r.over {
		return nil
	}
	r.over = true
	_, err = r.s.enter(cleanup)
	if err != nil {
		return nil // the session has reset, or will reset, the statement
	}
	defer r.s.leave()
	defer r.s.guard(&err)
	if st := r.st; st != nil {
		if err := r.finish(); err != nil {
			return r.s.wrap(r.ctx, err, st.text)
		}
	}
	return nil
}

// ColumnTypeDatabaseTypeName implements driver.RowsColumnTypeDatabaseTypeName: the declared type in
// capitals, without a length.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	name, _, _ := strings.Cut(r.declared(i).name, "(")
	return strings.ToUpper(strings.TrimSpace(name))
}

// ColumnTypeNullable implements driver.RowsColumnTypeNullable.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	d := r.declared(i)
	return !d.notNull, d.ok
}

// ColumnTypeScanType implements driver.RowsColumnTypeScanType: the type to scan values of the
// declared type into.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	d := r.declared(i)
	name := r.ColumnTypeDatabaseTypeName(i)
	switch k := kindOf(name); {
	case k == asBool:
		return scanType[bool, sql.NullBool](d.notNull)
	case k == asTime:
		return scanType[time.Time, sql.NullTime](d.notNull)
	case strings.Contains(name, "INT"):
		return scanType[int64, sql.NullInt64](d.notNull)
	case strings.Contains(name, "CHAR"), strings.Contains(name, "CLOB"), strings.Contains(name, "TEXT"):
		return scanType[string, sql.NullString](d.notNull)
	case strings.Contains(name, "BLOB"):
		return reflect.TypeFor[[]byte]()
	case strings.Contains(name, "REAL"), strings.Contains(name, "FLOA"), strings.Contains(name, "DOUB"):
		return scanType[float64, sql.NullFloat64](d.notNull)
	}
	return reflect.TypeFor[any]()
}

func scanType[T, Null any](notNull bool) reflect.Type {
	if notNull {
		return reflect.TypeFor[T]()
	}
	return reflect.TypeFor[Null]()
}

// A declaration is the declaration in the schema of a result's column.
type declaration struct {
	name        string
	notNull, ok bool // ok: it is a column of a table
}

// declared reads a column's declaration, which is empty once the statement was put back.
func (r *rows) declared(i int) (d declaration) {
	if r.over {
		return d
	}
	c, err := r.s.enter(r.ctx)
	if err != nil {
		return d
	}
	defer r.s.leave()
	defer r.s.guard(&err)
	if r.st == nil || i >= len(r.columns) {
		return d
	}
	n := r.st.native
	d.name = n.ColumnDeclType(i)
	column := n.ColumnOriginName(i)
	if column == "" {
		return d
	}
	declared, _, notNull, primary, _, err := c.db.TableColumnMetadata(n.ColumnDatabaseName(i),
		n.ColumnTableName(i), column)
	if err != nil {
		return d
	}
	rowid := primary && strings.EqualFold(declared, "INTEGER")
	return declaration{name: declared, notNull: notNull || rowid, ok: true}
}
