package sqlitevfs

import (
	"bytes"
	"context"
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

// newSmallRig returns a rig with a table of one row, and no connection.
func newSmallRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := newRig(t, o, "CREATE TABLE t (v); INSERT INTO t VALUES ('one')")
	r.db.Close()
	return r.open("test")
}

func TestPoolBoundsTheMemoryOfIdleConnections(t *testing.T) {
	r := newSmallRig(t, Options{MaxMemory: 4 << 20})
	for i := range 40 {
		r.open(fmt.Sprint(i)).sound()
		s := r.pool.Stats()
		fatalIf(t, s.Bytes > 4<<20 || s.Bytes < 0, "after %d databases: %+v", i+1, s)
	}
	s := r.pool.Stats()
	fatalIf(t, s.Evicted == 0 || s.Open < 4, "%+v", s)
	each := s.Bytes / int64(s.Open)
	fatalIf(t, each < 300<<10 || each > 1<<20, "a connection is said to take %d bytes", each)
}

func TestSizeOfAConnectionIsReadFromTheLibrary(t *testing.T) {
	x := newRig(t, Options{}).write()
	x.run("CREATE TABLE t (v)")
	fatalIf(t, x.conn.inner == nil, "the inner of a connection was not found: the library has other names for it now")
	before := x.conn.size()
	x.run("INSERT INTO t VALUES (zeroblob(4000000)); SELECT length(hex(v)) FROM t")
	grown := x.conn.size() - before
	fatalIf(t, grown < 8<<20 || grown > 32<<20, "the connection has grown by %d bytes", grown)
}

func TestIdleConnectionsAreClosedByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSmallRig(t, Options{IdleTime: 10 * time.Second})
		a, b := r.pool.Database("a"), r.pool.Database("b")
		use := func(d *Database) { r.db = d; r.sound() }
		use(a)
		time.Sleep(6 * time.Second)
		use(b)
		used := r.open("c").read()
		used.want("SELECT * FROM t", "one")
		for i, step := range []struct {
			sleep time.Duration
			do    func()
			open  int
		}{
			{0, nil, 3},
			{5 * time.Second, nil, 2}, // 11 s of a, 5 s of b
			{3 * time.Second, func() { use(b) }, 2},
			{9 * time.Second, nil, 2},
			{2 * time.Second, nil, 1},
			{time.Hour, nil, 1}, // what is in use is not idle
			{0, func() { used.Rollback() }, 1},
			{11 * time.Second, nil, 0},
		} {
			time.Sleep(step.sleep)
			if step.do != nil {
				step.do()
			}
			synctest.Wait()
			same(t, r.pool.Stats().Open, step.open, i)
		}
		s := r.pool.Stats()
		fatalIf(t, s.Bytes != 0 || s.Evicted != 0 || s.Opened != s.Closed, "%+v", s)
		must(t, r.pool.Close())
	})
}

func TestCloseOfAPoolWaitsForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSmallRig(t, Options{})
		r.sound()
		x := r.open("used").write()
		x.run("INSERT INTO t VALUES ('two')")
		name := x.conn.fs
		closed := make(chan error, 1)
		go func() { closed <- r.pool.Close() }()
		synctest.Wait()
		fatalIf(t, len(closed) > 0, "Close did not wait")
		r.open("late").read().fails(ErrClosed, "", "SELECT 1")
		must(t, x.commit())
		must(t, <-closed)
		s := r.pool.Stats()
		fatalIf(t, s.Open != 0 || s.InUse != 0 || s.Bytes != 0, "%+v", s)
		fatalIf(t, vfs.Find(name.name) != nil, "the file system of a closed connection is still registered")
	})
}

