package node

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
	"github.com/cairn-run/cairn/workflow"
)

// exec executes a statement that must succeed.
func exec(t host.Reader, stmt string, args ...any) error {
	_, err := t.SQL().ExecContext(t, stmt, args...)
	return err
}

// note is a deed that adds a row, insert one that needs the table of the migrations.
func note(body string) deed {
	return series(func(_ *puppet, t host.Turn) error {
		return exec(t, "CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
	}, insert(body))
}

func insert(body string) deed {
	return func(_ *puppet, h host.Turn) error { return exec(h, "INSERT INTO note (body) VALUES (?)", body) }
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

var schema = []host.Migration{
	{Name: "1-note", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"},
	{Name: "2-tag", SQL: "CREATE TABLE tag (note REFERENCES note, name TEXT); CREATE INDEX tag_name ON tag (name)"},
	{Name: "3-done", SQL: "ALTER TABLE note ADD COLUMN done INT DEFAULT 0"},
}

// look runs a closure as a query.
func (g *stage) look(key string, f glance) error {
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON, Input: remember(f)})
	return err
}

// notes reads the notes of an actor by a query.
func (g *stage) notes(key string) (all []string) {
	g.t.Helper()
	g.ok(g.look(key, func(_ *puppetState, r host.Reader) (err error) {
		all, err = bodies(r)
		return err
	}))
	return all
}

func (g *stage) wantNotes(key string, want ...string) {
	g.t.Helper()
	got := g.notes(key)
	fatalIf(g.t, !slices.Equal(got, want), "notes of %s: %q, want %q", key, got, want)
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

// sqlPool returns the node's connections.
func (g *stage) sqlPool() *sqlitevfs.Pool { return sqlite.SQLiteIn(g.Kernel).Pool }

var errOnPurpose = errors.New("on purpose")

// The answers of sql.exec and sql.query are in testdata/sql, except for long ones, and that CBOR
// carries the same.
func TestSQLMethodsBoundTheirAnswersAndSpeakCBOR(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	args := []any{int64(-5), []byte{1}, map[string]any{"base64": "Ag=="}, 2.5}
	out := inCBOR[host.SQLOutput](g, host.SQLQuery, host.SQLInput{SQL: "SELECT ?1, ?2, ?3, ?4", Args: args})
	same(t, fmt.Sprint(out.Rows), "[[-5 map[base64:AQ==] map[base64:Ag==] 2.5]]", "rows in CBOR")
	const series = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000) SELECT x FROM n"
	for _, c := range []struct {
		method    string
		in        host.SQLInput
		rows      int
		truncated bool
	}{
		{host.SQLExec, host.SQLInput{SQL: series, Reason: "test"}, 1000, true},
		{host.SQLQuery, host.SQLInput{SQL: series, Limit: 5000}, 5000, false},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT hex(zeroblob(1000000)) FROM (VALUES (1), (2), (3), (4), (5), (6))"}, 4, true},
	} {
		var out host.SQLOutput
		if g.mustVerb("a", c.method, c.in, &out); len(out.Rows) != c.rows || out.Truncated != c.truncated {
			t.Errorf("%s: %d rows, truncated %v", c.in.SQL, len(out.Rows), out.Truncated)
		}
	}
	wantCode(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT hex(zeroblob(5000000))"}, nil), host.TooLarge)
	wantLimit(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT '" + strings.Repeat("x", 1_000_001) + "'"}, nil),
		"SQL statement", "1000000")
}

func TestTurnsWithoutSQLAllocateNothingForIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.ok(g.look("a", func(*puppetState, host.Reader) error { return nil }))
	s := g.sqlPool().Stats()
	errorIf(t, s.Opened != 0 || attach.Get[*sqlite.Database](&g.Find(pAddr("a")).Core.Attached) != nil, "a database was made: %+v", s)
}

// wantLimit checks that an error is TooLarge and names the bound.
func wantLimit(t *testing.T, err error, what, limit string) {
	t.Helper()
	e := wantCode(t, err, host.TooLarge)
	errorIf(t, e.Metadata["what"] != what || e.Metadata["limit"] != limit || e.Metadata["actual"] == "",
		"%v %v, want what %q and limit %s", e, e.Metadata, what, limit)
}

func TestEveryErrorOfABoundNamesIt(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&engine.LimitError{What: "thing", Limit: 10, Actual: 11},
		&sqlitevfs.LimitError{Err: sqlitevfs.ErrFull, What: "thing", Limit: 10, Actual: 11},
		&sqlitevfs.Error{Err: &sqlitevfs.LimitError{Err: sqlitevfs.ErrMemory, What: "thing", Limit: 10, Actual: 11}},
		&workflow.TooLargeError{What: "thing", Limit: 10, Size: 11},
	} {
		e, id := fault.Public(fmt.Errorf("wrapped: %w", err), []fault.Translator{(*sqlite.Part)(nil), (*run.Part)(nil)})
		wantLimit(t, e, "thing", "10")
		errorIf(t, id != "" || e.Metadata["actual"] != "11", "%T: %v %v", err, id, e.Metadata)
	}
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
		// What happens when the handler has returned: its context ends, and package database/sql
		// rolls the transaction back, here always before the commit.
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

// Each call of broken fails. An unread file has a length, and must not be read.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errOnPurpose }
func (broken) Read([]byte) (int, error)  { return 0, errOnPurpose }

type unread struct {
	t *testing.T
	n int
}

func (u unread) Len() int { return u.n }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("it was read")
	return 0, errOnPurpose
}

