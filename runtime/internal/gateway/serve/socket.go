package serve

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// farewellTimeout is how long a client may take to answer the frame that closes its WebSocket.
const farewellTimeout = 5 * time.Second

// The first byte of the frames that a Socket writes: final, and the type.
const (
	frameText  = 0x81
	frameClose = 0x88
	framePing  = 0x89
	framePong  = 0x8A
)

var (
	// ErrSlow means that the client does not read its messages.
	ErrSlow = errors.New("gateway: client does not read")
	// errFarewell means that the close frame is written, and nothing can follow it.
	errFarewell = errors.New("gateway: WebSocket is closing")
)

// A Socket is the connection under a WebSocket, with the library above it and the network below it.
//
// The library does the handshake and reads. Writes bypass it for three reasons: it writes each
// message separately, although several waiting ones fit in one write; each of its writers waits for
// the network; and it cannot decide when to give up on a client. So:
//
//  1. Frames are appended to pending as a whole, in the order of their arrival. If no other
//     goroutine is writing, the goroutine then writes until nothing is pending; others continue.
//     There is no goroutine and no buffer only for that.
//  2. When ConnectionBytes wait to be written, no further message is accepted.
//  3. The network must accept each piece of up to StreamBufferBytes within StreamWriteTimeout. If
//     it does not, or fails, the connection is closed, because a frame may be incomplete.
//  4. After a close frame nothing is written. The library's close frames have left when its Write
//     returns.
//  5. A read fails after two heartbeats without a byte, or at the time in readBy.
//
// One goroutine reads, with Next and Discard. Any goroutine may write. Read and Write are for the
// library.
type Socket struct {
	net.Conn
	front *Front
	ws    *websocket.Conn
	early []byte // bytes that came with the handshake

	mu      sync.Mutex
	room    sync.Cond     // signaled when something was written, and at the end
	pending *bytes.Buffer // from buffers; nil if nothing is pending
	flight  int           // bytes of the current write
	writing bool
	closing bool // a close frame is pending or written
	parted  bool // it is from this side
	tooMuch bool // more than may wait
	err     error
	readBy  time.Time // zero for none
}

// Read implements net.Conn for the library.
func (s *Socket) Read(p []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(p, s.early)
		if s.early = s.early[n:]; len(s.early) == 0 {
			s.early = nil
		}
		return n, nil
	}
	s.alive()
	return s.Conn.Read(p)
}

// alive extends the read deadline, because the client is alive.
func (s *Socket) alive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := time.Now().Add(2 * s.front.Limits.Heartbeat)
	if !s.readBy.IsZero() && s.readBy.Before(by) {
		by = s.readBy
	}
	s.Conn.SetReadDeadline(by)
}

// ReadUntil bounds reads from now on; the zero time removes the bound. It has no effect once the
// socket is closing.
func (s *Socket) ReadUntil(by time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.readBy = by
	}
}

// Write implements net.Conn for the library, which only writes close frames: each in one piece,
// because its buffer has room for it. Write returns when the frame has left, because the library
// closes the network connection next. A frame that still waited behind another goroutine's write
// would be lost.
func (s *Socket) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing { // p answers a close frame of ours, or crosses one, which is then the answer
		s.drained(1)
		return len(p), nil
	}
	if s.err != nil {
		return 0, s.err
	}
	s.queue(p)
	s.closing = len(p) > 0 && p[0] == frameClose
	s.drained(1)
	return len(p), s.err
}

// queue appends bytes to pending. REQUIRES: mu
func (s *Socket) queue(p []byte) {
	if s.pending == nil {
		s.pending = buffers.Get().(*bytes.Buffer)
	}
	s.pending.Write(p)
	s.front.Memory.Add(len(p))
}

// waiting returns how many bytes are not written yet. REQUIRES: mu
func (s *Socket) waiting() int {
	if s.pending == nil {
		return s.flight
	}
	return s.pending.Len() + s.flight
}

// frame appends a frame to pending. REQUIRES: mu
func (s *Socket) frame(first byte, payload []byte) {
	var space [10]byte
	header := space[:0]
	switch n := len(payload); {
	case n < 126:
		header = append(header, first, byte(n))
	case n <= 0xFFFF:
		header = binary.BigEndian.AppendUint16(append(header, first, 126), uint16(n))
	default:
		header = binary.BigEndian.AppendUint64(append(header, first, 127), uint64(n))
	}
	s.queue(header)
	s.queue(payload)
}

