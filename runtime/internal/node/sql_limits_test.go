package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
)

func TestASleepingActorHasNoConnection(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	g.wantNotes("a", "one")
	if n := g.sqlPool().Stats().Open; n < 2 {
		t.Fatalf("%d connections are open, want one for the turns and one for the queries", n)
	}
	// A query may go on while the actor falls asleep under it.
	if err := g.look("a", func(_ *puppetState, r host.Reader) error {
		db := r.SQL()
		g.mustVerb("a", host.ActorSleep, nil, nil)
		if n := g.sqlPool().Stats().Open; n != 0 {
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
	if s := g.sqlPool().Stats(); s.Open != 0 || s.InUse != 0 || s.Bytes != 0 {
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
	s := g.sqlPool().Stats()
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

// patiently runs a turn that must succeed. It is tried again if the machine was too slow for the limit: nothing of it was kept
// then.
func (g *stage) patiently(key string, f deed) {
	g.t.Helper()
	err := g.do(key, f)
	for host.CodeOf(err) == host.DeadlineExceeded {
		err = g.do(key, f)
	}
	if err != nil {
		g.t.Fatal(err)
	}
}

func TestADeadlineInterruptsAStatement(t *testing.T) {
	t.Parallel()
	const runaway = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: 500 * time.Millisecond}})
	patiently := func(f deed) { g.patiently("a", f) }
	patiently(note("one"))
	// With the turn as its context, and without any.
	wantCode(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := exec(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		return exec(h, runaway)
	}), host.DeadlineExceeded)
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error { _, err := h.SQL().Exec(runaway); return err }), host.DeadlineExceeded)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
		Input: remember(glance(func(_ *puppetState, r host.Reader) error { _, err := r.SQL().Exec(runaway); return err }))})
	wantCode(t, err, host.DeadlineExceeded)
	patiently(note("two"))
	g.wantNotes("a", "one", "two")
}

func TestOutOfMemoryIsAnErrorOfTheTurn(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.ConnMemory = 8 << 20 })
	g.must("a", note("one"))
	hog := func(r host.Reader) error {
		return r.SQL().QueryRowContext(r, "SELECT group_concat(hex(zeroblob(500000)), '') FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12))").Scan(new(string))
	}
	wantLimit(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := exec(h, "INSERT INTO note (body) VALUES ('lost')"); err != nil {
			return err
		}
		return hog(h)
	}), "SQL memory", "8388608")
	wantLimit(t, g.look("a", func(_ *puppetState, r host.Reader) error { return hog(r) }), "SQL memory", "8388608")
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
}

func TestALongValueOrStatementNamesItsLimit(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.MaxLength = 1 << 20 })
	g.must("a", note("one"))
	long := strings.Repeat("x", 1<<20+7)
	wantLimit(t, g.do("a", note(long)), "SQL value", "1048576")
	for _, in := range []host.SQLInput{
		{SQL: "INSERT INTO note (body) VALUES (?1)", Args: []any{long}},
		{SQL: "SELECT zeroblob(1048577)"},
		{SQL: "SELECT group_concat(zeroblob(500000)) FROM (VALUES (1), (2), (3))"},
	} {
		in.Reason = "a test"
		wantLimit(t, g.verb("a", host.SQLExec, in, nil), "SQL value", "1048576")
		wantLimit(t, g.verb("a", host.SQLQuery, in, nil), "SQL value", "1048576")
	}
	wantLimit(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT '" + long + "'"}, nil), "SQL statement", "1000000")
	g.wantNotes("a", "one")
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
		if err := exec(h, "UPDATE note SET body = 'uno' WHERE id = 1"); err != nil {
			return err
		}
		return exec(h, "DELETE FROM note WHERE id > 5")
	})
	if all := g.notes("a"); len(all) != 5 || all[0] != "uno" {
		t.Fatalf("%d notes", len(all))
	}
	g.must("a", note(blob))
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, "VACUUM") })
	if b := g.status("a").Bytes; b > 100<<10 {
		t.Fatalf("the actor has %d bytes after VACUUM", b)
	}
	g.check("a")
}

func TestActorsThatSleepForMemoryGiveTheirConnectionsBack(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.MaxAwake = 4 })
	for i := range 12 {
		g.must(fmt.Sprint(i), note("one"))
	}
	soon(t, "no more than 4 actors are awake", func() bool { return g.Memory.Awake.Load() <= 4 })
	soon(t, "no more than 4 connections are open", func() bool { return g.sqlPool().Stats().Open <= 4 })
}

