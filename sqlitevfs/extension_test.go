package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"testing"
)

// extensionScripts make and ask something of each extension.
func extensionScripts() map[string]struct{ setup, query, want string } {
	return map[string]struct{ setup, query, want string }{
		"fts5": {
			`CREATE VIRTUAL TABLE doc USING fts5 (title, body);
			 INSERT INTO doc VALUES ('one', 'the quick brown fox'), ('two', 'a lazy dog'), ('three', 'the fox and the dog')`,
			`SELECT title, highlight(doc, 1, '[', ']') FROM doc('fox') ORDER BY bm25(doc), title`,
			"one|the quick brown [fox],three|the [fox] and the dog",
		},
		"fts5vocab": {
			`CREATE VIRTUAL TABLE doc USING fts5 (body); INSERT INTO doc VALUES ('a b a'); CREATE VIRTUAL TABLE word USING fts5vocab (doc, row)`,
			`SELECT term, cnt FROM word ORDER BY term`, "a|2,b|1",
		},
		"fts5 by a trigger": {
			`CREATE TABLE note (id INTEGER PRIMARY KEY, body); CREATE VIRTUAL TABLE doc USING fts5 (body, content = 'note', content_rowid = 'id');
			 CREATE TRIGGER note_in AFTER INSERT ON note BEGIN INSERT INTO doc (rowid, body) VALUES (new.id, new.body); END;
			 INSERT INTO note (body) VALUES ('renew passport'), ('buy milk')`,
			`SELECT rowid, body FROM doc WHERE doc MATCH 'milk'`, "2|buy milk",
		},
		"rtree": {
			`CREATE VIRTUAL TABLE box USING rtree (id, x0, x1, y0, y1); INSERT INTO box VALUES (1, 0, 1, 0, 1), (2, 5, 6, 5, 6), (3, 0, 10, 0, 10)`,
			`SELECT id FROM box WHERE x0 <= 5.5 AND x1 >= 5.5 AND y0 <= 5.5 AND y1 >= 5.5 ORDER BY id`, "2,3",
		},
		"geopoly": {
			`CREATE VIRTUAL TABLE area USING geopoly (name); INSERT INTO area (_shape, name) VALUES ('[[0,0],[4,0],[4,4],[0,4],[0,0]]', 'square')`,
			`SELECT name, geopoly_area(_shape) FROM area WHERE geopoly_contains_point(_shape, 1, 1)`, "square|16",
		},
		"vec1": {
			`CREATE TABLE point (id INTEGER PRIMARY KEY, v); INSERT INTO point (v) VALUES (vec1_from_json('[0,0]')), (vec1_from_json('[3,4]')), (vec1_from_json('[1,0]'))`,
			`SELECT id, vec1_l2_distance(v, vec1_from_json('[3,4]')) AS d FROM point ORDER BY d LIMIT 1`, "2|0",
		},
		"json": {
			`CREATE TABLE j (v); INSERT INTO j VALUES ('{"a": [1, 2, {"b": "c"}]}'), (jsonb('{"a": []}'))`,
			`SELECT v ->> '$.a[2].b', json_array_length(v, '$.a') FROM j`, "c|3,NULL|0",
		},
		"functions": {
			`CREATE TABLE n (v); INSERT INTO n SELECT value FROM generate_series(1, 4)`,
			`SELECT sum(sqrt(v * v)), percent_rank() OVER (ORDER BY v), decimal_add('0.1', '0.2'), 'abc' REGEXP '^a.c$' FROM n GROUP BY 1 > 2`, "10|0|0.3|1",
		},
	}
}

func TestExtensionsWork(t *testing.T) {
	t.Parallel()
	for name, s := range extensionScripts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.turn(func(db *sql.DB) {
				run(t, db, s.setup)
				wantText(t, ask(t, db, s.query), s.want)
			})
			r.view(func(db *sql.DB) { wantText(t, ask(t, db, s.query), s.want) })
			r.db.Discard() // closes the connection that wrote
			r.turn(func(db *sql.DB) {
				wantText(t, ask(t, db, s.query), s.want)
				wantText(t, ask(t, db, "PRAGMA integrity_check"), "ok")
			})
			// Another process knows nothing of what was needed.
			fresh := &rig{t: t, store: r.store, pool: newTestPool(t, Options{})}
			fresh.db = fresh.pool.Database("again")
			fresh.db.EnableDecimal()
			fresh.view(func(db *sql.DB) { wantText(t, ask(t, db, s.query), s.want) })
			fresh.turn(func(db *sql.DB) {
				run(t, db, "VACUUM")
				wantText(t, ask(t, db, s.query), s.want)
			})
		})
	}
}

func TestExtensionTablesAreDroppedAndRolledBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE VIRTUAL TABLE doc USING fts5 (body); INSERT INTO doc VALUES ('kept')")
	err := r.try(context.Background(), func(db *sql.DB) error {
		run(t, db, "INSERT INTO doc VALUES ('lost')")
		wantText(t, ask(t, db, "SELECT count(*) FROM doc('lost')"), "1")
		return errors.New("no")
	})
	wantError(t, err, nil, "no")
	r.turn(func(db *sql.DB) {
		run(t, db, "BEGIN; INSERT INTO doc VALUES ('lost'); ROLLBACK")
		wantText(t, ask(t, db, "SELECT body FROM doc"), "kept")
		wantText(t, ask(t, db, "SELECT count(*) FROM doc('lost')"), "0")
	})
	fresh := &rig{t: t, store: r.store, pool: newTestPool(t, Options{})}
	fresh.db = fresh.pool.Database("again")
	fresh.exec("DROP TABLE doc")
	fresh.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT count(*) FROM sqlite_schema"), "0") })
}

func TestExtensionsAreRegisteredWhenTheyAreNeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	has := func(db *sql.DB, module string) string {
		return ask(t, db, "SELECT count(*) FROM pragma_module_list WHERE name = ?", module)
	}
	r.turn(func(db *sql.DB) {
		wantText(t, has(db, "fts5"), "0")
		_, err := db.Exec("CREATE VIRTUAL TABLE x USING nonsense (a)")
		wantError(t, err, nil, "no such module: nonsense")
		wantText(t, has(db, "fts5"), "0")
		run(t, db, "CREATE VIRTUAL TABLE x USING fts5 (a)")
		wantText(t, has(db, "fts5"), "1")
		wantText(t, has(db, "rtree"), "0")
	})
	r.db.Discard()
	r.turn(func(db *sql.DB) { wantText(t, has(db, "fts5"), "1") })
}

func TestExtensionIsFoundForSchemasThatCannotBeReadWithoutIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE VIRTUAL TABLE doc USING fts5 (body); CREATE VIEW v AS SELECT body FROM doc; CREATE TABLE p (s)")
		run(t, db, "CREATE INDEX i ON p (geopoly_area(s)); INSERT INTO p VALUES ('[[0,0],[1,0],[1,1],[0,0]]')")
	})
	for _, text := range []string{"ALTER TABLE p RENAME TO q", "SELECT * FROM v", "SELECT geopoly_area(s) FROM p", "INSERT INTO p VALUES (NULL)", "PRAGMA integrity_check", "VACUUM", "DROP TABLE doc"} {
		fresh := &rig{t: t, store: r.store, pool: newTestPool(t, Options{})}
		fresh.db = fresh.pool.Database("again")
		fresh.try(context.Background(), func(db *sql.DB) error {
			ask(t, db, text)
			return errors.New("undone")
		})
	}
}

func TestErrorsThatAStatementMakesUpAreNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec(`CREATE TABLE t (a); CREATE TABLE log (a);
		CREATE TRIGGER x AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); SELECT RAISE(FAIL, 'no such module: fts5'); END;
		CREATE TRIGGER y AFTER DELETE ON t BEGIN SELECT RAISE(ABORT, 'cannot VACUUM from within a transaction'); END`)
	r.turn(func(db *sql.DB) {
		_, err := db.Exec("INSERT INTO t VALUES (1)")
		wantError(t, err, ErrConstraint, "no such module: fts5")
		wantText(t, ask(t, db, "SELECT count(*) FROM log"), "1")
		_, err = db.Exec("DELETE FROM t")
		wantError(t, err, ErrConstraint, "cannot VACUUM")
		_, err = db.Exec("UPDATE t SET a = json_extract('{}', 'no such module: rtree')")
		wantError(t, err, nil, "no such module")
		wantText(t, ask(t, db, "SELECT count(*) FROM pragma_module_list WHERE name IN ('fts5', 'rtree')"), "0")
	})
}
