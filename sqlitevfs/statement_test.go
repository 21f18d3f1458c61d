package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

func TestBlankTextIsFoundAndZeroBytesAreRefused(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, " \t\r\n\f;": true, "-- x": true, "-- x\n;": true, "/* x": true, "/**/": true, "/* -- */ -- /*\n": true,
		"x": false, "-- x\ny": false, "/* x */ y": false, "-": false, "/": false, "/*/ */": true, "'": false,
	} {
		same(t, blank(text), want, text)
	}
	x := newRig(t, Options{}, "CREATE TABLE t (a)").write()
	for _, text := range []string{"\x00", "SELECT 1\x00; DROP TABLE t", "SELECT 1;\x00DROP TABLE t"} {
		x.fails(nil, "a zero byte", text)
	}
}

func TestStatementsAreKeptUpToTheLimit(t *testing.T) {
	x := newRig(t, Options{Statements: 4}).write()
	kept := func(want string) {
		t.Helper()
		var texts []string
		for st := x.conn.cache.newest; st != nil; st = st.older {
			texts = append(texts, strings.TrimPrefix(st.text, "SELECT "))
		}
		same(t, strings.Join(texts, ","), want)
		same(t, len(x.conn.cache.table), len(texts))
	}
	for i := range 10 {
		x.ask(fmt.Sprintf("SELECT %d", i))
	}
	kept("9,8,7,6")
	x.ask("SELECT 7")
	kept("7,9,8,6")

	// In use, a statement is not closed; a second use of it is compiled separately and not kept.
	rows, err := x.Query("SELECT 6")
	must(t, err)
	x.want("SELECT 6", "6")
	for i := range 10 {
		x.ask(fmt.Sprintf("SELECT 1%d", i))
	}
	kept("19,18,17,6")
	errorIf(t, !rows.Next(), "the row is gone")
	rows.Close()
	kept("6,19,18,17")

	// Not kept: pragmas, long texts, statements with others.
	x.ask("PRAGMA user_version")
	x.ask("SELECT 1 --" + strings.Repeat("x", maxCachedText))
	x.run("SELECT 1; SELECT 2")
	x.fails(nil, "", "SELECT nix()")
	kept(" SELECT 2,6,19,18")
	open := len(slices.Collect(x.conn.db.Stmts()))
	errorIf(t, open > 4+3, "%d statements are open", open) // BEGIN, and the session's other own statements
}

