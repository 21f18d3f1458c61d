package supervisor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// run executes a statement that must succeed.
func run(t host.Reader, stmt string, args ...any) error {
	_, err := t.SQL().ExecContext(t, stmt, args...)
	return err
}

// note is a deed that adds a row.
func note(body string) deed {
	return func(_ *puppet, t host.Turn) error {
		if err := run(t, "CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
			return err
		}
		return run(t, "INSERT INTO note (body) VALUES (?)", body)
	}
}

// bodies reads the notes.
func bodies(r host.Reader) ([]string, error) {
	rows, err := r.SQL().QueryContext(r, "SELECT body FROM note ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// look runs a closure as a query.
func (g *stage) look(key string, f glance) error {
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON, Input: remember(f)})
	return err
}

// notes reads the notes of an actor by a query.
func (g *stage) notes(key string) (all []string) {
	g.t.Helper()
	if err := g.look(key, func(_ *puppetState, r host.Reader) (err error) {
		all, err = bodies(r)
		return err
	}); err != nil {
		g.t.Fatal(err)
	}
	return all
}

func (g *stage) wantNotes(key string, want ...string) {
	g.t.Helper()
	if got := g.notes(key); !slices.Equal(got, want) {
		g.t.Fatalf("notes of %s: %q, want %q", key, got, want)
	}
}

var errOnPurpose = errors.New("on purpose")

func TestRowsOfATurnStandOrFallWithIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	for _, end := range []deed{
		func(*puppet, host.Turn) error { return errOnPurpose },
		func(*puppet, host.Turn) error { panic("on purpose") },
	} {
		err := g.do("a", func(p *puppet, h host.Turn) error {
			p.s.N = 99
			if err := note("lost")(p, h); err != nil {
				return err
			}
			if err := run(h, "CREATE TABLE gone (x)"); err != nil {
				return err
			}
			return end(p, h)
		})
		if err == nil {
			t.Fatal("the turn did not fail")
		}
	}
	g.must("a", func(p *puppet, h host.Turn) error {
		if all, err := bodies(h); err != nil || !slices.Equal(all, []string{"one"}) {
			return fmt.Errorf("the next turn sees %q, %v", all, err)
		}
		if err := run(h, "SELECT * FROM gone"); err == nil {
			return errors.New("a table of a failed turn is there")
		}
		return note("two")(p, h)
	})
	g.wantNotes("a", "one", "two")
	if n := g.n("a"); n != 0 {
		t.Fatalf("N is %d", n)
	}
	g.restart()
	g.wantNotes("a", "one", "two")
	g.crash()
	g.wantNotes("a", "one", "two")
}

func TestATurnThatOnlyReadsRowsCommitsNothing(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	before := g.status("a").Version
	g.must("a", func(_ *puppet, h host.Turn) error { _, err := bodies(h); return err })
	g.must("a", func(_ *puppet, h host.Turn) error { return run(h, "UPDATE note SET body = body WHERE id = 77") })
	g.must("a", func(_ *puppet, h host.Turn) error { h.SQL(); return nil })
	if after := g.status("a").Version; after != before {
		t.Fatalf("the version went from %d to %d", before, after)
	}
	g.must("a", note("two"))
	if after := g.status("a").Version; after != before+1 {
		t.Fatalf("a turn that wrote SQL only took the version from %d to %d", before, after)
	}
}

func TestRowsCanBeReadWhileOthersAreWritten(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", func(p *puppet, h host.Turn) error {
		for i := range 20 {
			if err := note(fmt.Sprint(i))(p, h); err != nil {
				return err
			}
		}
		rows, err := h.SQL().QueryContext(h, "SELECT id FROM note")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int
			if err := rows.Scan(&id); err != nil {
				return err
			}
			var body string
			if err := h.SQL().QueryRowContext(h, "SELECT body FROM note WHERE id = ?", id).Scan(&body); err != nil {
				return err
			}
			if err := run(h, "UPDATE note SET body = ? WHERE id = ?", body+"!", id); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if all := g.notes("a"); len(all) != 20 || all[19] != "19!" {
		t.Fatalf("%q", all)
	}
}

