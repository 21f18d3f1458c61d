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
			"CREATE TABLE copied AS SELECT * FROM cairn_kv_1", "SELECT b FROM main.cairn_kv_1, t",
		} {
			db.fails(ErrRefused, ReservedPrefix, text)
		}
		db.fails(nil, "may not be modified", "DELETE FROM cairn_kv_1_data") // a shadow table
		db.run("CREATE VIRTUAL TABLE terms USING fts5vocab('cairn_kv_1', 'row')")
		db.fails(nil, "", "SELECT * FROM terms")
		db.want("PRAGMA integrity_check", "ok")
		db.fails(ErrRefused, ReservedPrefix, "SELECT a FROM v")
		db.want("SELECT integrity_check FROM pragma_integrity_check", "ok")
		db.want("PRAGMA quick_check", "ok")
		db.want("SELECT a, cairn_kv_1 FROM t", "1|x")
		db.run("UPDATE t SET cairn_kv_1 = 'y'; ALTER TABLE t RENAME TO u; ANALYZE; REINDEX; VACUUM; DROP VIEW v; DROP VIEW w")
	})
	r.reserved(func(db handle) {
		db.want("SELECT b FROM cairn_kv_1 WHERE cairn_kv_1 MATCH 'secret'", "secret")
		db.want("SELECT count(*) FROM cairn_kv_1_map", "0")
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
