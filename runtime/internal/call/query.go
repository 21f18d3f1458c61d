package call

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

// A Query is one query's run: while its caller waits, beside the actor's turns, on the state of
// one applied commit. The answer passes the reply gate like any other.
//
// It is the context of its query: the caller's, with the time limit of the type. The limit costs
// nothing until something waits for Done.
type Query struct {
	context.Context                              // the caller's
	began           time.Duration                // as Kernel.Now returned it
	timed           atomic.Pointer[timedContext] // nil until the first call of Done
	Actor           *kernel.Actor
	View            *view.View
	from            kernel.Caller
	own             atomic.Pointer[ownSpan] // nil until the handler uses its span
	Request         *host.Request           // the request; the caller must not change it while the query runs

	mu      sync.Mutex
	Closed  bool
	peeks   uint8 // reads without a snapshot
	snap    *engine.Snapshot
	Session Session // the database's; goroutines of the handler may still use it when the handler has returned; nil if there is none
}

// Enter locks the query for one operation of the handler.
func (r *Query) Enter() error {
	r.mu.Lock()
	if r.Closed {
		r.mu.Unlock()
		return host.Errorf(host.FailedPrecondition,
			"the query is over: a handler's context must not be used after it returned")
	}
	return nil
}

// Lock is Enter for code that looks at Closed.
func (r *Query) Lock() { r.mu.Lock() }

// Leave implements Scope.
func (r *Query) Leave() { r.mu.Unlock() }

// Reader implements Scope.
func (r *Query) Reader() (engine.Reader, error) {
	if r.snap == nil && r.View.Store != nil {
		return latest{r}, nil
	}
	return r.Snapshot()
}

// maxPeeks bounds the reads of a query without a snapshot. A snapshot is faster for many reads.
const maxPeeks = 4

// latest reads the database as of a query's view, with a snapshot only if needed: an entry that no
// commit after the view has written is the view's.
type latest struct{ *Query }

// Get implements engine.Reader.
func (l latest) Get(key []byte) (engine.Entry, bool, error) {
	if l.snap == nil && l.peeks < maxPeeks {
		l.peeks++
		e, known, err := l.View.Store.Peek(l.View.ID, key)
		if err != nil || known && e.Version <= l.View.Version {
			return e, known, err
		}
	}
	s, err := l.Snapshot()
	if err != nil {
		return engine.Entry{}, false, err
	}
	return s.Get(key)
}

// List implements engine.Reader.
func (l latest) List(q engine.ListQuery) (engine.Page, error) {
	s, err := l.Snapshot()
	if err != nil {
		return engine.Page{}, err
	}
	return s.List(q)
}

// Each implements engine.Reader.
func (l latest) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	s, err := l.Snapshot()
	if err != nil {
		return err
	}
	return s.Each(q, visit)
}

// Now implements Scope.
func (r *Query) Now() time.Time { return time.Now() }

// ID implements Scope.
func (r *Query) ID() keyspace.ActorID { return r.View.ID }

// Type implements Scope.
func (r *Query) Type() *kernel.Type { return r.Actor.Type }

func (r *Query) close() {
	r.mu.Lock()
	r.Closed = true
	r.mu.Unlock()
	if r.snap != nil {
		r.snap.DropPlace()
	}
	if r.Session != nil {
		r.Session.End()
	}
	if c := r.timed.Load(); c != nil {
		c.cancel()
	}
	r.Actor.ReleaseView(r.View)
}

// Snapshot returns the database as of the view. Entries that have expired by the query's first read
// are absent, even if another query of the view may have read them before.
//
// REQUIRES: r.mu
func (r *Query) Snapshot() (*engine.Snapshot, error) {
	if r.snap == nil {
		s, err := r.Actor.SnapshotOf(r.View)
		if err != nil {
			return nil, err
		}
		r.snap = s.At(time.Now().UnixMilli())
	}
	return r.snap, nil
}

// A timedContext is a context with a deadline, and its release.
type timedContext struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline implements context.Context.
func (r *Query) Deadline() (time.Time, bool) {
	end := r.end()
	if d, ok := r.Context.Deadline(); ok && d.Before(end) {
		return d, true
	}
	return end, true
}

