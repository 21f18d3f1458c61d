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
	// Those of the request.
	Codec       host.Codec
	traceparent string
	Veiled      bool
}

// Serve binds a method that runs beside the actor.
func Serve[In, Out any](
	m method.Typed[In, Out], f func(s *Kernel, ctx context.Context, on Target, in *In) (Out, error), options ...Option[In],
) *Method {
	return bound(&Method{row: m.Row, serve: func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error) {
		on := Target{Typ: t, Addr: req.Address, From: from, Codec: req.Codec, traceparent: req.Traceparent, Veiled: req.Veiled}
		return answer(m.Name, req.Codec, req.Input, func(in *In) (Out, error) { return f(s, ctx, on, in) })
	}}, options)
}

// Ordered makes a method beside the actor wait for the turns before it, to show their changes.
func Ordered(b *Method) *Method {
	b.reads = true
	return b
}

// Bare makes a method that writes work without waking the actor.
func Bare(b *Method) *Method {
	b.bare = true
	return b
}
