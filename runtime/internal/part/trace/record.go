package trace

import (
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/traces"
)

// Running implements kernel.Tracer.
func (p *Part) Running(a *kernel.Actor, o *kernel.Operation) {
	j := p.journalOf(a)
	j.buffer.Open(traces.SpanID(o.Span.ID), traces.TraceID(o.Span.Trace), (*running)(o))
	j.added(false)
}

// running is a turn that has not ended.
type running kernel.Operation

// Snapshot implements traces.Live.
func (r *running) Snapshot() traces.Span { return spanOf((*kernel.Operation)(r)) }

// Record implements kernel.Tracer.
func (p *Part) Record(a *kernel.Actor, o *kernel.Operation) {
	if !o.Span.Sampled() {
		switch {
		case o.Cause.Sampled():
			o.Span = child(o.Cause)
		case !serious(o.Err) && (o.Kind != turn || o.Took <= kernel.Slow):
			return
		case !o.Cause.IsZero():
			o.Span = child(o.Cause)
		default:
			o.Span = root(0)
		}
	}
	s := spanOf(o)
	s.End = o.Began.Add(o.Took).UnixNano()
	if o.Version != 0 {
		s.Attributes = append(s.Attributes, traces.Int("cairn.version", int64(o.Version)))
	}
	if o.Err != nil {
		code := host.CodeOf(o.Err)
		s.Attributes = append(s.Attributes, traces.String("error.type", string(code)))
		if serious(o.Err) {
			s.Status, s.Message = traces.Error, o.Err.Error()
		}
	}
	j := p.journalOf(a)
	if o.Kind == turn {
		j.added(j.buffer.End(s))
	} else {
		j.added(j.buffer.Add(s))
	}
}

// turn is the kind of the operations that are turns.
const turn = "turn"

// kinds are the kinds of spans by those of operations. The others are internal.
var kinds = map[string]traces.Kind{"call": traces.Server, "http": traces.Server, "request": traces.Client, "send": traces.Producer}

// consumers are the kinds of work that bring a message which has waited: their spans link to what sent it.
var consumers = map[string]bool{"deliver": true, "queue": true, "queue due": true}

// spanOf makes the span of an operation, without its end.
func spanOf(o *kernel.Operation) traces.Span {
	s := traces.Span{
		TraceID: traces.TraceID(o.Span.Trace), SpanID: traces.SpanID(o.Span.ID), Sampled: o.Span.Sampled(),
		Kind: traces.Internal, Name: strings.TrimSpace(o.Kind + " " + o.Name), Start: o.Began.UnixNano(),
	}
	if k, ok := kinds[o.Kind]; ok {
		s.Kind = k
	}
	if !o.Cause.IsZero() {
		s.Parent, s.RemoteParent = traces.SpanID(o.Cause.ID), o.Kind == "call" || o.Kind == "http"
	}
	if consumers[o.Job] {
		s.Kind = traces.Consumer
		if s.RemoteParent = !o.Cause.IsZero(); s.RemoteParent {
			s.Links = []traces.Link{{TraceID: traces.TraceID(o.Cause.Trace), SpanID: traces.SpanID(o.Cause.ID), Sampled: o.Cause.Sampled(), Remote: true}}
		}
	}
	if o.Kind == turn && o.Job != "" && o.Job != "call" {
		s.Attributes = append(s.Attributes, traces.String("cairn.work", o.Job))
	}
	return s
}

// serious reports whether an error is the node's or the code's fault rather than a refusal.
func serious(err error) bool {
	switch host.CodeOf(err) {
	case "", host.InvalidArgument, host.Unauthenticated, host.PermissionDenied, host.NotFound, host.UnknownType, host.UnknownMethod,
		host.AlreadyExists, host.FailedPrecondition, host.Cycle, host.Overloaded, host.Canceled, host.TooLarge, host.QuotaExceeded,
		host.IdempotencyMismatch, host.Destroyed, host.ActorPaused:
		return false
	}
	return true
}

// BeginRequest returns the span of a request from outside, as host.Tracer says.
func (p *Part) BeginRequest(typ string, cause host.Span) host.Span {
	s := p.Begin(p.k.Types[typ], cause)
	switch {
	case s.Sampled():
	case s.IsZero():
		s = root(0)
	default:
		s = child(s)
	}
	return s
}

// EndRequest records a request, as host.Tracer says, if its actor is in memory.
func (p *Part) EndRequest(at host.Address, name string, s, cause host.Span, began time.Time, err error) {
	if a := p.k.Find(at); a != nil {
		p.Record(a, &kernel.Operation{Kind: "http", Name: name, Span: s, Cause: cause, Began: began, Took: time.Since(began), Err: err})
	}
}
