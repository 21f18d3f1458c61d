package call

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// A Method is a built-in method that a part has bound to its row of the table. It writes, and then its procedure has a Run, or one
// of query and serve is set.
type Method struct {
	kernel.Procedure
	// Fault says what to answer instead of the error of a turn of [Act]; nil for that itself.
	Fault func(error) error
	// query runs like a query, on a committed version. It replaces the request's Value.
	query func(r *Query, req *host.Request) ([]byte, error)
	// values: Run takes the Value of a call, and replaces it.
	values bool
	// serve answers without a turn or a version: what is about the actor rather than in it.
	serve func(ctx context.Context, s *kernel.Kernel, t *kernel.Type, req *host.Request, from *kernel.Caller, span host.Span) ([]byte, error)
	// reads: serve shows what turns have changed.
	reads bool
	// wait decodes the input and says how long the caller is willing to wait, and for what signal, when empty says that there
	// is nothing yet.
	wait  func(req *host.Request) (in any, topic string, d time.Duration, err error)
	empty func(in any, codec host.Codec, out []byte) bool
	// OfLife: what is found after the end of the actor for which the wait began may be a successor's, and is not answered.
	OfLife bool
	// unwoken: query answers for an actor that sleeps from its store, and does not wake it.
	unwoken bool
	// waits: serve waits by itself.
	waits bool
	// guard refuses what a token does not allow; nil refuses all requests with one.
	guard func(g *token.Grant, req *host.Request) error
	// Missing answers for an actor that is not there, or for what is not there in it; nil for the error itself.
	Missing func(t *kernel.Type, req *host.Request, notFound error) ([]byte, error)
}

// An Option is something that only some methods have.
type Option[In any] func(*Method)

// bound makes the method of a row.
func bound[In any](row method.Row, b *Method, options []Option[In]) *Method {
	b.Row = row
	for _, o := range options {
		o(b)
	}
	return b
}

// answer decodes an input, and encodes the output that f makes of it. A value that is not nil is the input as it is, and becomes
// the output.
func answer[In, Out any](name string, codec host.Codec, input []byte, value *any, f func(in *In) (Out, error)) ([]byte, error) {
	if *value == nil {
		var in In
		if err := wire.Decode(name, codec, input, &in); err != nil {
			return nil, err
		}
		out, err := f(&in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(codec, &out)
	}
	in, ok := (*value).(*In)
	if !ok {
		return nil, host.Errorf(host.InvalidArgument, "the value of %s is a %T and not a %T", name, *value, in)
	}
	if err := wire.Decode(name, codec, nil, in); err != nil {
		return nil, err
	}
	out, err := f(in)
	if err == nil {
		*value = &out
	}
	return nil, err
}

// Answer decodes the input of a request, and encodes the output that f makes of it.
func Answer[In, Out any](req *host.Request, f func(in *In) (Out, error)) ([]byte, error) {
	return answer(req.Method, req.Codec, req.Input, &req.Value, f)
}

// Act binds a method that writes, in a turn that does not touch the instance.
func Act[In, Out any](
	m method.Typed[In, Out], f func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *In) (Out, error), options ...Option[In],
) *Method {
	b := &Method{values: true}
	b.Run = func(c *kernel.Core, w *kernel.Work) ([]byte, error) {
		out, err := c.RunTurn(w, m.Name, false, func(h *kernel.Turn) ([]byte, error) {
			var entry *audit.Entry
			if b.Row.Caller == method.Operators || b.Row.Openable() {
				entry = audit.Of(w.Ctx)
				entry.Join(h)
			}
			return answer(m.Name, w.Codec, w.Input, &w.Value, func(in *In) (Out, error) {
				out, err := f(c, h, w.Codec, in)
				if entry != nil {
					shown := out
					entry.Output(&shown)
				}
				return out, err
			})
		})
		if err != nil && b.Fault != nil {
			err = b.Fault(err)
		}
		return out, err
	}
	return bound(m.Row, b, options)
}

// Run binds a method that runs the turns that it needs by itself, because it calls the instance. reply encodes its output.
func Run[In, Out any](
	m method.Typed[In, Out], f func(c *kernel.Core, w *kernel.Work, in *In, reply func(Out) ([]byte, error)) ([]byte, error),
) *Method {
	b := new(Method)
	b.Instance = true
	b.Run = func(c *kernel.Core, w *kernel.Work) ([]byte, error) {
		var in In
		if err := wire.Decode(m.Name, w.Codec, w.Input, &in); err != nil {
			return nil, err
		}
		return f(c, w, &in, func(out Out) ([]byte, error) {
			audit.Of(w.Ctx).Output(&out)
			return wire.Encode(w.Codec, &out)
		})
	}
	return bound[In](m.Row, b, nil)
}

// Ask binds a method that reads.
func Ask[In, Out any](m method.Typed[In, Out], f func(r *Query, codec host.Codec, in *In) (Out, error), options ...Option[In]) *Method {
	return bound(m.Row, &Method{query: func(r *Query, req *host.Request) ([]byte, error) {
		return Answer(req, func(in *In) (Out, error) { return f(r, req.Codec, in) })
	}}, options)
}

// Serve binds a method that runs beside the actor.
func Serve[In, Out any](
	m method.Typed[In, Out], f func(s *kernel.Kernel, ctx context.Context, on kernel.Target, in *In) (Out, error), options ...Option[In],
) *Method {
	return bound(m.Row, &Method{serve: func(ctx context.Context, s *kernel.Kernel, t *kernel.Type, req *host.Request, from *kernel.Caller, span host.Span) ([]byte, error) {
		on := kernel.Target{
			Typ: t, Addr: req.Address, From: from, Codec: req.Codec, Span: span, Veiled: req.Veiled, Order: req.Order,
		}
		return Answer(req, func(in *In) (Out, error) { return f(s, ctx, on, in) })
	}}, options)
}

// Ordered makes a method beside the actor wait for the turns before it, to show their changes.
func Ordered(b *Method) *Method {
	b.reads = true
	return b
}

// Unwoken makes a method that reads answer for an actor that sleeps without waking it.
func Unwoken(b *Method) *Method {
	b.unwoken = true
	return b
}

// WaitsItself says that a method beside the actor waits as long as its input says. It calls Waits of the order when it begins to.
func WaitsItself(b *Method) *Method {
	b.waits = true
	return b
}

// Bare makes a method that writes work without waking the actor.
func Bare(b *Method) *Method {
	b.Procedure.Bare = true
	return b
}

// Waiting lets calls wait for a topic that depends on the input, while the output is empty.
func Waiting[In any](topic func(in *In) (topic string, ms int64), empty func(in *In, codec host.Codec, out []byte) bool) Option[In] {
	return func(b *Method) {
		b.wait = func(req *host.Request) (any, string, time.Duration, error) {
			in := new(In)
			err := wire.Decode(b.Row.Name, req.Codec, req.Input, in)
			topic, ms := topic(in)
			return in, topic, time.Duration(ms) * time.Millisecond, err
		}
		b.empty = func(in any, codec host.Codec, out []byte) bool { return empty(in.(*In), codec, out) }
	}
}

// Counted is the output of a built-in method that removes one thing.
func Counted(ok bool, err error) (host.CountOutput, error) {
	if !ok || err != nil {
		return host.CountOutput{}, err
	}
	return host.CountOutput{Count: 1}, nil
}
