package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestStatementThatDoesNotFitFailsAtOnce(t *testing.T) {
	t.Parallel()
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
		if !errors.Is(err, ErrFull) || puts != 0 {
			t.Fatalf("room for %d pages: %v", pages, err)
		}
		if rows > pages+1 || rows < pages-1 { // one in the page that is there
			t.Fatalf("%d rows of a page each fit into %d pages", rows, pages)
		}
	}
	// What the limit was does not matter to a session that has room.
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100) INSERT INTO t SELECT i, zeroblob(4000) FROM n")
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	m.commit(w)

	// Without any room, what is there can be read, rewritten and deleted.
	w = m.writer()
	w.room = 0
	s = d.Write(context.Background(), w)
	mustExec(t, s, "UPDATE t SET v = zeroblob(3999) WHERE id = 3; DELETE FROM t WHERE id > 50")
	wantRows(t, s, "SELECT count(*), sum(length(v)) FROM t", "50|199999")
	mustExec(t, s, "INSERT INTO t VALUES (200, zeroblob(4000))") // into a page that is free now
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	m.commit(w)
	w = m.writer()
	w.room = -5
	s = d.Write(context.Background(), w)
	defer s.Rollback()
	mustExec(t, s, "DELETE FROM t WHERE id > 40")
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
}

// What is deleted needs no room, however long the numbers in the metadata get, and whatever way pages are given back.
func TestActorOverItsQuotaCanDelete(t *testing.T) {
	t.Parallel()
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
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		m.commit(w)
	}
	pages := func() uint32 {
		meta, _, err := ReadMetadata(m.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		return meta.Pages
	}
	for i := range 140 { // beyond sequence 127
		over(func(s *Session) { mustExec(t, s, fmt.Sprintf("DELETE FROM t WHERE id = %d", i)) })
	}
	over(func(s *Session) { mustExec(t, s, "UPDATE t SET v = zeroblob(999) WHERE id > 290") })
	over(func(s *Session) { mustExec(t, s, "DROP TABLE u") })
	before := pages()
	over(func(s *Session) { mustExec(t, s, "PRAGMA incremental_vacuum(50)") })
	if got := pages(); got != before-50 {
		t.Errorf("%d pages after incremental_vacuum of 50 of %d", got, before)
	}
	before = pages()
	over(func(s *Session) {
		if err := vacuumNative(s); err != nil {
			t.Fatal(err)
		}
	})
	if got := pages(); got >= before {
		t.Errorf("%d pages after VACUUM of %d", got, before)
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM t"); got != "161" {
		t.Error(got)
	}
	checkStore(t, m, d)
}

// Setting the limit costs a statement, and the room of a turn is never quite what TurnBytes allows.
func TestLimitOfPagesIsNotSetInEverySession(t *testing.T) {
	t.Parallel()
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
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		m.commit(w)
		return limit, w.room
	}
	for _, less := range []int64{0, 1000, 1 << 20, 10_000} {
		if got, _ := limit(64<<20 - less); got != noPageLimit {
			t.Errorf("the limit is %d pages with room for TurnBytes less %d", got, less)
		}
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
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	writeStore(t, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
	w := m.writer()
	s := d.Write(context.Background(), w)
	mustExec(t, s, "INSERT INTO t VALUES (1, zeroblob(100000))")
	w.room = 10 * pageCost // the owner has used it up meanwhile
	if changed, err := s.Commit(); changed || !errors.Is(err, ErrFull) || w.puts != 0 {
		t.Fatalf("Commit = %v, %v after %d puts", changed, err, w.puts)
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM t"); got != "0" {
		t.Fatal(got)
	}
	writeStore(t, m, d, "INSERT INTO t VALUES (1, zeroblob(100000))")
	checkStore(t, m, d)
}

func TestTurnBytesBoundWhatASessionChanges(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{TurnBytes: 1 << 20, CacheBytes: 16 * PageSize})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 100))
	s := d.Write(context.Background(), m.writer())
	err := execNative(s, manyRows(1000, 2000))
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "1048576") {
		t.Fatalf("more than the limit: %v", err)
	}
	s.Rollback()
	for _, vacuum := range []bool{false, true} {
		s = d.Write(context.Background(), m.writer())
		mustExec(t, s, "UPDATE t SET w = w + 1")
		if vacuum {
			if err := vacuumNative(s); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Commit(); err != nil {
			t.Fatal(err)
		}
		d.Discard()
	}
	writeStore(t, m, d, manyRows(200, 300))
	writeStore(t, m, d, manyRows(301, 400))
	writeStore(t, m, d, manyRows(401, 600)) // larger than the limit by now
	s = d.Write(context.Background(), m.writer())
	mustExec(t, s, "DELETE FROM t WHERE id = 1")
	if err := vacuumNative(s); !errors.Is(err, ErrFull) {
		t.Fatalf("VACUUM of more than the limit: %v", err)
	}
	if err := execNative(s, "SELECT 1"); !errors.Is(err, ErrFull) {
		t.Fatalf("the session after it: %v", err)
	}
	if !s.Rollback() {
		t.Fatal("the delete was published before VACUUM")
	}
	if got := readStore(t, m, d, "SELECT count(*) FROM t; PRAGMA integrity_check"); got != "501,ok" {
		t.Fatal(got)
	}
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
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	m.commit(w)
	checkStore(t, m, d)
}