// zeros reads zeros for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// export returns the database of an actor, and imports replaces one.
func (g *stage) export(key string) []byte {
	g.t.Helper()
	var file bytes.Buffer
	g.ok(g.ExportSQL(context.Background(), pAddr(key), &file))
	return file.Bytes()
}

func (g *stage) imports(key string, file io.Reader) error {
	_, err := g.ImportSQL(context.Background(), pAddr(key), file, "test")
	return err
}

// slowly begins to import a file. The test writes the rest of it.
func (g *stage) slowly(key string, begin []byte) (rest *io.PipeWriter, ended chan error) {
	g.t.Helper()
	slow, rest := io.Pipe()
	ended = make(chan error, 1)
	go func() { ended <- g.imports(key, slow) }()
	must(g.t, errOf(rest.Write(begin)))
	return rest, ended
}

func TestAnImportOverTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{WriteSetBytes: 1 << 20}})
	wantLimit(t, g.imports("a", unread{t, 1<<20 + 1}), "bytes of the file", "1048576")
	wantLimit(t, g.imports("a", io.LimitReader(zeros{}, 2<<20)), "bytes of the file", "1048576")
}

func TestImportsShareTheirMemory(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.MaxTemporary = 1 << 20 })
	g.must("a", series(note("one"), func(_ *puppet, h host.Turn) error {
		return exec(h, "CREATE TABLE big AS SELECT randomblob(600000) AS b")
	}))
	file := g.export("a")
	if err := g.ExportSQL(context.Background(), pAddr("a"), broken{}); !errors.Is(err, errOnPurpose) {
		t.Errorf("a writer that fails: %v", err)
	}
	// The first import has read all but the end of its file.
	most, last := file[:len(file)-1], file[len(file)-1:]
	rest, ended := g.slowly("b", most)
	e := wantCode(t, g.imports("c", bytes.NewReader(file)), host.Overloaded)
	errorIf(t, !e.Retryable, "it is not retryable")
	must(t, errOf(rest.Write(last)))
	rest.Close()
	g.ok(<-ended)
	wantLimit(t, g.imports("c", io.LimitReader(zeros{}, 2<<20)), "the file", "1048576") // no other attempt can succeed
	// The memory is given back, even if an import fails.
	for range 3 {
		g.ok(g.imports("c", bytes.NewReader(file)))
		wantCode(t, g.imports("c", bytes.NewReader(most)), host.InvalidArgument)
		wantCode(t, g.imports("c", io.MultiReader(bytes.NewReader(most), broken{})), host.InvalidArgument)
	}
	g.wantNotes("b", "one")
	g.wantNotes("c", "one")
}

