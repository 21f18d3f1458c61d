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
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)", "INSERT INTO note (text) VALUES ('a'), ('b')")
	writeStore(t, m, d, "INSERT INTO note (text) VALUES ('c')")
	same(t, readStore(t, m, d, "SELECT group_concat(text, '') FROM note"), "abc")
	checkStore(t, m, d)
	meta, ok, err := ReadMetadata(m.snapshot())
	fatalIf(t, err != nil || !ok || meta.Pages != 2 || meta.Sequence != 2, "metadata %+v, %v, %v", meta, ok, err)
}

func TestPagesReachTheWriterAtCommitOnly(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "CREATE TABLE big (v BLOB); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) INSERT INTO big SELECT randomblob(3000) FROM n")
	fatalIf(t, len(s.conn.file.overlay) == 0, "the transaction was to be larger than the cache")
	fatalIf(t, w.puts != 0, "%d pages were put before the commit", w.puts)
	changed, err := s.Commit()
	fatalIf(t, err != nil || !changed || w.puts < 500, "Commit = %v, %v after %d puts", changed, err, w.puts)
	m.commit(w)
	checkStore(t, m, d)
}

func TestRollbackLeavesNothing(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
	writeStore(t, m, d, "CREATE TABLE big (v BLOB); INSERT INTO big VALUES (1)")
	for range 5 {
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 300) INSERT INTO big SELECT randomblob(3000) FROM n; CREATE INDEX x ON big (v)")
		fatalIf(t, s.Rollback(), "Rollback says that pages were put")
		fatalIf(t, w.puts != 0, "%d pages were put", w.puts)
		// The connection is kept, and goes on from the old length.
		writeStore(t, m, d, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20) INSERT INTO big SELECT randomblob(3000) FROM n")
		checkStore(t, m, d)
	}
	same(t, readStore(t, m, d, "SELECT count(*) FROM big"), "101")
}

func TestReadSessionsSeeTheirSnapshot(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v); INSERT INTO t VALUES ('first')")
	old := m.snapshot()
	keeper := ended(t, d.Read(context.Background(), old))
	wantRows(t, keeper, "SELECT v FROM t", "first")
	for _, v := range []string{"second", "third"} {
		writeStore(t, m, d, "UPDATE t SET v = '"+v+"'")
		// The connection is the same each time, and has the page of the version before in its cache.
		same(t, readStore(t, m, d, "SELECT v FROM t"), v)
		wantRows(t, keeper, "SELECT v FROM t", "first")
		got, err := readFrom(old, d, "SELECT v FROM t")
		fatalIf(t, err != nil || got != "first", "a new session on the old snapshot read %q, %v", got, err)
	}
	writeStore(t, m, d, "CREATE TABLE another (w); INSERT INTO another VALUES (1)", "ALTER TABLE t ADD COLUMN x DEFAULT 7")
	same(t, readStore(t, m, d, "SELECT v, x, w FROM t, another"), "third|7|1")
	s := d.pool.Stats()
	fatalIf(t, s.Opened != 3, "%d connections were opened, want one to write, one that is kept, and one", s.Opened)
}

func TestOneWriteSessionAtATime(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	unused := d.Write(context.Background(), m.writer())
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "CREATE TABLE t (v)")
	fatalIf(t, !d.writing(), "nobody writes")
	wantError(t, execNative(unused, "SELECT 1"), ErrBusy, "")
	fatalIf(t, unused.Rollback() || !d.writing(), "the end of the second was taken for that of the first")
	s.Rollback()
	fatalIf(t, d.writing(), "somebody still writes")
	writeStore(t, m, d, "CREATE TABLE t (v)")
}

