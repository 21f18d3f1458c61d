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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"
)

func TestOptionsSayEachFault(t *testing.T) {
	err := errOf(NewPool(Options{MaxOpen: -1, ConnMemory: 1000, IdleTime: -time.Second}))
	for _, name := range []string{"MaxOpen", "ConnMemory", "IdleTime"} {
		wantError(t, err, nil, "Options."+name)
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
	each := s.Bytes / int64(s.Open)
	fatalIf(t, s.Evicted == 0 || s.Open < 4 || each < 300<<10 || each > 1<<20, "%+v: a connection is said to take %d bytes", s, each)
}

func TestIdleConnectionsAreClosedByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSmallRig(t, Options{IdleTime: 10 * time.Second})
		a, b := r.pool.Database("a"), r.pool.Database("b")
		use := func(d *Database) { r.db = d; r.sound() }
		open := func(after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			same(t, r.pool.Stats().Open, want)
		}
		use(a)
		open(6*time.Second, 1)
		use(b)
		used := r.open("c").read()
		used.want("SELECT * FROM t", "one")
		open(0, 3)
		open(5*time.Second, 2) // 11 s of a, 5 s of b
		open(3*time.Second, 2)
		use(b)
		open(9*time.Second, 2)
		open(2*time.Second, 1)
		open(time.Hour, 1) // a connection in use is not idle
		used.Rollback()
		open(0, 1)
		open(11*time.Second, 0)
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

// TestDatabasesTakeTurnsWithInstances has databases that need more connections than the pool
// allows. Each has a writer and a reader, and must find its own content.
func TestDatabasesTakeTurnsWithInstances(t *testing.T) {
	p := newRig(t, Options{MaxOpen: 8, CacheBytes: 16 * PageSize}).pool
	turns := 45
	if RaceDetector {
		turns = 15
	}
	var workers sync.WaitGroup
	for worker := range 4 {
		r := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: p}).open(fmt.Sprint(worker))
		r.exec(faultSchema + fmt.Sprintf("CREATE TABLE t%d (v); CREATE TABLE row (v)", worker))
		r.exec(manyRows(1, 20+worker))
		var done atomic.Bool
		read := func(text string) (string, error) {
			s := r.db.Read(context.Background(), r.store.snapshot())
			defer s.Rollback()
			first, err := answer(s.DB(), text)
			again, err2 := answer(s.DB(), text)
			errorIf(t, again != first, "a session of %d read %s, then %s", worker, first, again)
			return first, errors.Join(err, err2)
		}
		workers.Go(func() {
			for !done.Load() {
				got, err := read(faultDigest)
				errorIf(t, err != nil || !strings.HasPrefix(got, "1|"), "%d: %s %v", worker, got, err)
			}
		})
		workers.Go(func() {
			defer done.Store(true)
			rnd := rand.New(rand.NewPCG(uint64(worker), 1))
			var rows []string
			for turn := range turns {
				row := fmt.Sprintf("row %d of %d", turn, worker)
				w := r.store.writer()
				s := r.db.Write(context.Background(), w)
				text := fmt.Sprintf("DELETE FROM t WHERE id %% 5 = %d; INSERT OR IGNORE INTO t VALUES (%d, zeroblob(%d), 1); INSERT INTO row VALUES ('%s')",
					rnd.IntN(5), 100+turn, rnd.IntN(9000), row)
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
					rows = append(rows, row)
				}
				got, err := read("SELECT v FROM row ORDER BY rowid")
				errorIf(t, err != nil || got != strings.Join(rows, ","), "%d has %q, %v, want %q", worker, got, err, rows)
			}
		})
	}
	workers.Wait()
}

// needRenewal skips a test on systems where instances cannot be renewed.
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

// wantNew fails the test unless an instance equals a new one, in every byte that its memory ever
// had, and in its Go state.
func wantNew(t *testing.T, p *Pool, in *instance, what string) {
	t.Helper()
	other, err := p.newInstance(in.write)
	must(t, err)
	defer other.close(p.options.Logger)
	have, want := (*in.memory)[:max(in.extent, len(*in.memory))], bytes.ReplaceAll(*other.memory, []byte(other.fs.name), []byte(in.fs.name))
	for n, b := range have {
		fatalIf(t, n < len(want) && b != want[n] || n >= len(want) && b != 0,
			"%s: the memory differs from that of a new instance at %d: %q", what, n, have[n:min(n+40, len(have))])
	}
	fatalIf(t, len(*in.memory) != len(want) || *in.stack != *other.stack,
		"%s: %d bytes of memory and %d of stack, want %d and %d", what, len(*in.memory), *in.stack, len(want), *other.stack)
	a, b := in.outside, other.outside
	fatalIf(t, len(*a.handles) != len(*b.handles) || slices.Contains(*a.handles, nil) || *a.deleted != *b.deleted ||
		*a.fault != nil || len(*a.table) != len(*b.table),
		"%s: outside there are %d handles, %d deleted, %d functions", what, len(*a.handles), *a.deleted, len(*a.table))
	f := in.file
	fatalIf(t, in.serves != nil || in.fs.temp.used != 0 || f.r != nil || f.w != nil || f.stamped ||
		len(f.overlay) != 0 || f.meta != (Metadata{}) || f.ahead != (readAhead{}),
		"%s: its file is that of another: %+v", what, f)
	same(t, len(slices.Collect(in.db.Stmts())), 3, what)
}

