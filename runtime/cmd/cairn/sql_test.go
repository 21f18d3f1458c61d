package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

const noteSetup = `CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL, size REAL DEFAULT 1.5, raw BLOB);
CREATE INDEX note_body ON note (body, size);
CREATE VIEW short AS SELECT id FROM note;
CREATE TRIGGER grown AFTER UPDATE ON note BEGIN SELECT 1; END;
INSERT INTO note VALUES (1, 'renew', 2.25, x'00ff'), (9007199254740993, '東京 é', NULL, NULL), (7, 'NULL', -1, zeroblob(100));`

// sqlAt runs cairn sql on the actor cell/acme with standard input.
func sqlAt(t *testing.T, url, stdin string, args ...string) result {
	t.Helper()
	return runCommand(t, stdin, map[string]string{"CAIRN_URL": url}, append([]string{"sql", "cell/acme"}, args...)...)
}

func TestRowsArePrintedInEveryMode(t *testing.T) {
	n, _ := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	query := "SELECT id, body, size, raw, 'a' || char(10) || 'b' AS lines, NULL AS id FROM note ORDER BY id"
	for mode, want := range map[string]string{
		"table": "              id  body    size  raw                                                           lines  id\n" +
			"----------------  ------  ----  ------------------------------------------------------------  -----  ----\n" +
			"               1  renew   2.25  x'00ff'                                                       a\\nb   NULL\n" +
			"               7  'NULL'    -1  x'" + strings.Repeat("00", 24) + "…' (100 B)  a\\nb   NULL\n" +
			"9007199254740993  東京 é  NULL  NULL                                                          a\\nb   NULL\n",
		"csv": "id,body,size,raw,lines,id\n" +
			"1,renew,2.25,x'00ff',\"a\nb\",\n7,NULL,-1,x'" + strings.Repeat("00", 100) + "',\"a\nb\",\n9007199254740993,東京 é,,,\"a\nb\",\n",
		"json": `{"id":1,"body":"renew","size":2.25,"raw":{"base64":"AP8="},"lines":"a\nb","id:2":null}` + "\n" +
			`{"id":7,"body":"NULL","size":-1,"raw":{"base64":"` + strings.Repeat("A", 134) + `=="},"lines":"a\nb","id:2":null}` + "\n" +
			`{"id":9007199254740993,"body":"東京 é","size":null,"raw":null,"lines":"a\nb","id:2":null}` + "\n",
	} {
		r := sqlAt(t, url, "", "-c", query, "--mode", mode)
		same(t, r, 0, want, "")
	}
	same(t, sqlAt(t, url, "", "-c", "SELECT id, body FROM note WHERE id < 8", "--mode", "line"), 0,
		"  id = 1\nbody = renew\n\n  id = 7\nbody = NULL\n", "")
	same(t, sqlAt(t, url, "", "-c", "SELECT 1.0, '<&>' AS \"a<b\"", "--json"), 0, "{\"1.0\":1,\"a<b\":\"<&>\"}\n", "")
	same(t, sqlAt(t, url, "", "-c", "SELECT 1 AS a WHERE 0", "--json"), 0, "", "")
	same(t, sqlAt(t, url, "", "-c", "SELECT 1 AS a, 2 AS b WHERE 0"), 0, "a  b\n-  -\n", "")
}