func TestVacuumShrinksTheDatabase(t *testing.T) {
	p := newTestPool(t, Options{CacheBytes: 16 * PageSize})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 300), "DELETE FROM t WHERE id > 10")
	before, _, _ := ReadMetadata(m.snapshot())

	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "DELETE FROM t WHERE id > 9")
	must(t, vacuumNative(s))
	mustExec(t, s, "INSERT INTO t VALUES (1000, 'after', 1)")
	changed, err := s.Commit()
	fatalIf(t, !changed || err != nil, "%v %v", changed, err)
	m.commit(w)
	after, _, _ := ReadMetadata(m.snapshot())
	fatalIf(t, after.Pages*3 > before.Pages, "%d pages, and %d before", after.Pages, before.Pages)
	same(t, len(w.keys), int(after.Pages)+1, after.Pages)
	checkStore(t, m, d)
	writeStore(t, m, d, manyRows(400, 500))
	checkStore(t, m, d)

	// What VACUUM has published is for the owner to drop.
	s = d.Write(context.Background(), m.writer())
	mustExec(t, s, "DELETE FROM t WHERE id > 5")
	must(t, vacuumNative(s))
	fatalIf(t, !s.Rollback(), "Rollback says that nothing was put")
	same(t, readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"), "111,ok")
	writeStore(t, m, d, "DELETE FROM t WHERE id > 450")
	same(t, readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"), "60,ok")
}

func TestIncrementalVacuumCutsTheFile(t *testing.T) {
	for _, mode := range []string{"FULL", "INCREMENTAL"} {
		m, d := newMapStore(), newTestPool(t, Options{CacheBytes: 16 * PageSize}).Database("test")
		writeStore(t, m, d, "PRAGMA auto_vacuum = "+mode, faultSchema, manyRows(1, 200))
		before, _, _ := ReadMetadata(m.snapshot())
		writeStore(t, m, d, "DELETE FROM t WHERE id > 5", "PRAGMA incremental_vacuum")
		after, _, _ := ReadMetadata(m.snapshot())
		fatalIf(t, after.Pages*3 > before.Pages || len(m.snapshot().keys) != int(after.Pages)+1,
			"%s: %d pages, %d keys, and %d pages before", mode, after.Pages, len(m.snapshot().keys), before.Pages)
		checkStore(t, m, d)
		writeStore(t, m, d, manyRows(300, 350))
		checkStore(t, m, d)
	}
}

// SQLite does not count commits in the file when it is offered atomic batches, as the library is compiled, and readers
// then keep old pages.
func TestDeviceHasNoAtomicBatches(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := ended(t, d.Write(context.Background(), m.writer()))
	mustExec(t, s, "CREATE TABLE t (v)")
	p, err := s.conn.db.FileControl("main", sqlite3.FCNTL_FILE_POINTER)
	must(t, err)
	f, ok := vfsutil.UnwrapFile[*file](p.(vfs.File))
	fatalIf(t, !ok || f != s.conn.file, "the file is a %T", p)
	const atomic = vfs.IOCAP_BATCH_ATOMIC | vfs.IOCAP_ATOMIC | vfs.IOCAP_ATOMIC4K
	c := p.(vfs.File).DeviceCharacteristics()
	fatalIf(t, c&atomic != 0, "device characteristics %#x", c)
	_, ok = p.(vfs.FileBatchAtomicWrite)
	fatalIf(t, ok, "the file writes atomic batches")
	_, ok = vfs.File(f).(vfs.FileBatchAtomicWrite)
	fatalIf(t, ok, "the file writes atomic batches")
}

func TestMissingAndShortPagesAreCorruption(t *testing.T) {
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
			wantErr(t, errOf(readFrom(r, d, "SELECT count(v), sum(length(v)) FROM t; SELECT w FROM t ORDER BY w; SELECT * FROM total")), ErrCorrupt, n, pages.Pages, len(broken))
			d.Close()
		}
	}
}

func TestDatabaseWithAJournalIsRefused(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v)")
	d.Close()
	w := m.writer()
	w.keys[string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteJournal))] = []byte{1}
	d = d.pool.Database("test")
	for _, s := range []*Session{d.Read(context.Background(), w), d.Write(context.Background(), w)} {
		wantError(t, execNative(s, "SELECT * FROM t"), ErrCorrupt, "")
		s.Rollback()
	}
}

func TestForeignMetadataIsRefused(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	w := m.writer()
	w.keys[string(keyspace.SQLiteMetadata.Append(nil, keyspace.SQLiteMain))] = []byte{2, 0, 0}
	s := d.Write(context.Background(), w)
	wantError(t, execNative(s, "CREATE TABLE t (v)"), ErrCorrupt, "")
	changed, err := s.Commit()
	fatalIf(t, changed || err != nil, "%v %v", changed, err)
}

func TestDeferredConstraintFailsTheCommit(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, up REFERENCES t DEFERRABLE INITIALLY DEFERRED)")
	opened := d.pool.Stats().Opened
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "INSERT INTO t VALUES (1, 2)")
	changed, err := s.Commit()
	fatalIf(t, changed || !errors.Is(err, ErrForeignKey) || w.puts != 0, "Commit = %v, %v after %d puts", changed, err, w.puts)
	writeStore(t, m, d, "INSERT INTO t VALUES (1, 2); INSERT INTO t VALUES (2, 1)")
	n := d.pool.Stats().Opened
	fatalIf(t, n != opened, "%d connections were opened: the first was good", n-opened)
}

func TestPragmasOfAQuerySeeTheSchemaThatIsThere(t *testing.T) {
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
	got := r.pool.Stats().Opened
	errorIf(t, got > opened+1, "%d connections were opened", got-opened)
}