func TestStatementThatNeedsTooMuchMemoryCostsTheSession(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{ConnMemory: 4 << 20})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, "CREATE TABLE t (v); INSERT INTO t VALUES (1)")
	for _, write := range []bool{true, false} {
		w := m.writer()
		s := d.Read(context.Background(), w)
		if write {
			s = d.Write(context.Background(), w)
			mustExec(t, s, "UPDATE t SET v = 2")
		}
		if err := execNative(s, "SELECT hex(zeroblob(8000000))"); !errors.Is(err, ErrMemory) {
			t.Fatalf("more than the heap: %v", err)
		}
		if err := execNative(s, "SELECT 1"); !errors.Is(err, ErrMemory) {
			t.Fatalf("after that: %v", err)
		}
		if changed, err := s.Commit(); changed || !errors.Is(err, ErrMemory) || w.puts != 0 {
			t.Fatalf("Commit = %v, %v after %d puts", changed, err, w.puts)
		}
		if got := readStore(t, m, d, "SELECT v FROM t"); got != "1" {
			t.Fatal(got)
		}
	}
	if s := p.Stats(); s.InUse != 0 || s.Open != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestPanicsOfOthersArePassedOn(t *testing.T) {
	t.Parallel()
	m, d := newMapStore(), newTestPool(t, Options{}).Database("test")
	s := d.Write(context.Background(), m.writer())
	mustExec(t, s, "CREATE TABLE t (v)")
	func() {
		defer func() {
			if v := recover(); v != "a bug" {
				t.Errorf("recovered %v", v)
			}
		}()
		if _, err := s.enter(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer s.leave()
		defer func() { s.recovered(recover()) }()
		panic("a bug")
	}()
	if changed, err := s.Commit(); changed || err == nil {
		t.Fatalf("Commit = %v, %v", changed, err)
	}
	if s := d.pool.Stats(); s.Open != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestTemporaryFilesAreBounded(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{Temporary: 8 << 20, CacheBytes: 16 * PageSize, ConnMemory: 8 << 20})
	m, d := newMapStore(), p.Database("test")
	const sort = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT sum(length(v)) FROM (SELECT i, randomblob(1000) AS v FROM n ORDER BY i %% 17, i LIMIT -1 OFFSET 1)"
	if got := readStore(t, m, d, fmt.Sprintf(sort, 1000)); got != "999000" {
		t.Fatal(got)
	}
	if _, err := readFrom(m.snapshot(), d, fmt.Sprintf(sort, 20000)); !errors.Is(err, ErrFull) && !errors.Is(err, ErrMemory) {
		t.Fatalf("a sort of 20 MB: %v", err)
	}
	if got := readStore(t, m, d, fmt.Sprintf(sort, 1000)); got != "999000" {
		t.Fatal(got)
	}
}
