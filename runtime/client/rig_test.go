package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// wantCode fails the test if the code of an error differs; the code of nil is "".
func wantCode(t testing.TB, err error, code host.Code, where ...any) {
	if host.CodeOf(err) != code {
		t.Helper()
		t.Errorf("the error is %v, want %q %+v", err, code, where)
	}
}

// errSeen is the answer of a node that only records requests.
var errSeen = host.Errorf(host.NotFound, "seen")

// refusing is a node that fails each operation.
func refusing(err error) *hosttest.Recorder {
	return &hosttest.Recorder{Before: func(context.Context, string, *host.Request) error { return err }}
}

// A wire passes requests to a handler as they would arrive at a server: as a request line and a
// header.
type wire struct {
	t       testing.TB
	handler http.Handler
	// before, if set, may fail an attempt before it arrives, after before its answer returns.
	before, after func(attempt int) error
	attempts      int
	headers       []http.Header
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.attempts++
	w.headers = append(w.headers, r.Header.Clone())
	if w.before != nil {
		if err := w.before(w.attempts); err != nil {
			return nil, err
		}
	}
	u, err := url.ParseRequestURI(r.URL.RequestURI())
	if err != nil {
		w.t.Errorf("a server cannot read %q: %v", r.URL.RequestURI(), err)
		return nil, err
	}
	arrived := r.Clone(r.Context())
	arrived.URL, arrived.Host = u, r.URL.Host
	if r.Body == nil {
		arrived.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, arrived)
	if w.after != nil {
		if err := w.after(w.attempts); err != nil {
			return nil, err
		}
	}
	return rec.Result(), nil
}

// connect returns a client of a node behind a gateway, and the wire for the requests.
func connect(t testing.TB, n *hosttest.Recorder, o client.Options, behaviors ...*host.Behavior) (*client.Client, *wire) {
	t.Helper()
	f, err := serve.New(serve.Options{Token: "secret", Behaviors: behaviors})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	w := &wire{t: t, handler: http.StripPrefix("/a/b", gateway.New(f, gateway.Options{Node: n}))}
	o.Token, o.HTTPClient = "secret", &http.Client{Transport: w}
	c, err := client.New("http://node.example/a/b/", o)
	must(t, err)
	return c, w
}

// first returns a function that fails the first n attempts.
func first(n int, err error) func(int) error {
	return func(attempt int) error {
		if attempt <= n {
			return err
		}
		return nil
	}
}

// served returns a client of a server.
func served(t *testing.T, h http.HandlerFunc, o client.Options) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	o.Backoff, o.MaxBackoff = time.Microsecond, time.Millisecond
	c, err := client.New(s.URL, o)
	must(t, err)
	t.Cleanup(func() {
		c.Close()
		s.Close()
	})
	return c
}

// keeping returns a type of rooms that keep a number of events.
func keeping(events int) *host.Behavior {
	b := hosttest.Room()
	b.Limits.EventHistory = events
	return b
}

// A stage is a node of rooms behind a gateway, on connections in memory that can be cut, in a
// synctest bubble.
type stage struct {
	t    *testing.T
	node *hosttest.Recorder
	last int // events of the present life
	told []string

	token  string // that the gateway demands
	bodies int64  // limit of a message, in bytes
	pad    string // in each event

	// upgrade, if set, may answer a request for a WebSocket, the nth, instead of the gateway.
	upgrade func(n int, w http.ResponseWriter, r *http.Request) bool
	tries   int

	mu        sync.Mutex
	refuse    bool // connections
	lose      bool // the connection that the gateway writes to next
	conns     []net.Conn
	server    *http.Server
	front     *serve.Front
	transport *http.Transport
	served    sync.WaitGroup
	ends      []func() // of streams and connections
}

func onStage(t *testing.T, o client.Options, run func(t *testing.T, s *stage, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, node: nodetest.Open(t, keeping(10_000)), token: o.Token}
		s.start()
		s.transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.refuse {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}
			mine, theirs := net.Pipe()
			s.conns = append(s.conns, mine)
			l, server := &oneListener{conns: make(chan net.Conn, 1)}, s.server
			l.conns <- &losing{theirs, s}
			s.served.Go(func() { server.Serve(l) })
			return mine, nil
		}}
		o.HTTPClient = &http.Client{Transport: s.transport}
		c, err := client.New("http://node.example", o)
		must(t, err)
		defer func() {
			for _, end := range s.ends {
				end()
			}
			s.stop()
			s.transport.CloseIdleConnections()
			s.served.Wait()
		}()
		run(t, s, c)
	})
}

// start starts a gateway, like the process of a node.
func (s *stage) start() {
	// The pings of the two ends must not cross. A pipe has no buffer, so each would wait for the
	// other's answer.
	heartbeat := 15*time.Second - time.Nanosecond
	f, err := serve.New(serve.Options{Token: s.token, Limits: serve.Limits{BodyBytes: s.bodies, Heartbeat: heartbeat}})
	must(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.front, s.refuse = f, false
	g := gateway.New(f, gateway.Options{Node: s.node})
	s.server = f.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			s.mu.Lock()
			s.tries++
			n, upgrade := s.tries, s.upgrade
			s.mu.Unlock()
			if upgrade != nil && upgrade(n, w, r) {
				return
			}
		}
		g.ServeHTTP(w, r)
	}))
}

