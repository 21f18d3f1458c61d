package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/sqlitevfs"
	"github.com/cairn-run/cairn/workflow"
)

// wantLimit checks that an error is TooLarge and names the bound.
func wantLimit(t *testing.T, err error, what, limit string) {
	t.Helper()
	e := wantCode(t, err, host.TooLarge)
	if e.Metadata["what"] != what || e.Metadata["limit"] != limit || e.Metadata["actual"] == "" {
		t.Errorf("%v %v, want what %q and limit %s", e, e.Metadata, what, limit)
	}
}

func TestAFullWriteSetIsNoUsedUpQuota(t *testing.T) {
	t.Parallel()
	g := newStage(t, func(o *Options) { o.SQL.TurnBytes = 4 << 20 },
		&puppetType{name: "p", limits: host.Limits{WriteSetBytes: 1 << 20, StorageBytes: 8 << 20, ValueBytes: 1 << 20}})
	g.must("a", note("one"))
	grow := func(n int) deed {
		return func(_ *puppet, h host.Turn) error {
			return exec(h, fmt.Sprintf("INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, %d)", n))
		}
	}
	// The statement that grows the database beyond what a turn may write.
	wantLimit(t, g.do("a", func(p *puppet, h host.Turn) error {
		err := grow(2000)(p, h)
		if !errors.Is(err, sqlitevfs.ErrFull) {
			t.Errorf("the insert: %v", err)
		}
		return err
	}), "write set", "1048576")
	// What the turn writes besides, after the statement.
	wantLimit(t, g.do("a", func(p *puppet, h host.Turn) error {
		if err := grow(700)(p, h); err != nil {
			return err
		}
		return h.KVPut([]byte("k"), make([]byte, 500<<10), time.Time{})
	}), "write set", "1048576")
	// Pages that are there and are rewritten.
	for range 4 {
		g.must("a", grow(600))
	}
	wantLimit(t, g.do("a", func(_ *puppet, h host.Turn) error {
		return exec(h, "UPDATE note SET body = hex(randomblob(500))")
	}), "write set", "1048576")
	// More than the node lets a turn change.
	g2 := newStage(t, func(o *Options) { o.SQL.TurnBytes = 1 << 20 })
	g2.must("a", note("one"))
	wantLimit(t, g2.do("a", grow(2000)), "pages that the turn changes", "1048576")
	// The quota is still the quota.
	for i := 0; ; i++ {
		err := g.do("a", grow(600))
		if err == nil && i < 20 {
			continue
		}
		e := wantCode(t, err, host.QuotaExceeded)
		if e.Metadata["limit"] != "8388608" || e.Metadata["actual"] == "" || !strings.Contains(e.Message, "quota of 8388608 bytes") {
			t.Errorf("%v %v", e, e.Metadata)
		}
		break
	}
}

func TestOneDeleteTrimsADatabaseOverItsQuota(t *testing.T) {
	t.Parallel()
	const size = 6 << 20
	typ := &puppetType{name: "p", limits: host.Limits{WriteSetBytes: 12 << 20}}
	// The heap of a connection is less than half of what the statements rewrite.
	g := newStage(t, func(o *Options) { o.SQL.ConnMemory, o.SQL.CacheBytes, o.SQL.TurnBytes = 3<<20, 512<<10, 12<<20 }, typ)
	g.must("a", func(p *puppet, h host.Turn) error {
		if err := note("one")(p, h); err != nil {
			return err
		}
		return exec(h, fmt.Sprintf("INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, %d)", size/1000))
	})
	typ.limits.StorageBytes = 2 << 20
	g.restart()
	wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
		return exec(h, "INSERT INTO note (body) VALUES (hex(randomblob(50000)))")
	}), host.QuotaExceeded)
	// Every second row: each page of the table is rewritten, and none is given back.
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, "DELETE FROM note WHERE id % 2 = 0") })
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, "DELETE FROM note WHERE id > 1000") })
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, "VACUUM") })
	if b := g.status("a").Bytes; b > 1<<20 {
		t.Errorf("the actor has %d bytes after VACUUM", b)
	}
	g.must("a", note("two"))
	if all := g.notes("a"); len(all) != 501 {
		t.Errorf("%d notes", len(all))
	}
	g.check("a")
}

func TestAMigrationRewritesMoreThanTheHeapOfAConnection(t *testing.T) {
	t.Parallel()
	const rows = 6000
	typ := &puppetType{name: "p", migrations: []host.Migration{{Name: "1", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"}},
		limits: host.Limits{WriteSetBytes: 24 << 20}}
	g := newStage(t, func(o *Options) { o.SQL.ConnMemory, o.SQL.CacheBytes, o.SQL.TurnBytes = 3<<20, 512<<10, 24<<20 }, typ)
	g.must("a", func(_ *puppet, h host.Turn) error {
		return exec(h, fmt.Sprintf("INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, %d)", rows))
	})
	typ.migrations = append(typ.migrations, host.Migration{Name: "2", SQL: "UPDATE note SET body = lower(body); ALTER TABLE note ADD COLUMN n"})
	g.restart()
	g.must("a", func(_ *puppet, h host.Turn) error {
		var n int
		if err := h.SQL().QueryRowContext(h, "SELECT count(*) FROM note WHERE body = lower(body) AND n IS NULL").Scan(&n); err != nil || n != rows {
			return fmt.Errorf("%d rows: %w", n, err)
		}
		return nil
	})
	g.check("a")
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
		if id != "" || e.Metadata["actual"] != "11" {
			t.Errorf("%T: %v %v", err, id, e.Metadata)
		}
	}
}
