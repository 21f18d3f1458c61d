package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// The events that the gateway itself puts into a stream. Names of actors' events do not begin with "cairn.".
const (
	// EventGap: events between the position asked for and the next event are no longer kept. Data: {"missed": n}, and
	// "reset": true if the position is none of this life of the actor.
	EventGap = "cairn.gap"
	// EventBye: the stream ends. Data: the error that says why. Only after the code "unavailable" does it make sense to
	// come back.
	EventBye = "cairn.bye"
	// EventWelcome: the client is connected. Data: a host.Welcome. It is the first event of a connection.
	EventWelcome = "cairn.welcome"
	// EventEnd: the stream that is followed is closed, and all its items were sent. The response ends.
	EventEnd = "cairn.end"
	// EventItem is an item of a stream that is followed, and EventMessage a message for a worker that listens.
	EventItem    = "item"
	EventMessage = "message"
)

// retryHint is what a browser waits before it comes back, in milliseconds.
const retryHint = 2000

// errClosing is why the context of a stream ends when the gateway shuts down.
var errClosing = errors.New("gateway: closing")

// A positioned event stream knows where it begins, before its first event, if the bool is true. A node's streams may
// implement it; then a subscriber that loses its connection before the first event can still resume without a gap.
type positioned interface{ Position() (host.Position, bool) }

// A stream is one client for as long as it is there: a subscriber, a connection, a worker that listens, a reader that
// follows. Its context ends when the gateway shuts down.
type stream struct {
	ctx        context.Context
	cancel     context.CancelCauseFunc
	connection bool // to an actor; counts against Limits.Connections rather than Limits.Streams
	open       prometheus.Gauge
}

// errShutdown is what clients are told when the gateway shuts down.
var errShutdown = host.Errorf(host.Unavailable, "the node is shutting down").Retry()

// open admits a stream.
func (g *Gateway) open(ctx context.Context) (*stream, *host.Error) {
	return g.admit(ctx, &stream{open: g.meter.streams})
}

// admit admits a stream of either kind.
func (g *Gateway) admit(ctx context.Context, s *stream) (*stream, *host.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, others, what := g.opts.Limits.Streams, len(g.streams)-g.connections, "event streams"
	if s.connection {
		most, others, what = g.opts.Limits.Connections, g.connections, "connections"
	}
	switch {
	case g.closing.Load():
		return nil, errShutdown
	case others >= most:
		return nil, host.Errorf(host.Overloaded, "there are too many %s", what).With("limit", strconv.Itoa(most)).Retry()
	}
	if s.connection {
		g.connections++
	}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	g.streams[s] = struct{}{}
	s.open.Inc()
	return s, nil
}

// done lets a stream go.
func (g *Gateway) done(s *stream) {
	s.cancel(nil)
	s.open.Dec()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, s)
	if s.connection {
		g.connections--
	}
	if g.closing.Load() && len(g.streams) == 0 {
		close(g.idle)
	}
}

// subscription reads what a request subscribes to.
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

// position reads after which event or item a stream is to begin; nil if the request does not say. The Last-Event-ID
// header, which browsers send when they come back, has precedence over the parameter, which is still in their URL.
func (x *exchange) position(p parameters) (*host.Position, *host.Error) {
	what, field := "the parameter after", "after"
	after, ok := p.one("after")
	if v := x.r.Header.Get("Last-Event-ID"); v != "" {
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

// events answers GET .../-/events with server-sent events until the client leaves, is too slow, or the stream ends.
//
// The request's goroutine waits for events and writes them, so a client that does not read stops only its own stream:
// the node keeps what it has not read for as long as it keeps any event, and a write that takes longer than
// StreamWriteTimeout closes the connection. The client comes back with Last-Event-ID and misses nothing that is kept.
func (x *exchange) events(t *target) {
	x.counts(t.Type, labelEvents)
	var sub host.Subscription
	fault := x.authorize(x.r.Context(), Events, t.Address, "")
	if fault == nil {
		sub, fault = x.subscription()
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	s, fault := x.g.open(x.r.Context())
	if fault != nil {
		x.fail(fault)
		return
	}
	defer x.g.done(s)
	source, err := x.g.node.Subscribe(s.ctx, t.Address, sub)
	if err != nil {
		x.fail(about(x.g.asError(err), "event", "names"))
		return
	}
	defer source.Close()

	out := x.stream()
	if p, ok := source.(positioned); ok && !sub.Resume {
		if at, known := p.Position(); known {
			out.buf = append(at.Append(append(out.buf, "id: "...)), '\n')
		}
	}
	out.buf = append(out.buf, '\n')
	if out.flush() != nil {
		return
	}
	x.pump(s, source, out)
}

// stream begins a response of server-sent events. What it has put together is to be flushed by the caller, after an empty
// line.
func (x *exchange) stream() *eventWriter {
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	if x.r.ProtoMajor == 1 {
		h.Set("Connection", "close") // write deadlines stay with the connection
	}
	x.began = true
	x.w.WriteHeader(http.StatusOK)
	out := &eventWriter{x: x, rc: http.NewResponseController(x.w)}
	out.buf = append(out.buf, "retry: "...)
	out.buf = strconv.AppendInt(out.buf, retryHint, 10)
	out.buf = append(out.buf, '\n')
	return out
}

// A source is where a stream's events come from: an event stream or a connection.
type source interface {
	Next(context.Context) (host.Delivery, error)
}

// pump writes what the source brings until one side ends.
func (x *exchange) pump(s *stream, source source, out *eventWriter) {
	for {
		// One timer per heartbeat, whatever happens in between.
		beat, cancel := context.WithTimeout(s.ctx, x.g.opts.Limits.Heartbeat)
		err := x.until(beat, source, out)
		due := beat.Err() != nil
		cancel()
		switch {
		case errors.Is(err, errGone):
			return
		case s.ctx.Err() != nil:
			if context.Cause(s.ctx) == errClosing {
				out.bye(errShutdown)
			}
			return
		case !due || host.CodeOf(err) != host.Canceled && host.CodeOf(err) != host.DeadlineExceeded:
			e := x.g.asError(err)
			x.code = e.Code
			out.bye(e)
			return
		}
		if out.beat() != nil {
			return
		}
	}
}

// errGone: the client does not take what is written.
var errGone = errors.New("gateway: client gone")

// until writes events until the source returns an error or the client is gone.
func (x *exchange) until(ctx context.Context, source source, out *eventWriter) error {
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
			out.gap(d.Missed, d.Reset, at)
		}
		for i := range d.Events {
			if err := out.event(&d.Events[i]); err != nil {
				return err
			}
		}
		if err := out.flush(); err != nil {
			return err
		}
		x.g.meter.events.Add(float64(len(d.Events)))
	}
}
