package kernel

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Target is the actor that a verb is about, and who asks.
type Target struct {
	Typ  *Type
	Addr host.Address
	From *Caller
	// traceparent is that of the request.
	traceparent string
	// Veiled is that of the request.
	Veiled bool
}

// Serve binds a method that runs beside the actor.
func Serve[In, Out any](m method.Typed[In, Out], f func(s *Kernel, ctx context.Context, on Target, in *In) (Out, error)) *Method {
	b := Served(m, func(s *Kernel, ctx context.Context, on Target, _ host.Codec, in *In) (Out, error) {
		return f(s, ctx, on, in)
	})
	b.reads = false
	return b
}

// Served is Serve for a function that reads what turns have changed, and is told the encoding of its values.
func Served[In, Out any](
	m method.Typed[In, Out], f func(s *Kernel, ctx context.Context, on Target, codec host.Codec, in *In) (Out, error), options ...Option[In],
) *Method {
	return bound(&Method{row: m.Row, reads: true, serve: func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error) {
		return answer(m.Name, req.Codec, req.Input, func(in *In) (Out, error) {
			on := Target{Typ: t, Addr: req.Address, From: from, traceparent: req.Traceparent, Veiled: req.Veiled}
			return f(s, ctx, on, req.Codec, in)
		})
	}}, options)
}

// Bare makes a method that writes work without waking the actor.
func Bare(b *Method) *Method {
	b.bare = true
	return b
}
