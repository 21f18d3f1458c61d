package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// inboxBytes bounds the events that a Connection holds for its reader.
	inboxBytes = 4 << 20
	// eventOverhead is the size that an event counts in addition to its data.
	eventOverhead = 128
	// takenOver is the reason, in the metadata of a bye, if another client resumed the connection
	// with its token.
	takenOver = "taken_over"
	// farewell is how long to wait for the close frame that follows a bye.
	farewell = time.Second
)

// A socket is one WebSocket of a Connection.
type socket struct {
	conn   *websocket.Conn
	limit  int64              // of a message of the node, in bytes
	cancel context.CancelFunc // set while the socket is served
}

// open connects, resumes from the connection's position, and reads the welcome.
func (cn *Connection) open(life context.Context) (*socket, *failure) {
	ctx, cancel := context.WithTimeout(life, cn.c.opts.StreamSilence)
	defer cancel()
	s, f := cn.dial(ctx)
	if f != nil && life.Err() == nil && ctx.Err() != nil {
		f = &failure{err: host.Errorf(host.Unavailable, "the node did not answer in time").Retry(), lost: true}
	}
	return s, f
}

func (cn *Connection) dial(ctx context.Context) (*socket, *failure) {
	conn, res, err := websocket.Dial(ctx, cn.c.base+cn.path, &websocket.DialOptions{
		HTTPClient: cn.c.http, HTTPHeader: cn.header.Clone(), Subprotocols: []string{subprotocol},
	})
	if err != nil {
		return nil, handshakeFailure(ctx, res, err)
	}
	conn.SetReadLimit(cn.c.opts.ReplyBytes)
	s := &socket{conn: conn, limit: cn.c.opts.ReplyBytes}
	f := cn.greet(ctx, s)
	if f != nil {
		conn.CloseNow()
		return nil, f
	}
	return s, nil
}

// handshakeFailure returns the failure of a handshake. A status of 500 or more, or 429, is
// temporary; any other is a refusal.
func handshakeFailure(ctx context.Context, res *http.Response, err error) *failure {
	if res == nil || ctx.Err() != nil {
		return sendFailure(ctx, err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return &failure{err: host.Errorf(host.Internal, "the node's answer is not a WebSocket handshake: %v", err)}
	}
	body, err := io.ReadAll(res.Body) // the library keeps only the beginning
	if err != nil {
		return sendFailure(ctx, err)
	}
	f := answerFailure(res.StatusCode, res.Header, body)
	if res.StatusCode/100 == 2 {
		f.err = host.Errorf(host.Internal,
			"the node answers with status %d instead of a WebSocket: %s", res.StatusCode, excerpt(body))
	}
	f.lost = f.lost || res.StatusCode >= http.StatusInternalServerError
	return f
}

// greet sends the connect message and handles the welcome.
func (cn *Connection) greet(ctx context.Context, s *socket) *failure {
	cn.mu.Lock()
	hello := connectMessage{Params: cn.params, Events: cn.events, Token: cn.token}
	if cn.placed {
		hello.After, hello.Life = &cn.after, cn.life
	}
	frame, err := (&outgoing{Connect: &hello}).encode()
	cn.mu.Unlock()
	if err != nil {
		return &failure{err: host.Errorf(host.InvalidArgument,
			"the connection's parameters cannot be encoded: %v", err)}
	}
	if err := s.conn.Write(ctx, websocket.MessageText, frame); err != nil {
		return sendFailure(ctx, err)
	}
	m, b := s.read(ctx)
	switch {
	case b != nil && b.garbled:
		return &failure{err: b.err}
	case b != nil:
		return &failure{err: b.err, lost: b.resume && !b.tooLong} // the connect message does not get shorter
	case m.Welcome == nil:
		return &failure{err: host.Errorf(host.Internal, "the node's first message is not a welcome")}
	}
	cn.welcomed(s, m.Welcome)
	return nil
}

// welcomed handles a welcome.
func (cn *Connection) welcomed(s *socket, w *host.Welcome) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.socket, cn.cut = s, false
	// The node repeats a gap that it sent before the loss, unless an event followed it.
	cn.missed = 0
	// The node names the position before its events. It is further back than before if the actor
	// was destroyed and created again.
	cn.after, cn.life, cn.placed = w.Cursor, w.Life, true
	cn.welcome, cn.token = *w, cmp.Or(w.Token, cn.token)
	if w.Events != nil {
		cn.events = slices.Clone(w.Events)
	}
}

