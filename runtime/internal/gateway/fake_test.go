package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A fakeNode answers with its functions. A call of a nil function panics.
type fakeNode struct {
	call      func(context.Context, *host.Request) (host.Reply, error)
	lookup    func(context.Context, host.Address) (host.Status, error)
	list      func(context.Context, host.ListQuery) (host.ListPage, error)
	destroy   func(context.Context, host.Address) error
	subscribe func(context.Context, host.Address, host.Subscription) (host.EventStream, error)
	inspect   func(context.Context, host.Address, host.InspectQuery) (host.InspectPage, error)
	connect   func(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error)
	// callOver and disconnect get the token of a connection.
	callOver   func(context.Context, string, *host.Request) (host.Reply, error)
	disconnect func(context.Context, host.Address, string) error
}

func (n *fakeNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return n.call(ctx, r)
}
func (n *fakeNode) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return n.lookup(ctx, a)
}
func (n *fakeNode) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return n.list(ctx, q)
}
func (n *fakeNode) Destroy(ctx context.Context, a host.Address) error { return n.destroy(ctx, a) }
func (n *fakeNode) Subscribe(ctx context.Context, a host.Address, s host.Subscription) (host.EventStream, error) {
	return n.subscribe(ctx, a, s)
}
func (n *fakeNode) Inspect(ctx context.Context, a host.Address, q host.InspectQuery) (host.InspectPage, error) {
	return n.inspect(ctx, a, q)
}

func (n *fakeNode) Connect(ctx context.Context, a host.Address, q host.ConnectRequest) (host.LiveConnection, error) {
	return n.connect(ctx, a, q)
}
func (n *fakeNode) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	return n.callOver(ctx, token, r)
}
func (n *fakeNode) Disconnect(ctx context.Context, a host.Address, token string) error {
	return n.disconnect(ctx, a, token)
}

// A fakeConn is a connection to an actor whose events and end the test decides on.
type fakeConn struct {
	welcome    host.Welcome
	deliveries chan host.Delivery
	fault      chan error
	call       func(context.Context, *host.Request) (host.Reply, error)
	subscribed func(verb string, events []string) error
	closed     chan bool // what Close said about lost
	ordered    bool      // call keeps to the order of requests by itself
}

func newFakeConn() *fakeConn {
	return &fakeConn{
		welcome:    host.Welcome{Connection: "c1", Token: "t1", Cursor: 17, Events: []string{"said"}},
		deliveries: make(chan host.Delivery, 1000), fault: make(chan error, 1), closed: make(chan bool, 10),
	}
}

// connect makes c what every client is connected to.
func (c *fakeConn) connect(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
	return c, nil
}

func (c *fakeConn) emit(events ...host.EmittedEvent) { c.deliveries <- host.Delivery{Events: events} }

func (c *fakeConn) Welcome() host.Welcome { return c.welcome }

func (c *fakeConn) Next(ctx context.Context) (host.Delivery, error) {
	select {
	case d := <-c.deliveries:
		return d, nil
	default:
	}
	select {
	case d := <-c.deliveries:
		return d, nil
	case err := <-c.fault:
		select {
		case d := <-c.deliveries: // emitted before the fault
			c.fault <- err
			return d, nil
		default:
		}
		return host.Delivery{}, err
	case <-ctx.Done():
		return host.Delivery{}, host.Errorf(host.CodeOf(ctx.Err()), "done")
	}
}

func (c *fakeConn) Subscribe(_ context.Context, events ...string) error {
	return c.subscribed("subscribe", events)
}
func (c *fakeConn) Unsubscribe(_ context.Context, events ...string) error {
	return c.subscribed("unsubscribe", events)
}
func (c *fakeConn) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if r.Order != nil && !c.ordered {
		r.Order.Placed()
	}
	return c.call(ctx, r)
}
func (c *fakeConn) Close(ctx context.Context, lost bool) error {
	if ctx.Err() != nil {
		panic("the context of Close has ended")
	}
	c.closed <- lost
	return nil
}

// behaviors are what the tests' node hosts.
func behaviors() []*host.Behavior {
	return []*host.Behavior{{Type: "counter", Methods: []host.Method{
		{Name: "add", Kind: host.Action}, {Name: "total", Kind: host.Query}, {Name: "create", Kind: host.Creation},
	}}, {Type: "plain"}}
}