// TestDatabasesTakeTurnsWithInstances has more databases than connections. Each has a writer and readers, and has to find its
// own content.
func TestDatabasesTakeTurnsWithInstances(t *testing.T) {
	p := newRig(t, Options{MaxOpen: 9, CacheBytes: 16 * PageSize}).pool
	turns := 60
	if RaceDetector {
		turns = 20
	}
	var workers sync.WaitGroup
	for worker := range 3 {
		workers.Go(func() {
			var rigs []*rig
			for i := range 3 {
				r := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: p}).open(fmt.Sprint(worker, i))
				check(t, errors.Join(r.tryExec(faultSchema+fmt.Sprintf("CREATE TABLE t%d (v); CREATE TABLE row (v)", worker*3+i)), r.tryExec(manyRows(1, 20+worker))))
				rigs = append(rigs, r)
			}
			done := make(chan struct{})
			var readers sync.WaitGroup
			for reader := range 2 {
				readers.Go(func() {
					for i := reader; ; i++ {
						select {
						case <-done:
							return
						default:
						}
						r := rigs[i%3]
						s := r.db.Read(context.Background(), r.store.snapshot())
						first, err := answer(s.DB(), faultDigest)
						check(t, err)
						again, err := answer(s.DB(), faultDigest)
						errorIf(t, err != nil || again != first || !strings.HasPrefix(first, "1|"), "a session read %s, then %s, %v", first, again, err)
						s.Rollback()
					}
				})
			}
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			var rows [3][]string
			for turn := range turns {
				i := rnd.IntN(3)
				r, row := rigs[i], fmt.Sprintf("row %d of %d", turn, worker)
				w := r.store.writer()
				s := r.db.Write(context.Background(), w)
				text := fmt.Sprintf("DELETE FROM t WHERE id %% 5 = %d; INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), 1); INSERT INTO row VALUES ('%s')", rnd.IntN(5), 100+turn, rnd.IntN(9000), row)
				if rnd.IntN(4) == 0 {
					text += "; CREATE TEMP TABLE mine AS SELECT * FROM t"
				}
				check(t, errOf(s.DB().Exec(text)))
				switch rnd.IntN(4) {
				case 0:
					s.Rollback()
				case 1: // committed, and then dropped by the owner
					check(t, errOf(s.Commit()))
					r.db.Discard()
				default:
					check(t, errOf(s.Commit()))
					r.store.commit(w)
					rows[i] = append(rows[i], row)
				}
				s = r.db.Read(context.Background(), r.store.snapshot())
				got, err := answer(s.DB(), "SELECT v FROM row ORDER BY rowid")
				errorIf(t, err != nil || got != strings.Join(rows[i], ","), "%s has %q, %v, want %q", r.db.name, got, err, rows[i])
				s.Rollback()
			}
			close(done)
			readers.Wait()
			for _, r := range rigs {
				r.sound()
			}
		})
	}
	workers.Wait()
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

// TestRenewedInstanceHoldsNothingOfBefore runs what leaves something behind in SQLite: rows, statements, settings, temporary
// tables, extensions, errors, panics.
func TestRenewedInstanceHoldsNothingOfBefore(t *testing.T) {
	p := newRig(t, Options{IdleTime: time.Hour}).pool
	needRenewal(t, p)
	for _, write := range []bool{false, true} {
		in, err := p.newInstance(write)
		must(t, err)
		wantNew(t, p, in, "a new one")
		errorIf(t, len(in.template.names) == 0, "the name of the file system is not in the memory")
		in.close(p.options.Logger)
	}
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
		{"fault", "", "SELECT * FROM t"},
	} {
		for _, write := range []bool{true, false} {
			name := fmt.Sprintf("%s, write %v", x.name, write)
			r := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: p}).open(x.name)
			r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v);" + x.before)
			r.db.Discard() // so that the session has a connection of its own
			s := r.read()
			if write {
				s = r.write()
			}
			_, err := s.Exec(x.text) // some fail, others do if they cannot write
			if rows, e := s.Query("SELECT v FROM t"); e == nil {
				rows.Next() // and are open at the end
			}
			c := s.conn
			fatalIf(t, c == nil, "%s: no connection: %v", name, err)
			in := c.instance
			if x.name == "fault" {
				*in.outside.fault = errors.New("of a file") // as the library notes it
			}
			s.Rollback()
			r.db.Close()
			fatalIf(t, c.instance != nil || !slices.Contains(p.spares, in), "%s: the instance is not spare after %v", name, err)
			wantNew(t, p, in, name)
		}
	}
}

