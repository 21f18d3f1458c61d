package node

import (
	"context"
	"database/sql"
	"runtime"
	"strings"
	"testing"
	"time"

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
	if err := g.look("a", func(_ *puppetState, r host.Reader) error {
		query = r
		handles = append(handles, r.SQL())
		return exec(r, "SELECT 1")
	}); err != nil {
		t.Fatal(err)
	}
	handles = append(handles, turn.SQL(), query.SQL())
	for i, db := range handles {
		if _, err := db.Exec("INSERT INTO note (body) VALUES ('late')"); err == nil {
			t.Errorf("handle %d works", i)
		}
	}
	g.wantNotes("a", "one")
}

func TestAFailedSealTakesBackTheRowsThatWerePut(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{WriteSetBytes: 128 << 10}, events: []host.Event{{Name: "e"}}})
	g.must("a", note("one"))
	// The row fits, the event that is written after it does not.
	err := g.do("a", func(p *puppet, h host.Turn) error {
		if err := note(strings.Repeat("lost", 750))(p, h); err != nil {
			return err
		}
		return h.Emit(0, []byte(`"`+strings.Repeat("x", 127<<10)+`"`))
	})
	wantCode(t, err, host.TooLarge)
	g.wantNotes("a", "one")
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
	g.check("a")
}

// timeIsUp makes the watchdog treat running turns as late, however little time has passed: on a
// slow machine, a limit short enough for the test would end turns that must succeed.
func (g *stage) timeIsUp() { g.Watchdog.Look(time.Now().Add(24 * time.Hour)) }

// soon waits for what other goroutines are about to do.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

func TestAnAbandonedHandlerCannotReachTheDatabaseOfTheNextCore(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: time.Hour}})
	g.must("a", note("one"))
	wrote, release, done := make(chan bool), make(chan bool), make(chan error, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- g.do("a", func(p *puppet, h host.Turn) error {
			err := note("lost")(p, h)
			close(wrote)
			if err != nil {
				done <- nil
				return err
			}
			db := h.SQL()
			<-release
			_, err = db.Exec("INSERT INTO note (body) VALUES ('late')")
			done <- err
			return nil
		})
	}()
	<-wrote
	g.timeIsUp()
	wantCode(t, <-ended, host.DeadlineExceeded)
	g.must("a", note("two"))
	soon(t, "its connection comes back though it does not return", func() bool { return g.sqlPool().Stats().InUse == 0 })
	close(release)
	if err := <-done; err == nil {
		t.Error("the abandoned handler could write")
	}
	g.wantNotes("a", "one", "two")
	g.check("a")
}

func TestAHandlerThatEndsItsGoroutineGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := note("lost")(p, h); err != nil {
			return err
		}
		goexit()
		return nil
	}), host.Crashed)
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
	if n := g.sqlPool().Stats().InUse; n != 0 {
		t.Fatalf("%d connections are in use", n)
	}
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

func TestARefusedCommitIsForgottenByConnections(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.wantNotes("a", "one")
	// The space is opened anew behind the kernel's back, so that the next commit is fenced.
	a := g.Find(pAddr("a"))
	a.Mu.Lock()
	space, err := g.store.OpenSpace(a.Core.ID)
	a.Mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.do("a", note("refused")); err == nil {
		t.Fatal("the commit was not refused")
	}
	space.Close()
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
	g.check("a")
}

func goexit() { runtime.Goexit() }

func TestStatementsAreInterruptedWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	const runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	g := newStage(t, func(o *Options) { o.TurnGrace = 2 * time.Minute })
	g.must("a", note("one"))
	g.must("b", note("one"))
	began := make(chan bool, 2)
	ended := make(chan error, 2)
	go func() {
		ended <- g.look("a", func(_ *puppetState, r host.Reader) error {
			began <- true
			_, err := r.SQL().Exec(runaway)
			return err
		})
	}()
	go func() {
		ended <- g.do("b", func(_ *puppet, h host.Turn) error {
			if err := exec(h, "DELETE FROM note"); err != nil {
				return err
			}
			began <- true
			_, err := h.SQL().Exec(runaway)
			return err
		})
	}()
	<-began
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Close(ctx); err == nil || strings.Contains(err.Error(), "left behind") { // as it is when the grace is over
		t.Errorf("the close: %v", err)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("a statement came to its end")
		}
	}
	g.store.Close()
	g.start()
	g.wantNotes("b", "one")
}

// A stuckContext blocks calls of Err until it is released: a statement with it cannot be
// interrupted.
type stuckContext struct {
	context.Context
	asked   chan bool
	release chan bool
}

func newStuckContext() stuckContext {
	return stuckContext{context.Background(), make(chan bool, 100), make(chan bool)}
}

func (c stuckContext) Err() error {
	select {
	case c.asked <- true:
	default:
	}
	<-c.release
	return nil
}

func TestAStatementThatCannotBeInterruptedDoesNotHangItsActor(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: time.Hour}})
	g.must("a", note("one"))
	for _, fail := range []error{nil, errOnPurpose} {
		stuck, done := newStuckContext(), make(chan error, 1)
		returns, ended := make(chan bool), make(chan error, 1)
		go func() {
			ended <- g.do("a", func(p *puppet, h host.Turn) error {
				defer close(returns)
				if err := note("lost")(p, h); err != nil {
					done <- nil
					return err
				}
				db := h.SQL()
				go func() {
					_, err := db.ExecContext(stuck, "INSERT INTO note (body) VALUES ('late')")
					done <- err
				}()
				<-stuck.asked
				return fail
			})
		}()
		<-returns
		g.timeIsUp()
		wantCode(t, <-ended, host.DeadlineExceeded)
		g.must("a", note("next"))
		close(stuck.release)
		if err := <-done; err == nil {
			t.Error("the statement that was left could write")
		}
	}
	g.wantNotes("a", "one", "next", "next")
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
	if n := g.n("a"); n != 0 {
		t.Errorf("the state was kept without the rows: %d", n)
	}
	g.wantNotes("a", "one")
	g.check("a")
}

func TestAQueryThatBeginsWhileItsCoreClosesIsServed(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	snap, _, err := g.Durable(context.Background(), pAddr("a"))
	if err != nil {
		t.Fatal(err)
	}
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
			if _, err := s.DB().Exec("SELECT 1"); err != nil {
				t.Error(err)
			}
			s.Rollback()
		}
	}
}
