package kvfile

import (
	"bytes"
	"context"
	"database/sql"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/sqlitefile"
)

// database returns a database on which statements were executed.
func database(t *testing.T, statements string) *sqlitefile.File {
	t.Helper()
	f := must(sqlitefile.New())
	t.Cleanup(func() { f.Close() })
	if err := f.Update(t.Context(), func(db *sql.DB) error {
		_, err := db.Exec(statements)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

// items reads a database, which is written to a plain file and loaded before.
func items(t *testing.T, f *sqlitefile.File, source func(context.Context, *sql.DB) iter.Seq2[Item, error]) (all []Item, err error) {
	t.Helper()
	var b bytes.Buffer
	if err := f.WriteFile(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	loaded := must(sqlitefile.New())
	defer loaded.Close()
	if err := loaded.Load(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	viewErr := loaded.View(t.Context(), func(db *sql.DB) error {
		for item, e := range source(t.Context(), db) {
			if err = e; e == nil {
				all = append(all, item)
			}
		}
		return nil
	})
	if viewErr != nil {
		t.Fatal(viewErr)
	}
	return all, err
}

func TestDatabasesKeepKeysEncodingsBytesAndExpiry(t *testing.T) {
	f := database(t, Schema)
	want := every()
	if err := f.Update(t.Context(), func(db *sql.DB) error { return Insert(t.Context(), db, want) }); err != nil {
		t.Fatal(err)
	}
	got, err := items(t, f, Database)
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for i := range got { // the first part is the position
		if !same(&got[i].Entry, &want[i]) {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestFilesOfOtherStoresAreWrittenAsTheyAreRead(t *testing.T) {
	f := database(t, Schema)
	at := time.UnixMilli(4_000_000_000_000).UTC()
	codebolt := kv.Entry{Key: kv.Key{"cb", "I", "config", "theme"}, Value: kv.JSON([]byte(`"dark"`)), Updated: at}
	want := []kv.Entry{
		{Key: kv.Key{"plain", "k"}, Value: kv.Text("v"), Expires: at},
		{Key: kv.Key{"tenant-42", "config:x", "k"}, Value: kv.Text("v")},
	}
	others := []kv.Entry{
		{Key: kv.Key{"a:b", "k"}, Value: kv.Text("it would be read as a group of a namespace")},
		{Key: kv.Key{"a b", "c", "k"}, Value: kv.Text("no namespace")},
		{Key: kv.Key{"plain", "json"}, Value: kv.JSON([]byte("1"))},
		{Key: kv.Key{"plain", int64(1)}, Value: kv.Text("no string")},
		{Key: kv.Key{"cb", "I"}, Value: kv.JSON([]byte(`{"id":"I"}`))},
	}
	if err := f.Update(t.Context(), func(db *sql.DB) error {
		return Insert(t.Context(), db, append(append([]kv.Entry{codebolt}, want...), others...))
	}); err != nil {
		t.Fatal(err)
	}
	got, err := items(t, f, GoStore)
	if err != nil || len(got) != len(want) || !same(&got[0].Entry, &want[0]) || !same(&got[1].Entry, &want[1]) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = items(t, f, Codebolt)
	if err != nil || len(got) != 1 || !same(&got[0].Entry, &codebolt) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Databases as the two stores write them.
func TestOtherStoresAreRead(t *testing.T) {
	got, err := items(t, database(t, `CREATE TABLE kv (grp TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, expires_at INTEGER, PRIMARY KEY (grp, key));
		INSERT INTO kv VALUES ('user:42:config', 'theme', 'dark', NULL), ('tenant-42:config', 'k', '', 4000000000000), ('a.b:c', 'k', 'x', 1), ('', 'k', 'x', NULL)`), GoStore)
	want := []kv.Entry{
		{Key: kv.Key{"", "k"}, Value: kv.Text("x")},
		{Key: kv.Key{"a.b:c", "k"}, Value: kv.Text("x"), Expires: time.UnixMilli(1).UTC()},
		{Key: kv.Key{"tenant-42", "config", "k"}, Value: kv.Text(""), Expires: time.UnixMilli(4_000_000_000_000).UTC()},
		{Key: kv.Key{"user", "42:config", "theme"}, Value: kv.Text("dark")},
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range want {
		if !same(&got[i].Entry, &want[i]) {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
	got, err = items(t, database(t, `CREATE TABLE kv (grp TEXT, key TEXT, value TEXT); INSERT INTO kv VALUES ('g', 'k', 'v')`), GoStore)
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Key, kv.Key{"g", "k"}) || !got[0].Expires.IsZero() {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = items(t, database(t, `CREATE TABLE kv_store (instance_id TEXT, namespace TEXT, key TEXT, value TEXT, updated_at INTEGER, PRIMARY KEY (instance_id, namespace, key));
		INSERT INTO kv_store VALUES ('I', 'config', 'a/b', '{"n":12345678901234567890}', 1700000000000)`), Codebolt)
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Key, kv.Key{"cb", "I", "config", "a/b"}) ||
		string(got[0].Value.Data) != `{"n":12345678901234567890}` {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFaultyRowsAreRefused(t *testing.T) {
	const codebolt = "CREATE TABLE kv_store (instance_id, namespace, key, value); INSERT INTO kv_store VALUES "
	const goStore = "CREATE TABLE kv (grp, key, value, expires_at); INSERT INTO kv VALUES "
	const own = "CREATE TABLE entry (key, encoding, value, expires_at); INSERT INTO entry VALUES "
	for _, c := range []struct {
		source     func(context.Context, *sql.DB) iter.Seq2[Item, error]
		statements string
		want       string
	}{
		{Codebolt, "CREATE TABLE other (a)", "no table kv_store"},
		{Codebolt, "CREATE TABLE kv_store (instance_id, namespace, value)", "key is missing"},
		{Codebolt, codebolt + "('i', 'n', 'a', '1'), ('i', 'n', 'k', 'dark')",
			"row 2 of kv_store, in the order of the keys: the value is not JSON"},
		{Codebolt, codebolt + "('i', 'n', 'k', NULL)", "the column value is neither"},
		{Codebolt, codebolt + "('i', 'n', 7, '1')", "the column key is not text"},
		{GoStore, goStore + "(x'00', 'k', 'v', NULL)", "the column grp is not text"},
		{GoStore, goStore + "('g', 'k', 7, NULL)", "the column value is neither"},
		{GoStore, goStore + "('g', 'k', x'ff', NULL)", "the value is not UTF-8"},
		{GoStore, goStore + "('g', 'k', 'v', 'soon')", "expires_at is not an integer"},
		{GoStore, "CREATE TABLE kv (grp, key)", "value is missing"},
		{Database, own + "(x'ff', 'text', 'v', NULL)", "the column key is not a key"},
		{Database, own + "(x'', 'text', 'v', NULL)", "the key is missing or empty"},
		{Database, own + "(x'026100', 'xml', 'v', NULL)", "is not an encoding"},
		{Database, own + "(x'026100', 'u64', x'01', NULL)", "not the 8 of a u64"},
	} {
		if got, err := items(t, database(t, c.statements), c.source); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v", c.statements, got, err)
		}
	}
}

func TestFilesOfInstances(t *testing.T) {
	got, err := CodeboltInstance([]byte(`{"id":"I","name":"n","description":"<d>","createdAt":"2026-01-01T00:00:00Z","recordCount":3,"namespaces":["a"],"n":1.10}`))
	want := []kv.Entry{
		{Key: kv.Key{"cb", "I"},
			Value: kv.JSON([]byte(`{"createdAt":"2026-01-01T00:00:00Z","description":"\u003cd\u003e","id":"I","n":1.10,"name":"n"}`))},
		{Key: kv.Key{"cb", true, "n", "I"}, Value: kv.JSON([]byte("null"))},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{"", "null", "[]", "{", `{"name":"n"}`, `{"id":7}`, `{"id":""}`, `{"id":"a","name":7}`,
		`{"id":"a","id":"b"}`} {
		if e, err := CodeboltInstance([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, e)
		}
	}
}

func FuzzCodeboltInstance(f *testing.F) {
	f.Add([]byte(`{"id":"I","name":"n","recordCount":3,"namespaces":["a"],"n":1.10}`))
	f.Add([]byte(`{"id":"a","id":"b"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := CodeboltInstance(text)
		if err != nil {
			return
		}
		for _, e := range entries {
			line, err := AppendLine(nil, &e)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if again, err := ParseLine(line); err != nil || !same(&e, &again) {
				t.Fatalf("%q is written %q, and read as %+v, %v", text, line, again, err)
			}
		}
	})
}
