package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// maxPage is the largest page of a listing that a node gives.
const maxPage = 1000

func (c *cli) actorsCommand() *cobra.Command {
	var prefix, dir string
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:   "actors [TYPE]",
		Short: "List actors in the order of their keys",
		Long: "actors lists actors, of one type or of all, without waking them. Nothing is sorted or counted in memory: listing\n" +
			"a million actors with --all reads a million rows and prints them as they come.\n\n" +
			"With --json each line is one actor, in the shape that status prints.",
		Example: "  cairn actors\n" +
			"  cairn actors cell --prefix acme/eu\n" +
			"  cairn actors cell --all --json | jq -r 'select(.state==\"failed\") | .failure.reason'",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeType,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := host.ListQuery{}
			if len(args) == 1 {
				q.Type = args[0]
				if typ, parts, ok := strings.Cut(q.Type, "/"); ok {
					return usagef("a TYPE has no key: cairn actors %s --prefix %s", typ, parts)
				}
				if err := checkType(q.Type); err != nil {
					return usageError{err}
				}
			}
			if prefix != "" {
				parts, err := parsePrefix(prefix)
				if err != nil {
					return err
				}
				if q.Type == "" {
					return usagef("--prefix needs a TYPE")
				}
				q.Prefix = parts
			}
			if limit < 1 {
				return usagef("--limit %d: at least 1", limit)
			}
			if all {
				limit = 0
			}
			return c.list(cmd, q, limit, dir)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&prefix, "prefix", "", "only keys that begin with these whole parts, PART/PART")
	flags.IntVar(&limit, "limit", 100, "how many actors to list")
	flags.BoolVar(&all, "all", false, "list all, however many")
	dataFlag(cmd, &dir)
	return cmd
}

// list prints the actors that q selects, at most limit of them unless limit is 0.
func (c *cli) list(cmd *cobra.Command, q host.ListQuery, limit int, dir string) error {
	n, done, err := c.open(cmd.Context(), dir)
	if err != nil {
		return err
	}
	defer done()
	t := c.table()
	printed := 0
	var without []host.Address
	for {
		q.Limit = maxPage
		if limit > 0 {
			q.Limit = min(maxPage, limit-printed)
		}
		ctx, cancel := c.requestContext(cmd.Context())
		page, err := n.List(ctx, q)
		cancel()
		if err != nil {
			t.flush()
			return c.explain(cmd.Context(), n, host.Request{Address: host.Address{Type: q.Type}}, err)
		}
		for i := range page.Actors {
			if err := c.printListed(t, &page.Actors[i], printed == 0); err != nil {
				return err
			}
			printed++
		}
		without = append(without, page.Uncertain...)
		q.Cursor = page.Cursor
		if q.Cursor == "" || limit > 0 && printed >= limit {
			break
		}
		// Columns are aligned page by page, so that a long listing begins at once and takes no memory.
		t.flush()
	}
	t.flush()
	c.noteLeftOut(without)
	switch {
	case c.json:
	case printed == 0 && len(without) > 0:
	case printed == 0 && q.Type == "" && dir == "":
		c.note("no actors yet; the first call to one creates it: cairn call cell/hello put '{\"key\":[1],\"value\":\"world\"}'")
	case printed == 0:
		c.note("no such actors%s", c.otherType(cmd.Context(), n, q.Type))
	case q.Cursor != "":
		c.note("there are more: --limit N or --all lists them")
	}
	return nil
}

