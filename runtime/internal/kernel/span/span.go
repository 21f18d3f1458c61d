// Package span has the records of what actors do: operations, each with a span of its trace.
package span

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// Slow is how long a turn or query must take to be recorded although its trace is not, unless a
// sink says otherwise.
const Slow = 100 * time.Millisecond

// An Operation is something that an actor does.
type Operation struct {
	// Kind says what it is, such as "turn", and Name with what. Job is the kind of work that a turn
	// is of, and Handler its function.
	Kind, Name, Job, Handler string
	// Span is its own; if it is not sampled, the sink makes one for what Cause caused.
	Span, Cause host.Span
	Began       time.Time
	Took        time.Duration
	Version     uint64 // that it leaves; 0 for none
	Err         error
	Own         any          // of the sink
	At          *attach.List // of the core that it is done in, if it is a turn
}

// A Sink records what one actor does. It is called in the path of calls, and does not block.
type Sink interface {
	// Begin returns the span of what an operation causes: Untraced, unless it is recorded.
	Begin(cause host.Span) host.Span
	// Running takes an operation that begins and is sampled. Its Took, Version and Err are not
	// known.
	Running(o *Operation)
	// Record takes an operation that is over: one that a sampled one caused, or one that failed or
	// took longer than Slow says.
	Record(o Operation)
	// Slow is how long a turn or query must take to be recorded although its trace is not.
	Slow() time.Duration
	// Value returns what the context of a span has under a key, for users that add spans. o is the
	// operation, if it was Running.
	Value(s host.Span, o *Operation, key any) any
}

// Begin returns the span of what an operation causes. Without a sink it is the cause itself.
func Begin(to Sink, cause host.Span) host.Span {
	if to == nil || !cause.Sampled() && cause.Decided() {
		return cause
	}
	return to.Begin(cause)
}

// Caused records what an operation caused and is over now, if the operation is sampled.
func Caused(to Sink, cause host.Span, kind, name string, began time.Time, err error) {
	if cause.Sampled() && to != nil {
		to.Record(Operation{Kind: kind, Name: name, Cause: cause, Began: began, Took: time.Since(began), Err: err})
	}
}

// New makes an operation that begins later, and returns its span. The operation is nil if it is not
// recorded.
func New(to Sink, kind, name string, cause host.Span) (*Operation, host.Span) {
	if !cause.Sampled() || to == nil {
		return nil, cause
	}
	o := &Operation{Kind: kind, Name: name, Span: to.Begin(cause), Cause: cause}
	return o, o.Span
}

// Start begins an operation that New has made.
func Start(to Sink, o *Operation) {
	if o != nil {
		o.Began = time.Now()
		to.Running(o)
	}
}

// End records an operation that Start has begun.
func End(to Sink, o *Operation, err error) {
	if o != nil {
		o.Took, o.Err = time.Since(o.Began), err
		to.Record(*o)
	}
}

// Sent records that an operation has sent something to where a type and a name say, and returns the
// span of that.
func Sent(to Sink, cause host.Span, typ, name string) host.Span {
	if !cause.Sampled() || to == nil {
		return cause
	}
	o := Operation{Kind: "send", Name: typ + "." + name, Span: to.Begin(cause), Cause: cause, Began: time.Now()}
	to.Record(o)
	return o.Span
}

// Value calls Value of a sink; nil without one.
func Value(of Sink, s host.Span, o *Operation, key any) any {
	if of == nil {
		return nil
	}
	return of.Value(s, o, key)
}

// Now returns the time if something is recorded, else the zero time.
func Now(recorded bool) (t time.Time) {
	if recorded {
		t = time.Now()
	}
	return t
}

// Since returns how long ago a time was that Now returned.
func Since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}

// A Ref holds a span in little room. The zero Ref holds none.
type Ref struct{ s *host.Span }

// untraced is the target of a Ref to host.Untraced.
var untraced = host.Untraced

// RefTo returns a Ref to a span, which takes memory if it is one.
func RefTo(s host.Span) Ref {
	switch {
	case !s.IsZero():
		return Ref{new(s)}
	case s.Decided():
		return Ref{&untraced}
	}
	return Ref{}
}

// Span returns the span of the Ref.
func (r Ref) Span() host.Span {
	if r.s == nil {
		return host.Span{}
	}
	return *r.s
}
