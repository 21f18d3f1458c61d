package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// exec executes a statement that must succeed.
func exec(t host.Reader, stmt string, args ...any) error {
	_, err := t.SQL().ExecContext(t, stmt, args...)
	return err
}

// note is a deed that adds a row.
func note(body string) deed {
	return func(_ *puppet, t host.Turn) error {
		if err := exec(t, "CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"); err != nil {
			return err
		}
		return exec(t, "INSERT INTO note (body) VALUES (?)", body)
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
			if err := exec(h, "UPDATE note SET body = ? WHERE id = ?", body+"!", id); err != nil {
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
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error { return exec(h, "BEGIN; DELETE FROM note") }), host.FailedPrecondition)
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
				if err := exec(h, "INSERT INTO note (body) VALUES (?)", fmt.Sprint(i)); err != nil {
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
					if err := exec(h, "VACUUM"); err != nil {
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
