package sqlitevfs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
)

// A database has its own limits from its next session on, and an instance does not keep them for
// the next database.
func TestLimitsOfADatabaseAreItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, "CREATE TABLE t (v)")
	for _, huge := range []int{1 << 32, math.MaxInt} { // more than SQLite's own type of a length holds
		r.db.SetLimits(Limits{MaxLength: huge})
		r.exec("INSERT INTO t VALUES (zeroblob(100000))")
	}
	attempts := []struct{ statement, bound string }{
		{"INSERT INTO t VALUES (zeroblob(100000))", "65536"},
		{"INSERT INTO t SELECT max(v) FROM (SELECT i, v FROM (SELECT value AS i, randomblob(1000) AS v FROM generate_series(1, 2000) ORDER BY i % 17, v) LIMIT 1 OFFSET 1900)",
			"temporary files of a large sort or VACUUM: 1114112 bytes are over the limit of 1048576"},
		{"INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 1500)",
			"pages that the turn changes: 1052672 bytes are over the limit of 1048576"},
		{"INSERT INTO t VALUES (length(hex(zeroblob(3000000))))", "2097152"},
	}
	small := Limits{TurnBytes: 1 << 20, Temporary: 1 << 20, MaxLength: 64 << 10}
	for _, limits := range []Limits{{}, small, {ConnMemory: 1 << 40}, small} { // the memory of the pool is the most
		r.db.SetLimits(limits)
		for i, a := range attempts {
			if i == 3 && limits == small { // a grown connection is closed, so this one begins small
				r.db.Discard()
				r.db.SetLimits(Limits{ConnMemory: 2 << 20})
			}
			if limits == small {
				wantError(t, r.tryExec(a.statement), nil, a.bound)
			} else {
				r.exec(a.statement)
			}
		}
	}
	r.db.SetLimits(small)
	wantErr(t, r.tryExec(attempts[0].statement), ErrTooBig)
	r.db.Close() // its instances serve the next database
	r.open("next")
	for _, a := range attempts {
		r.exec(a.statement)
	}
}

func TestABlobOfTheDocumentedSizeFitsTheDefaults(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
	blob := make([]byte, DefaultMaxLength-64) // less the rest of its row
	for i := range blob {
		blob[i] = byte(i * 7)
	}
	r.exec("INSERT INTO t VALUES (1, ?)", blob)
	r.exec("UPDATE t SET v = ?", blob)
	r.turn(func(db handle) { // each statement leaves holes in the heap
		db.run("INSERT INTO t VALUES (2, ?)", blob)
		db.run("INSERT INTO t VALUES (1, ?) ON CONFLICT DO UPDATE SET v = excluded.v", blob)
		db.want("UPDATE t SET v = ? WHERE id = 2 RETURNING length(v)", fmt.Sprint(len(blob)), blob)
		db.run("DELETE FROM t WHERE id = 2")
	})
	r.view(func(db handle) {
		var got []byte
		err := db.QueryRow("SELECT v FROM t").Scan(&got)
		errorIf(t, err != nil || !bytes.Equal(got, blob), "%d bytes come back: %v", len(got), err)
	})
}

// in begins a write session whose store has room for so many bytes.
func (r *rig) in(room int64) *turn {
	w := r.store.writer()
	w.room = room
	return r.writeTo(w)
}

