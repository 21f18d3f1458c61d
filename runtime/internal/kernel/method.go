package kernel

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// A Method is a built-in method: one that every actor has besides its own. One of Act, Run, Query and serve is set.
type Method struct {
	Name string
	// Existing: a call of it does not create the actor.
	Existing bool
	// Creates: a call of it creates the actor all the same, if the type is such; nil means never.
	Creates func(t *Type) bool
	// bare: a call of it does not wake the actor.
	bare bool
	// Act runs in a turn that does not touch the instance, and encodes its output.
	Act func(c *Core, h *Turn, w *Work) ([]byte, error)
	// Run runs the turns that it needs by itself, because it calls the instance.
	Run func(c *Core, w *Work) ([]byte, error)
	// Fault says what to answer instead of the error of a turn of Act; nil for that itself.
	Fault func(error) error
	// Pace is a moving average of the time that its turns take, like Type.Pace; nil if that is not known.
	Pace *atomic.Int64
	// Operates: it runs though the actor is paused.
	Operates bool
	// free: calls of it do not count against the rate of the actor, because they end or go on with what was counted.
	free bool
	// Sturdy: an operator may call it on an actor that does not wake, though it has run.
	Sturdy bool
	// Query runs like a query, on a committed version.
	Query func(r *Query, req *host.Request) ([]byte, error)
	// serve answers without a turn or a version: what is about the actor rather than in it.
	serve func(ctx context.Context, s *Kernel, t *Type, req *host.Request, from *Caller) ([]byte, error)
	// reads: serve shows what turns have changed.
	reads bool
	// Wait is how long the caller is willing to wait, and for what signal, when empty says that there is nothing yet.
	Wait  func(req *host.Request) (topic string, d time.Duration, err error)
	Empty func(req *host.Request, out []byte) bool
	// OfLife: what the caller waits for is of the actor as it is, not of one that is made under its address after it.
	OfLife bool
	// Missing says what a query answers of an actor that is not there; nil for NotFound.
	Missing func(req *host.Request, notFound error) error
}

// Act makes a built-in method that writes.
func Act[In, Out any](name string, f func(c *Core, h *Turn, codec host.Codec, in *In) (Out, error)) *Method {
	return &Method{Name: name, Act: func(c *Core, h *Turn, w *Work) ([]byte, error) {
		var in In
		if err := wire.Decode(name, w.Codec, w.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(c, h, w.Codec, &in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(w.Codec, &out)
	}}
}

// Ask makes a built-in method that reads. It does not create an actor.
func Ask[In, Out any](name string, f func(r *Query, codec host.Codec, in *In) (Out, error)) *Method {
	return &Method{Name: name, Existing: true, Query: func(r *Query, req *host.Request) ([]byte, error) {
		var in In
		if err := wire.Decode(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(r, req.Codec, &in)
		if err != nil {
			return nil, err
		}
		return wire.Encode(req.Codec, &out)
	}}
}

// MaxWait bounds how long a call may wait for something to appear.
const MaxWait = time.Minute

// Waiting makes a built-in method wait for a topic that depends on its input.
func Waiting[In any](b *Method, wait func(*In) (topic string, ms int64), empty func(codec host.Codec, out []byte) bool) *Method {
	b.Wait = func(req *host.Request) (string, time.Duration, error) {
		var in In
		if err := wire.Decode(b.Name, req.Codec, req.Input, &in); err != nil {
			return "", 0, err
		}
		topic, ms := wait(&in)
		return topic, time.Duration(ms) * time.Millisecond, nil
	}
	b.Empty = func(req *host.Request, out []byte) bool { return empty(req.Codec, out) }
	return b
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
	if w.Builtin.Run != nil {
		return w.Builtin.Run(c, w)
	}
	out, err := c.RunTurn(w, w.Builtin.Name, false, func(h *Turn) ([]byte, error) { return w.Builtin.Act(c, h, w) })
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
	if from == nil && b.counted(t) {
		if err := s.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	}
	if b.Wait == nil {
		return s.callBuiltinOnce(ctx, t, b, r, from)
	}
	topic, d, err := b.Wait(r)
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
		if err != nil || !b.Empty(r, reply.Output) {
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
	case b.Query != nil:
		q := *r
		q.Existing = r.Existing || b.Existing
		reply, err := s.queryBuiltin(ctx, t, &q, from, b.Name, func(rd *Query) ([]byte, error) { return b.Query(rd, &q) })
		if b.Missing != nil && host.CodeOf(err) == host.NotFound {
			err = b.Missing(&q, err)
		}
		return reply, err
	}
	existing := r.Existing || b.Existing && (b.Creates == nil || !b.Creates(t))
	return s.CallTurn(ctx, t, r, from, Call{Method: -1, Builtin: b}, existing)
}