// A setup is what tests say of a gateway and of its front.
type setup struct {
	Node           Node
	Databases      host.Databases
	Runs           host.RunLister
	Health         func() error
	Behaviors      []*host.Behavior
	Authorize      func(context.Context, serve.AuthRequest) error
	Token          string
	AllowedOrigins []string
	LoopbackOnly   bool
	Limits         serve.Limits
	Registerer     prometheus.Registerer
	Logger         *slog.Logger
}

// newGateway makes a gateway and its front. Without Behaviors it has those of the tests.
func newGateway(t testing.TB, s setup) *Gateway {
	t.Helper()
	if s.Behaviors == nil {
		s.Behaviors = behaviors()
	}
	f, err := serve.New(serve.Options{
		Behaviors: s.Behaviors, Authorize: s.Authorize, Token: s.Token, AllowedOrigins: s.AllowedOrigins,
		LoopbackOnly: s.LoopbackOnly, Limits: s.Limits, Registerer: s.Registerer, Logger: s.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return New(f, Options{Node: s.Node, Databases: s.Databases, Runs: s.Runs, Health: s.Health})
}

// ask sends one request straight to the handler. Headers are "Name: value".
func ask(g http.Handler, method, url, body string, headers ...string) *httptest.ResponseRecorder {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, url, r)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req)
	return w
}

func errorOf(t testing.TB, w *httptest.ResponseRecorder) *host.Error {
	t.Helper()
	e := new(host.Error)
	if err := json.Unmarshal(w.Body.Bytes(), e); err != nil {
		t.Fatalf("no error in JSON: %v: %q", err, w.Body)
	}
	return e
}

// A feed is an actor's event history that streams read, like a node's.
type feed struct {
	mu      sync.Mutex
	events  []host.EmittedEvent
	first   uint64 // the first sequence that is kept
	changed chan struct{}
	fault   error
}

func newFeed() *feed { return &feed{first: 1, changed: make(chan struct{})} }

func (f *feed) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *feed) emit(name, data string) {
	f.change(func() {
		n := f.first + uint64(len(f.events))
		f.events = append(f.events, host.EmittedEvent{
			Sequence: n, Version: 10 + n, Name: name, Time: time.Unix(1_000_000_000, 0), Data: []byte(data)})
	})
}

// forget drops the events before sequence n.
func (f *feed) forget(n uint64) {
	f.change(func() {
		f.events = f.events[n-f.first:]
		f.first = n
	})
}

func (f *feed) subscribe(_ context.Context, _ host.Address, s host.Subscription) (host.EventStream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.first + uint64(len(f.events))
	if s.Resume {
		next = s.After + 1
	}
	return &feedStream{f: f, next: next}, nil
}

type feedStream struct {
	f    *feed
	next uint64
}

func (s *feedStream) Position() (host.Position, bool) {
	return host.Position{Sequence: s.next - 1}, true
}
func (s *feedStream) Close() {}
func (s *feedStream) Next(ctx context.Context) (host.Delivery, error) {
	for {
		s.f.mu.Lock()
		var d host.Delivery
		if s.next < s.f.first {
			d.Missed, s.next = s.f.first-s.next, s.f.first
		}
		if from := s.next - s.f.first; from < uint64(len(s.f.events)) {
			d.Events = append(d.Events, s.f.events[from:]...)
			s.next += uint64(len(d.Events))
		}
		changed, fault := s.f.changed, s.f.fault
		s.f.mu.Unlock()
		if len(d.Events) > 0 || d.Missed > 0 {
			return d, nil
		}
		if fault != nil {
			return d, fault
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d, host.Errorf(host.CodeOf(ctx.Err()), "done")
		}
	}
}

// fakeDatabases answer with their functions.
type fakeDatabases struct {
	export func(context.Context, host.Address, io.Writer) error
	imp    func(context.Context, host.Address, io.Reader, string) (host.SQLStatusOutput, error)
}

func (d *fakeDatabases) ExportSQL(ctx context.Context, a host.Address, w io.Writer) error {
	return d.export(ctx, a, w)
}

func (d *fakeDatabases) ImportSQL(ctx context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	return d.imp(ctx, a, file, reason)
}
