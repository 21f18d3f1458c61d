package client

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	mathrand "math/rand/v2"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// reconnectWait is the longest wait before the first attempt to connect again; it doubles up to
	// maxReconnectWait. The actual wait is random, at least half of it.
	reconnectWait    = 100 * time.Millisecond
	maxReconnectWait = 10 * time.Second
)

var _ host.Connector = (*Client)(nil)

// A Connection is a client's end of a connection to an actor, over a WebSocket. It implements
// host.LiveConnection.
//
//  1. It survives its sockets. If one is lost, or the node shuts down or finds the client too slow,
//     it connects again and resumes. It waits a random time before, up to 100 ms at first and 10 s
//     later, and tries for Options.MaxOutage or until it is closed. Next returns each event once
//     and in order; a Delivery counts the events that the node no longer keeps.
//  2. It ends when the node refuses it, or when the actor or the node ends it for good. Next then
//     returns the reason.
//  3. A call whose socket is lost is sent again over the next one, up to Options.Attempts times in
//     all, if it cannot take effect twice: it carries an idempotency key, which actions get as with
//     Client.Call, or it is a query that every actor has. Any other call fails with Unavailable,
//     and its outcome is unknown.
//  4. A slow reader does not delay calls. Events beyond 4 MiB are dropped, and requested again in
//     order once the reader has taken the rest.
//  5. Calls over one socket run in the order in which they were sent; see docs/websocket.md. A call
//     that is sent again over the next socket may run after later calls.
//
// Calls in CBOR travel as HTTP requests on behalf of the connection, because its messages are JSON.
// They have no order.
type Connection struct {
	c       *Client
	address host.Address
	path    string
	header  http.Header
	params  json.RawMessage

	cancel context.CancelFunc
	ended  chan struct{} // closed when run has returned; fault is set then
	fault  *host.Error

	arrived chan struct{} // capacity 1: there are deliveries in inbox
	work    chan struct{} // capacity 1: there are exchanges in queue

	mu      sync.Mutex
	socket  *socket // nil while there is none
	welcome host.Welcome
	events  []string // the subscriptions that the node has confirmed
	token   string
	after   uint64 // the last event in inbox or before it
	life    string // the life that after counts in, "" if unknown
	placed  bool   // after is known
	closing bool   // Close was called
	gone    bool   // the node said that the connection is over

	inbox   []host.Delivery
	held    int64 // bytes in inbox
	missed  uint64
	cut     bool // events of this socket are dropped
	lastID  uint64
	flights map[uint64]*flight
	queue   []*flight
}

// Connect opens a connection to an actor. ctx bounds the opening only, which is retried like any
// read; Close ends the connection. Next returns later errors. The client's token is in the
// handshake, r.Params only in the first message.
func (c *Client) Connect(ctx context.Context, a host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	path, e := actorPath(a)
	if e != nil {
		return nil, e
	}
	if len(r.Params) > 0 && !json.Valid(r.Params) {
		return nil, host.Errorf(host.InvalidArgument, "the parameters of the connection are not JSON")
	}
	if e := eventNames(r.Events); e != nil {
		return nil, e
	}
	h := c.header()
	if r.Existing {
		h.Set("If-Match", "*")
	}
	if r.Traceparent != "" && printable(r.Traceparent) {
		h.Set("Traceparent", r.Traceparent)
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cn := &Connection{
		c: c, address: a, path: path +
			"connect", header: h, params: r.Params, cancel: cancel, ended: make(chan struct{}),
		arrived: make(chan struct{}, 1), work: make(chan struct{}, 1), events: slices.Clone(r.Events), token: r.Token,
		after: r.After, life: r.Life, placed: r.HasAfter, flights: make(map[uint64]*flight),
	}
	stop := context.AfterFunc(ctx, cancel)
	s, f := cn.open(life)
	for attempt := 1; f != nil && (f.nothing || f.lost) && attempt < c.opts.Attempts; attempt++ {
		if !sleep(life, c.wait(attempt, f.after)) {
			break
		}
		s, f = cn.open(life)
	}
	if !stop() && f == nil {
		s.conn.CloseNow()
		f = &failure{}
	}
	if f != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, contextError(ctx)
		}
		return nil, f.err
	}
	go cn.run(life, s)
	return cn, nil
}

// eventNames checks names of events.
func eventNames(names []string) *host.Error {
	if slices.Contains(names, "") {
		return host.Errorf(host.InvalidArgument, "the name of an event is empty")
	}
	return nil
}

// CallOver calls a method on behalf of the connection that token belongs to.
func (c *Client) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	q, e := c.callRequest(r)
	if e == nil {
		e = q.over(token)
	}
	if e != nil {
		return host.Reply{}, e
	}
	return c.call(ctx, q, r)
}

