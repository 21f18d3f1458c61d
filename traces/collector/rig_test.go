package collector

import (
	"log/slog"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/traces"
)

var quiet = slog.New(slog.DiscardHandler)

const (
	minute = int64(60e9)
	hour0  = int64(1_700_000_000e9)
)

// made returns a span with ids made of a number.
func made(n int, start, end int64) traces.Span {
	return traces.Span{
		TraceID: traces.TraceID{15: 1}, SpanID: traces.SpanID{7: byte(n)}, Sampled: true, Kind: traces.Internal, Name: "work", Start: start, End: end,
		Attributes: []traces.Attribute{traces.Int("n", int64(n))},
	}
}

// groups has spans of two resources; one span is open.
func groups() []traces.Group {
	child := made(3, hour0+10, hour0+20)
	child.Parent = traces.SpanID{7: 4}
	r := &traces.Resource{Attributes: []traces.Attribute{traces.String("service.name", "shop")}}
	return []traces.Group{{Resource: r, Spans: []traces.Span{child, made(4, hour0, hour0+30)}}, {Spans: []traces.Span{made(5, hour0, 0)}}}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
