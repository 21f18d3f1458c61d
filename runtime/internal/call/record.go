package call

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// recorded carries a request, and records the call. Of a turn that calls, it records what that waited for as well.
func (p *Router) recorded(ctx context.Context, r *host.Request, from *kernel.Caller, cause host.Span) (host.Reply, error) {
	if r.Method == host.TraceRead { // who looks at spans does not want to see that
		return p.carry(ctx, r, from, host.Untraced)
	}
	t, out := p.k.Types[r.Type], host.Span{}
	if from != nil && from.Kind == kernel.FromTurn && cause.Sampled() && cause == from.Span() {
		out = p.k.Begins(from.Waiter.Actor.Type, cause)
		cause = out
	}
	span := p.k.Begins(t, cause)
	began := time.Since(p.k.Started)
	reply, err := p.carry(ctx, r, from, span)
	if err == nil && !span.Sampled() {
		return reply, nil
	}
	if a := p.k.Find(r.Address); a != nil {
		p.k.Tracer.Record(a, p.operation("call", r, span, cause, began, err))
	}
	if out.Sampled() {
		p.k.Tracer.Record(from.Waiter.Actor, p.operation("request", r, out, from.Span(), began, err))
	}
	return reply, err
}

func (p *Router) operation(kind string, r *host.Request, span, cause host.Span, began time.Duration, err error) *kernel.Operation {
	start := p.k.Started.Add(began)
	return &kernel.Operation{Kind: kind, Name: r.Type + "." + r.Method, Span: span, Cause: cause, Began: start, Took: time.Since(start), Err: err}
}
