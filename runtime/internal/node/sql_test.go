package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
	"github.com/cairn-run/cairn/workflow"
)

// exec executes a statement that must succeed.
func exec(t host.Reader, stmt string, args ...any) error {
	_, err := t.SQL().ExecContext(t, stmt, args...)
	return err
}

// note is a deed that adds a row, insert one that needs the table of the migrations.
func note(body string) deed {
	return series(func(_ *puppet, t host.Turn) error {
		return exec(t, "CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
	}, insert(body))
}

func insert(body string) deed {
	return func(_ *puppet, h host.Turn) error { return exec(h, "INSERT INTO note (body) VALUES (?)", body) }
}

// bodies reads the notes.
func bodies(r host.Reader) ([]string, error) {
	rows, err := r.SQL().QueryContext(r, "SELECT body FROM note ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

var schema = []host.Migration{
	{Name: "1-note", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"},
	{Name: "2-tag", SQL: "CREATE TABLE tag (note REFERENCES note, name TEXT); CREATE INDEX tag_name ON tag (name)"},
	{Name: "3-done", SQL: "ALTER TABLE note ADD COLUMN done INT DEFAULT 0"},
}

// look runs a closure as a query.
func (g *stage) look(key string, f glance) error {
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON, Input: remember(f)})
	return err
}

// notes reads the notes of an actor by a query.
func (g *stage) notes(key string) (all []string) {
	g.t.Helper()
	g.ok(g.look(key, func(_ *puppetState, r host.Reader) (err error) {
		all, err = bodies(r)
		return err
	}))
	return all
}

func (g *stage) wantNotes(key string, want ...string) {
	g.t.Helper()
	got := g.notes(key)
	fatalIf(g.t, !slices.Equal(got, want), "notes of %s: %q, want %q", key, got, want)
}

// check runs SQLite's own check of an actor's database.
func (g *stage) check(key string) {
	g.t.Helper()
	var said string
	if err := g.look(key, func(_ *puppetState, r host.Reader) error {
		return r.SQL().QueryRowContext(r, "PRAGMA integrity_check").Scan(&said)
	}); err != nil || said != "ok" {
		g.t.Fatalf("integrity_check of %s: %q, %v", key, said, err)
	}
}

// sqlPool returns the node's connections.
func (g *stage) sqlPool() *sqlitevfs.Pool { return sqlite.SQLiteIn(g.Kernel).Pool }

var errOnPurpose = errors.New("on purpose")

// What sql.exec and sql.query answer is in testdata/sql, except that CBOR carries the same, and what is long.
func TestSQLMethodsBoundTheirAnswersAndSpeakCBOR(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	args := []any{int64(-5), []byte{1}, map[string]any{"base64": "Ag=="}, 2.5}
	out := inCBOR[host.SQLOutput](g, host.SQLQuery, host.SQLInput{SQL: "SELECT ?1, ?2, ?3, ?4", Args: args})
	same(t, fmt.Sprint(out.Rows), "[[-5 map[base64:AQ==] map[base64:Ag==] 2.5]]", "rows in CBOR")
	const series = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000) SELECT x FROM n"
	for _, c := range []struct {
		method    string
		in        host.SQLInput
		rows      int
		truncated bool
	}{
		{host.SQLExec, host.SQLInput{SQL: series, Reason: "test"}, 1000, true},
		{host.SQLQuery, host.SQLInput{SQL: series, Limit: 5000}, 5000, false},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT hex(zeroblob(1000000)) FROM (VALUES (1), (2), (3), (4), (5), (6))"}, 4, true},
	} {
		var out host.SQLOutput
		if g.mustVerb("a", c.method, c.in, &out); len(out.Rows) != c.rows || out.Truncated != c.truncated {
			t.Errorf("%s: %d rows, truncated %v", c.in.SQL, len(out.Rows), out.Truncated)
		}
	}
	wantCode(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT hex(zeroblob(5000000))"}, nil), host.TooLarge)
	wantLimit(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT '" + strings.Repeat("x", 1_000_001) + "'"}, nil), "SQL statement", "1000000")
}

func TestTurnsWithoutSQLAllocateNothingForIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.ok(g.look("a", func(*puppetState, host.Reader) error { return nil }))
	s := g.sqlPool().Stats()
	errorIf(t, s.Opened != 0 || attach.Get[*sqlite.Database](&g.Find(pAddr("a")).Core.Attached) != nil, "a database was made: %+v", s)
}

// wantLimit checks that an error is TooLarge and names the bound.
func wantLimit(t *testing.T, err error, what, limit string) {
	t.Helper()
	e := wantCode(t, err, host.TooLarge)
	errorIf(t, e.Metadata["what"] != what || e.Metadata["limit"] != limit || e.Metadata["actual"] == "",
		"%v %v, want what %q and limit %s", e, e.Metadata, what, limit)
}

func TestEveryErrorOfABoundNamesIt(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&engine.LimitError{What: "thing", Limit: 10, Actual: 11},
		&sqlitevfs.LimitError{Err: sqlitevfs.ErrFull, What: "thing", Limit: 10, Actual: 11},
		&sqlitevfs.Error{Err: &sqlitevfs.LimitError{Err: sqlitevfs.ErrMemory, What: "thing", Limit: 10, Actual: 11}},
		&workflow.TooLargeError{What: "thing", Limit: 10, Size: 11},
	} {
		e, id := fault.Public(fmt.Errorf("wrapped: %w", err), []fault.Translator{(*sqlite.Part)(nil), (*run.Part)(nil)})
		wantLimit(t, e, "thing", "10")
		errorIf(t, id != "" || e.Metadata["actual"] != "11", "%T: %v %v", err, id, e.Metadata)
	}
}
