package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sdkProvider returns a provider of the SDK with the limits of a span. A [Processor] gives its
// spans to their actor.
func sdkProvider() trace.TracerProvider {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = MaxString
	limits.AttributeCountLimit, limits.EventCountLimit, limits.LinkCountLimit = MaxAttributes, MaxEvents, MaxLinks
	limits.AttributePerEventCountLimit, limits.AttributePerLinkCountLimit = MaxAttributes, MaxAttributes
	return sdktrace.NewTracerProvider(sdktrace.WithSampler(sdkSampler{}), sdktrace.WithSpanProcessor(NewProcessor()),
		sdktrace.WithRawSpanLimits(limits))
}

// sdkSampler records the spans that go to an actor.
type sdkSampler struct{}

func (sdkSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if a := activeOf(p.ParentContext); a != nil && a.sampled {
		r.Decision = sdktrace.RecordAndSample
	}
	return r
}

func (sdkSampler) Description() string { return "actor" }

// tester has the context of a turn and a tracer for a case. It records the results of the API.
type tester struct {
	ctx    context.Context
	p      trace.TracerProvider
	tracer trace.Tracer
	said   []string
}

func (t *tester) say(format string, args ...any) {
	t.said = append(t.said, fmt.Sprintf(format, args...))
}

// saySpan records the properties of a span. Ids are random, so it records only their relation to
// the turn.
func (t *tester) saySpan(s trace.Span) {
	c := s.SpanContext()
	t.say("recording %v valid %v remote %v flags %v state %q own trace %v", s.IsRecording(), c.IsValid(), c.IsRemote(), c.TraceFlags(),
		c.TraceState().String(), c.TraceID() != trace.SpanContextFromContext(t.ctx).TraceID())
}

func remote(flags trace.TraceFlags) trace.SpanContext {
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		panic(err)
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{7}, SpanID: trace.SpanID{8},
		TraceFlags: flags, TraceState: state, Remote: true})
}

// valueError is an error that is not a pointer.
type valueError struct{ text string }

func (e valueError) Error() string { return e.text }

// everything changes all members of a span.
func everything(s trace.Span, n int) {
	s.SetName(fmt.Sprint("name ", n))
	s.SetAttributes(attribute.Int(fmt.Sprint("a", n), n), attribute.Int("same", n))
	s.AddEvent(fmt.Sprint("event ", n))
	s.AddLink(trace.Link{SpanContext: remote(0)})
	s.RecordError(valueError{fmt.Sprint(n)})
	s.SetStatus(codes.Error, fmt.Sprint(n))
}