// A breach is the end of a socket.
type breach struct {
	err *host.Error
	// resume means that the connection can be resumed.
	resume bool
	// tooLong: the node refused a message for its length.
	tooLong bool
	// garbled: the node's message is not of the protocol.
	garbled bool
}

// read reads one message.
func (s *socket) read(ctx context.Context) (*incoming, *breach) {
	typ, frame, err := s.conn.Read(ctx)
	if err != nil {
		return nil, s.closed(err)
	}
	if typ != websocket.MessageText {
		return nil, &breach{err: host.Errorf(host.Internal,
			"the node sent a message that is not text"), resume: true, garbled: true}
	}
	m, err := decode(frame)
	switch {
	case err != nil:
		return nil, &breach{err: host.Errorf(host.Internal, "%v", err), resume: true, garbled: true}
	case m.Bye != nil:
		return nil, s.bye(ctx, m.Bye)
	}
	return m, nil
}

// bye returns the breach for a node's last message and the code with which it closes the socket.
func (s *socket) bye(ctx context.Context, e *host.Error) *breach {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	_, _, err := s.conn.Read(ctx)
	b := &breach{err: e, resume: e.Retryable || e.Code == host.Unavailable || e.Code == host.Overloaded}
	switch status := websocket.CloseStatus(err); {
	case status == websocket.StatusGoingAway || status == websocket.StatusTryAgainLater:
		b.resume = true
	case status == websocket.StatusMessageTooBig || e.Code == host.TooLarge: // the close may be lost while the client writes
		b.resume, b.tooLong = true, true
	}
	if e.Metadata["reason"] == takenOver {
		b.resume = false // or the two would take it from each other without end
	}
	return b
}

// closed returns the breach of a socket that ended without a bye.
func (s *socket) closed(err error) *breach {
	if errors.Is(err, websocket.ErrMessageTooBig) {
		e := host.OverLimit("message", s.limit, s.limit+1)
		e.Message = fmt.Sprintf("a message of the node is longer than %d bytes", s.limit)
		return &breach{err: e}
	}
	var frame websocket.CloseError
	errors.As(err, &frame)
	switch frame.Code {
	case websocket.StatusNormalClosure:
		return &breach{err: host.Errorf(host.Canceled, "the node ended the connection: %s",
			cmp.Or(frame.Reason, "no reason given"))}
	case websocket.StatusPolicyViolation:
		e := host.Errorf(host.PermissionDenied, "the node refused the connection: %s",
			cmp.Or(frame.Reason, "no reason given"))
		return &breach{err: e}
	case websocket.StatusMessageTooBig:
		return &breach{err: errTooLong(), resume: true, tooLong: true}
	}
	return &breach{err: host.Errorf(host.Unavailable, "the connection to the node was lost: %v",
		err).Retry(), resume: true}
}

// errTooLong returns the error for a message that was refused for its length, if the limit is
// unknown. TooLarge would name one.
func errTooLong() *host.Error {
	return host.Errorf(host.InvalidArgument, "the message was refused because of its length").With("what", "message")
}

