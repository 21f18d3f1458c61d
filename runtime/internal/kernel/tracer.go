package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
)

// A Tracer is the part that records what actors do.
type Tracer interface {
	Part
	// Begin is that of the sink of an actor of a type, which may be nil.
	Begin(t *Type, cause host.Span) host.Span
	// Sink makes the sink that records an actor.
	Sink(a *Actor) span.Sink
	// Late records a call that was over after its actor had left memory.
	Late(at host.Address, o span.Operation)
}

// Begins gives a turn its span, again if its work was Untraced. The decision for the first turn
// holds for all turns of the work.
func (t *Turn) Begins() {
	cause, sink := t.Work.Span, t.Actor.Spans
	s := span.Begin(sink, cause)
	t.From.Span = span.RefTo(s)
	for w := t.Work; w != nil && !w.Span.Decided(); w = w.Of {
		w.Span = s
	}
	if s.Sampled() && sink != nil {
		t.op = t.operation(cause)
		t.op.Span = s
		sink.Running(t.op)
	}
}

// over counts and records a turn that is over.
func (t *Turn) over(took time.Duration, err error) {
	t.Actor.Tally.Turn(took)
	o := t.op
	if o == nil && t.Actor.Spans != nil && (err != nil || took > t.Actor.Spans.Slow()) {
		o = t.operation(t.Work.Span)
	}
	if o != nil {
		o.Took, o.Version, o.Err = took, uint64(t.AsOf), err
		t.Actor.Spans.Record(*o)
	}
}

func (t *Turn) operation(cause host.Span) *span.Operation {
	traits := t.Work.Job.Traits(t.Actor)
	return &span.Operation{Kind: "turn", Name: traits.Name, Job: traits.Kind, Handler: t.Handler, Cause: cause, Began: t.Start, At: &t.Core.Attached}
}
