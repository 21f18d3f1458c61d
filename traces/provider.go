package traces

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// routeKey is the key under which a context has the [*Active] to whose actor spans belong.
type routeKey struct{}

// Provider makes the spans of users. Spans whose context comes from an [Active] go to the buffer of its actor, if it is
// sampled; others are not recorded.
type Provider struct {
	embedded.TracerProvider
	sdk *sdktrace.TracerProvider
	now func() int64
	key any // of the span in a context
}

// NewProvider returns a provider. now is the time of events that users add to spans of the runtime, in Unix nanoseconds.
func NewProvider(now func() int64) *Provider {
	limits := sdktrace.NewSpanLimits()
	limits.AttributeValueLengthLimit = MaxString
	limits.AttributeCountLimit, limits.EventCountLimit, limits.LinkCountLimit = MaxAttributes, MaxEvents, MaxLinks
	limits.AttributePerEventCountLimit, limits.AttributePerLinkCountLimit = MaxAttributes, MaxAttributes
	sdk := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler{}), sdktrace.WithSpanProcessor(NewProcessor()),
		sdktrace.WithResource(resource.Empty()), sdktrace.WithRawSpanLimits(limits))
	var find keyFinder
	trace.SpanFromContext(&find)
	return &Provider{sdk: sdk, now: now, key: find.key}
}

// keyFinder is a context that notes the key that it is asked for: the key of spans is not exported.
type keyFinder struct {
	context.Context
	key any
}

// Value notes the key.
func (f *keyFinder) Value(key any) any {
	f.key = key
	return nil
}

// Tracer returns a tracer of the OpenTelemetry SDK.
func (p *Provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return p.sdk.Tracer(name, options...)
}

// IsKey reports whether the value of a context under key is the [*Active] of the context. A context of the runtime answers
// such a key with one, which it can make on demand.
func (p *Provider) IsKey(key any) bool { return key == p.key || key == any(routeKey{}) }

// sampler records the spans that go to an actor.
type sampler struct{}

// ShouldSample implements the SDK's Sampler.
func (sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if a := activeOf(p.ParentContext); a != nil && a.sampled {
		r.Decision = sdktrace.RecordAndSample
	}
	return r
}

// Description implements the SDK's Sampler.
func (sampler) Description() string { return "actor" }

func activeOf(ctx context.Context) *Active {
	a, _ := ctx.Value(routeKey{}).(*Active)
	return a
}

// Processor is a span processor for the OpenTelemetry SDK. It gives spans to the buffer of the actor from whose context they were
// started. A [Provider] has one; a program can register one with its own provider.
type Processor struct {
	mu     sync.Mutex
	routes map[identity]*Buffer
}

// NewProcessor returns a processor.
func NewProcessor() *Processor { return &Processor{routes: map[identity]*Buffer{}} }

// OnStart implements the SDK's SpanProcessor.
func (p *Processor) OnStart(parent context.Context, s sdktrace.ReadWriteSpan) {
	a := activeOf(parent)
	if a == nil || a.buffer == nil {
		return
	}
	c := s.SpanContext()
	id := identity{TraceID(c.TraceID()), SpanID(c.SpanID())}
	p.mu.Lock()
	p.routes[id] = a.buffer
	p.mu.Unlock()
	if !a.buffer.Open(id.span, id.trace, &userSpan{s, p, id}) {
		p.forget(id)
	}
}

// OnEnd implements the SDK's SpanProcessor.
func (p *Processor) OnEnd(s sdktrace.ReadOnlySpan) {
	c := s.SpanContext()
	id := identity{TraceID(c.TraceID()), SpanID(c.SpanID())}
	p.mu.Lock()
	b := p.routes[id]
	delete(p.routes, id)
	p.mu.Unlock()
	if b != nil {
		b.End(fromSDK(s))
	}
}

// Shutdown implements the SDK's SpanProcessor.
func (p *Processor) Shutdown(context.Context) error { return nil }

// ForceFlush implements the SDK's SpanProcessor. The runtime flushes buffers.
func (p *Processor) ForceFlush(context.Context) error { return nil }

func (p *Processor) forget(id identity) {
	p.mu.Lock()
	delete(p.routes, id)
	p.mu.Unlock()
}

// userSpan is an open span of a user.
type userSpan struct {
	s  sdktrace.ReadWriteSpan
	p  *Processor
	id identity
}

