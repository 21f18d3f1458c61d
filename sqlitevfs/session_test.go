package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"testing"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/cairn-run/cairn/keyspace"
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

func TestReadSessionsSeeTheirSnapshot(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v); INSERT INTO t VALUES ('first')")
	old := m.snapshot()
	keeper := d.Read(context.Background(), old)
	defer keeper.Rollback()
	wantRows(t, keeper, "SELECT v FROM t", "first")
	for _, v := range []string{"second", "third"} {
		writeStore(t, m, d, "UPDATE t SET v = '"+v+"'")
		// The connection is the same each time, and has the page of the version before in its cache.
		if got := readStore(t, m, d, "SELECT v FROM t"); got != v {
			t.Fatalf("read %q, want %q", got, v)
		}
		wantRows(t, keeper, "SELECT v FROM t", "first")
		if got, err := readFrom(old, d, "SELECT v FROM t"); err != nil || got != "first" {
			t.Fatalf("a new session on the old snapshot read %q, %v", got, err)
		}
	}
	writeStore(t, m, d, "CREATE TABLE another (w); INSERT INTO another VALUES (1)", "ALTER TABLE t ADD COLUMN x DEFAULT 7")
	if got := readStore(t, m, d, "SELECT v, x, w FROM t, another"); got != "third|7|1" {
		t.Fatalf("after a change of the schema: %q", got)
	}
	if s := d.pool.Stats(); s.Opened != 3 {
		t.Fatalf("%d connections were opened, want one to write, one that is kept, and one", s.Opened)
	}
}

func TestReadSessionsCannotWrite(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v)")
	for _, q := range []string{"INSERT INTO t VALUES (1)", "CREATE TABLE u (v)", "DROP TABLE t", "DELETE FROM t", "PRAGMA user_version = 3", "VACUUM"} {
		s := d.Read(context.Background(), m.snapshot())
		if err := execNative(s, q); !errors.Is(err, ErrReadOnly) && (q != "VACUUM" || err == nil) {
			t.Errorf("%s: %v", q, err)
		}
		if changed, err := s.Commit(); changed || err != nil && q != "VACUUM" {
			t.Errorf("%s: Commit = %v, %v", q, changed, err)
		}
	}
}

func TestADatabaseThatDoesNotExistIsEmpty(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	if got := readStore(t, m, d, "SELECT count(*) FROM sqlite_schema"); got != "0" {
		t.Fatal(got)
	}
	w := m.writer()
	s := d.Write(context.Background(), w)
	wantRows(t, s, "SELECT count(*) FROM sqlite_schema", "0")
	if changed, err := s.Commit(); changed || err != nil {
		t.Fatalf("Commit of nothing = %v, %v", changed, err)
	}
	if _, ok, err := ReadMetadata(w); ok || err != nil {
		t.Fatalf("reading made a database, %v", err)
	}
	writeStore(t, m, d, "CREATE TABLE t (v)")
	if got := readStore(t, m, d, "SELECT count(*) FROM sqlite_schema"); got != "1" {
		t.Fatal(got)
	}
}

func TestDiscardForgetsWhatWasDropped(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v); INSERT INTO t VALUES (1)")
	for range 3 {
		s := d.Write(context.Background(), m.writer()) // which is dropped
		mustExec(t, s, "UPDATE t SET v = 2; CREATE TABLE u (v); INSERT INTO u VALUES (zeroblob(50000))")
		if changed, err := s.Commit(); !changed || err != nil {
			t.Fatal(changed, err)
		}
		d.Discard()
		if got := readStore(t, m, d, "SELECT v FROM t"); got != "1" {
			t.Fatal(got)
		}
		writeStore(t, m, d, "INSERT INTO t SELECT v FROM t WHERE v = 2")
		if got := readStore(t, m, d, "SELECT v FROM t"); got != "1" {
			t.Fatal(got)
		}
		checkStore(t, m, d)
	}
}

func TestOneWriteSessionAtATime(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	unused := d.Write(context.Background(), m.writer())
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "CREATE TABLE t (v)")
	if !d.writing() {
		t.Fatal("nobody writes")
	}
	if err := execNative(unused, "SELECT 1"); !errors.Is(err, ErrBusy) {
		t.Fatalf("a second write session: %v", err)
	}
	if unused.Rollback() || !d.writing() {
		t.Fatal("the end of the second was taken for that of the first")
	}
	s.Rollback()
	if d.writing() {
		t.Fatal("somebody still writes")
	}
	writeStore(t, m, d, "CREATE TABLE t (v)")
}

