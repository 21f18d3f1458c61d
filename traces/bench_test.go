package traces

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// workload is the spans of n calls as a runtime makes them: a commit, a statement, a turn and the
// call.
func workload(calls int, start, step int64) []Span {
	spans := make([]Span, 0, 4*calls)
	id := 0
	for i := range calls {
		at := start + int64(i)*step
		var trace TraceID
		putID(trace[:8], uint64(i)*0x9E3779B97F4A7C15+1)
		putID(trace[8:], uint64(i)*0xBF58476D1CE4E5B9+7)
		next := func() (s SpanID) {
			id++
			putID(s[:], uint64(id)*0x94D049BB133111EB+3)
			return s
		}
		call, turn := next(), next()
		spans = append(spans,
			Span{TraceID: trace, SpanID: next(), Parent: turn, Name: "sql", Kind: Client, Sampled: true,
				Start: at + 40_123, End: at + 90_456, Attributes: []Attribute{
					String("db.system", "sqlite"), String("db.query.text",
						"SELECT id, total FROM orders WHERE customer = ? ORDER BY id"), Int("db.rows", int64(i%17))}},
			Span{TraceID: trace, SpanID: next(), Parent: call, Name: "commit", Kind: Internal, Sampled: true,
				Start: at + 120_000, End: at + 202_345, Attributes: []Attribute{
					Int("cairn.version", int64(1000+i)), Int("cairn.bytes", 312), Int("cairn.keys", 4)}},
			Span{TraceID: trace, SpanID: turn, Parent: call, Name: "turn shop.charge", Kind: Internal, Sampled: true,
				Start: at + 20_000, End: at + 110_000, Attributes: []Attribute{
					String("cairn.method", "charge"), Int("cairn.input.bytes", 120), Bool("cairn.replayed", false)},
				Events: []Event{{Name: "log", Time: at + 50_000,
					Attributes: []Attribute{String("message", "charged the card"), String("level", "info")}}}},
			Span{TraceID: trace, SpanID: call, Parent: SpanID{1, 2, 3, byte(i), byte(i >> 8), 1}, RemoteParent: true,
				Name: "call charge", Kind: Server, Sampled: true, Start: at, End: at + 210_000, Attributes: []Attribute{
					String("cairn.type", "shop"), String("cairn.key", "customer-4711"), String("rpc.method",
						"charge"), Int("http.response.status_code", 200)}})
	}
	return spans
}

// BenchmarkStoredSpan adds spans of the runtime, and flushes when a chunk is full.
func BenchmarkStoredSpan(b *testing.B) {
	b.ReportAllocs()
	spans := workload(1000, hour0, 1_000_000)
	store, buffer := newRows(), NewBuffer(Options{Incarnation: 1})
	for i := 0; b.Loop(); i++ {
		buffer.Add(spans[i%len(spans)])
		flushFull(b, buffer, store, hour0+minute)
	}
}

// BenchmarkOpenSpan registers a span of the runtime while it is open, and then adds it.
func BenchmarkOpenSpan(b *testing.B) {
	b.ReportAllocs()
	spans := workload(1000, hour0, 1_000_000)
	store, buffer := newRows(), NewBuffer(Options{Incarnation: 1})
	for i := 0; b.Loop(); i++ {
		s := &spans[i%len(spans)]
		buffer.Open(s.SpanID, s.TraceID, s)
		buffer.End(*s)
		flushFull(b, buffer, store, hour0+minute)
	}
}

// charge makes the span of both benchmarks of users' spans.
func charge(ctx context.Context, tracer trace.Tracer) {
	_, s := tracer.Start(ctx, "charge", trace.WithAttributes(attribute.String("shop.card", "visa"),
		attribute.Int("shop.items", 3), attribute.Bool("shop.gift", false)))
	s.End()
}

// sdkTracer is the baseline: its spans are not stored.
func sdkTracer() trace.Tracer {
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(discard{})).Tracer("shop")
}

// userTurn returns a function that makes a span in a turn. It stores the spans from time to time.
func userTurn(t testing.TB) func() {
	store, buffer := newRows(), NewBuffer(Options{Incarnation: 1})
	ctx := NewProvider(time.Now).
		Begin(buffer, Span{TraceID: NewTraceID(), SpanID: NewSpanID(), Sampled: true, Name: "turn", Start: hour0}).
		Context(context.Background())
	n := 0
	return func() {
		charge(ctx, trace.SpanFromContext(ctx).TracerProvider().Tracer("shop"))
		if n++; n%2000 == 0 {
			flush(t, buffer, store, time.Now().UnixNano())
		}
	}
}

