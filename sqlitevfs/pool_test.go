package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"
)

func TestOptionsSayEachFault(t *testing.T) {
	_, err := NewPool(Options{MaxOpen: -1, ConnMemory: 1000, IdleTime: -time.Second})
	fatalIf(t, err == nil, "accepted")
	for _, name := range []string{"MaxOpen", "ConnMemory", "IdleTime"} {
		errorIf(t, !strings.Contains(err.Error(), "Options."+name), "%s is not in %q", name, err)
	}
}

// smallStore returns a store with a database of one table with one row.
func smallStore(t testing.TB, p *Pool) *mapStore {
	t.Helper()
	m := newMapStore()
	d := p.Database("small")
	defer d.Close()
	writeStore(t, m, d, "CREATE TABLE t (v); INSERT INTO t VALUES ('one')")
	return m
}

func TestPoolClosesTheConnectionThatWasUsedLeastRecently(t *testing.T) {
	p := newTestPool(t, Options{MaxOpen: 3})
	m := smallStore(t, p)
	before := p.Stats()
	var ds []*Database
	for i := range 4 {
		ds = append(ds, p.Database(fmt.Sprint(i)))
	}
	use := func(i int) { readStore(t, m, ds[i], "SELECT * FROM t") }
	opened := func() int { return int(p.Stats().Opened - before.Opened) }
	use(0)
	use(1)
	use(2)
	use(0) // so 1 is the oldest
	same(t, opened(), 3)
	use(3)
	s := p.Stats()
	fatalIf(t, s.Open != 3 || s.Evicted != 1, "%+v", s)
	use(0)
	use(2)
	same(t, opened(), 4)
	use(1)
	same(t, opened(), 5)
}

func TestPoolRefusesMoreThanMaxOpenInUse(t *testing.T) {
	p := newTestPool(t, Options{MaxOpen: 2})
	m := smallStore(t, p)
	var in []*Session
	for i := range 2 {
		s := p.Database(fmt.Sprint(i)).Read(context.Background(), m.snapshot())
		wantRows(t, s, "SELECT * FROM t", "one")
		in = append(in, s)
	}
	d := p.Database("third")
	s := d.Write(context.Background(), m.writer())
	wantError(t, execNative(s, "SELECT * FROM t"), ErrBusy, "")
	fatalIf(t, d.writing(), "a session without a connection is the one that writes")
	in[0].Rollback()
	wantRows(t, s, "SELECT * FROM t", "one") // the same session may try again
	s.Rollback()
	in[1].Rollback()
}

func TestPoolBoundsTheMemoryOfIdleConnections(t *testing.T) {
	p := newTestPool(t, Options{MaxMemory: 4 << 20})
	m := smallStore(t, p)
	for i := range 40 {
		readStore(t, m, p.Database(fmt.Sprint(i)), "SELECT * FROM t")
		s := p.Stats()
		fatalIf(t, s.Bytes > 4<<20 || s.Bytes < 0, "after %d databases: %+v", i+1, s)
	}
	s := p.Stats()
	fatalIf(t, s.Evicted == 0 || s.Open < 4, "%+v", s)
	each := s.Bytes / int64(s.Open)
	fatalIf(t, each < 300<<10 || each > 1<<20, "a connection is said to take %d bytes", each)
}

func TestSizeOfAConnectionIsReadFromTheLibrary(t *testing.T) {
	p := newTestPool(t, Options{})
	m := newMapStore()
	s := p.Database("test").Write(context.Background(), m.writer())
	defer s.Rollback()
	mustExec(t, s, "CREATE TABLE t (v)")
	fatalIf(t, s.conn.inner == nil, "the inner of a connection was not found: the library has other names for it now")
	before := s.conn.size()
	mustExec(t, s, "INSERT INTO t VALUES (zeroblob(4000000)); SELECT length(hex(v)) FROM t")
	grown := s.conn.size() - before
	fatalIf(t, grown < 8<<20 || grown > 32<<20, "the connection has grown by %d bytes", grown)
}