func TestTransactionsInATurnAreSavepointsOfIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := note("before")(p, h); err != nil {
			return err
		}
		for _, keep := range []bool{false, true} {
			tx, err := h.SQL().BeginTx(h, nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(h, "INSERT INTO note (body) VALUES (?)", fmt.Sprint("keep ", keep)); err != nil {
				return err
			}
			if keep {
				err = tx.Commit()
			} else {
				err = tx.Rollback()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	g.wantNotes("a", "before", "keep true")
	err := g.do("a", func(p *puppet, h host.Turn) error {
		tx, err := h.SQL().BeginTx(h, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(h, "INSERT INTO note (body) VALUES ('committed')"); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		return errOnPurpose
	})
	if err == nil {
		t.Fatal("no error")
	}
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error { return run(h, "BEGIN; DELETE FROM note") }), host.FailedPrecondition)
	g.wantNotes("a", "before", "keep true")
}

func TestQueriesSeeTheLastCommitAndNotTheTurnUnderWay(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	wrote, looked := make(chan bool), make(chan bool)
	done := make(chan error)
	go func() {
		done <- g.do("a", func(p *puppet, h host.Turn) error {
			if err := note("two")(p, h); err != nil {
				return err
			}
			close(wrote)
			<-looked
			return note("three")(p, h)
		})
	}()
	<-wrote
	g.wantNotes("a", "one")
	err := g.look("a", func(_ *puppetState, r host.Reader) error {
		if _, err := bodies(r); err != nil {
			return err
		}
		close(looked)
		if err := <-done; err != nil { // the turn commits while the query runs
			return err
		}
		all, err := bodies(r)
		if err == nil && !slices.Equal(all, []string{"one"}) {
			err = fmt.Errorf("the query sees %q after a commit", all)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g.wantNotes("a", "one", "two", "three")
}

func TestATurnThatQueriesItsOwnActorSeesTheLastCommit(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.must("b", note("other"))
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := note("two")(p, h); err != nil {
			return err
		}
		for key, want := range map[string][]string{"a": {"one"}, "b": {"other"}} {
			var got []string
			if _, err := h.Call(h, &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON,
				Input: remember(glance(func(_ *puppetState, r host.Reader) (err error) { got, err = bodies(r); return err }))}); err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("%s: %q", key, got)
			}
		}
		if all, err := bodies(h); err != nil || len(all) != 2 {
			return fmt.Errorf("the turn itself sees %q, %w", all, err)
		}
		return note("three")(p, h)
	})
	g.wantNotes("a", "one", "two", "three")
}

func TestQueriesCannotWriteRows(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	for _, stmt := range []string{"INSERT INTO note (body) VALUES ('x')", "CREATE TABLE t (x)", "DELETE FROM note", "VACUUM"} {
		err := g.look("a", func(_ *puppetState, r host.Reader) error { return run(r, stmt) })
		wantCode(t, err, host.ReadOnly)
	}
	// Not either where there is no database yet.
	g.must("b", add(1))
	err := g.look("b", func(_ *puppetState, r host.Reader) error { return run(r, "CREATE TABLE t (x)") })
	wantCode(t, err, host.ReadOnly)
	if err := g.look("b", func(_ *puppetState, r host.Reader) error { return run(r, "SELECT 1") }); err != nil {
		t.Fatal(err)
	}
	g.wantNotes("a", "one")
}

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
		return run(r, "SELECT 1")
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

