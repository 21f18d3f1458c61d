package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// greet opens a connection, sends opening on it, and reads up to the end of until.
func greet(tb testing.TB, addr, opening, until string) net.Conn {
	tb.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_, err = io.WriteString(conn, opening)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	seen, one := make([]byte, 0, 512), make([]byte, 1)
	for !strings.HasSuffix(string(seen), until) {
		if _, err := conn.Read(one); err != nil {
			tb.Fatalf("%v after %q", err, seen)
		}
		seen = append(seen, one[0])
	}
	return conn
}

const upgradeRequest = "GET /actors/room/a/-/connect HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"

// maskedFrame returns a client's text frame.
func maskedFrame(text string) string {
	return string([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}) + text
}

// A hall is a node that only answers calls with their input and sends events to its connections.
type hall struct {
	Node
	mu    sync.Mutex
	conns []*guest
}

func (h *hall) Call(_ context.Context, r *host.Request) (host.Reply, error) {
	return host.Reply{Output: r.Input, Version: 1234567}, nil
}

func (h *hall) Connect(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &guest{hall: h, events: make(chan []host.EmittedEvent, 4), closed: make(chan bool, 1)}
	h.conns = append(h.conns, c)
	return c, nil
}

func (h *hall) emit(e host.EmittedEvent) {
	e.Shared = new(host.SharedFrames)
	events := []host.EmittedEvent{e}
	for _, c := range h.conns {
		c.events <- events
	}
}

// A guest is a connection to a hall.
type guest struct {
	host.LiveConnection
	hall   *hall
	events chan []host.EmittedEvent
	closed chan bool // the lost argument of Close
}

func (c *guest) Welcome() host.Welcome { return host.Welcome{Connection: "c1", Token: "t1"} }

func (c *guest) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	r.Order.Placed()
	return c.hall.Call(ctx, r)
}

func (c *guest) Next(ctx context.Context) (host.Delivery, error) {
	select {
	case events := <-c.events:
		return host.Delivery{Events: events}, nil
	case <-ctx.Done():
		return host.Delivery{}, host.Errorf(host.CodeOf(ctx.Err()), "done")
	}
}

func (c *guest) Close(_ context.Context, lost bool) error { c.closed <- lost; return nil }

func said(n uint64, data string) host.EmittedEvent {
	return host.EmittedEvent{Sequence: n, Version: n + 100, Name: "said", Time: time.Unix(1_000_000_000, 0), Data: []byte(data)}
}

// TestManyClientsOverTheNetwork runs many clients that call and listen at once over loopback. Each
// must get exactly its own answers and all events in order.
func TestManyClientsOverTheNetwork(t *testing.T) {
	const clients, calls, events = 40, 50, 100
	h := new(hall)
	g := newGateway(t, setup{Node: h})
	s := httptest.NewServer(g)
	var connected, all sync.WaitGroup
	connected.Add(clients)
	client := func(n int) error {
		ws, _, err := websocket.Dial(t.Context(), s.URL+"/actors/room/a/-/connect",
			&websocket.DialOptions{Subprotocols: []string{Subprotocol}})
		if err != nil {
			connected.Done()
			return err
		}
		defer ws.CloseNow()
		ws.SetReadLimit(-1)
		say := func(text string) { check(t, ws.Write(t.Context(), websocket.MessageText, []byte(text))) }
		say(`{"connect":{}}`)
		_, welcome, err := ws.Read(t.Context())
		errorIf(t, err != nil || !strings.HasPrefix(string(welcome), `{"welcome":`), "%s %v", welcome, err)
		connected.Done()
		all.Go(func() {
			for id := 1; id <= calls; id++ {
				say(fmt.Sprintf(`{"id":%d,"call":"echo","input":"%d %d %s"}`, id, n, id, strings.Repeat("x", id*100)))
			}
		})
		answers, last := make(map[int]bool), 0
		for len(answers) < calls || last < events {
			_, b, err := ws.Read(t.Context())
			if err != nil {
				return err
			}
			id, sequence := 0, 0
			if _, err := fmt.Sscanf(string(b), `{"event":"said","sequence":%d`, &sequence); err == nil {
				last++
				errorIf(t, sequence != last, "event %d after %d", sequence, last-1)
				continue
			}
			fmt.Sscanf(string(b), `{"id":%d`, &id)
			want := fmt.Sprintf(`{"id":%d,"version":1234567,"output":"%d %d %s"}`, id, n, id, strings.Repeat("x", id*100))
			errorIf(t, string(b) != want || answers[id], "got %.100q", b)
			answers[id] = true
		}
		return ws.Close(websocket.StatusNormalClosure, "")
	}
	for n := range clients {
		all.Go(func() { check(t, client(n)) })
	}
	connected.Wait()
	for n := range uint64(events) {
		h.emit(said(n+1, `"hello"`))
	}
	all.Wait()
	must(t, g.front.Close())
	for _, c := range h.conns {
		errorIf(t, <-c.closed, "a client that closed its socket counts as lost")
	}
	s.Close()
	same(t, g.front.Open(), 0)
}

