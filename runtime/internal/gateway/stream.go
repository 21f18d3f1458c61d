package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The events that the gateway itself puts into a stream. Names of actors' events do not begin with "cairn.".
const (
	// EventGap: events between the position asked for and the next event are no longer kept. Data: {"missed": n}.
	EventGap = "cairn.gap"
	// EventBye: the stream ends. Data: the error that says why. Only after the code "unavailable" does it make sense to
	// come back.
	EventBye = "cairn.bye"
)

// retryHint is what a browser waits before it comes back, in milliseconds.
const retryHint = 2000

// errClosing is why the context of a stream ends when the gateway shuts down.
var errClosing = errors.New("gateway: closing")

// A positioned event stream knows where it begins: the sequence of the last event before its first, if the bool is true.
// A node's streams may implement it; then a subscriber that loses its connection before the first event can still resume
// without a gap.
type positioned interface{ Position() (uint64, bool) }

// A stream is one subscriber that is connected.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// open admits a stream.
func (g *Gateway) open(ctx context.Context) (*stream, *host.Error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closing.Load():
		return nil, host.Errorf(host.Unavailable, "the node is shutting down").Retry()
	case len(g.streams) >= g.opts.Limits.Streams:
		return nil, host.Errorf(host.Overloaded, "there are too many event streams").
			With("limit", strconv.Itoa(g.opts.Limits.Streams)).Retry()
	}
	s := &stream{}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	g.streams[s] = struct{}{}
	g.meter.streams.Inc()
	return s, nil
}

// done lets a stream go.
func (g *Gateway) done(s *stream) {
	s.cancel(nil)
	g.meter.streams.Dec()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, s)
	if g.closing.Load() && len(g.streams) == 0 {
		close(g.idle)
	}
}

// subscription reads what a request subscribes to. The Last-Event-ID header, which browsers send when they come back,
// has precedence over the parameter, which is still in their URL.
func (x *exchange) subscription() (host.Subscription, *host.Error) {
	var s host.Subscription
	p, fault := x.params("names", "after")
	if fault != nil {
		return s, fault
	}
	for _, list := range p["names"] {
		for name := range strings.SplitSeq(list, ",") {
			if name == "" {
				return s, host.Errorf(host.InvalidArgument, "the parameter names has an empty name")
			}
			s.Names = append(s.Names, name)
		}
	}
	what := "the parameter after"
	after, ok := p.one("after")
	if v := x.r.Header.Get("Last-Event-ID"); v != "" {
		what, after, ok = "the Last-Event-ID header", v, true
	}
	if ok {
		n, err := strconv.ParseUint(after, 10, 64)
		if err != nil {
			return s, host.Errorf(host.InvalidArgument, "%s is %q; it must be the number of an event", what, after)
		}
		s.Resume, s.After = true, n
	}
	return s, nil
}

// events answers GET .../-/events with server-sent events until the client leaves, is too slow, or the stream ends.
//
// The request's goroutine waits for events and writes them, so a client that does not read stops only its own stream:
// the node keeps what it has not read for as long as it keeps any event, and a write that takes longer than
// StreamWriteTimeout closes the connection. The client comes back with Last-Event-ID and misses nothing that is kept.
func (x *exchange) events(t *target) {
	x.counts(t.Type, labelEvents)
	sub, fault := x.subscription()
	if fault == nil {
		fault = x.authorize(x.r.Context(), Events, t.Address, "")
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
		x.fail(x.g.asError(err))
		return
	}
	defer source.Close()

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
	if p, ok := source.(positioned); ok && !sub.Resume {
		if at, known := p.Position(); known {
			out.buf = append(out.buf, "id: "...)
			out.buf = strconv.AppendUint(out.buf, at, 10)
			out.buf = append(out.buf, '\n')
		}
	}
	out.buf = append(out.buf, '\n')
	if out.flush() != nil {
		return
	}
	x.pump(s, source, out)
}

// pump writes what the source brings until one side ends.
func (x *exchange) pump(s *stream, source host.EventStream, out *eventWriter) {
	for {
		// One timer per heartbeat, whatever happens in between.
		beat, cancel := context.WithTimeout(s.ctx, x.g.opts.Limits.Heartbeat)
		err := x.until(beat, source, out)
		cancel()
		switch {
		case errors.Is(err, errGone):
			return
		case s.ctx.Err() != nil:
			if context.Cause(s.ctx) == errClosing {
				out.bye(host.Errorf(host.Unavailable, "the node is shutting down").Retry())
			}
			return
		case beat.Err() == nil || host.CodeOf(err) != host.Canceled && host.CodeOf(err) != host.DeadlineExceeded:
			e := x.g.asError(err)
			x.code = e.Code
			out.bye(e)
			return
		}
		out.buf = append(out.buf, ":\n\n"...)
		if out.flush() != nil {
			return
		}
	}
}

// errGone: the client does not take what is written.
var errGone = errors.New("gateway: client gone")

// until writes events until the source returns an error or the client is gone.
func (x *exchange) until(ctx context.Context, source host.EventStream, out *eventWriter) error {
	for {
		d, err := source.Next(ctx)
		if err != nil {
			return err
		}
		if d.Missed > 0 {
			out.buf = append(out.buf, "event: "+EventGap+"\ndata: {\"missed\":"...)
			out.buf = strconv.AppendUint(out.buf, d.Missed, 10)
			out.buf = append(out.buf, "}\n\n"...)
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

// An eventWriter puts server-sent events together and writes them under a deadline.
type eventWriter struct {
	x   *exchange
	rc  *http.ResponseController
	buf []byte
}

// event appends one event. Besides the fields of the standard it has "version" and "time", which browsers skip.
func (o *eventWriter) event(e *host.EmittedEvent) error {
	b := append(o.buf, "id: "...)
	b = strconv.AppendUint(b, e.Sequence, 10)
	b = append(b, "\nversion: "...)
	b = strconv.AppendUint(b, e.Version, 10)
	b = append(b, "\ntime: "...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendField(b, "\nevent: ", e.Name)
	b = appendField(b, "\ndata: ", e.Data)
	o.buf = append(b, "\n\n"...)
	if len(o.buf) >= o.x.g.opts.Limits.StreamBufferBytes {
		return o.flush()
	}
	return nil
}

// appendField appends a value, in as many fields as it has lines: none of its bytes can end the field, except that all
// line ends are read back as \n.
func appendField[T string | []byte](b []byte, prefix string, value T) []byte {
	b = append(b, prefix...)
	for i := 0; i < len(value); i++ {
		switch c := value[i]; c {
		case '\r', '\n':
			if c == '\r' && i+1 < len(value) && value[i+1] == '\n' {
				i++
			}
			b = append(b, prefix...)
		default:
			b = append(b, c)
		}
	}
	return b
}

// bye says why the stream ends. There is nothing to do about an error. The deadline stays for what net/http writes last.
func (o *eventWriter) bye(e *host.Error) {
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	o.buf = append(o.buf, "event: "+EventBye+"\ndata: "...)
	o.buf = append(o.buf, data...)
	o.buf = append(o.buf, "\n\n"...)
	o.write()
}

// flush writes what is put together. The error is errGone.
func (o *eventWriter) flush() error {
	err := o.write()
	if err == nil {
		// HTTP/2 ends a stream whose deadline passes, even if nothing is being written then.
		o.rc.SetWriteDeadline(time.Time{})
	}
	return err
}

// write is flush, but leaves the deadline in place.
func (o *eventWriter) write() error {
	if len(o.buf) == 0 {
		return nil
	}
	limits := &o.x.g.opts.Limits
	o.rc.SetWriteDeadline(time.Now().Add(limits.StreamWriteTimeout))
	_, err := o.x.w.Write(o.buf)
	if err == nil {
		err = o.rc.Flush()
	}
	if o.buf = o.buf[:0]; cap(o.buf) > 2*limits.StreamBufferBytes {
		o.buf = nil
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		o.x.g.meter.slow.Inc()
		o.x.code = host.DeadlineExceeded
	}
	return errGone
}
