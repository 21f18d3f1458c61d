package kernel

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// A Method is a built-in method that a part has bound to its row of the table, or a [Procedure]. One of act, run, query and
// serve is set.
type Method struct {
	row method.Row
	// bare: a call of it does not wake the actor.
	bare bool
	// act runs in a turn that does not touch the instance, and encodes its output.
	act func(c *Core, h *Turn, w *Work) ([]byte, error)
	// run runs the turns that it needs by itself, because it calls the instance.
	run func(c *Core, w *Work) ([]byte, error)
	// Fault says what to answer instead of the error of a turn of act; nil for that itself.
	Fault func(error) error
	// Pace is a moving average of the time that its turns take, like Type.Pace; nil if that is not known.
	Pace *atomic.Int64
	// Operates: it runs though the actor is paused, and on an actor that does not wake.
	Operates bool
	// query runs like a query, on a committed version.
	query func(r *Query, req *host.Request) ([]byte, error)
	// serve answers without a turn or a version: what is about the actor rather than in it.
	serve func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error)
	// reads: serve shows what turns have changed.
	reads bool
	// wait decodes the input and says how long the caller is willing to wait, and for what signal, when empty says that there
	// is nothing yet.
	wait  func(req *host.Request) (in any, topic string, d time.Duration, err error)
	empty func(in any, codec host.Codec, out []byte) bool
	// OfLife: what the caller waits for is of the actor as it is, not of one that is made under its address after it.
	OfLife bool
	// Missing says what a query answers of an actor that is not there; nil for NotFound.
	Missing func(req *host.Request, notFound error) error
}

// An Option is something that only some methods have.
type Option[In any] func(*Method)

func bound[In any](b *Method, options []Option[In]) *Method {
	for _, o := range options {
		o(b)
	}
	return b
}

