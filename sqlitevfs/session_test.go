package sqlitevfs

import (
	"context"
	"errors"
	"testing"
)

func TestCommittedRowsAreReadByLaterSessions(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)", "INSERT INTO note (text) VALUES ('a'), ('b')")
	writeStore(t, m, d, "INSERT INTO note (text) VALUES ('c')")
	if got := readStore(t, m, d, "SELECT group_concat(text, '') FROM note"); got != "abc" {
		t.Fatalf("read %q", got)
	}
	checkStore(t, m, d)
	meta, ok, err := ReadMetadata(m.snapshot())
	if err != nil || !ok || meta.Pages != 2 || meta.Sequence != 2 {
		t.Fatalf("metadata %+v, %v, %v", meta, ok, err)
	}
}

func TestPagesReachTheWriterAtCommitOnly(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "CREATE TABLE big (v BLOB); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) INSERT INTO big SELECT randomblob(3000) FROM n")
	if len(s.conn.file.overlay) == 0 {
		t.Fatal("the transaction was to be larger than the cache")
	}
	if w.puts != 0 {
		t.Fatalf("%d pages were put before the commit", w.puts)
	}
	changed, err := s.Commit()
	if err != nil || !changed || w.puts < 500 {
		t.Fatalf("Commit = %v, %v after %d puts", changed, err, w.puts)
	}
	m.commit(w)
	checkStore(t, m, d)
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
	writeStore(t, m, d, "CREATE TABLE big (v BLOB); INSERT INTO big VALUES (1)")
	for range 5 {
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 300) INSERT INTO big SELECT randomblob(3000) FROM n; CREATE INDEX x ON big (v)")
		if s.Rollback() {
			t.Fatal("Rollback says that pages were put")
		}
		if w.puts != 0 {
			t.Fatalf("%d pages were put", w.puts)
		}
		// The connection is kept, and goes on from the old length.
		writeStore(t, m, d, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20) INSERT INTO big SELECT randomblob(3000) FROM n")
		checkStore(t, m, d)
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM big"); got != "101" {
		t.Fatalf("count = %s", got)
	}
}

func TestSessionsAreOverAfterTheirEnd(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "CREATE TABLE t (v)")
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := execNative(s, "SELECT 1"); !errors.Is(err, ErrClosed) {
		t.Fatalf("a statement after the end: %v", err)
	}
	if _, err := s.Commit(); !errors.Is(err, ErrClosed) {
		t.Fatalf("a second Commit: %v", err)
	}
	if s.Rollback() {
		t.Fatal("Rollback after Commit did something")
	}
}