// For any text: nothing panics, the text never ends the session's transaction, no file appears, and
// after a rollback everything is as before, even the connection.
func FuzzStatements(f *testing.F) {
	for _, text := range []string{
		"INSERT INTO t VALUES (3, 'x'); SELECT * FROM t", "BEGIN; DELETE FROM t; ROLLBACK", "SAVEPOINT a; RELEASE a; COMMIT",
		"INSERT OR ROLLBACK INTO t VALUES (1, 'x')", "VACUUM; VACUUM INTO 'x'", "ATTACH 'x' AS y; CREATE TABLE y.z (a)",
		"PRAGMA journal_mode = WAL; PRAGMA writable_schema = 1", "CREATE TEMP TABLE x (a); PRAGMA temp.user_version = 3", "EXPLAIN COMMIT; EXPLAIN QUERY PLAN VACUUM",
		"CREATE VIRTUAL TABLE f USING fts5 (a); INSERT INTO f VALUES ('b')", "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
		"DROP TABLE t; CREATE TABLE t (x)", "SELECT hex(zeroblob(100000000))", "PRAGMA foreign_keys = OFF; PRAGMA foreign_keys", "/* */ -- \n;", "SELECT ?1, :a; 'x",
		"ALTER TABLE t RENAME TO cairn_migration", "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, ''); END; INSERT INTO t VALUES (9, 9)", "SELECT * FROM pragma_cache_size; SELECT * FROM pragma_optimize(-1)",
		"ANALYZE; REINDEX; PRAGMA incremental_vacuum; PRAGMA auto_vacuum = 1; VACUUM", "PRAGMA cache_size = 0; PRAGMA recursive_triggers(1)", "CREATE TABLE sqlite_x (a)", "\x00", "SELECT '\xff'",
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Chdir(dir)
	r := newRig(f, Options{ConnMemory: 8 << 20, MaxLength: 1 << 20, TurnBytes: 4 << 20, Temporary: 4 << 20},
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE INDEX i ON t (v); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
	const look = `SELECT group_concat(id || v || coalesce((SELECT group_concat(sql) FROM sqlite_schema), '')) FROM t`
	before := r.ask(look)
	f.Fuzz(func(t *testing.T, text string) {
		r := &rig{t: t, store: r.store, pool: r.pool, db: r.db}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		for _, s := range []*Session{r.db.Write(ctx, r.store.writer()), r.db.Read(ctx, r.store.snapshot())} {
			if rows, err := s.DB().Query(text); err == nil {
				for i := 0; i < 20 && rows.Next(); i++ {
				}
				rows.Close()
			}
			s.DB().Exec(text)
			s.mu.Lock()
			errorIf(t, s.poisoned == nil && s.conn != nil && s.conn.db.GetAutocommit(), "%q ended the transaction of the session", text)
			s.mu.Unlock()
			if s.Rollback() {
				r.db.Discard()
			}
		}
		r.turn(func(db handle) {
			db.sound(look, before, "SELECT count(*) FROM temp.sqlite_schema", "0",
				"SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')", "0",
				"SELECT foreign_keys, cache_size, journal_mode FROM pragma_foreign_keys, pragma_cache_size, pragma_journal_mode", "1|-2000|delete")
		})
		files, err := os.ReadDir(dir)
		fatalIf(t, err != nil || len(files) > 0, "%q: files appeared: %v, %v", text, files, err)
	})
}

func TestErrorsAreTheVariablesOfTheirCodes(t *testing.T) {
	for code, want := range map[error]string{
		sqlite3.FULL: " ErrFull", sqlite3.NOMEM: " ErrMemory", sqlite3.TOOBIG: " ErrTooBig", sqlite3.BUSY: " ErrBusy",
		sqlite3.BUSY_SNAPSHOT: " ErrBusy", sqlite3.INTERRUPT: " ErrInterrupted", sqlite3.READONLY: " ErrReadOnly",
		sqlite3.AUTH: " ErrRefused", sqlite3.CONSTRAINT: " ErrConstraint", sqlite3.CONSTRAINT_CHECK: " ErrConstraint",
		sqlite3.CONSTRAINT_UNIQUE: " ErrConstraint ErrUnique", sqlite3.CONSTRAINT_PRIMARYKEY: " ErrConstraint ErrUnique",
		sqlite3.CONSTRAINT_ROWID: " ErrConstraint ErrUnique", sqlite3.CONSTRAINT_FOREIGNKEY: " ErrConstraint ErrForeignKey",
		sqlite3.CORRUPT: " ErrCorrupt", sqlite3.NOTADB: " ErrCorrupt", sqlite3.IOERR_CORRUPTFS: " ErrCorrupt",
		sqlite3.IOERR_READ: "", sqlite3.ERROR: "",
	} {
		err := wrap(code, "SELECT 1")
		e, ok := errors.AsType[*Error](err)
		fatalIf(t, !ok || e.Message == "" || e.SQL != "SELECT 1", "%v became %#v", code, err)
		same(t, kindsOf(err), want, code)
	}
	errorIf(t, wrap(nil, "") != nil || wrap(io.EOF, "") != io.EOF, "what is not of the library was changed")
}

func TestErrorsHaveTheMessageOfSQLite(t *testing.T) {
	x := newRig(t, Options{}).write()
	x.run("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT UNIQUE CHECK (text <> ''), other REFERENCES note); INSERT INTO note VALUES (1, 'a', NULL)")
	long := "SELECT 'é" + strings.Repeat("é", 300) + "', nowhere"
	for _, c := range []struct{ sql, message, at string }{
		{"INSERT INTO note VALUES (1, 'b', NULL)", "UNIQUE constraint failed: note.id", "INSERT INTO note VALUES (1, 'b', NULL)"},
		{"INSERT INTO note VALUES (2, '', NULL)", "CHECK constraint failed: text <> ''", "INSERT INTO note VALUES (2, '', NULL)"},
		{"INSERT INTO note VALUES (3, 'c', 9)", "FOREIGN KEY constraint failed", "INSERT INTO note VALUES (3, 'c', 9)"},
		{"SELECT nowhere FROM note", "no such column: nowhere", "nowhere FROM note"},
		{"SELEC 1", `near "SELEC": syntax error`, "SELEC 1"},
		{long, "no such column: nowhere", "nowhere"},
	} {
		err := errOf(x.Exec(c.sql))
		e, ok := errors.AsType[*Error](err)
		errorIf(t, !ok || e.Message != c.message || e.SQL != c.at || err.Error() != c.message,
			"%.40s: %#v", c.sql, err)
	}
	e, ok := errors.AsType[*Error](wrap(sqlite3.ERROR, long))
	errorIf(t, !ok || len(e.SQL) > maxErrorSQL || len(e.SQL) < maxErrorSQL-3 || !utf8.ValidString(e.SQL),
		"%d bytes are quoted", len(e.SQL))
}