// TestRenewedInstanceHoldsNothingOfBefore runs texts that leave state behind in SQLite: rows,
// statements, settings, temporary tables, extensions, errors, panics.
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
	drawn := map[string]bool{} // random numbers, none twice
	for _, x := range []struct{ name, before, text string }{
		{"rows", "", "INSERT INTO t (v) VALUES ('a secret'); SELECT v || ' of mine', upper('a secret'), randomblob(1000), datetime('now') FROM t"},
		{"settings", "",
			"PRAGMA foreign_keys = off; PRAGMA cache_size = 20; PRAGMA case_sensitive_like = on; PRAGMA auto_vacuum = 1; PRAGMA user_version = 77"},
		{"temporary table", "",
			"CREATE TEMP TABLE s (v); INSERT INTO s VALUES ('a secret'), (randomblob(100000)); CREATE TEMP VIEW w AS SELECT * FROM s"},
		{"full-text", "CREATE VIRTUAL TABLE f USING fts5(v)",
			"INSERT INTO f VALUES ('a secret'); SELECT snippet(f, 0, '<', '>', '', 9) FROM f WHERE f MATCH 'secret'"},
		{"spatial", "CREATE VIRTUAL TABLE g USING rtree(id, a, b)", "INSERT INTO g VALUES (1, 2, 3); SELECT * FROM g WHERE a > 1"},
		{"error", "", "SELECT * FROM a_secret_table"},
		{"failed insert", "CREATE TABLE u (v UNIQUE); INSERT INTO u VALUES ('a secret')", "INSERT INTO u VALUES ('a secret')"},
		{"other schema",
			"CREATE TABLE u (a PRIMARY KEY, b REFERENCES t); CREATE TRIGGER r AFTER INSERT ON u BEGIN INSERT INTO t (v) VALUES (new.a); END; ANALYZE",
			"INSERT INTO u VALUES ('a secret', NULL); SELECT count(*) FROM u JOIN t ON t.v = u.a"},
		{"sort", "", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 500) SELECT group_concat(x) FROM (SELECT hex(randomblob(20)) AS x FROM n ORDER BY x)"},
		{"savepoints", "", "SAVEPOINT a; INSERT INTO t (v) VALUES ('a secret')"},
		{"fault", "", "SELECT * FROM t"},
	} {
		for _, write := range []bool{true, false} {
			name := fmt.Sprintf("%s, write %v", x.name, write)
			r := (&rig{t: t, store: &mapStore{keys: keys{}}, pool: p}).open(x.name)
			r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v);" + x.before)
			r.db.Discard() // so the session has its own connection
			s := r.read()
			if write {
				s = r.write()
			}
			number := s.ask("SELECT hex(randomblob(16))")
			errorIf(t, drawn[number], "%s: a random number is drawn twice", name)
			drawn[number] = true
			_, err := s.Exec(x.text) // some fail, others only if they cannot write
			if rows, e := s.Query("SELECT v FROM t"); e == nil {
				rows.Next() // and are open at the end
			}
			c := s.conn
			fatalIf(t, c == nil, "%s: no connection: %v", name, err)
			in := c.instance
			if x.name == "fault" {
				*in.outside.fault = errors.New("of a file") // as the library records it
			}
			s.Rollback()
			r.db.Close()
			fatalIf(t, c.instance != nil || !slices.Contains(p.spares, in), "%s: the instance is not spare after %v", name, err)
			wantNew(t, p, in, name)
		}
	}
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
		var first string // the file system's name of the first spare
		spare := func(read, write int, when string) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			got := [2]int{p.countSpares(false), p.countSpares(true)}
			same(t, got, [2]int{read, write}, when)
			errorIf(t, read == 0 && vfs.Find(first) != nil, "%s: a file system is still registered", when)
			if len(p.spares) > 0 {
				first = p.spares[0].fs.name
			}
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
		same(t, p.options.mostSpares(), 4)
		spare(4, 1, "at most 4 of a kind; one had made the small store")
		time.Sleep(11 * time.Second)
		spare(0, 0, "after the idle time")
		ds := open(20)
		spare(1, 0, "so many are open that the next is made before it is asked for")
		for _, d := range ds {
			d.Close()
		}
		must(t, p.Close())
		spare(0, 0, "after Close")
	})
}
