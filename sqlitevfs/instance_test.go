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

// needRenewal skips a test where instances are not made new, because of the system.
func needRenewal(t *testing.T, p *Pool) {
	t.Helper()
	in, err := p.newInstance(false)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer other.close(p.options.Logger)
	extent := max(in.extent, len(*in.memory))
	want := append(bytes.ReplaceAll(*other.memory, []byte(other.fs.name), []byte(in.fs.name)), make([]byte, extent-len(*other.memory))...)
	if len(*in.memory) != len(*other.memory) || *in.stack != *other.stack {
		t.Fatalf("%s: %d bytes of memory and %d of stack, want %d and %d", what, len(*in.memory), *in.stack, len(*other.memory), *other.stack)
	}
	if have := (*in.memory)[:extent]; !bytes.Equal(have, want) {
		n := 0
		for have[n] == want[n] {
			n++
		}
		t.Fatalf("%s: the memory differs from that of a new instance at %d: %q", what, n, have[n:min(n+40, extent)])
	}
	a, b := in.outside, other.outside
	if len(*a.handles) != len(*b.handles) || slices.Contains(*a.handles, nil) || *a.deleted != *b.deleted || *a.fault != nil || len(*a.table) != len(*b.table) {
		t.Fatalf("%s: outside there are %d handles, %d deleted, %d functions", what, len(*a.handles), *a.deleted, len(*a.table))
	}
	f := in.file
	if in.serves != nil || in.fs.temp.used != 0 || f.r != nil || f.w != nil || f.stamped || len(f.overlay) != 0 || f.meta != (Metadata{}) || f.ahead != (readAhead{}) {
		t.Fatalf("%s: its file is that of another: %+v", what, f)
	}
	if n := len(slices.Collect(in.db.Stmts())); n != 3 {
		t.Fatalf("%s: it has %d statements", what, n)
	}
}

func TestNewInstancesAreAlike(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{IdleTime: time.Hour})
	needRenewal(t, p)
	for _, write := range []bool{false, true} {
		in, err := p.newInstance(write)
		if err != nil {
			t.Fatal(err)
		}
		wantNew(t, p, in, "a new one")
		if len(in.template.names) == 0 {
			t.Error("the name of the file system is not in the memory")
		}
		in.close(p.options.Logger)
	}
}

// TestRenewedInstanceHoldsNothingOfBefore runs what leaves something behind in SQLite: rows, statements, settings, temporary
// tables, extensions, errors, panics.
func TestRenewedInstanceHoldsNothingOfBefore(t *testing.T) {
	t.Parallel()
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
			if _, err := s.DB().Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v);" + x.before); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := s.Commit(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
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
			if c == nil {
				t.Fatalf("%s: no connection: %v", name, err)
			}
			in := c.instance
			s.Rollback()
			d.Close()
			if c.instance != nil || !slices.Contains(p.spares, in) {
				t.Fatalf("%s: the instance is not spare after %v", name, err)
			}
			wantNew(t, p, in, name)
		}
	}
}

func TestRenewedInstanceKnowsNoErrorOfBefore(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	const question = `SELECT last_insert_rowid(), changes(), total_changes(), 'a' LIKE 'A', (SELECT foreign_keys FROM pragma_foreign_keys),
		(SELECT auto_vacuum FROM pragma_auto_vacuum), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema),
		(SELECT count(*) FROM sqlite_temp_schema), (SELECT freelist_count FROM pragma_freelist_count), (SELECT cache_size FROM pragma_cache_size)`
	fresh, p := newTestPool(t, Options{IdleTime: time.Hour}), newTestPool(t, Options{})
	needRenewal(t, p)
	m, d := newMapStore(), p.Database("before")
	s := d.Write(context.Background(), m.writer())
	for _, text := range []string{"PRAGMA auto_vacuum = 2", "CREATE TABLE secret (v)", "INSERT INTO secret VALUES (1), (2)", "PRAGMA user_version = 5",
		"CREATE TEMP TABLE x (v)", "PRAGMA case_sensitive_like = on", "PRAGMA foreign_keys = off", "PRAGMA cache_size = 100"} {
		if _, err := s.DB().Exec(text); err != nil {
			t.Fatal(err)
		}
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
			if err != nil {
				t.Fatal(err)
			}
			if pool == p && s.conn.instance != in {
				t.Fatal("the instance was not used again")
			}
			if pool == fresh {
				s.conn.broken = true // closes it
			}
			s.Rollback()
			after.Close()
			answers = append(answers, answer)
		}
		if answers[0] != answers[1] {
			t.Errorf("after %q: %s, want %s", setup, answers[1], answers[0])
		}
	}
}

func TestInstancesDrawDifferentRandomNumbers(t *testing.T) {
	t.Parallel()
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
	if len(seen) != 16 {
		t.Fatalf("16 draws are %d", len(seen))
	}
}

func TestBrokenInstanceIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{IdleTime: time.Hour})
	r.exec(nested(300))
	r.view(func(db *sql.DB) {
		if _, err := answer(db, "SELECT * FROM v300"); !errors.Is(err, ErrMemory) {
			t.Error(err)
		}
	})
	for _, in := range r.pool.spares {
		if in.broken || !in.write {
			t.Error("a broken instance is spare")
		}
	}
}

func TestGrownInstanceIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{IdleTime: time.Hour})
	m, d := smallStore(t, p), p.Database("test")
	s := d.Read(context.Background(), m.snapshot())
	if _, err := answer(s.DB(), "SELECT length(hex(zeroblob(400000)))"); err != nil {
		t.Fatal(err)
	}
	in := s.conn.instance
	s.Rollback()
	d.Close()
	if slices.Contains(p.spares, in) {
		t.Fatal("it is spare")
	}
}

func TestSparesAreBoundedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{IdleTime: 10 * time.Second, MaxOpen: 600})
		if err != nil {
			t.Fatal(err)
		}
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
		if got := count(); got != [2]int{} || vfs.Find(name) != nil {
			t.Fatalf("%v are spare after the idle time", got)
		}
		ds := open(20) // so many that the next is made before it is asked for
		synctest.Wait()
		if got := count(); got != [2]int{1, 0} {
			t.Fatalf("%v were made ahead, want one", got)
		}
		name = first()
		for _, d := range ds {
			d.Close()
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if got := count(); got != [2]int{} || vfs.Find(name) != nil {
			t.Fatalf("%v are spare after Close", got)
		}
	})
}

// TestDatabasesTakeTurnsWithInstances has more databases than connections, each of which has to find its own content.
func TestDatabasesTakeTurnsWithInstances(t *testing.T) {
	t.Parallel()
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
					if err != nil {
						t.Error(err)
					}
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
				if got, err := queryNative(s, "SELECT v FROM t ORDER BY rowid"); err != nil || got != strings.Join(x.rows, ",") {
					t.Errorf("%s has %q, %v, want %q", x.d.name, got, err, x.rows)
				}
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
