package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
)

var schema = []host.Migration{
	{Name: "1-note", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"},
	{Name: "2-tag", SQL: "CREATE TABLE tag (note REFERENCES note, name TEXT); CREATE INDEX tag_name ON tag (name)"},
	{Name: "3-done", SQL: "ALTER TABLE note ADD COLUMN done INT DEFAULT 0"},
}

// insert is a deed that adds a row to what the migrations made.
func insert(body string) deed {
	return func(_ *puppet, h host.Turn) error { return exec(h, "INSERT INTO note (body) VALUES (?)", body) }
}

func (g *stage) sqlStatus(key string) (s host.SQLStatusOutput) {
	g.t.Helper()
	g.mustVerb(key, host.SQLStatus, nil, &s)
	return s
}

func TestAFailedMigrationLeavesTheActorFailedAndItsDataAlone(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, nil, typ)
	g.must("a", insert("one"))
	version := g.status("a").Version
	wrong := append(slices.Clone(schema[:2]), host.Migration{Name: "3-wrong", SQL: "CREATE TABLE half (x); DELETE FROM note; INSERT INTO nowhere VALUES (1)"})
	typ.migrations = wrong
	g.restart()
	e := wantCode(t, g.do("a", insert("two")), host.ActorFailed)
	if !strings.Contains(e.Message, "3-wrong") || strings.Contains(e.Message, "nowhere") {
		t.Errorf("callers are told %q", e.Message)
	}
	if f := g.status("a").Failure; f == nil || !strings.Contains(f.Reason, "3-wrong") || !strings.Contains(f.Reason, "no such table: nowhere") {
		t.Errorf("operators are told %+v", f)
	}
	wantCode(t, g.look("a", func(*puppetState, host.Reader) error { return nil }), host.ActorFailed)
	var out host.SQLMigrateOutput
	g.mustVerb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out)
	if out.Migration != "3-wrong" || !strings.Contains(out.Error, "nowhere") || len(out.Applied) != 0 {
		t.Errorf("the dry run says %+v", out)
	}
	if s := g.sqlStatus("a"); s.Migrations != 1 || g.status("a").Version != version {
		t.Errorf("%+v, version %d, was %d", s, g.status("a").Version, version)
	}
	// A new actor of the type cannot be made.
	if err := g.do("b", insert("x")); host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), "3-wrong") {
		t.Errorf("a new one: %v", err)
	}
	// The corrected program goes on without waiting for the retry time.
	typ.migrations = schema
	g.restart()
	g.must("a", insert("two"))
	g.wantNotes("a", "one", "two")
	// It can be destroyed although it does not wake.
	typ.migrations = append(slices.Clone(schema), host.Migration{Name: "4", SQL: "nonsense"})
	g.restart()
	wantCode(t, g.do("a", insert("three")), host.ActorFailed)
	if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
		t.Fatal(err)
	}
}

func TestADatabaseOfNewerCodeIsNotTouched(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema}
	g := newStage(t, nil, typ)
	g.must("a", insert("one"))
	typ.migrations = schema[:2]
	g.restart()
	e := wantCode(t, g.do("a", insert("two")), host.ActorFailed)
	if !strings.Contains(e.Message, string(host.StateTooNew)) {
		t.Errorf("%q", e.Message)
	}
	// Nor one that was made by other migrations.
	typ.migrations = []host.Migration{schema[0], {Name: schema[1].Name, SQL: "CREATE TABLE tag (x)"}, schema[2]}
	g.restart()
	wantCode(t, g.do("a", insert("two")), host.ActorFailed)
	if f := g.status("a").Failure; f == nil || !strings.Contains(f.Reason, "changed") {
		t.Errorf("operators are told %+v", f)
	}
	typ.migrations = schema
	g.restart()
	g.wantNotes("a", "one")
}

func TestAPauseHoldsForWhoeverMayCall(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	g := newStage(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&said, nil)) }, &puppetType{name: "p", openSQL: true})
	g.must("a", note("one"))
	in := host.SQLInput{SQL: "INSERT INTO note (body) VALUES ('two')", Reason: "because"}
	g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: "test"}, nil)
	for _, reason := range []string{"", "because"} {
		wantCode(t, g.verb("a", host.SQLExec, host.SQLInput{SQL: in.SQL, Reason: reason}, nil), host.ActorPaused)
	}
	g.mustVerb("a", host.ActorResume, nil, nil)
	g.mustVerb("a", host.SQLExec, in, nil)
	g.wantNotes("a", "one", "two")
	if s := said.String(); strings.Count(s, "because") != 1 || !strings.Contains(s, "by=caller") {
		t.Errorf("the log says %s", s)
	}
}