func TestRenewedInstanceAnswersAsANewOne(t *testing.T) {
	const question = `SELECT last_insert_rowid(), changes(), total_changes(), 'a' LIKE 'A', (SELECT foreign_keys FROM pragma_foreign_keys),
		(SELECT auto_vacuum FROM pragma_auto_vacuum), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema),
		(SELECT count(*) FROM sqlite_temp_schema), (SELECT freelist_count FROM pragma_freelist_count), (SELECT cache_size FROM pragma_cache_size)`
	r, fresh := newRig(t, Options{IdleTime: time.Hour}), newRig(t, Options{IdleTime: time.Hour})
	needRenewal(t, r.pool)
	before := r.write()
	for _, text := range []string{"PRAGMA auto_vacuum = 2", "CREATE TABLE secret (v)", "INSERT INTO secret VALUES (1), (2)", "PRAGMA user_version = 5",
		"CREATE TEMP TABLE x (v)", "PRAGMA case_sensitive_like = on", "PRAGMA foreign_keys = off", "PRAGMA cache_size = 100"} {
		before.run(text)
	}
	in := before.conn.instance
	before.Rollback()
	r.db.Close()
	drawn := map[string]bool{}
	for _, setup := range []string{"", "CREATE TABLE t (v)", "PRAGMA auto_vacuum = 1; CREATE TABLE t (v); INSERT INTO t VALUES (1)"} {
		var answers []string
		for _, pool := range []*Pool{fresh.pool, r.pool} {
			after := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: pool}).open("after")
			after.exec(setup)
			after.db.Discard()
			x := after.write()
			answers = append(answers, x.ask(question))
			drawn[x.ask("SELECT hex(randomblob(16))")] = true
			fatalIf(t, pool == r.pool && x.conn.instance != in, "the instance was not used again")
			x.conn.broken = pool == fresh.pool // closes it
			x.Rollback()
			after.db.Close()
		}
		same(t, answers[1], answers[0], setup)
	}
	same(t, len(drawn), 6, "random numbers are drawn twice")
}

func TestBrokenOrGrownInstanceIsNotUsedAgain(t *testing.T) {
	r := newRig(t, Options{IdleTime: time.Hour}, nested(300))
	for i, text := range []string{"SELECT * FROM v300", "SELECT length(hex(zeroblob(400000)))"} {
		x := r.read()
		x.Exec(text)
		c, in := x.conn, x.conn.instance
		x.Rollback()
		r.db.Discard()
		fatalIf(t, slices.Contains(r.pool.spares, in), "after %s it is spare", text)
		errorIf(t, c.broken != (i == 0) || len(*c.memory) != 0, "%s: broken is %v, and it has %d bytes", text, c.broken, len(*c.memory))
	}
}

func TestSparesAreBoundedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSmallRig(t, Options{IdleTime: 10 * time.Second, MaxOpen: 600})
		p := r.pool
		needRenewal(t, p)
		spares := func() (n [2]int, first string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.spares) > 0 {
				first = p.spares[0].fs.name
			}
			return [2]int{p.countSpares(false), p.countSpares(true)}, first
		}
		open := func(n int) (ds []*Database) {
			for i := range n {
				r.open(fmt.Sprint(i)).sound()
				ds = append(ds, r.db)
			}
			return ds
		}
		for _, d := range open(30) {
			d.Close()
		}
		synctest.Wait()
		got, name := spares()
		most := p.options.mostSpares()
		fatalIf(t, most != 4 || got != [2]int{most, 1}, "%v are spare, want %d of a kind at most", got, most) // one had made the small store
		time.Sleep(11 * time.Second)
		synctest.Wait()
		got, _ = spares()
		fatalIf(t, got != [2]int{} || vfs.Find(name) != nil, "%v are spare after the idle time", got)
		ds := open(20) // so many that the next is made before it is asked for
		synctest.Wait()
		got, name = spares()
		same(t, got, [2]int{1, 0})
		for _, d := range ds {
			d.Close()
		}
		must(t, p.Close())
		got, _ = spares()
		fatalIf(t, got != [2]int{} || vfs.Find(name) != nil, "%v are spare after Close", got)
	})
}
