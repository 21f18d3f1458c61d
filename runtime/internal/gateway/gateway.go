package gateway

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/gateway/codebolt"
	"github.com/cairn-run/cairn/runtime/internal/gateway/keyval"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvconnect"
	"github.com/cairn-run/cairn/runtime/internal/gateway/kvrest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/gateway/strata"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// A Node is the node behind a gateway.
type Node interface {
	host.Node
	host.EventSource
	host.Inspector
	host.Connector
	kv.Watcher
	token.Checker
}

// Options configure a Gateway. Only Node is required.
type Options struct {
	// Node answers the requests.
	Node Node
	// Databases exports and imports the actors' SQLite databases. Nil means Node if it implements
	// host.Databases; otherwise the paths of databases are not found.
	Databases host.Databases
	// Runs lists the workflow runs that are paused or have failed. Nil means Node if it implements
	// host.RunLister; otherwise the paths of workflow runs are not found.
	Runs host.RunLister
	// Health returns why the node cannot serve, or nil. Callers of GET /healthz see the message of
	// an *host.Error; other errors appear only in the log. A nil Health means healthy.
	Health func() error
	// Dashboard serves the pages below /dashboard/, which contain no data and need no token. Nil
	// means that there are none.
	Dashboard http.Handler
}

// A Gateway serves a node's actors over HTTP. It is an http.Handler, safe for concurrent use.
//
//  1. It keeps no state of actors: two gateways in front of one node give the same answers. Only a
//     transaction of Strata is in the gateway that began it.
//  2. A request runs in net/http's goroutine. Only a WebSocket has goroutines of its own: one that
//     reads, one that waits for events, and one for each call in flight and each followed stream.
//  3. Every request gets a reply in the form of docs/http.md or docs/websocket.md, or its
//     connection is closed. The cause of an internal error is only in the log.
//  4. After Shutdown of the front returns nil, no event stream and no WebSocket is open, none of
//     their goroutines is running, and no new ones can be opened.
//
// It relies on three properties of the node beyond the contract of package host. An EventStream
// stays usable after the context of a Next ended. A Request is no longer read after Call returned
// without an error. The context of Connect limits the connecting, not the connection.
type Gateway struct {
	front     *serve.Front
	opts      Options
	node      Node
	tracer    host.Tracer          // nil if the node records nothing
	documents trace.Documents      // nil if the node shows no spans
	sampler   trace.Sampler        // nil if the node records nothing
	finder    trace.Finder         // nil if the node shows no spans
	follower  trace.Follower       // nil if the node shows no spans
	meter     usage.Meter          // nil if the node counts nothing
	log       audit.Log            // nil if the node has none
	live      liveFeed             // nil if the node reports no changes
	creations map[string]string    // the only creation of each type that has exactly one
	open      map[string]host.Open // the parts that types open to their callers
	metrics   http.Handler
	denoKV    kvconnect.Handler
	entries   *kvrest.Interface
	codebolt  *kvrest.Interface
	keyVal    *kvrest.Interface
	strata    *kvrest.Interface
	values    headerValues

	// document is the OpenAPI document, made at the first request.
	document struct {
		once sync.Once
		text []byte
		err  error
	}
}

// headerValues are header values that the replies to calls share, to save allocations. net/http
// only reads them, and an Add by middleware copies them because their capacity is full.
type headerValues struct{ json, cbor, yes []string }

// Headers that pages of allowed origins may read, and send.
const (
	exposedHeaders = "Cairn-Cursor, Cairn-Version, Idempotency-Replayed, Location, Retry-After, Traceresponse"
	allowedHeaders = "Authorization, Cairn-Connection, Cairn-Reason, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Traceparent, X-Denokv-Database-Id, X-Denokv-Version"
)