func TestAWakeHookThatQueriesItsActorBeforeTheMigrationIsCommittedIsACycle(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, nil, typ)
	g.must("a", insert("one"))
	var asked error
	typ.migrations, typ.wake = schema, func(_ *puppet, h host.Turn) error {
		_, asked = h.Call(h, &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
			Input: remember(glance(func(*puppetState, host.Reader) error { return nil }))})
		return nil
	}
	g.restart()
	g.must("a", insert("two"))
	wantCode(t, asked, host.Cycle)
	g.wantNotes("a", "one", "two")
	g.restart() // without a migration it sees the last commit
	g.must("a", insert("three"))
	if asked != nil {
		t.Error(asked)
	}
}

func TestSQLMethods(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"}, &puppetType{name: "open", openSQL: true})
	g.must("a", add(1))
	exec := func(text string, args ...any) (out host.SQLOutput) {
		t.Helper()
		g.mustVerb("a", host.SQLExec, host.SQLInput{SQL: text, Args: args, Reason: "test"}, &out)
		return out
	}
	out := exec("CREATE TABLE v (i INTEGER, r REAL, t TEXT, b BLOB, ok BOOLEAN, at DATETIME); INSERT INTO v (i) VALUES (1), (2); DELETE FROM v")
	if out.Changes != 4 || out.LastInsertID != 2 || len(out.Rows) != 0 {
		t.Errorf("%+v", out)
	}
	exec("INSERT INTO v VALUES (?1, ?2, ?3, ?4, ?5, ?6)", json.Number("9007199254740993"), 1.5, "text ü", map[string]string{"base64": "AAEC"}, true, "2026-11-21 16:00:00")
	exec("INSERT INTO v VALUES (?, 9e999, NULL, x'', 0, NULL)", json.Number("-9223372036854775808"))
	reply, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: host.SQLQuery, Codec: host.JSON, Input: []byte(`{"sql":"SELECT *, i + 0 AS sum FROM v ORDER BY rowid"}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"columns":[{"name":"i","type":"INTEGER"},{"name":"r","type":"REAL"},{"name":"t","type":"TEXT"},{"name":"b","type":"BLOB"},{"name":"ok","type":"BOOLEAN"},{"name":"at","type":"DATETIME"},{"name":"sum"}],` +
		`"rows":[[9007199254740993,1.5,"text ü",{"base64":"AAEC"},1,"2026-11-21 16:00:00",9007199254740993],[-9223372036854775808,9e999,null,{"base64":""},0,null,-9223372036854775808]],"changes":0}`
	if string(reply.Output) != want {
		t.Errorf("got  %s\nwant %s", reply.Output, want)
	}
	if reply, err = g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: host.SQLQuery, Codec: host.CBOR}); host.CodeOf(err) != host.InvalidArgument {
		t.Errorf("no SQL: %v", err)
	}
	// CBOR carries the same.
	input, _ := wire.Output.Marshal(host.SQLInput{SQL: "SELECT ?1, ?2, ?3, ?4", Args: []any{int64(-5), []byte{1}, map[string]any{"base64": "Ag=="}, 2.5}})
	if reply, err = g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: host.SQLQuery, Codec: host.CBOR, Input: input}); err != nil {
		t.Fatal(err)
	}
	got := wire.Read[host.SQLOutput](host.CBOR, reply.Output)
	if s := fmt.Sprint(got.Rows); s != "[[-5 map[base64:AQ==] map[base64:Ag==] 2.5]]" {
		t.Errorf("rows in CBOR: %s", s)
	}

	for _, c := range []struct {
		method string
		in     host.SQLInput
		code   host.Code
		says   string
	}{
		{host.SQLQuery, host.SQLInput{SQL: "SELECT missing"}, host.InvalidArgument, "no such column: missing"},
		{host.SQLQuery, host.SQLInput{SQL: "SELEC 1"}, host.InvalidArgument, "syntax error"},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT 1", Limit: 10_001}, host.InvalidArgument, "limit"},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT 1", Args: []any{1}}, host.InvalidArgument, "argument"},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT ?", Args: []any{[]int{1}}}, host.InvalidArgument, "argument 1"},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT ?", Args: []any{json.Number("9223372036854775808")}}, host.InvalidArgument, "too large"},
		{host.SQLQuery, host.SQLInput{SQL: "SELECT ?", Args: []any{map[string]string{"base64": "?"}}}, host.InvalidArgument, "base64"},
		{host.SQLQuery, host.SQLInput{SQL: " "}, host.InvalidArgument, "no SQL"},
		{host.SQLQuery, host.SQLInput{SQL: "DELETE FROM v"}, host.ReadOnly, ""},
		{host.SQLQuery, host.SQLInput{SQL: "ATTACH 'x' AS y"}, host.FailedPrecondition, ""},
		{host.SQLExec, host.SQLInput{SQL: "DELETE FROM v"}, host.InvalidArgument, "reason"},
		{host.SQLExec, host.SQLInput{SQL: "DELETE FROM v", Reason: strings.Repeat("x", 1025)}, host.TooLarge, "reason"},
		{host.SQLExec, host.SQLInput{SQL: "DELETE FROM v; INSERT INTO v (rowid) VALUES (1), (1)", Reason: "test"}, host.InvalidArgument, "UNIQUE constraint failed"},
		{host.SQLExec, host.SQLInput{SQL: "DELETE FROM v; BEGIN", Reason: "test"}, host.FailedPrecondition, ""},
		{host.SQLExec, host.SQLInput{SQL: "DELETE FROM v; PRAGMA defer_foreign_keys=ON; CREATE TABLE p (x PRIMARY KEY); CREATE TABLE c (y REFERENCES p); INSERT INTO c VALUES (1)", Reason: "test"}, host.InvalidArgument, "FOREIGN KEY"},
	} {
		err := g.verb("a", c.method, c.in, nil)
		if err == nil {
			t.Errorf("%s: no error", c.in.SQL)
			continue
		}
		e := wantCode(t, err, c.code)
		if !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: %q does not say %q", c.in.SQL, e.Message, c.says)
		}
	}
	if out = exec("SELECT count(*) FROM v"); fmt.Sprint(out.Rows) != "[[2]]" {
		t.Errorf("rows after the faults: %v", out.Rows)
	}
	out = exec("BEGIN; INSERT INTO v (i) VALUES (7); COMMIT; SELECT i, rowid FROM v WHERE i = 7")
	if out.Changes != 1 || fmt.Sprint(out.Rows) != "[[7 3]]" {
		t.Errorf("%+v", out)
	}

	// The bounds of an answer.
	series := "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 5000) SELECT x FROM n"
	if out = exec(series); len(out.Rows) != 1000 || !out.Truncated {
		t.Errorf("%d rows, truncated %v", len(out.Rows), out.Truncated)
	}
	out = host.SQLOutput{}
	g.mustVerb("a", host.SQLQuery, host.SQLInput{SQL: series, Limit: 5000}, &out)
	if len(out.Rows) != 5000 || out.Truncated {
		t.Errorf("%d rows, truncated %v", len(out.Rows), out.Truncated)
	}
	if out = exec("SELECT hex(zeroblob(1000000)) FROM (VALUES (1), (2), (3), (4), (5), (6))"); len(out.Rows) != 4 || !out.Truncated {
		t.Errorf("%d rows, truncated %v", len(out.Rows), out.Truncated)
	}
	wantCode(t, g.verb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT hex(zeroblob(5000000))"}, nil), host.TooLarge)

	// Creators of the actors.
	wantCode(t, g.verb("nobody", host.SQLQuery, host.SQLInput{SQL: "SELECT 1"}, nil), host.NotFound)
	wantCode(t, g.verb("nobody", host.SQLExec, host.SQLInput{SQL: "SELECT 1", Reason: "test"}, nil), host.NotFound)
	req := &host.Request{Address: host.Address{Type: "open", Key: []string{"x"}}, Method: host.SQLExec, Codec: host.JSON, Input: []byte(`{"sql":"CREATE TABLE t (x)"}`)}
	if _, err := g.Call(context.Background(), req); err != nil {
		t.Errorf("sql.exec of an open type: %v", err)
	}
}

