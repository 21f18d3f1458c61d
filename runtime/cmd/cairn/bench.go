package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/load"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) benchCommand() *cobra.Command {
	var p load.Plan
	var dir string
	cmd := &cobra.Command{
		Use:               "bench",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case p.Duration <= 0:
				return usagef("--duration %s: must be positive", p.Duration)
			case p.Value < 0 || p.Value > 128<<10-2:
				return usagef("--value %d: 0 to %d bytes", p.Value, 128<<10-2)
			case len(p.Callers) == 0 || slices.Min(p.Callers) < 1 || slices.Max(p.Callers) > 10_000:
				return usagef("--callers: numbers from 1 to 10000")
			case len(p.Actors) == 0 || slices.Min(p.Actors) < 1 || slices.Max(p.Actors) > 1_000_000:
				return usagef("--actors: numbers from 1 to 1000000")
			case cmd.Flags().Changed("url"):
				return c.benchRemote(cmd.Context(), &p)
			}
			return c.benchHere(cmd.Context(), &p, dir)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&p.Duration, "duration", 3*time.Second, "how long each run takes")
	flags.IntVar(&p.Value, "value", 100, "bytes of each value")
	flags.IntSliceVar(&p.Callers, "callers", []int{1, 64}, "numbers of concurrent callers")
	flags.IntSliceVar(&p.Actors, "actors", []int{1, 1000}, "numbers of actors")
	flags.StringVar(&dir, "dir", "", "make the temporary directory here (default: the system's)")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// A benchRun is the JSON of one run.
type benchRun struct {
	Target string `json:"target"`
	load.Result
}

// benchRemote measures the node that --url names, and destroys the actors afterwards.
func (c *cli) benchRemote(ctx context.Context, p *load.Plan) (err error) {
	// Sent once, without an idempotency key, so that the node stores nothing but the value.
	n, err := c.connect(client.Options{Attempts: 1})
	if err != nil {
		return err
	}
	defer n.Close()
	opening, cancel := c.requestContext(ctx)
	err = n.Health(opening)
	cancel()
	if err != nil {
		return err
	}
	cells := load.Cells(slices.Max(p.Actors))
	defer func() { err = cmp.Or(err, load.Destroy(context.WithoutCancel(ctx), n, cells)) }()
	return c.bench(ctx, p, n, cells, c.url, "on "+c.url)
}

// benchHere measures a node in this process, in a temporary directory below dir.
func (c *cli) benchHere(ctx context.Context, p *load.Plan, dir string) (err error) {
	if dir, err = os.MkdirTemp(dir, "cairn-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rt, err := runtime.Open(ctx, runtime.Options{
		Dir: dir, Actors: []actor.Definition{cell.Definition()}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, rt.Close()) }()
	return c.bench(ctx, p, rt, load.Cells(slices.Max(p.Actors)), "this process", "in this process")
}

// bench measures a node and prints the results.
func (c *cli) bench(ctx context.Context, p *load.Plan, n host.Node, cells []host.Address, target, where string) error {
	t := c.table()
	defer t.Flush()
	if !c.json {
		c.note("durable put of %d bytes, %s each, %s", p.Value, p.Duration, where)
		t.Row("CALLERS", "ACTORS", "CALLS", "CALLS/S", "P50", "P99", "MAX")
	}
	return p.Run(ctx, n, cells, func(r load.Result) error {
		if c.json {
			return c.printJSON(benchRun{target, r})
		}
		t.Row(table.Count(r.Callers), table.Count(r.Actors), table.Count(r.Calls),
			table.Count(int(r.Rate)), r.P50.String(), r.P99.String(), r.Max.String())
		return nil
	})
}
