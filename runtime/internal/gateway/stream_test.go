package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A pipeListener accepts connections that exist only in memory, so that servers run in a synctest bubble. A pipe has no
// buffer: what the other side does not read blocks.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6420} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// launch runs the gateway's server in the bubble.
func launch(t *testing.T, g *Gateway) *pipeListener {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := g.front.Server(g)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		g.front.Close()
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return l
}

// A subscriber is the client's side of a stream.
type subscriber struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func subscribe(t *testing.T, l *pipeListener, query string, headers ...string) *subscriber {
	conn := l.dial()
	fmt.Fprintf(conn, "GET /actors/counter/a/-/events%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", query,
		strings.Join(append(headers, ""), "\r\n"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %v %s", res.StatusCode, res.Header, body)
	}
	return &subscriber{t: t, conn: conn, r: bufio.NewReader(res.Body)}
}

// block reads up to an empty line.
func (s *subscriber) block() (string, error) {
	var b strings.Builder
	for {
		line, err := s.r.ReadString('\n')
		if err != nil || line == "\n" {
			return b.String(), err
		}
		b.WriteString(line)
	}
}

func (s *subscriber) expect(want string) {
	s.t.Helper()
	if got, err := s.block(); got != want || err != nil {
		s.t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

// event is how event n of the tests' feed looks.
func event(n int, name, data string) string {
	return fmt.Sprintf("id: %d\nversion: %d\ntime: 2001-09-09T01:46:40Z\nevent: %s\ndata: %s\n", n, n+10, name, data)
}

// stage is a gateway in front of a feed, in a bubble.
func stage(t *testing.T, run func(t *testing.T, f *feed, g *Gateway, l *pipeListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		g := newGateway(t, setup{Node: &fakeNode{subscribe: f.subscribe}, Limits: serve.Limits{Streams: 2}})
		run(t, f, g, launch(t, g))
	})
}

func TestEventsArriveInOrderAndResumeWithoutLossOrRepetition(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		f.emit("added", `1`)
		s := subscribe(t, l, "")
		s.expect("retry: 2000\nid: 1\n")
		f.emit("added", `{"a":"b"}`)
		s.expect(event(2, "added", `{"a":"b"}`))
		s.conn.Close()
		synctest.Wait()
		f.emit("removed", "\"x\"\r\n\"y\"")
		f.emit("added", `4`)
		s = subscribe(t, l, "?after=1", "Last-Event-ID: 2")
		s.expect("retry: 2000\n")
		s.expect(event(3, "removed", "\"x\"\ndata: \"y\""))
		s.expect(event(4, "added", `4`))
		s.conn.Close()
		synctest.Wait()
		s = subscribe(t, l, "?after=3")
		s.expect("retry: 2000\n")
		s.expect(event(4, "added", `4`))
		s.conn.Close()
	})
}

func TestNamesAndPositionReachTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []host.Subscription
		f := newFeed()
		g := newGateway(t, setup{Node: &fakeNode{subscribe: func(ctx context.Context, a host.Address, s host.Subscription) (host.EventStream, error) {
			got = append(got, s)
			return f.subscribe(ctx, a, s)
		}}})
		l := launch(t, g)
		subscribe(t, l, "?names=a,b&names=c").conn.Close()
		subscribe(t, l, "?after=0").conn.Close()
		subscribe(t, l, "?after=3", "Last-Event-ID: 17@"+lifeOne).conn.Close()
		want := "[{Names:[a b c] Resume:false After:0 Life:} {Names:[] Resume:true After:0 Life:} " +
			"{Names:[] Resume:true After:17 Life:" + lifeOne + "}]"
		if fmt.Sprintf("%+v", got) != want {
			t.Errorf("%+v", got)
		}
	})
}

func TestAGapIsTold(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		for range 5 {
			f.emit("added", `1`)
		}
		f.forget(4)
		s := subscribe(t, l, "?after=1")
		defer s.conn.Close()
		s.expect("retry: 2000\n")
		s.expect("id: 3\nevent: cairn.gap\ndata: {\"missed\":2}\n")
		s.expect(event(4, "added", `1`))
		s.expect(event(5, "added", `1`))
	})
}

func TestQuietStreamsAreKeptAliveAndLoseNothing(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		s := subscribe(t, l, "")
		defer s.conn.Close()
		s.expect("retry: 2000\nid: 0\n")
		start := time.Now()
		for i := range 40 { // far beyond every time-out of the server
			s.expect(":\n")
			if took := time.Since(start); took != time.Duration(i+1)*serve.DefaultHeartbeat {
				t.Fatalf("heartbeat %d after %v", i, took)
			}
		}
		f.emit("added", `1`)
		s.expect(event(1, "added", `1`))
	})
}

func TestQuietStreamsLiveOnOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		g := newGateway(t, setup{Node: &fakeNode{subscribe: f.subscribe},
			Limits: serve.Limits{Heartbeat: time.Minute, StreamWriteTimeout: time.Second}}) // virtual
		var plain http.Protocols
		plain.SetUnencryptedHTTP2(true)
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		s := &http.Server{Handler: g, Protocols: &plain}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		dial := func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }
		transport := &http.Transport{Protocols: &plain, DialContext: dial}
		defer func() {
			transport.CloseIdleConnections()
			s.Close()
			<-served
		}()
		res, err := (&http.Client{Transport: transport}).Get("http://localhost/actors/counter/a/-/events")
		if err != nil || res.ProtoMajor != 2 {
			t.Fatal(res, err)
		}
		defer res.Body.Close()
		c := &subscriber{t: t, r: bufio.NewReader(res.Body)}
		c.expect("retry: 2000\nid: 0\n")
		c.expect(":\n") // long after the deadline of the last write
		c.expect(":\n")
		f.emit("added", `1`)
		c.expect(event(1, "added", `1`))
		var closing sync.WaitGroup
		closing.Go(func() { g.front.Close() })
		defer closing.Wait()
		if rest, err := io.ReadAll(c.r); err != nil || !strings.Contains(string(rest), "cairn.bye") {
			t.Errorf("%q %v", rest, err)
		}
	})
}

func TestAClientThatDoesNotReadIsCutOffAndMayResume(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		s := subscribe(t, l, "")
		s.expect("retry: 2000\nid: 0\n")
		start := time.Now()
		long := strings.Repeat("x", 200_000)
		f.emit("added", long)
		f.emit("added", `2`)
		time.Sleep(serve.DefaultStreamWriteTimeout - 1) // virtual
		synctest.Wait()
		if n := g.front.Open(); n != 1 {
			t.Fatalf("%d streams are open before the deadline", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := g.front.Open(); n != 0 {
			t.Fatalf("%d streams are open after %v", n, time.Since(start))
		}
		for { // what was under way when the deadline passed
			if _, err := s.block(); err != nil {
				break
			}
		}
		s = subscribe(t, l, "", "Last-Event-ID: 0")
		defer s.conn.Close()
		s.expect("retry: 2000\n")
		s.expect(event(1, "added", long))
		s.expect(event(2, "added", `2`))
	})
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		a, b := subscribe(t, l, ""), subscribe(t, l, "")
		defer b.conn.Close()
		w := ask(g, "GET", "/actors/counter/a/-/events", "")
		if w.Code != 429 || !errorOf(t, w).Retryable || w.Header().Get("Retry-After") == "" {
			t.Error(w.Code, w.Body)
		}
		a.conn.Close()
		synctest.Wait()
		subscribe(t, l, "").conn.Close()
	})
}

func TestShutdownEndsStreamsWithAFinalEventAndWaits(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		s := subscribe(t, l, "")
		s.expect("retry: 2000\nid: 0\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.front.Shutdown(ctx); err == nil { // nobody reads the final event yet
			t.Error("Shutdown did not wait")
		}
		done := make(chan error, 1)
		go func() { done <- g.front.Close() }()
		s.expect("event: cairn.bye\ndata: {\"code\":\"unavailable\",\"message\":\"the node is shutting down\",\"retryable\":true}\n")
		if _, err := s.block(); err != io.EOF {
			t.Error("the stream goes on:", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		s.conn.Close()
	})
}

func TestTheServersShutdownEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		g := newGateway(t, setup{Node: &fakeNode{subscribe: f.subscribe}})
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		s := g.front.Server(g)
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		c := subscribe(t, l, "")
		defer c.conn.Close()
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		rest, err := io.ReadAll(c.r)
		if err != nil || !strings.Contains(string(rest), "cairn.bye") {
			t.Errorf("%q %v", rest, err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		<-served
	})
}

func TestTheEndOfTheSourceIsTold(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		s := subscribe(t, l, "")
		defer s.conn.Close()
		s.expect("retry: 2000\nid: 0\n")
		f.emit("added", `1`)
		f.change(func() { f.fault = host.Errorf(host.Destroyed, "gone") })
		s.expect(event(1, "added", `1`))
		s.expect("event: cairn.bye\ndata: {\"code\":\"destroyed\",\"message\":\"gone\"}\n")
		if _, err := s.block(); err != io.EOF {
			t.Error(err)
		}
	})
}

func TestEventTextCannotForgeFields(t *testing.T) {
	got := string(serve.AppendField(nil, "\ndata: ", "a\nid: 9\r\r\nevent: x\r"))
	want := "\ndata: a\ndata: id: 9\ndata: \ndata: event: x\ndata: "
	if got != want {
		t.Errorf("%q", got)
	}
}

func TestABodyThatTricklesInIsCutOff(t *testing.T) {
	stage(t, func(t *testing.T, f *feed, g *Gateway, l *pipeListener) {
		conn := l.dial()
		defer conn.Close()
		start := time.Now()
		fmt.Fprintf(conn, "POST /actors/counter/-/call/add HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); res.StatusCode != 504 || took != serve.DefaultBodyTimeout {
			t.Errorf("%d after %v", res.StatusCode, took)
		}
	})
}