func TestATurnInAGroupIsUndoneAlone(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	quickly := func(n int) {
		for range n { // so that the method is known to be quick, and turns share commits
			g.must("a", func(*puppet, host.Turn) error { return nil })
		}
	}
	g.must("a", note("first"))
	quickly(300)
	// One turn holds the mailbox while others gather behind it.
	started, release := make(chan bool), make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		g.must("a", func(*puppet, host.Turn) error { close(started); <-release; return nil })
	})
	<-started
	before := g.status("a").Version
	var failed, ok int
	var mu sync.Mutex
	for i := range 60 {
		wg.Go(func() {
			err := g.do("a", func(p *puppet, h host.Turn) error {
				p.s.N++
				if err := run(h, "INSERT INTO note (body) VALUES (?)", fmt.Sprint(i)); err != nil {
					return err
				}
				if i%3 == 1 {
					return errOnPurpose
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
			} else {
				ok++
			}
		})
	}
	for g.status("a").Mailbox < 60 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	wg.Wait()
	if failed != 20 || ok != 40 {
		t.Fatalf("%d failed, %d succeeded", failed, ok)
	}
	all := g.notes("a")
	if len(all) != 41 || g.n("a") != 40 {
		t.Fatalf("%d notes, N is %d: %q", len(all), g.n("a"), all)
	}
	if after := g.status("a").Version; after != before+40 {
		t.Fatalf("the version went from %d to %d", before, after)
	}
	g.crash()
	if again := g.notes("a"); !slices.Equal(again, all) {
		t.Fatalf("after a crash %q, before %q", again, all)
	}
	g.check("a")
}

// check runs SQLite's own check of an actor's database.
func (g *stage) check(key string) {
	g.t.Helper()
	var said string
	if err := g.look(key, func(_ *puppetState, r host.Reader) error {
		return r.SQL().QueryRowContext(r, "PRAGMA integrity_check").Scan(&said)
	}); err != nil || said != "ok" {
		g.t.Fatalf("integrity_check of %s: %q, %v", key, said, err)
	}
}

func TestATurnThatWaitsCommitsThoseBeforeItAndNotItsOwnRows(t *testing.T) {
	t.Parallel()
	for _, vacuum := range []bool{false, true} {
		g := newStage(t, nil)
		g.must("a", note("first"))
		for range 300 {
			g.must("a", func(*puppet, host.Turn) error { return nil })
		}
		started, release := make(chan bool), make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() { g.must("a", func(*puppet, host.Turn) error { close(started); <-release; return nil }) })
		<-started
		for i := range 3 {
			wg.Go(func() { g.must("a", note(fmt.Sprint(i))) })
		}
		var failure error
		for g.status("a").Mailbox < 3 {
			time.Sleep(time.Millisecond)
		}
		wg.Go(func() {
			failure = g.do("a", func(p *puppet, h host.Turn) error {
				if err := note("lost")(p, h); err != nil {
					return err
				}
				if vacuum {
					if err := run(h, "VACUUM"); err != nil {
						return err
					}
				}
				h.Done() // the turns before this one are committed
				if err := note("lost too")(p, h); err != nil {
					return err
				}
				return errOnPurpose
			})
		})
		for g.status("a").Mailbox < 4 {
			time.Sleep(time.Millisecond)
		}
		close(release)
		wg.Wait()
		if failure == nil {
			t.Fatal("no error")
		}
		if all := g.notes("a"); len(all) != 4 || slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "lost") }) {
			t.Fatalf("vacuum %v: %q", vacuum, all)
		}
		g.must("a", note("last"))
		g.check("a")
		g.crash()
		if all := g.notes("a"); len(all) != 5 {
			t.Fatalf("vacuum %v, after a crash: %q", vacuum, all)
		}
		g.check("a")
	}
}