func TestConnectionThatHasGrownIsNotKept(t *testing.T) {
	p := newTestPool(t, Options{})
	m, d := smallStore(t, p), p.Database("test")
	readStore(t, m, d, "SELECT length(hex(zeroblob(4000000)))")
	s := p.Stats()
	fatalIf(t, s.Open != 0 || s.Bytes != 0, "%+v", s)
	readStore(t, m, d, "SELECT * FROM t")
	if s := p.Stats(); s.Open != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestIdleConnectionsAreClosedByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{IdleTime: 10 * time.Second})
		must(t, err)
		m := smallStore(t, p)
		a, b := p.Database("a"), p.Database("b")
		readStore(t, m, a, "SELECT * FROM t")
		time.Sleep(6 * time.Second)
		readStore(t, m, b, "SELECT * FROM t")
		used := p.Database("c").Read(context.Background(), m.snapshot())
		wantRows(t, used, "SELECT * FROM t", "one")
		want := func(open int) {
			t.Helper()
			synctest.Wait()
			s := p.Stats()
			fatalIf(t, s.Open != open, "%d are open, want %d", s.Open, open)
		}
		want(3)
		time.Sleep(5 * time.Second) // 11 s of a, 5 s of b
		want(2)
		time.Sleep(3 * time.Second)
		readStore(t, m, b, "SELECT * FROM t") // b goes on
		time.Sleep(9 * time.Second)
		want(2)
		time.Sleep(2 * time.Second)
		want(1) // what is in use is not idle
		time.Sleep(time.Hour)
		want(1)
		used.Rollback()
		want(1)
		time.Sleep(11 * time.Second)
		want(0)
		s := p.Stats()
		fatalIf(t, s.Bytes != 0 || s.Evicted != 0 || s.Opened != s.Closed, "%+v", s)
		must(t, p.Close())
	})
}

func TestCloseOfAPoolWaitsForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{})
		must(t, err)
		m := smallStore(t, p)
		readStore(t, m, p.Database("idle"), "SELECT * FROM t")
		s := p.Database("used").Write(context.Background(), m.writer())
		mustExec(t, s, "INSERT INTO t VALUES ('two')")
		name := s.conn.fs
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close did not wait")
		default:
		}
		late := p.Database("late").Read(context.Background(), m.snapshot())
		wantError(t, execNative(late, "SELECT 1"), ErrClosed, "")
		changed, err := s.Commit()
		fatalIf(t, !changed || err != nil, "Commit = %v, %v", changed, err)
		must(t, <-closed)
		if s := p.Stats(); s.Open != 0 || s.InUse != 0 || s.Bytes != 0 {
			t.Fatalf("%+v", s)
		}
		fatalIf(t, vfs.Find(name.name) != nil, "the file system of a closed connection is still registered")
	})
}

func TestClosedDatabaseLetsReadersFinish(t *testing.T) {
	p := newTestPool(t, Options{})
	m, d := smallStore(t, p), p.Database("test")
	begun, unused := d.Read(context.Background(), m.snapshot()), d.Read(context.Background(), m.snapshot())
	wantRows(t, begun, "SELECT * FROM t", "one")
	unusedWrite := d.Write(context.Background(), m.writer())
	d.Close()
	wantRows(t, begun, "SELECT * FROM t", "one")
	wantRows(t, unused, "SELECT * FROM t", "one")
	wantError(t, execNative(unusedWrite, "SELECT 1"), ErrClosed, "")
	wantError(t, execNative(d.Read(context.Background(), m.snapshot()), "SELECT 1"), ErrClosed, "")
	begun.Rollback()
	unused.Rollback()
	s := p.Stats()
	fatalIf(t, s.Open != 0, "%d connections of a closed database are open", s.Open)
}

