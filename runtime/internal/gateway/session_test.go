package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// held is a method of an actor whose calls return when the test says so.
type held struct {
	started chan string
	release chan struct{}
}

func newHeld() *held {
	return &held{started: make(chan string, 100), release: make(chan struct{}, 100)}
}

func (h *held) call(ctx context.Context, r *host.Request) (host.Reply, error) {
	h.started <- r.Method
	select {
	case <-h.release:
		return host.Reply{Version: 1}, nil
	case <-ctx.Done():
		return host.Reply{}, host.Errorf(host.CodeOf(ctx.Err()), "gave up")
	}
}

func TestCallsInFlightAreBoundedAndMatchedByID(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{ConnectionCalls: 3}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		h := newHeld()
		conn.call = h.call
		c := join(t, l)
		for round := range 5 { // the place of an answered call is free when its answer arrives
			for id := 1; id <= 3; id++ {
				c.say(fmt.Sprintf(`{"id":%d,"call":"slow"}`, id))
				<-h.started
			}
			c.say(`{"id":4,"call":"slow"}`)
			c.expect(`{"id":4,"error":{"code":"overloaded","message":"the connection has too many calls in flight","metadata":{"limit":"3"},"retryable":true}}`)
			c.say(`{"id":2,"call":"slow"}`)
			c.expect(`{"error":{"code":"invalid_argument","message":"the id 2 is that of a call in flight"}}`)
			c.say(`{"id":2,"calll":"slow"}`)
			c.expect(`{"error":{"code":"invalid_argument","message":"the object has an unknown field \"calll\"","metadata":{"field":"calll"}}}`)
			var got []string
			for range 3 {
				h.release <- struct{}{}
				text, err := c.hear()
				if err != nil {
					t.Fatal(round, err)
				}
				got = append(got, text)
			}
			slices.Sort(got)
			if want := []string{`{"id":1,"version":1}`, `{"id":2,"version":1}`, `{"id":3,"version":1}`}; !slices.Equal(got, want) {
				t.Fatal(round, got)
			}
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestACallOfAClientThatLeavesEnds(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		h := newHeld()
		ended := make(chan error, 1)
		conn.call = func(ctx context.Context, r *host.Request) (host.Reply, error) {
			_, err := h.call(ctx, r)
			if len(conn.closed) > 0 {
				t.Error("the connection was closed before its last call returned")
			}
			ended <- err
			return host.Reply{}, err
		}
		c := join(t, l)
		c.say(`{"id":1,"call":"slow"}`)
		<-h.started
		c.ws.CloseNow()
		if err := <-ended; host.CodeOf(err) != host.Canceled {
			t.Error(err)
		}
		<-conn.closed
	})
}

func TestCallsHaveATimeLimitAndThoseThatWaitAMinuteMore(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = newHeld().call
		c := join(t, l)
		for method, want := range map[string]time.Duration{"slow": serve.DefaultCallTimeout, host.QueueReceive: serve.DefaultCallTimeout + maxWait} {
			start := time.Now()
			c.say(`{"id":1,"call":"` + method + `"}`)
			c.expect(`{"id":1,"error":{"code":"deadline_exceeded","message":"gave up"}}`)
			if took := time.Since(start); took != want {
				t.Errorf("%s: %v", method, took)
			}
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestSubscriptionsAreInEffectForTheCallsSentAfterThem(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		var order []string
		conn.subscribed = func(verb string, events []string) error {
			time.Sleep(time.Second) // virtual: a hook that takes its time
			order = append(order, fmt.Sprint(verb, events))
			if events[0] == "secret" {
				return host.Errorf(host.PermissionDenied, "not for you")
			}
			return nil
		}
		conn.call = func(context.Context, *host.Request) (host.Reply, error) {
			order = append(order, "call")
			return host.Reply{}, nil
		}
		c := join(t, l)
		for _, text := range []string{`{"id":1,"subscribe":["said","left"]}`, `{"id":2,"unsubscribe":["left"]}`, `{"id":3,"subscribe":["secret"]}`, `{"id":4,"call":"add"}`} {
			c.say(text)
		}
		c.expect(`{"id":1}`)
		c.expect(`{"id":2}`)
		c.expect(`{"id":3,"error":{"code":"permission_denied","message":"not for you"}}`)
		c.expect(`{"id":4,"version":0}`)
		if want := "[subscribe[said left] unsubscribe[left] subscribe[secret] call]"; fmt.Sprint(order) != want {
			t.Error(order)
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestAnEventIsEncodedOnceForAllItsReceivers(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		e := said(18, `1`)
		first := eventMessage(&e)
		if again := eventMessage(&e); &first[0] != &again[0] {
			t.Error("the second receiver's message is another one")
		}
		e.Shared.Get(host.FrameSSE, func() []byte { return []byte("shared\n\n") })
		e.Name = "changed since"
		conn.emit(e)
		c.expect(saidText(18, `1`))
		c.leave(websocket.StatusNormalClosure)
		if out := appendEmitted(nil, &e); string(out) != "shared\n\n" {
			t.Errorf("%q", out)
		}
	})
}

func TestAClientThatStopsReadingIsClosedAndMayComeBack(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		conn.emit(said(18, `1`))
		time.Sleep(serve.DefaultStreamWriteTimeout - 1)
		synctest.Wait()
		if n := g.front.Open(); n != 1 {
			t.Fatalf("%d are open before the deadline", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := g.front.Open(); n != 0 || !<-conn.closed {
			t.Fatalf("%d are open", n)
		}
		if text := ask(g, "GET", "/metrics", "").Body.String(); !strings.Contains(text, "cairn_http_websockets_slow_total 1\n") {
			t.Error("it is not counted")
		}
		c.ws.CloseNow()
	})
}

// A close frame waits behind what is being written. The network connection must not be closed before.
func TestAClientThatLeavesWhileItIsWrittenToGetsItsCloseFrame(t *testing.T) {
	for _, crossing := range []bool{false, true} {
		lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
			conn.call = func(context.Context, *host.Request) (host.Reply, error) { return host.Reply{}, nil }
			c := join(t, l)
			c.say(`{"id":1,"call":"add"}`)
			synctest.Wait() // the answer is being written until the client reads
			if crossing {   // a bye and a close frame of this side wait, too
				conn.fault <- host.Errorf(host.Crashed, "the actor crashed")
				synctest.Wait()
			}
			c.conn.Write([]byte("\x88\x82\x00\x00\x00\x00\x03\xe8"))
			synctest.Wait()
			c.expect(`{"id":1,"version":0}`)
			if crossing {
				c.expectBye("the actor crashed", websocket.StatusInternalError)
			} else if got, err := c.hear(); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
				t.Errorf("got %q, %v; want the close code 1000", got, err)
			}
			c.ws.CloseNow()
		})
	}
}

