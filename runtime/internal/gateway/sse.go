package gateway

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// An eventWriter puts server-sent events together and writes them under a deadline.
type eventWriter struct {
	x   *exchange
	rc  *http.ResponseController
	buf []byte
}

// event appends one event.
func (o *eventWriter) event(e *host.EmittedEvent) error {
	if e.Shared == nil {
		o.buf = appendEvent(o.buf, e)
	} else {
		o.buf = append(o.buf, e.Shared.Get(host.FrameSSE, func() []byte { return appendEvent(nil, e) })...)
	}
	return o.full()
}

// appendEvent appends an event. Besides the fields of the standard it has "version" and "time", which browsers skip.
func appendEvent(b []byte, e *host.EmittedEvent) []byte {
	b = host.Position{Sequence: e.Sequence, Life: e.Life}.Append(append(b, "id: "...))
	b = append(b, "\nversion: "...)
	b = strconv.AppendUint(b, e.Version, 10)
	b = append(b, "\ntime: "...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = appendField(b, "\nevent: ", e.Name)
	b = appendField(b, "\ndata: ", e.Data)
	return append(b, "\n\n"...)
}

// plain appends an event of the gateway's own, without an id.
func (o *eventWriter) plain(name string, data []byte) {
	o.buf = append(append(o.buf, "event: "...), name...)
	o.buf = appendField(o.buf, "\ndata: ", data)
	o.buf = append(o.buf, "\n\n"...)
}

// gap appends that something is no longer kept, or not of the life that was asked for. at is the position behind the gap,
// nil if it is not known.
func (o *eventWriter) gap(missed uint64, reset bool, at *host.Position) {
	if at != nil {
		o.buf = append(at.Append(append(o.buf, "id: "...)), '\n')
	}
	o.plain(EventGap, append(appendMissing([]byte{'{'}, missed, reset), '}'))
}

// beat writes a comment, so that proxies keep the connection.
func (o *eventWriter) beat() error {
	o.buf = append(o.buf, ":\n\n"...)
	return o.flush()
}

// full writes what is put together if that is enough for one write.
func (o *eventWriter) full() error {
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
	o.plain(EventBye, appendJSON(nil, e))
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
