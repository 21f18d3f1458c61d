package traces

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// turn is a context like the runtime's: it makes the active span on demand.
type turn struct {
	context.Context
	p      *Provider
	b      *Buffer
	s      Span
	active *Active
}

func (c *turn) Value(key any) any {
	if c.p.IsKey(key) {
		if c.active == nil {
			c.active = c.p.Begin(c.b, c.s)
		}
		return c.active
	}
	return c.Context.Value(key)
}

func newTurn(sampled bool) *turn {
	s := made(1, hour0, 0)
	s.Sampled = sampled
	s.Attributes = []Attribute{String("a", "1"), String("b", "2")}
	return &turn{Context: context.Background(), p: NewProvider(func() time.Time { return time.Unix(0, hour0+7) }),
		b: NewBuffer(Options{Incarnation: 1}), s: s}
}

// stored returns the spans of a buffer, by name.
func stored(t *testing.T, b *Buffer) map[string]Span {
	t.Helper()
	m := map[string]Span{}
	for _, s := range read(t, newRows(), Query{Live: b.Pending()}).Spans {
		m[s.Name] = s
	}
	return m
}

// TestSpansOfUsersGoToTheirActor uses the OpenTelemetry API as users do. TestSpansAreThoseOfTheSDK
// shows the rest of it.
func TestSpansOfUsersGoToTheirActor(t *testing.T) {
	c := newTurn(true)
	own := trace.SpanFromContext(context.WithValue(c, testing.TB(t), 1))
	fatalIf(t, own.SpanContext().SpanID() != trace.SpanID(number(1)) || c.Value("nothing") != nil, "the context has another span")
	tracer := own.TracerProvider().Tracer("shop", trace.WithInstrumentationVersion("v2"))
	ctx, charge := tracer.Start(c, "charge", trace.WithSpanKind(trace.SpanKindClient))
	_, card := tracer.Start(ctx, "card")
	open := stored(t, c.b)
	errorIf(t, len(open) != 2 || !open["charge"].Partial || open["card"].Parent != open["charge"].SpanID, "the open spans are %+v", open)
	card.End()
	charge.SetStatus(codes.Ok, "")
	mapped, mixed := attribute.MapValue(attribute.Int("a", 1)), attribute.SliceValue(attribute.IntValue(1))
	charge.SetAttributes(attribute.Int("n", 1), attribute.String("text", strings.Repeat("x", 2*MaxString)),
		attribute.StringSlice("list", []string{"a", "b"}), attribute.BoolSlice("bools",
			[]bool{true}), attribute.Int64Slice("ints", []int64{1}),
		attribute.Float64Slice("floats", []float64{1}), attribute.Float64("f", 1.5), attribute.Bool("ok",
			true), attribute.KeyValue{Key: "none"},
		attribute.ByteSlice("bytes", []byte{1, 2}), attribute.KeyValue{Key: "map",
			Value: mapped}, attribute.KeyValue{Key: "mixed", Value: mixed})
	charge.End()
	_, root := c.p.Tracer("").Start(ctx, "root", trace.WithNewRoot())
	root.End()

	got := stored(t, c.b)
	s, r := got["charge"], got["root"]
	scoped := reflect.DeepEqual(s.Scope, Scope{Name: "shop", Version: "v2"}) && reflect.DeepEqual(r.Scope, Scope{Name: unnamed})
	errorIf(t, !scoped || s.Kind != Client || s.Status != OK || !s.Sampled, "charge is %+v, root is %+v", s, r)
	parents := s.Parent == number(1) && s.TraceID == c.s.TraceID && !s.RemoteParent && r.TraceID != c.s.TraceID && r.Parent == SpanID{}
	errorIf(t, !parents, "charge is %+v, root is %+v", s, r)
	want := []Attribute{Int("n", 1), String("text", strings.Repeat("x", MaxString)),
		List("list", String("", "a").Value, String("", "b").Value),
		List("bools", Bool("", true).Value), List("ints", Int("", 1).Value), List("floats",
			Float("", 1).Value), Float("f", 1.5), Bool("ok", true),
		{Key: "none"}, Bytes("bytes", []byte{1, 2}), String("map", mapped.String()), String("mixed", mixed.String())}
	errorIf(t, !reflect.DeepEqual(s.Attributes, want), "the attributes are %+v", s.Attributes)
}