// noteLeftOut says which actors a list had to leave out.
func (c *cli) noteLeftOut(actors []host.Address) {
	names := make([]string, len(actors))
	for i, a := range actors {
		names[i] = formatAddress(a.Type, a.Key)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - 10; n > 0 {
		names, more = names[:10], fmt.Sprintf(" and %d more", n)
	}
	c.note("left out, because the disk failed before their last commit was durable (restart the node): %s%s", strings.Join(names, ", "), more)
}

// otherType asks whether another type was meant than one of which there are no actors.
func (c *cli) otherType(ctx context.Context, n reader, typ string) string {
	ctx, cancel := c.requestContext(ctx)
	defer cancel()
	all := types(ctx, n)
	if meant, ok := nearest(typ, all); ok && !slices.Contains(all, typ) {
		return "; did you mean the type " + meant + "?"
	}
	return ""
}

func (c *cli) printListed(t table, s *host.Status, first bool) error {
	if c.json {
		return c.printJSON(s)
	}
	if first {
		t.row("ACTOR", t.paint(bold, "STATE"), "VERSION", "KEYS", "SIZE", "UPDATED")
	}
	state := t.state(s.State)
	if r := s.Run; r != nil && (r.State == workflow.StatePaused || r.State == workflow.StateFailed) {
		state += ", run " + string(r.State)
	}
	t.row(formatAddress(s.Type, s.Key), state, count(s.Version), count(s.Keys), size(s.Bytes), clock(s.Updated))
	return nil
}

func (c *cli) statusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "status TYPE/KEY...",
		Short: "Show what one actor is doing and what it holds",
		Long: "status describes an actor without waking or creating it: its state, version and sizes, what waits for it, who is\n" +
			"connected to it and, if it failed or is paused, why and since when. What it waits for says: cairn why.\n\n" +
			"With --json it prints the object that GET /actors/TYPE/KEY/-/ answers with.",
		Example:           "  cairn status cell/acme",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := parseAddress(args[0])
			if err != nil {
				return usageError{err}
			}
			n, done, err := c.open(cmd.Context(), dir)
			if err != nil {
				return err
			}
			defer done()
			ctx, cancel := c.requestContext(cmd.Context())
			defer cancel()
			s, err := n.Lookup(ctx, a)
			if err != nil {
				return c.explain(cmd.Context(), n, host.Request{Address: a}, err)
			}
			if c.json {
				return c.printJSON(s)
			}
			c.printStatus(&s)
			return nil
		},
	}
	dataFlag(cmd, &dir)
	return cmd
}

func (c *cli) printStatus(s *host.Status) {
	t := c.table()
	t.row("actor", formatAddress(s.Type, s.Key))
	t.row("id", s.ID)
	t.row("state", t.state(s.State))
	if f := s.Failure; f != nil {
		t.row("failed because", oneLine(f.Reason))
		t.row("failed since", fmt.Sprintf("%s, %s", clock(f.Since), plural(int64(f.Attempts), "attempt")))
		t.row("next attempt", clock(f.RetryAt)+" or later, with the next call")
	}
	if p := s.Pause; p != nil {
		t.row("paused since", clock(p.Since))
		if p.Reason != "" {
			t.row("paused because", oneLine(p.Reason))
		}
	}
	if r := s.Run; r != nil {
		line := oneLine(r.Workflow) + ", " + string(r.State)
		if r.Reason != "" {
			line += " (" + string(r.Reason) + ")"
		}
		t.row("workflow", line+" since "+clock(r.Since))
	}
	if s.Limits != nil {
		t.row("limits", limitsText(s.Limits))
	}
	t.row("version", count(s.Version))
	t.row("generation", count(s.Generation))
	t.row("stored", fmt.Sprintf("%s, %s", plural(s.Keys, "key"), size(s.Bytes)))
	t.row("created", clock(s.Created))
	t.row("updated", clock(s.Updated))
	t.row("waiting calls", count(s.Mailbox))
	t.row("sends", fmt.Sprintf("%s pending, %s failed", count(s.PendingSends), count(s.FailedSends)))
	var next time.Time
	if s.NextAlarm != nil {
		next = *s.NextAlarm
	}
	if s.Alarms == 0 {
		t.row("alarms", "none")
	} else {
		t.row("alarms", fmt.Sprintf("%s, the next at %s", count(s.Alarms), clock(next)))
	}
	t.row("connections", count(s.Connections))
	t.row("tasks", count(s.Tasks))
	t.flush()
}

func plural(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return count(n) + " " + noun
}

// dataFlag adds --data, with which a command reads the directory of a stopped node.
func dataFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "data", "", "read the data directory of a node that is stopped, instead of asking a node")
	_ = cmd.MarkFlagDirname("data")
}