func TestADryRunOnABusyNodeSaysNothingOfTheMigration(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, func(o *Options) { o.SQL.MaxTemporary, o.SQL.CacheBytes = 16<<20, 64<<10 }, typ)
	g.must("a", func(_ *puppet, h host.Turn) error {
		return exec(h, "INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, 2000)")
	})
	typ.migrations = append(schema[:1:1], host.Migration{Name: "2", SQL: "CREATE TABLE sorted AS SELECT body FROM note ORDER BY random()"})
	g.restart()
	rest, ended := g.slowly("b", make([]byte, 16200<<10)) // takes nearly all of the shared memory
	var out host.SQLMigrateOutput
	e := wantCode(t, g.verb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out), host.Overloaded)
	errorIf(t, !e.Retryable, "it is not retryable")
	rest.Close()
	<-ended
	g.mustVerb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out)
	errorIf(t, out.Error != "" || len(out.Applied) != 1, "%+v", out)
}

func TestQueriesOfAnImportedDatabaseShareNoConnectionWithThoseBefore(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	file := g.export("a")
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
	a := g.Find(pAddr("a"))
	// Two turns that wait, and the import after the second in one batch: then a.mu is not needed
	// until the import is committed.
	entered, release, ended := make(chan bool), make(chan bool), make(chan error, 3)
	wait := func(*puppet, host.Turn) error { entered <- true; <-release; return nil }
	queued := func(n int64) {
		for a.Mailbox.Count() != n {
			runtime.Gosched()
		}
	}
	go func() { ended <- g.do("a", wait) }()
	<-entered
	go func() { ended <- g.do("a", wait) }()
	queued(1)
	go func() { ended <- g.imports("a", bytes.NewReader(file)) }()
	queued(2)
	release <- true
	<-entered
	a.Mu.Lock()
	before := a.Applied.Load()
	release <- true
	for a.Applied.Load() == before {
		runtime.Gosched()
	}
	v := a.AcquireView()
	errorIf(t, sqlite.DatabaseOf(v.Of).Get(a) != nil, "they use the connections of the core that imported it")
	a.ReleaseView(v)
	a.Mu.Unlock()
	for range 3 {
		g.ok(<-ended)
	}
	g.wantNotes("a", "one")
	g.check("a")
}

const (
	// runaway is a statement that never ends, endless one call of a function that takes an hour: it
	// multiplies two numbers of a million digits.
	runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	endless = "SELECT decimal_mul(printf('%.*c', 1000000, '7'), printf('%.*c', 1000000, '3'))"
)

func TestADeadlineInterruptsAStatement(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil,
		&puppetType{name: "p", decimal: true,
			limits: host.Limits{TurnTimeout: 250 * time.Millisecond, QueryTimeout: 100 * time.Millisecond}})
	g.patiently("a", note("one"))
	waits := map[string]func(r host.Reader) error{
		"a statement":                   func(r host.Reader) error { _, err := r.SQL().Exec(runaway); return err },
		"a statement of its context":    func(r host.Reader) error { return exec(r, runaway) },
		"one call of a function":        func(r host.Reader) error { return exec(r, endless) },
		"a handler without a statement": func(r host.Reader) error { <-r.Done(); return r.Err() },
		"a deadline without Done":       func(r host.Reader) error { return untilDeadline(r) },
	}
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" { // calls of SQLite cannot be stopped there
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
	typ.migrations = append(schema[:1:1],
		host.Migration{Name: "2", SQL: strings.Replace(runaway, ") SELECT", ") INSERT INTO note (body) SELECT", 1)})
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
		runtime.Gosched()
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

// patiently runs a turn that must succeed. It is tried again if the machine was too slow for the
// limit: nothing of it was kept then.
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

// timeIsUp makes the watchdog treat running turns as late, regardless of the time: on a slow
// machine, a limit short enough for the test would end turns that must succeed.
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
