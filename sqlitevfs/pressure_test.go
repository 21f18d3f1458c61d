package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

func TestConnectionsInUseCountAgainstTheMemory(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxMemory: 16 << 20, ConnMemory: 8 << 20})
	m := smallStore(t, p)
	idle := p.Database("idle")
	readStore(t, m, idle, "SELECT * FROM t")
	var in []*Session
	var refused error
	for i := range 10 {
		s := p.Database(fmt.Sprint(i)).Read(context.Background(), m.snapshot())
		in = append(in, s)
		if _, refused = s.DB().Exec("SELECT length(hex(zeroblob(1000000)))"); refused != nil {
			break
		}
	}
	if n := len(in); !errors.Is(refused, ErrBusy) || n < 3 || n > 6 {
		t.Fatalf("%d sessions, the last one with %v", n, refused)
	}
	if s := p.Stats(); s.Bytes < 8<<20 || s.Bytes > 24<<20+int64(len(in))*minGrant {
		t.Fatalf("%+v", s)
	}
	wantRows(t, in[0], "SELECT * FROM t", "one") // open sessions go on
	for _, s := range in {
		s.Rollback()
	}
	if s := p.Stats(); s.Bytes > 16<<20 || s.InUse != 0 || p.granted != 0 || p.idleBytes != s.Bytes {
		t.Fatalf("%+v, %d bytes granted, %d idle", s, p.granted, p.idleBytes)
	}
	alone := p.Database("alone").Read(context.Background(), m.snapshot())
	defer alone.Rollback()
	if _, err := alone.DB().Exec("SELECT length(hex(zeroblob(1000000)))"); err != nil {
		t.Fatalf("with all of the memory: %v", err)
	}
}

func TestStatementsThatRunAtOnceStayWithinTheMemory(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxMemory: 16 << 20, ConnMemory: 16 << 20})
	m := smallStore(t, p)
	const sessions = 12
	var refused error
	for i := range sessions {
		s := p.Database(fmt.Sprint(i)).Read(context.Background(), m.snapshot())
		defer s.Rollback()
		wantRows(t, s, "SELECT * FROM t", "one")
		// Each is small, and grows to all that it may have in one statement.
		if _, err := s.DB().Exec("SELECT length(hex(zeroblob(2000000)))"); err != nil {
			refused = err
		}
		if st := p.Stats(); st.Bytes > 32<<20+sessions*minGrant {
			t.Fatalf("%d sessions: %+v", i+1, st)
		}
	}
	if !errors.Is(refused, ErrBusy) || errors.Is(refused, ErrMemory) {
		t.Fatalf("the last refusal was %v", refused)
	}
}

func TestTemporaryFilesShareABudget(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{Temporary: 8 << 20, MaxTemporary: 12 << 20, ConnMemory: 8 << 20})
	m := newMapStore()
	const sort = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 300) " +
		"SELECT x FROM (SELECT x, randomblob(20000) AS b FROM c) ORDER BY b"
	open := func(name string) (*Session, error) {
		s := p.Database(name).Read(context.Background(), m.snapshot())
		rows, err := s.DB().Query(sort)
		if err != nil {
			s.Rollback()
			return s, err
		}
		rows.Next() // keeps what is sorted
		return s, nil
	}
	writeStore(t, m, p.Database("w"), "CREATE TABLE t (a)")
	a, err := open("a")
	if err != nil {
		t.Fatal(err)
	}
	used := p.temporary.used.Load()
	if used < 4<<20 || used > 8<<20 {
		t.Fatalf("a sort takes %d bytes", used)
	}
	b, err := open("b")
	if err == nil {
		_, err = open("c")
		b.Rollback()
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("more than all may have: %v", err)
	}
	a.Rollback()
	p.Close()
	if used := p.temporary.used.Load(); used != 0 {
		t.Fatalf("%d bytes are still taken", used)
	}
}

func TestWhatCanNeverFitIsNotWorthAnotherAttempt(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxTemporary: 1 << 20, CacheBytes: 16 * PageSize})
	m := newMapStore()
	writeStore(t, m, p.Database("w"), "CREATE TABLE t (v); INSERT INTO t SELECT randomblob(2000) FROM generate_series(1, 700)")
	want := func(what string, err error) {
		if _, full := errors.AsType[*LimitError](err); !full || errors.Is(err, ErrBusy) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := p.Database("r").Read(context.Background(), m.snapshot())
	_, err := s.DB().Exec("SELECT v FROM (SELECT v, random() AS r FROM t) ORDER BY r, v LIMIT 1 OFFSET 699")
	want("a sort", err)
	s.Rollback()
	w := p.Database("w").Write(context.Background(), m.writer())
	run(t, w.DB(), "UPDATE t SET v = randomblob(2000)")
	_, err = w.DB().Exec("UPDATE t SET v = randomblob(2000)")
	want("what a statement may have to undo", err)
	w.Rollback()
	var file bytes.Buffer
	if _, err := Export(t.Context(), &file, m.snapshot()); err != nil {
		t.Fatal(err)
	}
	_, err = p.Database("i").Import(t.Context(), m.writer(), &file, 1<<30)
	want("a file", err)
	_, err = p.Database("i").Import(t.Context(), m.writer(), bytes.NewReader(smallPages(t)), 1<<30)
	want("a file that is converted", err)
	if used := p.temporary.used.Load(); used != 0 {
		t.Errorf("%d bytes are still taken", used)
	}
}

