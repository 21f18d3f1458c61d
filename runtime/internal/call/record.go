package call

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
)

// recorded carries a request, and records the call. For a turn that calls, it also records the
// wait.
func (p *Router) recorded(ctx context.Context, t *kernel.Type, r *host.Request, from *kernel.Caller,
	s, cause host.Span) (host.Reply, error) {
	began, out := p.k.Now(), host.Span{}
	if from != nil && from.Kind == kernel.FromTurn && cause.Sampled() && cause == from.Span.Span() {
		out = p.k.Tracer.Begin(from.Waiter.Actor.Type, cause) // the request, which causes the call
		cause, s = out, p.k.Tracer.Begin(t, out)
	}
	reply, err := p.carry(ctx, t, r, from, s)
	p.record(p.operation("call", r, s, cause, began, err), r.Address)
	if out.Sampled() {
		from.Waiter.Actor.Spans.Record(p.operation("request", r, out, from.Span.Span(), began, err))
	}
	return reply, err
}

// turn runs a request on an actor. A failure is recorded even if its trace is not.
func (p *Router) turn(ctx context.Context, t *kernel.Type, r *host.Request, from *kernel.Caller,
	s host.Span, j kernel.Call, existing bool) (host.Reply, error) {
	if p.k.Tracer == nil || s.Sampled() {
		return p.k.CallTurn(ctx, t, r, from, s, j, existing)
	}
	began := p.k.Now()
	reply, err := p.k.CallTurn(ctx, t, r, from, s, j, existing)
	if err != nil {
		p.record(p.operation("call", r, s, s, began, err), r.Address)
	}
	return reply, err
}

// record records a call of an actor.
func (p *Router) record(o span.Operation, at host.Address) {
	if a := p.k.Find(at); a != nil {
		a.Spans.Record(o)
	} else {
		p.k.Tracer.Late(at, o)
	}
}

// failed records a query of a trace that is not recorded, if the sink wants it.
func failed(a *kernel.Actor, method string, cause host.Span, began, took time.Duration, err error) {
	if a.Spans != nil && !cause.Sampled() {
		a.Spans.Record(span.Operation{Kind: "call", Name: a.Type.Type + "." + method, Span: cause,
			Cause: cause, Began: a.Kernel.Started.Add(began), Took: took, Err: err})
	}
}

func (p *Router) operation(kind string, r *host.Request, s, cause host.Span, began time.Duration,
	err error) span.Operation {
	start := p.k.Started.Add(began)
	return span.Operation{Kind: kind, Name: r.Type + "." + r.Method, Span: s, Cause: cause,
		Began: start, Took: time.Since(start), Err: err}
}