// BenchmarkSDKSpan makes a span of the OpenTelemetry SDK that nothing stores.
func BenchmarkSDKSpan(b *testing.B) {
	b.ReportAllocs()
	tracer := sdkTracer()
	for b.Loop() {
		charge(context.Background(), tracer)
	}
}

// BenchmarkUserSpan is the same span of a user of the runtime, stored.
func BenchmarkUserSpan(b *testing.B) {
	b.ReportAllocs()
	span := userTurn(b)
	for b.Loop() {
		span()
	}
}

// TestAStoredSpanOfAUserCostsWhatOneOfTheSDKDoes counts allocations, since times depend on the
// machine.
func TestAStoredSpanOfAUserCostsWhatOneOfTheSDKDoes(t *testing.T) {
	tracer := sdkTracer()
	sdk := testing.AllocsPerRun(1000, func() { charge(context.Background(), tracer) })
	ours := testing.AllocsPerRun(1000, userTurn(t))
	errorIf(t, ours > sdk, "a stored span of a user makes %v allocations, and one of the SDK %v", ours, sdk)
}

type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }

// storedHour returns the rows of an actor that has 100,000 spans in an hour.
func storedHour(t testing.TB) *rows {
	store, b := newRows(), NewBuffer(Options{Incarnation: 1})
	for i, s := range workload(25_000, hour0, 144_000_000) {
		if b.Add(s); len(b.full) > 0 || i%1000 == 999 {
			flush(t, b, store, s.End)
		}
	}
	flush(t, b, store, hour0+hour1-1)
	return store
}

// sortedRows are rows with an index, so a scan costs only the rows that it visits.
type sortedRows struct {
	*rows
	keys []string
}

func (r *sortedRows) Scan(start, end []byte, f func(key, value []byte) bool) error {
	for _, k := range r.keys {
		if k >= string(start) && (end == nil || k < string(end)) && !f([]byte(k), r.m[k]) {
			break
		}
	}
	return nil
}

func BenchmarkRead(b *testing.B) {
	store := storedHour(b)
	r := &sortedRows{rows: store}
	for k := range store.m {
		r.keys = append(r.keys, k)
	}
	slices.Sort(r.keys)
	for name, q := range map[string]Query{
		"first1000": {Start: hour0, End: hour0 + hour1},
		"minute":    {Start: hour0 + 30*minute, End: hour0 + 31*minute},
		"name":      {Start: hour0, End: hour0 + hour1, Name: "turn shop.charge"},
		"trace":     {TraceID: workload(12_345, hour0, 1)[4*12_344].TraceID},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				got, err := Read(context.Background(), r, q)
				if err != nil || len(got.Spans) == 0 {
					b.Fatal(len(got.Spans), err)
				}
			}
		})
	}
	// The baseline: all chunks of the hour, decoded from memory.
	b.Run("decode100000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, k := range r.keys {
				h, err := parseHeader(r.m[k])
				if err != nil || len(r.m[k]) == totalsBytes {
					continue
				}
				n += len(decodeChunk(b, h, string(r.m[k][headerBytes:])))
			}
			if n != 100_000 {
				b.Fatal(n)
			}
		}
	})
}

func BenchmarkAppendJSON(b *testing.B) {
	b.ReportAllocs()
	spans := workload(250, hour0, 1_000_000)
	var dst []byte
	for b.Loop() {
		dst = AppendJSON(dst[:0], Group{Spans: spans})
	}
	b.SetBytes(int64(len(dst)))
}

func TestSpansAreHalfOfOTLP(t *testing.T) {
	spans := workload(2000, hour0, 1_000_000)
	store, b := newRows(), NewBuffer(Options{Incarnation: 1})
	for _, s := range spans {
		b.Add(s)
		flushFull(t, b, store, hour0+minute)
	}
	flush(t, b, store, hour0+minute)
	otlp, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: Protobuf(0, Group{Spans: spans})})
	must(t, err)
	ours, theirs := float64(store.size())/float64(len(spans)), float64(len(otlp))/float64(len(spans))
	t.Logf("%.1f bytes a span, OTLP %.1f", ours, theirs)
	errorIf(t, ours > theirs/2, "a span has %.1f bytes, and as OTLP %.1f", ours, theirs)
}