var sdkCases = map[string]func(t *tester){
	"attributes": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s",
			trace.WithAttributes(attribute.Int("twice", 1), attribute.String("", "no key"), attribute.Int("twice", 2)),
			trace.WithAttributes(attribute.String("more", "x")))
		s.SetAttributes(attribute.String("more", "y"), attribute.Bool("bool", true), attribute.Float64("float", 1.5),
			attribute.StringSlice("list", []string{"a", "\xff"}),
			attribute.KeyValue{Key: "none"}, attribute.String("bad \xff", "\xff"), attribute.String("long",
				strings.Repeat("é", MaxString)), attribute.String("longer", "x"+strings.Repeat("é", MaxString)),
			attribute.String("cut", "x"+strings.Repeat("日", MaxString)), attribute.String("cut also", "x"+strings.Repeat("😀", MaxString)),
			attribute.StringSlice("long list", []string{strings.Repeat("x", MaxString-100), "short", strings.Repeat("y", 100)}))
		s.SetAttributes()
		s.End()
	},
	"values of values": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s")
		s.SetAttributes(attribute.KeyValue{Key: "map",
			Value: attribute.MapValue(attribute.Int("b", 1), attribute.Int("a", 2), attribute.Int("b", 3))},
			attribute.KeyValue{Key: "list",
				Value: attribute.SliceValue(attribute.IntValue(1),
					attribute.MapValue(attribute.Int("b", 1), attribute.Int("b", 2)))},
			attribute.KeyValue{Key: "bytes", Value: attribute.ByteSliceValue(make([]byte, 2*MaxString))})
		s.End()
	},
	"too many attributes": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s")
		for i := range MaxAttributes + 10 {
			s.SetAttributes(attribute.Int(fmt.Sprint("a", i), i))
		}
		s.SetAttributes(attribute.Int("a0", -1), attribute.Int("new", 1), attribute.Int("a1", -2), attribute.Int("", 1))
		s.End()
		var many []attribute.KeyValue
		for i := range 2 * MaxAttributes {
			many = append(many, attribute.Int(fmt.Sprint("a", i%(MaxAttributes+1)), i))
		}
		_, s = t.tracer.Start(t.ctx, "at once", trace.WithAttributes(many...))
		s.AddEvent("e", trace.WithAttributes(many...))
		s.AddLink(trace.Link{SpanContext: remote(0), Attributes: many})
		s.End()
	},
	"status": func(t *tester) {
		for name, codes := range map[string][]codes.Code{"none": nil, "unset": {codes.Unset}, "error": {codes.Error},
			"ok": {codes.Ok}, "error ok": {codes.Error, codes.Ok},
			"ok error": {codes.Ok, codes.Error}, "error unset": {codes.Error, codes.Unset}, "error error": {codes.Error,
				codes.Error}, "ok unset": {codes.Ok, codes.Unset}} {
			_, s := t.tracer.Start(t.ctx, name)
			for i, c := range codes {
				s.SetStatus(c, fmt.Sprint("text ", i, "\xff"))
			}
			s.End()
		}
	},
	"events": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s")
		s.AddEvent("now", trace.WithAttributes(attribute.Int("a", 1), attribute.Int("a", 2)))
		time.Sleep(time.Second)
		s.AddEvent("later \xff")
		s.AddEvent("given", trace.WithTimestamp(time.Unix(5, 6)))
		s.End()
	},
	"too many events": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s")
		for i := range 2 * MaxEvents {
			s.AddEvent(fmt.Sprint("e", i))
		}
		s.RecordError(errors.New("the last one is kept"))
		s.End()
	},
	"errors": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s")
		s.RecordError(nil)
		s.RecordError(errors.New("pointer"), trace.WithAttributes(attribute.Int("a", 1)), trace.WithTimestamp(time.Unix(5, 6)))
		s.RecordError(valueError{"value"})
		s.RecordError(fmt.Errorf("wrapped: %w", valueError{"value"}))
		s.RecordError(valueError{"stack"}, trace.WithStackTrace(true))
		s.End()
	},
	"panics": func(t *tester) {
		for _, stack := range []bool{true, false} {
			func() {
				defer func() { t.say("the panic is %v", recover()) }()
				_, s := t.tracer.Start(t.ctx, fmt.Sprint("stack ", stack))
				defer s.End(trace.WithStackTrace(stack))
				panic(valueError{"it panics"})
			}()
		}
		_, s := t.tracer.Start(t.ctx, "ended before")
		func() {
			defer func() { t.say("the panic is %v", recover()) }()
			defer s.End()
			s.End()
			panic(valueError{"it panics"})
		}()
	},
	"links": func(t *tester) {
		here := trace.SpanContextFromContext(t.ctx)
		_, s := t.tracer.Start(t.ctx, "s",
			trace.WithLinks(trace.Link{SpanContext: here, Attributes: []attribute.KeyValue{attribute.Int("a", 1)}}, trace.Link{}),
			trace.WithLinks(trace.Link{SpanContext: remote(trace.FlagsSampled)}))
		s.AddLink(trace.Link{})
		s.AddLink(trace.Link{Attributes: []attribute.KeyValue{attribute.Int("only", 1)}})
		s.AddLink(trace.Link{SpanContext: trace.SpanContext{}.WithTraceState(remote(0).TraceState())})
		s.AddLink(trace.LinkFromContext(t.ctx))
		s.End()
		_, s = t.tracer.Start(t.ctx, "many")
		for i := range 2 * MaxLinks {
			s.AddLink(trace.Link{SpanContext: remote(0).WithSpanID(trace.SpanID{1, byte(i), byte(i >> 8)})})
		}
		s.End()
	},
	"kinds": func(t *tester) {
		for k := trace.SpanKind(-1); k < 8; k++ {
			_, s := t.tracer.Start(t.ctx, fmt.Sprint("kind ", int(k)), trace.WithSpanKind(k))
			s.End()
		}
	},
	"names": func(t *tester) {
		for i, name := range []string{"", "\xff", strings.Repeat("x", 2*MaxString)} {
			_, s := t.tracer.Start(t.ctx, name)
			s.SetAttributes(attribute.Int("i", i))
			s.End()
		}
		_, s := t.tracer.Start(t.ctx, "first")
		s.SetName("second")
		s.End()
	},
	"parents": func(t *tester) {
		ctx, parent := t.tracer.Start(t.ctx, "parent")
		t.saySpan(parent)
		_, child := t.tracer.Start(ctx, "child")
		parent.End()
		_, late := t.tracer.Start(ctx, "child of an ended one")
		_, root := t.tracer.Start(ctx, "root", trace.WithNewRoot())
		for _, s := range []trace.Span{child, late, root} {
			t.saySpan(s)
			s.End()
		}
		for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled, 2} {
			_, s := t.tracer.Start(trace.ContextWithRemoteSpanContext(t.ctx, remote(flags)), fmt.Sprint("remote ", flags))
			t.saySpan(s)
			s.End()
		}
		_, s := t.tracer.Start(trace.ContextWithSpanContext(t.ctx, trace.SpanContext{}), "no parent")
		t.saySpan(s)
		s.End()
	},
	"without an actor": func(t *tester) {
		for _, ctx := range []context.Context{nil, context.Background(),
			trace.ContextWithRemoteSpanContext(context.Background(), remote(trace.FlagsSampled))} {
			ctx, s := t.tracer.Start(ctx, "s")
			t.saySpan(s)
			t.say("%v %v", trace.SpanContextFromContext(ctx).Equal(s.SpanContext()), s.TracerProvider() == t.p)
			everything(s, 1)
			s.End()
		}
	},
	"after the end": func(t *tester) {
		ctx, s := t.tracer.Start(t.ctx, "s")
		everything(s, 1)
		time.Sleep(time.Second)
		s.End()
		time.Sleep(time.Second)
		everything(s, 2)
		s.End(trace.WithTimestamp(time.Unix(1, 0)))
		t.saySpan(s)
		t.say("%v %v", trace.SpanContextFromContext(ctx).Equal(s.SpanContext()), s.TracerProvider() == t.p)
	},
	"times": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "given", trace.WithTimestamp(time.Unix(10, 1)))
		s.End(trace.WithTimestamp(time.Unix(20, 2)))
		_, s = t.tracer.Start(t.ctx, "backwards", trace.WithTimestamp(time.Unix(10, 1)))
		s.End(trace.WithTimestamp(time.Unix(9, 2)))
		_, s = t.tracer.Start(t.ctx, "1970", trace.WithTimestamp(time.Unix(0, 0)))
		s.End(trace.WithTimestamp(time.Unix(0, 0)))
		_, s = t.tracer.Start(t.ctx, "start only", trace.WithTimestamp(time.Unix(10, 1)))
		s.End()
		_, s = t.tracer.Start(t.ctx, "end only")
		s.End(trace.WithTimestamp(time.Now().Add(time.Hour)))
		_, s = t.tracer.Start(t.ctx, "none")
		time.Sleep(time.Second)
		s.End()
	},
	"open": func(t *tester) {
		_, s := t.tracer.Start(t.ctx, "s", trace.WithLinks(trace.Link{SpanContext: remote(0)}), trace.WithSpanKind(trace.SpanKindClient))
		everything(s, 1)
	},
	"scopes": func(t *tester) {
		for i, tracer := range []trace.Tracer{
			t.p.Tracer("named"), t.p.Tracer("versioned", trace.WithInstrumentationVersion("v2"),
				trace.WithSchemaURL("https://example.com/1")),
			t.p.Tracer("bad \xff", trace.WithInstrumentationVersion("\xff"), trace.WithInstrumentationAttributes(attribute.Int("a", 1))),
		} {
			_, s := tracer.Start(t.ctx, fmt.Sprint("s", i))
			s.End()
		}
	},
}