func TestDatabasesDoNotMix(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxOpen: 4})
	stores, ds := []*mapStore{newMapStore(), newMapStore()}, []*Database{p.Database("same"), p.Database("same")}
	for i := range 2 {
		writeStore(t, stores[i], ds[i], "CREATE TABLE t (v); INSERT INTO t VALUES (0)")
	}
	for n := range 20 {
		i := n % 2
		writeStore(t, stores[i], ds[i], "UPDATE t SET v = v + 1")
		if n%5 == 0 {
			ds[i].Discard()
		}
	}
	for i := range 2 {
		if got := readStore(t, stores[i], ds[i], "SELECT v FROM t"); got != "10" {
			t.Fatalf("database %d has %s", i, got)
		}
	}
}

func TestRollbackToASavepointOfASpilledTransaction(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 80))
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "PRAGMA cache_size = 10")
	s.Rollback()
	w := m.writer()
	s = d.Write(context.Background(), w)
	want, err := queryNative(s, faultDigest)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		mustExec(t, s, "SAVEPOINT a")
		mustExec(t, s, "UPDATE t SET v = zeroblob(length(v) + 3000);"+manyRows(200, 260))
		mustExec(t, s, "SAVEPOINT b; DELETE FROM t WHERE id % 2 = 0;"+manyRows(300, 330)+"ROLLBACK TO b")
		if got, err := queryNative(s, "SELECT count(*) = 141, (SELECT n FROM total) FROM t"); err != nil || got != "1|141" {
			t.Fatal(got, err)
		}
		mustExec(t, s, "ROLLBACK TO a; RELEASE a")
		wantRows(t, s, faultDigest, want)
		if len(s.conn.file.overlay) == 0 {
			t.Fatal("nothing was written early")
		}
	}
	mustExec(t, s, "DELETE FROM t WHERE id = 1")
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	m.commit(w)
	checkStore(t, m, d)
}

func TestVacuumShrinksTheDatabase(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{CacheBytes: 16 * PageSize})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 300), "DELETE FROM t WHERE id > 10")
	before, _, _ := ReadMetadata(m.snapshot())

	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "DELETE FROM t WHERE id > 9")
	if err := vacuumNative(s); err != nil {
		t.Fatal(err)
	}
	mustExec(t, s, "INSERT INTO t VALUES (1000, 'after', 1)")
	if changed, err := s.Commit(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	m.commit(w)
	after, _, _ := ReadMetadata(m.snapshot())
	if after.Pages*3 > before.Pages {
		t.Fatalf("%d pages, and %d before", after.Pages, before.Pages)
	}
	if n := len(w.keys); n != int(after.Pages)+1 {
		t.Fatalf("%d keys for %d pages", n, after.Pages)
	}
	checkStore(t, m, d)
	writeStore(t, m, d, manyRows(400, 500))
	checkStore(t, m, d)

	// What VACUUM has published is for the owner to drop.
	s = d.Write(context.Background(), m.writer())
	mustExec(t, s, "DELETE FROM t WHERE id > 5")
	if err := vacuumNative(s); err != nil {
		t.Fatal(err)
	}
	if !s.Rollback() {
		t.Fatal("Rollback says that nothing was put")
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"); got != "111,ok" {
		t.Fatal(got)
	}
	writeStore(t, m, d, "DELETE FROM t WHERE id > 450")
	if got := readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"); got != "60,ok" {
		t.Fatal(got)
	}
}

func TestIncrementalVacuumCutsTheFile(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"FULL", "INCREMENTAL"} {
		m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
		writeStore(t, m, d, "PRAGMA auto_vacuum = "+mode, faultSchema, manyRows(1, 200))
		before, _, _ := ReadMetadata(m.snapshot())
		writeStore(t, m, d, "DELETE FROM t WHERE id > 5", "PRAGMA incremental_vacuum")
		after, _, _ := ReadMetadata(m.snapshot())
		if after.Pages*3 > before.Pages || len(m.snapshot().keys) != int(after.Pages)+1 {
			t.Fatalf("%s: %d pages, %d keys, and %d pages before", mode, after.Pages, len(m.snapshot().keys), before.Pages)
		}
		checkStore(t, m, d)
		writeStore(t, m, d, manyRows(300, 350))
		checkStore(t, m, d)
	}
}

func TestPageSizeAndJournalStayAsTheyAre(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	defer s.Rollback()
	mustExec(t, s, "PRAGMA page_size = 8192; CREATE TABLE t (v)")
	wantRows(t, s, "PRAGMA page_size; PRAGMA journal_mode; PRAGMA locking_mode; PRAGMA foreign_keys", "4096,delete,exclusive,1")
}

