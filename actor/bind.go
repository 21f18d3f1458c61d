package actor

import (
	"reflect"
	"runtime"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A Binding ties a contract value to the handler that implements it. Made by [On], [OnQuery],
// [OnCreate], [OnAlarm], [OnMessage], [OnRequest], [OnSchedule], [OnConnect], [OnDisconnect],
// [OnSubscribe], [OnChange] and [OnRun].
type Binding[S any] struct {
	_ [0]func(S) // keeps types of other values from being converted into it
	tie
}

// A tie is a Binding without its state type. Generic code is compiled for each type of a program,
// so only the calls of the handlers are generic.
type tie struct {
	decl    *declared
	slot    slot
	handler string
	in, out *codec.Value // out is nil if the handler returns nothing but an error
	// One of these is set. They take pointers to the state and the input, and return a pointer to
	// the output.
	call     func(s any, ctx *Context, in any) (out any, err error)
	query    func(s any, ctx *ReadContext, in any) (out any, err error)
	workflow *host.Workflow
}

// turn runs the handler and returns the outcome of the turn.
func (b *tie) turn(s any, ctx *Context, in any) (out any, err error) {
	out, err = b.call(s, ctx, in)
	return out, ctx.end(err)
}

// output appends the output of the handler, if it has one.
func (b *tie) output(as host.Codec, dst []byte, out any) ([]byte, error) {
	if b.out == nil || b.out.IsNone() {
		return dst, nil
	}
	return appendOutput(b.decl, b.out, as, dst, out)
}

// A slot tells apart the handlers of one contract value.
type slot uint8

const (
	slotOnly slot = iota
	slotConnect
	slotDisconnect
)

// On binds an action to a method of the state: On(Add, (*Tenant).add).
func On[S, In, Out any](a *Action[S, In, Out], handler func(*S, *Context, In) (Out, error)) Binding[S] {
	if a == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: a.decl, handler: funcName(handler), in: a.in, out: a.out, call: loud(handler)}}
}

// OnQuery binds a query to a method of the state: OnQuery(Sent, Tenant.sent). The value receiver is
// a copy of the committed state that the handler may change without effect.
func OnQuery[S, In, Out any](q *Query[S, In, Out], handler func(S, *ReadContext, In) (Out, error)) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: q.decl, handler: funcName(handler), in: q.in, out: q.out,
		query: func(s any, ctx *ReadContext, in any) (any, error) {
			out, err := handler(*s.(*S), ctx, *in.(*In))
			return &out, err
		}}}
}

// OnCreate binds a type's creation method to a method of the state: OnCreate(Open,
// (*Account).open).
func OnCreate[S, In any](c *Create[S, In], handler func(*S, *Context, In) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: c.method.decl, handler: funcName(handler), in: c.method.in, call: quiet(handler)}}
}

// OnAlarm binds an alarm to a method of the state: OnAlarm(Remind, (*Tenant).remind).
func OnAlarm[S, T any](a *Alarm[S, T], handler func(*S, *Context, T) error) Binding[S] {
	if a == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: a.decl, handler: funcName(handler), in: a.payload, call: quiet(handler)}}
}

// loud is the call of a handler that returns a value.
func loud[S, In, Out any](handler func(*S, *Context, In) (Out, error)) func(s any, ctx *Context, in any) (any, error) {
	return func(s any, ctx *Context, in any) (any, error) {
		out, err := handler(s.(*S), ctx, *in.(*In))
		return &out, err
	}
}

// quiet is the call of a handler that returns nothing but an error.
func quiet[S, In any](handler func(*S, *Context, In) error) func(s any, ctx *Context, in any) (any, error) {
	return func(s any, ctx *Context, in any) (any, error) { return nil, handler(s.(*S), ctx, *in.(*In)) }
}

func appendOutput(d *declared, w *codec.Value, as host.Codec, dst []byte, v any) ([]byte, error) {
	out, err := w.Append(as, dst, v)
	if err != nil {
		return dst, Errorf(Internal, "output of %s: %s", d, err)
	}
	return out, nil
}

// funcName returns the name of a Go function, or "" for nil.
func funcName(f any) string {
	if p := reflect.ValueOf(f).Pointer(); p != 0 {
		return runtime.FuncForPC(p).Name()
	}
	return ""
}