// end returns when the query must end.
func (r *Query) end() time.Time {
	return r.Actor.Kernel.Started.Add(r.began + min(r.Actor.Type.Base.QueryTimeout, math.MaxInt64-r.began))
}

// Done implements context.Context.
func (r *Query) Done() <-chan struct{} {
	if c := r.timed.Load(); c != nil {
		return c.Done()
	}
	ctx, cancel := context.WithDeadline(r.Context, r.end())
	if !r.timed.CompareAndSwap(nil, &timedContext{ctx, cancel}) {
		cancel()
	}
	return r.timed.Load().Done()
}

// Err implements context.Context.
func (r *Query) Err() error {
	if c := r.timed.Load(); c != nil {
		return c.Err()
	}
	if err := r.Context.Err(); err != nil {
		return err
	}
	if r.Actor.Kernel.Now()-r.began >= r.Actor.Type.Base.QueryTimeout {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (r *Query) Value(key any) any {
	if key == (kernel.TurnKey{}) {
		return &r.from
	}
	if v := r.spanValue(key); v != nil {
		return v
	}
	if c := r.timed.Load(); c != nil {
		return c.Value(key)
	}
	return r.Context.Value(key)
}

// spanValue returns the value of a key in the context of the query's span. A handler that uses its
// span gets one of its own, below that of the call, which is recorded when the query ends.
func (r *Query) spanValue(key any) any {
	to, s := r.Actor.Spans, r.from.Span.Span()
	v := span.Value(to, s, nil, key)
	if v == nil || !s.Sampled() {
		return v
	}
	r.own.CompareAndSwap(nil, new(ownSpan))
	own := r.own.Load()
	own.once.Do(func() {
		own.op, _ = span.New(to, "query", r.Request.Method, s)
		span.Start(to, own.op)
	})
	if own.op == nil { // the query is over
		return v
	}
	return span.Value(to, own.op.Span, own.op, key)
}

// An ownSpan is a handler's span. It is made once, and not when the query is over.
type ownSpan struct {
	once sync.Once
	op   *span.Operation
}

// Self implements host.Reader.
func (r *Query) Self() host.Identity {
	return host.Identity{Type: r.Actor.Address.Type, Key: r.Actor.Address.Key, ID: r.View.ID.String()}
}

// Logger implements host.Reader.
func (r *Query) Logger() *slog.Logger {
	return r.Actor.Logger(r.View.ID, uint64(r.View.Version), r.attrs()...)
}

// attrs are the log attributes of the span of the query.
func (r *Query) attrs() []slog.Attr { return r.from.Span.Span().Attrs() }

// Version implements host.Reader.
func (r *Query) Version() uint64 { return uint64(r.View.Version) }

// Traceparent implements host.Reader.
func (r *Query) Traceparent() string { return r.from.Span.Span().String() }

// Call implements host.Node: a query may call queries only.
func (r *Query) Call(ctx context.Context, q *host.Request) (host.Reply, error) {
	return r.Actor.Kernel.CallFrom(ctx, q, &r.from)
}

// Destroy implements host.Node.
func (r *Query) Destroy(context.Context, host.Address) error { return fault.QueryWrites() }

// A Session may still be used by goroutines of a query when its handler has returned. End waits for
// them.
type Session interface{ End() }

// A HandlerQuery is the view of a query's handler.
type HandlerQuery interface {
	host.Reader
	base
}

// base is the part of a HandlerQuery that the embedded Query gives it.
type base interface{ query() *Query }

func (r *Query) query() *Query { return r }

// query answers a query while its caller waits, without a turn.
func (p *Router) query(ctx context.Context, t *kernel.Type, method int, req *host.Request,
	from *kernel.Caller, span host.Span) (host.Reply, error) {
	h := p.newQuery()
	r := h.query()
	if err := p.open(ctx, r, t, req, from, span, false); err != nil {
		return host.Reply{}, err
	}
	out, err := p.runs.run(h, method)
	return r.answer(t.Methods[method].Name, out, err)
}

// queryBuiltin answers a built-in query by a function, even for an actor that does not wake: such a
// query runs none of its code.
func (p *Router) queryBuiltin(ctx context.Context, t *kernel.Type, req *host.Request,
	from *kernel.Caller, span host.Span, b *Method, f func(*Query) ([]byte, error)) (host.Reply, error) {
	r := new(Query)
	err := p.open(ctx, r, t, req, from, span, b.unwoken)
	if host.CodeOf(err) == host.ActorFailed {
		a, v, serr := p.k.StandIn(ctx, t, req.Address)
		if host.CodeOf(serr) == host.NotFound {
			return host.Reply{}, err
		}
		if err = serr; err == nil {
			r.init(ctx, a, v, req, nil, span)
		}
	}
	if err != nil {
		return host.Reply{}, err
	}
	out, err := r.guard(b.Row.Name, f)
	return r.answer(b.Row.Name, out, err)
}

// open makes r a query that reads the last commit, until it is answered. A sleeping actor is woken,
// or with unwoken read as it is.
func (p *Router) open(ctx context.Context, r *Query, t *kernel.Type, req *host.Request,
	from *kernel.Caller, span host.Span, unwoken bool) error {
	if from != nil && from.Kind == kernel.FromTurn {
		if err := from.Waiter.Flush(); err != nil {
			return err
		}
	}
	if err := inOrder(ctx, req); err != nil {
		return err
	}
	a := p.k.Find(req.Address)
	var v *view.View
	if a != nil {
		v = a.AcquireView()
	}
	if v == nil && unwoken {
		var err error
		if a, v, err = p.k.StandIn(ctx, t, req.Address); err != nil {
			return err
		}
	}
	for v == nil {
		// The actor sleeps, or does not exist yet: one turn brings it up, then the query reads what
		// that turn committed.
		var err error
		if a, err = p.k.Rouse(ctx, t, req, from, span); err != nil {
			return err
		}
		v = a.AcquireView()
	}
	placed(req)
	r.init(ctx, a, v, req, from, span)
	return nil
}

// init makes r a query that reads a view, until it is answered.
func (r *Query) init(ctx context.Context, a *kernel.Actor, v *view.View, req *host.Request,
	from *kernel.Caller, of host.Span) {
	r.began = a.Kernel.Now()
	a.Touch(r.began)
	r.Context, r.Actor, r.View, r.Request = ctx, a, v, req
	r.from = kernel.Caller{Kind: kernel.FromQuery, Span: span.RefTo(of)}
	if from != nil {
		r.from.Depth, r.from.Waiter = from.Depth+1, from.Waiter
	}
}

// answer ends a query: its output leaves when everything that it has read is durable.
func (r *Query) answer(name string, out []byte, err error) (host.Reply, error) {
	a, version, commit := r.Actor, r.View.Version, r.View.Commit
	r.close()
	if err != nil {
		err = a.Kernel.QueryError(a.Address, name, err, r.attrs()...)
	}
	if r.from.Span.Span().Sampled() {
		r.own.CompareAndSwap(nil, new(ownSpan))
		own := r.own.Load()
		own.once.Do(func() {})
		span.End(a.Spans, own.op, err)
	}
	took := a.Kernel.Now() - r.began
	if r.Request.Method != "" { // else it is a query of the runtime
		a.Tally.Query(took, len(out))
	}
	if a.Spans != nil && (err != nil || took > a.Spans.Slow()) {
		failed(a, name, r.from.Span.Span(), r.began, took, err)
	}
	if perr := a.Pass(r.Context, commit); perr != nil {
		return host.Reply{}, perr
	}
	countersOf(a.Type).count(err)
	if err != nil {
		return host.Reply{}, err
	}
	return host.Reply{Output: out, Version: uint64(version)}, nil
}

// guard runs f and turns a panic into an error.
func (r *Query) guard(name string, f func(*Query) ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, r.Actor.Kernel.Crashed(r.Actor.Address, name, p, r.attrs()...)
		}
	}()
	return f(r)
}

// Rows returns the actor's keys as of the query, and a function to call after reading.
func (r *Query) Rows() (engine.Reader, func(), error) {
	if err := r.Enter(); err != nil {
		return nil, nil, err
	}
	s, err := r.Snapshot()
	if err != nil {
		r.mu.Unlock()
		return nil, nil, err
	}
	return s, r.mu.Unlock, nil
}
