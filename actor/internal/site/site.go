// Package site calls the built-in methods of an actor for handles of it.
package site

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

const (
	// WaitSlice is how long one call waits for something to appear. Longer waits are several calls,
	// so that no network in between drops a waiting call as dead.
	WaitSlice = 30 * time.Second
	// firstPause and lastPause bound the pause before a failed call is tried again.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// A Site is the target of a handle: one actor, and a name of its contract. If it has a Fault, each
// method of its handle returns it.
type Site struct {
	Node  host.Node
	At    host.Address
	Codec *codec.Codec
	// Contract is the name of the contract value in errors, such as `queue "mail"`.
	Contract string
	// Name is its name at the node.
	Name string
	// Inside is set if Node is a turn or a query.
	Inside *Inside
	Fault  error
}

// InsideOf returns the turn or query in which a call is made, or nil.
func (s *Site) InsideOf(ctx context.Context) *Inside {
	if s.Inside != nil {
		return s.Inside
	}
	inside, _ := ctx.Value(InsideKey{}).(*Inside)
	return inside
}

// InsideKey is the key under which the context of a turn or a query has its [Inside].
type InsideKey struct{}

// Inside marks a call from inside of a turn or a query. Fail fails the turn and returns the error;
// in a query it is nil.
type Inside struct{ Fail func(error) error }

// ScopeKey is the key under which the context of a turn or a query has its [Scope].
type ScopeKey struct{}

// A Scope is a turn or a query, for the handles that work inside of it.
type Scope interface {
	Of() any // its actor type
	Reader() host.Reader
	Turn() host.Turn // nil in a query
	Fail(error) error
}

// A SendOption changes how messages are sent.
type SendOption interface{ ApplySend(*Sending) }

// A Sending has messages for a queue, with the request that sends them.
type Sending struct {
	host.Enqueue
	Keys    []tuple.Tuple
	Request host.Request
}

// Request makes a call of a built-in method.
func Request[In, Out any](s *Site, m method.Typed[In, Out], in *In) (*host.Request, error) {
	if s.Fault != nil {
		return nil, s.Fault
	}
	input, err := s.Codec.AppendCBOR(nil, in)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "input of %s: %s", m.Row.Name, err)
	}
	return &host.Request{Address: s.At, Method: m.Row.Name, Codec: host.CBOR, Input: input}, nil
}

// Send sends a request and decodes its output into the value that out points to, unless out is nil.
func (s *Site) Send(ctx context.Context, r *host.Request, out any) error {
	reply, err := s.Node.Call(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := s.Codec.DecodeCBOR(reply.Output, out); err != nil {
		return host.Errorf(host.Internal, "the output of %s does not decode: %s", r.Method, err)
	}
	return nil
}

// A detacher is an input that a node in the same process gets without encoding. Detach returns a
// pointer to the node's input: a copy, or the input itself with its own keys, which the caller must
// not use again.
type detacher interface{ Detach() any }

// Ask calls a built-in method.
func Ask[In, Out any](ctx context.Context, s *Site, m method.Typed[In, Out], in *In) (Out, error) {
	if in, ok := any(in).(detacher); ok && s.Fault == nil {
		if node, ok := s.Node.(host.Local); ok {
			reply, err := node.Call(ctx,
				&host.Request{Address: s.At, Method: m.Row.Name, Codec: host.CBOR, Value: in.Detach()})
			if err != nil {
				return *new(Out), err
			}
			return *reply.Value.(*Out), nil
		}
	}
	return encoded(ctx, s, m, in)
}

// encoded calls a built-in method with an encoded input.
func encoded[In, Out any](ctx context.Context, s *Site, m method.Typed[In, Out], in *In) (out Out, err error) {
	r, err := Request(s, m, in)
	switch {
	case err != nil:
	case m.Row.Output == nil:
		err = s.Send(ctx, r, nil)
	default:
		if err = s.Send(ctx, r, &out); err != nil {
			out = *new(Out) // drop a part that was decoded
		}
	}
	return out, err
}

// Counting is a method that returns a count.
type Counting[In any] = method.Typed[In, host.CountOutput]

// Count calls a counting method until all is done.
func Count[In any](ctx context.Context, s *Site, m Counting[In], in *In) (n int64, err error) {
	for {
		out, err := Ask(ctx, s, m, in)
		if n += out.Count; err != nil || !out.More {
			return n, err
		}
	}
}

// ContextError returns the error of a call whose context ended.
func ContextError(ctx context.Context, doing string) *host.Error {
	return host.Errorf(host.CodeOf(ctx.Err()), "%s: %s", doing, ctx.Err())
}

// retryable reports whether a call that failed may succeed when it is repeated.
func retryable(err error) bool {
	var e *host.Error
	return errors.As(err, &e) && (e.Retryable || e.Code == host.Unavailable)
}

// Again reports whether to repeat a call that may be done twice. It holds only while the caller's
// context lasts: then a passed deadline was that of a call on the way.
func Again(err error) bool { return retryable(err) || host.CodeOf(err) == host.DeadlineExceeded }

// Millis returns a span in whole Milliseconds, rounded up, so that a short span does not become 0.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// A Pacer spaces out attempts: pauses double up to lastPause, each shortened at random, so that
// callers that failed together do not come back together. The zero value is ready.
type Pacer struct{ next time.Duration }

// Pause waits before the next attempt. It returns false at once when ctx ends.
func (p *Pacer) Pause(ctx context.Context) bool {
	p.next = min(max(2*p.next, firstPause), lastPause)
	timer := time.NewTimer(p.next/2 + rand.N(p.next/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Waited records the end of a wait that began at start. If it returned nothing too soon, Waited
// pauses.
func (p *Pacer) Waited(ctx context.Context, start time.Time, nothing bool) {
	if nothing && time.Since(start) < firstPause {
		p.Pause(ctx)
		return
	}
	p.next = 0
}