func TestRepliesThatPileUpEndTheConnection(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{ConnectionBytes: 1000}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		release := make(chan struct{})
		conn.call = func(_ context.Context, r *host.Request) (host.Reply, error) {
			<-release
			return host.Reply{Output: r.Input}, nil
		}
		c := join(t, l)
		const calls = 10
		for i := range calls {
			c.say(fmt.Sprintf(`{"id":%d,"call":"echo","input":"%s"}`, i+1, strings.Repeat("x", 300)))
		}
		close(release)
		time.Sleep(5 * time.Second) // within the time that a client has
		replies := 0
		for {
			text, err := c.hear()
			if strings.HasPrefix(text, `{"bye":`) {
				if !strings.Contains(text, `"overloaded"`) || !strings.Contains(text, `"retryable":true`) {
					t.Error(text)
				}
				continue
			}
			if err != nil {
				if websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
					t.Error(err)
				}
				break
			}
			replies++
		}
		if replies < 2 || replies > 5 {
			t.Errorf("%d of %d replies were kept", replies, calls)
		}
		if lost := <-conn.closed; !lost {
			t.Error("the client cannot come back")
		}
	})
}

func TestWhatComesAfterTheGoodbyeIsNotDone(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = func(context.Context, *host.Request) (host.Reply, error) {
			t.Error("called")
			return host.Reply{}, nil
		}
		c := join(t, l)
		conn.fault <- host.Errorf(host.PermissionDenied, "kicked")
		synctest.Wait()
		c.say(`{"id":1,"call":"add"}`)
		c.expectBye(`"kicked"`, websocket.StatusNormalClosure)
		if lost := <-conn.closed; !lost {
			t.Error("not lost")
		}
	})
}

func TestAClientThatReadsSlowlyGetsEverythingThatIsLong(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		long := `"` + strings.Repeat("x", 1<<20) + `"`
		for n := range uint64(3) {
			conn.emit(said(18+n, long))
		}
		conn.emit(said(21, `1`))
		// The library reads a message in steps; each waits for five virtual seconds, in which no pong can be sent.
		for n := range uint64(3) {
			_, r, err := c.ws.Reader(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var b strings.Builder
			buf := make([]byte, 64<<10)
			for {
				n, err := r.Read(buf)
				b.Write(buf[:n])
				if err != nil {
					break
				}
				if n > 1000 {
					time.Sleep(5 * time.Second)
				}
			}
			if b.String() != saidText(18+n, long) {
				t.Fatalf("message %d has %d bytes", n, b.Len())
			}
		}
		c.expect(saidText(21, `1`))
		c.leave(websocket.StatusNormalClosure)
		if lost := <-conn.closed; lost {
			t.Error("lost")
		}
	})
}

func TestAPeerThatIsGoneWithoutATraceIsLost(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		start := time.Now()
		go func() { // takes what is written, as the network in between does, and answers nothing
			buf := make([]byte, 100)
			for {
				if _, err := c.conn.Read(buf); err != nil {
					return
				}
			}
		}()
		if lost := <-conn.closed; !lost {
			t.Error("not lost")
		}
		if took := time.Since(start); took != 2*serve.DefaultHeartbeat {
			t.Errorf("after %v", took)
		}
		c.ws.CloseNow()
	})
}