// answer decodes an input, and encodes the output that f makes of it.
func answer[In, Out any](name string, codec host.Codec, input []byte, f func(in *In) (Out, error)) ([]byte, error) {
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

// Act binds a method that writes.
func Act[In, Out any](m method.Typed[In, Out], f func(c *Core, h *Turn, codec host.Codec, in *In) (Out, error), options ...Option[In]) *Method {
	return bound(&Method{row: m.Row, act: func(c *Core, h *Turn, w *Work) ([]byte, error) {
		return answer(m.Name, w.Codec, w.Input, func(in *In) (Out, error) { return f(c, h, w.Codec, in) })
	}}, options)
}

// Run binds a method that runs the turns that it needs by itself, because it calls the instance. reply encodes its output.
func Run[In, Out any](m method.Typed[In, Out], f func(c *Core, w *Work, in *In, reply func(Out) ([]byte, error)) ([]byte, error)) *Method {
	return &Method{row: m.Row, run: func(c *Core, w *Work) ([]byte, error) {
		var in In
		if err := wire.Decode(m.Name, w.Codec, w.Input, &in); err != nil {
			return nil, err
		}
		return f(c, w, &in, func(out Out) ([]byte, error) { return wire.Encode(w.Codec, &out) })
	}}
}

// Ask binds a method that reads.
func Ask[In, Out any](m method.Typed[In, Out], f func(r *Query, codec host.Codec, in *In) (Out, error), options ...Option[In]) *Method {
	return bound(&Method{row: m.Row, query: func(r *Query, req *host.Request) ([]byte, error) {
		return answer(m.Name, req.Codec, req.Input, func(in *In) (Out, error) { return f(r, req.Codec, in) })
	}}, options)
}

// Waiting lets calls wait for a topic that depends on the input, while the output is empty.
func Waiting[In any](topic func(in *In) (topic string, ms int64), empty func(in *In, codec host.Codec, out []byte) bool) Option[In] {
	return func(b *Method) {
		b.wait = func(req *host.Request) (any, string, time.Duration, error) {
			in := new(In)
			err := wire.Decode(b.row.Name, req.Codec, req.Input, in)
			topic, ms := topic(in)
			return in, topic, time.Duration(ms) * time.Millisecond, err
		}
		b.empty = func(in any, codec host.Codec, out []byte) bool { return empty(in.(*In), codec, out) }
	}
}

// Procedure makes a method without a row, which no call can name: a part runs it as the Builtin of a [Call].
func Procedure(name string, run func(c *Core, w *Work) error) *Method {
	return &Method{row: method.Row{Name: name, Caller: method.Anyone}, run: func(c *Core, w *Work) ([]byte, error) { return nil, run(c, w) }}
}

// bind takes up built-in methods of a part.
func (s *Kernel) bind(methods []*Method) error {
	for _, b := range methods {
		name := b.row.Name
		switch _, known := method.Find(name); {
		case !known:
			return fmt.Errorf("kernel: the table of built-in methods has no %q", name)
		case s.Builtins[name] != nil:
			return fmt.Errorf("kernel: two parts have the built-in method %q", name)
		case (b.act != nil || b.run != nil) && b.row.Kind != host.Action, b.query != nil && b.row.Kind != host.Query, (b.wait != nil) != b.row.Waits:
			return fmt.Errorf("kernel: the built-in method %q is not bound as its row says", name)
		}
		s.Builtins[name] = b
	}
	return nil
}

// GoOffline makes a kernel that is not started one for a store without a node: it keeps the methods that work there. They
// are bare, because nothing wakes, and no core must learn what they do.
func (s *Kernel) GoOffline() {
	s.Offline = true
	for name, b := range s.Builtins {
		if b.bare = b.row.Offline; !b.bare {
			delete(s.Builtins, name)
		}
	}
}

// Counted is the output of a built-in method that removes one thing.
func Counted(ok bool, err error) (host.CountOutput, error) {
	if !ok || err != nil {
		return host.CountOutput{}, err
	}
	return host.CountOutput{Count: 1}, nil
}

// runBuiltin runs a built-in method that writes, as one turn unless it decides itself.
func (c *Core) runBuiltin(w *Work) ([]byte, error) {
	if err := c.Exist(w); err != nil {
		return nil, err
	}
	if w.Builtin.run != nil {
		return w.Builtin.run(c, w)
	}
	out, err := c.RunTurn(w, w.Builtin.row.Name, false, func(h *Turn) ([]byte, error) { return w.Builtin.act(c, h, w) })
	if err != nil && w.Builtin.Fault != nil {
		err = w.Builtin.Fault(err)
	}
	return out, err
}

// callBuiltin calls a built-in method, waiting for what it asks for if the caller wants to.
func (s *Kernel) callBuiltin(ctx context.Context, t *Type, b *Method, r *host.Request, from *Caller) (host.Reply, error) {
	if r.Create {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "%q cannot create an actor explicitly", r.Method).With("create", r.Method)
	}
	if from == nil && b.row.Counted(t.OpenSQL) {
		if err := s.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	}
	if b.wait == nil {
		return s.callBuiltinOnce(ctx, t, b, r, from)
	}
	in, topic, d, err := b.wait(r)
	if err != nil {
		return host.Reply{}, err
	}
	if d <= 0 {
		return s.callBuiltinOnce(ctx, t, b, r, from)
	}
	if from != nil && from.Kind == FromTurn {
		return host.Reply{}, host.Errorf(host.InvalidArgument, "%q cannot wait inside a turn", r.Method)
	}
	sub := s.Signals.Subscribe(string(address.Append(nil, r.Address)), topic, b.OfLife)
	defer sub.Close()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		reply, err := s.callBuiltinOnce(ctx, t, b, r, from)
		if sub.Destroyed() {
			return host.Reply{}, ErrDestroyed() // what was read may be a successor's
		}
		if err != nil || !b.empty(in, r.Codec, reply.Output) {
			return reply, err
		}
		if r.Order != nil {
			r.Order.Waits()
		}
		select {
		case <-sub.C:
		case <-timer.C:
			return reply, nil
		case <-ctx.Done():
			return host.Reply{}, ContextError(ctx)
		case <-s.noWaits:
			return host.Reply{}, Unavailable("the node is shutting down")
		}
	}
}

// EndWaits ends the calls that wait for a message, a reply or an item, and lets no more wait. It is the first thing to do
// before the gateways are closed, which wait for their calls.
func (s *Kernel) EndWaits() { s.waitsOnce.Do(func() { close(s.noWaits) }) }

func (s *Kernel) callBuiltinOnce(ctx context.Context, t *Type, b *Method, r *host.Request, from *Caller) (host.Reply, error) {
	if from == nil && s.Draining.Load() {
		return host.Reply{}, Unavailable("the node is shutting down")
	}
	switch {
	case b.serve != nil:
		if b.reads {
			if err := inOrder(ctx, r); err != nil {
				return host.Reply{}, err
			}
		} else {
			placed(r)
		}
		out, err := b.serve(ctx, s, t, r, from)
		return host.Reply{Output: out}, err
	case b.query != nil:
		q := *r
		q.Existing = true
		reply, err := s.queryBuiltin(ctx, t, &q, from, b.row.Name, func(rd *Query) ([]byte, error) { return b.query(rd, &q) })
		if b.Missing != nil && host.CodeOf(err) == host.NotFound {
			err = b.Missing(&q, err)
		}
		return reply, err
	}
	return s.CallTurn(ctx, t, r, from, Call{Method: -1, Builtin: b}, r.Existing || !b.row.Creating(t.OpenSQL))
}
