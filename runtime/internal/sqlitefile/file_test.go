package sqlitefile

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
)

func open(t *testing.T) *File {
	t.Helper()
	f, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestAFileIsWrittenAndLoaded(t *testing.T) {
	ctx := context.Background()
	f := open(t)
	for i := range 5 {
		if err := f.Update(ctx, func(db *sql.DB) error {
			_, err := db.Exec("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY, b TEXT)")
			for j := 0; err == nil && j < 1000; j++ {
				_, err = db.Exec("INSERT INTO t VALUES (?1, ?2)", i*1000+j, strings.Repeat("x", 100))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := f.WriteFile(ctx, &b); err != nil {
		t.Fatal(err)
	}
	again := open(t)
	if err := again.Load(ctx, bytes.NewReader(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	err := again.View(ctx, func(db *sql.DB) error {
		var rows, length int
		if err := db.QueryRow("SELECT count(*), sum(length(b)) FROM t").Scan(&rows, &length); err != nil ||
			rows != 5000 || length != 500_000 {
			return fmt.Errorf("%d rows, %d bytes, %w", rows, length, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	if err := open(t).Load(context.Background(), strings.NewReader("no database")); err == nil ||
		!strings.Contains(err.Error(), "cannot be imported") {
		t.Error(err)
	}
}

func TestPagesAreRemoved(t *testing.T) {
	p := open(t).pages
	for i := range 10 {
		if err := p.Put(pageKey(i), make([]byte, 4096), -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.DeleteRange(pageKey(3), keyspace.Successor(pageKey(7)[:3])); err != nil || p.count != 3 {
		t.Error(p.count, err)
	}
	if _, ok, err := p.Get(nil, pageKey(3)); ok || err != nil {
		t.Error(ok, err)
	}
	if err := p.Put(pageKey(1), make([]byte, 10), -1); err == nil {
		t.Error("a page of 10 bytes was put")
	}
}