// TestSpansAreThoseOfTheSDK has the spans that begin in such a turn.
func TestSpansFollowTheSamplingOfTheirTurn(t *testing.T) {
	c := newTurn(false)
	span := trace.SpanFromContext(c)
	errorIf(t, span.IsRecording(), "the span of a turn that is not sampled is recorded")
	everything(span, 1)
	var out Span
	c.active.Finish(&out)
	errorIf(t, len(out.Events)+len(out.Links) > 0 || len(out.Attributes) != 2 || !c.b.Empty(), "it has %+v", out)
}

func TestUsersAddToTheSpanOfTheirTurn(t *testing.T) {
	c := newTurn(true)
	span := trace.SpanFromContext(c)
	span.SetAttributes(attribute.String("b", "3"), attribute.Int("c", 4), attribute.Int("", 1))
	span.AddEvent("default", trace.WithAttributes(attribute.Int("n", 1)))
	span.AddEvent("given", trace.WithTimestamp(time.Unix(0, hour0+1)))
	span.RecordError(errors.New("no money"), trace.WithStackTrace(true))
	span.RecordError(nil)
	span.RecordError((*panics)(nil))
	span.AddLink(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{9}, SpanID: trace.SpanID{9}})})
	span.SetStatus(codes.Error, "bad")
	span.SetStatus(codes.Unset, "")
	span.SetName("renamed")
	span.End()
	span.AddEvent("\xff")
	errorIf(t, !span.IsRecording(), "it ended")
	live := c.active.Snapshot()
	for i := range 200 {
		span.AddEvent("more")
		span.AddLink(trace.LinkFromContext(c))
		span.SetAttributes(attribute.Int(strings.Repeat("k", 1+i), 1))
	}
	s := c.s
	s.Name, s.End = "turn", hour0+100
	c.active.Finish(&s)
	if s.Name != "renamed" || s.Status != Error || s.Message != "bad" || s.End != hour0+100 || live.End != 0 || live.Name != "renamed" {
		t.Errorf("the span is %+v", s)
	}
	if s.Attributes[0] != String("a", "1") || s.Attributes[1] != String("b", "3") || s.Attributes[2] != Int("c", 4) ||
		c.s.Attributes[1] != String("b", "2") {
		t.Errorf("the attributes are %+v, those of the runtime %+v", s.Attributes, c.s.Attributes)
	}
	if len(s.Attributes) != MaxAttributes || len(s.Events) != MaxEvents || len(s.Links) != MaxLinks ||
		s.DroppedAttributes != 76 || s.DroppedEvents != 77 || s.DroppedLinks != 73 {
		t.Errorf("%d+%d attributes, %d+%d events, %d+%d links", len(s.Attributes), s.DroppedAttributes, len(s.Events),
			s.DroppedEvents, len(s.Links), s.DroppedLinks)
	}
	for i, want := range []Event{{Name: "default", Time: hour0 + 7}, {Name: "given", Time: hour0 + 1},
		{Name: "exception", Time: hour0 + 7}, {Name: "exception", Time: hour0 + 7}, {Name: "\uFFFD", Time: hour0 + 7}} {
		e := live.Events[i]
		errorIf(t, e.Name != want.Name || e.Time != want.Time, "event %d is %+v", i, e)
	}
	if a := live.Events[2].Attributes; len(a) != 3 || a[0].Value.Text() != "*errors.errorString" ||
		a[1].Value.Text() != "no money" || !strings.Contains(a[2].Value.Text(), "provider_test.go") {
		t.Errorf("the error is %+v", a)
	}
	span.SetName("late")
	errorIf(t, span.IsRecording() || c.active.Snapshot().Name != "renamed", "it changes after its end")
}

type panics struct{ text string }

func (p *panics) Error() string { return p.text }

