package call

import (
	"context"
	"reflect"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// A Method is a built-in method that a part has bound to its row of the table. It writes, and then
// its procedure has a Run, or one of query and serve is set.
type Method struct {
	kernel.Procedure
	// input is the type of pointers to its inputs.
	input reflect.Type
	// Fault makes the answer in place of the error of a turn of [Act]; nil for the error itself.
	Fault func(error) error
	// query runs like a query, on a committed version. It replaces the request's Value.
	query func(r *Query, req *host.Request) ([]byte, error)
	// values: Run takes the Value of a call, and replaces it.
	values bool
	// serve answers without a turn or a version, from facts about the actor rather than its rows.
	serve func(ctx context.Context, s *kernel.Kernel, t *kernel.Type, req *host.Request, from *kernel.Caller, span host.Span) ([]byte, error)
	// reads: serve shows changes of turns.
	reads bool
	// wait returns how long the caller waits, and for what signal, if empty reports that there is
	// nothing yet.
	wait  func(in any) (topic string, ms int64)
	empty func(in any, codec host.Codec, out []byte) bool
	// OfLife: a result from after the end of the actor for which the wait began may be a
	// successor's, and is not answered.
	OfLife bool
	// unwoken: query reads the store of a sleeping actor, and does not wake it.
	unwoken bool
	// waits: serve waits by itself.
	waits bool
	// guard refuses what a token does not allow; nil refuses all requests with a token.
	guard func(g *token.Grant, in any) error
	// Missing answers for a missing actor, or for something missing in it; nil for the error
	// itself.
	Missing func(t *kernel.Type, req *host.Request, notFound error) ([]byte, error)
}

// A generic function is compiled for each pair of types, in each package that binds a method, and
// again where it is inlined. So those below are not inlined, and do little but hide the types from
// functions that get a pointer to the input and return one to the output.

// bound makes the method of a row.
func bound(row *method.Row, b *Method) *Method {
	b.Row, b.input = *row, reflect.TypeOf(row.New())
	return b
}

// answer decodes an input, and encodes the output of f. A value that is not nil is the input as it
// is, and is replaced by the output.
func (b *Method) answer(codec host.Codec, input []byte, value *any,
	f func(in any) (out any, err error)) ([]byte, error) {
	in, encoded := *value, *value == nil
	switch {
	case encoded:
		in = b.Row.New()
	case reflect.TypeOf(in) != b.input:
		return nil, host.Errorf(host.InvalidArgument, "the value of %s is a %T and not a %s", b.Row.Name, in, b.input)
	default:
		input = nil
	}
	if err := wire.Decode(b.Row.Name, codec, input, in); err != nil {
		return nil, err
	}
	out, err := f(in)
	switch {
	case err != nil:
		return nil, err
	case encoded:
		return wire.Encode(codec, out)
	}
	*value = out
	return nil, nil
}

// Answer decodes the input of a request, and encodes the output of f.
func (b *Method) Answer(req *host.Request, f func(in any) (out any, err error)) ([]byte, error) {
	return b.answer(req.Codec, req.Input, &req.Value, f)
}

// Act binds a method that writes, in a turn that does not touch the instance.
//
//go:noinline
func Act[In, Out any](m method.Typed[In, Out],
	f func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *In) (Out, error)) *Method {
	return act(m.Row, func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in any) (any, error) {
		out, err := f(c, h, codec, in.(*In))
		return &out, err
	})
}

func act(row *method.Row,
	f func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in any) (out any, err error)) *Method {
	b := &Method{values: true}
	b.Run = func(c *kernel.Core, w *kernel.Work) ([]byte, error) {
		out, err := c.RunTurn(w, row.Name, false, func(h *kernel.Turn) ([]byte, error) {
			var entry *audit.Entry
			if row.Caller == method.Operators || row.Openable() {
				entry = audit.Of(w.Ctx)
				entry.Join(h)
			}
			return b.answer(w.Codec, w.Input, &w.Value, func(in any) (any, error) {
				out, err := f(c, h, w.Codec, in)
				entry.Output(out)
				return out, err
			})
		})
		if err != nil && b.Fault != nil {
			err = b.Fault(err)
		}
		return out, err
	}
	return bound(row, b)
}

