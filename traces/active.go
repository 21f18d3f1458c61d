package traces

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// Active is an open span of the runtime, for users of the OpenTelemetry API. It is the span of
// their context, to which they add attributes and events, and the parent of their own spans. It
// implements [Live].
type Active struct {
	embedded.Span
	provider *Provider
	buffer   *Buffer
	sampled  bool
	context  trace.SpanContext

	mu       sync.Mutex
	s        Span
	named    bool
	statused bool
	ended    bool
}

// Begin returns an Active for a span of the runtime. Spans of users go to b if s is sampled.
func (p *Provider) Begin(b *Buffer, s Span) *Active {
	c := trace.SpanContextConfig{TraceID: trace.TraceID(s.TraceID), SpanID: trace.SpanID(s.SpanID),
		TraceFlags: trace.TraceFlags(0).WithSampled(s.Sampled)}
	return &Active{provider: p, buffer: b, sampled: s.Sampled, context: trace.NewSpanContext(c), s: s.Clone()}
}

// Context returns a context with the span, for code that does not run in a context of the runtime.
func (a *Active) Context(parent context.Context) context.Context {
	return trace.ContextWithSpan(context.WithValue(parent, routeKey{}, a), a)
}

// Snapshot implements [Live].
func (a *Active) Snapshot() Span {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.s.Clone()
	s.End = 0
	return s
}

// Finish copies users' changes to s: attributes, events, links, and the name and the status if they
// set them and s has no error. Later changes are ignored.
func (a *Active) Finish(s *Span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	s.Attributes, s.Events, s.Links = a.s.Attributes, a.s.Events, a.s.Links
	s.DroppedAttributes, s.DroppedEvents, s.DroppedLinks = a.s.DroppedAttributes, a.s.DroppedEvents, a.s.DroppedLinks
	if a.named {
		s.Name = a.s.Name
	}
	if a.statused && s.Status != Error {
		s.Status, s.Message = a.s.Status, a.s.Message
	}
}

// change calls f with the span, if users can still change it.
func (a *Active) change(f func(s *Span)) {
	if !a.sampled {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ended {
		f(&a.s)
	}
}

// End does nothing: the runtime ends its spans.
func (a *Active) End(...trace.SpanEndOption) {}

// IsRecording reports whether the span keeps changes.
func (a *Active) IsRecording() bool {
	if !a.sampled {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.ended
}

// SpanContext returns the ids of the span.
func (a *Active) SpanContext() trace.SpanContext { return a.context }

// TracerProvider returns the provider of the runtime.
func (a *Active) TracerProvider() trace.TracerProvider { return a.provider }

// AddEvent adds an event.
func (a *Active) AddEvent(name string, options ...trace.EventOption) {
	if a.sampled {
		c := a.event(options)
		a.addEvent(name, c.Timestamp(), c.Attributes())
	}
}

// event reads options of an event. The time is the provider's, unless the options have one.
func (a *Active) event(options []trace.EventOption) trace.EventConfig {
	return trace.NewEventConfig(append([]trace.EventOption{trace.WithTimestamp(a.provider.now())}, options...)...)
}

func (a *Active) addEvent(name string, at time.Time, attributes []attribute.KeyValue) {
	a.change(func(s *Span) {
		s.Events = push(s.Events, fromEvent(name, at, attributes, 0), MaxEvents, &s.DroppedEvents)
	})
}

// AddLink adds a link, unless it is empty.
func (a *Active) AddLink(l trace.Link) {
	a.change(func(s *Span) { s.link(l) })
}

// RecordError adds an event for an error. It does not change the status.
func (a *Active) RecordError(err error, options ...trace.EventOption) {
	if err != nil && a.IsRecording() {
		c := a.event(options)
		a.addException(err, c.Timestamp(), c.StackTrace(), c.Attributes())
	}
}

// addException adds the event of an error or a panic.
func (a *Active) addException(v any, at time.Time, withStack bool, attributes []attribute.KeyValue) {
	t := reflect.TypeOf(v)
	name := t.String()
	if t.PkgPath() != "" {
		name = t.PkgPath() + "." + t.Name()
	}
	attributes = append(attributes, attribute.String("exception.type", name),
		attribute.String("exception.message", fmt.Sprint(v)))
	if withStack {
		stack := make([]byte, MaxString)
		attributes = append(attributes,
			attribute.String("exception.stacktrace", string(stack[:runtime.Stack(stack, false)])))
	}
	a.addEvent("exception", at, attributes)
}

// SetStatus sets the status, but never lowers it: OK is above Error, and Error above Unset.
func (a *Active) SetStatus(code codes.Code, description string) {
	a.change(func(s *Span) {
		switch status := fromCode(code); {
		case status == Unset || s.Status == OK:
			return
		case status == OK:
			s.Status, s.Message = OK, ""
		default:
			s.Status, s.Message = Error, clean(description)
		}
		a.statused = true
	})
}

// SetName sets the name.
func (a *Active) SetName(name string) {
	a.change(func(s *Span) { s.Name, a.named = clean(name), true })
}

// SetAttributes sets attributes. An attribute replaces the one with its key.
func (a *Active) SetAttributes(list ...attribute.KeyValue) {
	a.change(func(s *Span) { s.set(list) })
}

// set sets attributes of a span that owns its lists. It drops new ones if there are MaxAttributes,
// and those without a key.
func (s *Span) set(list []attribute.KeyValue) {
	s.Attributes = slices.Grow(s.Attributes, min(len(list), MaxAttributes-len(s.Attributes)))
	for i := range list {
		set := fromAttribute(string(list[i].Key), list[i].Value)
		at := slices.IndexFunc(s.Attributes, func(have Attribute) bool { return have.Key == set.Key })
		switch {
		case at >= 0:
			s.Attributes[at] = set
		case set.Key == "" || len(s.Attributes) >= MaxAttributes:
			s.DroppedAttributes++
		default:
			s.Attributes = append(s.Attributes, set)
		}
	}
}

// link adds a link to a span that owns its lists, unless the link is empty.
func (s *Span) link(l trace.Link) {
	if l.SpanContext.IsValid() || len(l.Attributes) > 0 || l.SpanContext.TraceState().Len() > 0 {
		s.Links = push(s.Links, fromLink(l.SpanContext, l.Attributes, 0), MaxLinks, &s.DroppedLinks)
	}
}

// push appends to a list, which drops its oldest element if it is full.
func push[T any](list []T, v T, limit int, dropped *uint32) []T {
	if len(list) >= limit {
		*dropped++
		list = slices.Delete(list, 0, 1)
	}
	return append(list, v)
}