func TestErrorsOfTheRuntimeStay(t *testing.T) {
	c := newTurn(true)
	trace.SpanFromContext(c).SetStatus(codes.Ok, "")
	trace.SpanFromContext(c).SetStatus(codes.Error, "later")
	s := Span{Status: Error, Message: "the turn failed"}
	c.active.Finish(&s)
	if s.Status != Error || s.Message != "the turn failed" || c.active.s.Status != OK {
		t.Errorf("the status is %v %q, that of the user %v", s.Status, s.Message, c.active.s.Status)
	}
}

// TestSpansOfUsersCauseAFlush: a buffer calls Added for each span that a user begins or ends.
func TestSpansOfUsersCauseAFlush(t *testing.T) {
	own := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(NewProcessor()))
	c := newTurn(true)
	store, calls, chunks := newRows(), 0, 0
	c.b = NewBuffer(Options{Incarnation: 1, Added: func(full bool) {
		if calls++; full {
			chunks++
			flush(t, c.b, store, hour0+minute)
		}
	}})
	ctx := c.p.Begin(c.b, c.s).Context(context.Background())
	const each = 2000
	for _, p := range []trace.TracerProvider{c.p, own} {
		tracer := p.Tracer("shop")
		for i := range each {
			_, s := tracer.Start(ctx, strings.Repeat(strconv.Itoa(i%10), 1000)+strconv.Itoa(i))
			s.End()
		}
	}
	if d := c.b.Drops(); calls != 2*2*each || chunks < 2*each*1000/MaxChunk || d != (Drops{}) {
		t.Errorf("%d calls, %d with a full chunk, drops %v", calls, chunks, d)
	}
}

// TestDroppedSpansCauseNoFlush: a closed or full buffer counts dropped spans, and does not call
// Added for them.
func TestDroppedSpansCauseNoFlush(t *testing.T) {
	calls := 0
	b := NewBuffer(Options{Incarnation: 1, Added: func(bool) { calls++ }})
	for b.Drops() == (Drops{}) {
		b.Add(Span{End: hour0, Name: strings.Repeat("n", 1000)})
	}
	full := calls
	b.Add(Span{End: hour0, Name: "n"})
	for i := range MaxOpen + 10 {
		b.Open(SpanID{byte(i), byte(i >> 8), 1}, TraceID{1}, nil)
	}
	open := calls - full
	b.Close()
	errorIf(t, b.Open(SpanID{1}, TraceID{1}, nil), "a closed buffer registers a span")
	b.End(Span{End: hour0})
	b.Add(Span{End: hour0})
	if full == 0 || open != MaxOpen || calls != full+open {
		t.Errorf("%d calls up to the limit of bytes, %d with that of open spans, %d in all", full, open, calls)
	}
	d := b.Drops()
	errorIf(t, d[DropFull] != 2 || d[DropOpen] != 11 || d[DropLate] != 2, "drops are %v", d)
}

// TestAProgramCanUseItsOwnProvider registers the processor with another provider. Spans that never
// end, and spans beyond the limit, cost no memory when the actor sleeps.
func TestAProgramCanUseItsOwnProvider(t *testing.T) {
	p := NewProcessor()
	own := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(p))
	c := newTurn(true)
	ctx := c.p.Begin(c.b, c.s).Context(context.Background())
	_, mine := own.Tracer("own").Start(ctx, "mine")
	_, other := own.Tracer("own").Start(context.Background(), "other")
	other.End()
	mine.End()
	got := stored(t, c.b)
	errorIf(t, len(got) != 1 || got["mine"].Parent != number(1), "the actor has %+v", got)
	var spans []trace.Span
	for range MaxOpen + 5 {
		_, s := own.Tracer("own").Start(ctx, "left open")
		spans = append(spans, s)
	}
	errorIf(t, len(p.routes) != MaxOpen, "%d spans are known", len(p.routes))
	spans[MaxOpen].End() // it was not registered, for lack of room
	spans[0].End()
	c.b.Close()
	spans[1].End()
	errorIf(t, len(p.routes) != 0 || c.b.Drops()[DropOpen] != 5, "%d spans are known after the end, drops %v", len(p.routes), c.b.Drops())
	err := errors.Join(own.ForceFlush(ctx), own.Shutdown(ctx))
	errorIf(t, err != nil, "%v", err)
}