// FuzzWhatAClientSends writes any bytes to a connected WebSocket. The session must end when the
// client is gone, without a panic, and notify the node once.
func FuzzWhatAClientSends(f *testing.F) {
	for _, text := range []string{`{"id":1,"call":"add"}`, `{"id":1,"follow":"x"}`, `{`} {
		f.Add([]byte(maskedFrame(text)))
	}
	f.Add([]byte("\x88\x82\x00\x00\x00\x00\x03\xe8"))
	f.Add([]byte("\x89\x80\x00\x00\x00\x00\x01\xff\x00\x00\x00\x00\x00\x00\x00\x00"))
	node := nodetest.Open(f, hosttest.Room())
	f.Fuzz(func(t *testing.T, data []byte) {
		closed := make(chan struct{}, 10)
		node.Before = func(_ context.Context, op string, _ *host.Request) error {
			if op == "close" {
				closed <- struct{}{}
			}
			return nil
		}
		g := newGateway(t, setup{Node: node})
		s := httptest.NewServer(g)
		defer s.Close()
		conn := greet(t, s.Listener.Addr().String(), upgradeRequest+maskedFrame(`{"connect":{}}`), `"events":[]}}`)
		go io.Copy(io.Discard, conn)
		conn.Write(data)
		conn.Close()
		<-closed
		text := ask(g, "GET", "/metrics", "").Body.String()
		errorIf(t, !strings.Contains(text, "cairn_http_panics_total 0\n"), "a panic")
		if g.front.Close(); len(closed) != 0 {
			t.Error("the node was told twice")
		}
	})
}

// A walked route has a path of the route, and its methods.
type walked struct {
	path    string
	methods string
}