// Disconnect ends the connection of a token. The error code is Unauthenticated if there
// is none.
func (c *Client) Disconnect(ctx context.Context, a host.Address, token string) error {
	path, e := actorPath(a)
	if e != nil {
		return e
	}
	q := &request{method: http.MethodDelete, path: path + "connect", header: c.header(), again: true,
		gone: []host.Code{host.Unauthenticated, host.NotFound}}
	if e := q.over(token); e != nil {
		return e
	}
	if _, f := c.send(ctx, q); f != nil {
		return f.err
	}
	return nil
}

// over turns a request into one on behalf of a connection.
func (q *request) over(token string) *host.Error {
	if token == "" || !printable(token) {
		return host.Errorf(host.InvalidArgument, "the connection's token is empty or not printable ASCII")
	}
	q.header.Set("Cairn-Connection", token)
	return nil
}

// Welcome returns the node's last welcome, sent when the connection was opened or resumed.
func (cn *Connection) Welcome() host.Welcome {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.welcome
}

// Next waits for events. The error is an *host.Error: Canceled or DeadlineExceeded when ctx ends,
// after which Next may be called again; Canceled after Close; or the error that ended the
// connection. Events that arrived before the end are delivered first.
func (cn *Connection) Next(ctx context.Context) (host.Delivery, error) {
	for {
		if d, ok := cn.take(); ok {
			return d, nil
		}
		select {
		case <-cn.arrived:
		case <-ctx.Done():
			return host.Delivery{}, contextError(ctx)
		case <-cn.ended:
			if d, ok := cn.take(); ok {
				return d, nil
			}
			return host.Delivery{}, cn.fault
		}
	}
}

// Close ends the connection and returns when the node has run its disconnect hook, or ctx ended.
// Next still returns earlier events of the connection, including events of its own calls. If lost
// is true, the node is not notified, and Welcome's token can resume the connection for as long as
// the actor's type allows.
func (cn *Connection) Close(ctx context.Context, lost bool) error {
	cn.mu.Lock()
	cn.closing = true
	gone, token, open := cn.gone, cn.token, cn.socket != nil
	cn.mu.Unlock()
	var err error
	if !lost && !gone {
		err = cn.c.Disconnect(ctx, cn.address, token)
		if err == nil && open {
			cn.part(ctx)
		}
		switch host.CodeOf(err) {
		case host.Unauthenticated, host.NotFound, host.Destroyed:
			err = nil // it is over already
		}
	}
	cn.cancel()
	<-cn.ended
	if err == nil && !lost {
		cn.mu.Lock()
		cn.gone = true
		cn.mu.Unlock()
	}
	return err
}

// part waits for the last messages of a connection that the node has ended: earlier events, and the
// bye.
func (cn *Connection) part(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, farewell)
	defer cancel()
	select {
	case <-cn.ended:
	case <-ctx.Done():
	}
}

// run serves socket after socket.
func (cn *Connection) run(ctx context.Context, s *socket) {
	defer close(cn.ended)
	defer cn.cancel()
	attempt := 0
	for {
		opened := time.Now()
		e := cn.serve(ctx, s)
		if e == nil && cn.leaving() {
			e = contextError(ctx) // a resume would undo the close
		}
		if e != nil {
			cn.end(ctx, e)
			return
		}
		lost := time.Now()
		if lost.Sub(opened) > maxReconnectWait || cn.behind() {
			// Only a socket that lasted shows that the node is well. Two clients that take a
			// connection from each other must not hurry, nor must retries at a node that refuses a
			// connection that it just accepted.
			attempt = 0
		}
		asked := time.Duration(0)
		for {
			attempt++
			if !sleep(ctx, reconnectAfter(attempt, asked)) {
				cn.end(ctx, contextError(ctx))
				return
			}
			var f *failure
			if s, f = cn.open(ctx); f == nil {
				break
			}
			asked = f.after
			outage := cn.c.opts.MaxOutage
			switch {
			case ctx.Err() != nil:
				cn.end(ctx, contextError(ctx))
				return
			case !f.nothing && !f.lost, outage > 0 && time.Since(lost) > outage:
				cn.end(ctx, f.err)
				return
			}
		}
	}
}

// leaving reports whether Close was called.
func (cn *Connection) leaving() bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.closing
}

// reconnectAfter returns how long to wait before an attempt to connect again, counted from 1: a
// random time, or longer if the node asks for it, up to maxReconnectWait.
func reconnectAfter(attempt int, asked time.Duration) time.Duration {
	most := maxReconnectWait
	if shift := attempt - 1; shift < 16 {
		most = min(most, reconnectWait<<shift)
	}
	return min(max(most/2+mathrand.N(most/2)+1, asked), maxReconnectWait)
}

// end records why the connection is over and answers the waiting calls.
func (cn *Connection) end(ctx context.Context, e *host.Error) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.closing || ctx.Err() != nil {
		e = host.Errorf(host.Canceled, "the connection was closed")
	}
	cn.fault = e
	for id, f := range cn.flights {
		if f.sends > 0 {
			f.settle(outcomeUnknown(e.Message))
		} else {
			f.settle(e)
		}
		delete(cn.flights, id)
	}
	cn.queue = nil
}