// TestSpansAreThoseOfTheSDK uses the API of OpenTelemetry on a Provider and on the SDK, and expects
// the same spans.
func TestSpansAreThoseOfTheSDK(t *testing.T) {
	for name, f := range sdkCases {
		for _, sampled := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " sampled ", sampled), func(t *testing.T) {
				run := func(sdk bool) (said []string, spans []Span) {
					synctest.Test(t, func(t *testing.T) { // each run begins at the same time
						c := newTurn(sampled)
						c.p = NewProvider(time.Now)
						test := &tester{ctx: c, p: c.p}
						if sdk {
							test.p = sdkProvider()
						}
						test.tracer = test.p.Tracer("shop")
						f(test)
						said, spans = test.said, withoutIDs(read(t, newRows(), Query{Live: c.b.Pending()}).Spans)
					})
					return said, spans
				}
				said, spans := run(false)
				sdkSaid, sdkSpans := run(true)
				if !slices.Equal(said, sdkSaid) {
					t.Errorf("the API says\n%s\nand that of the SDK\n%s", strings.Join(said, "\n"), strings.Join(sdkSaid, "\n"))
				}
				fatalIf(t, len(spans) != len(sdkSpans), "%d spans, and %d of the SDK", len(spans), len(sdkSpans))
				for i := range spans {
					if !reflect.DeepEqual(spans[i], sdkSpans[i]) {
						t.Errorf("the span is\n%.2000s\nand that of the SDK\n%.2000s", fmt.Sprintf("%+v", spans[i]),
							fmt.Sprintf("%+v", sdkSpans[i]))
					}
				}
			})
		}
	}
}