func TestTheShellReadsUnlessItMayWrite(t *testing.T) {
	n, fake := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	same(t, sqlAt(t, url, "", "-c", "DELETE FROM note"), 1, "",
		"error: read_only: attempt to write a readonly database\n"+
			"  this shell only reads: to write, give --write and --reason TEXT\n  see docs/errors/read_only.md\n")
	for _, args := range [][]string{{"--write"}, {"--reason", "x"}, {"--write", "--reason", strings.Repeat("x", 1025)}, {"--mode", "box"},
		{"--json", "--mode", "csv"}, {"--limit", "0"}, {"--limit", "10001"}, {"--arg", "1"}, {"-c", "x", "--arg", "[1]"}, {"-c", "x", "--arg", `{"a":1}`}} {
		if r := sqlAt(t, url, "", args...); r.status != 2 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := sqlAt(t, url, "", "--write"); !strings.Contains(r.stderr, "--write needs --reason TEXT") {
		t.Errorf("%+v", r)
	}
	fake.inputs = nil
	same(t, sqlAt(t, url, "", "-c", "DELETE FROM note WHERE id = ?1 AND body = ?2", "--arg", "7", "--arg", "NULL", "--write", "--reason", "ticket 7"), 0,
		"", "done, 1 row changed\n")
	same(t, sqlAt(t, url, "", "-c", "INSERT INTO note (id, body) VALUES (8, 'x') ", "--write", "--reason", "r", "--json"), 0,
		"{\"changes\":1,\"last_insert_id\":8}\n", "")
	same(t, sqlAt(t, url, "", "-c", "SELECT count(*) AS n FROM note", "--write", "--reason", "r"), 0, "n\n-\n3\n", "")
	want := []string{"exec (ticket 7): DELETE FROM note WHERE id = ?1 AND body = ?2", "exec (r): INSERT INTO note (id, body) VALUES (8, 'x')",
		"query: SELECT count(*) AS n FROM note"}
	if !slices.Equal(fake.inputs, want) {
		t.Errorf("%q", fake.inputs)
	}
	for _, r := range n.calls {
		if !r.Existing {
			t.Errorf("%s could create the actor", r.Method)
		}
	}
	r := runCommand(t, "", map[string]string{"CAIRN_URL": url}, "sql", "cell/none", "-c", "SELECT 1")
	if r.status != 1 || !strings.Contains(r.stderr, "not_found") {
		t.Errorf("%+v", r)
	}
}

func TestArgumentsKeepTheirTypes(t *testing.T) {
	n, _ := newSQLFake(t, "")
	url := n.serve(t, "")
	same(t, sqlAt(t, url, "", "--json", "-c", "SELECT typeof(?1) a, typeof(?2) b, typeof(?3) c, typeof(?4) d, ?5 AS e, hex(?6) AS f, ?7 AS g",
		"--arg", "7", "--arg", "x y", "--arg", "null", "--arg", "1.5", "--arg", "9007199254740993", "--arg", `{"base64":"AP8="}`, "--arg", `"7"`), 0,
		`{"a":"integer","b":"text","c":"null","d":"real","e":9007199254740993,"f":"00FF","g":"7"}`+"\n", "")
}

func TestStatementsOfStandardInputRunUntilOneFails(t *testing.T) {
	n, fake := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	same(t, sqlAt(t, url, "SELECT 'a\n  b' AS x;\n.mode csv\n.headers off\nSELECT 1;SELECT 2\n", "--mode", "json"), 0, "{\"x\":\"a\\n  b\"}\n1\n2\n", "")
	same(t, sqlAt(t, url, "SELECT 1 AS a;\n\nSELECT nosuch;\nSELECT 2;\n", "--mode", "csv"), 1, "a\n1\n",
		"error: invalid_argument: sqlite3: SQL logic error: no such column: nosuch\n  at line 3 of standard input\n  see docs/errors/invalid_argument.md\n")
	same(t, sqlAt(t, url, ".quit\nSELECT 1;\n"), 0, "", "")
	fake.inputs = nil
	same(t, sqlAt(t, url, "BEGIN IMMEDIATE;\nUPDATE note SET body = 'a';\nSAVEPOINT s;\nROLLBACK TO s;\nSELECT 2 AS b;\nCOMMIT;\n"+
		"BEGIN;\nDELETE FROM note;\nROLLBACK;\nBEGIN; END;SELECT 3 AS c;\n", "--write", "--reason", "r"), 0, "b\n-\n2\nc\n-\n3\n", "")
	if want := []string{"exec (r): UPDATE note SET body = 'a';\nSAVEPOINT s;\nROLLBACK TO s;\nSELECT 2 AS b", "query: SELECT 3 AS c"}; !slices.Equal(fake.inputs, want) {
		t.Errorf("%q", fake.inputs)
	}
	r := sqlAt(t, url, "BEGIN;\nDELETE FROM note;\n", "--write", "--reason", "r")
	if r.status != 1 || !strings.Contains(r.stderr, "no COMMIT: nothing of it was done") {
		t.Errorf("%+v", r)
	}
	fake.inputs = nil
	sqlAt(t, url, "", "--write", "--reason", "r", "-c", "BEGIN; DELETE FROM note; DELETE FROM note; COMMIT;", "-c", "SELECT 1; SELECT 2")
	if want := []string{"exec (r): DELETE FROM note;\nDELETE FROM note", "query: SELECT 1;\nSELECT 2"}; !slices.Equal(fake.inputs, want) {
		t.Errorf("%q", fake.inputs)
	}
}

func TestMoreRowsThanTheLimitAreSaidToBeThere(t *testing.T) {
	n, _ := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	same(t, sqlAt(t, url, "", "-c", "SELECT 1 AS a FROM note", "--limit", "2", "--mode", "csv"), 0, "a\n1\n1\n",
		"there are more rows than the 2 shown: --limit takes up to 10,000, or give the statement a LIMIT\n")
}

func TestDotCommandsLookIntoTheDatabase(t *testing.T) {
	n, _ := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	dir := t.TempDir()
	script := filepath.Join(dir, "a file.sql")
	if err := os.WriteFile(script, []byte(".headers off\nSELECT 'from a file'"), 0o600); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop.sql")
	if err := os.WriteFile(loop, []byte(".read "+loop), 0o600); err != nil {
		t.Fatal(err)
	}
	n.database = []byte("a database")
	for line, want := range map[string]string{
		".tables":                               "name   type\n-----  -----\nnote   table\nshort  view\n",
		".tables n%":                            "name  type\n----  -----\nnote  table\n",
		".tables none":                          "no tables\n",
		".indexes":                              "name       table  columns\n---------  -----  ----------\nnote_body  note   body, size\n",
		".indexes short":                        "no indexes\n",
		".columns 'note'":                       "name  type     not_null  default  key\n----  -------  --------  -------  ---\nid    INTEGER         0  NULL       1\nbody  TEXT            1  NULL       0\nsize  REAL            0  1.5        0\nraw   BLOB            0  NULL       0\n",
		".columns none":                         "there is no table none\n",
		".schema short":                         "CREATE VIEW short AS SELECT id FROM note;\n",
		".schema NOTE":                          "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL, size REAL DEFAULT 1.5, raw BLOB);\nCREATE INDEX note_body ON note (body, size);\nCREATE TRIGGER grown AFTER UPDATE ON note BEGIN SELECT 1; END;\n",
		".status":                               "actor       cell/acme\ndatabase    yes\nsize        12.0 KiB\ncommits     1,700\nmigrations  2\npending     none\n",
		".read '" + script + "'":                "from a file\n",
		".export " + dir + "/x.sqlite":          "exported " + dir + "/x.sqlite: 10 B\n",
		".limit 1\nSELECT 1 UNION ALL SELECT 2": "1\n-\n1\nthere are more rows than the 1 shown: --limit takes up to 10,000, or give the statement a LIMIT\n",
		"  .headers off\nSELECT 1 AS a":         "1\n",
	} {
		r := sqlAt(t, url, line+"\n")
		if got := strings.ReplaceAll(r.stdout+r.stderr, " \n", "\n"); r.status != 0 || got != want {
			t.Errorf("%s: %d\n%swant\n%s", line, r.status, got, want)
		}
	}
	for line, want := range map[string]string{
		".tabels": "did you mean .tables?", ".xyzzyx": ".help lists them", ".mode": "usage: .mode table|csv|json|line", ".mode box": "the modes are",
		".timer maybe": "neither on nor off", ".limit many": "1 to 10,000", ".read 'x": "not closed", ".read /nowhere/at/all": "no such file",
		".read " + loop: "10 deep", ".export '" + script + "'": "exists", ".tables a b": "usage: .tables [PATTERN]", "BEGIN;\nBEGIN": "savepoints nest",
	} {
		if r := sqlAt(t, url, line+"\n"); r.status != 1 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", line, r)
		}
	}
	if r := sqlAt(t, url, ".help\n"); r.status != 0 || strings.Count(r.stdout, "\n") != 14 {
		t.Errorf("%+v", r)
	}
	if r := sqlAt(t, url, ".timer on\nSELECT 1;\n"); r.status != 0 || !strings.HasSuffix(r.stderr, "s\n") {
		t.Errorf("%+v", r)
	}
	r := sqlAt(t, url, ".columns note\n.schema short\n", "--json")
	if lines := documents[map[string]any](t, r.stdout); len(lines) != 5 || lines[4]["sql"] == nil {
		t.Errorf("%+v", r)
	}
}

