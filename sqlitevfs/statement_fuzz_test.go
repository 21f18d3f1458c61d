package sqlitevfs

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"
)

// Whatever the text: nothing panics, the session's transaction is never ended by it, no file appears, and after a rollback
// everything is as it was, the connection too.
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
	o := Options{ConnMemory: 8 << 20, MaxLength: 1 << 20, TurnBytes: 4 << 20, Temporary: 4 << 20}
	r := newRig(f, o)
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE INDEX i ON t (v); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
	const look = `SELECT group_concat(id || v || coalesce((SELECT group_concat(sql) FROM sqlite_schema), '')) FROM t`
	var before string
	r.view(func(db *sql.DB) { before = ask(f, db, look) })
	f.Fuzz(func(t *testing.T, text string) {
		r := &rig{t: t, store: r.store, pool: r.pool, db: r.db}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		for _, write := range []bool{true, false} {
			var s *Session
			if write {
				s = r.db.Write(ctx, r.writer())
			} else {
				s = r.db.Read(ctx, r.store.snapshot())
			}
			db := s.DB()
			rows, err := db.Query(text)
			if err == nil {
				for range 20 {
					if !rows.Next() {
						break
					}
				}
				rows.Close()
			}
			db.Exec(text)
			s.mu.Lock()
			if s.poisoned == nil && s.conn != nil && s.conn.db.GetAutocommit() {
				t.Errorf("%q ended the transaction of the session", text)
			}
			s.mu.Unlock()
			if s.Rollback() {
				r.db.Discard()
			}
		}
		r.turn(func(db *sql.DB) {
			wantText(t, ask(t, db, look), before)
			wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
			wantText(t, ask(t, db, "SELECT count(*) FROM temp.sqlite_schema"), "0")
			wantText(t, ask(t, db, "SELECT count(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp')"), "0")
			wantText(t, ask(t, db, "SELECT (SELECT foreign_keys FROM pragma_foreign_keys) || (SELECT cache_size FROM pragma_cache_size) || (SELECT journal_mode FROM pragma_journal_mode)"), "1-2000delete")
		})
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Fatalf("%q: files appeared: %v, %v", text, files, err)
		}
	})
}
