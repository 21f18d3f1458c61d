package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
)

// A target is the actor that a verb is about, and who asks.
type target struct {
	typ  *actorType
	addr host.Address
	from *caller
	// traceparent is that of the request.
	traceparent string
	// veiled is that of the request.
	veiled bool
}

// serve makes a builtin that runs beside the actor.
func serve[In, Out any](name string, f func(s *Supervisor, ctx context.Context, on target, in *In) (Out, error)) *builtin {
	return &builtin{name: name, serve: func(ctx context.Context, s *Supervisor, t *actorType, req *host.Request, from *caller) ([]byte, error) {
		var in In
		if err := decodeInput(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(s, ctx, target{typ: t, addr: req.Address, from: from, traceparent: req.Traceparent, veiled: req.Veiled}, &in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(req.Codec, &out)
	}}
}

// served is serve for a function that reads what turns have changed, and is told the encoding of its values.
func served[In, Out any](name string, f func(s *Supervisor, ctx context.Context, on target, codec host.Codec, in *In) (Out, error)) *builtin {
	return &builtin{name: name, reads: true, serve: func(ctx context.Context, s *Supervisor, t *actorType, req *host.Request, from *caller) ([]byte, error) {
		var in In
		if err := decodeInput(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(s, ctx, target{typ: t, addr: req.Address, from: from, traceparent: req.Traceparent, veiled: req.Veiled}, req.Codec, &in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(req.Codec, &out)
	}}
}

// bare makes a builtin that writes work without waking the actor, and only on one that exists.
func bare(b *builtin) *builtin {
	b.bare, b.existing = true, true
	return b
}

// existing makes a builtin that does not create the actor.
func existing(b *builtin) *builtin {
	b.existing = true
	return b
}

// none is the input or output of a builtin that has none.
type none struct{}
