package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
)

// Each call of what is broken fails. An unread file has a length, and must not be read.
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

// slowly begins to import a file. The rest of it is what the test writes.
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
	// The memory is given back, whether an import succeeds or fails.
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