func TestTurnsWithoutSQLAllocateNothingForIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	if err := g.look("a", func(*puppetState, host.Reader) error { return nil }); err != nil {
		t.Fatal(err)
	}
	a := g.Find(pAddr("a"))
	if attach.Get[*sqlite.Database](&a.Core.Attached) != nil {
		t.Error("a database was made")
	}
	if s := g.sqlPool().Stats(); s.Opened != 0 {
		t.Errorf("%+v", s)
	}
}

// The limits of SQL are those of the type, which go before the node's, and for one actor what operators set, at once.
func TestSQLHasTheLimitsOfItsTypeAndActor(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) {
		o.TypeLimits = map[string]host.Limits{"p": {SQLValueBytes: 50_000, SQLTurnBytes: 1 << 20}}
	})
	long := note(strings.Repeat("x", 100_000))
	many := func(_ *puppet, h host.Turn) error {
		_, err := h.SQL().ExecContext(h, "INSERT INTO note (body) SELECT hex(randomblob(5000)) FROM generate_series(1, 300)")
		return err
	}
	wide := func(_ *puppetState, r host.Reader) error {
		return r.SQL().QueryRowContext(r, "SELECT length(zeroblob(200000))").Scan(new(int))
	}
	g.must("a", note("one"))
	g.must("b", note("one"))
	wantCode(t, g.do("a", long), host.TooLarge)
	if err := g.do("a", many); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("a turn that changes 3 MB: %v", err)
	}
	wantCode(t, g.look("a", wide), host.TooLarge)
	g.mustVerb("a", host.LimitsSet, host.ActorLimits{SQLValueBytes: whole(1_000_000), SQLTurnBytes: whole(16 << 20)}, &host.ActorLimits{})
	for range 2 {
		g.must("a", long) // it is awake, and so are its connections
		g.must("a", many)
		if err := g.look("a", wide); err != nil {
			t.Error(err)
		}
		wantCode(t, g.do("b", long), host.TooLarge)
		g.restart()
	}
	g.mustVerb("a", host.LimitsReset, nil, &host.CountOutput{})
	wantCode(t, g.do("a", long), host.TooLarge)
	wantCode(t, g.verb("a", host.LimitsSet, host.ActorLimits{SQLMemoryBytes: whole(10)}, nil), host.InvalidArgument)
}

// A blob that is longer than a body or an answer may be goes in and out in parts, as docs/sql.md says.
func TestALargeValueGoesInAndOutInParts(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	exec := func(text string, args ...any) {
		g.mustVerb("a", host.SQLExec, host.SQLInput{SQL: text, Args: args, Reason: "test"}, &host.SQLOutput{})
	}
	part := make([]byte, 700_000)
	for i := range part {
		part[i] = byte(i * 7) // zeros among them
	}
	encoded := map[string]any{"base64": base64.StdEncoding.EncodeToString(part)}
	exec("CREATE TABLE file (id INTEGER PRIMARY KEY, v)")
	exec("INSERT INTO file VALUES (1, ?)", encoded)
	parts := 1
	for range 2 {
		exec("UPDATE file SET v = CAST(v || ? AS BLOB) WHERE id = 1", encoded)
		parts++
	}
	for parts*len(part) <= 8<<20 { // as much as one call returns
		exec("UPDATE file SET v = CAST(v || v AS BLOB) WHERE id = 1")
		parts *= 2
	}
	wantCode(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT v FROM file"}, &host.SQLOutput{}), host.TooLarge)
	var got []byte
	for at := 1; at < parts*len(part); at += 4_000_000 {
		var out host.SQLOutput
		g.mustVerb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT substr(v, ?, 4000000) FROM file", Args: []any{at}}, &out)
		value, _ := out.Rows[0][0].(map[string]any)
		text, _ := value["base64"].(string)
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b...)
	}
	if !bytes.Equal(got, bytes.Repeat(part, parts)) {
		t.Errorf("%d bytes come back, and are not what was written", len(got))
	}
}

// sqlPool returns the node's connections.
func (g *stage) sqlPool() *sqlitevfs.Pool { return sqlite.SQLiteIn(g.Kernel).Pool }