// everyRoute has a path of each route.
var everyRoute = map[route]walked{
	toCall:           {"/actors/room/a/-/call/add", "POST"},
	toActor:          {"/actors/room/a/-/", "GET HEAD PUT DELETE"},
	toKeys:           {"/actors/room/a/-/keys", "GET HEAD"},
	toTraces:         {"/actors/room/a/-/traces", "GET HEAD"},
	toAudit:          {"/-/audit", "GET HEAD"},
	toEvents:         {"/actors/room/a/-/events", "GET"},
	toWatch:          {"/actors/room/a/-/kv-watch", "GET POST"},
	toFeed:           {"/actors/room/a/-/kv-feed", "GET"},
	toConnect:        {"/actors/room/a/-/connect", "GET POST DELETE"},
	toQueue:          {"/actors/room/a/-/queues/mail", "GET"},
	toStream:         {"/actors/room/a/-/streams/tokens", "GET"},
	toSQLite:         {"/actors/room/a/-/sqlite", "GET PUT"},
	toKV:             {"/actors/room/a/-/kv", "POST"},
	toEntry:          {"/actors/room/a/-/kv-entry", "GET HEAD PUT DELETE"},
	toCodebolt:       {"/actors/room/a/-/kvstore/instances", "GET HEAD POST"},
	toCodeboltEvents: {"/actors/room/a/-/kvstore/ws", "GET"},
	toKeyVal:         {"/actors/room/a/-/keyval/api/keys/users/7", "GET HEAD PUT DELETE"},
	toStrata:         {"/actors/room/a/-/strata/execute", "POST"},
	toList:           {"/actors", "GET HEAD"},
	toRuns:           {"/workflows", "GET HEAD"},
	toRunCounts:      {"/workflows/counts", "GET HEAD"},
	toSampling:       {"/-/traces/sampling", "GET HEAD PUT"},
	toTrace:          {"/-/traces", "GET HEAD"},
	toUsage:          {"/-/usage", "GET HEAD"},
	toTop:            {"/-/top", "GET HEAD"},
	toChanges:        {"/-/changes", "GET"},
	toQueryMany:      {"/query", "POST"},
	toHealth:         {"/healthz", "GET HEAD"},
	toMetrics:        {"/metrics", "GET HEAD"},
	toOpenAPI:        {"/openapi.json", "GET HEAD"},
}

// faults are requests in which every route finds a fault, if it reads them.
var faults = []struct{ query, body, header string }{
	{"", "", "X: y"},
	{"?limit=x&max=zz&nonsense=1&after=x", "", "X: y"},
	{"?%zz", "", "X: y"},
	{"", "not JSON", "Content-Type: text/plain"},
	{"", "", "If-Match: 5"},
	{"", "", "Cairn-Connection: "},
	{"", "", "Idempotency-Key: "},
	{"", "", "Cairn-Reason: %"},
	{"", "", "Sec-Fetch-Site: cross-site"},
}

func TestEveryRouteAsksForTheTokenBeforeItLooksAtAnythingElse(t *testing.T) {
	// The node panics at any request.
	g := newGateway(t, setup{Node: office{Recorder: failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Token: "secret"})
	g.front.Drain() // a draining gateway does not say so without the token either
	var paths []string
	for rt := toCall; rt <= toOpenAPI; rt++ {
		w, ok := everyRoute[rt]
		fatalIf(t, !ok, "paths has no path of route %d", rt)
		paths = append(paths, w.path)
	}
	paths = append(paths, "/actors/room/a/-/audit", "/nothing", "/actors/", "/actors/room/a", "/actors//-/",
		"/actors/room/~a/-/", "/actors/room/-/call/", "/actors/c/%ff/-/", "/kv/a", "/kv/", "/actors/room/a/-/kv/watch")
	for _, path := range paths {
		for _, method := range strings.Fields("GET HEAD POST PUT DELETE PATCH OPTIONS") {
			if path == "/healthz" && (method == "GET" || method == "HEAD") {
				continue
			}
			for _, f := range faults {
				w := ask(g, method, path+f.query, f.body, f.header)
				errorIf(t, w.Code != 401 || errorOf(t, w).Message != "a bearer token is required" ||
					w.Header().Get("WWW-Authenticate") == "",
					"%s %s%s with %q: %d %q", method, path, f.query, f.header, w.Code, w.Body)
			}
		}
	}
}

func TestTheHookIsAskedBeforeARouteLooksAtTheRestOfTheRequest(t *testing.T) {
	asked := 0
	g := newGateway(t, setup{Node: office{Recorder: failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{},
		Authorize: func(context.Context, serve.AuthRequest) error {
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
				errorIf(t, w.Code != 401 || !strings.Contains(w.Body.String(), "who are you?") || asked != 1,
					"%s %s%s with %q: %d %q, asked %d times", method, everyRoute[rt].path, f.query, f.header, w.Code, w.Body, asked)
			}
		}
	}
}
