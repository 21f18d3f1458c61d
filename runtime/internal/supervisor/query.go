package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A reader is one query's run: while its caller waits, beside the actor's turns, on the state of
// one applied commit. The answer passes the reply gate like any other.
//
// It is the context of its query: the caller's, with the time limit of the type. The limit costs nothing until something
// waits for Done.
type reader struct {
	context.Context             // the caller's
	host            host.Reader // what the handler is handed
	deadline        time.Time
	timed           atomic.Pointer[timedContext] // nil until something asks for Done
	a               *activation
	v               *view
	from            caller
	caller          string // the connection that the query came over

	mu      sync.Mutex
	closed  bool
	snap    *engine.Snapshot
	session querySession // what goroutines of the handler may still use when it has returned; nil if there is none
}

func (r *reader) enter() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return host.Errorf(host.FailedPrecondition, "the query is over: a handler's context must not be used after it returned")
	}
	return nil
}

// lock is enter for one who looks at closed.
func (r *reader) lock() { r.mu.Lock() }

func (r *reader) leave() { r.mu.Unlock() }

// reader implements scope.
func (r *reader) reader() (engine.Reader, error) { return r.snapshot() }

// Now implements scope.
func (r *reader) Now() time.Time { return time.Now() }

// id implements scope.
func (r *reader) id() keyspace.ActorID { return r.v.id }

// actorType implements scope.
func (r *reader) actorType() *actorType { return r.a.typ }

func (r *reader) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if r.session != nil {
		r.session.end()
	}
	if c := r.timed.Load(); c != nil {
		c.cancel()
	}
	r.a.releaseView(r.v)
}

// snapshot returns the database as of the view.
//
// REQUIRES: r.mu
func (r *reader) snapshot() (*engine.Snapshot, error) {
	if r.snap == nil {
		s, err := r.a.snapshotOf(r.v)
		if err != nil {
			return nil, err
		}
		r.snap = s
	}
	return r.snap, nil
}

// A timedContext is a context with a deadline, and its release.
type timedContext struct {
	context.Context
	cancel context.CancelFunc
}

// Deadline implements context.Context.
func (r *reader) Deadline() (time.Time, bool) {
	if d, ok := r.Context.Deadline(); ok && d.Before(r.deadline) {
		return d, true
	}
	return r.deadline, true
}

// Done implements context.Context.
func (r *reader) Done() <-chan struct{} {
	if c := r.timed.Load(); c != nil {
		return c.Done()
	}
	ctx, cancel := context.WithDeadline(r.Context, r.deadline)
	if !r.timed.CompareAndSwap(nil, &timedContext{ctx, cancel}) {
		cancel()
	}
	return r.timed.Load().Done()
}

// Err implements context.Context.
func (r *reader) Err() error {
	if c := r.timed.Load(); c != nil {
		return c.Err()
	}
	if err := r.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(r.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements context.Context.
func (r *reader) Value(key any) any {
	if key == (turnKey{}) {
		return &r.from
	}
	if c := r.timed.Load(); c != nil {
		return c.Value(key)
	}
	return r.Context.Value(key)
}

// Self implements host.Reader.
func (r *reader) Self() host.Identity {
	return host.Identity{Type: r.a.addr.Type, Key: r.a.addr.Key, ID: r.v.id.String()}
}

// Logger implements host.Reader.
func (r *reader) Logger() *slog.Logger { return r.a.logger(r.v.id, uint64(r.v.version)) }

// Version implements host.Reader.
func (r *reader) Version() uint64 { return uint64(r.v.version) }

// Traceparent implements host.Reader.
func (r *reader) Traceparent() string { return r.from.traceparent }

// Call implements host.Node: a query may call queries only.
func (r *reader) Call(ctx context.Context, q *host.Request) (host.Reply, error) {
	return r.a.sup.call(ctx, q, &r.from)
}

// Lookup implements host.Node.
func (r *reader) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return r.a.sup.Lookup(ctx, a)
}

// List implements host.Node.
func (r *reader) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return r.a.sup.List(ctx, q)
}

// Destroy implements host.Node.
func (r *reader) Destroy(context.Context, host.Address) error { return errQueryWrites() }

func errQueryWrites() error {
	return host.Errorf(host.ReadOnly, "a query cannot change anything, and neither can what it calls")
}

// query answers a query while its caller waits, without a turn.
func (s *Supervisor) query(ctx context.Context, t *actorType, method int, req *host.Request, from *caller) (host.Reply, error) {
	r, err := s.newReader(ctx, t, req, from)
	if err != nil {
		return host.Reply{}, err
	}
	out, err := s.queries.run(r, method, req)
	return r.answer(t.Methods[method].Name, out, err)
}

