// Package call turns requests into turns and queries. It has the built-in methods that parts bind,
// and runs queries beside the turns of actors.
package call

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A Server is a part with built-in methods.
type Server interface {
	Methods() []*Method
}

// A Router is the part that carries requests to the actors of a kernel.
type Router struct {
	// Methods are the methods that every actor has, by name.
	Methods  map[string]*Method
	k        *kernel.Kernel
	audit    *audit.Log // nil if the node has none
	newQuery func() HandlerQuery
	runs     runs
	queries  *prometheus.CounterVec
}

var (
	_ kernel.Router   = (*Router)(nil)
	_ kernel.Opener   = (*Router)(nil)
	_ kernel.Declarer = (*Router)(nil)
	_ kernel.Meter    = (*Router)(nil)
)

// New makes a Router with the built-in methods of parts. query makes the view of a query's handler.
func New(parts []kernel.Part, query func() HandlerQuery) (*Router, error) {
	p := &Router{Methods: make(map[string]*Method), newQuery: query, queries: prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: "cairn_queries_total",
			Help: "Queries answered, by result: ok or error."}, []string{"type", "result"})}
	for server := range attach.As[Server](parts) {
		if err := p.bind(server.Methods()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// bind adds built-in methods of a part.
func (p *Router) bind(methods []*Method) error {
	for _, b := range methods {
		name := b.Row.Name
		switch _, known := method.Find(name); {
		case !known:
			return fmt.Errorf("call: the table of built-in methods has no %q", name)
		case p.Methods[name] != nil:
			return fmt.Errorf("call: two parts have the built-in method %q", name)
		case b.Run != nil && b.Row.Kind != host.Action, b.query != nil &&
			b.Row.Kind != host.Query, (b.wait != nil || b.waits) != b.Row.Waits:
			return fmt.Errorf("call: the built-in method %q is not bound as its row says", name)
		}
		p.Methods[name] = b
	}
	return nil
}

// GoOffline keeps the methods that work on a store without a node, for a kernel that is not
// started. They are bare: nothing wakes, and no core needs to follow their changes.
func (p *Router) GoOffline() {
	p.k.Offline = true
	for name, b := range p.Methods {
		if b.Procedure.Bare = b.Row.Offline; !b.Row.Offline {
			delete(p.Methods, name)
		}
	}
}

// Name implements kernel.Part.
func (p *Router) Name() string { return "call" }

// Open implements kernel.Opener.
func (p *Router) Open(k *kernel.Kernel) error {
	p.k, k.Router, p.audit = k, p, audit.LogOf(k)
	return nil
}

// Close implements kernel.Opener.
func (p *Router) Close(*kernel.Kernel) error {
	p.runs.close()
	return nil
}

// Collectors implements kernel.Meter.
func (p *Router) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.queries}
}

// Declare implements kernel.Declarer.
func (p *Router) Declare(t *kernel.Type) error {
	attach.Make(&t.Attached, func() *counters {
		return &counters{p.queries.WithLabelValues(t.Type, "ok"), p.queries.WithLabelValues(t.Type, "error")}
	})
	return nil
}

// counters count the queries of an actor type.
type counters struct{ ok, failed prometheus.Counter }

func countersOf(t *kernel.Type) *counters { return attach.Get[*counters](&t.Attached) }

func (n *counters) count(err error) {
	if err == nil {
		n.ok.Inc()
	} else {
		n.failed.Inc()
	}
}

// maxDepth bounds how deep calls may nest, so that queries that call each other end in an error,
// not in exhausted memory.
const maxDepth = 64

// Route implements kernel.Router.
func (p *Router) Route(ctx context.Context, r *host.Request, from *kernel.Caller) (host.Reply, error) {
	if from == nil {
		if g := token.Of(ctx); g != nil {
			return p.granted(ctx, g, r)
		}
	}
	return p.route(ctx, r, from)
}

// route carries a request, and records it.
func (p *Router) route(ctx context.Context, r *host.Request, from *kernel.Caller) (host.Reply, error) {
	cause := host.ParseSpan(r.Traceparent)
	switch {
	case !cause.IsZero():
	case from != nil:
		cause = from.Span.Span()
	default:
		cause = host.SpanOf(ctx)
	}
	t, err := p.k.StoredTypeOf(r.Address)
	if err != nil {
		return host.Reply{}, err
	}
	if p.k.Tracer == nil {
		return p.carry(ctx, t, r, from, cause)
	}
	s := host.Untraced
	if r.Method != host.TraceRead { // it would show itself
		s = p.k.Tracer.Begin(t, cause)
	}
	if !s.Sampled() {
		return p.carry(ctx, t, r, from, s)
	}
	return p.recorded(ctx, t, r, from, s, cause)
}

// carry carries a request for an actor of a type, with its span.
func (p *Router) carry(ctx context.Context, t *kernel.Type, r *host.Request, from *kernel.Caller,
	span host.Span) (host.Reply, error) {
	if b := p.Methods[r.Method]; t.Retired && (b == nil || !b.Procedure.Bare && b.serve == nil) {
		return host.Reply{}, fault.UnknownType(t.Type)
	}
	if r.Value != nil {
		if b := p.Methods[r.Method]; b == nil || !b.values && (b.query == nil || b.wait != nil) ||
			r.IdempotencyKey != "" {
			return host.Reply{}, host.Errorf(host.InvalidArgument, "%q does not take its input as a value", r.Method)
		}
	}
	method := -1
	kind := host.Creation
	if r.Method != "" || !r.Create {
		i, ok := t.ByName[r.Method]
		if !ok {
			if b := p.Methods[r.Method]; b != nil {
				return p.builtin(ctx, t, b, r, from, span)
			}
			return host.Reply{}, fault.UnknownMethod(t.Type, r.Method)
		}
		method, kind = i, t.Methods[i].Kind
	}
	create := r.Create || kind == host.Creation
	if from == nil {
		if p.k.Draining.Load() {
			return host.Reply{}, fault.Unavailable("the node is shutting down")
		}
		if err := p.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	} else if from.Depth >= maxDepth {
		return host.Reply{}, host.Errorf(host.Cycle, "calls are nested more than %d deep", maxDepth)
	}
	if kind == host.Query {
		if r.Create {
			return host.Reply{},
				host.Errorf(host.InvalidArgument, "%q is a query and cannot create an actor",
					r.Method).With("create", r.Method)
		}
		return p.query(ctx, t, method, r, from, span)
	}
	if err := p.k.Pauses.Refuse(r.Address); err != nil {
		return host.Reply{}, err
	}
	return p.turn(ctx, t, r, from, span, kernel.Call{Method: method, Create: create}, r.Existing && !create)
}
