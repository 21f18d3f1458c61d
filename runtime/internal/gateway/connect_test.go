package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// open sends a request for server-sent events and reads the header of the answer.
func open(t *testing.T, l *pipeListener, method, path, body string, headers ...string) *subscriber {
	t.Helper()
	conn := l.dial()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n%s", method, path, len(body),
		strings.Join(append(headers, ""), "\r\n"), body)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %v %s", res.StatusCode, res.Header, text)
	}
	return &subscriber{t: t, conn: conn, r: bufio.NewReader(res.Body)}
}

const welcomeEvent = "retry: 2000\nid: 17\nevent: cairn.welcome\ndata: " +
	`{"connection":"c1","token":"t1","cursor":17,"resumed":false,"events":["said"]}` + "\n"

// saidEvent is how an event looks in a stream.
func saidEvent(n int, data string) string {
	return fmt.Sprintf("id: %d\nversion: %d\ntime: 2001-09-09T01:46:40Z\nevent: said\ndata: %s\n", n, n+100, data)
}

func TestAConnectionOfServerSentEventsBeginsWithItsWelcome(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		s := open(t, l, "GET", connectPath, "")
		s.expect(welcomeEvent)
		conn.deliveries <- host.Delivery{Missed: 3, Events: []host.EmittedEvent{said(21, `1`), said(22, `2`)}}
		s.expect("id: 20\nevent: cairn.gap\ndata: {\"missed\":3}\n")
		s.expect(saidEvent(21, `1`))
		s.expect(saidEvent(22, `2`))
		s.expect(":\n")
		s.conn.Close()
		if lost := <-conn.closed; !lost {
			t.Error("a client that is gone cannot come back")
		}

		s = open(t, l, "GET", connectPath, "")
		s.expect(welcomeEvent)
		conn.fault <- host.Errorf(host.PermissionDenied, "kicked")
		s.expect("event: cairn.bye\ndata: {\"code\":\"permission_denied\",\"message\":\"kicked\"}\n")
		if _, err := s.block(); err != io.EOF {
			t.Error(err)
		}
		<-conn.closed

		s = open(t, l, "GET", connectPath, "")
		s.expect(welcomeEvent)
		go g.front.Close()
		s.expect("event: cairn.bye\ndata: {\"code\":\"unavailable\",\"message\":\"the node is shutting down\",\"retryable\":true}\n")
		if lost := <-conn.closed; !lost {
			t.Error("the client cannot come back")
		}
	})
}

func TestParametersOfAConnectionComeFromTheURLOrTheBody(t *testing.T) {
	var got host.ConnectRequest
	conn := newFakeConn()
	node := &fakeNode{connect: func(_ context.Context, a host.Address, q host.ConnectRequest) (host.LiveConnection, error) {
		got = q
		return conn, nil
	}}
	lobby(t, setup{Node: node}, func(t *testing.T, _ *fakeConn, g *Gateway, l *pipeListener) {
		for _, c := range []struct {
			method, query, body, header, want string
		}{
			{"GET", "", "", "X: y", "[] [] - 0 false false"},
			{"GET", "?events=a,b&events=c&after=0&token=t&params=%7B%22x%22:1%7D", "", "If-Match: *", `{"x":1} [a b c] t- 0 true true`},
			{"GET", "?after=3", "", "Last-Event-ID: 9", "[] [] - 9 true false"},
			{"POST", "", "", "X: y", "[] [] - 0 false false"},
			{"POST", "", `{"params":{"x":1},"events":["a"],"token":"t","after":4}`, "Content-Type: application/json", `{"x":1} [a] t- 4 true false`},
			{"POST", "?after=5", `{"after":4}`, "X: y", "[] [] - 5 true false"},
			{"POST", "", `{"after":4}`, "Last-Event-ID: 9", "[] [] - 9 true false"},
		} {
			s := open(t, l, c.method, connectPath+c.query, c.body, c.header)
			s.expect(welcomeEvent)
			s.conn.Close()
			<-conn.closed
			params := "[]"
			if got.Params != nil {
				params = string(got.Params)
			}
			if text := fmt.Sprintf("%s %v %s- %d %v %v", params, got.Events, got.Token, got.After, got.HasAfter, got.Existing); text != c.want || got.Transport != "sse" {
				t.Errorf("%s%s %s: %q, want %q", c.method, c.query, c.body, text, c.want)
			}
		}
	})
}