// queryBuiltin answers a built-in query by a function, also of an actor that does not wake: such a query runs no code of it.
func (s *Supervisor) queryBuiltin(ctx context.Context, t *actorType, req *host.Request, from *caller, name string, f func(*reader) ([]byte, error)) (host.Reply, error) {
	r, err := s.newReader(ctx, t, req, from)
	if host.CodeOf(err) == host.ActorFailed {
		snap, id, serr := s.durable(ctx, req.Address)
		if host.CodeOf(serr) == host.NotFound {
			return host.Reply{}, err
		}
		if serr != nil {
			return host.Reply{}, serr
		}
		head, serr := snap.Head()
		if serr != nil {
			snap.Close()
			return host.Reply{}, s.storeError(serr)
		}
		v := &view{version: head.Version, id: id, refs: 1, snapshot: snap}
		// It stands for the actor in this query, and is in no directory.
		a := newActivation(s, t, req.Address, string(appendAddress(nil, req.Address)))
		r, err = a.newReader(ctx, v, req, nil), nil
	}
	if err != nil {
		return host.Reply{}, err
	}
	out, err := r.guard(name, f)
	return r.answer(name, out, err)
}

// newReader makes the reader of a query that reads the last commit. Its answer releases it.
func (s *Supervisor) newReader(ctx context.Context, t *actorType, req *host.Request, from *caller) (*reader, error) {
	if from != nil && from.turn != nil {
		if err := from.turn.flush(); err != nil {
			return nil, err
		}
	}
	if err := inOrder(ctx, req); err != nil {
		return nil, err
	}
	a := s.find(req.Address)
	var v *view
	if a != nil {
		v = a.acquireView()
	}
	for v == nil {
		// The actor sleeps, or does not exist yet: one turn brings it up, then the query reads what that turn committed.
		var err error
		if a, err = s.rouse(ctx, t, req, from); err != nil {
			return nil, err
		}
		v = a.acquireView()
	}
	placed(req)
	return a.newReader(ctx, v, req, from), nil
}

// newReader makes the reader of a query that reads a view, which it releases.
func (a *activation) newReader(ctx context.Context, v *view, req *host.Request, from *caller) *reader {
	now := time.Now()
	a.lastUsed.Store(now.UnixMilli())
	r := a.sup.with.query()
	r.Context, r.a, r.v, r.caller, r.deadline = ctx, a, v, req.Connection, now.Add(a.typ.base.QueryTimeout)
	r.from = caller{a: a, traceparent: req.Traceparent}
	if from != nil {
		r.from.depth, r.from.waiter = from.depth+1, from.waiter
		if r.from.traceparent == "" {
			r.from.traceparent = from.traceparent
		}
	}
	return r
}

// answer ends a query: what it came to leaves when what it has read is durable.
func (r *reader) answer(name string, out []byte, err error) (host.Reply, error) {
	a, version, commit := r.a, r.v.version, r.v.commit
	r.close()
	if err != nil {
		err = a.sup.publicQuery(a, name, err)
	}
	if perr := a.pass(r.Context, commit); perr != nil {
		return host.Reply{}, perr
	}
	a.typ.metrics.query(err)
	if err != nil {
		return host.Reply{}, err
	}
	return host.Reply{Output: out, Version: uint64(version)}, nil
}

// guard runs f and turns a panic into an error.
func (r *reader) guard(name string, f func(*reader) ([]byte, error)) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, r.a.sup.crashed(r.a, name, p)
		}
	}()
	return f(r)
}

// rouse wakes the actor, creating it if need be, and returns when it has a view.
func (s *Supervisor) rouse(ctx context.Context, t *actorType, req *host.Request, from *caller) (*activation, error) {
	w := s.pool.get()
	w.job, w.ctx, w.existing, w.traceparent = waking{}, ctx, req.Existing, req.Traceparent
	if from != nil {
		w.chain = from.depth + 1
		if w.traceparent == "" {
			w.traceparent = from.traceparent
		}
		if from.waiter != nil && ctx.Done() == nil {
			w.ctx = from.waiter
		}
	}
	return s.submit(ctx, t, req.Address, w, from)
}

// rows returns the actor's keys as of the query, and what to call after reading.
func (r *reader) rows() (engine.Reader, func(), error) {
	if err := r.enter(); err != nil {
		return nil, nil, err
	}
	s, err := r.snapshot()
	if err != nil {
		r.mu.Unlock()
		return nil, nil, err
	}
	return s, r.mu.Unlock, nil
}
