package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// A database has limits of its own, from its next session on, and an instance that it had served leaves none to the next.
func TestLimitsOfADatabaseAreItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	attempts := []struct{ what, statement, bound string }{
		{"a row", "INSERT INTO t VALUES (zeroblob(100000))", "65536"},
		{"a sort", "INSERT INTO t SELECT max(v) FROM (SELECT i, v FROM (SELECT value AS i, randomblob(1000) AS v FROM generate_series(1, 2000) ORDER BY i % 17, v) LIMIT 1 OFFSET 1900)",
			"temporary files of a large sort or VACUUM: 1114112 bytes are over the limit of 1048576"},
		{"a turn", "INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 1500)", "pages that the turn changes: 1052672 bytes are over the limit of 1048576"},
	}
	try := func(statement string) error {
		return r.try(t.Context(), func(db *sql.DB) error {
			_, err := db.Exec(statement)
			return err
		})
	}
	r.exec("CREATE TABLE t (v)")
	for _, huge := range []int{1 << 32, math.MaxInt} { // more than SQLite's own type of a length holds
		r.db.SetLimits(Limits{MaxLength: huge})
		must(t, try("INSERT INTO t VALUES (zeroblob(100000))"), huge)
	}
	small := Limits{TurnBytes: 1 << 20, Temporary: 1 << 20, MaxLength: 64 << 10}
	for _, round := range []struct {
		limits Limits
		small  bool
	}{{Limits{}, false}, {small, true}, {Limits{}, false}} {
		r.db.SetLimits(round.limits)
		for _, a := range attempts {
			switch err := try(a.statement); {
			case round.small && (err == nil || !strings.Contains(err.Error(), a.bound)):
				t.Errorf("%s, with limits: %v", a.what, err)
			case !round.small && err != nil:
				t.Errorf("%s, without: %v", a.what, err)
			}
		}
	}
	r.db.SetLimits(small)
	errorIf(t, try(attempts[0].statement) == nil, "the limits are not set")
	r.db.Close() // its instances serve the next database
	r.db = r.pool.Database("next")
	for _, a := range attempts {
		must(t, try(a.statement), a.what)
	}
}

func TestMemoryOfAConnectionIsALimitOfItsDatabase(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (v)")
	long := func() error {
		return r.try(t.Context(), func(db *sql.DB) error {
			_, err := db.Exec("INSERT INTO t VALUES (length(hex(zeroblob(3000000))))")
			return err
		})
	}
	must(t, long())
	r.db.Discard() // the connection has grown
	r.db.SetLimits(Limits{ConnMemory: 2 << 20})
	var limit *LimitError
	err := long()
	errorIf(t, !errors.As(err, &limit) || !errors.Is(err, ErrMemory) || limit.Limit != 2<<20, "with 2 MiB: %v", err)
	r.db.SetLimits(Limits{ConnMemory: 1 << 40}) // the pool's is the most
	must(t, long())
}

func TestABlobOfTheDocumentedSizeFitsTheDefaults(t *testing.T) {
	r := newRig(t, Options{})
	blob := make([]byte, DefaultMaxLength-64) // less the rest of its row
	for i := range blob {
		blob[i] = byte(i * 7)
	}
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
	r.turn(func(db *sql.DB) { run(t, db, "INSERT INTO t VALUES (1, ?)", blob) })
	r.turn(func(db *sql.DB) { run(t, db, "UPDATE t SET v = ?", blob) })
	r.turn(func(db *sql.DB) { // each statement leaves holes in the heap
		run(t, db, "INSERT INTO t VALUES (2, ?)", blob)
		run(t, db, "INSERT INTO t VALUES (1, ?) ON CONFLICT DO UPDATE SET v = excluded.v", blob)
		wantText(t, ask(t, db, "UPDATE t SET v = ? WHERE id = 2 RETURNING length(v)", blob), fmt.Sprint(len(blob)))
		run(t, db, "DELETE FROM t WHERE id = 2")
	})
	r.view(func(db *sql.DB) {
		var got []byte
		err := db.QueryRow("SELECT v FROM t").Scan(&got)
		errorIf(t, err != nil || !bytes.Equal(got, blob), "%d bytes come back: %v", len(got), err)
	})
}