func TestWhatIsWrongWithAConnectionIsNamed(t *testing.T) {
	node := &fakeNode{
		connect: func(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
			return nil, host.Errorf(host.ActorPaused, "paused").With("retry_after_ms", "2500").Retry()
		},
		disconnect: func(_ context.Context, a host.Address, token string) error {
			if token != "t1" || a.Type != "room" {
				return host.Errorf(host.Unauthenticated, "no such connection")
			}
			return nil
		},
		callOver: func(_ context.Context, token string, r *host.Request) (host.Reply, error) {
			return host.Reply{Output: []byte(`"` + token + " " + r.Method + " " + r.IdempotencyKey + `"`)}, nil
		},
		call: func(context.Context, *host.Request) (host.Reply, error) {
			return host.Reply{Output: []byte(`"straight"`)}, nil
		},
	}
	g := newGateway(t, setup{Node: node, Limits: serve.Limits{BodyBytes: 30_000}})
	for _, c := range []struct {
		name, method, url, body, header string
		status                          int
		want                            string
	}{
		{"unknown parameter", "GET", connectPath + "?names=a", "", "X: y", 400, "known are: events, after, token, params"},
		{"empty event", "GET", connectPath + "?events=a,,b", "", "X: y", 400, "events"},
		{"bad position", "GET", connectPath + "?after=x", "", "X: y", 400, "parameter after"},
		{"bad id", "GET", connectPath, "", "Last-Event-ID: x", 400, "Last-Event-ID"},
		{"params that are no JSON", "GET", connectPath + "?params=x", "", "X: y", 400, "params is not JSON"},
		{"long params", "GET", connectPath + "?params=%22" + strings.Repeat("x", host.MaxConnectionParams) + "%22", "", "X: y", 413, "params"},
		{"long token", "GET", connectPath + "?token=" + strings.Repeat("x", 1025), "", "X: y", 413, "token: 1025"},
		{"many events", "GET", connectPath + "?events=x" + strings.Repeat(",x", 256), "", "X: y", 413, "events: 257"},
		{"condition", "GET", connectPath, "", "If-None-Match: *", 400, "If-None-Match"},
		{"page of another site", "GET", connectPath, "", "Sec-Fetch-Site: cross-site", 403, "Origin"},
		{"body that is no JSON", "POST", connectPath, `{`, "X: y", 400, "the body: the message is not JSON"},
		{"body with a typing error", "POST", connectPath, `{"event":["a"]}`, "X: y", 400, `the body: the object has an unknown field \"event\"`},
		{"body in CBOR", "POST", connectPath, "\xa0", "Content-Type: application/cbor", 400, "application/cbor"},
		{"parameter with a body", "POST", connectPath + "?token=x", `{}`, "X: y", 400, "token"},
		{"long body", "POST", connectPath, strings.Repeat(" ", 30_001), "X: y", 413, "body"},
		{"refused by the node", "POST", connectPath, `{}`, "X: y", 503, "paused"},
		{"put", "PUT", connectPath, `{}`, "X: y", 405, "PUT"},
		{"head", "HEAD", connectPath, ``, "X: y", 405, ""},
		{"disconnect", "DELETE", connectPath, "", "Cairn-Connection: t1", 204, ""},
		{"disconnect another", "DELETE", connectPath, "", "Cairn-Connection: t2", 401, "no such connection"},
		{"disconnect nothing", "DELETE", connectPath, "", "X: y", 400, "Cairn-Connection header is missing"},
		{"disconnect with a parameter", "DELETE", connectPath + "?token=t1", "", "Cairn-Connection: t1", 400, "token"},
		{"call over it", "POST", "/actors/room/a/-/call/add", "1", "Cairn-Connection: t1", 200, `"t1 add "`},
		{"call without", "POST", "/actors/room/a/-/call/add", "1", "X: y", 200, `"straight"`},
		{"call over nothing", "POST", "/actors/room/a/-/call/add", "1", "Cairn-Connection: ", 400, "Cairn-Connection header is empty"},
		{"call over too much", "POST", "/actors/room/a/-/call/add", "1", "Cairn-Connection: " + strings.Repeat("t", 1025), 400, "limit is 1024"},
	} {
		w := ask(g, c.method, c.url, c.body, c.header)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.name, w.Code, w.Body, c.status, c.want)
		}
		if c.status == 503 && w.Header().Get("Retry-After") != "3" {
			t.Errorf("%s: Retry-After is %q", c.name, w.Header().Get("Retry-After"))
		}
	}
	if n := g.front.Open(); n != 0 {
		t.Errorf("%d are open", n)
	}
}

func TestConnectionsOfBothKindsShareOneLimit(t *testing.T) {
	lobby(t, setup{Limits: serve.Limits{Connections: 2}}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		s := open(t, l, "GET", connectPath, "")
		s.expect(welcomeEvent)
		c := join(t, l)
		w := ask(g, "GET", connectPath, "")
		if w.Code != 429 || errorOf(t, w).Metadata["limit"] != "2" || !strings.Contains(w.Body.String(), "connections") {
			t.Error(w.Code, w.Body)
		}
		s.conn.Close()
		c.leave(1000)
		synctest.Wait()
		for range 2 { // both have their room back
			s, fault := g.front.Admit(t.Context(), serve.EventConnection)
			if fault != nil {
				t.Fatal(fault)
			}
			defer s.Done()
		}
	})
}

func TestTheEndOfAConnectionIsNotedAfterItsRequestEnded(t *testing.T) {
	lobby(t, setup{}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		s := open(t, l, "GET", connectPath, "")
		s.expect(welcomeEvent)
		conn.emit(said(18, strings.Repeat("x", 100_000)))
		time.Sleep(serve.DefaultStreamWriteTimeout) // the client does not read
		if lost := <-conn.closed; !lost {           // the fake refuses a context that has ended
			t.Error("not lost")
		}
		s.conn.Close()
	})
}