func TestManyReadersBesideAWriter(t *testing.T) {
	p := newTestPool(t, Options{MaxOpen: 6, CacheBytes: 16 * PageSize})
	m, d := newMapStore(), p.Database("test")
	writeStore(t, m, d, faultSchema, manyRows(1, 50))
	done := make(chan struct{})
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 0))
			for {
				select {
				case <-done:
					return
				default:
				}
				r := m.snapshot()
				s := d.Read(context.Background(), r)
				first, err := queryNative(s, faultDigest)
				if err == nil && rnd.IntN(2) == 0 {
					var again string
					if again, err = queryNative(s, faultDigest); err == nil && again != first {
						t.Errorf("a session read %s, then %s", first, again)
					}
				}
				errorIf(t, err != nil && !errors.Is(err, ErrBusy) || err == nil && !strings.HasPrefix(first, "1|"),
					"read %s, %v", first, err)
				s.Rollback()
			}
		})
	}
	rnd := rand.New(rand.NewPCG(7, 0))
	turns := 150
	if RaceDetector {
		turns = 60
	}
	for turn := range turns {
		w := m.writer()
		s := d.Write(context.Background(), w)
		mustExec(t, s, fmt.Sprintf("DELETE FROM t WHERE id %% 5 = %d; INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), 1)", rnd.IntN(5), turn, rnd.IntN(9000)))
		switch rnd.IntN(4) {
		case 0:
			s.Rollback()
		case 1: // committed, and then dropped by the owner
			must(t, errOf(s.Commit()))
			d.Discard()
		default:
			must(t, errOf(s.Commit()))
			m.commit(w)
		}
	}
	close(done)
	group.Wait()
	checkStore(t, m, d)
}

// needRenewal skips a test where instances are not made new, because of the system.
func needRenewal(t *testing.T, p *Pool) {
	t.Helper()
	in, err := p.newInstance(false)
	must(t, err)
	defer in.close(p.options.Logger)
	if in.outside != nil {
		return
	}
	if memory := *in.memory; runtime.GOOS == "windows" || cap(memory) == len(memory) {
		t.Skip("the memory of an instance is not reserved on this system, or cannot be made shorter")
	}
	t.Fatal("instances cannot be made new: the library has other fields now")
}

// wantNew fails the test unless an instance is as new ones are, in every byte that its memory ever had, and outside.
func wantNew(t *testing.T, p *Pool, in *instance, what string) {
	t.Helper()
	other, err := p.newInstance(in.write)
	must(t, err)
	defer other.close(p.options.Logger)
	extent := max(in.extent, len(*in.memory))
	want := append(bytes.ReplaceAll(*other.memory, []byte(other.fs.name), []byte(in.fs.name)), make([]byte, extent-len(*other.memory))...)
	fatalIf(t, len(*in.memory) != len(*other.memory) || *in.stack != *other.stack,
		"%s: %d bytes of memory and %d of stack, want %d and %d", what, len(*in.memory), *in.stack, len(*other.memory), *other.stack)
	if have := (*in.memory)[:extent]; !bytes.Equal(have, want) {
		n := 0
		for have[n] == want[n] {
			n++
		}
		t.Fatalf("%s: the memory differs from that of a new instance at %d: %q", what, n, have[n:min(n+40, extent)])
	}
	a, b := in.outside, other.outside
	fatalIf(t, len(*a.handles) != len(*b.handles) || slices.Contains(*a.handles, nil) || *a.deleted != *b.deleted || *a.fault != nil || len(*a.table) != len(*b.table),
		"%s: outside there are %d handles, %d deleted, %d functions", what, len(*a.handles), *a.deleted, len(*a.table))
	f := in.file
	fatalIf(t, in.serves != nil || in.fs.temp.used != 0 || f.r != nil || f.w != nil || f.stamped || len(f.overlay) != 0 || f.meta != (Metadata{}) || f.ahead != (readAhead{}),
		"%s: its file is that of another: %+v", what, f)
	same(t, len(slices.Collect(in.db.Stmts())), 3, what)
}

