package gateway

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The events that the gateway itself puts into a stream. Names of actors' events do not begin with
// "cairn.".
const (
	// EventGap: events between the requested position and the next event are no longer kept. Data:
	// {"missed": n}, and "reset": true if the position is not of this life of the actor.
	EventGap = "cairn.gap"
	// EventBye: the stream ends. Data: the error that says why. It makes sense to reconnect only
	// after the code "unavailable".
	EventBye = "cairn.bye"
	// EventWelcome: the client is connected. Data: a host.Welcome. It is the first event of a
	// connection.
	EventWelcome = "cairn.welcome"
	// EventEnd: the followed stream is closed, and all its items were sent. The response ends.
	EventEnd = "cairn.end"
	// EventItem is an item of a followed stream, and EventMessage a message for a worker that
	// listens.
	EventItem    = "item"
	EventMessage = "message"
	// EventChange holds changes of the watched entries. Data: a kv.Changes.
	EventChange = "change"
)

// retryHint is how long a browser waits before it reconnects, in milliseconds.
const retryHint = 2000

// A positioned event stream returns the position where it begins, if the bool is true, before its
// first event. A node's streams may implement it, so that a subscriber that loses its connection
// before the first event can resume without a gap.
type positioned interface{ Position() (host.Position, bool) }

// subscription reads the subscription of a request.
func (x *exchange) subscription() (host.Subscription, *host.Error) {
	var s host.Subscription
	p, fault := x.params("names", "after")
	if fault != nil {
		return s, fault
	}
	if s.Names, fault = p.names("names"); fault != nil {
		return s, fault
	}
	after, fault := x.position(p)
	if after != nil {
		s.Resume, s.After, s.Life = true, after.Sequence, after.Life
	}
	return s, fault
}

// position returns the event or item after which a stream must begin; nil if the request has none.
// The header Last-Event-ID, which browsers send when they reconnect, takes precedence over the
// parameter, which is still in their URL.
func (x *exchange) position(p parameters) (*host.Position, *host.Error) {
	what, field := "the parameter after", "after"
	after, ok := p.one("after")
	if v := x.R.Header.Get("Last-Event-ID"); v != "" {
		what, field, after, ok = "the Last-Event-ID header", "Last-Event-ID", v, true
	}
	if !ok {
		return nil, nil
	}
	at, err := host.ParsePosition(after)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%s: %s", what, err.Message).With("field", field)
	}
	return &at, nil
}

// events answers GET .../-/events with server-sent events until the client leaves, is too slow, or
// the stream ends.
//
// The request's goroutine waits for events and writes them, so a client that does not read stops
// only its own stream. The node keeps its unread events as long as other events, and a write that
// takes longer than StreamWriteTimeout closes the connection. The client reconnects with
// Last-Event-ID and misses no event that is still kept.
func (x *exchange) events(t *target) {
	x.Count(t.Type, serve.LabelEvents)
	var sub host.Subscription
	fault := x.Authorize(x.R.Context(), serve.Events, t.Address, "")
	if fault == nil {
		sub, fault = x.subscription()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	s, fault := x.Front.Admit(x.R.Context(), serve.EventStream)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	source, err := x.g.node.Subscribe(s.Context(), t.Address, sub)
	if err != nil {
		x.Fail(about(x.Front.AsError(err), "event", "names"))
		return
	}
	defer source.Close()

	out := x.stream()
	if p, ok := source.(positioned); ok && !sub.Resume {
		if at, known := p.Position(); known {
			out.Buf = append(at.Append(append(out.Buf, "id: "...)), '\n')
		}
	}
	out.Buf = append(out.Buf, '\n')
	if out.Flush() != nil {
		return
	}
	events := grantedSource{source, token.Of(x.R.Context())}
	x.pump(s, out, func(ctx context.Context) error { return x.until(ctx, events, out) })
}

// stream begins a response of server-sent events. The caller adds an empty line and flushes it.
func (x *exchange) stream() *serve.Writer {
	out := x.Stream("text/event-stream")
	out.Buf = strconv.AppendInt(append(out.Buf, "retry: "...), retryHint, 10)
	out.Buf = append(out.Buf, '\n')
	return out
}

// A source is the source of a stream's events: an event stream or a connection.
type source interface {
	Next(context.Context) (host.Delivery, error)
}

// pump writes the events of a source until one side ends. It calls until, which writes them until
// the source returns an error or the client is gone.
func (x *exchange) pump(s *serve.Stay, out *serve.Writer, until func(context.Context) error) {
	for {
		// One timer per heartbeat, not one per event.
		beat, cancel := context.WithTimeout(s.Context(), x.Front.Limits.Heartbeat)
		err := until(beat)
		due := beat.Err() != nil
		cancel()
		switch {
		case errors.Is(err, serve.ErrGone):
			return
		case s.Context().Err() != nil:
			if s.Closing() {
				bye(out, serve.ErrShutdown)
			}
			return
		case !due || host.CodeOf(err) != host.Canceled && host.CodeOf(err) != host.DeadlineExceeded:
			e := x.Front.AsError(err)
			x.Code = e.Code
			bye(out, e)
			return
		}
		out.Buf = append(out.Buf, comment...)
		if out.Flush() != nil {
			return
		}
	}
}

// until writes events until the source returns an error or the client is gone.
func (x *exchange) until(ctx context.Context, source source, out *serve.Writer) error {
	for {
		d, err := source.Next(ctx)
		if err != nil {
			return err
		}
		if d.Missed > 0 || d.Reset {
			var at *host.Position
			if len(d.Events) > 0 {
				at = &host.Position{Sequence: d.Events[0].Sequence - 1, Life: d.Events[0].Life}
			}
			out.Buf = appendGapEvent(out.Buf, d.Missed, d.Reset, at)
		}
		for i := range d.Events {
			out.Buf = appendEmitted(out.Buf, &d.Events[i])
			if err := out.FlushFull(); err != nil {
				return err
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		x.Front.Meter.Events.Add(float64(len(d.Events)))
	}
}

// comment keeps a stream without events alive.
const comment = ":\n\n"

// bye writes why the stream ends. An error of that write is ignored.
func bye(out *serve.Writer, e *host.Error) {
	out.Buf = serve.AppendEvent(out.Buf, EventBye, appendJSON(nil, e))
	out.FlushLast()
}

// appendEmitted appends an event, in the shared form of its receivers if there is one.
func appendEmitted(b []byte, e *host.EmittedEvent) []byte {
	if e.Shared == nil {
		return appendEvent(b, e)
	}
	return append(b, e.Shared.Get(host.FrameSSE, func() []byte { return appendEvent(nil, e) })...)
}

// appendEvent appends an event. Besides the fields of the standard it has "version" and "time",
// which browsers skip.
func appendEvent(b []byte, e *host.EmittedEvent) []byte {
	b = host.Position{Sequence: e.Sequence, Life: e.Life}.Append(append(b, "id: "...))
	b = append(b, "\nversion: "...)
	b = strconv.AppendUint(b, e.Version, 10)
	b = append(b, "\ntime: "...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = serve.AppendField(b, "\nevent: ", e.Name)
	b = serve.AppendField(b, "\ndata: ", e.Data)
	return append(b, "\n\n"...)
}

// appendGapEvent appends the event that something is no longer kept, or not of the requested life.
// at is the position after the gap, nil if it is not known.
func appendGapEvent(b []byte, missed uint64, reset bool, at *host.Position) []byte {
	if at != nil {
		b = append(at.Append(append(b, "id: "...)), '\n')
	}
	return serve.AppendEvent(b, EventGap, append(appendMissing([]byte{'{'}, missed, reset), '}'))
}