// New makes a gateway behind a front.
func New(f *serve.Front, o Options) *Gateway {
	if o.Databases == nil {
		o.Databases, _ = o.Node.(host.Databases)
	}
	if o.Runs == nil {
		o.Runs, _ = o.Node.(host.RunLister)
	}
	if o.Health == nil {
		o.Health = func() error { return nil }
	}
	tracer, _ := o.Node.(host.Tracer)
	documents, _ := o.Node.(trace.Documents)
	sampler, _ := o.Node.(trace.Sampler)
	finder, _ := o.Node.(trace.Finder)
	follower, _ := o.Node.(trace.Follower)
	meter, _ := o.Node.(usage.Meter)
	log, _ := o.Node.(audit.Log)
	live, _ := o.Node.(liveFeed)
	g := &Gateway{
		tracer:    tracer,
		documents: documents,
		sampler:   sampler,
		finder:    finder,
		follower:  follower,
		meter:     meter,
		log:       log,
		live:      live,
		front:     f,
		opts:      o,
		node:      o.Node,
		creations: make(map[string]string),
		open:      make(map[string]host.Open),
		metrics:   promhttp.HandlerFor(f.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}),
		values: headerValues{json: []string{"application/json"},
			cbor: []string{"application/cbor"}, yes: []string{"true"}},
	}
	g.denoKV = kvconnect.Handler{Call: g.node.Call, Watch: g.node.WatchKV, Operation: g.operation}
	g.entries = newEntries(g.node.Call, g.operation)
	g.codebolt = codebolt.New(g.node.Call, g.operation)
	g.keyVal = keyval.New(g.node, g.operation)
	g.strata = strata.New(g.node.Call, g.operation)
	for _, b := range f.Behaviors {
		g.open[b.Type] = b.Open()
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
	return g
}

// An exchange is one request and its response.
type exchange struct {
	serve.Exchange
	g *Gateway
	// traceparent is for the calls that the request makes; "" if the request is part of no trace.
	traceparent string
	span, cause host.Span
	about       host.Address // its actor
	name        string       // the requested operation
}

// ServeHTTP answers one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := exchange{g: g, Exchange: serve.Exchange{Front: g.front, W: w, R: r, Start: time.Now()}}
	defer x.endTrace()
	defer x.Finish()
	x.serve()
}

// methods lists the HTTP methods of a route, in the form of the Allow header.
func (rt route) methods() string {
	switch rt {
	case toCall, toKV, toStrata, toQueryMany:
		return "POST, OPTIONS"
	case toActor, toEntry:
		return "GET, HEAD, PUT, DELETE, OPTIONS"
	case toEvents, toQueue, toStream, toFeed, toCodeboltEvents:
		return "GET, OPTIONS"
	case toWatch:
		return "GET, POST, OPTIONS"
	case toSQLite:
		return "GET, PUT, OPTIONS"
	case toSampling:
		return "GET, HEAD, PUT, OPTIONS"
	case toConnect:
		return "GET, POST, DELETE, OPTIONS"
	case toCodebolt, toKeyVal:
		return "GET, HEAD, POST, PUT, DELETE, OPTIONS"
	}
	return "GET, HEAD, OPTIONS"
}

// brief reports whether a GET of the route answers with a document, not a stream.
func (rt route) brief() bool {
	switch rt {
	case toActor, toKeys, toTraces, toAudit, toList, toRuns, toRunCounts, toSampling, toTrace,
		toUsage, toTop, toChanges, toHealth, toMetrics, toOpenAPI, toDashboard:
		return true
	}
	return false
}

