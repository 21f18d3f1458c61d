package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A runSelection says which runs that are paused or have failed a command is for.
type runSelection struct {
	typ, state, pausedFor string
	older                 time.Duration
	limit                 int
}

func (s *runSelection) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.typ, "type", "", "only runs of actors of this type")
	flags.StringVar(&s.state, "state", "", "only runs in this state: paused or failed")
	flags.StringVar(&s.pausedFor, "paused-for", "",
		"only runs that are paused for this `reason`, such as diverged or operator")
	flags.DurationVar(&s.older, "older", 0, "only runs that were paused, or failed, at least so long ago")
	flags.IntVar(&s.limit, "limit", 100, "how many runs at most; 0 for all")
}

// given reports whether anything was selected.
func (s *runSelection) given() bool {
	return s.typ != "" || s.state != "" || s.pausedFor != "" || s.older != 0
}

// check checks the flags.
func (s *runSelection) check() error {
	switch {
	case s.state != "" && s.state != string(wfhost.StatePaused) && s.state != string(wfhost.StateFailed):
		return usagef("--state %q: paused or failed", s.state)
	case s.state == string(wfhost.StateFailed) && s.pausedFor != "":
		return usagef("--paused-for and --state failed exclude each other")
	case s.pausedFor != "" && !slices.Contains(wfhost.PauseReasons(), wfhost.PauseReason(s.pausedFor)):
		return usagef("--paused-for %q: known are %q", s.pausedFor, wfhost.PauseReasons())
	case s.older < 0:
		return usagef("--older %s: must not be negative", s.older)
	case s.limit < 0:
		return usagef("--limit %d: must not be negative", s.limit)
	case s.typ != "":
		if err := checkType(s.typ); err != nil {
			return usageError{err}
		}
	}
	return nil
}

// each calls f for every run that is selected, up to the limit, and reports whether there may be
// more.
func (s *runSelection) each(ctx context.Context, c *cli, n host.RunLister,
	f func(*host.ListedRun) error) (more bool, err error) {
	q := host.RunQuery{Type: s.typ, State: wfhost.State(s.state), Reason: wfhost.PauseReason(s.pausedFor)}
	if s.older > 0 {
		q.Before = time.Now().Add(-s.older)
	}
	for left := s.limit; ; {
		q.Limit = maxPage
		if s.limit > 0 {
			q.Limit = min(maxPage, left)
		}
		limited, cancel := c.requestContext(ctx)
		page, err := n.Runs(limited, q)
		cancel()
		if err != nil {
			return false, err
		}
		for i := range page.Runs {
			if err := f(&page.Runs[i]); err != nil {
				return false, err
			}
		}
		left -= len(page.Runs)
		if q.Cursor = page.Cursor; q.Cursor == "" || s.limit > 0 && left == 0 {
			c.noteLeftOut(page.Uncertain) // each page names all
			return q.Cursor != "", nil
		}
	}
}

func (c *cli) workflowListCommand() *cobra.Command {
	var s runSelection
	var counts bool
	var dir string
	cmd := &cobra.Command{
		Use:  "list",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			if counts {
				return c.printRunCounts(cmd.Context(), n)
			}
			_, err = c.printListedRuns(cmd.Context(), n, &s)
			return err
		},
	}
	s.flags(cmd.Flags())
	dataFlag(cmd, &dir)
	cmd.Flags().BoolVar(&counts, "counts", false, "count the runs, whatever is selected")
	return cmd
}

// printListedRuns prints the runs that are selected and returns how many there are.
func (c *cli) printListedRuns(ctx context.Context, n host.RunLister, s *runSelection) (int, error) {
	t := c.table()
	printed := 0
	more, err := s.each(ctx, c, n, func(r *host.ListedRun) error {
		printed++
		if c.json {
			return c.printJSON(r)
		}
		if printed == 1 {
			t.Row("ACTOR", "WORKFLOW", "STATE", "REASON", "SINCE", "NEXT", "TEXT")
		}
		t.Row(formatAddress(r.Type, r.Key), table.OneLine(r.Workflow), string(r.State),
			reason(string(r.Reason)), table.Clock(r.Since), table.Clock(r.Next), reason(r.Text))
		return nil
	})
	t.Flush()
	switch {
	case err != nil || c.json:
	case printed == 0:
		c.note("no such runs")
	case more:
		c.note("there may be more: --limit N lists them, --limit 0 all")
	}
	return printed, err
}

func (c *cli) printRunCounts(ctx context.Context, n host.RunLister) error {
	ctx, cancel := c.requestContext(ctx)
	defer cancel()
	counts, err := n.CountRuns(ctx)
	if err != nil {
		return err
	}
	t := c.table()
	for i, g := range counts.Counts {
		if c.json {
			if err := c.printJSON(g); err != nil {
				return err
			}
			continue
		}
		if i == 0 {
			t.Row("TYPE", "STATE", "REASON", "RUNS")
		}
		t.Row(g.Type, string(g.State), reason(string(g.Reason)), table.Count(g.Count))
	}
	t.Flush()
	c.noteLeftOut(counts.Uncertain)
	if len(counts.Counts) == 0 && len(counts.Uncertain) == 0 && !c.json {
		c.note("no run is paused or has failed")
	}
	return nil
}

// A runBulk is a verb that is done to the runs that a selection finds.
type runBulk struct {
	bulk
	runs   runSelection
	method method.Typed[host.WorkflowControlInput, method.None]
	in     *host.WorkflowControlInput
}

func (b *runBulk) flags(flags *pflag.FlagSet) {
	b.runs.flags(flags)
	flags.BoolVar(&b.dryRun, "dry-run", false, "list the runs and do nothing")
	flags.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	flags.IntVar(&b.concurrency, "concurrency", 8, "how many runs at a time")
}

// run does the verb to the runs that are selected now. A run that another has replaced meanwhile is
// left alone.
func (b *runBulk) run(ctx context.Context) error {
	switch {
	case b.concurrency < 1 || b.concurrency > maxConcurrency:
		return usagef("--concurrency %d: 1 to %d", b.concurrency, maxConcurrency)
	case !b.dryRun && !b.yes && !terminal(b.stdin):
		return usagef("%s of many runs must be confirmed: with --yes, after a look with --dry-run", b.name)
	}
	if err := b.runs.check(); err != nil {
		return err
	}
	n, err := b.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	if b.dryRun {
		found, err := b.printListedRuns(ctx, n, &b.runs)
		if err == nil && !b.json && found > 0 {
			b.note("%s; nothing is done, because of --dry-run", table.Plural(found, "run"))
		}
		return err
	}
	var actors []host.Address
	ids := map[string]string{}
	more, err := b.runs.each(ctx, b.cli, n, func(r *host.ListedRun) error {
		actors = append(actors, host.Address{Type: r.Type, Key: r.Key})
		ids[formatAddress(r.Type, r.Key)] = r.Run
		return nil
	})
	switch {
	case err != nil:
		return err
	case len(actors) == 0:
		b.note("no such runs")
		return nil
	case !b.yes && !b.confirm(b.question(len(actors), "run")):
		return errors.New("not confirmed: everything is left as it is")
	}
	b.do = func(ctx context.Context, t *target) (bool, error) {
		_, err := ask(ctx, t, b.method,
			&host.WorkflowControlInput{Reason: b.in.Reason, Run: ids[t.String()]}, askOptions{})
		return true, err
	}
	if err := b.all(ctx, n, actors); err != nil {
		return err
	}
	if more && !b.json {
		b.note("there may be more: --limit N does it to more runs, --limit 0 to all")
	}
	return nil
}
