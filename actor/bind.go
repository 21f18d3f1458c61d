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
	tie

	// One of these is set, or the workflow.
	act        func(s *S, t host.Turn, as host.Codec, input, out []byte) ([]byte, error)
	query      func(s *S, r host.Reader, as host.Codec, input, out []byte) ([]byte, error)
	alarm      func(s *S, t host.Turn, instance string, payload []byte) error
	message    func(s *S, t host.Turn, m *host.Received, out []byte) ([]byte, error)
	schedule   func(s *S, t host.Turn, tick *host.Tick, payload []byte) error
	connect    func(s *S, t host.Turn, c *host.ConnectionState, params []byte) error
	disconnect func(s *S, t host.Turn, c *host.ConnectionState, cause *host.Error) error
	subscribe  func(s *S, t host.Turn, c *host.ConnectionState) error
	change     func(s *S, t host.Turn, c *host.KVChange) error
}

// A tie is what a Binding has for states of all types. What is not generic is compiled once, not once for each type of actors.
type tie struct {
	decl     *declared
	slot     slot
	handler  string
	workflow *host.Workflow
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
	d, in, out := a.decl, a.in, a.out
	b := Binding[S]{tie: tie{decl: d, handler: funcName(handler)}}
	b.act = func(s *S, t host.Turn, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := decodeInput(d, in, as, input, &arg); err != nil {
			return dst, err
		}
		ctx := newContext(t, d.core)
		result, err := handler(s, ctx, arg)
		if err = ctx.end(err); err != nil {
			return dst, err
		}
		return appendOutput(d, out, as, dst, &result)
	}
	return b
}

// OnQuery binds a query to a method of the state: OnQuery(Sent, Tenant.sent). The value receiver is
// a copy of the committed state that the handler may change without effect.
func OnQuery[S, In, Out any](q *Query[S, In, Out], handler func(S, *ReadContext, In) (Out, error)) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	d, in, out := q.decl, q.in, q.out
	b := Binding[S]{tie: tie{decl: d, handler: funcName(handler)}}
	b.query = func(s *S, r host.Reader, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := decodeInput(d, in, as, input, &arg); err != nil {
			return dst, err
		}
		result, err := handler(*s, newReadContext(r, d.core), arg)
		if err != nil {
			return dst, err
		}
		return appendOutput(d, out, as, dst, &result)
	}
	return b
}

// OnCreate binds a type's creation method to a method of the state: OnCreate(Open,
// (*Account).open).
func OnCreate[S, In any](c *Create[S, In], handler func(*S, *Context, In) error) Binding[S] {
	if c == nil {
		return Binding[S]{}
	}
	d, in := c.decl, c.in
	b := Binding[S]{tie: tie{decl: d, handler: funcName(handler)}}
	b.act = func(s *S, t host.Turn, as host.Codec, input, dst []byte) ([]byte, error) {
		var arg In
		if err := decodeInput(d, in, as, input, &arg); err != nil {
			return dst, err
		}
		ctx := newContext(t, d.core)
		return dst, ctx.end(handler(s, ctx, arg))
	}
	return b
}

// OnAlarm binds an alarm to a method of the state: OnAlarm(Remind, (*Tenant).remind).
func OnAlarm[S, T any](a *Alarm[S, T], handler func(*S, *Context, T) error) Binding[S] {
	if a == nil {
		return Binding[S]{}
	}
	d, w := a.decl, a.payload
	b := Binding[S]{tie: tie{decl: d, handler: funcName(handler)}}
	b.alarm = func(s *S, t host.Turn, instance string, payload []byte) error {
		var arg T
		if err := w.Decode(host.CBOR, payload, &arg); err != nil {
			return valueError(d, err)
		}
		ctx := newContext(t, d.core)
		ctx.instance = instance
		return ctx.end(handler(s, ctx, arg))
	}
	return b
}

func appendOutput[Out any](d *declared, w *codec.Value, as host.Codec, dst []byte, v *Out) ([]byte, error) {
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
