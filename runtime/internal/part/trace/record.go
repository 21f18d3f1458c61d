package trace

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/traces"
)

// Running implements span.Sink.
func (j *journal) Running(o *span.Operation) {
	r := &running{o: o}
	o.Own = r
	j.attend(o.At)
	j.rush.CompareAndSwap(futile, calm)
	r.lost = !j.life().Open(traces.SpanID(o.Span.ID), traces.TraceID(o.Span.Trace), r)
}

// running is a turn that has not ended.
type running struct {
	o      *span.Operation
	lost   bool                          // too many are open: it was counted as dropped
	active atomic.Pointer[traces.Active] // the span for users; nil before they use it
}

// Snapshot implements traces.Live.
func (r *running) Snapshot() traces.Span {
	if a := r.active.Load(); a != nil {
		return a.Snapshot()
	}
	return spanOf(r.o)
}

// Value implements span.Sink.
func (j *journal) Value(s host.Span, o *span.Operation, key any) any {
	if !j.p.users.IsKey(key) || s.IsZero() {
		return nil
	}
	if o == nil || o.Own == nil {
		return j.p.users.Begin(j.life().Buffer, spanOf(&span.Operation{Span: s}))
	}
	r := o.Own.(*running)
	for r.active.Load() == nil {
		r.active.CompareAndSwap(nil, j.p.users.Begin(j.life().Buffer, spanOf(o)))
	}
	return r.active.Load()
}

// Record implements span.Sink.
func (j *journal) Record(o span.Operation) {
	if !keeps(&o, j.Slow()) {
		return
	}
	s := spanOf(&o)
	if s.Kind == traces.Server && o.Began.Sub(j.p.k.Started) < time.Duration(j.ended.Load()) {
		return // perhaps of the predecessor: calls and requests may end after their actor
	}
	if r, ok := o.Own.(*running); ok {
		if r.lost {
			return
		}
		if a := r.active.Load(); a != nil {
			a.Finish(&s)
		}
	}
	end(&s, &o)
	// a turn has attended to the others, which may come with a lock held
	if o.Kind == wake || s.Kind == traces.Server || !s.Sampled {
		if !j.attend(o.At) && o.At == nil {
			j.p.keep(j.a.Address, s)
			return
		}
	}
	if o.Own != nil {
		j.life().End(s)
	} else {
		j.life().Add(s)
	}
}

// keeps reports whether an operation is kept: it is sampled, fails or takes longer than slow. It
// has a span then.
func keeps(o *span.Operation, slow time.Duration) bool {
	if !o.Span.Sampled() {
		switch {
		case o.Cause.Sampled():
			o.Span = o.Cause.Child()
		case !serious(o.Err) && o.Took <= slow:
			return false
		case !o.Cause.IsZero():
			o.Span = o.Cause.Child()
		default:
			o.Span = host.Span{}.Child()
		}
	}
	return true
}

// end ends the span of an operation that is over.
func end(s *traces.Span, o *span.Operation) {
	s.End = o.Began.Add(o.Took).UnixNano()
	if o.Version != 0 {
		s.Attributes = append(s.Attributes, traces.Int("cairn.version", int64(o.Version)))
	}
	if o.Err != nil {
		s.Attributes = append(s.Attributes, traces.String("error.type", cmp.Or(string(host.CodeOf(o.Err)), "other")))
		if serious(o.Err) {
			s.Status, s.Message = traces.Error, o.Err.Error()
		}
	}
}

// The kinds of operations that this package distinguishes.
const (
	turn = "turn"
	sql  = "sql"
	wake = "wake"
)

// kindOf returns the kind of the span of an operation.
func kindOf(o *span.Operation) traces.Kind {
	switch o.Job {
	case "deliver", "queue", "queue due":
		return traces.Consumer // the work brings a message that has waited: its span links to the sender's
	}
	switch o.Kind {
	case "call", "http", "nats", "websocket":
		return traces.Server
	case "request":
		return traces.Client
	case "send":
		return traces.Producer
	}
	return traces.Internal
}

// spanOf makes the span of an operation, without its end.
func spanOf(o *span.Operation) traces.Span {
	s := traces.Span{
		TraceID: traces.TraceID(o.Span.Trace), SpanID: traces.SpanID(o.Span.ID), Sampled: o.Span.Sampled(),
		Kind: kindOf(o), Name: nameOf(o), Start: o.Began.UnixNano(),
	}
	if !o.Cause.IsZero() {
		s.Parent, s.RemoteParent = traces.SpanID(o.Cause.ID), s.Kind == traces.Server
	}
	if s.Kind == traces.Consumer {
		if s.RemoteParent = !o.Cause.IsZero(); s.RemoteParent {
			s.Links = []traces.Link{{TraceID: traces.TraceID(o.Cause.Trace),
				SpanID: traces.SpanID(o.Cause.ID), Sampled: o.Cause.Sampled(), Remote: true}}
		}
	}
	if o.Kind == sql {
		s.Attributes = append(s.Attributes, traces.String("db.query.text", o.Name))
	}
	if o.Handler != "" {
		s.Attributes = append(slices.Grow(s.Attributes, 3), traces.String("code.function.name", o.Handler))
	}
	if o.Kind == turn && o.Job != "" && o.Job != "call" {
		s.Attributes = append(s.Attributes, traces.String("cairn.work", o.Job))
	}
	return s
}

// nameOf returns the name of the span of an operation. The text of an SQL statement is an
// attribute, by OpenTelemetry's conventions.
func nameOf(o *span.Operation) string {
	if o.Kind == sql {
		return "sql " + verb(o.Name)
	}
	name := o.Name
	if name == "" {
		name = o.Handler[strings.LastIndexByte(o.Handler, '/')+1:]
	}
	return strings.TrimSpace(o.Kind + " " + name)
}

// verb returns the first word of a statement.
func verb(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.IndexAny(text, " \t\r\n(;"); i >= 0 {
		text = text[:i]
	}
	return strings.ToUpper(text[:min(len(text), 16)])
}

// serious reports whether an error is the node's or the code's fault rather than a refusal.
func serious(err error) bool {
	switch host.CodeOf(err) {
	case "", host.InvalidArgument, host.ReadOnly, host.Unauthenticated, host.PermissionDenied,
		host.NotFound, host.UnknownType, host.UnknownMethod,
		host.AlreadyExists, host.FailedPrecondition, host.Cycle, host.Overloaded, host.Canceled, host.TooLarge, host.QuotaExceeded,
		host.IdempotencyMismatch, host.Destroyed, host.ActorPaused:
		return false
	}
	return true
}

// BeginRequest returns the span of a request from outside: see host.Tracer.
func (p *Recorder) BeginRequest(typ string, cause host.Span) host.Span {
	if cause.Sampled() && !p.rules.Load().foreign.take() {
		cause.Flags &^= sampled
	}
	s := p.Begin(p.k.Types[typ], cause)
	switch {
	case s.Sampled():
		return s
	case s.IsZero():
		s = host.Span{}
	}
	return s.Child()
}

// EndRequest records a request: see host.Tracer.
func (p *Recorder) EndRequest(at host.Address, kind, name string, s, cause host.Span, began time.Time, err error) {
	o := span.Operation{Kind: kind, Name: name, Span: s, Cause: cause, Began: began, Took: time.Since(began), Err: err}
	if a := p.k.Find(at); a != nil {
		a.Spans.Record(o)
	} else {
		p.Late(at, o)
	}
}