func TestStatementThatDoesNotFitFailsAtOnce(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
	fill := func(room int64) (rows int, puts int, err error) {
		w := m.writer()
		w.room = room
		s := d.Write(context.Background(), w)
		defer s.Rollback()
		for {
			if err = execNative(s, "INSERT INTO t (v) VALUES (zeroblob(4000))"); err != nil {
				return rows, w.puts, err
			}
			rows++
		}
	}
	for _, pages := range []int{0, 1, 5, 40, 5} {
		rows, puts, err := fill(int64(pages)*pageCost + metadataSize + pageCost/2)
		fatalIf(t, !errors.Is(err, ErrFull) || puts != 0, "room for %d pages: %v", pages, err)
		if rows > pages+1 || rows < pages-1 { // one in the page that is there
			t.Fatalf("%d rows of a page each fit into %d pages", rows, pages)
		}
	}
	// What the limit was does not matter to a session that has room.
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100) INSERT INTO t SELECT i, zeroblob(4000) FROM n")
	must(t, errOf(s.Commit()))
	m.commit(w)

	// Without any room, what is there can be read, rewritten and deleted.
	w = m.writer()
	w.room = 0
	s = d.Write(context.Background(), w)
	mustExec(t, s, "UPDATE t SET v = zeroblob(3999) WHERE id = 3; DELETE FROM t WHERE id > 50")
	wantRows(t, s, "SELECT count(*), sum(length(v)) FROM t", "50|199999")
	mustExec(t, s, "INSERT INTO t VALUES (200, zeroblob(4000))") // into a page that is free now
	must(t, errOf(s.Commit()))
	m.commit(w)
	w = m.writer()
	w.room = -5
	s = d.Write(context.Background(), w)
	defer s.Rollback()
	mustExec(t, s, "DELETE FROM t WHERE id > 40")
	must(t, errOf(s.Commit()))
}

// What is deleted needs no room, however long the numbers in the metadata get, and whatever way pages are given back.
func TestActorOverItsQuotaCanDelete(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "PRAGMA auto_vacuum = INCREMENTAL; CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE u (v BLOB)",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 300) INSERT INTO t SELECT i, zeroblob(1000) FROM n; INSERT INTO u SELECT v FROM t")
	over := func(f func(*Session)) {
		t.Helper()
		w := m.writer()
		w.room = -1_000_000
		s := d.Write(context.Background(), w)
		defer s.Rollback()
		f(s)
		must(t, errOf(s.Commit()))
		m.commit(w)
	}
	pages := func() uint32 {
		meta, _, err := ReadMetadata(m.snapshot())
		must(t, err)
		return meta.Pages
	}
	for i := range 140 { // beyond sequence 127
		over(func(s *Session) { mustExec(t, s, fmt.Sprintf("DELETE FROM t WHERE id = %d", i)) })
	}
	over(func(s *Session) { mustExec(t, s, "UPDATE t SET v = zeroblob(999) WHERE id > 290") })
	over(func(s *Session) { mustExec(t, s, "DROP TABLE u") })
	before := pages()
	over(func(s *Session) { mustExec(t, s, "PRAGMA incremental_vacuum(50)") })
	same(t, pages(), before-50, before)
	before = pages()
	over(func(s *Session) {
		must(t, vacuumNative(s))
	})
	got := pages()
	errorIf(t, got >= before, "%d pages after VACUUM of %d", got, before)
	same(t, readStore(t, m, d, "SELECT count(*) FROM t"), "161")
	checkStore(t, m, d)
}

// Setting the limit costs a statement, and the room of a turn is never quite what TurnBytes allows.
func TestLimitOfPagesIsNotSetInEverySession(t *testing.T) {
	p := newTestPool(t, Options{TurnBytes: 64 << 20})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v BLOB)")
	limit := func(room int64) (limit uint32, left int64) {
		w := m.writer()
		w.room = room
		s := d.Write(context.Background(), w)
		defer s.Rollback()
		mustExec(t, s, "INSERT INTO t VALUES (zeroblob(10000))")
		limit = s.conn.maxPages
		must(t, errOf(s.Commit()))
		m.commit(w)
		return limit, w.room
	}
	for _, less := range []int64{0, 1000, 1 << 20, 10_000} {
		got, _ := limit(64<<20 - less)
		errorIf(t, got != noPageLimit, "the limit is %d pages with room for TurnBytes less %d", got, less)
	}
	// Under a quota the limit stays where it is as long as only the database grows.
	first, room := limit(1 << 20)
	for range 3 {
		var got uint32
		if got, room = limit(room); got != first {
			t.Errorf("the limit is %d pages, and was %d", got, first)
		}
	}
}

func TestCommitThatDoesNotFitPutsNothing(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "INSERT INTO t VALUES (1, zeroblob(100000))")
	w.room = 10 * pageCost // the owner has used it up meanwhile
	changed, err := s.Commit()
	fatalIf(t, changed || !errors.Is(err, ErrFull) || w.puts != 0, "Commit = %v, %v after %d puts", changed, err, w.puts)
	same(t, readStore(t, m, d, "SELECT count(*) FROM t"), "0")
	writeStore(t, m, d, "INSERT INTO t VALUES (1, zeroblob(100000))")
	checkStore(t, m, d)
}