func (x *exchange) serve() {
	g, r, door := x.g, x.R, x.Front.Door
	x.Uncounted = true // until its host is checked and it is not a preflight
	if e := door.CheckHost(r.Host); e != nil {
		x.Fail(e)
		return
	}
	foreign := door.CheckOrigin(x.W, r, exposedHeaders)
	t, fault := parseTarget(r.URL)
	if r.Method == http.MethodOptions && serve.Preflight(r) { // it has no token
		if foreign != nil {
			x.Fail(foreign)
			return
		}
		x.AllowMethods(t.route.methods(), allowedHeaders)
		return
	}
	x.Uncounted = t.route == toHealth || t.route == toMetrics || t.route == toOpenAPI || t.route == toDashboard
	// The token is checked before the rest of the request, so that a client without it cannot
	// distinguish routes, names or faults. A WebSocket gets the error over the WebSocket, because
	// browsers show their pages nothing of a failed handshake.
	upgrade := (t.route == toConnect || t.route == toWatch || t.route == toFeed ||
		t.route == toCodeboltEvents) && r.Method == http.MethodGet &&
		strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	free := (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		(t.route == toHealth || t.route == toDashboard && g.opts.Dashboard != nil)
	var stranger *host.Error
	if !upgrade && !free {
		stranger = x.admit(&t)
	}
	if e := cmp.Or(stranger, foreign); e != nil {
		x.Fail(e)
		return
	}
	switch t.route {
	case toKV:
		x.Text = true
	case toCodebolt, toCodeboltEvents, toKeyVal:
		x.Form = serve.Brief
	case toStrata:
		x.Form = strata.Form
	}
	switch {
	case r.Method == http.MethodOptions && r.URL.Path == "*":
		x.Uncounted = true
		x.AllowMethods("GET, HEAD, POST, PUT, DELETE, OPTIONS", allowedHeaders)
		return
	case fault != nil:
		x.Fail(fault)
		return
	case t.route == nowhere, (t.route == toSQLite || t.route == toQueryMany) && g.opts.Databases == nil,
		(t.route == toRuns || t.route == toRunCounts) && g.opts.Runs == nil, t.route == toTraces &&
			g.documents == nil, t.route == toAudit && g.log == nil,
		t.route == toSampling && g.sampler == nil, t.route == toTrace &&
			g.finder == nil, (t.route == toUsage || t.route == toTop) &&
			g.meter == nil, t.route == toChanges && g.live == nil, t.route == toDashboard && g.opts.Dashboard == nil:
		x.Fail(host.Errorf(host.NotFound, "there is nothing at this path; see docs/http.md for the paths"))
		return
	case r.Method == http.MethodOptions:
		x.Uncounted = true
		x.AllowMethods(t.route.methods(), allowedHeaders)
		return
	}
	if !x.Uncounted && x.Front.Closing() && !upgrade { // a WebSocket gets the error in its own way
		x.W.Header().Set("Connection", "close")
		x.Fail(serve.ErrShutdown)
		return
	}
	if t.Type != "" {
		x.beginTrace(&t)
	}
	if x.operates(&t) {
		x.Identify()
	}
	switch t.route {
	case toEntry:
		g.entries.Serve(&x.Exchange, t.Address, t.segments)
		return
	case toCodebolt:
		g.codebolt.Serve(&x.Exchange, t.Address, t.segments)
		return
	case toKeyVal:
		g.keyVal.Serve(&x.Exchange, t.Address, t.segments)
		return
	case toStrata:
		g.strata.Serve(&x.Exchange, t.Address, t.segments)
		return
	}
	method := r.Method
	if method == http.MethodHead && t.route.brief() {
		method = http.MethodGet // net/http omits the body
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
	case t.route == toTraces && method == http.MethodGet:
		x.traces(&t)
	case t.route == toAudit && method == http.MethodGet:
		x.audit(&t)
	case t.route == toEvents && method == http.MethodGet:
		x.events(&t)
	case t.route == toWatch && (method == http.MethodGet || method == http.MethodPost):
		x.watch(&t, upgrade)
	case t.route == toFeed && method == http.MethodGet:
		x.feed(&t, upgrade)
	case t.route == toCodeboltEvents && method == http.MethodGet:
		x.codeboltEvents(&t)
	case upgrade:
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
	case t.route == toKV && method == http.MethodPost:
		g.denoKV.Serve(&x.Exchange, t.Address, t.name)
	case t.route == toList && method == http.MethodGet:
		x.list()
	case t.route == toQueryMany && method == http.MethodPost:
		x.queryMany()
	case t.route == toRuns && method == http.MethodGet:
		x.runs()
	case t.route == toRunCounts && method == http.MethodGet:
		x.runCounts()
	case t.route == toSampling && (method == http.MethodGet || method == http.MethodPut):
		x.sampling()
	case t.route == toTrace && method == http.MethodGet:
		x.findTrace()
	case t.route == toUsage && method == http.MethodGet:
		x.usage()
	case t.route == toChanges && method == http.MethodGet:
		x.liveChanges()
	case t.route == toTop && method == http.MethodGet:
		x.top()
	case t.route == toHealth && method == http.MethodGet:
		x.health()
	case t.route == toMetrics && method == http.MethodGet:
		x.metrics()
	case t.route == toOpenAPI && method == http.MethodGet:
		x.openapi()
	case t.route == toDashboard && method == http.MethodGet:
		x.Pass(g.opts.Dashboard)
	default:
		x.W.Header().Set("Allow", t.route.methods())
		x.FailStatus(host.Errorf(host.InvalidArgument, "the method %s does not apply to this path", r.Method),
			http.StatusMethodNotAllowed)
	}
}

// limited bounds how long the node may take.
func (x *exchange) limited() (context.Context, func()) {
	return x.g.limited(x.R.Context(), "")
}

// limited bounds how long the node may take to run a method.
func (g *Gateway) limited(ctx context.Context, method string) (context.Context, func()) {
	d := g.front.Limits.CallTimeout
	if d <= 0 {
		return ctx, func() {}
	}
	if waits(method) {
		d += maxWait
	}
	c := timed.Until(ctx, time.Now().Add(d)) // most calls never use Done: the node has a timer for them
	return c, c.Cancel
}
