package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// ConnectTimeout is how long a WebSocket may take to send its first message, the connect message.
const ConnectTimeout = 10 * time.Second

// A session is a client's connection to an actor over a WebSocket.
//
//  1. One goroutine reads messages, one waits for events and writes them, and each call in flight
//     and each followed stream has its own. All writes go through the socket.
//  2. Calls and changes of subscriptions run in the order in which the client sent them: see
//     serve.Line. A change of subscriptions is in effect for all later messages of the client.
//  3. A call's id and its place among the calls in flight are free before its answer can reach the
//     client.
//  4. When the session ends, it notifies the node once, after the last call has returned, whether
//     the client closed its end, or was lost and may come back.
type session struct {
	g       *Gateway
	address host.Address
	header  http.Header // of the handshake, for Authorize
	remote  string      // for Authorize and the audit log
	start   time.Time
	first   host.ConnectRequest // the connection's data from the handshake
	socket  *serve.Socket
	stay    *serve.Stay
	conn    host.LiveConnection

	// life is the context of calls. All waits use the stay's context, which ends earlier if the
	// gateway shuts down.
	life  context.Context
	end   context.CancelFunc // of life
	tasks sync.WaitGroup

	line    serve.Line
	barrier chan struct{} // closed when the last subscription is in effect; nil without one

	mu         sync.Mutex
	calls      map[int64]struct{}   // in flight
	follows    map[int64]*following // under way
	unanswered int                  // calls whose answer is not queued
	idle       chan struct{}        // closed when unanswered is 0; nil unless settle waits
}

// leave ends all work of the session.
func (c *session) leave() {
	c.end()
	c.stay.Cancel()
}

// serve runs the session once it is connected.
func (c *session) serve() {
	defer c.stay.Done()
	defer c.guard()
	lost := true
	defer func() {
		c.leave()
		c.socket.CloseNow()
		c.tasks.Wait()
		if c.socket.Slow() {
			c.g.front.Meter.Dropped.Inc()
		}
		c.g.closeConnection(c.life, c.conn, lost)
	}()
	defer c.guard()
	c.spawn(c.pump)
	lost = c.read()
}

// spawn runs f in a goroutine; the session waits for it.
func (c *session) spawn(f func()) {
	c.tasks.Go(func() {
		defer c.guard()
		f()
	})
}

// guard turns a panic into the end of the session. Callers defer it.
func (c *session) guard() {
	if p := recover(); p != nil {
		c.bye(c.g.front.Panicked("WebSocket panicked", p), websocket.StatusInternalError)
	}
}

// bye ends the session with a last message.
func (c *session) bye(e *host.Error, code websocket.StatusCode) {
	c.socket.Farewell(appendBye(nil, e), code, string(e.Code))
}

// connect reads the first message and connects. On failure it sends the client the error and
// returns false.
func (c *session) connect() bool {
	defer c.guard()
	fail := func(e *host.Error) bool {
		c.counted(e.Code)
		c.bye(e, serve.CloseCode(e, false))
		return false
	}
	c.socket.ReadUntil(time.Now().Add(ConnectTimeout))
	m, fault, code := c.next()
	switch {
	case code == serve.NoMessage:
		c.counted(host.Canceled)
		return false
	case code != 0:
		c.counted(fault.Code)
		c.bye(fault, code)
		return false
	case fault == nil && m.Connect == nil:
		fault = host.Errorf(host.InvalidArgument, "the first message must be connect")
	}
	defer c.free(m)
	if fault != nil {
		return fail(fault)
	}
	q, fault := m.Connect.request("websocket")
	if fault != nil {
		return fail(fault)
	}
	q.Existing, q.Traceparent = c.first.Existing, c.first.Traceparent
	if c.conn, fault = c.g.connect(c.stay, c.address, q); fault != nil {
		return fail(fault)
	}
	c.counted("")
	c.send(appendWelcome(nil, c.conn.Welcome()))
	return true
}