func TestTurnBytesBoundWhatASessionChanges(t *testing.T) {
	p := newTestPool(t, Options{TurnBytes: 1 << 20, CacheBytes: 16 * PageSize})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 100))
	s := d.Write(context.Background(), m.writer())
	err := execNative(s, manyRows(1000, 2000))
	fatalIf(t, !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "1048576"), "more than the limit: %v", err)
	s.Rollback()
	for _, vacuum := range []bool{false, true} {
		s = d.Write(context.Background(), m.writer())
		mustExec(t, s, "UPDATE t SET w = w + 1")
		if vacuum {
			must(t, vacuumNative(s))
		}
		must(t, errOf(s.Commit()))
		d.Discard()
	}
	writeStore(t, m, d, manyRows(200, 300))
	writeStore(t, m, d, manyRows(301, 400))
	writeStore(t, m, d, manyRows(401, 600)) // larger than the limit by now
	s = d.Write(context.Background(), m.writer())
	mustExec(t, s, "DELETE FROM t WHERE id = 1")
	wantError(t, vacuumNative(s), ErrFull, "")
	wantError(t, execNative(s, "SELECT 1"), ErrFull, "")
	fatalIf(t, !s.Rollback(), "the delete was published before VACUUM")
	same(t, readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"), "501,ok")
	checkStore(t, m, d)
}

func TestVacuumIsNotBoundByTheHeap(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{ConnMemory: 4 << 20, CacheBytes: 256 << 10})
	m, d := newMapStore(), p.Database("test")
	for i := range 4 {
		writeStore(t, m, d, fmt.Sprintf("CREATE TABLE t%d (v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) INSERT INTO t%d SELECT randomblob(4000) FROM n", i, i))
	}
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "DROP TABLE t0")
	if err := vacuumNative(s); err != nil { // 6 MB
		t.Fatal(err)
	}
	must(t, errOf(s.Commit()))
	m.commit(w)
	checkStore(t, m, d)
}

func TestPanicsOfOthersArePassedOn(t *testing.T) {
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "CREATE TABLE t (v)")
	func() {
		defer func() {
			same(t, recover(), "a bug")
		}()
		must(t, errOf(s.enter(context.Background())))
		defer s.leave()
		defer func() { s.recovered(recover()) }()
		panic("a bug")
	}()
	changed, err := s.Commit()
	fatalIf(t, changed || err == nil, "Commit = %v, %v", changed, err)
	if s := d.pool.Stats(); s.Open != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestConnectionsInUseCountAgainstTheMemory(t *testing.T) {
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
	n := len(in)
	fatalIf(t, !errors.Is(refused, ErrBusy) || n < 3 || n > 6, "%d sessions, the last one with %v", n, refused)
	s := p.Stats()
	fatalIf(t, s.Bytes < 8<<20 || s.Bytes > 24<<20+int64(len(in))*minGrant, "%+v", s)
	wantRows(t, in[0], "SELECT * FROM t", "one") // open sessions go on
	for _, s := range in {
		s.Rollback()
	}
	if s := p.Stats(); s.Bytes > 16<<20 || s.InUse != 0 || p.granted != 0 || p.idleBytes != s.Bytes {
		t.Fatalf("%+v, %d bytes granted, %d idle", s, p.granted, p.idleBytes)
	}
	alone := p.Database("alone").Read(context.Background(), m.snapshot())
	defer alone.Rollback()
	must(t, errOf(alone.DB().Exec("SELECT length(hex(zeroblob(1000000)))")))
}

func TestStatementsThatRunAtOnceStayWithinTheMemory(t *testing.T) {
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
		st := p.Stats()
		fatalIf(t, st.Bytes > 32<<20+sessions*minGrant, "%d sessions: %+v", i+1, st)
	}
	fatalIf(t, !errors.Is(refused, ErrBusy) || errors.Is(refused, ErrMemory), "the last refusal was %v", refused)
}

func TestTemporaryFilesShareABudget(t *testing.T) {
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
	must(t, err)
	used := p.temporary.used.Load()
	fatalIf(t, used < 4<<20 || used > 8<<20, "a sort takes %d bytes", used)
	b, err := open("b")
	if err == nil {
		_, err = open("c")
		b.Rollback()
	}
	fatalIf(t, !errors.Is(err, ErrFull), "more than all may have: %v", err)
	a.Rollback()
	p.Close()
	same(t, p.temporary.used.Load(), 0)
}