func TestTheCommandsOfSQLAreNotTypes(t *testing.T) {
	n, _ := newSQLFake(t, noteSetup)
	url := n.serve(t, "")
	n.actors = append(n.actors, host.Status{Type: "cell", Key: nil})
	for _, args := range [][]string{{"sql"}, {"sql", "cell", "acme"}, {"sql", "export"}, {"sql", "export", "cell/acme"}, {"sql", "status"}} {
		if r := at(t, url, args...); r.status != 2 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	same(t, at(t, url, "sql", "shell", "cell", "-c", "SELECT 1 AS a", "--mode", "csv"), 0, "a\n1\n", "")
	same(t, at(t, url, "sql", "cell", "-c", "SELECT 1 AS a", "--mode", "csv"), 0, "a\n1\n", "")
	same(t, at(t, url, "sql", "shell", "export", "-c", "SELECT 1"), 1, "", "error: unknown_type: the node hosts no actor type \"export\"\n  see docs/errors/unknown_type.md\n")
	same(t, at(t, url, "sql", "status", "cell/acme", "--json"), 0, `{"exists":true,"bytes":12288,"sequence":1700,"migrations":2}`+"\n", "")
}

func TestADatabaseIsWrittenToAFileAsAWhole(t *testing.T) {
	n, _ := newSQLFake(t, "")
	url := n.serve(t, "")
	dir := t.TempDir()
	name := filepath.Join(dir, "acme.sqlite")
	export := func(args ...string) result {
		return at(t, url, append([]string{"sql", "export", "cell/acme"}, args...)...)
	}
	r := export(name)
	if r.status != 1 || !strings.Contains(r.stderr, "has no database") {
		t.Errorf("%+v", r)
	}
	n.database = []byte("first")
	same(t, export(name), 0, "exported cell/acme to "+name+": 5 B\n", "")
	n.database = []byte("second")
	same(t, export(name), 1, "", "error: "+name+" exists\n  to replace it, give --force\n")
	same(t, export(name, "--force", "--json"), 0, fmt.Sprintf("{\"file\":%q,\"bytes\":6}\n", name), "")
	same(t, export("-"), 0, "second", "")
	n.database = []byte("broken")
	if r := export(name, "--force"); r.status != 1 || !strings.Contains(r.stderr, "unavailable") {
		t.Errorf("%+v", r)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the directory has %v %v", left, err)
	}
	text, err := os.ReadFile(name)
	info, _ := os.Stat(name)
	if err != nil || string(text) != "second" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v", text, err, info.Mode())
	}
	if r := export(dir, "--force"); r.status != 1 || !strings.Contains(r.stderr, "is a directory") {
		t.Errorf("%+v", r)
	}
	if r := export(name, "--data", dir); r.status != 1 || !strings.Contains(r.stderr, "there is no node's data") {
		t.Errorf("%+v", r)
	}
}

