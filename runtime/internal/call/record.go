package call

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
)

// recorded carries a request, and records the call. Of a turn that calls, it records what that waited for as well.
func (p *Router) recorded(ctx context.Context, r *host.Request, from *kernel.Caller, cause host.Span) (host.Reply, error) {
	if r.Method == host.TraceRead { // it would show itself
		return p.carry(ctx, r, from, host.Untraced)
	}
	t, out := p.k.Types[r.Type], host.Span{}
	if from != nil && from.Kind == kernel.FromTurn && cause.Sampled() && cause == from.Span.Span() {
		out = p.k.Tracer.Begin(from.Waiter.Actor.Type, cause)
		cause = out
	}
	s := p.k.Tracer.Begin(t, cause)
	began := time.Since(p.k.Started)
	reply, err := p.carry(ctx, r, from, s)
	if err == nil && !s.Sampled() {
		return reply, nil
	}
	if a := p.k.Find(r.Address); a != nil {
		a.Spans.Record(p.operation("call", r, s, cause, began, err))
	}
	if out.Sampled() {
		from.Waiter.Actor.Spans.Record(p.operation("request", r, out, from.Span.Span(), began, err))
	}
	return reply, err
}

func (p *Router) operation(kind string, r *host.Request, s, cause host.Span, began time.Duration, err error) *span.Operation {
	start := p.k.Started.Add(began)
	return &span.Operation{Kind: kind, Name: r.Type + "." + r.Method, Span: s, Cause: cause, Began: start, Took: time.Since(start), Err: err}
}
