package serve

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

// socketReadBuffer fits the usual message, and socketWriteBuffer the longest frame that the library
// writes itself: a control frame of 127 bytes. A WebSocket keeps both while it is open.
const (
	socketReadBuffer  = 512
	socketWriteBuffer = 128
)

// A hijacker is the response of a handshake. It gives the library a Socket with small buffers as
// the connection, and keeps the library's status for an invalid handshake.
type hijacker struct {
	http.ResponseWriter
	front  *Front
	socket *Socket
	status int
}

// WriteHeader keeps the status of an error.
func (h *hijacker) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(status)
		return
	}
	h.status = status
}

// Write drops the text of an error.
func (h *hijacker) Write(b []byte) (int, error) { return len(b), nil }

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s := &Socket{Conn: conn, front: h.front}
	s.room.L = &s.mu
	if n := rw.Reader.Buffered(); n > 0 {
		b, _ := rw.Reader.Peek(n) // buffered bytes are available
		s.early = append(s.early, b...)
	}
	h.socket = s
	return s, bufio.NewReadWriter(bufio.NewReaderSize(s, socketReadBuffer),
		bufio.NewWriterSize(s, socketWriteBuffer)), nil
}

// Upgrade turns the request into a WebSocket. On failure it answers, with refusal if there is one,
// and returns nil.
func (x *Exchange) Upgrade(subprotocol string, refusal *host.Error) *Socket {
	if x.R.ProtoMajor != 1 {
		x.Fail(cmp.Or(refusal, host.Errorf(host.InvalidArgument, "a WebSocket needs HTTP/1.1")))
		return nil
	}
	x.tell()
	h := &hijacker{ResponseWriter: x.W, front: x.Front}
	x.began = true
	var s *Socket // the library keeps the callback, which must not keep the request
	ws, err := websocket.Accept(h, x.R, &websocket.AcceptOptions{
		Subprotocols:       []string{subprotocol},
		InsecureSkipVerify: true, // Door.CheckOrigin has decided
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived: func(_ context.Context, payload []byte) bool {
			s.pong(payload)
			return false
		},
	})
	if err == nil {
		ws.SetReadLimit(-1) // Next limits messages, with an error
		s = h.socket
		s.ws = ws
		return s
	}
	if h.status == 0 { // the status was sent, and the client is gone
		x.Code = host.Canceled
		return nil
	}
	x.began = false
	x.W.Header().Del("Sec-Websocket-Accept")
	if refusal != nil {
		x.Fail(refusal)
		return nil
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	x.FailStatus(host.Errorf(host.InvalidArgument, "this cannot become a WebSocket: %v", err), h.status)
	return nil
}

// NoMessage says, in place of a close code, that the client is gone.
const NoMessage websocket.StatusCode = -1

// ErrLeft is the error of Next when the client closed its WebSocket itself.
var ErrLeft = host.Errorf(host.Canceled, "the client has left")

// Next reads a text message and calls decode with it, which must not keep the data.
//
// A code other than 0 means that there are no further messages: NoMessage if the client is gone, or
// the code to close with. An error of decode is returned with code 0. Without an error, the message
// holds held bytes of Front.Memory, which the caller must give back.
func (s *Socket) Next(decode func(data []byte) *host.Error) (held int64, fault *host.Error, code websocket.StatusCode) {
	typ, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return 0, s.gone(err), NoMessage
	}
	limits, memory := &s.front.Limits, &s.front.Memory
	s.ReadUntil(time.Now().Add(limits.BodyTimeout))
	buf := buffers.Get().(*bytes.Buffer)
	defer release(buf)
	in := bodyReader{Reader: io.LimitReader(r, limits.BodyBytes+1), of: memory, room: firstRead}
	defer func() { memory.Add(-int(in.held)) }()
	n, err := io.Copy(buf, &in)
	if in.full {
		_, _ = io.Copy(io.Discard, io.LimitReader(r, limits.BodyBytes)) // or the client would not read the answer
	}
	s.ReadUntil(time.Time{})
	s.front.Meter.received.Inc()
	switch {
	case in.full:
		return 0, memory.crowded(), websocket.StatusTryAgainLater
	case err != nil:
		return 0, s.gone(err), NoMessage
	case n > limits.BodyBytes:
		return 0, TooLong("message", limits.BodyBytes, limits.BodyBytes+1), websocket.StatusMessageTooBig
	case typ != websocket.MessageText:
		return 0, host.Errorf(host.InvalidArgument, "messages are JSON text, not binary"),
			websocket.StatusUnsupportedData
	}
	if fault = decode(buf.Bytes()); fault != nil {
		return 0, fault, 0
	}
	held, in.held = in.held, 0
	return held, nil, 0
}

// gone returns why nothing can be read: ErrLeft if the client closed the WebSocket before this side
// did.
func (s *Socket) gone(err error) *host.Error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		if !s.SaidFarewell() {
			return ErrLeft
		}
	}
	return nil
}

// Discard reads until the client is gone.
func (s *Socket) Discard() {
	for {
		_, r, err := s.ws.Reader(context.Background())
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err != nil {
			return
		}
	}
}

// CloseNow closes the connection without a close frame.
func (s *Socket) CloseNow() { s.ws.CloseNow() }

// buffers holds buffers for the writes of sockets and for clients' messages. A buffer that grew
// beyond keptBuffer is not kept.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const keptBuffer = 64 << 10

// release puts a buffer back.
func release(b *bytes.Buffer) {
	if b.Cap() <= keptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}
