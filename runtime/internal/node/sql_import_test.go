package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
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

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }
