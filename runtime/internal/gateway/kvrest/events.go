package kvrest

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// Events are a response of server-sent events, which lasts until the client leaves or the node
// shuts down.
type Events struct {
	r    *Request
	stay *serve.Stay
	out  *serve.Writer
	last time.Time // the time of the last write
	gone bool      // the client did not read a write
}

// Events admits a lasting response, which begins with Begin. Until then an error has its own
// status. The calls of the request end with the response. The caller must call Done at its end.
func (r *Request) Events() (*Events, error) {
	s, fault := r.Front.Admit(r.R.Context(), serve.EventStream)
	if fault != nil {
		return nil, fault
	}
	r.ctx = s.Context()
	return &Events{r: r, stay: s}, nil
}

// Done ends the response.
func (e *Events) Done() { e.stay.Done() }

// Begin begins the response, and reports whether the client is still connected.
func (e *Events) Begin() bool {
	e.out = e.r.Exchange.Stream("text/event-stream")
	e.out.Buf = append(e.out.Buf, "retry: 2000\n\n"...)
	return e.flush()
}

// Beat returns a context that ends when a ping is due.
func (e *Events) Beat() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.r.ctx, e.Quiet())
}

// Quiet returns the time until something must be written.
func (e *Events) Quiet() time.Duration {
	return max(time.Until(e.last.Add(e.r.Front.Limits.Heartbeat)), 0)
}

// Send sends an event, with an id unless that is "", and reports whether the client accepted it.
func (e *Events) Send(name, id string, v any) bool {
	text, err := encode(v)
	if err != nil {
		e.End(err)
		return false
	}
	if id != "" {
		e.out.Buf = append(serve.AppendField(e.out.Buf, "id: ", id), '\n')
	}
	e.out.Buf = append(append(append(e.out.Buf, "event: "...), name...), "\ndata: "...) // the text is one line
	for most := e.r.Front.Limits.StreamBufferBytes; len(text) > 0; text = text[min(most, len(text)):] {
		e.out.Buf = append(e.out.Buf, text[:min(most, len(text))]...)
		if e.gone = e.out.FlushFull() != nil; e.gone {
			return false
		}
	}
	e.out.Buf = append(e.out.Buf, "\n\n"...)
	e.r.Front.Meter.Events.Inc()
	return e.flush()
}

// Ping sends a ping if one is due, and reports whether the client is still connected.
func (e *Events) Ping() bool {
	if e.Quiet() > 0 {
		return e.r.ctx.Err() == nil
	}
	e.out.Buf = append(e.out.Buf, "event: ping\ndata: \n\n"...)
	return e.flush()
}

func (e *Events) flush() bool {
	if e.gone = e.gone || e.out.Flush() != nil; e.gone || e.r.ctx.Err() != nil {
		return false
	}
	e.last = time.Now()
	return true
}

// End sends the reason for the end of the response, which is err or a shutdown, unless the client
// is gone.
func (e *Events) End(err error) {
	switch {
	case e.stay.Closing():
		err = serve.ErrShutdown
	case e.gone, err == nil, e.r.ctx.Err() != nil:
		return
	}
	fault := e.r.Front.AsError(err)
	e.r.Code = fault.Code
	text, err := encode(map[string]string{"error": fault.Message})
	if err != nil {
		return
	}
	e.out.Buf = serve.AppendEvent(e.out.Buf, "error", text)
	e.out.FlushLast() // an error is ignored
}

// Ended reports whether an error only says that it is time for a ping.
func Ended(beat context.Context, err error) bool {
	code := host.CodeOf(err)
	return beat.Err() != nil && (code == host.Canceled || code == host.DeadlineExceeded)
}
