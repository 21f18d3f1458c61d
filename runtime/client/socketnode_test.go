package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
)

// A socketNode is a node with one actor to which clients connect, on connections in memory that can be cut.
type socketNode struct {
	t *testing.T

	mu      sync.Mutex
	changed chan struct{}
	events  []string                // names, by sequence - 1
	kept    uint64                  // events up to this sequence are no longer kept
	known   map[string]*acquaintant // by token
	replies map[string]string       // by idempotency key
	done    map[string]int          // how often each method ran
	hellos  []hello
	headers []http.Header
	ended   []string // tokens
	bye     *bye     // for all members of the room
	conns   []net.Conn
	server  *http.Server
	served  sync.WaitGroup

	// handshake, if set, may answer a request to connect, the nth, instead of the node; welcome a connect message.
	handshake func(n int, w http.ResponseWriter) bool
	welcome   func(n int, c *websocket.Conn) bool
	// call, if set, may answer a call with a frame of its own, or none if it is "".
	call   func(m *frame) (string, bool)
	refuse bool
	tries  int
}

type acquaintant struct {
	id     string
	events []string
}

type hello struct {
	Params json.RawMessage
	Events []string
	Token  string
	After  *uint64
}

type bye struct {
	err  *host.Error
	code websocket.StatusCode
}

// A frame is a message of a client.
type frame struct {
	Connect        *hello
	ID             uint64
	Call           string
	Input          json.RawMessage
	IdempotencyKey string `json:"idempotency_key"`
	Subscribe      []string
	Unsubscribe    []string
}

// withSocketNode runs a test in a bubble of virtual time, at whose end no goroutine of the client may be left.
func withSocketNode(t *testing.T, o client.Options, run func(t *testing.T, n *socketNode, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &socketNode{t: t, changed: make(chan struct{}), known: make(map[string]*acquaintant), replies: make(map[string]string),
			done: make(map[string]int)}
		n.start()
		transport := &http.Transport{DialContext: n.dial}
		o.HTTPClient = &http.Client{Transport: transport}
		c, err := client.New("http://node.example", o)
		if err != nil {
			t.Fatal(err)
		}
		run(t, n, c)
		n.stop()
		transport.CloseIdleConnections()
		n.served.Wait()
	})
}

func (n *socketNode) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	mine, theirs := net.Pipe()
	n.conns = append(n.conns, mine, theirs)
	l := &oneListener{conn: theirs, done: make(chan struct{})}
	server := n.server
	n.served.Go(func() { server.Serve(l) })
	return mine, nil
}

func (n *socketNode) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server, n.refuse = &http.Server{Handler: n}, false
}

// stop ends the node as a crash does.
func (n *socketNode) stop() {
	n.mu.Lock()
	n.refuse = true
	n.mu.Unlock()
	n.server.Close()
	n.cut()
}

// cut breaks all connections.
func (n *socketNode) cut() {
	n.mu.Lock()
	conns := n.conns
	n.conns = nil
	n.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
}

func (n *socketNode) change(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *socketNode) emit(names ...string) {
	n.change(func() { n.events = append(n.events, names...) })
}

// onWelcome and onCall set what the node does, also while sockets are served: one that the client has given up may not have
// ended yet.
func (n *socketNode) onWelcome(f func(try int, s *websocket.Conn) bool) {
	n.change(func() { n.welcome = f })
}

func (n *socketNode) onCall(f func(m *frame) (string, bool)) { n.change(func() { n.call = f }) }

func (n *socketNode) say(b *bye) { n.change(func() { n.bye = b }) }

func (n *socketNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.headers = append(n.headers, r.Header.Clone())
	n.tries++
	try := n.tries
	handshake := n.handshake
	n.mu.Unlock()
	switch {
	case r.Method == http.MethodDelete:
		n.disconnect(w, r.Header.Get("Cairn-Connection"))
		return
	case r.Method == http.MethodPost:
		fmt.Fprintf(w, "%q", r.Header.Get("Cairn-Connection"))
		return
	case handshake != nil && handshake(try, w):
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"cairn.v1"}})
	if err != nil {
		n.t.Error(err)
		return
	}
	defer c.CloseNow()
	if c.Subprotocol() != "cairn.v1" {
		n.t.Errorf("subprotocol %q", c.Subprotocol())
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first, err := readFrame(ctx, c)
	if err != nil {
		return
	}
	n.mu.Lock()
	welcome := n.welcome
	n.mu.Unlock()
	if welcome != nil && welcome(try, c) {
		return
	}
	id, after := n.welcomed(ctx, c, first.Connect)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { n.tell(ctx, c, id, after) })
	for {
		m, err := readFrame(ctx, c)
		if err != nil {
			return
		}
		n.answer(ctx, c, id, m)
	}
}

