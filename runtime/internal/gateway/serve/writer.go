package serve

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// ErrGone is the error of a Writer whose client does not read.
var ErrGone = errors.New("gateway: client gone")

// A Writer writes a lasting response, from a buffer to which its user appends.
//
//  1. A client must accept each write within Limits.StreamWriteTimeout, or it is cut off.
//  2. Between writes there is no deadline, so a quiet response continues.
type Writer struct {
	Buf []byte
	x   *Exchange
	rc  *http.ResponseController
}

// Stream begins a lasting response.
func (x *Exchange) Stream(contentType string) *Writer {
	h := x.W.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no")
	if x.R.ProtoMajor == 1 {
		h.Set("Connection", "close") // write deadlines stay with the connection
	}
	x.Begin(http.StatusOK)
	return &Writer{x: x, rc: http.NewResponseController(x.W)}
}

// FlushFull writes the buffer if it is long enough for one write. The error is ErrGone.
func (w *Writer) FlushFull() error {
	if len(w.Buf) >= w.x.Front.Limits.StreamBufferBytes {
		return w.Flush()
	}
	return nil
}

// Flush writes the buffer. The error is ErrGone.
func (w *Writer) Flush() error {
	err := w.FlushLast()
	if err == nil {
		// HTTP/2 ends a stream whose deadline passes, even without a write at that time.
		w.rc.SetWriteDeadline(time.Time{})
	}
	return err
}

// FlushLast is Flush at the end of the response: the deadline stays, for net/http's last write.
func (w *Writer) FlushLast() error {
	if len(w.Buf) == 0 {
		return nil
	}
	limits := &w.x.Front.Limits
	w.rc.SetWriteDeadline(time.Now().Add(limits.StreamWriteTimeout))
	_, err := w.x.W.Write(w.Buf)
	if err == nil {
		err = w.rc.Flush()
	}
	if w.Buf = w.Buf[:0]; cap(w.Buf) > 2*limits.StreamBufferBytes {
		w.Buf = nil
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.x.Front.Meter.slow.Inc()
		w.x.Code = host.DeadlineExceeded
	}
	return ErrGone
}

// AppendEvent appends a server-sent event without an id.
func AppendEvent(b []byte, name string, data []byte) []byte {
	b = append(append(b, "event: "...), name...)
	b = AppendField(b, "\ndata: ", data)
	return append(b, "\n\n"...)
}

// AppendField appends a value, in one field for each line, so no byte of it can end the event. All
// line ends are read back as \n.
func AppendField[T string | []byte](b []byte, prefix string, value T) []byte {
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
