package node

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestADryRunHasTheLimitsOfATurn(t *testing.T) {
	t.Parallel()
	schema := []host.Migration{{Name: "1", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"}}
	const (
		rewrite = "UPDATE note SET body = lower(body)"
		grow    = "INSERT INTO note (body) SELECT body FROM note"
		slow    = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO note (body) SELECT count(*) FROM n"
		size    = 3 << 20
	)
	for name, c := range map[string]struct {
		statement string
		limits    host.Limits
		want      string // "" if it fits
	}{
		"fits":                 {rewrite, host.Limits{WriteSetBytes: 8 << 20, StorageBytes: 8 << 20}, ""},
		"shrinks over a quota": {"DELETE FROM note WHERE id % 2", host.Limits{StorageBytes: 1 << 20}, ""},
		"rewrites too much":    {rewrite, host.Limits{WriteSetBytes: 1 << 20}, "write set: "},
		"grows too much":       {grow, host.Limits{WriteSetBytes: 1 << 20}, "write set: "},
		"grows over the quota": {grow, host.Limits{StorageBytes: 5 << 20}, "the actor's storage quota of 5242880 bytes is used up"},
		"takes too long":       {slow, host.Limits{TurnTimeout: 50 * time.Millisecond}, "it takes longer than a turn of the type may, 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			typ := &puppetType{name: "p", migrations: schema}
			g := newStage(t, nil, typ)
			g.must("a", func(_ *puppet, h host.Turn) error {
				return exec(h, fmt.Sprintf("INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, %d)", size/1000))
			})
			typ.migrations = append(schema[:1:1], host.Migration{Name: "2", SQL: c.statement})
			typ.limits = c.limits
			g.restart()
			var out host.SQLMigrateOutput
			g.mustVerb("a", host.SQLMigrate, host.SQLMigrateInput{DryRun: true}, &out)
			if c.want == "" {
				if out.Error != "" || len(out.Applied) != 1 {
					t.Errorf("%+v", out)
				}
				g.must("a", func(*puppet, host.Turn) error { return nil }) // the migration itself
				return
			}
			if out.Migration != "2" || !strings.HasPrefix(out.Error, c.want) || len(out.Applied) != 0 {
				t.Errorf("%+v, want %q", out, c.want)
			}
		})
	}
}

func TestADryRunOnABusyNodeSaysNothingOfTheMigration(t *testing.T) {
	t.Parallel()
	schema := []host.Migration{{Name: "1", SQL: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)"}}
	typ := &puppetType{name: "p", migrations: schema}
	g := newStage(t, func(o *Options) { o.SQL.MaxTemporary, o.SQL.CacheBytes = 16<<20, 64<<10 }, typ)
	g.must("a", func(_ *puppet, h host.Turn) error {
		return exec(h, "INSERT INTO note (body) SELECT hex(randomblob(500)) FROM generate_series(1, 4000)")
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
