package call

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// builtin calls a built-in method. It waits for the result if the caller wants to.
func (p *Router) builtin(ctx context.Context, t *kernel.Type, b *Method, r *host.Request,
	from *kernel.Caller, span host.Span) (host.Reply, error) {
	if r.Create {
		return host.Reply{},
			host.Errorf(host.InvalidArgument, "%q cannot create an actor explicitly", r.Method).With("create", r.Method)
	}
	if from == nil && b.Row.Counted(t.Open()) {
		if err := p.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	}
	if b.wait == nil {
		return p.builtinOnce(ctx, t, b, r, from, span)
	}
	in := b.Row.New()
	if err := wire.Decode(b.Row.Name, r.Codec, r.Input, in); err != nil {
		return host.Reply{}, err
	}
	topic, ms := b.wait(in)
	if ms <= 0 {
		return p.builtinOnce(ctx, t, b, r, from, span)
	}
	if from != nil && from.Kind == kernel.FromTurn {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "%q cannot wait inside a turn", r.Method)
	}
	sub := p.k.Signals.Subscribe(string(address.Append(nil, r.Address)), topic)
	defer sub.Close()
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	for {
		reply, err := p.builtinOnce(ctx, t, b, r, from, span)
		nothing := err != nil || b.empty(in, r.Codec, reply.Output)
		if sub.Destroyed() && (nothing || b.OfLife) { // else it found something, perhaps the last act of the actor
			return host.Reply{}, fault.Destroyed()
		}
		if err != nil || !nothing {
			return reply, err
		}
		if r.Order != nil {
			r.Order.Waits()
		}
		select {
		case <-sub.C:
		case <-timer.C:
			return reply, nil
		case <-ctx.Done():
			return host.Reply{}, fault.Ended(ctx)
		case <-p.k.NoWaits():
			return host.Reply{}, fault.Unavailable("the node is shutting down")
		}
	}
}

func (p *Router) builtinOnce(ctx context.Context, t *kernel.Type, b *Method, r *host.Request,
	from *kernel.Caller, span host.Span) (host.Reply, error) {
	if from == nil && p.k.Draining.Load() {
		return host.Reply{}, fault.Unavailable("the node is shutting down")
	}
	if b.Row.Reasoned && !audit.Reasoned(ctx) {
		return host.Reply{},
			host.Errorf(host.InvalidArgument, "%s needs a reason, for the audit log", b.Row.Name).
				With("field", "reason")
	}
	ctx, entry, err := p.audit.Verb(ctx, b.Row, t.Open(), r, from)
	if err != nil {
		return host.Reply{}, err
	}
	if b.serve != nil {
		if b.reads {
			if err := inOrder(ctx, r); err != nil {
				return host.Reply{}, err
			}
		} else {
			placed(r)
		}
		out, err := b.serve(ctx, p.k, t, r, from, span)
		if err == nil {
			err = entry.Append(r.Address) // unless a turn has written it
		}
		return host.Reply{Output: out}, err
	}
	var reply host.Reply
	q, existing := r, r.Existing
	if b.query == nil {
		do := kernel.Call{Method: -1, Builtin: &b.Procedure}
		if sized, ok := r.Value.(interface{ Size() int64 }); ok {
			do.Bytes = sized.Size()
		}
		reply, err = p.turn(ctx, t, r, from, span, do, existing || !b.Row.Creating(t.Open()))
	} else {
		if r.Value == nil {
			own := *r
			q = &own
		}
		q.Existing = true
		reply, err = p.queryBuiltin(ctx, t, q, from, span, b, func(rd *Query) ([]byte, error) { return b.query(rd, q) })
		reply.Value = q.Value
	}
	if b.Missing != nil && host.CodeOf(err) == host.NotFound {
		q.Existing = existing
		reply.Output, err = b.Missing(t, q, err)
		reply.Value = q.Value
	}
	return reply, err
}

// placed marks that a request has its place among those of the same client.
func placed(r *host.Request) {
	if r.Order != nil {
		r.Order.Placed()
	}
}

// inOrder waits until a request that only reads may begin: until the turns before it are answered.
func inOrder(ctx context.Context, r *host.Request) error {
	if r.Order != nil && !r.Order.Reads(ctx) {
		return fault.Ended(ctx)
	}
	return nil
}
