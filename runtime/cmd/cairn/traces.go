package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) tracesCommand() *cobra.Command {
	cmd := row[trace.ReadInput, trace.ReadOutput]{
		use: "traces TYPE/KEY...", method: method.TraceRead, offline: true,
		flags: []bind.Flag{
			{Member: "start", Name: "since",
				Usage: "only what goes on at this time or later, such as 2027-01-01T00:00:00Z"},
			{Member: "end", Name: "until", Usage: "only what begins before this time"},
			{Member: "trace_id", Name: "trace", Usage: "only the trace with this id"},
			{Member: "name", Usage: "only spans with this name"},
			{Member: "errors", Usage: "only spans that ended with an error"},
			{Member: "limit", Usage: "how many spans to print, up to 10000; 0 prints up to 1000"},
			{Member: "cursor", Usage: "go on where an earlier command ended"},
		},
		print: func(t *target, _ *trace.ReadInput, out *trace.ReadOutput) error {
			if t.c.json {
				for i := range out.Spans {
					if err := t.c.printJSON(&out.Spans[i]); err != nil {
						return err
					}
				}
			} else if len(out.Spans) == 0 {
				t.c.note("%s has no such spans", t)
			} else if err := t.c.printTraces(out); err != nil {
				return err
			}
			for _, key := range out.Damaged {
				t.c.note("what is stored under %s cannot be read", key)
			}
			if out.Dropped > 0 {
				t.c.note("%d spans of that time are missing, because there were too many", out.Dropped)
			}
			if out.Cursor != "" {
				t.c.note("there is more: --cursor %s", out.Cursor)
			}
			return nil
		},
	}.command(c)
	read := cmd.RunE
	var follow bool
	cmd.Flags().BoolVar(&follow, "follow", false, "print spans as they end, from now on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !follow {
			return read(cmd, args)
		}
		flags := cmd.Flags()
		for _, name := range []string{"since", "until", "limit", "cursor", "data"} {
			if flags.Changed(name) {
				return usagef("--follow goes without --%s", name)
			}
		}
		var in trace.FollowInput
		in.TraceID, _ = flags.GetString("trace")
		in.Name, _ = flags.GetString("name")
		in.Errors, _ = flags.GetBool("errors")
		return c.on(func(ctx context.Context, t *target,
			_ []string) error {
			return t.followTraces(ctx, in)
		})(cmd, args)
	}
	cmd.AddCommand(c.findTraceCommand(), c.pushTracesCommand(), c.samplingCommand())
	return cmd
}

// followTraces prints spans as they end. The end of ctx and of the actor are no errors.
func (t *target) followTraces(ctx context.Context, in trace.FollowInput) error {
	opening, cancel := t.c.requestContext(ctx)
	tail, err := t.n.FollowTraces(opening, t.a, in)
	cancel()
	if err != nil {
		return t.c.explain(ctx, t.n, host.Request{Address: t.a}, err)
	}
	defer tail.Close()
	for {
		news, err := tail.Next(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.Is(err, &host.Error{Code: host.Destroyed}):
			t.c.note("%s was destroyed", t)
			return nil
		case err != nil:
			return err
		}
		if news.Lost {
			t.c.note("the connection was lost: spans may be missing")
		}
		for i := range news.Spans {
			s := &news.Spans[i]
			if t.c.json {
				err = t.c.printJSON(s)
			} else { // no table: the widths of the next are not known
				_, err = fmt.Fprintf(t.c.stdout, "%s  %s  %10s  %s%s\n", table.Clock(s.Start),
					s.TraceID, lasted(s, s.Start), table.OneLine(s.Name), ending(s))
			}
			if err != nil {
				return err
			}
		}
		if news.Missed > 0 {
			t.c.note("%s missing: there were too many", table.Plural(int(news.Missed), "span"))
		}
	}
}

func (c *cli) findTraceCommand() *cobra.Command {
	var q trace.FindQuery
	var since, until timeFlag
	cmd := &cobra.Command{
		Use:  "find TRACE",
		Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.TraceID = args[0]
			if q.Type != "" && checkType(q.Type) != nil {
				return usageError{checkType(q.Type)}
			}
			q.Start, q.End = since.time, until.time
			n, err := c.connect(client.Options{})
			if err != nil {
				return err
			}
			defer n.Close()
			out := trace.ReadOutput{Now: time.Now()}
			for {
				ctx, cancel := c.requestContext(cmd.Context())
				page, err := n.FindTrace(ctx, q)
				cancel()
				if err != nil {
					return err
				}
				for i := range page.Spans {
					s := &page.Spans[i]
					if c.json {
						if err := c.printJSON(s); err != nil {
							return err
						}
						continue
					}
					s.Name = formatAddress(s.Type, s.Key) + "  " + s.Name
					out.Spans = append(out.Spans, s.Span)
				}
				if q.Cursor = page.Cursor; q.Cursor == "" {
					break
				}
			}
			if c.json {
				return nil
			}
			if len(out.Spans) == 0 {
				c.note("no actor has spans of this trace")
				return nil
			}
			return c.printTraces(&out)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Type, "type", "", "only actors of this type")
	flags.Var(&since, "since", "only what goes on at this time or later, such as 2027-01-01T00:00:00Z")
	flags.Var(&until, "until", "only what begins before this time")
	return cmd
}

