package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A Gateway serves a node's actors over HTTP. It is an http.Handler, safe for any number of goroutines.
//
//  1. It keeps no state of actors: two gateways in front of one node answer alike.
//  2. A request runs on the goroutine that net/http gives it. Only a WebSocket has goroutines of its own: one that reads,
//     one that waits for events, and one for each call in flight and each stream that is followed.
//  3. Whatever a client sends, it gets a reply in the form of docs/http.md or docs/websocket.md, or its connection is
//     closed. What caused an internal error stays in the log.
//  4. After Shutdown returns nil, no event stream and no WebSocket is open, none of their goroutines runs, and no new one
//     can be opened.
//
// What it takes from the node beyond the contract of package host: an EventStream may be used on after Next returned
// because its context ended, a Request is not read any more after Call returned without an error, and the context that
// Connect gets bounds the connecting and not the connection.
type Gateway struct {
	opts      Options
	node      Node
	log       *slog.Logger
	meter     *meter
	creations map[string]string // the only creation of each type that has exactly one
	openSQL   map[string]bool   // the types whose callers may use SQL
	metrics   http.Handler
	door      *serve.Door
	values    headerValues
	memory    memory

	// document is the OpenAPI document, made when it is first asked for.
	document struct {
		once sync.Once
		text []byte
		err  error
	}

	closing atomic.Bool

	mu          sync.Mutex
	streams     map[*stream]struct{} // what is open and lasts
	connections int                  // how many of them are connections to actors
	idle        chan struct{}        // closed once closing and no stream is open
}

// headerValues are values that replies to calls share, so that each need not allocate its own: net/http only reads them,
// and an Add by somebody's middleware copies them because they have no room.
type headerValues struct{ json, cbor, yes []string }

// exposedHeaders are those that pages of allowed origins may read.
const exposedHeaders = "Cairn-Version, Idempotency-Replayed, Location, Retry-After"

// New makes a gateway. The error lists every fault of the options.
func New(o Options) (*Gateway, error) {
	o = o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{
		opts:      o,
		node:      o.Node,
		log:       o.Logger,
		meter:     newMeter(o.Behaviors),
		creations: make(map[string]string),
		openSQL:   make(map[string]bool),
		metrics:   promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
		door:      serve.NewDoor(o.Token, o.LoopbackOnly, o.AllowedOrigins, exposedHeaders),
		values:    headerValues{json: []string{"application/json"}, cbor: []string{"application/cbor"}, yes: []string{"true"}},
		streams:   make(map[*stream]struct{}),
		idle:      make(chan struct{}),
	}
	g.memory.limit = o.Limits.MemoryBytes
	for _, b := range o.Behaviors {
		g.openSQL[b.Type] = b.OpenSQL
		n := 0
		for _, m := range b.Methods {
			if m.Kind == host.Creation {
				g.creations[b.Type] = m.Name
				n++
			}
		}
		if n > 1 {
			delete(g.creations, b.Type)
		}
	}
	if err := g.meter.register(o.Registerer); err != nil {
		return nil, err
	}
	return g, nil
}

// Server returns a server for the gateway with time-outs that suit it: calls end in time, slow clients are cut off and
// event streams live on, because they set their own write deadlines. The caller sets Addr, or serves a listener.
// Shutdown of the server ends the event streams and WebSockets, but does not wait for WebSockets: Shutdown of the gateway
// does.
func (g *Gateway) Server() *http.Server {
	s := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: ReadHeaderTimeout,
		IdleTimeout:       IdleTimeout,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          log.New(&serverLog{log: g.log}, "", 0),
		// The gateway answers "OPTIONS *" itself, and asks for the token first.
		DisableGeneralOptionsHandler: true,
	}
	// There is no ReadTimeout: when it passes during a call, net/http ends the call's context. The gateway bounds the
	// reading of bodies itself.
	if g.opts.Limits.CallTimeout > 0 {
		s.WriteTimeout = g.opts.Limits.CallTimeout + maxWait + g.opts.Limits.BodyTimeout + ReplyTimeout
	}
	s.RegisterOnShutdown(g.drain)
	return s
}

// drain refuses new requests and tells all event streams and WebSockets to end, without waiting.
func (g *Gateway) drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closing.Swap(true) {
		return
	}
	for s := range g.streams {
		s.cancel(errClosing)
	}
	if len(g.streams) == 0 {
		close(g.idle)
	}
}

// Shutdown ends all event streams and WebSockets with a final message and waits for them. New requests are refused as
// unavailable; running calls are not waited for, except those over WebSockets: that is for the server and the node to do.
// It returns ctx's error if ctx ends first, and may be called again.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.drain()
	select {
	case <-g.idle:
	case <-ctx.Done():
		return fmt.Errorf("gateway: event streams or WebSockets are still open: %w", ctx.Err())
	}
	g.meter.unregister(g.opts.Registerer)
	return nil
}

// Close is Shutdown without a limit of time other than the one that each stream has for its last write.
func (g *Gateway) Close() error { return g.Shutdown(context.Background()) }

// An exchange is one request and its response.
type exchange struct {
	g     *Gateway
	w     http.ResponseWriter
	r     *http.Request
	start time.Time
	began bool  // the response's status is sent
	held  int64 // of the gateway's memory, for the body

	// For the metrics; a nil meter is not counted.
	meter *typeMeter
	label label
	code  host.Code
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchange{g: g, w: w, r: r, start: time.Now()}
	defer x.finish()
	x.serve()
}