// restart starts a gateway to a node whose rooms keep a number of events, or to the same node if
// that is 0.
func (s *stage) restart(keep int) {
	s.stop()
	if keep > 0 {
		s.node = nodetest.Open(s.t, keeping(keep))
	}
	s.start()
}

// onUpgrade sets the function that answers requests for WebSockets, and counts them anew.
func (s *stage) onUpgrade(f func(n int, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upgrade, s.tries = f, 0
}

// stop shuts the gateway down in good order and refuses connections.
func (s *stage) stop() {
	s.mu.Lock()
	s.refuse = true
	s.mu.Unlock()
	errorIf(s.t, s.front.Close() != nil, "the gateway does not close")
	s.server.Close()
}

// cut breaks all connections.
func (s *stage) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.Close()
	}
	s.conns = nil
}

// away breaks all connections, and refuses others until f has returned.
func (s *stage) away(f func()) {
	refuse := func(is bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse = is
	}
	refuse(true)
	s.cut()
	synctest.Wait()
	f()
	refuse(false)
}

// A losing connection closes instead of writing, if the stage says so.
type losing struct {
	net.Conn
	s *stage
}

func (c *losing) Write(b []byte) (int, error) {
	c.s.mu.Lock()
	lose := c.s.lose
	c.s.lose = false
	c.s.mu.Unlock()
	if lose {
		c.Close()
	}
	return c.Conn.Write(b)
}

// call calls a method of the room past the gateway.
func (s *stage) call(method, input string) {
	s.t.Helper()
	r := host.Request{Address: room, Method: method, Codec: host.JSON, Input: []byte(input)}
	must(s.t, errOf(s.node.Call(s.t.Context(), &r)))
}

func (s *stage) emit(n int) {
	for range n {
		s.last++
		s.call("say", s.data(uint64(s.last)))
	}
}

func (s *stage) data(n uint64) string { return fmt.Sprintf(`{"n":%d%s}`, n, s.pad) }

// reborn gives the room another life, without events.
func (s *stage) reborn() {
	s.call("leave", "")
	s.last = 0
	s.call("none", "")
}

// asked returns the operations of a kind that the gateway requested.
func (s *stage) asked(op string) (lines []string) {
	s.told = append(s.told, s.node.Told()...)
	for _, line := range s.told {
		if strings.HasPrefix(line, op+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// A oneListener accepts one connection.
type oneListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l *oneListener) Close() error   { l.once.Do(func() { close(l.conns) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

var room = host.Address{Type: "room", Key: []string{"a"}}

func (s *stage) open(c *client.Client, sub host.Subscription) host.EventStream {
	s.t.Helper()
	stream, err := c.Subscribe(s.t.Context(), room, sub)
	must(s.t, err)
	s.ends = append(s.ends, stream.Close)
	return stream
}

// expect reads the events from..to and returns how many were reported missing before them.
func (s *stage) expect(stream interface {
	Next(context.Context) (host.Delivery, error)
}, from, to uint64) (missed uint64) {
	s.t.Helper()
	for from <= to {
		d, err := stream.Next(s.t.Context())
		must(s.t, err)
		missed += d.Missed
		for _, e := range d.Events {
			fatalIf(s.t, e.Sequence != from || e.Version == 0 || e.Name != "said" || string(e.Data) != s.data(from) || e.Time.IsZero(),
				"got %+v %s, want %d", e, e.Data, from)
			from++
		}
	}
	return missed
}

func (s *stage) connect(c *client.Client, r host.ConnectRequest) host.LiveConnection {
	s.t.Helper()
	cn, err := c.Connect(s.t.Context(), room, r)
	must(s.t, err)
	s.ends = append(s.ends, func() { must(s.t, hangUp(cn)) })
	return cn
}

func call(cn host.LiveConnection, ctx context.Context, method, input, key string) (host.Reply, error) {
	return cn.Call(ctx, &host.Request{Method: method, Codec: host.JSON, Input: []byte(input), IdempotencyKey: key})
}

func hangUp(cn host.LiveConnection) error { return cn.Close(context.Background(), true) }

// holding delays the calls with an input until release is called or the caller has left.
func (s *stage) holding(input string) (release func()) {
	held := make(chan struct{})
	s.node.Before = func(ctx context.Context, op string, r *host.Request) error {
		if op == "call" && string(r.Input) == input {
			select {
			case <-held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	return func() { close(held) }
}

// A peer answers a WebSocket instead of the gateway.
type peer struct{ *websocket.Conn }

// instead uses f to answer each of the next n WebSockets, after the connect message.
func (s *stage) instead(n int, f func(try int, p peer)) {
	s.onUpgrade(func(try int, w http.ResponseWriter, r *http.Request) bool {
		if try > n {
			return false
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"cairn.v1"}})
		if err != nil {
			s.t.Error(err)
			return true
		}
		defer ws.CloseNow()
		if p := (peer{ws}); p.reads() {
			f(try, p)
		}
		return true
	})
}

// reads waits for a message and reports whether one came.
func (p peer) reads() bool {
	_, _, err := p.Read(context.Background())
	return err == nil
}

func (p peer) says(frames ...string) {
	for _, f := range frames {
		p.Write(context.Background(), websocket.MessageText, []byte(f))
	}
}

const welcome = `{"welcome":{"connection":"x","token":"t","cursor":0,"events":["said"]}}`
