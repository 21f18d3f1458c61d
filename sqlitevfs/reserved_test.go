package sqlitevfs

import (
	"context"
	"testing"
)

// Tables of the reserved names are out of reach for ordinary statements, whatever way they take, and the database works as a whole.
func TestReservedTables(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a, cairn_kv_1 TEXT); INSERT INTO t VALUES (1, 'x'); CREATE VIEW v AS SELECT a FROM t")
	r.reserved(func(db handle) {
		db.run("CREATE VIRTUAL TABLE cairn_kv_1 USING fts5 (b); INSERT INTO cairn_kv_1 VALUES ('secret'); CREATE TABLE cairn_kv_1_map (key)")
		db.want("SELECT b FROM cairn_kv_1 WHERE cairn_kv_1 MATCH 'secret'", "secret")
	})
	r.turn(func(db handle) {
		db.want("SELECT a FROM v", "1")
		db.run("CREATE VIEW w AS SELECT b FROM cairn_kv_1") // nothing is read yet
		db.run("DROP VIEW v; CREATE VIEW v AS SELECT b AS a FROM Cairn_KV_1")
		for _, text := range []string{
			"SELECT b FROM cairn_kv_1 WHERE cairn_kv_1 MATCH 'secret'", "SELECT * FROM CAIRN_kv_1", "SELECT count(*) FROM cairn_kv_1_content", "SELECT * FROM w", "SELECT a FROM v",
			"INSERT INTO cairn_kv_1 VALUES ('x')", "INSERT INTO cairn_kv_1(cairn_kv_1) VALUES ('rebuild')", "DELETE FROM cairn_kv_1", "UPDATE cairn_kv_1_map SET key = 1",
			"DROP TABLE cairn_kv_1", "DROP TABLE cairn_kv_1_map", "ALTER TABLE cairn_kv_1_map RENAME TO mine", "ALTER TABLE cairn_kv_1 RENAME TO mine",
			"CREATE INDEX i ON cairn_kv_1_map (key)", "CREATE TRIGGER g AFTER INSERT ON cairn_kv_1_map BEGIN DELETE FROM t; END",
			"CREATE TABLE cairn_kv_2 (a)", "CREATE TEMP TABLE cairn_kv_2 (a)", "CREATE VIEW cairn_kv_2 AS SELECT 1", "CREATE VIRTUAL TABLE cairn_kv_2 USING fts5 (a)",
			"CREATE INDEX Cairn_kv_2 ON t (a)", "CREATE TRIGGER cairn_kv_2 AFTER INSERT ON t BEGIN SELECT 1; END",
			"ALTER TABLE t RENAME TO cairn_kv_2_data", `ALTER TABLE t RENAME TO "CAIRN_KV_2"`, "ALTER TABLE t /* */ RENAME TO /* */ [cairn_kv_2]; SELECT 1",
			"CREATE TABLE copied AS SELECT * FROM cairn_kv_1", "SELECT b FROM main.cairn_kv_1, t",
		} {
			db.fails(ErrRefused, ReservedPrefix, text)
		}
		db.fails(nil, "may not be modified", "DELETE FROM cairn_kv_1_data") // a shadow table
		db.run("CREATE VIRTUAL TABLE terms USING fts5vocab('cairn_kv_1', 'row')")
		db.fails(nil, "", "SELECT * FROM terms")
		db.want("PRAGMA integrity_check", "ok")
		db.fails(ErrRefused, ReservedPrefix, "SELECT a FROM v")
		db.fails(ErrRefused, ReservedPrefix, "SELECT integrity_check FROM pragma_integrity_check")
		db.want("PRAGMA quick_check", "ok")
		db.want("SELECT a, cairn_kv_1 FROM t", "1|x")
		db.run("UPDATE t SET cairn_kv_1 = 'y'; ALTER TABLE t RENAME TO u; ANALYZE; REINDEX; VACUUM; DROP VIEW v; DROP VIEW w")
	})
	r.reserved(func(db handle) {
		db.want("SELECT b FROM cairn_kv_1 WHERE cairn_kv_1 MATCH 'secret'", "secret")
		db.want("SELECT count(*) FROM cairn_kv_1_map", "0")
	})
}

// A foreign key of the owner's neither keeps the runtime from changing its tables, nor runs triggers of the owner's with its rights.
func TestReservedTablesRunNoSQLOfTheOwner(t *testing.T) {
	for _, action := range []string{"", " ON DELETE CASCADE"} {
		r := newRig(t, Options{}, "CREATE TABLE stolen (b)")
		r.reserved(func(db handle) {
			db.run("CREATE VIRTUAL TABLE cairn_kv_1 USING fts5 (b); INSERT INTO cairn_kv_1 VALUES ('secret')")
			db.run("CREATE TABLE cairn_kv_1_map (key BLOB PRIMARY KEY) STRICT, WITHOUT ROWID; INSERT INTO cairn_kv_1_map VALUES (x'01')")
		})
		r.turn(func(db handle) {
			db.run("PRAGMA foreign_keys = off; CREATE TABLE c (k BLOB REFERENCES cairn_kv_1_map (key)" + action + "); INSERT INTO c VALUES (x'01')")
			db.run("CREATE TRIGGER g AFTER DELETE ON c BEGIN INSERT INTO stolen SELECT b FROM cairn_kv_1; UPDATE cairn_kv_1 SET b = 'forged'; END")
			db.run("CREATE VIEW v AS SELECT b FROM cairn_kv_1; CREATE TABLE p (a PRIMARY KEY); CREATE TABLE q (a REFERENCES p)")
		})
		r.reserved(func(db handle) {
			db.run("DELETE FROM cairn_kv_1_map WHERE key = x'01'")
			db.fails(ErrRefused, ReservedPrefix, "SELECT b FROM v")
			db.want("SELECT b FROM cairn_kv_1", "secret")
		})
		r.turn(func(db handle) {
			db.want("SELECT count(*) FROM stolen", "0")
			db.fails(ErrConstraint, "", "INSERT INTO q VALUES (1)") // both are on again
			db.fails(ErrRefused, ReservedPrefix, "DELETE FROM c")
		})
	}
}

// A check of the whole database reads reserved tables for itself only.
func TestCheckingOpensNoReservedTable(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
	r.reserved(func(db handle) {
		db.run("CREATE VIRTUAL TABLE cairn_kv_1 USING fts5 (b); INSERT INTO cairn_kv_1 VALUES ('secret')")
	})
	r.turn(func(db handle) {
		db.run("CREATE VIRTUAL TABLE terms USING fts5vocab('cairn_kv_1', 'row')")
		db.run("CREATE VIRTUAL TABLE leak USING fts5 (c0, content='cairn_kv_1_content', content_rowid='id')")
		for _, text := range []string{
			"SELECT c0 FROM leak", "SELECT term FROM pragma_integrity_check, terms", "SELECT c0 FROM pragma_quick_check CROSS JOIN leak",
		} {
			db.fails(nil, "", text)
		}
		db.want("PRAGMA integrity_check", "ok")
		db.fails(nil, "", "SELECT c0 FROM leak")
	})
}

// reserved is turn for statements that may use reserved tables.
func (r *rig) reserved(f func(db handle)) {
	r.t.Helper()
	w := r.store.writer()
	s := r.db.Write(context.Background(), w)
	defer s.Rollback()
	s.AllowReserved()
	f(handle{r.t, s.DB()})
	must(r.t, errOf(s.Commit()))
	r.store.commit(w)
}