func TestNewInstancesAreAlike(t *testing.T) {
	p := newTestPool(t, Options{IdleTime: time.Hour})
	needRenewal(t, p)
	for _, write := range []bool{false, true} {
		in, err := p.newInstance(write)
		must(t, err)
		wantNew(t, p, in, "a new one")
		errorIf(t, len(in.template.names) == 0, "the name of the file system is not in the memory")
		in.close(p.options.Logger)
	}
}

// TestRenewedInstanceHoldsNothingOfBefore runs what leaves something behind in SQLite: rows, statements, settings, temporary
// tables, extensions, errors, panics.
func TestRenewedInstanceHoldsNothingOfBefore(t *testing.T) {
	p := newTestPool(t, Options{IdleTime: time.Hour})
	needRenewal(t, p)
	for _, x := range []struct{ name, before, text string }{
		{"rows", "", "INSERT INTO t (v) VALUES ('a secret'); SELECT v || ' of mine' FROM t"},
		{"arguments", "", "SELECT upper('a secret'), randomblob(1000), datetime('now')"},
		{"settings", "", "PRAGMA foreign_keys = off; PRAGMA recursive_triggers = on; PRAGMA cache_size = 20; PRAGMA case_sensitive_like = on"},
		{"temporary table", "", "CREATE TEMP TABLE s (v); INSERT INTO s VALUES ('a secret'), (randomblob(100000)); CREATE TEMP VIEW w AS SELECT * FROM s"},
		{"full-text", "CREATE VIRTUAL TABLE f USING fts5(v)", "INSERT INTO f VALUES ('a secret'); SELECT snippet(f, 0, '<', '>', '', 9) FROM f WHERE f MATCH 'secret'"},
		{"spatial", "CREATE VIRTUAL TABLE g USING rtree(id, a, b)", "INSERT INTO g VALUES (1, 2, 3); SELECT * FROM g WHERE a > 1"},
		{"error", "", "SELECT * FROM a_secret_table"},
		{"failed insert", "CREATE TABLE u (v UNIQUE); INSERT INTO u VALUES ('a secret')", "INSERT INTO u VALUES ('a secret')"},
		{"other schema", "CREATE TABLE u (a PRIMARY KEY, b REFERENCES t); CREATE TRIGGER r AFTER INSERT ON u BEGIN INSERT INTO t (v) VALUES (new.a); END; ANALYZE",
			"INSERT INTO u VALUES ('a secret', NULL); SELECT count(*) FROM u JOIN t ON t.v = u.a"},
		{"sort", "", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) SELECT group_concat(x) FROM (SELECT hex(randomblob(20)) AS x FROM n ORDER BY x)"},
		{"savepoints", "", "SAVEPOINT a; INSERT INTO t (v) VALUES ('a secret')"},
		{"auto_vacuum", "", "PRAGMA auto_vacuum = 1; PRAGMA user_version = 77"},
	} {
		for _, write := range []bool{true, false} {
			name := fmt.Sprintf("%s, write %v", x.name, write)
			m, d := newMapStore(), p.Database(x.name)
			w := m.writer()
			s := d.Write(context.Background(), w)
			must(t, errOf(s.DB().Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v);"+x.before)), name)
			must(t, errOf(s.Commit()), name)
			m.commit(w)
			d.Discard() // so that the session has a connection of its own
			s = d.Read(context.Background(), m.snapshot())
			if write {
				s = d.Write(context.Background(), m.writer())
			}
			_, err := s.DB().Exec(x.text) // some fail, others do if they cannot write
			if rows, e := s.DB().Query("SELECT v FROM t"); e == nil {
				rows.Next() // and are open at the end
			}
			c := s.conn
			fatalIf(t, c == nil, "%s: no connection: %v", name, err)
			in := c.instance
			s.Rollback()
			d.Close()
			fatalIf(t, c.instance != nil || !slices.Contains(p.spares, in),
				"%s: the instance is not spare after %v", name, err)
			wantNew(t, p, in, name)
		}
	}
}

func TestRenewedInstanceKnowsNoErrorOfBefore(t *testing.T) {
	p := newTestPool(t, Options{IdleTime: time.Hour})
	needRenewal(t, p)
	m, d := smallStore(t, p), p.Database("test")
	s := d.Read(context.Background(), m.snapshot())
	wantRows(t, s, "SELECT * FROM t", "one")
	in := s.conn.instance
	s.Rollback()
	*in.outside.fault = errors.New("of a file") // as the library notes it
	d.Close()
	wantNew(t, p, in, "a failed read")
}

func TestRenewedInstanceAnswersAsANewOne(t *testing.T) {
	const question = `SELECT last_insert_rowid(), changes(), total_changes(), 'a' LIKE 'A', (SELECT foreign_keys FROM pragma_foreign_keys),
		(SELECT auto_vacuum FROM pragma_auto_vacuum), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema),
		(SELECT count(*) FROM sqlite_temp_schema), (SELECT freelist_count FROM pragma_freelist_count), (SELECT cache_size FROM pragma_cache_size)`
	fresh, p := newTestPool(t, Options{IdleTime: time.Hour}), newTestPool(t, Options{})
	needRenewal(t, p)
	m, d := newMapStore(), p.Database("before")
	s := d.Write(context.Background(), m.writer())
	for _, text := range []string{"PRAGMA auto_vacuum = 2", "CREATE TABLE secret (v)", "INSERT INTO secret VALUES (1), (2)", "PRAGMA user_version = 5",
		"CREATE TEMP TABLE x (v)", "PRAGMA case_sensitive_like = on", "PRAGMA foreign_keys = off", "PRAGMA cache_size = 100"} {
		must(t, errOf(s.DB().Exec(text)))
	}
	in := s.conn.instance
	s.Rollback()
	for _, setup := range []string{"", "CREATE TABLE t (v)", "PRAGMA auto_vacuum = 1; CREATE TABLE t (v); INSERT INTO t VALUES (1)"} {
		var answers []string
		for _, pool := range []*Pool{fresh, p} {
			store, after := newMapStore(), pool.Database("after")
			if setup != "" {
				writeStore(t, store, after, setup)
				after.Discard()
			}
			s := after.Write(context.Background(), store.writer())
			answer, err := answer(s.DB(), question)
			must(t, err)
			fatalIf(t, pool == p && s.conn.instance != in, "the instance was not used again")
			if pool == fresh {
				s.conn.broken = true // closes it
			}
			s.Rollback()
			after.Close()
			answers = append(answers, answer)
		}
		errorIf(t, answers[0] != answers[1], "after %q: %s, want %s", setup, answers[1], answers[0])
	}
}

func TestInstancesDrawDifferentRandomNumbers(t *testing.T) {
	p := newTestPool(t, Options{IdleTime: time.Hour})
	m := smallStore(t, p)
	seen := make(map[string]bool)
	for range 8 {
		d := p.Database("test")
		s := d.Read(context.Background(), m.snapshot())
		other := p.Database("other").Read(context.Background(), m.snapshot())
		for _, s := range []*Session{s, other} {
			seen[ask(t, s.DB(), "SELECT hex(randomblob(16))")] = true
			s.Rollback()
			s.database.Close()
		}
	}
	fatalIf(t, len(seen) != 16, "16 draws are %d", len(seen))
}

func TestBrokenInstanceIsNotUsedAgain(t *testing.T) {
	r := newRig(t, Options{IdleTime: time.Hour})
	r.exec(nested(300))
	r.view(func(db *sql.DB) {
		wantErr(t, errOf(answer(db, "SELECT * FROM v300")), ErrMemory)
	})
	for _, in := range r.pool.spares {
		errorIf(t, in.broken || !in.write, "a broken instance is spare")
	}
}

func TestGrownInstanceIsNotUsedAgain(t *testing.T) {
	p := newTestPool(t, Options{IdleTime: time.Hour})
	m, d := smallStore(t, p), p.Database("test")
	s := d.Read(context.Background(), m.snapshot())
	must(t, errOf(answer(s.DB(), "SELECT length(hex(zeroblob(400000)))")))
	in := s.conn.instance
	s.Rollback()
	d.Close()
	fatalIf(t, slices.Contains(p.spares, in), "it is spare")
}

func TestSparesAreBoundedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{IdleTime: 10 * time.Second, MaxOpen: 600})
		must(t, err)
		needRenewal(t, p)
		m := smallStore(t, p)
		count := func() (n [2]int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return [2]int{p.countSpares(false), p.countSpares(true)}
		}
		first := func() string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.spares[0].fs.name
		}
		open := func(n int) (ds []*Database) {
			for i := range n {
				ds = append(ds, p.Database(fmt.Sprint(i)))
				readStore(t, m, ds[i], "SELECT * FROM t")
			}
			return ds
		}
		for _, d := range open(30) {
			d.Close()
		}
		synctest.Wait()
		if got, most := count(), p.options.mostSpares(); most != 4 || got != [2]int{most, 1} { // one had made the small store
			t.Fatalf("%v are spare, want %d of a kind at most", got, most)
		}
		name := first()
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got := count()
		fatalIf(t, got != [2]int{} || vfs.Find(name) != nil, "%v are spare after the idle time", got)
		ds := open(20) // so many that the next is made before it is asked for
		synctest.Wait()
		same(t, count(), [2]int{1, 0})
		name = first()
		for _, d := range ds {
			d.Close()
		}
		must(t, p.Close())
		if got := count(); got != [2]int{} || vfs.Find(name) != nil {
			t.Fatalf("%v are spare after Close", got)
		}
	})
}