// smallPages returns a file of some 700 KiB with pages of 1 KiB.
func smallPages(t *testing.T) []byte {
	name := filepath.Join(t.TempDir(), "small")
	db, err := sqlite3.Open(name)
	if err == nil {
		err = db.Exec("PRAGMA page_size=1024; CREATE TABLE t (v); INSERT INTO t VALUES (randomblob(700000))")
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLargeOverlayIsNotKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	s := r.db.Write(context.Background(), r.writer())
	run(t, s.DB(), "CREATE TABLE t (a); WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000) "+
		"INSERT INTO t SELECT zeroblob(4000) FROM c")
	f := s.conn.file
	if len(f.order) < 1000 {
		t.Fatalf("only %d pages were written early", len(f.order))
	}
	s.Rollback()
	if f.overlay != nil || f.order != nil {
		t.Fatalf("there is room for %d pages", cap(f.order))
	}
}

func TestReadersForgetTheSchemaOfWhatAnImportReplaced(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	open := func(texts ...string) *DB {
		db, err := Open(ctx, newMapStore(), nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		for _, text := range texts {
			if err := db.Update(ctx, func(d *sql.DB) error { _, err := d.Exec(text); return err }); err != nil {
				t.Fatal(err)
			}
		}
		return db
	}
	// Both have the same schema cookie.
	from := open("CREATE TABLE pad (x)", "CREATE TABLE b (name TEXT)", "INSERT INTO b VALUES ('B')")
	to := open("CREATE TABLE a (v)", "CREATE TABLE a2 (v)", "INSERT INTO a VALUES (1)")
	view := func(text string) (got string, err error) {
		err = to.View(ctx, func(d *sql.DB) error { got, err = answer(d, text); return err })
		return got, err
	}
	if got, err := view("SELECT v FROM a"); err != nil || got != "1" {
		t.Fatal(got, err)
	}
	var file bytes.Buffer
	if _, err := from.Export(ctx, &file); err != nil {
		t.Fatal(err)
	}
	if _, err := to.Import(ctx, &file, 1<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := view("SELECT name FROM b"); err != nil || got != "B" {
		t.Errorf("a new table: %q, %v", got, err)
	}
	if got, err := view("SELECT v FROM a2"); err == nil {
		t.Errorf("a table that is gone has %q", got)
	}
}

func TestReaderThatWasInUseWhenItsDatabaseWasDiscardedIsClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	s := r.db.Read(context.Background(), r.store.snapshot())
	wantText(t, ask(t, s.DB(), "SELECT count(*) FROM t"), "0")
	r.db.Discard()
	s.Rollback()
	if st := r.pool.Stats(); st.Open != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestVacuumIsNotKnownByItsTextAlone(t *testing.T) {
	t.Parallel()
	const text = "cannot VACUUM from within a transaction"
	r := newRig(t, Options{})
	r.exec(`CREATE TABLE t (a); CREATE TABLE log (a);
		CREATE TRIGGER tr BEFORE INSERT ON t WHEN new.a = 2 BEGIN INSERT INTO log VALUES (1); SELECT RAISE(FAIL, '` + text + `'); END`)
	r.turn(func(db *sql.DB) {
		_, err := db.Exec("INSERT INTO t SELECT 1 UNION ALL SELECT 2")
		wantError(t, err, nil, text)
		wantText(t, ask(t, db, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM log)"), "1|1") // run once
		_, err = answer(db, "SELECT json_extract('{}', ?)", text)
		wantError(t, err, nil, "bad JSON path")
	})
	r.view(func(db *sql.DB) {
		_, err := answer(db, "SELECT json_extract('{}', ?)", text)
		wantError(t, err, nil, "bad JSON path")
	})
}

func TestNumbersOfPragmasAreDecimal(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]int64{
		"01000": 1000 * PageSize, "0x10": 16 * PageSize, "-08": 8 << 10, "0b1": 1 << 62, "1_000": 1 << 62, "x": 1 << 62,
	} {
		if got := cacheBytes(arg); got != want {
			t.Errorf("cache_size = %s means %d bytes, want %d", arg, got, want)
		}
	}
	for arg, want := range map[string]string{"08": "on", "0": "off", "1": "on", "00": "off", "yes": "on"} {
		if got := onOff(arg); got != want {
			t.Errorf("%s is %s, want %s", arg, got, want)
		}
	}
}