func TestAQuietClientThatAnswersPingsStays(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		heard := make(chan string)
		go func() {
			text, err := c.hear()
			heard <- fmt.Sprint(text, err)
		}()
		time.Sleep(time.Hour)
		conn.emit(said(18, `1`))
		if got := <-heard; got != saidText(18, `1`)+"<nil>" {
			t.Error(got)
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestPingsOfTheClientAreAnswered(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		c := join(t, l)
		ctx := c.ws.CloseRead(context.Background())
		if err := c.ws.Ping(ctx); err != nil {
			t.Error(err)
		}
		c.leave(websocket.StatusNormalClosure)
	})
}

func TestShutdownAnswersCallsInFlightAndSaysGoodbye(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		h := newHeld()
		conn.call = h.call
		c := join(t, l)
		c.say(`{"id":1,"call":"slow"}`)
		c.say(`{"id":2,"call":"queue.receive"}`)
		<-h.started
		<-h.started
		done := make(chan error, 1)
		go func() { done <- g.front.Close() }()
		// What waits for something else does not wait on; a call that runs is answered.
		c.expect(`{"id":2,"error":{"code":"unavailable","message":"the node is shutting down","retryable":true}}`)
		c.say(`{"id":3,"call":"slow"}`)
		c.expect(`{"id":3,"error":{"code":"unavailable","message":"the node is shutting down","retryable":true}}`)
		h.release <- struct{}{}
		c.expect(`{"id":1,"version":1}`)
		c.expectBye(`"unavailable"`, websocket.StatusGoingAway)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if lost := <-conn.closed; !lost {
			t.Error("the client cannot come back")
		}
		c, _, err := handshake(t, l, connectPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.expectBye(`"retryable":true`, websocket.StatusGoingAway)
	})
}

func TestShutdownDoesNotWaitForeverForACallOrAClient(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		h := newHeld()
		conn.call = h.call
		c := join(t, l)
		c.say(`{"id":1,"call":"slow"}`)
		<-h.started
		start := time.Now()
		if err := g.front.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*serve.DefaultStreamWriteTimeout+5*time.Second {
			t.Errorf("after %v", took)
		}
		c.ws.CloseNow()
	})
}

func TestTooManyConnectionsAreRefusedOnTheSocket(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{Connections: 1, Streams: 1}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		a := join(t, l)
		b := dialSocket(t, l)
		b.expectBye(`"limit":"1"`, websocket.StatusTryAgainLater)
		s, fault := g.front.Admit(t.Context(), serve.EventStream)
		if fault != nil {
			t.Fatal("connections count as streams:", fault)
		}
		s.Done()
		a.leave(websocket.StatusNormalClosure)
		synctest.Wait()
		join(t, l).leave(websocket.StatusNormalClosure)
	})
}

func TestAPanicEndsTheConnectionAndNoMore(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = func(context.Context, *host.Request) (host.Reply, error) { panic("secret") }
		c := join(t, l)
		c.say(`{"id":1,"call":"add"}`)
		c.expectBye(`"message":"internal error"`, websocket.StatusInternalError)
		if lost := <-conn.closed; !lost {
			t.Error("not lost")
		}
		g.node.(*fakeNode).connect = func(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) { panic("secret") }
		c = dialSocket(t, l)
		c.say(`{"connect":{}}`)
		c.expectBye(`"message":"internal error"`, websocket.StatusInternalError)
	})
}

func TestWebSocketsAreCounted(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		conn.call = func(context.Context, *host.Request) (host.Reply, error) { return host.Reply{}, nil }
		c, _, err := handshake(t, l, "/actors/counter/a/-/connect", nil)
		if err != nil {
			t.Fatal(err)
		}
		c.say(`{"connect":{}}`)
		c.expect(welcomeText)
		for _, method := range []string{"add", "queue.send", "nothing"} {
			c.say(`{"id":1,"call":"` + method + `"}`)
			c.expect(`{"id":1,"version":0}`)
		}
		synctest.Wait() // what is sent is counted after it was written
		text := ask(g, "GET", "/metrics", "").Body.String()
		for _, want := range []string{
			"cairn_http_websockets 1\n", "cairn_http_websocket_messages_received_total 4\n", "cairn_http_websocket_messages_sent_total 4\n",
			"cairn_http_event_streams 0\n",
			`cairn_http_requests_total{code="ok",operation="connect",type="counter"} 1`,
			`cairn_http_requests_total{code="ok",operation="action",type="counter"} 1`,
			`cairn_http_requests_total{code="ok",operation="builtin",type="counter"} 1`,
			`cairn_http_requests_total{code="ok",operation="unknown",type="counter"} 1`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing", want)
			}
		}
		c.leave(websocket.StatusNormalClosure)
		synctest.Wait()
		if text := ask(g, "GET", "/metrics", "").Body.String(); !strings.Contains(text, "cairn_http_websockets 0\n") {
			t.Error("it still counts")
		}
	})
}