// Run binds a method that runs its turns itself, because it calls the instance. reply encodes its
// output.
func Run[In, Out any](
	m method.Typed[In, Out], f func(c *kernel.Core, w *kernel.Work, in *In, reply func(Out) ([]byte, error)) ([]byte, error),
) *Method {
	b := new(Method)
	b.Instance = true
	b.Run = func(c *kernel.Core, w *kernel.Work) ([]byte, error) {
		in := new(In)
		if err := wire.Decode(m.Row.Name, w.Codec, w.Input, in); err != nil {
			return nil, err
		}
		return f(c, w, in, func(out Out) ([]byte, error) {
			audit.Of(w.Ctx).Output(&out)
			return wire.Encode(w.Codec, &out)
		})
	}
	return bound(m.Row, b)
}

// Ask binds a method that reads.
//
//go:noinline
func Ask[In, Out any](m method.Typed[In, Out], f func(r *Query, codec host.Codec, in *In) (Out, error)) *Method {
	return AskAny(m.Row, func(r *Query, codec host.Codec, in any) (any, error) {
		out, err := f(r, codec, in.(*In))
		return &out, err
	})
}

// AskAny is Ask for a function that hides its types itself.
func AskAny(row *method.Row, f func(r *Query, codec host.Codec, in any) (out any, err error)) *Method {
	b := new(Method)
	b.query = func(r *Query, req *host.Request) ([]byte, error) {
		return b.Answer(req, func(in any) (any, error) { return f(r, req.Codec, in) })
	}
	return bound(row, b)
}

// Serve binds a method that runs beside the actor.
//
//go:noinline
func Serve[In, Out any](m method.Typed[In, Out],
	f func(s *kernel.Kernel, ctx context.Context, on kernel.Target, in *In) (Out, error)) *Method {
	return serve(m.Row, func(s *kernel.Kernel, ctx context.Context, on kernel.Target, in any) (any, error) {
		out, err := f(s, ctx, on, in.(*In))
		return &out, err
	})
}

func serve(row *method.Row,
	f func(s *kernel.Kernel, ctx context.Context, on kernel.Target, in any) (out any, err error)) *Method {
	b := new(Method)
	b.serve = func(ctx context.Context, s *kernel.Kernel, t *kernel.Type, req *host.Request, from *kernel.Caller, span host.Span) ([]byte, error) {
		on := kernel.Target{
			Typ: t, Addr: req.Address, From: from, Codec: req.Codec, Span: span, Veiled: req.Veiled, Order: req.Order,
		}
		return b.Answer(req, func(in any) (any, error) { return f(s, ctx, on, in) })
	}
	return bound(row, b)
}

// Ordered makes a method beside the actor wait for the turns before it, to show their changes.
func Ordered(b *Method) *Method {
	b.reads = true
	return b
}

// Unwoken makes a method that reads answer for a sleeping actor without waking it.
func Unwoken(b *Method) *Method {
	b.unwoken = true
	return b
}

// WaitsItself marks that a method beside the actor waits as long as its input says. It calls Waits
// of the order when it begins to wait.
func WaitsItself(b *Method) *Method {
	b.waits = true
	return b
}

// Bare makes a method that writes work without waking the actor.
func Bare(b *Method) *Method {
	b.Procedure.Bare = true
	return b
}

// Waiting makes calls wait for a topic that depends on the input, while the output is empty.
//
//go:noinline
func Waiting[In any](b *Method, topic func(in *In) (topic string, ms int64),
	empty func(in *In, codec host.Codec, out []byte) bool) *Method {
	b.wait = func(in any) (string, int64) { return topic(in.(*In)) }
	b.empty = func(in any, codec host.Codec, out []byte) bool { return empty(in.(*In), codec, out) }
	return b
}

// Counted is the output of a built-in method that removes one thing.
func Counted(ok bool, err error) (host.CountOutput, error) {
	if !ok || err != nil {
		return host.CountOutput{}, err
	}
	return host.CountOutput{Count: 1}, nil
}