func TestADatabaseIsReplacedWithConsentAndAReason(t *testing.T) {
	n, fake := newSQLFake(t, "")
	url := n.serve(t, "")
	name := filepath.Join(t.TempDir(), "in.sqlite")
	if err := os.WriteFile(name, []byte("file"), 0o600); err != nil {
		t.Fatal(err)
	}
	imported := func(stdin string, args ...string) result {
		return runCommand(t, stdin, map[string]string{"CAIRN_URL": url}, append([]string{"sql", "import"}, args...)...)
	}
	if r := imported("", "cell/acme", name); r.status != 2 || !strings.Contains(r.stderr, "--reason TEXT is needed") {
		t.Errorf("%+v", r)
	}
	if r := imported("", "cell/acme", name, "--reason", "r"); r.status != 2 || !strings.Contains(r.stderr, "a database of 12.0 KiB that would be replaced: confirm with --yes") {
		t.Errorf("%+v", r)
	}
	if n.imported != "" {
		t.Fatal("imported all the same")
	}
	same(t, imported("", "cell/acme", name, "--reason", "ticket 7", "--yes"), 0, "imported "+name+" into cell/acme: 4 B\n", "")
	if n.imported != "cell/acme: ticket 7" || string(n.database) != "file" {
		t.Errorf("%q %q", n.imported, n.database)
	}
	fake.status = host.SQLStatusOutput{}
	same(t, imported("from a pipe", "cell/acme/eu", "-", "--reason", "r", "--json"), 0, `{"exists":true,"bytes":11,"sequence":1,"migrations":0}`+"\n", "")
	same(t, imported("", "cell/new", name, "--reason", "r"), 0, "imported "+name+" into cell/new: 4 B\n", "")
	for _, beside := range []string{"-wal", "-journal"} {
		if err := os.WriteFile(name+beside, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := imported("", "cell/new", name, "--reason", "r"); r.status != 1 || !strings.Contains(r.stderr, "a part of the database is in "+name+beside) {
			t.Errorf("%+v", r)
		}
		os.Remove(name + beside)
	}
	if r := imported("", "cell/new", filepath.Dir(name), "--reason", "r"); r.status != 1 || !strings.Contains(r.stderr, "is a directory") {
		t.Errorf("%+v", r)
	}
	if r := imported("", "cell/acme", name+"x", "--reason", "r"); r.status != 1 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("%+v", r)
	}
}