func TestStatementThatDoesNotFitFailsAtOnce(t *testing.T) {
	const row = "INSERT INTO t (v) VALUES (zeroblob(4000))"
	r := newRig(t, Options{}, "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB)")
	for _, pages := range []int{0, 1, 5, 40, 5} {
		x, rows := r.in(int64(pages)*pageCost+metadataSize+pageCost/2), 0
		err := errOf(x.Exec(row))
		for ; err == nil; err = errOf(x.Exec(row)) {
			rows++
		}
		fatalIf(t, !errors.Is(err, ErrFull) || x.w.puts != 0, "room for %d pages: %v", pages, err)
		// one is in the page that is there
		fatalIf(t, rows > pages+1 || rows < pages-1, "%d rows of a page each fit into %d pages", rows, pages)
		x.Rollback()
	}
	// An earlier limit does not matter to a session with room.
	r.exec("INSERT INTO t SELECT value, zeroblob(4000) FROM generate_series(1, 100)")
	// Without any room, existing rows can be read, rewritten and deleted.
	x := r.in(0)
	x.run("UPDATE t SET v = zeroblob(3999) WHERE id = 3; DELETE FROM t WHERE id > 50")
	x.want("SELECT count(*), sum(length(v)) FROM t", "50|199999")
	x.run("INSERT INTO t VALUES (200, zeroblob(4000))") // into a page that is now free
	must(t, x.commit())
	x = r.in(-5)
	x.run("DELETE FROM t WHERE id > 40")
	must(t, x.commit())
	// A commit that does not fit puts nothing.
	x = r.in(1 << 30)
	x.run("INSERT INTO t VALUES (1000, zeroblob(1000000))")
	x.w.room = 10 * pageCost // the owner has used up the room meanwhile
	changed, err := x.Session.Commit()
	fatalIf(t, changed || !errors.Is(err, ErrFull) || x.w.puts != 0, "Commit = %v, %v after %d puts", changed, err, x.w.puts)
	r.exec("INSERT INTO t VALUES (1000, zeroblob(1000000))")
	r.sound("SELECT count(*) FROM t", "41")
}

// Deletes need no room, regardless of the size of the numbers in the metadata and of how pages are
// given back.
func TestActorOverItsQuotaCanDelete(t *testing.T) {
	r := newRig(t, Options{}, "PRAGMA auto_vacuum = INCREMENTAL",
		"CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE u (v BLOB)",
		"INSERT INTO t SELECT value, zeroblob(1000) FROM generate_series(1, 300); INSERT INTO u SELECT v FROM t")
	over := func(text string) (pages uint32) {
		t.Helper()
		x := r.in(-1_000_000)
		x.run(text)
		must(t, x.commit(), text)
		return r.meta().Pages
	}
	for i := range 140 { // beyond sequence 127
		over(fmt.Sprintf("DELETE FROM t WHERE id = %d", i))
	}
	over("UPDATE t SET v = zeroblob(999) WHERE id > 290")
	before := over("DROP TABLE u")
	same(t, over("PRAGMA incremental_vacuum(50)"), before-50)
	got := over("VACUUM")
	errorIf(t, got >= before-50, "%d pages after VACUUM of %d", got, before-50)
	r.sound("SELECT count(*) FROM t", "161")
}

func TestTurnBytesBoundWhatASessionChanges(t *testing.T) {
	r := newRig(t, Options{TurnBytes: 1 << 20, CacheBytes: 16 * PageSize}, faultSchema, manyRows(1, 100))
	wantError(t, r.tryExec(manyRows(1000, 2000)), ErrFull, "1048576")
	for _, text := range []string{"UPDATE t SET w = w + 1", "UPDATE t SET w = w + 1; VACUUM"} {
		r.exec(text)
		r.db.Discard()
	}
	r.exec(manyRows(200, 300))
	r.exec(manyRows(301, 400))
	r.exec(manyRows(401, 600)) // larger than the limit by now
	x := r.write()
	x.run("DELETE FROM t WHERE id = 1")
	x.fails(ErrFull, "", "VACUUM")
	x.fails(ErrFull, "", "SELECT 1")
	fatalIf(t, !x.Rollback(), "the delete was published before VACUUM")
	r.sound("SELECT count(*) FROM t", "501")
}

func TestVacuumIsNotBoundByTheHeap(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{ConnMemory: 4 << 20, CacheBytes: 256 << 10})
	for i := range 4 {
		r.exec(fmt.Sprintf("CREATE TABLE t%d (v); INSERT INTO t%d SELECT randomblob(4000) FROM generate_series(1, 500)", i, i))
	}
	r.exec("DROP TABLE t0; VACUUM") // 6 MB
	r.sound()
}

