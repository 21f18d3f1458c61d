package traces

import (
	"cmp"
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
)

// routeKey is the context key of the [*Active] to whose actor spans belong.
type routeKey struct{}

// Provider makes the spans of users. Spans whose context comes from an [Active] go to the buffer of
// its actor, if it is sampled; others are not recorded.
//
// It does not use the SDK of OpenTelemetry, whose span costs more than storing one. Both make the
// same spans from the same calls.
type Provider struct {
	embedded.TracerProvider
	now func() time.Time
	key any // context key of the span
}

// NewProvider returns a provider. now returns the time for spans and events. With monotonic
// readings, such as those of time.Now, clock changes do not affect the duration of a span.
func NewProvider(now func() time.Time) *Provider {
	var find keyFinder
	trace.SpanFromContext(&find)
	return &Provider{now: now, key: find.key}
}

// keyFinder is a context that records the key of a lookup: the key of spans is not exported.
type keyFinder struct {
	context.Context
	key any
}

// Value records the key.
func (f *keyFinder) Value(key any) any {
	f.key = key
	return nil
}

// IsKey reports whether the value of a context under key is the [*Active] of the context. A context
// of the runtime returns one for such a key, and can make it on demand.
func (p *Provider) IsKey(key any) bool { return key == p.key || key == any(routeKey{}) }

func activeOf(ctx context.Context) *Active {
	a, _ := ctx.Value(routeKey{}).(*Active)
	return a
}

// unnamed is the name of a scope without one, since the zero Scope is the runtime.
const unnamed = "unnamed"

// Tracer returns a tracer, whose name and options are the scope of its spans.
func (p *Provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	c := trace.NewTracerConfig(options...)
	set := c.InstrumentationAttributes()
	attributes := fromAttributes(head(set.ToSlice(), MaxAttributes, new(uint32)))
	return &tracer{provider: p,
		scope: Scope{cmp.Or(clean(name), unnamed), clean(c.InstrumentationVersion()), clean(c.SchemaURL()), attributes}}
}

type tracer struct {
	embedded.Tracer
	provider *Provider
	scope    Scope
}

// Start implements trace.Tracer.
func (t *tracer) Start(ctx context.Context, name string,
	options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if ctx == nil {
		ctx = context.Background()
	}
	c := trace.NewSpanStartConfig(options...)
	var parent trace.SpanContext
	if !c.NewRoot() {
		parent = trace.SpanContextFromContext(ctx)
	}
	id := trace.SpanContextConfig{TraceID: parent.TraceID(), SpanID: trace.SpanID(NewSpanID()),
		TraceState: parent.TraceState()}
	if !id.TraceID.IsValid() {
		id.TraceID = trace.TraceID(NewTraceID())
	}
	active := activeOf(ctx)
	sampled := active != nil && active.sampled
	id.TraceFlags = parent.TraceFlags().WithSampled(sampled)
	u := &userSpan{Active: Active{provider: t.provider, sampled: sampled, context: trace.NewSpanContext(id)}}
	if sampled {
		if u.began = c.Timestamp(); u.began.IsZero() {
			u.began = t.provider.now()
		}
		u.buffer = active.buffer
		u.s = Span{
			TraceID: TraceID(id.TraceID), SpanID: SpanID(id.SpanID), Sampled: true, Parent: SpanID(parent.SpanID()), RemoteParent: parent.IsRemote(),
			Name: clean(name), Kind: Kind(trace.ValidateSpanKind(c.SpanKind())), Start: u.began.UnixNano(), Scope: t.scope,
		}
		u.s.set(c.Attributes())
		for _, l := range c.Links() {
			u.s.link(l)
		}
		u.ended = !u.buffer.Open(u.s.SpanID, u.s.TraceID, u)
	}
	return trace.ContextWithSpan(ctx, u), u
}

// userSpan is an open span of a user. It is an Active with an end.
type userSpan struct {
	Active
	began time.Time
}

// End gives the span to its actor. If the caller of a deferred End panics, End adds the panic as an
// event and panics again.
func (u *userSpan) End(options ...trace.SpanEndOption) {
	if !u.IsRecording() {
		return
	}
	now := u.provider.now()
	c := trace.NewSpanEndConfig(options...)
	if p := recover(); p != nil {
		defer panic(p)
		u.addException(p, now, c.StackTrace(), nil)
	}
	end := c.Timestamp()
	if end.IsZero() {
		end = u.began.Add(now.Sub(u.began))
	}
	u.mu.Lock()
	ends := !u.ended
	if ends {
		u.ended, u.s.End = true, cmp.Or(end.UnixNano(), 1) // 0 is an open span
	}
	u.mu.Unlock()
	if ends {
		u.buffer.end(&u.s) // it no longer changes
	}
}
