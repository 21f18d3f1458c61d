package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/slip"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

func (c *cli) actorsCommand() *cobra.Command {
	var prefix, sort, dir string
	var where []string
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:               "actors [TYPE]",
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
			q.Where, q.Sort = where, sort
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
	whereFlag(flags, &where)
	flags.StringVar(&sort, "sort", "", "order by key, state, size, updated or an attribute; -size is from the largest")
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
			t.Flush()
			return c.explain(cmd.Context(), n, host.Request{Address: host.Address{Type: q.Type}}, err)
		}
		for i := range page.Actors {
			if err := c.printListed(t, &page.Actors[i], printed == 0); err != nil {
				return err
			}
			printed++
		}
		without = append(without, page.Uncertain...)
		q.Cursor = page.Cursor // of a page with conditions, which may be short
		if q.Cursor == "" || limit > 0 && printed >= limit {
			break
		}
		// Columns are aligned per page, so a long listing begins at once and takes no memory.
		t.Flush()
	}
	t.Flush()
	c.noteLeftOut(without)
	switch {
	case c.json:
	case printed == 0 && len(without) > 0:
	case printed == 0 && q.Type == "" && len(q.Where) == 0 && q.Sort == "" && dir == "":
		c.note("no actors yet; the first call to one creates it: cairn call cell/hello put '{\"key\":[1],\"value\":\"world\"}'")
	case printed == 0:
		c.note("no such actors%s", c.otherType(cmd.Context(), n, q.Type))
	case q.Cursor != "":
		c.note("there are more: --limit N or --all lists them")
	}
	return nil
}

// noteLeftOut prints which actors a list omitted.
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

// otherType returns a suggestion for a type that has no actors.
func (c *cli) otherType(ctx context.Context, n reader, typ string) string {
	if typ == "" {
		return ""
	}
	ctx, cancel := c.requestContext(ctx)
	defer cancel()
	all := types(ctx, n)
	if meant, ok := slip.Nearest(typ, all); ok && !slices.Contains(all, typ) {
		return "; did you mean the type " + meant + "?"
	}
	return ""
}

func (c *cli) printListed(t table.Table, s *host.Status, first bool) error {
	if c.json {
		return c.printJSON(s)
	}
	if first {
		t.Row("ACTOR", t.Paint(table.Bold, "STATE"), "VERSION", "KEYS", "SIZE", "UPDATED")
	}
	state := state(t, s.State)
	if r := s.Run; r != nil && (r.State == wfhost.StatePaused || r.State == wfhost.StateFailed) {
		state += ", run " + string(r.State)
	}
	t.Row(formatAddress(s.Type, s.Key), state, table.Count(s.Version), table.Count(s.Keys),
		table.Size(s.Bytes), table.Clock(s.Updated))
	return nil
}

func (c *cli) statusCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:               "status TYPE/KEY...",
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
	t.Row("actor", formatAddress(s.Type, s.Key))
	t.Row("id", s.ID)
	t.Row("state", state(t, s.State))
	if f := s.Failure; f != nil {
		t.Row("failed because", table.OneLine(f.Reason))
		t.Row("failed since", fmt.Sprintf("%s, %s", table.Clock(f.Since), table.Plural(f.Attempts, "attempt")))
		t.Row("next attempt", table.Clock(f.RetryAt)+" or later, with the next call")
	}
	if p := s.Pause; p != nil {
		t.Row("paused since", table.Clock(p.Since))
		if p.Reason != "" {
			t.Row("paused because", table.OneLine(p.Reason))
		}
	}
	if r := s.Run; r != nil {
		line := table.OneLine(r.Workflow) + ", " + string(r.State)
		if r.Reason != "" {
			line += " (" + string(r.Reason) + ")"
		}
		t.Row("workflow", line+" since "+table.Clock(r.Since))
	}
	if s.Limits != nil {
		t.Row("limits", limitsText(s.Limits))
	}
	t.Row("version", table.Count(s.Version))
	t.Row("generation", table.Count(s.Generation))
	t.Row("stored", fmt.Sprintf("%s, %s", table.Plural(s.Keys, "key"), table.Size(s.Bytes)))
	if s.TraceBytes > 0 {
		t.Row("traces", table.Size(s.TraceBytes))
	}
	t.Row("created", table.Clock(s.Created))
	t.Row("updated", table.Clock(s.Updated))
	t.Row("waiting calls", table.Count(s.Mailbox))
	t.Row("sends", fmt.Sprintf("%s pending, %s failed", table.Count(s.PendingSends), table.Count(s.FailedSends)))
	var next time.Time
	if s.NextAlarm != nil {
		next = *s.NextAlarm
	}
	if s.Alarms == 0 {
		t.Row("alarms", "none")
	} else {
		t.Row("alarms", fmt.Sprintf("%s, the next at %s", table.Count(s.Alarms), table.Clock(next)))
	}
	t.Row("connections", table.Count(s.Connections))
	t.Row("tasks", table.Count(s.Tasks))
	t.Flush()
}

// dataFlag adds --data, with which a command reads the directory of a stopped node.
func dataFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "data", "",
		"read the data directory of a node that is stopped, instead of asking a node")
	_ = cmd.MarkFlagDirname("data")
}
