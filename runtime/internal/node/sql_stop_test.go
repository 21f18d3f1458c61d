package node

import (
	"context"
	"errors"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
)

const (
	// runaway is a statement that never ends, endless one call of a function that takes an hour: it multiplies two numbers of a
	// million digits.
	runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	endless = "SELECT decimal_mul(printf('%.*c', 1000000, '7'), printf('%.*c', 1000000, '3'))"
)

func TestADeadlineInterruptsAStatement(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", decimal: true, limits: host.Limits{TurnTimeout: 250 * time.Millisecond, QueryTimeout: 100 * time.Millisecond}})
	g.patiently("a", note("one"))
	waits := map[string]func(r host.Reader) error{
		"a statement":                   func(r host.Reader) error { _, err := r.SQL().Exec(runaway); return err },
		"a statement of its context":    func(r host.Reader) error { return exec(r, runaway) },
		"one call of a function":        func(r host.Reader) error { return exec(r, endless) },
		"a handler without a statement": func(r host.Reader) error { <-r.Done(); return r.Err() },
		"a deadline without Done":       func(r host.Reader) error { return untilDeadline(r) },
	}
	if goruntime.GOOS != "linux" && goruntime.GOOS != "darwin" { // calls of SQLite cannot be stopped there
		delete(waits, "one call of a function")
	}
	for name, wait := range waits {
		err := g.look("a", func(_ *puppetState, r host.Reader) error { return wait(r) })
		errorIf(t, host.CodeOf(err) != host.DeadlineExceeded, "%s in a query: %v", name, err)
		if strings.Contains(name, "without") {
			continue
		}
		if err = g.do("a", func(_ *puppet, h host.Turn) error {
			if err := exec(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
				return err
			}
			return wait(h)
		}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Errorf("%s in a turn: %v", name, err)
		}
	}
	g.patiently("a", note("two"))
	g.wantNotes("a", "one", "two")
}

func TestADryRunTakesNoLongerThanATurn(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, nil, typ)
	g.must("a", insert("one"))
	typ.migrations = append(schema[:1:1], host.Migration{Name: "2", SQL: strings.Replace(runaway, ") SELECT", ") INSERT INTO note (body) SELECT", 1)})
	typ.limits = host.Limits{TurnTimeout: time.Second}
	g.restart()
	var out host.SQLMigrateOutput
	g.mustVerb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out)
	errorIf(t, out.Migration != "2" || out.Error != "it takes longer than a turn of the type may, 1s" || len(out.Applied) != 0, "%+v", out)
}

// untilDeadline waits for the deadline of a context without Done.
func untilDeadline(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		return errors.New("there is no deadline")
	}
	for ctx.Err() == nil {
		goruntime.Gosched()
	}
	return ctx.Err()
}

func TestAQueryEndsAtItsLimitOrThatOfItsCaller(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		for given, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: limit.DefaultQueryTimeout} {
			ctx, cancel := context.WithTimeout(context.Background(), given)
			defer cancel()
			begun := time.Now()
			_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
				Input: remember(glance(func(_ *puppetState, r host.Reader) error { <-r.Done(); return r.Err() }))})
			wantCode(t, err, host.DeadlineExceeded)
			same(t, time.Since(begun), want, "a caller with", given, "is answered after")
		}
	})
}

// patiently runs a turn that must succeed. It is tried again if the machine was too slow for the limit: nothing of it was kept
// then.
func (g *stage) patiently(key string, f deed) {
	g.t.Helper()
	err := g.do(key, f)
	for host.CodeOf(err) == host.DeadlineExceeded {
		err = g.do(key, f)
	}
	g.ok(err)
}

func TestStatementsAreInterruptedWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.TurnGrace = 2 * time.Minute })
	g.must("a", note("one"))
	g.must("b", note("one"))
	began, ended := make(chan bool, 2), make(chan error, 2)
	runs := func(r host.Reader) error {
		began <- true
		_, err := r.SQL().Exec(runaway)
		return err
	}
	go func() { ended <- g.look("a", func(_ *puppetState, r host.Reader) error { return runs(r) }) }()
	go func() {
		ended <- g.do("b", series(
			func(_ *puppet, h host.Turn) error { return exec(h, "DELETE FROM note") },
			func(_ *puppet, h host.Turn) error { return runs(h) },
		))
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

func (c stuckContext) Err() error {
	select {
	case c.asked <- true:
	default:
	}
	<-c.release
	return nil
}

// timeIsUp makes the watchdog treat running turns as late, however little time has passed: on a
// slow machine, a limit short enough for the test would end turns that must succeed.
func (g *stage) timeIsUp() { g.Watchdog.Look(time.Now().Add(24 * time.Hour)) }

func TestAStatementThatCannotBeInterruptedDoesNotHangItsActor(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: time.Hour}})
	g.must("a", note("one"))
	for _, fail := range []error{nil, errOnPurpose} {
		stuck, done := stuckContext{context.Background(), make(chan bool, 100), make(chan bool)}, make(chan error, 1)
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
