package supervisor

import (
	"context"
	"errors"

	"github.com/cairn-run/cairn/actor/host"
)

// maxDepth bounds how deep calls may nest, so that queries which call each other end in an error and not in memory.
const maxDepth = 64

// maxIdempotencyKey bounds an idempotency key, in bytes.
const maxIdempotencyKey = 255

// Call implements host.Node.
func (s *Supervisor) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return s.call(ctx, r, callerOf(ctx))
}

// call routes a request that comes from outside (from is nil) or from a turn or query.
func (s *Supervisor) call(ctx context.Context, r *host.Request, from *caller) (host.Reply, error) {
	t, err := s.storedTypeOf(r.Address)
	if err != nil {
		return host.Reply{}, err
	}
	if b := s.builtins[r.Method]; t.retired && (b == nil || !b.bare && b.serve == nil) {
		return host.Reply{}, unknownType(t.Type)
	}
	method := -1
	kind := host.Creation
	if r.Method != "" || !r.Create {
		i, ok := t.methods[r.Method]
		if !ok {
			if b := s.builtins[r.Method]; b != nil {
				return s.callBuiltin(ctx, t, b, r, from)
			}
			return host.Reply{}, unknownMethod(t.Type, r.Method)
		}
		method, kind = i, t.Methods[i].Kind
	}
	create := r.Create || kind == host.Creation
	if from == nil {
		if s.draining.Load() {
			return host.Reply{}, unavailable("the node is shutting down")
		}
		if err := s.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	} else if from.depth >= maxDepth {
		return host.Reply{}, host.Errorf(host.Cycle, "calls are nested more than %d deep", maxDepth)
	}
	if kind == host.Query {
		if r.Create {
			return host.Reply{}, host.Errorf(host.InvalidArgument, "%q is a query and cannot create an actor", r.Method).With("create", r.Method)
		}
		return s.query(ctx, t, method, r, from)
	}
	if err := s.pauses.refuse(r.Address); err != nil {
		return host.Reply{}, err
	}
	return s.callTurn(ctx, t, r, from, func(w *work) {
		w.method, w.create, w.existing = method, create, r.Existing && !create
	})
}

// callTurn has an actor run a request as a turn; what says which.
func (s *Supervisor) callTurn(ctx context.Context, t *actorType, r *host.Request, from *caller, what func(*work)) (host.Reply, error) {
	if len(r.IdempotencyKey) > maxIdempotencyKey {
		return host.Reply{}, host.OverLimit("idempotency key bytes", maxIdempotencyKey, int64(len(r.IdempotencyKey)))
	}
	w := s.pool.get()
	w.calls()
	w.ctx, w.codec, w.input = ctx, r.Codec, r.Input
	w.idempotencyKey, w.traceparent, w.connection = r.IdempotencyKey, r.Traceparent, r.Connection
	what(w)
	if err := from.extend(ctx, w); err != nil {
		return host.Reply{}, err
	}
	if _, err := s.submitted(t, r.Address, w, from); err != nil {
		return host.Reply{}, err
	}
	placed(r)
	if err := w.await(ctx); err != nil {
		return host.Reply{}, err
	}
	reply := host.Reply{Output: w.out, Version: uint64(w.version), Replayed: w.replayed}
	s.pool.put(w)
	return reply, nil
}

// extend gives w its place in the chain of calls, and lets the turn that makes the call commit what came before it.
func (from *caller) extend(ctx context.Context, w *work) error {
	if from == nil {
		return nil
	}
	w.chain = from.depth + 1
	if w.traceparent == "" {
		w.traceparent = from.traceparent
	}
	if from.beside {
		return nil
	}
	t := from.turn
	if t == nil {
		return errQueryWrites()
	}
	if ctx.Done() == nil { // asked before the turn is locked: it may be the turn's own
		w.ctx = t // a call without a deadline of its own has the turn's
	}
	return t.flush()
}

// Destroy implements host.Node.
func (s *Supervisor) Destroy(ctx context.Context, a host.Address) error {
	return s.destroy(ctx, a, callerOf(ctx))
}

func (s *Supervisor) destroy(ctx context.Context, addr host.Address, from *caller) error {
	t, err := s.storedTypeOf(addr)
	if err != nil {
		return err
	}
	if from == nil && s.draining.Load() {
		return unavailable("the node is shutting down")
	}
	w := s.pool.get()
	w.job, w.ctx, w.existing = destroying{}, ctx, true
	if err := from.extend(ctx, w); err != nil {
		return err
	}
	if _, err := s.submit(ctx, t, addr, w, from); err != nil {
		return err
	}
	s.pool.put(w)
	return nil
}

// submit posts w and waits for its result; for calls that somebody waits for.
func (s *Supervisor) submit(ctx context.Context, t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	a, err := s.submitted(t, addr, w, from)
	if err != nil {
		return nil, err
	}
	return a, w.await(ctx)
}

// await waits for the result of w, which is in a mailbox.
func (w *work) await(ctx context.Context) error {
	if done := ctx.Done(); done != nil {
		select {
		case <-w.done:
		case <-done:
			w.leave()
			if w.claim() {
				return contextError(ctx) // the turn may still run; its result has no taker
			}
			<-w.done
		}
	} else {
		<-w.done
	}
	return w.err
}

// placed notes that a request has its place among those of the same client.
func placed(r *host.Request) {
	if r.Order != nil {
		r.Order.Placed()
	}
}

// inOrder waits until a request that only reads may begin: until the turns before it are answered.
func inOrder(ctx context.Context, r *host.Request) error {
	if r.Order != nil && !r.Order.Reads(ctx) {
		return contextError(ctx)
	}
	return nil
}

// submitted posts w with its wait edge.
func (s *Supervisor) submitted(t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	for {
		a := s.activation(t, addr)
		if a == nil {
			return nil, unavailable("the node is shutting down")
		}
		if from != nil && from.waiter != nil {
			w.waits = &s.waits
			if err := s.waits.enter(from.waiter.a, a, w); err != nil {
				return nil, err
			}
		}
		err := a.enqueue(w)
		if err == nil {
			return a, nil
		}
		w.leave()
		if !errors.Is(err, errGone) {
			return nil, err
		}
	}
}

// ask has an actor run work of the runtime's own, and waits for it.
func (s *Supervisor) ask(ctx context.Context, on target, what func(*work)) error {
	w := s.pool.get()
	w.ctx, w.existing, w.traceparent = ctx, true, on.traceparent
	what(w)
	if err := on.from.extend(ctx, w); err != nil {
		return err
	}
	if _, err := s.submit(ctx, on.typ, on.addr, w, on.from); err != nil {
		return err
	}
	s.pool.put(w)
	return nil
}

// mustExist returns an error with code NotFound if there is no actor at addr.
func (s *Supervisor) mustExist(addr host.Address) error {
	_, ok, err := s.store.Lookup(s.identity(addr))
	if err == nil && !ok {
		return notFound(addr)
	}
	if err != nil {
		return s.storeError(err)
	}
	return nil
}
