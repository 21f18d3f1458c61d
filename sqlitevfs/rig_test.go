package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A rig is a database in a store of its own.
type rig struct {
	t     testing.TB
	store *mapStore
	pool  *Pool
	db    *Database
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	p := newTestPool(t, o)
	d := p.Database("test")
	d.EnableDecimal()
	return &rig{t: t, store: newMapStore(), pool: p, db: d}
}

// writer returns a writer on what is committed.
func (r *rig) writer() *mapWriter {
	w := r.store.writer()
	w.room = 1 << 40
	return w
}

// try runs f in a write session and commits it if f returns nil.
func (r *rig) try(ctx context.Context, f func(db *sql.DB) error) error {
	r.t.Helper()
	w := r.writer()
	s := r.db.Write(ctx, w)
	defer s.Rollback()
	err := f(s.DB())
	if err == nil {
		_, err = s.Commit()
	}
	if err == nil {
		r.store.commit(w)
	}
	return err
}

// turn is try for what must not fail.
func (r *rig) turn(f func(db *sql.DB)) {
	r.t.Helper()
	if err := r.try(context.Background(), func(db *sql.DB) error { f(db); return nil }); err != nil {
		r.t.Fatal(err)
	}
}

// exec runs statements in a turn of their own.
func (r *rig) exec(text string, args ...any) {
	r.t.Helper()
	if err := r.try(context.Background(), func(db *sql.DB) error { _, err := db.Exec(text, args...); return err }); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
}

// view runs f in a read session.
func (r *rig) view(f func(db *sql.DB)) {
	r.t.Helper()
	s := r.db.Read(context.Background(), r.store.snapshot())
	defer s.Rollback()
	f(s.DB())
}

// asker is a *sql.DB, *sql.Tx or *sql.Conn.
type asker interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// ask returns the rows of a query as text: columns joined by a bar, rows by a comma.
func ask(t testing.TB, db asker, text string, args ...any) string {
	t.Helper()
	got, err := answer(db, text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

func answer(db asker, text string, args ...any) (string, error) {
	rows, err := db.QueryContext(context.Background(), text, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return "", err
		}
		var row []string
		for _, v := range values {
			switch v := v.(type) {
			case nil:
				row = append(row, "NULL")
			case []byte:
				row = append(row, fmt.Sprintf("x'%x'", v))
			case time.Time:
				row = append(row, v.Format(time.RFC3339Nano))
			default:
				row = append(row, fmt.Sprint(v))
			}
		}
		out = append(out, strings.Join(row, "|"))
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	return strings.Join(out, ","), rows.Close()
}

// run executes statements that must not fail.
func run(t testing.TB, db asker, text string, args ...any) sql.Result {
	t.Helper()
	r, err := db.ExecContext(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// wantError fails unless err is target and contains text.
func wantError(t testing.TB, err, target error, text string) {
	t.Helper()
	if err == nil || target != nil && !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		t.Fatalf("the error is %v; want one that is %v and says %q", err, target, text)
	}
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}
