package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3/vfs"
)

func TestOptionsSayEachFault(t *testing.T) {
	t.Parallel()
	_, err := NewPool(Options{MaxOpen: -1, ConnMemory: 1000, IdleTime: -time.Second})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, name := range []string{"MaxOpen", "ConnMemory", "IdleTime"} {
		if !strings.Contains(err.Error(), "Options."+name) {
			t.Errorf("%s is not in %q", name, err)
		}
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
	t.Parallel()
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
	if got := opened(); got != 3 {
		t.Fatalf("%d were opened", got)
	}
	use(3)
	if s := p.Stats(); s.Open != 3 || s.Evicted != 1 {
		t.Fatalf("%+v", s)
	}
	use(0)
	use(2)
	if got := opened(); got != 4 {
		t.Fatalf("%d were opened: the wrong one was closed", got)
	}
	use(1)
	if got := opened(); got != 5 {
		t.Fatalf("%d were opened", got)
	}
}

func TestPoolRefusesMoreThanMaxOpenInUse(t *testing.T) {
	t.Parallel()
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
	if err := execNative(s, "SELECT * FROM t"); !errors.Is(err, ErrBusy) {
		t.Fatalf("a third connection: %v", err)
	}
	if d.writing() {
		t.Fatal("a session without a connection is the one that writes")
	}
	in[0].Rollback()
	wantRows(t, s, "SELECT * FROM t", "one") // the same session may try again
	s.Rollback()
	in[1].Rollback()
}

func TestPoolBoundsTheMemoryOfIdleConnections(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxMemory: 4 << 20})
	m := smallStore(t, p)
	for i := range 40 {
		readStore(t, m, p.Database(fmt.Sprint(i)), "SELECT * FROM t")
		if s := p.Stats(); s.Bytes > 4<<20 || s.Bytes < 0 {
			t.Fatalf("after %d databases: %+v", i+1, s)
		}
	}
	s := p.Stats()
	if s.Evicted == 0 || s.Open < 4 {
		t.Fatalf("%+v", s)
	}
	if each := s.Bytes / int64(s.Open); each < 300<<10 || each > 1<<20 {
		t.Fatalf("a connection is said to take %d bytes", each)
	}
}

func TestSizeOfAConnectionIsReadFromTheLibrary(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{})
	m := newMapStore()
	s := p.Database("test").Write(context.Background(), m.writer())
	defer s.Rollback()
	mustExec(t, s, "CREATE TABLE t (v)")
	if s.conn.inner == nil {
		t.Fatal("the inner of a connection was not found: the library has other names for it now")
	}
	before := s.conn.size()
	mustExec(t, s, "INSERT INTO t VALUES (zeroblob(4000000)); SELECT length(hex(v)) FROM t")
	if grown := s.conn.size() - before; grown < 8<<20 || grown > 32<<20 {
		t.Fatalf("the connection has grown by %d bytes", grown)
	}
}

func TestConnectionThatHasGrownIsNotKept(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{})
	m, d := smallStore(t, p), p.Database("test")
	readStore(t, m, d, "SELECT length(hex(zeroblob(4000000)))")
	if s := p.Stats(); s.Open != 0 || s.Bytes != 0 {
		t.Fatalf("%+v", s)
	}
	readStore(t, m, d, "SELECT * FROM t")
	if s := p.Stats(); s.Open != 1 {
		t.Fatalf("%+v", s)
	}
}

func TestIdleConnectionsAreClosedByOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{IdleTime: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
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
			if s := p.Stats(); s.Open != open {
				t.Fatalf("%d are open, want %d", s.Open, open)
			}
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
		if s := p.Stats(); s.Bytes != 0 || s.Evicted != 0 || s.Opened != s.Closed {
			t.Fatalf("%+v", s)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCloseOfAPoolWaitsForSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := NewPool(Options{})
		if err != nil {
			t.Fatal(err)
		}
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
		if err := execNative(late, "SELECT 1"); !errors.Is(err, ErrClosed) {
			t.Fatalf("a session of a closed pool: %v", err)
		}
		if changed, err := s.Commit(); !changed || err != nil {
			t.Fatalf("Commit = %v, %v", changed, err)
		}
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		if s := p.Stats(); s.Open != 0 || s.InUse != 0 || s.Bytes != 0 {
			t.Fatalf("%+v", s)
		}
		if vfs.Find(name.name) != nil {
			t.Fatal("the file system of a closed connection is still registered")
		}
	})
}

func TestClosedDatabaseLetsReadersFinish(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{})
	m, d := smallStore(t, p), p.Database("test")
	begun, unused := d.Read(context.Background(), m.snapshot()), d.Read(context.Background(), m.snapshot())
	wantRows(t, begun, "SELECT * FROM t", "one")
	unusedWrite := d.Write(context.Background(), m.writer())
	d.Close()
	wantRows(t, begun, "SELECT * FROM t", "one")
	wantRows(t, unused, "SELECT * FROM t", "one")
	if err := execNative(unusedWrite, "SELECT 1"); !errors.Is(err, ErrClosed) {
		t.Fatalf("a write session that began with a closed database: %v", err)
	}
	if err := execNative(d.Read(context.Background(), m.snapshot()), "SELECT 1"); !errors.Is(err, ErrClosed) {
		t.Fatalf("a read session after Close: %v", err)
	}
	begun.Rollback()
	unused.Rollback()
	if s := p.Stats(); s.Open != 0 {
		t.Fatalf("%d connections of a closed database are open", s.Open)
	}
}

func TestManyOpensLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	p := newTestPool(t, Options{MaxOpen: 8})
	m := smallStore(t, p)
	opens := 300
	if RaceDetector {
		opens = 60
	}
	for i := range opens {
		d := p.Database(fmt.Sprint(i))
		if i%3 == 0 {
			s := d.Write(context.Background(), m.writer())
			mustExec(t, s, "INSERT INTO t VALUES (1)")
			if i%2 == 0 {
				s.Commit()
			}
			s.Rollback()
		}
		readStore(t, m, d, "SELECT * FROM t")
		if s := p.Stats(); s.Open > 8 || s.InUse != 0 {
			t.Fatalf("%+v", s)
		}
	}
	p.Close()
	if s := p.Stats(); s.Open != 0 || s.Bytes != 0 || s.Opened != s.Closed || p.oldest != nil || p.newest != nil {
		t.Fatalf("%+v", s)
	}
}

func TestManyReadersBesideAWriter(t *testing.T) {
	t.Parallel()
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
				if err != nil && !errors.Is(err, ErrBusy) || err == nil && !strings.HasPrefix(first, "1|") {
					t.Errorf("read %s, %v", first, err)
				}
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
			if _, err := s.Commit(); err != nil {
				t.Fatal(err)
			}
			d.Discard()
		default:
			if _, err := s.Commit(); err != nil {
				t.Fatal(err)
			}
			m.commit(w)
		}
	}
	close(done)
	group.Wait()
	checkStore(t, m, d)
}
