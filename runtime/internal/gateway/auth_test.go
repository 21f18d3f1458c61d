package gateway

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A walked route is a path of it, and the methods that it answers.
type walked struct {
	path    string
	methods string
}

// everyRoute has a path of each route.
var everyRoute = map[route]walked{
	toCall:      {"/actors/counter/a/-/call/add", "POST"},
	toActor:     {"/actors/counter/a/-/", "GET HEAD PUT DELETE"},
	toKeys:      {"/actors/counter/a/-/keys", "GET HEAD"},
	toEvents:    {"/actors/counter/a/-/events", "GET"},
	toConnect:   {"/actors/counter/a/-/connect", "GET POST DELETE"},
	toQueue:     {"/actors/counter/a/-/queues/mail", "GET"},
	toStream:    {"/actors/counter/a/-/streams/tokens", "GET"},
	toSQLite:    {"/actors/counter/a/-/sqlite", "GET PUT"},
	toList:      {"/actors", "GET HEAD"},
	toRuns:      {"/workflows", "GET HEAD"},
	toRunCounts: {"/workflows/counts", "GET HEAD"},
	toHealth:    {"/healthz", "GET HEAD"},
	toMetrics:   {"/metrics", "GET HEAD"},
	toOpenAPI:   {"/openapi.json", "GET HEAD"},
}

// faults are requests that every route finds something wrong with, if it looks.
var faults = []struct{ query, body, header string }{
	{"", "", "X: y"},
	{"?limit=x&max=zz&nonsense=1&after=x", "", "X: y"},
	{"?%zz", "", "X: y"},
	{"", "not JSON", "Content-Type: text/plain"},
	{"", "", "If-Match: 5"},
	{"", "", "Cairn-Connection: "},
	{"", "", "Idempotency-Key: "},
	{"", "", "Sec-Fetch-Site: cross-site"},
}

func TestEveryRouteAsksForTheTokenBeforeItLooksAtAnythingElse(t *testing.T) {
	// The node panics if it is asked for anything.
	g := newGateway(t, setup{Node: &fakeNode{}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Token: "secret"})
	g.front.Drain() // a draining gateway does not tell so without the token either
	var paths []string
	for rt := toCall; rt <= toOpenAPI; rt++ {
		w, ok := everyRoute[rt]
		if !ok {
			t.Fatalf("paths has no path of route %d", rt)
		}
		paths = append(paths, w.path)
	}
	paths = append(paths, "/nothing", "/actors/", "/actors/counter/a", "/actors//-/", "/actors/counter/~a/-/", "/actors/counter/-/call/", "/actors/c/%ff/-/")
	for _, path := range paths {
		for _, method := range strings.Fields("GET HEAD POST PUT DELETE PATCH OPTIONS") {
			if path == "/healthz" && (method == "GET" || method == "HEAD") {
				continue
			}
			for _, f := range faults {
				w := ask(g, method, path+f.query, f.body, f.header)
				if w.Code != 401 || errorOf(t, w).Message != "a bearer token is required" || w.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s%s with %q: %d %q", method, path, f.query, f.header, w.Code, w.Body)
				}
			}
		}
	}
}

// net/http answers "OPTIONS *" itself, unless it is told not to.
func TestTheServerAsksForTheTokenOfOPTIONSOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := launch(t, newGateway(t, setup{Node: &fakeNode{}, Token: "secret"}))
		for header, want := range map[string]int{"": 401, "Authorization: Bearer secret\r\n": 204} {
			conn := l.dial()
			fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n%s\r\n", header)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != want {
				t.Errorf("with %q: %d, not %d", header, res.StatusCode, want)
			}
			conn.Close()
		}
	})
}

func TestAPreflightNeedsNoTokenAndTellsNothingOfThePath(t *testing.T) {
	g := newGateway(t, setup{Node: &fakeNode{}, Token: "secret", AllowedOrigins: []string{"https://app.example"}})
	for _, path := range []string{"/actors/counter/-/call/add", "/actors/", "/nothing"} {
		w := ask(g, "OPTIONS", path, "", "Origin: https://app.example", "Access-Control-Request-Method: POST")
		if w.Code != 204 || w.Body.Len() > 0 || w.Header().Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

func TestTheHookIsAskedBeforeARouteLooksAtTheRestOfTheRequest(t *testing.T) {
	asked := 0
	g := newGateway(t, setup{Node: &fakeNode{}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Authorize: func(context.Context, serve.AuthRequest) error {
		asked++
		return host.Errorf(host.Unauthenticated, "who are you?")
	}})
	for rt := toCall; rt <= toOpenAPI; rt++ {
		for method := range strings.FieldsSeq(everyRoute[rt].methods) {
			for _, f := range faults {
				asked = 0
				w := ask(g, method, everyRoute[rt].path+f.query, f.body, f.header)
				if f.header == "Sec-Fetch-Site: cross-site" && w.Code == 403 {
					continue
				}
				if w.Code != 401 || errorOf(t, w).Message != "who are you?" || asked != 1 {
					t.Errorf("%s %s%s with %q: %d %q, asked %d times", method, everyRoute[rt].path, f.query, f.header, w.Code, w.Body, asked)
				}
			}
		}
	}
}

func TestAWebSocketWithoutTheTokenIsToldNothingElse(t *testing.T) {
	lobby(t, setup{Token: "secret"}, func(t *testing.T, conn *fakeConn, g *Gateway, l *pipeListener) {
		for _, path := range []string{connectPath, connectPath + "?nonsense=1"} {
			c, _, err := handshake(t, l, path, []string{Subprotocol}, "If-Match: 5")
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			c.expectBye("a bearer token is required", websocket.StatusPolicyViolation)
		}
		for _, header := range []string{"Sec-WebSocket-Version: 12", "Sec-WebSocket-Key: "} {
			headers := []string{"Upgrade: websocket", "Connection: Upgrade"}
			w := ask(g, "GET", connectPath, "", append(headers, header)...)
			if w.Code != http.StatusUnauthorized {
				t.Errorf("%s: %d %q", header, w.Code, w.Body)
			}
		}
	})
}