func TestDatabasesGoOutAndComeIn(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1], limits: host.Limits{WriteSetBytes: 1 << 20}}
	g := newStage(t, nil, typ)
	ctx := context.Background()
	g.must("a", insert("one"))
	var file bytes.Buffer
	if err := g.ExportSQL(ctx, pAddr("a"), &file); err != nil { // while it is awake
		t.Fatal(err)
	}
	g.must("a", insert("two"))
	g.mustVerb("a", host.ActorSleep, nil, nil)
	var later bytes.Buffer
	if err := g.ExportSQL(ctx, pAddr("a"), &later); err != nil {
		t.Fatal(err)
	}
	if g.status("a").State != host.Asleep {
		t.Error("the export woke the actor")
	}
	wantCode(t, g.ExportSQL(ctx, pAddr("nobody"), &later), host.NotFound)
	if err := g.ExportSQL(ctx, pAddr("a"), brokenWriter{}); !errors.Is(err, errOnPurpose) {
		t.Errorf("a writer that fails: %v", err)
	}

	// Back into the same actor, and into a new one of code with more migrations.
	g.wantNotes("a", "one", "two")
	sequence := g.sqlStatus("a").Sequence
	status, err := g.ImportSQL(ctx, pAddr("a"), bytes.NewReader(file.Bytes()), "test")
	if err != nil {
		t.Fatal(err)
	}
	if !status.Exists || status.Sequence <= sequence || status.Migrations != 1 {
		t.Errorf("%+v, and then %+v", status, g.sqlStatus("a"))
	}
	g.wantNotes("a", "one")
	g.must("a", insert("three"))
	g.wantNotes("a", "one", "three")
	g.check("a")
	typ.migrations = schema
	g.restart()
	if status, err = g.ImportSQL(ctx, pAddr("b"), bytes.NewReader(later.Bytes()), "test"); err != nil {
		t.Fatal(err)
	}
	if status.Migrations != 3 {
		t.Errorf("%+v", status)
	}
	g.must("b", func(_ *puppet, h host.Turn) error { return exec(h, "UPDATE note SET done = 1") })
	g.wantNotes("b", "one", "two")
	g.crash()
	g.wantNotes("b", "one", "two")
	g.check("b")

	// A failed import changes nothing, and creates no actor.
	for _, c := range []struct {
		file   string
		reason string
		code   host.Code
	}{
		{file.String(), "", host.InvalidArgument},
		{"no database", "test", host.InvalidArgument},
		{file.String()[:5000], "test", host.InvalidArgument},
		{strings.Repeat("x", 1<<20+1), "test", host.TooLarge},
	} {
		for _, key := range []string{"b", "new"} {
			_, err := g.ImportSQL(ctx, pAddr(key), strings.NewReader(c.file), c.reason)
			wantCode(t, err, c.code)
		}
	}
	g.wantNotes("b", "one", "two")
	if _, err := g.Lookup(ctx, pAddr("new")); host.CodeOf(err) != host.NotFound {
		t.Errorf("%v", err)
	}
	typ.migrations = append(slices.Clone(schema), host.Migration{Name: "4", SQL: "INSERT INTO note (body) SELECT body FROM nowhere"})
	g.restart()
	_, err = g.ImportSQL(ctx, pAddr("new"), bytes.NewReader(later.Bytes()), "test")
	if e := wantCode(t, err, host.Internal); !strings.Contains(e.Message, "4") { // it could not be made at all
		t.Errorf("%q", e.Message)
	}
}