func TestWhatCanNeverFitIsNotWorthAnotherAttempt(t *testing.T) {
	p := newTestPool(t, Options{MaxTemporary: 1 << 20, CacheBytes: 16 * PageSize})
	m := newMapStore()
	writeStore(t, m, p.Database("w"), "CREATE TABLE t (v); INSERT INTO t SELECT randomblob(2000) FROM generate_series(1, 700)")
	want := func(what string, err error) {
		_, full := errors.AsType[*LimitError](err)
		errorIf(t, !full || errors.Is(err, ErrBusy), "%s: %v", what, err)
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
	must(t, errOf(Export(t.Context(), &file, m.snapshot())))
	_, err = p.Database("i").Import(t.Context(), m.writer(), &file, 1<<30)
	want("a file", err)
	_, err = p.Database("i").Import(t.Context(), m.writer(), bytes.NewReader(smallPages(t)), 1<<30)
	want("a file that is converted", err)
	same(t, p.temporary.used.Load(), 0)
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
	must(t, err)
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

func TestLargeOverlayIsNotKept(t *testing.T) {
	r := newRig(t, Options{})
	s := r.db.Write(context.Background(), r.writer())
	run(t, s.DB(), "CREATE TABLE t (a); WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 2000) "+
		"INSERT INTO t SELECT zeroblob(4000) FROM c")
	f := s.conn.file
	fatalIf(t, len(f.order) < 1000, "only %d pages were written early", len(f.order))
	s.Rollback()
	fatalIf(t, f.overlay != nil || f.order != nil, "there is room for %d pages", cap(f.order))
}

func TestReadersForgetTheSchemaOfWhatAnImportReplaced(t *testing.T) {
	ctx := context.Background()
	open := func(texts ...string) *DB {
		db, err := Open(ctx, newMapStore(), nil, Options{})
		must(t, err)
		t.Cleanup(func() { db.Close() })
		for _, text := range texts {
			must(t, db.Update(ctx, func(d *sql.DB) error { _, err := d.Exec(text); return err }))
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
	got, err := view("SELECT v FROM a")
	fatalIf(t, err != nil || got != "1", "%v %v", got, err)
	var file bytes.Buffer
	must(t, errOf(from.Export(ctx, &file)))
	must(t, errOf(to.Import(ctx, &file, 1<<20)))
	if got, err := view("SELECT name FROM b"); err != nil || got != "B" {
		t.Errorf("a new table: %q, %v", got, err)
	}
	if got, err := view("SELECT v FROM a2"); err == nil {
		t.Errorf("a table that is gone has %q", got)
	}
}

func TestReaderThatWasInUseWhenItsDatabaseWasDiscardedIsClosed(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	s := r.db.Read(context.Background(), r.store.snapshot())
	wantText(t, ask(t, s.DB(), "SELECT count(*) FROM t"), "0")
	r.db.Discard()
	s.Rollback()
	st := r.pool.Stats()
	fatalIf(t, st.Open != 0, "%+v", st)
}

func TestVacuumIsNotKnownByItsTextAlone(t *testing.T) {
	const text = "cannot VACUUM from within a transaction"
	r := newRig(t, Options{})
	r.exec(`CREATE TABLE t (a); CREATE TABLE log (a);
		CREATE TRIGGER tr BEFORE INSERT ON t WHEN new.a = 2 BEGIN INSERT INTO log VALUES (1); SELECT RAISE(FAIL, '` + text + `'); END`)
	r.turn(func(db *sql.DB) {
		wantError(t, errOf(db.Exec("INSERT INTO t SELECT 1 UNION ALL SELECT 2")), nil, text)
		wantText(t, ask(t, db, "SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM log)"), "1|1") // run once
		wantError(t, errOf(answer(db, "SELECT json_extract('{}', ?)", text)), nil, "bad JSON path")
	})
	r.view(func(db *sql.DB) {
		wantError(t, errOf(answer(db, "SELECT json_extract('{}', ?)", text)), nil, "bad JSON path")
	})
}

func TestNumbersOfPragmasAreDecimal(t *testing.T) {
	for arg, want := range map[string]int64{
		"01000": 1000 * PageSize, "0x10": 16 * PageSize, "-08": 8 << 10, "0b1": 1 << 62, "1_000": 1 << 62, "x": 1 << 62,
	} {
		same(t, cacheBytes(arg), want, arg)
	}
	for arg, want := range map[string]string{"08": "on", "0": "off", "1": "on", "00": "off", "yes": "on"} {
		same(t, onOff(arg), want, arg)
	}
}