// TestDatabasesTakeTurnsWithInstances has more databases than connections, each of which has to find its own content.
func TestDatabasesTakeTurnsWithInstances(t *testing.T) {
	p := newTestPool(t, Options{MaxOpen: 6})
	turns := 120
	if RaceDetector {
		turns = 40
	}
	var group sync.WaitGroup
	for worker := range 3 {
		group.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			type tenant struct {
				d    *Database
				m    *mapStore
				rows []string
			}
			tenants := make([]tenant, 4)
			for i := range tenants {
				tenants[i] = tenant{d: p.Database(fmt.Sprint(worker, i)), m: newMapStore()}
				writeStore(t, tenants[i].m, tenants[i].d, fmt.Sprintf("CREATE TABLE t%d (v); CREATE TABLE t (v)", worker*4+i))
			}
			for turn := range turns {
				x := &tenants[rnd.IntN(len(tenants))]
				row := fmt.Sprintf("row %d of %s", turn, x.d.name)
				if rnd.IntN(2) == 0 {
					w := x.m.writer()
					s := x.d.Write(context.Background(), w)
					_, err := s.DB().Exec("INSERT INTO t VALUES (?)", row)
					if rnd.IntN(4) == 0 {
						_, err = s.DB().Exec("CREATE TEMP TABLE mine AS SELECT * FROM t")
					}
					check(t, err)
					if rnd.IntN(3) == 0 {
						s.Rollback()
					} else if _, err := s.Commit(); err != nil {
						t.Error(err)
					} else {
						x.m.commit(w)
						x.rows = append(x.rows, row)
					}
				}
				s := x.d.Read(context.Background(), x.m.snapshot())
				got, err := queryNative(s, "SELECT v FROM t ORDER BY rowid")
				errorIf(t, err != nil || got != strings.Join(x.rows, ","), "%s has %q, %v, want %q", x.d.name, got, err, x.rows)
				s.Rollback()
				if rnd.IntN(5) == 0 {
					x.d.Close()
					x.d = p.Database(x.d.name)
				}
			}
			for _, x := range tenants {
				x.d.Close()
			}
		})
	}
	group.Wait()
}
