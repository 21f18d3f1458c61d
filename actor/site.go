package actor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

const (
	// waitSlice is how long one call waits for something to appear; longer waits are made of
	// several, so that no network in between takes a waiting call for a dead one.
	waitSlice = 30 * time.Second
	// firstPause and lastPause bound the pause before something that failed is tried again.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// A site is one actor as its callers see it, for the methods that every actor has.
type site struct {
	node  Node
	at    host.Address
	codec *codec
}

// site returns the actor that a contract of d is used on.
func (r Ref[S]) site(d *declared) (site, error) {
	if err := r.check(d.core); err != nil {
		return site{}, err
	}
	return site{node: r.node, at: r.address(), codec: d.core.codec}, nil
}

// requestOf makes a call of a method that every actor has.
func requestOf[In, Out any](s site, m method.Typed[In, Out], in *In) (*host.Request, error) {
	input, err := s.codec.appendCBOR(nil, in)
	if err != nil {
		return nil, Errorf(InvalidArgument, "input of %s: %s", m.Name, err)
	}
	return &host.Request{Address: s.at, Method: m.Name, Codec: host.CBOR, Input: input}, nil
}

// send sends a request and decodes its output into what out points to, unless out is nil.
func (s site) send(ctx context.Context, r *host.Request, out any) error {
	reply, err := s.node.Call(ctx, r)
	if err != nil || out == nil {
		return err
	}
	if err := s.codec.decodeCBOR(reply.Output, out); err != nil {
		return Errorf(Internal, "the output of %s does not decode: %s", r.Method, err)
	}
	return nil
}

// ask calls a method that every actor has.
func ask[In, Out any](ctx context.Context, s site, m method.Typed[In, Out], in *In) (out Out, err error) {
	r, err := requestOf(s, m, in)
	switch {
	case err != nil:
	case m.Output == nil:
		err = s.send(ctx, r, nil)
	default:
		err = s.send(ctx, r, &out)
	}
	return out, err
}

// counting is a method that answers with a count.
type counting[In any] = method.Typed[In, host.CountOutput]

// count calls a counting method as often as it takes to do all.
func count[In any](ctx context.Context, s site, m counting[In], in *In) (n int64, err error) {
	for {
		out, err := ask(ctx, s, m, in)
		if n += out.Count; err != nil || !out.More {
			return n, err
		}
	}
}

// contextError returns what a call says whose context ended.
func contextError(ctx context.Context, doing string) *Error {
	return Errorf(CodeOf(ctx.Err()), "%s: %s", doing, ctx.Err())
}

// retryable reports whether a call that failed may succeed when it is repeated.
func retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Retryable || e.Code == Unavailable)
}

// again reports whether to repeat a call that may be done twice. It is true only while the caller's
// context lasts: then a passed deadline was that of a call on the way.
func again(err error) bool { return retryable(err) || CodeOf(err) == DeadlineExceeded }

// millis returns a span in whole milliseconds, rounded up, so that a short span does not become
// none.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// A pacer spaces out attempts: pauses double up to lastPause, each shortened at random, so that
// callers that failed together do not come back together. The zero value is ready.
type pacer struct{ next time.Duration }

// pause waits before the next attempt. It returns false at once when ctx ends.
func (p *pacer) pause(ctx context.Context) bool {
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

// waited says that a wait that began at start brought something, or nothing. One that brought
// nothing at once was no wait: then it pauses.
func (p *pacer) waited(ctx context.Context, start time.Time, nothing bool) {
	if nothing && time.Since(start) < firstPause {
		p.pause(ctx)
		return
	}
	p.next = 0
}