func TestAFailedSealTakesBackTheRowsThatWerePut(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{WriteSetBytes: 128 << 10}, events: []host.Event{{Name: "e"}}})
	g.must("a", note("one"))
	// The rows fit, the event that is written after them does not.
	err := g.do("a", func(p *puppet, h host.Turn) error {
		if err := note("lost")(p, h); err != nil {
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

func TestAnActorMadeByAFailedCallLeavesNoDatabase(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", create: note("created")})
	if err := g.do("a", func(*puppet, host.Turn) error { return errOnPurpose }); err == nil {
		t.Fatal("no error")
	}
	if _, err := g.Lookup(context.Background(), pAddr("a")); host.CodeOf(err) != host.NotFound {
		t.Fatalf("look-up: %v", err)
	}
	g.must("a", note("one"))
	g.wantNotes("a", "created", "one")
}

func TestADestroyedActorBeginsAgainWithAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.wantNotes("a", "one")
	if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
		t.Fatal(err)
	}
	g.must("a", func(_ *puppet, h host.Turn) error {
		var n int
		err := h.SQL().QueryRowContext(h, "SELECT count(*) FROM sqlite_schema").Scan(&n)
		if err == nil && n != 0 {
			err = fmt.Errorf("there are %d tables", n)
		}
		return err
	})
	// By its own hand, after writing.
	g.must("a", note("two"))
	g.must("a", func(p *puppet, h host.Turn) error {
		h.DestroySelf()
		return note("three")(p, h)
	})
	g.must("a", note("four"))
	g.wantNotes("a", "four")
	g.check("a")
	if n := g.sql.Stats().InUse; n != 0 {
		t.Fatalf("%d connections are in use", n)
	}
}

func TestASleepingActorHasNoConnection(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.wantNotes("a", "one")
	if n := g.sql.Stats().Open; n < 2 {
		t.Fatalf("%d connections are open, want one for the turns and one for the queries", n)
	}
	// A query may go on while the actor falls asleep under it.
	if err := g.look("a", func(_ *puppetState, r host.Reader) error {
		db := r.SQL()
		g.mustVerb("a", host.ActorSleep, nil, nil)
		if n := g.sql.Stats().Open; n != 0 {
			return fmt.Errorf("%d connections are open", n)
		}
		var n int
		if err := db.QueryRowContext(r, "SELECT count(*) FROM note").Scan(&n); err != nil || n != 1 {
			return fmt.Errorf("%d notes: %w", n, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// Nor one that asks for its first rows only then.
	g.must("a", add(1))
	if err := g.look("a", func(_ *puppetState, r host.Reader) error {
		g.mustVerb("a", host.ActorSleep, nil, nil)
		all, err := bodies(r)
		if err == nil && len(all) != 1 {
			err = fmt.Errorf("%q", all)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if s := g.sql.Stats(); s.Open != 0 || s.InUse != 0 || s.Bytes != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestMoreActorsThanConnections(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.MaxOpen = 4 })
	const actors = 24
	for round := range 3 {
		for i := range actors {
			g.must(fmt.Sprint(i), note(fmt.Sprint(round)))
		}
	}
	s := g.sql.Stats()
	if s.Open > 4 || s.Evicted == 0 {
		t.Fatalf("%+v", s)
	}
	for i := range actors {
		g.wantNotes(fmt.Sprint(i), "0", "1", "2")
	}
	// When all connections are in use, the next one that is needed is refused.
	hold, held := make(chan bool), make(chan bool)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			g.must(fmt.Sprint(i), func(p *puppet, h host.Turn) error {
				err := note("3")(p, h)
				held <- true
				<-hold
				return err
			})
		})
	}
	for range 4 {
		<-held
	}
	if e := wantCode(t, g.do("9", note("x")), host.Overloaded); !e.Retryable {
		t.Error("it is not retryable")
	}
	close(hold)
	wg.Wait()
	g.must("9", note("3"))
}

func TestADeadlineInterruptsAStatement(t *testing.T) {
	t.Parallel()
	const runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: 500 * time.Millisecond}})
	g.must("a", note("one"))
	begun := time.Now()
	// With the turn as its context, and without any.
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := run(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		return run(h, runaway)
	}), host.DeadlineExceeded)
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error { _, err := h.SQL().Exec(runaway); return err }), host.DeadlineExceeded)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
		Input: remember(glance(func(_ *puppetState, r host.Reader) error { _, err := r.SQL().Exec(runaway); return err }))})
	wantCode(t, err, host.DeadlineExceeded)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
}

func TestOutOfMemoryIsAnErrorOfTheTurn(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.ConnMemory = 8 << 20 })
	g.must("a", note("one"))
	hog := func(r host.Reader) error {
		return r.SQL().QueryRowContext(r, "SELECT group_concat(hex(zeroblob(500000)), '') FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12))").Scan(new(string))
	}
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := run(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		return hog(h)
	}), host.TooLarge)
	wantCode(t, g.look("a", func(_ *puppetState, r host.Reader) error { return hog(r) }), host.TooLarge)
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
}

func TestAFullDatabaseCanBeReadAndTrimmed(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{StorageBytes: 256 << 10}})
	g.must("a", note("one"))
	blob := strings.Repeat("x", 8<<10)
	n := 0
	var err error
	for ; err == nil; n++ {
		err = g.do("a", note(blob))
	}
	wantCode(t, err, host.QuotaExceeded)
	if n < 20 || n > 40 {
		t.Fatalf("%d notes of 8 KiB fit in 256 KiB", n)
	}
	// SQLite gives the whole transaction up when it is full, so a handler cannot ignore that.
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := note(blob)(p, h); !errors.Is(err, sqlitevfs.ErrFull) {
			return fmt.Errorf("the insert: %v", err)
		}
		return nil
	}), host.QuotaExceeded)
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := run(h, "UPDATE note SET body = 'uno' WHERE id = 1"); err != nil {
			return err
		}
		return run(h, "DELETE FROM note WHERE id > 5")
	})
	if all := g.notes("a"); len(all) != 5 || all[0] != "uno" {
		t.Fatalf("%d notes", len(all))
	}
	g.must("a", note(blob))
	g.must("a", func(_ *puppet, h host.Turn) error { return run(h, "VACUUM") })
	if b := g.status("a").Bytes; b > 100<<10 {
		t.Fatalf("the actor has %d bytes after VACUUM", b)
	}
	g.check("a")
}

func TestAnAbandonedHandlerCannotReachTheDatabaseOfTheNextCore(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.TurnGrace = 20 * time.Millisecond },
		&puppetType{name: "p", limits: host.Limits{TurnTimeout: 500 * time.Millisecond}})
	g.must("a", note("one"))
	release, done := make(chan bool), make(chan error)
	err := g.do("a", func(p *puppet, h host.Turn) error {
		if err := note("lost")(p, h); err != nil {
			return err
		}
		db := h.SQL()
		<-release
		_, err := db.Exec("INSERT INTO note (body) VALUES ('late')")
		done <- err
		return nil
	})
	wantCode(t, err, host.DeadlineExceeded)
	g.must("a", note("two"))
	close(release)
	if err := <-done; err == nil {
		t.Error("the abandoned handler could write")
	}
	g.wantNotes("a", "one", "two")
	for i := 0; g.sql.Stats().InUse != 0; i++ { // its connection comes back when it has ended
		if i > 2000 {
			t.Fatal("its connection is still in use")
		}
		time.Sleep(time.Millisecond)
	}
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
	if n := g.sql.Stats().InUse; n != 0 {
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
			time.Sleep(5 * time.Millisecond)
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

func TestTasksEnterTurnsWithSQL(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	ended := make(chan error, 1)
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := note("turn")(p, h); err != nil {
			return err
		}
		return h.Go("task", func(k host.Task) error {
			for _, fail := range []error{nil, errOnPurpose, nil} {
				if err := k.Turn(k, func(_ any, h host.Turn) error {
					if err := run(h, "INSERT INTO note (body) VALUES ('task')"); err != nil {
						return err
					}
					return fail
				}); !errors.Is(err, fail) {
					ended <- err
					return nil
				}
			}
			ended <- nil
			return nil
		})
	})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	g.wantNotes("a", "turn", "task", "task")
}

func TestARefusedCommitIsForgottenByConnections(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.wantNotes("a", "one")
	// The space is opened anew behind the supervisor's back, so that the next commit is fenced.
	a := g.find(pAddr("a"))
	a.mu.Lock()
	space, err := g.store.OpenSpace(a.core.id)
	a.mu.Unlock()
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

func TestActorsThatSleepForMemoryGiveTheirConnectionsBack(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.MaxAwake = 4 })
	for i := range 12 {
		g.must(fmt.Sprint(i), note("one"))
	}
	for i := 0; g.memory.awake.Load() > 4; i++ {
		if i > 5000 {
			t.Fatalf("%d actors are awake", g.memory.awake.Load())
		}
		time.Sleep(time.Millisecond)
	}
	if n := g.sql.Stats().Open; n > 5 { // one may be falling asleep right now
		t.Fatalf("%d connections are open", n)
	}
}

func TestStatementsAreInterruptedWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	const runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	g := newStage(t, nil)
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
			if err := run(h, "DELETE FROM note"); err != nil {
				return err
			}
			began <- true
			_, err := h.SQL().Exec(runaway)
			return err
		})
	}()
	<-began
	<-began
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Close(ctx); err == nil || strings.Contains(err.Error(), "left behind") {
		t.Errorf("the close: %v", err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("the close took %v", took)
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

func TestTurnsWithoutSQLAllocateNothingForIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	if err := g.look("a", func(*puppetState, host.Reader) error { return nil }); err != nil {
		t.Fatal(err)
	}
	a := g.find(pAddr("a"))
	a.core.sql.mu.Lock()
	defer a.core.sql.mu.Unlock()
	if a.core.sql.d != nil {
		t.Error("a database was made")
	}
	if s := g.sql.Stats(); s.Opened != 0 {
		t.Errorf("%+v", s)
	}
}
