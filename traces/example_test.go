package traces_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/traces"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// memory is the rows of one actor. A node uses an engine.Snapshot and a batch instead.
type memory map[string][]byte

func (m memory) AppendValue(dst, key []byte) ([]byte, bool, error) {
	v, ok := m[string(key)]
	return append(dst, v...), ok, nil
}

func (m memory) Scan(start, end []byte, f func(key, value []byte) bool) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if k >= string(start) && k < string(end) && !f([]byte(k), m[k]) {
			break
		}
	}
	return nil
}

func (m memory) Put(key, value []byte) error {
	m[string(key)] = bytes.Clone(value)
	return nil
}

func (m memory) DeleteRange(start, end []byte) error {
	maps.DeleteFunc(m, func(k string, _ []byte) bool { return k >= string(start) && k < string(end) })
	return nil
}

// A turn of an actor is a span of the runtime, to which a user adds an attribute and a span.
func Example() {
	const start = int64(1771891200e9)
	store := memory{}
	buffer := traces.NewBuffer(traces.Options{Incarnation: 1})
	provider := traces.NewProvider(func() time.Time { return time.Unix(0, start+1000) })

	turn := traces.Span{TraceID: traces.TraceID{1}, SpanID: traces.SpanID{1}, Sampled: true, Name: "turn charge",
		Kind: traces.Server, Start: start}
	active := provider.Begin(buffer, turn)
	ctx := active.Context(context.Background())

	// The user's handler.
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("shop.card", "visa"))
	_, card := span.TracerProvider().Tracer("shop").Start(ctx, "ask the bank")
	card.End()

	// The runtime ends the turn, and stores its spans.
	turn.End = start + 5000
	active.Finish(&turn)
	buffer.Add(turn)
	if err := buffer.Flush(store, store, start+1e9); err != nil {
		fmt.Println(err)
	}
	buffer.Committed(nil) // the batch is in the store

	page, err := traces.Read(context.Background(), store, traces.Query{TraceID: turn.TraceID, Live: buffer.Pending()})
	if err != nil {
		fmt.Println(err)
	}
	for _, s := range page.Spans {
		fmt.Println(s.Name, len(s.Attributes), s.Parent == turn.SpanID)
	}
	doc := traces.AppendJSON(nil,
		traces.Group{Resource: &traces.Resource{Attributes: []traces.Attribute{traces.String("service.name", "shop")}}, Spans: page.Spans})
	fmt.Println(strings.Count(string(doc), `"traceId":"01000000000000000000000000000000"`))
	// Output:
	// turn charge 1 false
	// ask the bank 0 true
	// 2
}
