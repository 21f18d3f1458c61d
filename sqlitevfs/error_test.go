package sqlitevfs

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

func TestErrorsAreTheVariablesOfTheirCodes(t *testing.T) {
	t.Parallel()
	all := []error{ErrFull, ErrMemory, ErrBusy, ErrInterrupted, ErrReadOnly, ErrClosed, ErrOpenTransaction, ErrRefused,
		ErrConstraint, ErrUnique, ErrForeignKey, ErrCorrupt}
	for _, c := range []struct {
		err  error
		want []error
	}{
		{sqlite3.FULL, []error{ErrFull}},
		{sqlite3.NOMEM, []error{ErrMemory}},
		{sqlite3.TOOBIG, []error{ErrTooBig}},
		{sqlite3.BUSY, []error{ErrBusy}},
		{sqlite3.BUSY_SNAPSHOT, []error{ErrBusy}},
		{sqlite3.INTERRUPT, []error{ErrInterrupted}},
		{sqlite3.READONLY, []error{ErrReadOnly}},
		{sqlite3.AUTH, []error{ErrRefused}},
		{sqlite3.CONSTRAINT, []error{ErrConstraint}},
		{sqlite3.CONSTRAINT_CHECK, []error{ErrConstraint}},
		{sqlite3.CONSTRAINT_UNIQUE, []error{ErrConstraint, ErrUnique}},
		{sqlite3.CONSTRAINT_PRIMARYKEY, []error{ErrConstraint, ErrUnique}},
		{sqlite3.CONSTRAINT_ROWID, []error{ErrConstraint, ErrUnique}},
		{sqlite3.CONSTRAINT_FOREIGNKEY, []error{ErrConstraint, ErrForeignKey}},
		{sqlite3.CORRUPT, []error{ErrCorrupt}},
		{sqlite3.NOTADB, []error{ErrCorrupt}},
		{sqlite3.IOERR_CORRUPTFS, []error{ErrCorrupt}},
		{sqlite3.IOERR_READ, nil},
		{sqlite3.ERROR, nil},
	} {
		err := wrap(c.err, "SELECT 1")
		var e *Error
		if !errors.As(err, &e) || e.Message == "" || e.SQL != "SELECT 1" {
			t.Fatalf("%v became %#v", c.err, err)
		}
		for _, target := range all {
			is := false
			for _, w := range c.want {
				is = is || w == target
			}
			if errors.Is(err, target) != is {
				t.Errorf("%v is %v: %v", c.err, target, !is)
			}
		}
	}
	if wrap(nil, "") != nil || wrap(io.EOF, "") != io.EOF {
		t.Error("what is not of the library was changed")
	}
}

func TestErrorsHaveTheMessageOfSQLite(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	defer s.Rollback()
	mustExec(t, s, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT UNIQUE CHECK (text <> ''), other REFERENCES note); INSERT INTO note VALUES (1, 'a', NULL)")
	long := "SELECT 'é" + strings.Repeat("é", 300) + "', nowhere"
	for _, c := range []struct{ sql, message, at string }{
		{"INSERT INTO note VALUES (1, 'b', NULL)", "UNIQUE constraint failed: note.id", "INSERT INTO note VALUES (1, 'b', NULL)"},
		{"INSERT INTO note VALUES (2, '', NULL)", "CHECK constraint failed: text <> ''", "INSERT INTO note VALUES (2, '', NULL)"},
		{"INSERT INTO note VALUES (3, 'c', 9)", "FOREIGN KEY constraint failed", "INSERT INTO note VALUES (3, 'c', 9)"},
		{"SELECT nowhere FROM note", "no such column: nowhere", "nowhere FROM note"},
		{"SELEC 1", `near "SELEC": syntax error`, "SELEC 1"},
		{long, "no such column: nowhere", "nowhere"},
	} {
		err := execNative(s, c.sql)
		var e *Error
		if !errors.As(err, &e) || e.Message != c.message || e.SQL != c.at || err.Error() != c.message {
			t.Errorf("%.40s: %#v", c.sql, err)
		}
	}
	err := wrap(sqlite3.ERROR, long)
	var e *Error
	if !errors.As(err, &e) || len(e.SQL) > maxErrorSQL || len(e.SQL) < maxErrorSQL-3 || !utf8.ValidString(e.SQL) {
		t.Errorf("%d bytes are quoted", len(e.SQL))
	}
}

func TestContextThatEndsStopsAStatement(t *testing.T) {
	t.Parallel()
	why := errors.New("the deadline of the turn")
	const forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n"
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")

	ctx, cancel := context.WithCancelCause(context.Background())
	s := d.Write(ctx, m.writer())
	defer s.Rollback()
	mustExec(t, s, "CREATE TABLE t (v)")
	go cancel(why)
	err := execNative(s, forever)
	if !errors.Is(err, ErrInterrupted) || !errors.Is(err, why) {
		t.Fatalf("the context of the session has ended: %v", err)
	}
	if err := execNative(s, "SELECT 1"); !errors.Is(err, ErrInterrupted) || !errors.Is(err, why) {
		t.Fatalf("after it has ended: %v", err)
	}
	// Whether the turn counts is for its owner to say.
	if changed, err := s.Commit(); err != nil || !changed {
		t.Fatalf("Commit = %v, %v", changed, err)
	}
}