// Snapshot implements [Live].
func (u *userSpan) Snapshot() Span {
	s := fromSDK(u.s)
	s.End = 0
	return s
}

func (u *userSpan) forget() { u.p.forget(u.id) }

// fromSDK converts a span of the SDK.
func fromSDK(s sdktrace.ReadOnlySpan) Span {
	c, parent, scope, status := s.SpanContext(), s.Parent(), s.InstrumentationScope(), s.Status()
	out := Span{
		TraceID: TraceID(c.TraceID()), SpanID: SpanID(c.SpanID()), Sampled: c.IsSampled(),
		Parent: SpanID(parent.SpanID()), RemoteParent: parent.IsRemote(),
		Name: s.Name(), Kind: Kind(s.SpanKind()), Start: s.StartTime().UnixNano(),
		Status: fromCode(status.Code), Message: status.Description,
		Scope:             Scope{scope.Name, scope.Version},
		Attributes:        fromAttributes(s.Attributes()),
		DroppedAttributes: uint32(s.DroppedAttributes()), DroppedEvents: uint32(s.DroppedEvents()), DroppedLinks: uint32(s.DroppedLinks()),
	}
	if end := s.EndTime(); !end.IsZero() {
		out.End = end.UnixNano()
		if out.End == 0 {
			out.End = 1 // 0 is an open span
		}
	}
	if events := s.Events(); len(events) > 0 {
		out.Events = make([]Event, len(events))
		for i, e := range events {
			out.Events[i] = Event{Name: e.Name, Time: e.Time.UnixNano(), Attributes: fromAttributes(e.Attributes), DroppedAttributes: uint32(e.DroppedAttributeCount)}
		}
	}
	if links := s.Links(); len(links) > 0 {
		out.Links = make([]Link, len(links))
		for i, l := range links {
			out.Links[i] = fromLink(l.SpanContext, l.Attributes, l.DroppedAttributeCount)
		}
	}
	return out
}

func fromLink(c trace.SpanContext, attributes []attribute.KeyValue, dropped int) Link {
	return Link{TraceID: TraceID(c.TraceID()), SpanID: SpanID(c.SpanID()), Sampled: c.IsSampled(), Remote: c.IsRemote(),
		Attributes: fromAttributes(attributes), DroppedAttributes: uint32(dropped)}
}

// fromCode converts a status: OpenTelemetry's Go API numbers Error and OK the other way round than OTLP.
func fromCode(c codes.Code) Status {
	switch c {
	case codes.Ok:
		return OK
	case codes.Error:
		return Error
	}
	return Unset
}

func fromAttributes(list []attribute.KeyValue) []Attribute {
	if len(list) == 0 {
		return nil
	}
	out := make([]Attribute, len(list))
	for i := range list {
		out[i] = fromAttribute(string(list[i].Key), list[i].Value)
	}
	return out
}

// fromAttribute converts an attribute. A map, and a list with lists in it, become texts.
func fromAttribute(key string, v attribute.Value) Attribute {
	switch v.Type() {
	case attribute.EMPTY:
		return Attribute{Key: key}
	case attribute.BOOL:
		return Bool(key, v.AsBool())
	case attribute.INT64:
		return Int(key, v.AsInt64())
	case attribute.FLOAT64:
		return Float(key, v.AsFloat64())
	case attribute.STRING:
		return String(key, v.AsString())
	case attribute.BYTESLICE:
		return Bytes(key, v.AsByteSlice())
	case attribute.BOOLSLICE:
		return list(key, v.AsBoolSlice(), Bool)
	case attribute.INT64SLICE:
		return list(key, v.AsInt64Slice(), Int)
	case attribute.FLOAT64SLICE:
		return list(key, v.AsFloat64Slice(), Float)
	case attribute.STRINGSLICE:
		return list(key, v.AsStringSlice(), String)
	}
	return String(key, v.String())
}

func list[T any](key string, elements []T, make1 func(string, T) Attribute) Attribute {
	values := make([]Value, 0, min(len(elements), MaxString))
	for _, e := range elements[:cap(values)] {
		values = append(values, make1("", e).Value)
	}
	return List(key, values...)
}

// EnvironmentAttributes returns the attributes of OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME, for resources. Text
// that is not UTF-8 is replaced: a collector would refuse all that is sent with it.
func EnvironmentAttributes(ctx context.Context) ([]Attribute, error) {
	r, err := resource.New(ctx, resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return cloneAttributes(fromAttributes(r.Attributes()), new(uint32)), nil
}
