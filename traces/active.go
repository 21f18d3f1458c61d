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

// Active is an open span of the runtime, for users of the OpenTelemetry API: the span of their context, to which they add
// attributes and events, and the parent of their own spans. It also is [Live].
type Active struct {
	embedded.Span
	provider *Provider
	buffer   *Buffer
	sampled  bool

	mu       sync.Mutex
	s        Span
	named    bool
	statused bool
	ended    bool
}

// Begin returns the active form of a span of the runtime. Spans of users go to b if s is sampled.
func (p *Provider) Begin(b *Buffer, s Span) *Active {
	s.End = 0
	s.Attributes, s.Events, s.Links = slices.Clip(s.Attributes), slices.Clip(s.Events), slices.Clip(s.Links)
	return &Active{provider: p, buffer: b, sampled: s.Sampled, s: s}
}

// Context returns a context with the span, for code that does not run in a context of the runtime.
func (a *Active) Context(parent context.Context) context.Context {
	return trace.ContextWithSpan(context.WithValue(parent, routeKey{}, a), a)
}

// Snapshot implements [Live].
func (a *Active) Snapshot() Span {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s.Clone()
}

// Finish gives s what users added: attributes, events, links, and the name and the status if they set them and s has no error.
// What they add later is ignored.
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

// IsRecording reports whether the span keeps what is added to it.
func (a *Active) IsRecording() bool {
	if !a.sampled {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.ended
}

// SpanContext returns the ids of the span.
func (a *Active) SpanContext() trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: trace.TraceID(a.s.TraceID), SpanID: trace.SpanID(a.s.SpanID)}
	if a.sampled {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

// TracerProvider returns the provider of the runtime.
func (a *Active) TracerProvider() trace.TracerProvider { return a.provider }

// AddEvent adds an event.
func (a *Active) AddEvent(name string, options ...trace.EventOption) {
	if !a.sampled {
		return
	}
	c := a.event(options)
	a.addEvent(name, c.Timestamp().UnixNano(), c.Attributes())
}

// event reads options of an event. Its time is that of the runtime, unless the options have one.
func (a *Active) event(options []trace.EventOption) trace.EventConfig {
	at := trace.WithTimestamp(time.Unix(0, a.provider.now()))
	return trace.NewEventConfig(append([]trace.EventOption{at}, options...)...)
}

func (a *Active) addEvent(name string, at int64, attributes []attribute.KeyValue) {
	a.change(func(s *Span) {
		if len(s.Events) >= MaxEvents {
			s.DroppedEvents++
			return
		}
		e := Event{Name: clean(name), Time: at}
		e.Attributes = cloneAttributes(fromAttributes(attributes), &e.DroppedAttributes)
		s.Events = append(s.Events, e)
	})
}

// AddLink adds a link.
func (a *Active) AddLink(l trace.Link) {
	a.change(func(s *Span) {
		if len(s.Links) >= MaxLinks {
			s.DroppedLinks++
			return
		}
		s.Links = append(s.Links, fromLink(l.SpanContext, l.Attributes, 0))
	})
}

// RecordError adds an event for an error. It does not change the status.
func (a *Active) RecordError(err error, options ...trace.EventOption) {
	if err == nil || !a.sampled {
		return
	}
	c := a.event(options)
	attributes := append(slices.Clip(c.Attributes()),
		attribute.String("exception.type", reflect.TypeOf(err).String()), attribute.String("exception.message", fmt.Sprint(err)))
	if c.StackTrace() {
		stack := make([]byte, MaxString)
		attributes = append(attributes, attribute.String("exception.stacktrace", string(stack[:runtime.Stack(stack, false)])))
	}
	a.addEvent("exception", c.Timestamp().UnixNano(), attributes)
}

// SetStatus sets the status, which is never lowered: OK is above Error, and Error above none.
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
	a.change(func(s *Span) {
		for _, kv := range list {
			set := cloneAttributes([]Attribute{fromAttribute(string(kv.Key), kv.Value)}, &s.DroppedAttributes)[0]
			i := slices.IndexFunc(s.Attributes, func(have Attribute) bool { return have.Key == set.Key })
			switch {
			case i >= 0:
				s.Attributes = slices.Clone(s.Attributes) // the runtime may share it
				s.Attributes[i] = set
			case set.Key == "" || len(s.Attributes) >= MaxAttributes:
				s.DroppedAttributes++
			default:
				s.Attributes = append(s.Attributes, set)
			}
		}
	})
}