func (c *cli) samplingCommand() *cobra.Command {
	var typ string
	var rate int64
	var share float64
	var slow time.Duration
	var reset bool
	cmd := &cobra.Command{
		Use:  "sampling",
		Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := cmd.Flags().Changed
			var own trace.Rule
			if given("rate") {
				own.PerSecond = &rate
			}
			if given("share") {
				own.Share = &share
			}
			if given("slow") {
				own.SlowMS = new(slow.Milliseconds())
			}
			set := own != (trace.Rule{})
			switch {
			case reset && (set || typ != ""):
				return usagef("--reset goes back to the configuration, and takes no other flag")
			case typ != "" && !set:
				return usagef("--type needs --rate, --share or --slow")
			case typ != "" && checkType(typ) != nil:
				return usageError{checkType(typ)}
			}
			n, err := c.connect(client.Options{})
			if err != nil {
				return err
			}
			defer n.Close()
			ctx, cancel := c.requestContext(cmd.Context())
			defer cancel()
			var s trace.Sampling
			if !reset {
				if s, err = n.Sampling(ctx); err != nil {
					return err
				}
			}
			if set || reset {
				change(&s, typ, own)
				if s, err = n.SetSampling(ctx, s); err != nil {
					return err
				}
			}
			return c.printSampling(&s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&typ, "type", "", "change the rule of this actor type, not that of the others")
	flags.Int64Var(&rate, "rate", 0, "record up to so many traces that begin in a second")
	flags.Float64Var(&share, "share", 0, "record this part of them, 0 to 1")
	flags.DurationVar(&slow, "slow", 0, "record turns and queries that take longer in any case")
	flags.BoolVar(&reset, "reset", false, "go back to the configuration of the node")
	return cmd
}

// change changes the members of a rule that are given.
func change(s *trace.Sampling, typ string, given trace.Rule) {
	r := s.Rule
	if typ != "" {
		r = s.Types[typ]
	}
	r = trace.Rule{PerSecond: cmp.Or(given.PerSecond, r.PerSecond),
		Share: cmp.Or(given.Share, r.Share), SlowMS: cmp.Or(given.SlowMS, r.SlowMS)}
	if typ == "" {
		s.Rule = r
		return
	}
	if s.Types == nil {
		s.Types = make(map[string]trace.Rule)
	}
	s.Types[typ] = r
}

func (c *cli) printSampling(s *trace.Sampling) error {
	if c.json {
		return c.printJSON(s)
	}
	if s.PerSecond == nil {
		c.note("the node records no traces")
		return nil
	}
	t := c.table()
	t.Row("TYPE", "RATE", "SHARE", "SLOW")
	line := func(name string, r trace.Rule) {
		t.Row(name, fmt.Sprintf("%d/s", *r.PerSecond), fmt.Sprint(*r.Share),
			(time.Duration(*r.SlowMS) * time.Millisecond).String())
	}
	line("all others", s.Rule)
	for _, name := range slices.Sorted(maps.Keys(s.Types)) {
		line(name, s.Types[name])
	}
	t.Flush()
	return nil
}

// maxIndent is how many levels a tree of spans is indented. The lines of deeper spans begin with
// their level instead.
const maxIndent = 20

// printTraces prints spans as trees, the traces in the order of their starts. A span whose parent
// is not there is a root, and so is one of spans that are each other's parents. Each span is
// printed once.
func (c *cli) printTraces(out *trace.ReadOutput) error {
	spans := append(slices.Clone(out.Parents), out.Spans...)
	slices.SortStableFunc(spans, func(a, b trace.Span) int { return a.Start.Compare(b.Start) })
	known := make(map[[2]string]*trace.Span)
	for i := range spans {
		known[[2]string{spans[i].TraceID, spans[i].SpanID}] = &spans[i]
	}
	parents := make(map[*trace.Span]*trace.Span)
	done := make(map[*trace.Span]int) // by which climb: a span that one comes upon again is in a cycle
	for i := range spans {
		s := &spans[i]
		for ; s != nil && done[s] == 0; s = parents[s] {
			done[s] = i + 1
			parents[s] = known[[2]string{s.TraceID, s.ParentID}]
		}
		if s != nil && done[s] == i+1 {
			parents[s] = nil
		}
	}
	var order []string // of the traces
	roots, children := make(map[string][]*trace.Span), make(map[*trace.Span][]*trace.Span)
	for i := range spans {
		s := &spans[i]
		if up := parents[s]; up != nil {
			children[up] = append(children[up], s)
			continue
		}
		if roots[s.TraceID] == nil {
			order = append(order, s.TraceID)
		}
		roots[s.TraceID] = append(roots[s.TraceID], s)
	}
	var b strings.Builder
	var walk func(s *trace.Span, depth int)
	walk = func(s *trace.Span, depth int) {
		b.WriteString(strings.Repeat("  ", min(depth, maxIndent)+1))
		if depth > maxIndent {
			fmt.Fprintf(&b, "%d: ", depth)
		}
		fmt.Fprintf(&b, "%s  %s%s\n", table.OneLine(s.Name), lasted(s, out.Now), ending(s))
		for _, child := range children[s] {
			walk(child, depth+1)
		}
	}
	for _, id := range order {
		fmt.Fprintf(&b, "%s  trace %s\n", roots[id][0].Start.Format(time.RFC3339Nano), id)
		for _, s := range roots[id] {
			walk(s, 0)
		}
	}
	_, err := c.stdout.Write([]byte(b.String()))
	return err
}

// lasted says how long a span took.
func lasted(s *trace.Span, now time.Time) string {
	if s.End == nil {
		return "open for " + now.Sub(s.Start).Round(time.Millisecond).String()
	}
	return s.End.Sub(s.Start).String()
}

// ending says how a span ended, if not well.
func ending(s *trace.Span) string {
	if s.Status != "error" {
		return ""
	}
	return "  error: " + cmp.Or(table.OneLine(s.Message), "unknown")
}
