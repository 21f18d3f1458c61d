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

// An unread file has a length, and must not be read.
type unread struct {
	t *testing.T
	n int
}

func (u unread) Len() int { return u.n }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("it was read")
	return 0, errOnPurpose
}

func TestAnImportOverTheLimitIsRefusedBeforeItIsRead(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{WriteSetBytes: 1 << 20}})
	_, err := g.ImportSQL(context.Background(), pAddr("a"), unread{t, 1<<20 + 1}, "test")
	wantLimit(t, err, "bytes of the file", "1048576")
	_, err = g.ImportSQL(context.Background(), pAddr("a"), io.LimitReader(zeros{}, 2<<20), "test")
	wantLimit(t, err, "bytes of the file", "1048576")
}

// zeros reads zeros for ever.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestImportsShareTheirMemory(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := newStage(t, func(o *Options) { o.SQL.MaxTemporary = 1 << 20 })
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := note("one")(p, h); err != nil {
			return err
		}
		return exec(h, "CREATE TABLE big AS SELECT randomblob(600000) AS b")
	})
	var file bytes.Buffer
	if err := g.ExportSQL(ctx, pAddr("a"), &file); err != nil {
		t.Fatal(err)
	}
	if err := g.ExportSQL(ctx, pAddr("a"), brokenWriter{}); !errors.Is(err, errOnPurpose) {
		t.Errorf("a writer that fails: %v", err)
	}
	imports := func(key string) error {
		_, err := g.ImportSQL(ctx, pAddr(key), bytes.NewReader(file.Bytes()), "test")
		return err
	}
	// The first import has read all but the end of its file.
	slow, rest := io.Pipe()
	first := make(chan error, 1)
	go func() {
		_, err := g.ImportSQL(ctx, pAddr("b"), slow, "test")
		first <- err
	}()
	at := file.Len() - 1
	if _, err := rest.Write(file.Bytes()[:at]); err != nil {
		t.Fatal(err)
	}
	if e := wantCode(t, imports("c"), host.Overloaded); !e.Retryable {
		t.Error("it is not retryable")
	}
	if _, err := rest.Write(file.Bytes()[at:]); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	_, err := g.ImportSQL(ctx, pAddr("c"), io.LimitReader(zeros{}, 2<<20), "test") // no other attempt can succeed
	wantLimit(t, err, "the file", "1048576")
	// The memory is given back, whether an import succeeds or fails.
	for range 3 {
		if err := imports("c"); err != nil {
			t.Fatal(err)
		}
		if _, err := g.ImportSQL(ctx, pAddr("c"), bytes.NewReader(file.Bytes()[:at]), "test"); host.CodeOf(err) != host.InvalidArgument {
			t.Fatalf("a file that is cut short: %v", err)
		}
		broken := io.MultiReader(bytes.NewReader(file.Bytes()[:at]), brokenReader{})
		if _, err := g.ImportSQL(ctx, pAddr("c"), broken, "test"); host.CodeOf(err) != host.InvalidArgument {
			t.Fatalf("a reader that fails: %v", err)
		}
	}
	g.wantNotes("b", "one")
	g.wantNotes("c", "one")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errOnPurpose }

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errOnPurpose }

func TestADryRunOnABusyNodeSaysNothingOfTheMigration(t *testing.T) {
	t.Parallel()
	typ := &puppetType{name: "p", migrations: schema[:1]}
	g := newStage(t, func(o *Options) { o.SQL.MaxTemporary, o.SQL.CacheBytes = 16<<20, 64<<10 }, typ)
	g.must("a", func(_ *puppet, h host.Turn) error {
		return exec(h, "INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, 2000)")
	})
	typ.migrations = append(schema[:1:1], host.Migration{Name: "2", SQL: "CREATE TABLE sorted AS SELECT body FROM note ORDER BY random()"})
	g.restart()
	slow, rest := io.Pipe() // an import takes nearly all of the shared memory
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = g.ImportSQL(context.Background(), pAddr("b"), slow, "test")
	}()
	if _, err := rest.Write(make([]byte, 16200<<10)); err != nil {
		t.Fatal(err)
	}
	var out host.SQLMigrateOutput
	if e := wantCode(t, g.verb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out), host.Overloaded); !e.Retryable {
		t.Error("it is not retryable")
	}
	rest.Close()
	<-done
	g.mustVerb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out)
	if out.Error != "" || len(out.Applied) != 1 {
		t.Errorf("%+v", out)
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
