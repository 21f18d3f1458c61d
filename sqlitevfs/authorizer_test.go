package sqlitevfs

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestWhatSQLMayNotDo(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a file would appear here
	newRig(t, Options{}, "CREATE TABLE t (a); INSERT INTO t VALUES (1); CREATE VIRTUAL TABLE f USING fts5 (b)").turn(func(db handle) {
		for text, says := range map[string]string{
			"ATTACH 'stolen.db' AS x":             "not allowed here: ATTACH: a turn writes its own database only",
			"ATTACH 'file:stolen.db?vfs=os' AS x": "ATTACH",
			"ATTACH ':memory:' AS x":              "ATTACH",
			"ATTACH '' AS x":                      "ATTACH",
			"ATTACH 'a' || 'b' AS x":              "ATTACH",
			"DETACH main":                         "DETACH",
			"VACUUM INTO 'stolen.db'":             "VACUUM INTO",
			"VACUUM INTO 'file:stolen.db?vfs=os'": "VACUUM INTO",
			"/* x */ vacuum main INTO 'a' || 'b'": "VACUUM INTO",
			"SELECT load_extension('x')":          "load_extension()",
			"PRAGMA writable_schema = ON":         "PRAGMA writable_schema = ON: a wrong schema corrupts the database",
			"PRAGMA main.writable_schema(1)":      "PRAGMA writable_schema = 1",
			"pragma Temp_Store_Directory":         "PRAGMA temp_store_directory",
			"PRAGMA temp_store_directory = 'x'":   "names a directory of the host",
			"PRAGMA data_store_directory = 'x'":   "names a directory of the host",
			"PRAGMA max_page_count = 1000000":     "quota",
			"PRAGMA hard_heap_limit = 1":          "PRAGMA hard_heap_limit = 1",
			"PRAGMA schema_version = 9":           "corrupts",
			"PRAGMA page_size = 512":              "4,096",
			"PRAGMA checksum_verification = OFF":  "checksum_verification",
			"PRAGMA cache_size = -1000000":        "at most",
			"PRAGMA cache_size = 1000000":         "at most",
			"PRAGMA cache_size = -2147483648":     "at most",
			"PRAGMA cache_size = 99999999999999":  "at most",
			"PRAGMA cache_size = much":            "at most",
			"EXPLAIN PRAGMA writable_schema = ON": "writable_schema",
			"SELECT 1; ATTACH 'stolen.db' AS x":   "ATTACH",
		} {
			db.fails(ErrRefused, says, text)
		}
		for text, says := range map[string]string{
			"INSERT INTO sqlite_master VALUES (1, 2, 3, 4, 5)":  "may not be modified",
			"UPDATE sqlite_schema SET sql = ''":                 "may not be modified",
			"DROP TABLE sqlite_schema":                          "may not be dropped",
			"DELETE FROM f_data":                                "may not be modified", // a shadow table
			"CREATE VIRTUAL TABLE x USING csv (filename = 'y')": "no such module: csv",
			"SELECT readfile('/etc/passwd')":                    "no such function",
			"SELECT writefile('stolen', 'x')":                   "no such function",
			"SELECT fts3_tokenizer('x')":                        "no such function",
			"SELECT edit('x')":                                  "no such function",
			"SELECT * FROM sqlite_dbpage":                       "no such table",
			"SELECT * FROM fsdir('/')":                          "no such table",
		} {
			db.fails(nil, says, text)
		}
		db.want("SELECT a FROM t", "1")
	})
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	errorIf(t, err != nil || len(files) > 0, "files appeared: %v, %v", files, err)
}

func TestPragmasThatHaveNoEffectAnswerWhatIs(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a)")
	r.turn(func(db handle) {
		for _, s := range []struct{ text, want string }{
			{"PRAGMA journal_mode = WAL", "delete"}, {"PRAGMA journal_mode=off",
				"delete"}, {"PRAGMA main.journal_mode(DELETE)", "delete"}, {"PRAGMA journal_mode", "delete"},
			{"PRAGMA locking_mode = NORMAL", "exclusive"}, {"PRAGMA synchronous = OFF",
				""}, {"PRAGMA temp_store = FILE", ""}, {"PRAGMA mmap_size = 1000000", ""},
			{"PRAGMA busy_timeout = 5000", "0"}, {"PRAGMA wal_checkpoint",
				"0|-1|-1"}, {"PRAGMA wal_checkpoint(TRUNCATE)", "0|-1|-1"}, {"PRAGMA threads = 8", "0"},
			{"PRAGMA encoding = 'UTF-16'", ""}, {"PRAGMA encoding", "UTF-8"}, {"PRAGMA read_uncommitted = 1",
				""}, {"PRAGMA nonsense = 1", ""}, {"PRAGMA nonsense", ""},
			{"PRAGMA user_version = 7; PRAGMA user_version", "7"}, {"PRAGMA application_id = 9; PRAGMA application_id", "9"},
			{"PRAGMA integrity_check", "ok"}, {"PRAGMA quick_check(10)", "ok"}, {"PRAGMA foreign_key_check",
				""}, {"PRAGMA page_size", "4096"},
			{"SELECT name FROM pragma_table_info('t')", "a"}, {"PRAGMA table_info(t)",
				"0|a||0|NULL|0"}, {"SELECT journal_mode FROM pragma_journal_mode", "delete"},
			{"SELECT group_concat(name) FROM (SELECT name FROM pragma_collation_list WHERE name IN ('BINARY', 'NOCASE', 'RTRIM') ORDER BY name)", "BINARY,NOCASE,RTRIM"}, {"PRAGMA optimize", ""}, {"PRAGMA cache_size = -512; PRAGMA cache_size", "-512"},
			{"PRAGMA cache_size = -256; PRAGMA cache_size", "-256"}, {"PRAGMA cache_size = -512; PRAGMA cache_size", "-512"},
		} {
			db.want(s.text, s.want)
		}
	})
	r.view(func(db handle) {
		db.want("PRAGMA user_version", "7")
		db.want("PRAGMA locking_mode", "normal")
		db.fails(ErrReadOnly, "", "PRAGMA user_version = 8")
	})
}

