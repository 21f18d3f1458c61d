package call

import (
	"context"
	"reflect"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// Guarded makes a method one that requests with a token may call, if f finds nothing in the input
// that the token does not allow.
//
//go:noinline
func Guarded[In any](b *Method, f func(g *token.Grant, in *In) error) *Method {
	b.guard = func(g *token.Grant, in any) error { return f(g, in.(*In)) }
	return b
}

// allowed returns an error if the token does not allow the input of a request.
func (b *Method) allowed(g *token.Grant, r *host.Request) error {
	in := r.Value
	if reflect.TypeOf(in) != b.input {
		in = b.Row.New()
		if err := wire.Decode(b.Row.Name, r.Codec, r.Input, in); err != nil {
			return err
		}
	}
	return b.guard(g, in)
}

// granted routes a request with a token. With the right inspect it may call every built-in method
// that reads. A token belongs to an existing actor, so none is created. A call that may wait ends
// with its token. All calls count against the rate of the actor, because the holder of a token is
// no operator.
func (p *Router) granted(ctx context.Context, g *token.Grant, r *host.Request) (reply host.Reply, err error) {
	b := p.Methods[r.Method]
	inspects := g.Rights&token.Inspect != 0
	switch {
	case inspects && (b == nil || b.guard == nil && b.Row.Kind != host.Query):
		return reply, token.Denied("calls of %.80q, only of built-in methods that read", r.Method)
	case b == nil || r.Create || b.guard == nil && !inspects:
		return reply, token.Denied("calls of %.80q, only of methods of the key-value store", r.Method)
	case b.guard != nil:
		if err := b.allowed(g, r); err != nil {
			return reply, err
		}
	}
	t, err := p.k.StoredTypeOf(r.Address)
	if err != nil {
		return reply, err
	}
	if !b.Row.Free && !b.Row.Counted(t.Open()) {
		if err := p.admit(t, r); err != nil {
			return reply, err
		}
	}
	own := *r
	own.Existing = true
	if own.IdempotencyKey != "" { // the keys of others must not be used
		own.IdempotencyKey = "token " + g.ID + " " + own.IdempotencyKey
	}
	if !b.Row.Waits {
		return p.route(ctx, &own, nil)
	}
	err = g.While(ctx, func(ctx context.Context) (err error) {
		reply, err = p.route(ctx, &own, nil)
		return err
	})
	if err != nil {
		return host.Reply{}, err
	}
	return reply, nil
}

// Look calls f with a query that reads the last commit of an existing actor, without waking it.
func (p *Router) Look(ctx context.Context, a host.Address, name string, f func(*Query) error) error {
	t, err := p.k.StoredTypeOf(a)
	if err != nil {
		return err
	}
	b := &Method{unwoken: true}
	b.Row.Name = name
	_, err = p.queryBuiltin(ctx, t, &host.Request{Address: a, Existing: true}, nil, host.Untraced,
		b, func(q *Query) ([]byte, error) { return nil, f(q) })
	return err
}

// RouterOf returns the router of a node.
func RouterOf(k *kernel.Kernel) *Router { return kernel.PartOf[*Router](k) }
