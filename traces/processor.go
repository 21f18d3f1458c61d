package traces

import (
	"context"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Processor is a span processor for the OpenTelemetry SDK. It gives spans to the buffer of the
// actor from whose context they were started. A program registers one with its own provider; a
// [Provider] needs none.
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
	if !a.buffer.Open(id.span, id.trace, &sdkSpan{s, p, id}) {
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

// ForceFlush implements the SDK's SpanProcessor. It does nothing: the runtime flushes buffers.
func (p *Processor) ForceFlush(context.Context) error { return nil }

func (p *Processor) forget(id identity) {
	p.mu.Lock()
	delete(p.routes, id)
	p.mu.Unlock()
}

// sdkSpan is an open span of the SDK.
type sdkSpan struct {
	s  sdktrace.ReadWriteSpan
	p  *Processor
	id identity
}

// Snapshot implements [Live].
func (l *sdkSpan) Snapshot() Span {
	s := fromSDK(l.s)
	s.End = 0
	return s
}

func (l *sdkSpan) forget() { l.p.forget(l.id) }

// fromSDK converts a span of the SDK.
func fromSDK(s sdktrace.ReadOnlySpan) Span {
	c, parent, scope, status := s.SpanContext(), s.Parent(), s.InstrumentationScope(), s.Status()
	out := Span{
		TraceID: TraceID(c.TraceID()), SpanID: SpanID(c.SpanID()), Sampled: c.IsSampled(),
		Parent: SpanID(parent.SpanID()), RemoteParent: parent.IsRemote(),
		Name: s.Name(), Kind: Kind(s.SpanKind()), Start: s.StartTime().UnixNano(),
		Status: fromCode(status.Code), Message: status.Description,
		Scope: Scope{scope.Name, scope.Version, scope.SchemaURL,
			fromAttributes(scope.Attributes.ToSlice())},
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
			out.Events[i] = fromEvent(e.Name, e.Time, e.Attributes, e.DroppedAttributeCount)
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