func (n *socketNode) disconnect(w http.ResponseWriter, token string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[token] == nil {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"code":"unauthenticated","message":"no such connection"}`)
		return
	}
	delete(n.known, token)
	n.ended = append(n.ended, token)
	w.WriteHeader(http.StatusNoContent)
}

func (n *socketNode) welcomed(ctx context.Context, c *websocket.Conn, h *hello) (*acquaintant, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hellos = append(n.hellos, *h)
	a, resumed := n.known[h.Token]
	token := h.Token
	if !resumed {
		token = "token-" + strconv.Itoa(len(n.hellos))
		a = &acquaintant{id: strconv.Itoa(len(n.hellos)), events: h.Events}
		n.known[token] = a
	}
	after := uint64(len(n.events))
	if h.After != nil && *h.After <= after {
		after = *h.After
	} else if h.After != nil {
		after = n.kept
	}
	write(ctx, c, fmt.Sprintf(`{"welcome":{"connection":%q,"token":%q,"cursor":%d,"resumed":%v,"events":%s}}`,
		a.id, token, after, resumed, asJSON(a.events)))
	return a, after
}

// tell writes events as they come, and the bye.
func (n *socketNode) tell(ctx context.Context, c *websocket.Conn, a *acquaintant, after uint64) {
	for {
		n.mu.Lock()
		var frames []string
		if after < n.kept {
			frames = append(frames, fmt.Sprintf(`{"gap":{"missed":%d}}`, n.kept-after))
			after = n.kept
		}
		for ; after < uint64(len(n.events)); after++ {
			if slices.Contains(a.events, n.events[after]) {
				frames = append(frames, fmt.Sprintf(`{"event":%q,"sequence":%d,"version":%d,"time":"2026-11-21T12:00:00Z","data":{"n":%d}}`,
					n.events[after], after+1, after+101, after+1))
			}
		}
		changed, bye := n.changed, n.bye
		n.mu.Unlock()
		for _, f := range frames {
			if !write(ctx, c, f) {
				return
			}
		}
		if bye != nil {
			if bye.err != nil {
				write(ctx, c, `{"bye":`+asJSON(bye.err)+`}`)
			}
			c.Close(bye.code, "because")
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// answer answers one message, as a node does that stores the replies of calls with idempotency keys.
func (n *socketNode) answer(ctx context.Context, c *websocket.Conn, a *acquaintant, m *frame) {
	n.mu.Lock()
	if n.call != nil {
		if reply, mine := n.call(m); mine {
			n.mu.Unlock()
			if reply != "" {
				write(ctx, c, reply)
			}
			return
		}
	}
	reply, stored := n.replies[m.IdempotencyKey]
	switch {
	case m.Call != "" && !stored:
		n.done[m.Call]++
		reply = fmt.Sprintf(`"version":%d,"output":{"method":%q,"input":%s}`, 7, m.Call, asJSON(m.Input))
		if m.IdempotencyKey != "" {
			n.replies[m.IdempotencyKey] = reply
		}
	case m.Call != "":
		reply += `,"replayed":true`
	case m.Subscribe != nil:
		a.events = append(a.events, m.Subscribe...)
		reply = `"version":8`
	case m.Unsubscribe != nil:
		a.events = slices.DeleteFunc(a.events, func(e string) bool { return slices.Contains(m.Unsubscribe, e) })
		reply = `"version":9`
	}
	n.mu.Unlock()
	write(ctx, c, fmt.Sprintf(`{"id":%d,%s}`, m.ID, reply))
}

func readFrame(ctx context.Context, c *websocket.Conn) (*frame, error) {
	_, b, err := c.Read(ctx)
	if err != nil {
		return nil, err
	}
	m := new(frame)
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	return m, d.Decode(m)
}

func write(ctx context.Context, c *websocket.Conn, frame string) bool {
	return c.Write(ctx, websocket.MessageText, []byte(frame)) == nil
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