// SQLite does not count commits in the file when it is offered atomic batches, as the library is compiled, and readers
// then keep old pages.
func TestDeviceHasNoAtomicBatches(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	defer s.Rollback()
	mustExec(t, s, "CREATE TABLE t (v)")
	p, err := s.conn.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	if err != nil {
		t.Fatal(err)
	}
	f, ok := vfsutil.UnwrapFile[*file](p.(vfs.File))
	if !ok || f != s.conn.file {
		t.Fatalf("the file is a %T", p)
	}
	const atomic = vfs.IOCAP_BATCH_ATOMIC | vfs.IOCAP_ATOMIC | vfs.IOCAP_ATOMIC4K
	if c := p.(vfs.File).DeviceCharacteristics(); c&atomic != 0 {
		t.Fatalf("device characteristics %#x", c)
	}
	if _, ok := p.(vfs.FileBatchAtomicWrite); ok {
		t.Fatal("the file writes atomic batches")
	}
	if _, ok := vfs.File(f).(vfs.FileBatchAtomicWrite); ok {
		t.Fatal("the file writes atomic batches")
	}
}

func TestMissingAndShortPagesAreCorruption(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 50))
	pages, _, _ := ReadMetadata(m.snapshot())
	for n := range pages.Pages {
		for _, broken := range [][]byte{nil, make([]byte, PageSize-1), {}} {
			r := &mapReader{keys: maps.Clone(m.snapshot().keys)}
			key := string(keyspace.SQLiteChunk.Append(nil, keyspace.SQLiteMain, n))
			if broken == nil {
				delete(r.keys, key)
			} else {
				r.keys[key] = broken
			}
			d := d.pool.Database("broken")
			if _, err := readFrom(r, d, "SELECT count(v), sum(length(v)) FROM t; SELECT w FROM t ORDER BY w; SELECT * FROM total"); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("page %d of %d has %d bytes: %v", n, pages.Pages, len(broken), err)
			}
			d.Close()
		}
	}
}

func TestDatabaseWithAJournalIsRefused(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v)")
	d.Close()
	w := m.writer()
	w.keys[string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteJournal))] = []byte{1}
	d = d.pool.Database("test")
	for _, s := range []*Session{d.Read(context.Background(), w), d.Write(context.Background(), w)} {
		if err := execNative(s, "SELECT * FROM t"); !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		s.Rollback()
	}
}

func TestForeignMetadataIsRefused(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	w := m.writer()
	w.keys[string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain))] = []byte{2, 0, 0}
	s := d.Write(context.Background(), w)
	if err := execNative(s, "CREATE TABLE t (v)"); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if changed, err := s.Commit(); changed || err != nil {
		t.Fatal(changed, err)
	}
}

func TestDeferredConstraintFailsTheCommit(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, up REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
	opened := d.pool.Stats().Opened
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "INSERT INTO t VALUES (1, 2)")
	if changed, err := s.Commit(); changed || !errors.Is(err, ErrForeignKey) || w.puts != 0 {
		t.Fatalf("Commit = %v, %v after %d puts", changed, err, w.puts)
	}
	writeStore(t, m, d, "INSERT INTO t VALUES (1, 2); INSERT INTO t VALUES (2, 1)")
	if n := d.pool.Stats().Opened; n != opened {
		t.Fatalf("%d connections were opened: the first was good", n-opened)
	}
}

func TestStatementThatRollsBackTheTransactionPoisonsTheSession(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)")
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "INSERT INTO t VALUES (2)")
	if err := execNative(s, "INSERT OR ROLLBACK INTO t VALUES (1)"); !errors.Is(err, ErrUnique) {
		t.Fatal(err)
	}
	if err := execNative(s, "INSERT INTO t VALUES (3)"); !errors.Is(err, ErrUnique) {
		t.Fatalf("the next statement: %v", err)
	}
	if changed, err := s.Commit(); changed || !errors.Is(err, ErrUnique) || w.puts != 0 {
		t.Fatalf("Commit = %v, %v after %d puts", changed, err, w.puts)
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM t"); got != "1" {
		t.Fatal(got)
	}
}

func TestPragmasOfAQuerySeeTheSchemaThatIsThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE other (a)")
	check := func() (fk, columns string) {
		r.view(func(db *sql.DB) { fk = ask(t, db, "PRAGMA foreign_key_check") })
		r.view(func(db *sql.DB) { columns = ask(t, db, "SELECT name FROM pragma_table_info('other')") })
		return fk, columns
	}
	fk, columns := check() // this connection is the one that is used below
	wantText(t, fk+columns, "a")
	r.exec("PRAGMA foreign_keys=OFF; CREATE TABLE child (p REFERENCES parent); INSERT INTO child VALUES (7); ALTER TABLE other ADD COLUMN b")
	opened := r.pool.Stats().Opened
	fk, columns = check()
	wantText(t, fk+" "+columns, "child|1|parent|0 a,b")
	// A pragma is the first statement that sees another change.
	r.exec("ALTER TABLE other ADD COLUMN c")
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "PRAGMA table_info(other)"), "0|a||0|NULL|0,1|b||0|NULL|0,2|c||0|NULL|0")
	})
	if got := r.pool.Stats().Opened; got > opened+1 {
		t.Errorf("%d connections were opened", got-opened)
	}
}