func TestQueriesOfAnImportedDatabaseShareNoConnectionWithThoseBefore(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", note("one"))
	var file bytes.Buffer
	if err := g.ExportSQL(context.Background(), pAddr("a"), &file); err != nil {
		t.Fatal(err)
	}
	g.must("a", note("two"))
	g.wantNotes("a", "one", "two")
	a := g.Find(pAddr("a"))
	// Two turns that wait, and the import after the second in one batch: then a.mu is not needed until the import is committed.
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
	go func() {
		_, err := g.ImportSQL(context.Background(), pAddr("a"), &file, "test")
		ended <- err
	}()
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
	if sqlite.DatabaseOf(v.Of).Get(a) != nil {
		t.Error("they use the connections of the core that imported it")
	}
	a.ReleaseView(v)
	a.Mu.Unlock()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	g.wantNotes("a", "one")
	g.check("a")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errOnPurpose }

func TestAnActorIsNotFailedBecauseTheNodeHasNoConnectionToMigrateIt(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, func(o *Options) { o.SQL.MaxOpen = 1 }, typ)
	g.must("a", insert("one"))
	g.must("b", insert("one"))
	typ.migrations = schema
	g.restart()
	g.must("b", func(p *puppet, h host.Turn) error {
		if err := insert("two")(p, h); err != nil {
			return err
		}
		if err := g.do("a", insert("two")); host.CodeOf(err) != host.Overloaded {
			return fmt.Errorf("without a connection: %v", err)
		}
		return nil
	})
	g.must("a", insert("two"))
	g.wantNotes("a", "one", "two")
}
