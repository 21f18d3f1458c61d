package kernel

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
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

// Serve makes a built-in method that runs beside the actor.
func Serve[In, Out any](name string, f func(s *Kernel, ctx context.Context, on Target, in *In) (Out, error)) *Method {
	return &Method{Name: name, serve: func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error) {
		var in In
		if err := wire.Decode(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(s, ctx, Target{Typ: t, Addr: req.Address, From: from, traceparent: req.Traceparent, Veiled: req.Veiled}, &in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(req.Codec, &out)
	}}
}

// Served is serve for a function that reads what turns have changed, and is told the encoding of its values.
func Served[In, Out any](name string, f func(s *Kernel, ctx context.Context, on Target, codec host.Codec, in *In) (Out, error)) *Method {
	return &Method{Name: name, reads: true, serve: func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error) {
		var in In
		if err := wire.Decode(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(s, ctx, Target{Typ: t, Addr: req.Address, From: from, traceparent: req.Traceparent, Veiled: req.Veiled}, req.Codec, &in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(req.Codec, &out)
	}}
}

// Bare makes a built-in method that writes work without waking the actor, and only on one that exists.
func Bare(b *Method) *Method {
	b.bare, b.Existing = true, true
	return b
}

// Existing makes a built-in method that does not create the actor.
func Existing(b *Method) *Method {
	b.Existing = true
	return b
}

// Free makes a built-in method whose calls do not count against the rate of the actor.
func Free(b *Method) *Method {
	b.free = true
	return b
}

// None is the input or output of a built-in method that has none.
type None struct{}