func TestMigrationsOfManyActors(t *testing.T) {
	n, fake := newSQLFake(t, "")
	url := n.serve(t, "")
	var dry []bool
	fake.migrate = func(a host.Address, d bool) (host.SQLMigrateOutput, error) {
		dry = append(dry, d)
		switch formatAddress(a.Type, a.Key) {
		case "cell/acme":
			return host.SQLMigrateOutput{Applied: []string{"2_add", "3_index"}}, nil
		case "cell/acme/eu":
			return host.SQLMigrateOutput{Applied: []string{"2_add"}, Migration: "3_index", Error: "no such\ncolumn: x"}, nil
		case "cell/zoo":
			return host.SQLMigrateOutput{}, host.Errorf(host.ActorFailed, "it cannot be woken")
		}
		return host.SQLMigrateOutput{Applied: []string{}}, nil
	}
	r := at(t, url, "sql", "migrate", "--type", "cell", "--dry-run", "--concurrency", "1")
	same(t, r, 1, "cell/acme  would apply 2_add, 3_index\n"+
		"cell/acme/eu  would apply 2_add; 3_index fails: no such\\ncolumn: x\n"+
		"cell/zoo  actor_failed: it cannot be woken\n"+
		"5 actors: 1 to be migrated, 2 up to date, 2 failed\n", "error: 2 of 5 actors failed\n")
	if slices.Contains(dry, false) {
		t.Error("it was no dry run")
	}
	same(t, at(t, url, "sql", "migrate", "cell/acme"), 0, "cell/acme  applied 2_add, 3_index\n1 actor: 1 migrated, 0 up to date, 0 failed\n", "")
	if dry[len(dry)-1] {
		t.Error("it was a dry run")
	}
	if r := at(t, url, "sql", "migrate", "--type", "cell"); r.status != 2 || !strings.Contains(r.stderr, "--yes") {
		t.Errorf("%+v", r)
	}
	if r := at(t, url, "sql", "migrate"); r.status != 2 {
		t.Errorf("%+v", r)
	}
	r = at(t, url, "sql", "migrate", "--type", "cell", "--prefix", "acme", "--yes", "--json", "--concurrency", "1")
	same(t, r, 1, `{"type":"cell","key":["acme"],"applied":["2_add","3_index"]}`+"\n"+
		`{"type":"cell","key":["acme","eu"],"applied":["2_add"],"migration":"3_index","error":"no such\ncolumn: x"}`+"\n",
		`{"error":{"code":"local","message":"1 of 3 actors failed"}}`+"\n")
	same(t, at(t, url, "sql", "migrate", "--type", "room", "--state", "failed", "--yes"), 0, "", "no such actors\n")
}

func TestAnAnswerThatIsNoTableIsRefused(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{host.SQLQuery: json.RawMessage(`{"columns":[{"name":"a"}],"rows":[[1],[1,2]]}`)})
	if r := sqlAt(t, n.serve(t, ""), "", "-c", "SELECT 1"); r.status != 1 || !strings.Contains(r.stderr, "row 2 of the node's answer") {
		t.Errorf("%+v", r)
	}
}
