package kernel

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// maxIdempotencyKey bounds an idempotency key, in bytes.
const maxIdempotencyKey = 255

// Call implements host.Node.
func (s *Kernel) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return s.CallFrom(ctx, r, CallerOf(ctx))
}

// CallFrom routes a request that comes from outside (from is nil) or from a turn or query.
func (s *Kernel) CallFrom(ctx context.Context, r *host.Request, from *Caller) (host.Reply, error) {
	return s.Router.Route(ctx, r, from)
}

// CallTurn runs a request as a turn of an actor; j says which, and span is the call's. existing: it
// does not create the actor.
func (s *Kernel) CallTurn(ctx context.Context, t *Type, r *host.Request, from *Caller, span host.Span, j Call, existing bool) (host.Reply, error) {
	if len(r.IdempotencyKey) > maxIdempotencyKey {
		return host.Reply{}, host.OverLimit("idempotency key bytes", maxIdempotencyKey, int64(len(r.IdempotencyKey)))
	}
	w := s.Pool.Get()
	j.Codec, j.Input, j.Value, j.idempotencyKey, j.Connection = r.Codec, r.Input, r.Value, r.IdempotencyKey, r.Connection
	w.Call, w.Job, w.Ctx, w.Existing, w.Span, w.order = j, &w.Call, ctx, existing, span, r.Order
	if err := from.Extend(ctx, w); err != nil {
		return host.Reply{}, err
	}
	if _, err := s.do(ctx, t, r.Address, w, from); err != nil {
		return host.Reply{}, err
	}
	reply := host.Reply{Output: w.out, Version: uint64(w.version), Replayed: w.replayed, Value: w.Value}
	s.Pool.Put(w)
	return reply, nil
}

// Extend calls place, and commits the turns before the one that makes the call.
func (from *Caller) Extend(ctx context.Context, w *Work) error {
	if from == nil {
		return nil
	}
	from.place(ctx, w) // reads ctx before the turn is locked: it may be the turn's own
	switch from.Kind {
	case FromTurn:
		return from.Waiter.Flush()
	case FromQuery:
		return fault.QueryWrites()
	}
	return nil
}

// place gives w its place in the chain of calls.
func (from *Caller) place(ctx context.Context, w *Work) {
	w.Chain = from.Depth + 1
	if from.Waiter != nil && ctx.Done() == nil {
		w.Ctx = from.Waiter // a call without a deadline of its own has the turn's
	}
}

// Destroy implements host.Node.
func (s *Kernel) Destroy(ctx context.Context, a host.Address) error {
	return s.DestroyFrom(ctx, a, CallerOf(ctx))
}

// DestroyFrom destroys the actor at addr; from is nil if no turn or query makes the call.
func (s *Kernel) DestroyFrom(ctx context.Context, addr host.Address, from *Caller) error {
	t, err := s.StoredTypeOf(addr)
	if err != nil {
		return err
	}
	if from == nil && s.Draining.Load() {
		return fault.Unavailable("the node is shutting down")
	}
	return s.Ask(context.WithValue(ctx, TurnKey{}, from), Target{Typ: t, Addr: addr, From: from}, destroying{})
}

// do posts w and waits for its result.
func (s *Kernel) do(ctx context.Context, t *Type, addr host.Address, w *Work, from *Caller) (*Actor, error) {
	a, err := s.Post(t, addr, w, from)
	if err != nil {
		return nil, err
	}
	if !timed.Await(ctx, w.Done, &w.timer) {
		w.Leave()
		if w.Claim() {
			return a, fault.Ended(ctx) // the turn may still run; its result is dropped
		}
		<-w.Done
	}
	return a, w.Err
}

// Post puts work into an actor's mailbox, making the Actor if needed. from is the turn or query
// that waits for the work; nil if none does.
func (s *Kernel) Post(t *Type, addr host.Address, w *Work, from *Caller) (*Actor, error) {
	for {
		a := s.ActorAt(t, addr)
		if a == nil {
			return nil, fault.Unavailable("the node is shutting down")
		}
		if from != nil && from.Waiter != nil {
			if err := w.Wait(from.Waiter.Actor, a); err != nil {
				return nil, err
			}
		}
		err := a.Enqueue(w)
		if err == nil {
			if w.order != nil {
				w.order.Placed()
			}
			return a, nil
		}
		w.Leave()
		if err != errGone { // else it left memory between the look-up and now
			return nil, err
		}
	}
}

// Rouse wakes the actor for a query, creating it if need be, and returns when it has a view.
func (s *Kernel) Rouse(ctx context.Context, t *Type, r *host.Request, from *Caller, span host.Span) (*Actor, error) {
	w := s.Pool.Get()
	w.Job, w.Ctx, w.Existing, w.Span = Waking{}, ctx, r.Existing, span
	if from != nil {
		from.place(ctx, w)
	}
	return s.do(ctx, t, r.Address, w, from)
}

// A Target is the actor that a verb is about, with its caller.
type Target struct {
	Typ  *Type
	Addr host.Address
	From *Caller
	// These are the request's.
	Codec  host.Codec
	Span   host.Span
	Veiled bool
	Order  host.Order // nil if there is none
}

// Ask runs a job of the runtime on an actor, and waits for it.
func (s *Kernel) Ask(ctx context.Context, on Target, job Job) error {
	w := s.Pool.Get()
	w.Job, w.Ctx, w.Existing, w.Span = job, ctx, true, on.Span
	if err := on.From.Extend(ctx, w); err != nil {
		return err
	}
	if _, err := s.do(ctx, on.Typ, on.Addr, w, on.From); err != nil {
		return err
	}
	s.Pool.Put(w)
	return nil
}
