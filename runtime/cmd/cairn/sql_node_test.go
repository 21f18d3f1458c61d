package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

const noteSetup = `CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL, size REAL DEFAULT 1.5, raw BLOB);
CREATE INDEX note_body ON note (body, size);
CREATE VIEW short AS SELECT id FROM note;
CREATE TRIGGER grown AFTER UPDATE ON note BEGIN SELECT 1; END;
INSERT INTO note VALUES (1, 'renew', 2.25, x'00ff'), (9007199254740993, '東京 é', NULL, NULL), (7, 'NULL', -1, zeroblob(100));`

// askFile runs a query on a SQLite file and returns the first value.
func askFile(t *testing.T, name, query string) string {
	t.Helper()
	db, err := sqlite3.OpenFlags(name, sqlite3.OPEN_READONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stmt, _, err := db.Prepare(query)
	if err != nil {
		t.Fatal(err)
	}
	defer stmt.Close()
	if !stmt.Step() {
		t.Fatal(stmt.Err())
	}
	return stmt.ColumnText(0)
}

func TestADatabaseOfARealNodeGoesOutAndIn(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), t.TempDir()
	d := serve(t, dir)
	run := func(stdin string, args ...string) result {
		return runCommand(t, stdin, map[string]string{"CAIRN_URL": d.url}, append([]string{"sql"}, args...)...)
	}
	at(t, d.url, "create", "cell/acme")
	if r := run(noteSetup, "cell/acme", "--write", "--reason", "set up"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	// A transaction is all or nothing; its last statement fails.
	r := run("BEGIN;\nDELETE FROM note;\nINSERT INTO nosuch VALUES (1);\nCOMMIT;\n", "cell/acme", "--write", "--reason", "x")
	if r.status != 1 || !strings.Contains(r.stderr, "no such table: nosuch") {
		t.Errorf("%+v", r)
	}
	same(t, run(".tables\n.indexes\n.columns short\n.schema grown\nSELECT max(id) AS n FROM note;", "cell/acme", "--mode", "csv"), 0,
		"name,type\nnote,table\nshort,view\nname,table,columns\nnote_body,note,\"body, size\"\nname,type,not_null,default,key\nid,INTEGER,0,,0\n"+
			"CREATE TRIGGER grown AFTER UPDATE ON note BEGIN SELECT 1; END;\nn\n9007199254740993\n", "")

	online, offline := filepath.Join(files, "online.sqlite"), filepath.Join(files, "offline.sqlite")
	if r := run("", "export", "cell/acme", online); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if err := d.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := run("", "export", "cell/acme", offline, "--data", dir); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for _, name := range []string{online, offline} {
		if got := askFile(t, name, "PRAGMA integrity_check"); got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
		if got := askFile(t, name, "SELECT group_concat(id || body, ',' ORDER BY id) FROM note"); got != "1renew,7NULL,9007199254740993東京 é" {
			t.Errorf("%s: %s", name, got)
		}
	}

	d = serve(t, dir)
	if r := run("", "import", "cell/copy", offline, "--reason", "a copy"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	same(t, run("SELECT count(*) AS n FROM note", "cell/copy", "--mode", "csv"), 0, "n\n3\n", "")
	if err := os.WriteFile(online, []byte(strings.Repeat("not a database", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run("", "import", "cell/copy", online, "--reason", "a mistake", "--yes"); r.status != 1 || !strings.Contains(r.stderr, "invalid_argument") {
		t.Errorf("%+v", r)
	}
	same(t, run("SELECT count(*) AS n FROM note", "cell/copy", "--mode", "csv"), 0, "n\n3\n", "")
	same(t, run("", "migrate", "--type", "cell", "--dry-run"), 0, "2 actors: 0 to be migrated, 2 up to date, 0 failed\n", "")
	if r := run("", "export", "cell/none", offline, "--force"); r.status != 1 || !strings.Contains(r.stderr, "not_found") {
		t.Errorf("%+v", r)
	}
}
