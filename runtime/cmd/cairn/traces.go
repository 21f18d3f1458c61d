package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/bind"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

func (c *cli) tracesCommand() *cobra.Command {
	return row[trace.ReadInput, trace.ReadOutput]{
		use: "traces TYPE/KEY...", method: method.TraceRead, offline: true,
		flags: []bind.Flag{
			{Member: "start", Name: "since", Usage: "only what goes on at this time or later, such as 2027-01-01T00:00:00Z"},
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
}

// printTraces prints spans as trees, the traces in the order of their starts. A span whose parent is not there is a root.
func (c *cli) printTraces(out *trace.ReadOutput) error {
	spans := append(slices.Clone(out.Parents), out.Spans...)
	slices.SortStableFunc(spans, func(a, b trace.Span) int { return a.Start.Compare(b.Start) })
	known, children := make(map[string]bool), make(map[string][]*trace.Span)
	for i := range spans {
		known[spans[i].SpanID] = true
	}
	var order []string // of the traces
	roots := make(map[string][]*trace.Span)
	for i := range spans {
		s := &spans[i]
		if s.ParentID != "" && known[s.ParentID] {
			children[s.ParentID] = append(children[s.ParentID], s)
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
		fmt.Fprintf(&b, "%s%s  %s%s\n", strings.Repeat("  ", depth+1), table.OneLine(s.Name), lasted(s, out.Now), ending(s))
		for _, child := range children[s.SpanID] {
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