// read handles the client's messages until the connection ends. It reports whether the client may
// come back.
func (c *session) read() (lost bool) {
	for {
		c.socket.Wait() // a client that does not read its replies gets no others
		m, fault, code := c.next()
		switch {
		case code == serve.NoMessage:
			return fault != serve.ErrLeft
		case code != 0:
			c.bye(fault, code)
			c.socket.Discard()
			return true
		case c.socket.SaidFarewell(): // what comes after it could not be answered, and is not done
			c.free(m)
			c.socket.Discard()
			return true
		case fault != nil:
			c.send(appendFault(nil, c.answerable(m.ID), fault))
		default:
			c.handle(m)
		}
	}
}

// free gives back the memory of a message.
func (c *session) free(m *message) {
	c.g.front.Memory.Add(-int(m.held))
	m.held = 0
}

// next reads a message, which the caller must free. A code other than 0 means that there are no
// further messages: serve.NoMessage if the client is gone, or the code to close with. After a fault
// with code 0 the session continues.
func (c *session) next() (*message, *host.Error, websocket.StatusCode) {
	var m *message
	held, fault, code := c.socket.Next(func(data []byte) (fault *host.Error) {
		m, fault = decodeMessage(data)
		return fault
	})
	switch {
	case code != 0:
		return nil, fault, code
	case fault == serve.ErrNotJSON:
		return nil, fault, websocket.StatusPolicyViolation
	}
	m.held = held
	return m, fault, 0
}

// send queues a message for the client, and ends the session if the client reads too slowly.
func (c *session) send(payload []byte) {
	if errors.Is(c.socket.Send(payload), serve.ErrSlow) {
		c.bye(errTooSlow, websocket.StatusTryAgainLater)
	}
}

// errTooSlow is the last error for a client that does not read its messages. It may come back.
var errTooSlow = host.Errorf(host.Overloaded, "the client is too slow: it does not read what is sent to it").Retry()

// pump waits for events and writes them, and ends the session when there can be no further events.
func (c *session) pump() {
	var batch [][]byte
	for {
		// One timer per heartbeat, not one per event.
		beat, cancel := context.WithTimeout(c.stay.Context(), c.g.front.Limits.Heartbeat)
		err := c.until(beat, &batch)
		due := beat.Err() != nil
		cancel()
		switch {
		case err == nil: // the socket is closed, and the reader will notice
			return
		case c.stay.Context().Err() != nil:
			if c.stay.Closing() {
				c.settle()
				c.bye(serve.ErrShutdown, websocket.StatusGoingAway)
			}
			return
		case !due || host.CodeOf(err) != host.Canceled && host.CodeOf(err) != host.DeadlineExceeded:
			e := c.g.front.AsError(err)
			c.bye(e, serve.CloseCode(e, true))
			return
		}
		c.socket.Ping()
	}
}

// until writes events until Next fails or the socket is closed. It returns the error of Next.
func (c *session) until(ctx context.Context, batch *[][]byte) error {
	for {
		d, err := c.conn.Next(ctx)
		if err != nil {
			return err
		}
		out := (*batch)[:0]
		if d.Missed > 0 || d.Reset {
			out = append(out, appendGap(nil, d.Missed, d.Reset))
		}
		for i := range d.Events {
			out = append(out, eventMessage(&d.Events[i]))
		}
		err = c.socket.SendAll(out)
		clear(out)
		if *batch = out; cap(out) > 64 {
			*batch = nil
		}
		if err != nil {
			return nil
		}
	}
}

// settle waits until the calls in flight are answered, up to the time of a write.
func (c *session) settle() {
	c.mu.Lock()
	idle := make(chan struct{})
	if c.unanswered == 0 {
		close(idle)
	} else {
		c.idle = idle
	}
	c.mu.Unlock()
	limit := time.NewTimer(c.g.front.Limits.StreamWriteTimeout)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	case <-c.life.Done():
	}
}