// finish counts the request and turns a panic into an internal error. It is deferred.
func (x *exchange) finish() {
	g, p := x.g, recover()
	x.freeBody()
	if p != nil && p != http.ErrAbortHandler {
		g.meter.panics.Inc()
		e := g.internal("request panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		if x.began {
			x.code, p = e.Code, http.ErrAbortHandler
		} else {
			x.fail(e)
			p = nil
		}
	}
	if x.meter != nil {
		g.meter.count(x.meter, x.label, x.code, time.Since(x.start))
	}
	if p != nil {
		panic(p)
	}
}

// methods lists the HTTP methods of a route as the Allow header has them.
func (rt route) methods() string {
	switch rt {
	case toCall:
		return "POST, OPTIONS"
	case toActor:
		return "GET, HEAD, PUT, DELETE, OPTIONS"
	case toEvents, toQueue, toStream:
		return "GET, OPTIONS"
	case toSQLite:
		return "GET, PUT, OPTIONS"
	case toConnect:
		return "GET, POST, DELETE, OPTIONS"
	}
	return "GET, HEAD, OPTIONS"
}

// brief reports whether a GET of the route answers with a document rather than a stream.
func (rt route) brief() bool {
	switch rt {
	case toActor, toKeys, toList, toRuns, toRunCounts, toHealth, toMetrics, toOpenAPI:
		return true
	}
	return false
}

func (x *exchange) serve() {
	g, r := x.g, x.r
	if e := g.door.CheckHost(r.Host); e != nil {
		x.fail(e)
		return
	}
	foreign := x.g.door.CheckOrigin(x.w, x.r)
	t, fault := parseTarget(r.URL)
	if serve.Preflight(x.r) { // it has no token
		if foreign != nil {
			x.fail(foreign)
			return
		}
		x.options(t.route.methods())
		return
	}
	if t.route != toHealth && t.route != toMetrics && t.route != toOpenAPI {
		x.meter = g.meter.unknown
	}
	if e := cmp.Or(x.authenticate(&t), foreign); e != nil {
		x.fail(e)
		return
	}
	switch {
	case r.Method == http.MethodOptions && r.URL.Path == "*":
		x.meter = nil
		x.options("GET, HEAD, POST, PUT, DELETE, OPTIONS")
		return
	case fault != nil:
		x.fail(fault)
		return
	case t.route == nowhere, t.route == toSQLite && g.opts.Databases == nil,
		(t.route == toRuns || t.route == toRunCounts) && g.opts.Runs == nil:
		x.fail(host.Errorf(host.NotFound, "there is nothing at this path; see docs/http.md for the paths"))
		return
	case r.Method == http.MethodOptions:
		x.meter = nil
		x.options(t.route.methods())
		return
	}
	if x.meter != nil && g.closing.Load() && !x.upgrades(&t) { // a WebSocket is told in its own way
		x.w.Header().Set("Connection", "close")
		x.fail(errShutdown)
		return
	}
	method := r.Method
	if method == http.MethodHead && t.route.brief() {
		method = http.MethodGet // net/http leaves the body out
	}
	switch {
	case t.route == toCall && method == http.MethodPost:
		x.call(&t)
	case t.route == toActor && method == http.MethodGet:
		x.status(&t)
	case t.route == toActor && method == http.MethodPut:
		x.create(&t)
	case t.route == toActor && method == http.MethodDelete:
		x.destroy(&t)
	case t.route == toKeys && method == http.MethodGet:
		x.keys(&t)
	case t.route == toEvents && method == http.MethodGet:
		x.events(&t)
	case t.route == toConnect && x.upgrades(&t):
		x.websocket(&t)
	case t.route == toConnect && (method == http.MethodGet || method == http.MethodPost):
		x.connect(&t)
	case t.route == toConnect && method == http.MethodDelete:
		x.disconnect(&t)
	case t.route == toQueue && method == http.MethodGet:
		x.listen(&t)
	case t.route == toStream && method == http.MethodGet:
		x.follow(&t)
	case t.route == toSQLite && method == http.MethodGet:
		x.exportSQL(&t)
	case t.route == toSQLite && method == http.MethodPut:
		x.importSQL(&t)
	case t.route == toList && method == http.MethodGet:
		x.list()
	case t.route == toRuns && method == http.MethodGet:
		x.runs()
	case t.route == toRunCounts && method == http.MethodGet:
		x.runCounts()
	case t.route == toHealth && method == http.MethodGet:
		x.health()
	case t.route == toMetrics && method == http.MethodGet:
		x.metrics()
	case t.route == toOpenAPI && method == http.MethodGet:
		x.openapi()
	default:
		x.w.Header().Set("Allow", t.route.methods())
		x.failStatus(host.Errorf(host.InvalidArgument, "the method %s does not apply to this path", r.Method),
			http.StatusMethodNotAllowed)
	}
}

// counts says what the request is counted as.
func (x *exchange) counts(typ string, l label) {
	x.meter, x.label = x.g.meter.actorType(typ), l
}

// limited bounds how long the node may take.
func (x *exchange) limited() (context.Context, context.CancelFunc) {
	return x.g.limited(x.r.Context(), "")
}

// limited bounds how long the node may take to run a method.
func (g *Gateway) limited(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	d := g.opts.Limits.CallTimeout
	if d <= 0 {
		return ctx, func() {}
	}
	if waits(method) {
		d += maxWait
	}
	return context.WithTimeout(ctx, d)
}