// withoutIDs replaces random parts of spans: a parent's id becomes an attribute with its name.
// Texts of stacks differ.
func withoutIDs(spans []Span) []Span {
	names := map[SpanID]string{}
	for _, s := range spans {
		names[s.SpanID] = s.Name
	}
	for i := range spans {
		s := &spans[i]
		s.Attributes = append(s.Attributes, String("parent", names[s.Parent]))
		for _, id := range []SpanID{number(1), {8}} { // the turn, and a remote one
			if s.Parent == id {
				s.Attributes = append(s.Attributes, String("parent", id.String()))
			}
		}
		s.TraceID, s.SpanID, s.Parent = TraceID{}, SpanID{}, SpanID{}
		for _, e := range s.Events {
			for j := range e.Attributes {
				if a := &e.Attributes[j]; a.Key == "exception.stacktrace" && strings.Contains(a.Value.Text(), "sdk_test.go") {
					a.Value = Value{}
				}
			}
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Name, b.Name)) })
	return spans
}

// TestAUserSpanIsSafeForConcurrentUse calls all methods of a span during reads of its actor.
func TestAUserSpanIsSafeForConcurrentUse(t *testing.T) {
	c := newTurn(true)
	ctx, s := c.p.Tracer("shop").Start(c, "s")
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for n := range 20 {
				everything(s, n)
				_, child := s.TracerProvider().Tracer("shop").Start(ctx, "child")
				child.End()
				if i == 0 && n == 15 {
					s.End()
				}
				errorIf(t, !s.SpanContext().IsValid() || len(c.b.Pending().open) > 8+1, "the span has no id, or spans that ended are open")
			}
			s.End()
		})
	}
	calls.Wait()
	s.SetName("late")
	for name, got := range stored(t, c.b) {
		if got.Partial ||
			name != "child" &&
				(got.SpanID != SpanID(s.SpanContext().SpanID()) || got.Name == "late" || len(got.Links) == 0 || got.Status != Error) {
			t.Errorf("span %q has status %v, %d links and is open: %v", got.Name, got.Status, len(got.Links), got.Partial)
		}
	}
}