// flush writes pending, unless another goroutine is writing, which then does it. It releases mu
// while it writes. REQUIRES: mu
func (s *Socket) flush() {
	if s.writing {
		return
	}
	s.writing = true
	for s.pending != nil && s.err == nil {
		buf := s.pending
		s.pending, s.flight = nil, buf.Len()
		s.mu.Unlock()
		err := s.writeOut(buf.Bytes())
		s.front.Memory.Add(-buf.Len())
		release(buf)
		s.mu.Lock()
		s.flight = 0
		if err != nil {
			s.fail(err)
		}
		s.room.Broadcast()
	}
	s.writing = false
}

// fail records the error for all later writes, and ends the reader. REQUIRES: mu
func (s *Socket) fail(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrSlow
	}
	if s.err == nil {
		s.err = err
	}
	if s.pending != nil {
		s.front.Memory.Add(-s.pending.Len())
		s.pending = nil
	}
	s.Conn.Close()
}

// writeOut writes b in pieces, each with its own deadline.
func (s *Socket) writeOut(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), s.front.Limits.StreamBufferBytes)
		s.Conn.SetWriteDeadline(time.Now().Add(s.front.Limits.StreamWriteTimeout))
		if _, err := s.Conn.Write(b[:n]); err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			s.alive() // a client that slowly reads a long message may not send a pong
		}
	}
	return nil
}

// usable returns why nothing can be written, or nil. REQUIRES: mu
func (s *Socket) usable() error {
	if s.err == nil && s.closing {
		return errFarewell
	}
	return s.err
}

// Send queues a message. The error is ErrSlow if too much is pending already.
func (s *Socket) Send(payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if n := s.waiting(); n >= s.front.Limits.ConnectionBytes ||
		n > s.front.Limits.StreamBufferBytes && s.front.Memory.over() {
		s.tooMuch = true
		return ErrSlow
	}
	s.frame(frameText, payload)
	s.flush()
	if s.err == nil {
		s.front.Meter.sent.Inc()
	}
	return s.err
}

// SendAll queues messages and waits until less than StreamBufferBytes is unwritten. So messages for
// a slow client wait at their source.
func (s *Socket) SendAll(payloads [][]byte) error {
	defer s.front.Meter.sent.Add(float64(len(payloads)))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range payloads {
		if err := s.usable(); err != nil {
			return err
		}
		s.frame(frameText, p)
		if s.waiting() >= s.front.Limits.StreamBufferBytes {
			s.drained(s.front.Limits.StreamBufferBytes)
		}
	}
	s.drained(s.front.Limits.StreamBufferBytes)
	return s.err
}

// Wait waits until less than half of ConnectionBytes waits to be written.
func (s *Socket) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained(s.front.Limits.ConnectionBytes / 2)
}

// drained flushes, and waits while another goroutine writes, until less than n bytes wait.
// REQUIRES: mu
func (s *Socket) drained(n int) {
	s.flush()
	for s.waiting() >= n && s.err == nil {
		s.room.Wait()
		s.flush()
	}
}

// Ping sends a ping; any byte from the client counts as an answer.
func (s *Socket) Ping() { s.control(framePing, nil) }

// pong answers a client's ping.
func (s *Socket) pong(payload []byte) { s.control(framePong, payload) }

func (s *Socket) control(first byte, payload []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usable() != nil || s.waiting() >= s.front.Limits.ConnectionBytes {
		return
	}
	s.frame(first, payload)
	s.flush()
}

// Farewell queues a last message and the close frame, and bounds the time for the client's answer.
// Only the first call counts.
func (s *Socket) Farewell(payload []byte, code websocket.StatusCode, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.usable() != nil {
		return
	}
	s.frame(frameText, payload)
	s.frame(frameClose, append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...))
	s.closing, s.parted = true, true
	s.readBy = time.Now().Add(s.front.Limits.StreamWriteTimeout + farewellTimeout)
	s.flush()
	if s.waiting() == 0 {
		s.readBy = time.Now().Add(farewellTimeout)
	}
	s.Conn.SetReadDeadline(s.readBy)
}

// Slow reports whether the socket was closed because the client does not read.
func (s *Socket) Slow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tooMuch || s.err == ErrSlow
}

// SaidFarewell reports whether a close frame of this side is pending or written.
func (s *Socket) SaidFarewell() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parted
}
