package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// A Tracer records what actors do. One part at most is one. It is called on the way of calls: it does not block.
type Tracer interface {
	// Begin returns the span of what an operation causes at an actor of a type, which may be nil: Untraced, unless it is to be recorded.
	Begin(t *Type, cause host.Span) host.Span
	// Running takes an operation that begins and is sampled. Its Took, Version and Err are not known.
	Running(a *Actor, o *Operation)
	// Value returns what the context of a span of the actor has under a key. o is the turn, if it is sampled.
	Value(a *Actor, s host.Span, o *Operation, key any) any
	// Record takes an operation that is over: one that a sampled one caused, or one that failed or took longer than Slow.
	Record(a *Actor, o *Operation)
}

// Slow is how long a turn takes that is recorded although its trace is not.
const Slow = 100 * time.Millisecond

// An Operation is something that an actor did.
type Operation struct {
	// Kind says what was done, such as "turn", and Name to what. Job is the kind of work that a turn is of, and Handler its function.
	Kind, Name, Job, Handler string
	// Span is its own; if it is not sampled, the tracer makes one for what Cause caused.
	Span, Cause host.Span
	Began       time.Time
	Took        time.Duration
	Version     engine.Version // that it leaves or reads; 0 for none
	Err         error
	Own         any // of the tracer
}

// Begins returns the span of what an operation causes at an actor of a type, or the cause itself if the node has no tracer.
func (s *Kernel) Begins(t *Type, cause host.Span) host.Span {
	if s.Tracer == nil {
		return cause
	}
	return s.Tracer.Begin(t, cause)
}

// Caused records something that an operation caused at the actor and that is over now, if that operation is sampled.
func (a *Actor) Caused(cause host.Span, kind, name string, began time.Time, err error) {
	if cause.Sampled() && a.Kernel.Tracer != nil {
		a.Kernel.Tracer.Record(a, &Operation{Kind: kind, Name: name, Cause: cause, Began: began, Took: time.Since(began), Err: err})
	}
}

// begins gives a turn its span. What was decided for work whose turn is the first is so for all that the work does.
func (t *Turn) begins() {
	w, tracer := t.Work, t.Actor.Kernel.Tracer
	cause := w.Span
	if tracer == nil || !cause.Sampled() && cause.Decided() {
		t.From.SetSpan(cause)
		return
	}
	s := tracer.Begin(t.Actor.Type, cause)
	t.From.SetSpan(s)
	for ; w != nil && !w.Span.Decided(); w = w.Of {
		w.Span = s
	}
	if s.Sampled() {
		t.op = t.operation(cause)
		t.op.Span = s
		tracer.Running(t.Actor, t.op)
	}
}

func (t *Turn) operation(cause host.Span) *Operation {
	tr := t.Work.Job.Traits(t.Actor)
	return &Operation{Kind: "turn", Name: tr.Name, Job: tr.Kind, Handler: t.Handler, Cause: cause, Began: t.Start}
}

// over records a turn that is over.
func (t *Turn) over(took time.Duration, err error) {
	tracer, o := t.Actor.Kernel.Tracer, t.op
	if tracer == nil || o == nil && err == nil && took <= Slow {
		return
	}
	if o == nil {
		o = t.operation(t.Work.Span)
	}
	o.Took, o.Version, o.Err = took, t.AsOf, err
	tracer.Record(t.Actor, o)
}

// ValueOf returns what the context of a span of the actor has under a key, for users who add spans.
func (a *Actor) ValueOf(s host.Span, o *Operation, key any) any {
	if a.Kernel.Tracer == nil {
		return nil
	}
	return a.Kernel.Tracer.Value(a, s, o, key)
}

// Starts begins an operation of the actor that is no turn, and returns its span. The operation is nil if it is not recorded.
func (a *Actor) Starts(kind, name string, cause host.Span) (*Operation, host.Span) {
	tracer := a.Kernel.Tracer
	if !cause.Sampled() || tracer == nil {
		return nil, cause
	}
	o := &Operation{Kind: kind, Name: name, Span: tracer.Begin(a.Type, cause), Cause: cause, Began: time.Now()}
	tracer.Running(a, o)
	return o, o.Span
}

// Ends records an operation that Starts has begun.
func (a *Actor) Ends(o *Operation, err error) {
	if o != nil {
		o.Took, o.Err = time.Since(o.Began), err
		a.Kernel.Tracer.Record(a, o)
	}
}

// Sends records that the turn has sent something to where a type and a name say, and returns the span of that.
func (t *Turn) Sends(typ, name string) host.Span {
	s := t.From.Span()
	if !s.Sampled() || t.Actor.Kernel.Tracer == nil {
		return s
	}
	o := Operation{Kind: "send", Name: typ + "." + name, Span: t.Actor.Kernel.Begins(t.Actor.Type, s), Cause: s, Began: time.Now()}
	t.Actor.Kernel.Tracer.Record(t.Actor, &o)
	return o.Span
}