func TestMemoryOfAllConnectionsIsBounded(t *testing.T) {
	const half = "SELECT length(hex(zeroblob(1000000)))"
	r := newRig(t, Options{MaxMemory: 16 << 20, ConnMemory: 8 << 20}, "CREATE TABLE t (v); INSERT INTO t VALUES ('one')")
	r.view(func(db handle) { db.want("SELECT * FROM t", "one") }) // is idle
	var in []*turn
	var refused error
	for i := 0; i < 10 && refused == nil; i++ {
		in = append(in, r.open(fmt.Sprint(i)).read())
		refused = errOf(in[i].Exec(half))
	}
	n := len(in)
	fatalIf(t, !errors.Is(refused, ErrBusy) || n < 3 || n > 6, "%d sessions, the last one with %v", n, refused)
	s := r.pool.Stats()
	fatalIf(t, s.Bytes < 8<<20 || s.Bytes > 24<<20+int64(n)*minGrant, "%+v", s)
	in[0].want("SELECT * FROM t", "one") // open sessions continue
	for _, x := range in {
		x.Rollback()
	}
	s = r.pool.Stats()
	fatalIf(t, s.Bytes > 16<<20 || s.InUse != 0 || r.pool.granted != 0 ||
		r.pool.idleBytes != s.Bytes, "%+v, %d bytes granted, %d idle", s, r.pool.granted, r.pool.idleBytes)
	r.open("alone").read().run(half)
}

func TestTemporaryFilesShareABudget(t *testing.T) {
	r := newRig(t, Options{Temporary: 8 << 20, MaxTemporary: 12 << 20, ConnMemory: 8 << 20})
	sorting := func(name string) (*turn, error) {
		x := r.open(name).read()
		rows, err := x.Query("SELECT value FROM (SELECT value, randomblob(20000) AS b FROM generate_series(1, 300)) ORDER BY b")
		if err != nil {
			x.Rollback()
			return x, err
		}
		rows.Next() // keeps the sorted rows
		return x, nil
	}
	a, err := sorting("a")
	must(t, err)
	used := r.pool.temporary.used.Load()
	fatalIf(t, used < 4<<20 || used > 8<<20, "a sort takes %d bytes", used)
	b, err := sorting("b")
	if err == nil {
		_, err = sorting("c")
		b.Rollback()
	}
	fatalIf(t, !errors.Is(err, ErrFull), "more than all may have: %v", err)
	a.Rollback()
	r.pool.Close()
	same(t, r.pool.temporary.used.Load(), 0)
}

func TestWhatCanNeverFitIsNotWorthAnotherAttempt(t *testing.T) {
	r := newRig(t, Options{MaxTemporary: 1 << 20, CacheBytes: 16 * PageSize},
		"CREATE TABLE t (v); INSERT INTO t SELECT randomblob(2000) FROM generate_series(1, 700)")
	small := stock(t, "PRAGMA page_size=1024", "CREATE TABLE t (v); INSERT INTO t VALUES (randomblob(700000))")
	for name, f := range map[string]func() error{
		"a sort": func() error {
			x := r.read()
			defer x.Rollback()
			return errOf(x.Exec("SELECT v FROM (SELECT v, random() AS r FROM t) ORDER BY r, v LIMIT 1 OFFSET 699"))
		},
		"what a statement may have to undo": func() error {
			return r.try(t.Context(), func(db handle) error {
				db.run("UPDATE t SET v = randomblob(2000)")
				return errOf(db.Exec("UPDATE t SET v = randomblob(2000)"))
			})
		},
		"a file":                   func() error { return errOf(r.load(r.export())) },
		"a file that is converted": func() error { return errOf(r.load(small)) },
	} {
		err := f()
		_, full := errors.AsType[*LimitError](err)
		errorIf(t, !full || errors.Is(err, ErrBusy), "%s: %v", name, err)
	}
	same(t, r.pool.temporary.used.Load(), 0)
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