func TestSettingsEndWithTheirSession(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a)")
	for _, s := range []struct{ set, get, want string }{
		{"PRAGMA cache_size = -64", "PRAGMA cache_size", "-2000"},
		{"PRAGMA recursive_triggers = ON", "PRAGMA recursive_triggers", "0"},
		{"PRAGMA reverse_unordered_selects = ON", "PRAGMA reverse_unordered_selects", "0"},
		{"PRAGMA ignore_check_constraints = ON", "PRAGMA ignore_check_constraints", "0"},
		{"PRAGMA case_sensitive_like = ON", "SELECT 'a' LIKE 'A'", "1"},
		{"PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys", "1"},
		{"CREATE TEMP TABLE x (a)", "SELECT count(*) FROM temp.sqlite_schema", "0"},
		{"CREATE TEMP VIEW x AS SELECT 1", "SELECT count(*) FROM temp.sqlite_schema", "0"},
		{"SELECT 1 AS x", "SELECT last_insert_rowid() >= 0", "1"},
	} {
		for _, session := range []func(func(handle)){r.turn, r.view} {
			session(func(db handle) { db.run(s.set) })
			session(func(db handle) { db.want(s.get, s.want) })
		}
	}
}

func TestPageHasThePragmasAndTheLimits(t *testing.T) {
	b, err := os.ReadFile("../docs/sql.md")
	must(t, err)
	has := func(text string) {
		t.Helper()
		errorIf(t, !strings.Contains(string(b), text), "docs/sql.md lacks\n%s", text)
	}
	x := newRig(t, Options{}).read()
	rules := pragmaRules()
	table := "| pragma | alone | with a value |\n|---|---|---|\n"
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		table += fmt.Sprintf("| `%s` | %s | %s |\n", name, rules[name].get, rules[name].set)
	}
	has(table)
	for name := range strings.SplitSeq(x.ask("PRAGMA pragma_list"), ",") {
		_, ok := rules[name]
		errorIf(t, !ok, "PRAGMA %s has no rule", name)
	}
	has("SQLite " + x.ask("SELECT sqlite_version()") + " ")
	for name, id := range map[string]sqlite3.LimitCategory{
		"columns of a table, index or result": sqlite3.LIMIT_COLUMN, "depth of an expression": sqlite3.LIMIT_EXPR_DEPTH,
		"terms of a compound SELECT": sqlite3.LIMIT_COMPOUND_SELECT, "arguments of a function": sqlite3.LIMIT_FUNCTION_ARG,
		"length of a LIKE or GLOB pattern": sqlite3.LIMIT_LIKE_PATTERN_LENGTH, "parameters of a statement": sqlite3.LIMIT_VARIABLE_NUMBER,
		"depth of triggers": sqlite3.LIMIT_TRIGGER_DEPTH, "length of a statement, in bytes": sqlite3.LIMIT_SQL_LENGTH,
		"depth of the parser, with 5 to 7 for a subselect in a FROM": sqlite3.LIMIT_PARSER_DEPTH,
	} {
		value := fmt.Sprint(x.conn.db.Limit(id, -1))
		for i := len(value) - 3; i > 0; i -= 3 {
			value = value[:i] + "," + value[i:]
		}
		has("| " + name + " | " + value + " |")
	}
}

// Ordinary statements cannot reach tables of the reserved names in any way, and the database works
// as a whole.
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

// A foreign key of the owner does not stop the runtime from changing its tables, nor does it run
// triggers of the owner with the runtime's rights.
func TestReservedTablesRunNoSQLOfTheOwner(t *testing.T) {
	for _, action := range []string{"", " ON DELETE CASCADE"} {
		r := newRig(t, Options{}, "CREATE TABLE stolen (b)")
		r.reserved(func(db handle) {
			db.run("CREATE VIRTUAL TABLE cairn_kv_1 USING fts5 (b); INSERT INTO cairn_kv_1 VALUES ('secret')")
			db.run("CREATE TABLE cairn_kv_1_map (key BLOB PRIMARY KEY) STRICT, WITHOUT ROWID; INSERT INTO cairn_kv_1_map VALUES (x'01')")
		})
		r.turn(func(db handle) {
			db.run("PRAGMA foreign_keys = off; CREATE TABLE c (k BLOB REFERENCES cairn_kv_1_map (key)" + action +
				"); INSERT INTO c VALUES (x'01')")
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

// A check of the whole database does not give other statements access to reserved tables.
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
