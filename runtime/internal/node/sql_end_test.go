package node

import (
	"context"
	"database/sql"
	"runtime"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
)

func TestAHandleIsClosedAfterItsTurnOrQuery(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	var handles []*sql.DB
	var turn host.Turn
	var query host.Reader
	g.must("a", func(p *puppet, h host.Turn) error {
		turn = h
		handles = append(handles, h.SQL())
		return note("one")(p, h)
	})
	g.ok(g.look("a", func(_ *puppetState, r host.Reader) error {
		query = r
		handles = append(handles, r.SQL())
		return exec(r, "SELECT 1")
	}))
	handles = append(handles, turn.SQL(), query.SQL())
	for i, db := range handles {
		if _, err := db.Exec("INSERT INTO note (body) VALUES ('late')"); err == nil {
			t.Errorf("handle %d works", i)
		}
	}
	g.wantNotes("a", "one")
}

func TestGoroutinesOfAHandlerCannotOutliveItsSession(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	for _, fail := range []error{nil, errOnPurpose} {
		ended := make(chan error, 1)
		g.do("a", func(p *puppet, h host.Turn) error {
			db, begun := h.SQL(), make(chan bool)
			go func() {
				close(begun)
				_, err := db.Exec("WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO note (body) SELECT x FROM n")
				ended <- err
			}()
			<-begun
			for g.sqlPool().Stats().InUse == 0 { // the statement has not got its connection yet
				runtime.Gosched()
			}
			return fail
		})
		if err := <-ended; err == nil {
			t.Fatal("the statement came to an end")
		}
	}
	g.wantNotes("a", "one")
	g.must("a", note("two"))
	g.check("a")
}

func TestATransactionThatIsRolledBackAfterTheHandlerCountsAsOpen(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		tx, err := h.SQL().BeginTx(h, nil)
		if err != nil {
			return err
		}
		p.s.N++
		if _, err := tx.ExecContext(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		// What happens when the handler has returned: its context ends, and package database/sql rolls the transaction back,
		// here before the commit in any case.
		kernelTurn(h).Close()
		tx.Rollback()
		return nil
	}), host.FailedPrecondition)
	same(t, g.n("a"), 0, "the state was kept without the rows")
	g.wantNotes("a", "one")
	g.check("a")
}

func TestAQueryThatBeginsWhileItsCoreClosesIsServed(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	snap, _, err := g.Durable(context.Background(), pAddr("a"))
	g.ok(err)
	defer snap.Close()
	for range 100 {
		var b sqlite.Database
		a := &kernel.Actor{Kernel: g.Kernel, Type: &kernel.Type{Behavior: &host.Behavior{}}, Address: pAddr("a")}
		a.Limits.Store(&limit.Set{})
		read := func() *sqlitevfs.Session {
			return b.Read(context.Background(), a, sqlite.SnapshotReader{Snapshot: snap})
		}
		last := make(chan *sqlitevfs.Session)
		for range 4 {
			s := read()
			go func() {
				for next := s; next != nil; next = read() {
					s = next
				}
				last <- s // begun just before the end
			}()
		}
		b.Close(nil)
		for range 4 {
			s := <-last
			check(t, errOf(s.DB().Exec("SELECT 1")))
			s.Rollback()
		}
	}
}
