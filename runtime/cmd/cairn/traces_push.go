package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
	"github.com/cairn-run/cairn/traces"
	"github.com/cairn-run/cairn/traces/collector"
)

func (c *cli) pushTracesCommand() *cobra.Command {
	var in trace.ReadInput
	var since, until timeFlag
	var endpoint, dir string
	cmd := &cobra.Command{
		Use:  "push TYPE/KEY...",
		Args: cobra.ExactArgs(1), ValidArgsFunction: c.completeAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Start, in.End = since.time, until.time
			p, err := collector.NewPusher(endpoint)
			if err != nil {
				return hintedError{err,
					[]string{"name the collector with --endpoint http://localhost:4318, or in OTEL_EXPORTER_OTLP_ENDPOINT"}}
			}
			defer p.Close()
			return c.onData(&dir,
				func(ctx context.Context, t *target, _ []string) error { return t.pushTraces(ctx, p, &in) })(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.Var(&since, "since", "only what goes on at this time or later, such as 2027-01-01T00:00:00Z")
	flags.Var(&until, "until", "only what begins before this time")
	flags.StringVar(&in.TraceID, "trace", "", "only the trace with this id")
	flags.BoolVar(&in.Errors, "errors", false, "only spans that ended with an error")
	flags.StringVar(&endpoint, "endpoint", "",
		"the collector, such as http://localhost:4318; if not given, that of OTEL_EXPORTER_OTLP_ENDPOINT")
	dataFlag(cmd, &dir)
	return cmd
}

// A timeFlag is a time on the command line.
type timeFlag struct{ time *time.Time }

// Set implements pflag.Value.
func (f *timeFlag) Set(text string) error {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("want a time such as 2027-01-01T00:00:00Z")
	}
	f.time = &at
	return nil
}

// String implements pflag.Value.
func (f *timeFlag) String() string {
	if f.time == nil {
		return ""
	}
	return f.time.Format(time.RFC3339)
}

// Type implements pflag.Value.
func (f *timeFlag) Type() string { return "time" }

// pushTraces sends spans to a collector, page by page, and each only once: a parent may be in
// several pages.
func (t *target) pushTraces(ctx context.Context, p *collector.Pusher, in *trace.ReadInput) error {
	type identity struct {
		traces.TraceID
		traces.SpanID
	}
	pushed, sent := make(map[identity]bool), 0
	for {
		limited, cancel := t.c.requestContext(ctx)
		document, cursor, err := t.node().TraceDocument(limited, t.a, in)
		cancel()
		var groups []traces.Group
		if err == nil {
			groups, err = traces.ParseJSON(document)
		}
		if err != nil {
			return t.c.explain(ctx, t.node(), host.Request{Address: t.a}, after(sent, err))
		}
		for i := range groups {
			spans := groups[i].Spans[:0]
			for _, s := range groups[i].Spans {
				if id := (identity{s.TraceID, s.SpanID}); !pushed[id] {
					pushed[id] = true
					spans = append(spans, s)
				}
			}
			groups[i].Spans = spans
		}
		limited, cancel = t.c.requestContext(ctx)
		n, err := p.Push(limited, time.Now().UnixNano(), groups...)
		cancel()
		if sent += n; err != nil {
			return after(sent, err)
		}
		if in.Cursor = cursor; cursor == "" {
			break
		}
	}
	return t.result(struct {
		Spans    int    `json:"spans"`
		Endpoint string `json:"endpoint"`
	}{sent, p.Endpoint()}, "pushed %s of %s to %s\n", table.Plural(sent, "span"), t, p.Endpoint())
}

// after adds to an error how many spans were pushed before.
func after(sent int, err error) error {
	if sent == 0 {
		return err
	}
	return fmt.Errorf("after %s: %w", table.Plural(sent, "span"), err)
}