// serve reads and writes a socket until it ends. The result is nil if the connection should be
// resumed.
func (cn *Connection) serve(life context.Context, s *socket) *host.Error {
	ctx, cancel := context.WithCancel(life)
	cn.mu.Lock()
	s.cancel = cancel
	cn.mu.Unlock()
	wake(cn.work) // for requests that waited for a socket
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		cn.write(ctx, s)
	})
	wg.Go(func() {
		defer cancel()
		s.beat(ctx, cn.c.opts.StreamSilence)
	})
	var b *breach
	for b == nil {
		var m *incoming
		if m, b = s.read(ctx); b == nil {
			cn.receive(m)
		}
	}
	cancel()
	s.conn.CloseNow()
	wg.Wait()

	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.socket = nil
	switch {
	case life.Err() != nil:
		return contextError(life)
	case !b.resume:
		cn.gone = b.err.Code != host.TooLarge // too long a message of the node ended only the client's end
		return b.err
	}
	cn.grounded(b)
	return nil
}

// write sends requests as they come.
func (cn *Connection) write(ctx context.Context, s *socket) {
	for {
		f := cn.nextFlight()
		if f == nil {
			select {
			case <-cn.work:
				continue
			case <-ctx.Done():
				return
			}
		}
		limited, cancel := context.WithTimeout(ctx, cn.c.opts.StreamSilence)
		err := s.conn.Write(limited, websocket.MessageText, f.frame)
		cancel()
		if err != nil {
			return
		}
	}
}

// beat pings the node, and returns when an answer does not arrive within the rest of silence.
func (s *socket) beat(ctx context.Context, silence time.Duration) {
	pause := silence / 3
	for sleep(ctx, pause) {
		limited, cancel := context.WithTimeout(ctx, silence-pause)
		err := s.conn.Ping(limited)
		cancel()
		if err != nil {
			return
		}
	}
}

// receive handles a message. It never waits, so answers arrive even if the reader of events is
// slow.
func (cn *Connection) receive(m *incoming) {
	switch {
	case m.ID > 0:
		cn.landed(m)
	case m.Gap != nil:
		cn.gap(m.Gap.Missed, m.Gap.Reset)
	case m.Event != "":
		cn.put(m.delivered())
	}
}

// gap counts missing events for the next delivery. If they are of another life, it delivers that at
// once.
func (cn *Connection) gap(missed uint64, reset bool) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if reset && !cn.cut {
		cn.inbox = append(cn.inbox, host.Delivery{Missed: missed, Reset: true})
		wake(cn.arrived)
		return
	}
	cn.missed += missed
}

// put adds an event to the inbox.
func (cn *Connection) put(e host.EmittedEvent) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.cut || e.Sequence <= cn.after {
		return
	}
	if cn.held > inboxBytes {
		cn.cut = true
		return
	}
	e.Life = cn.life
	last := len(cn.inbox) - 1
	if last < 0 || cn.missed > 0 || len(cn.inbox[last].Events) >= deliveryEvents {
		cn.inbox = append(cn.inbox, host.Delivery{Missed: cn.missed})
		cn.missed = 0
		last++
	}
	cn.inbox[last].Events = append(cn.inbox[last].Events, e)
	cn.after = e.Sequence
	cn.held += int64(len(e.Data)) + eventOverhead
	wake(cn.arrived)
}

// take takes the first delivery out of the inbox.
func (cn *Connection) take() (host.Delivery, bool) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if len(cn.inbox) == 0 {
		return host.Delivery{}, false
	}
	d := cn.inbox[0]
	cn.inbox = cn.inbox[1:]
	for i := range d.Events {
		cn.held -= int64(len(d.Events[i].Data)) + eventOverhead
	}
	if len(cn.inbox) == 0 {
		cn.inbox = nil
		cn.catchUp()
	}
	return d, true
}

// catchUp ends a socket that dropped events, once the reader has taken the earlier ones; the next
// socket then delivers them. It first waits for requests that could not be sent again.
//
// REQUIRES: cn.mu
func (cn *Connection) catchUp() {
	if !cn.cut || len(cn.inbox) > 0 || cn.socket == nil || cn.socket.cancel == nil {
		return
	}
	for _, f := range cn.flights {
		if f.sends > 0 && !f.again {
			return
		}
	}
	cn.socket.cancel()
}

// behind reports whether the last socket ended because of catchUp.
func (cn *Connection) behind() bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.cut
}
