package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) usageCommand() *cobra.Command {
	var s usageSelection
	cmd := &cobra.Command{
		Use:               "usage [TYPE | TYPE/KEY...]",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.csv && c.json {
				return usagef("--csv and --json exclude each other")
			}
			if s.limit < 0 {
				return usagef("--limit %d: at least 1, or 0 for all", s.limit)
			}
			if s.day != "" {
				if _, err := usage.ParseDay(s.day); err != nil {
					return usagef("--day %s: a day such as 2026-11-27", s.day)
				}
			}
			if len(args) == 1 && checkType(args[0]) != nil {
				return c.usageOf(cmd, args[0], &s)
			}
			if len(args) == 1 {
				s.typ = args[0]
			}
			return c.usageOfMany(cmd, &s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.day, "day", "",
		"the day, such as 2026-11-27, in UTC; of many actors today if absent, of one actor all that are kept")
	flags.StringVar(&s.prefix, "prefix", "", "only keys that begin with these whole parts, PART/PART")
	flags.IntVar(&s.limit, "limit", 100, "how many actors to list; 0 lists all")
	flags.BoolVar(&s.csv, "csv", false, "print CSV")
	return cmd
}

// A usageSelection says whose usage is printed, and how.
type usageSelection struct {
	day, typ, prefix string
	limit            int
	csv              bool
}

// usageOf prints the days of one actor.
func (c *cli) usageOf(cmd *cobra.Command, name string, s *usageSelection) error {
	if s.prefix != "" {
		return usagef("--prefix needs a TYPE")
	}
	a, err := parseAddress(name)
	if err != nil {
		return usageError{err}
	}
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	t := &target{c: c, n: n, a: a}
	out, err := ask(cmd.Context(), t, method.UsageGet, &usage.GetInput{From: s.day, To: s.day}, askOptions{})
	if err != nil {
		return err
	}
	p := c.usageTable(s, "DAY")
	for i := range out.Days {
		d := &out.Days[i]
		if err := p.print(d, d.Day,
			&usage.Page{Day: d.Day,
				Actors: []usage.Actor{{Type: a.Type, Key: a.Key, Work: d.Work}}}, &d.Work); err != nil {
			return err
		}
	}
	p.Flush()
	if len(out.Days) == 0 && !c.json && !s.csv {
		c.note("%s did not exist then", name)
	}
	return nil
}

// usageOfMany prints a day of many actors.
func (c *cli) usageOfMany(cmd *cobra.Command, s *usageSelection) error {
	q := usage.Query{Day: s.day, Type: s.typ}
	if s.prefix != "" {
		if s.typ == "" {
			return usagef("--prefix needs a TYPE")
		}
		var err error
		if q.Prefix, err = parsePrefix(s.prefix); err != nil {
			return err
		}
	}
	n, err := c.connect(client.Options{})
	if err != nil {
		return err
	}
	defer n.Close()
	p := c.usageTable(s, "ACTOR")
	var without []host.Address
	for {
		q.Limit = maxPage
		if s.limit > 0 {
			q.Limit = min(maxPage, s.limit-p.printed)
		}
		ctx, cancel := c.requestContext(cmd.Context())
		page, err := n.Usage(ctx, q)
		cancel()
		if err != nil {
			p.Flush()
			return c.explain(cmd.Context(), n, host.Request{Address: host.Address{Type: q.Type}}, err)
		}
		q.Day, without = page.Day, append(without, page.Uncertain...) // all pages are of one day
		for i := range page.Actors {
			a := &page.Actors[i]
			if err := p.print(&usageOfDay{page.Day, a}, formatAddress(a.Type, a.Key),
				&usage.Page{Day: page.Day, Actors: page.Actors[i : i+1]}, &a.Work); err != nil {
				return err
			}
		}
		q.Cursor = page.Cursor
		if q.Cursor == "" || s.limit > 0 && p.printed >= s.limit {
			break
		}
		p.Flush()
	}
	p.Flush()
	if s.csv && p.printed == 0 {
		if err := usage.WriteCSV(c.stdout, &usage.Page{}, true, formatAddress); err != nil {
			return err
		}
	}
	c.noteLeftOut(without)
	switch {
	case c.json || s.csv:
	case p.printed == 0:
		c.note("no such actors%s", c.otherType(cmd.Context(), n, q.Type))
	case q.Cursor != "":
		c.note("there are more: --limit N lists them, --limit 0 all")
	}
	return nil
}

// usageOfDay is a line of JSON. Without the day, lines of several days could not be kept in one
// file.
type usageOfDay struct {
	Day string `json:"day"`
	*usage.Actor
}

// A usageTable prints usage line by line.
type usageTable struct {
	*cli
	table.Table
	s       *usageSelection
	first   string // the heading of the first column
	printed int
}

func (c *cli) usageTable(s *usageSelection, first string) *usageTable {
	return &usageTable{cli: c, Table: c.table(), s: s, first: first}
}

// print prints a line: document as JSON, page as CSV.
func (p *usageTable) print(document any, name string, page *usage.Page, w *usage.Work) error {
	p.printed++
	switch {
	case p.json:
		return p.printJSON(document)
	case p.s.csv:
		return usage.WriteCSV(p.stdout, page, p.printed == 1, formatAddress)
	case p.printed == 1:
		p.Row(p.first, "CALLS", "TURNS", "TIME", "WRITTEN", "SENT", "STORED")
	}
	p.Row(name, table.Count(w.Calls), table.Count(w.Turns), (time.Duration(w.HandlerUS) * time.Microsecond).String(),
		table.Size(w.BytesWritten), table.Size(w.BytesSent), table.Size(w.BytesStored))
	return nil
}

func (c *cli) topCommand() *cobra.Command {
	q := usage.TopQuery{}
	by := ""
	cmd := &cobra.Command{
		Use:  "top",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Limit < 1 || q.Limit > usage.MaxPage {
				return usagef("--limit %d: 1 to %d", q.Limit, usage.MaxPage)
			}
			n, err := c.connect(client.Options{})
			if err != nil {
				return err
			}
			defer n.Close()
			ctx, cancel := c.requestContext(cmd.Context())
			defer cancel()
			q.By = usage.Measure(by)
			top, err := n.Top(ctx, q)
			if err != nil {
				return err
			}
			p := c.usageTable(&usageSelection{}, "ACTOR")
			for i := range top.Actors {
				a := &top.Actors[i]
				if err := p.print(a, formatAddress(a.Type, a.Key), nil, &a.Work); err != nil {
					return err
				}
			}
			p.Flush()
			if p.printed == 0 && !c.json {
				c.note("no actor in memory did anything in the last minute")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&by, "by", string(usage.ByTime),
		"what actors are compared by: turns, time (in handlers), bytes (written and sent) or size")
	cmd.Flags().IntVar(&q.Limit, "limit", usage.DefaultTop, "how many actors to list")
	return cmd
}
