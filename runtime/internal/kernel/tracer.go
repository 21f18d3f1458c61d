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
	// Running takes a turn that begins and is sampled. Its Took, Version and Err are not known.
	Running(a *Actor, o *Operation)
	// Record takes an operation that is over: one that a sampled one caused, or one that failed or took longer than Slow.
	Record(a *Actor, o *Operation)
}

// Slow is how long a turn takes that is recorded although its trace is not.
const Slow = 100 * time.Millisecond

// An Operation is something that an actor did.
type Operation struct {
	// Kind says what was done: "turn", and Name to what: its handler. Job is the kind of work that a turn is of.
	Kind, Name, Job string
	// Span is its own; if it is not sampled, the tracer makes one for what Cause caused.
	Span, Cause host.Span
	Began       time.Time
	Took        time.Duration
	Version     engine.Version // that it leaves or reads; 0 for none
	Err         error
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
		t.op = &Operation{Kind: "turn", Name: t.Handler, Job: t.Work.Job.Traits(t.Actor).Kind, Span: s, Cause: cause, Began: t.Start}
		tracer.Running(t.Actor, t.op)
	}
}

// over records a turn that is over.
func (t *Turn) over(took time.Duration, err error) {
	tracer, o := t.Actor.Kernel.Tracer, t.op
	if tracer == nil || o == nil && err == nil && took <= Slow {
		return
	}
	if o == nil {
		o = &Operation{Kind: "turn", Name: t.Handler, Cause: t.Work.Span, Began: t.Start}
	}
	o.Took, o.Version, o.Err = took, t.AsOf, err
	tracer.Record(t.Actor, o)
}
