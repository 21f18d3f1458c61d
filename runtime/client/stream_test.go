package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// keeping is a type of rooms that keep a number of events.
func keeping(events int) *host.Behavior {
	b := hosttest.Room()
	b.Limits.EventHistory = events
	return b
}

// A stage is a node of rooms behind a gateway, on connections in memory that can be cut, in a synctest bubble.
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
			l := &oneListener{conn: &losing{theirs, s}, done: make(chan struct{})}
			server := s.server
			s.served.Go(func() { server.Serve(l) })
			return mine, nil
		}}
		o.HTTPClient = &http.Client{Transport: s.transport}
		c, err := client.New("http://node.example", o)
		must(t, err)
		run(t, s, c)
		s.stop()
		s.transport.CloseIdleConnections()
		s.served.Wait()
	})
}

// start starts a gateway, like the process of a node.
func (s *stage) start() {
	// The pings of the two ends must not cross: in a pipe, which holds nothing, each would wait for the other's answer.
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

// restart starts a gateway to a node whose rooms keep a number of events, or to the same if that is 0.
func (s *stage) restart(keep int) {
	s.stop()
	if keep > 0 {
		s.node = nodetest.Open(s.t, keeping(keep))
	}
	s.start()
}

// onUpgrade sets what answers requests for WebSockets, and counts them anew.
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
	if err := s.front.Close(); err != nil {
		s.t.Error(err)
	}
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

// A losing connection is closed instead of written to, when the stage says so.
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
	must(s.t, errOf(s.node.Call(s.t.Context(), &host.Request{Address: room, Method: method, Codec: host.JSON, Input: []byte(input)})))
}

func (s *stage) emit(n int) {
	for range n {
		s.last++
		s.call("say", s.data(uint64(s.last)))
	}
}

func (s *stage) data(n uint64) string { return fmt.Sprintf(`{"n":%d%s}`, n, s.pad) }

// asked returns the operations of a kind that the gateway has asked for.
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
	mu   sync.Mutex
	conn net.Conn
	done chan struct{}
	once sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}
func (l *oneListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *oneListener) Addr() net.Addr { return &net.TCPAddr{} }

var room = host.Address{Type: "room", Key: []string{"a"}}

func (s *stage) open(c *client.Client, sub host.Subscription) host.EventStream {
	s.t.Helper()
	stream, err := c.Subscribe(s.t.Context(), room, sub)
	must(s.t, err)
	return stream
}

// expect reads the events from..to and returns how many were told to be missing before them.
func (s *stage) expect(stream interface {
	Next(context.Context) (host.Delivery, error)
}, from, to uint64) (missed uint64) {
	s.t.Helper()
	for from <= to {
		d, err := stream.Next(s.t.Context())
		must(s.t, err)
		missed += d.Missed
		for _, e := range d.Events {
			if e.Sequence != from || e.Version == 0 || e.Name != "said" || string(e.Data) != s.data(from) || e.Time.IsZero() {
				s.t.Fatalf("got %+v %s, want %d", e, e.Data, from)
			}
			from++
		}
	}
	return missed
}

func TestAStreamSurvivesItsConnections(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.emit(3)
		stream := s.open(c, host.Subscription{Names: []string{"said", "left"}})
		defer stream.Close()
		if at, known := stream.(*client.Stream).Position(); at.Sequence != 3 || !known {
			t.Errorf("position %v, %v", at, known)
		}
		s.cut() // before the first event: the node named the position
		s.emit(1)
		s.expect(stream, 4, 4)
		for range 20 {
			last := uint64(s.last)
			s.emit(2)
			s.cut()
			s.emit(3)
			s.expect(stream, last+1, last+5)
		}
		for _, sub := range s.asked("subscribe") {
			if !strings.Contains(sub, "{Names:[said left] ") {
				t.Error(sub)
			}
		}
	})
}

func TestAStreamSurvivesTheRestartOfItsNode(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		defer stream.Close()
		s.emit(2)
		s.expect(stream, 1, 2)
		s.stop()
		s.emit(1)
		time.Sleep(time.Minute)
		s.start()
		s.expect(stream, 3, 3)
	})
}

func TestAStreamTellsWhatItMissed(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		s.restart(4)
		s.emit(9)
		stream := s.open(c, host.Subscription{Resume: true, After: 1})
		defer stream.Close()
		if missed := s.expect(stream, 6, 9); missed != 4 {
			t.Errorf("%d missed", missed)
		}
	})
}

func TestASlowReaderGetsEverythingThatIsKept(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		defer stream.Close()
		for range 2 {
			s.emit(3000)
			time.Sleep(10 * time.Minute)
		}
		s.expect(stream, 1, 6000)
		if len(s.asked("subscribe")) < 2 {
			t.Error("the reader was not too slow for its first stream")
		}
	})
}

func TestAStreamThatFallsSilentIsOpenedAnew(t *testing.T) {
	onStage(t, client.Options{StreamSilence: 10 * time.Second}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		defer stream.Close()
		time.Sleep(11 * time.Second) // the node's heartbeats come every 15 s
		synctest.Wait()
		if n := len(s.asked("subscribe")); n != 2 {
			t.Errorf("%d subscriptions", n)
		}
		s.emit(1)
		s.expect(stream, 1, 1)
	})
}

func TestAStreamEndsWithItsActor(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		defer stream.Close()
		s.emit(2)
		s.call("leave", "")
		s.expect(stream, 1, 2)
		for range 2 {
			if _, err := stream.Next(t.Context()); host.CodeOf(err) != host.Destroyed {
				t.Error(err)
			}
		}
	})
}

func TestSubscribingToNobodyFails(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		if _, err := c.Subscribe(t.Context(), host.Address{Type: "none"}, host.Subscription{}); host.CodeOf(err) != host.UnknownType {
			t.Error(err)
		}
		if _, err := c.Subscribe(t.Context(), room, host.Subscription{Names: []string{"a,b"}}); host.CodeOf(err) != host.InvalidArgument {
			t.Error(err)
		}
		s.refuse = true
		s.cut()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Subscribe(ctx, room, host.Subscription{}); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		if _, err := c.Subscribe(t.Context(), room, host.Subscription{}); host.CodeOf(err) != host.Unavailable {
			t.Error(err)
		}
	})
}

func TestNextEndsWithItsContextAndTheStreamGoesOn(t *testing.T) {
	onStage(t, client.Options{}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := stream.Next(ctx); host.CodeOf(err) != host.DeadlineExceeded {
			t.Error(err)
		}
		s.emit(1)
		s.expect(stream, 1, 1)
		stream.Close()
		stream.Close()
		if _, err := stream.Next(t.Context()); host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
	})
}

func TestALongOutageEndsAStreamIfAsked(t *testing.T) {
	onStage(t, client.Options{MaxOutage: time.Minute}, func(t *testing.T, s *stage, c *client.Client) {
		stream := s.open(c, host.Subscription{})
		defer stream.Close()
		s.stop()
		start := time.Now()
		if _, err := stream.Next(t.Context()); host.CodeOf(err) != host.Unavailable {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Minute || took > 2*time.Minute {
			t.Errorf("after %v", took)
		}
	})
}
