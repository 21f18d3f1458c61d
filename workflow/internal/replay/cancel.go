package replay

import (
	"errors"
	"slices"
)

// A cancellation is a node of the tree of cancellations.
type cancellation struct {
	parent *cancellation
	inner  []*cancellation
	cause  error // a *CanceledError once it is canceled
	ops    []*op // live ones, to be notified
}

// newCancellation returns a node below parent; detached, it is not canceled with its parent.
func newCancellation(parent *cancellation, detached bool) *cancellation {
	x := &cancellation{}
	if !detached && parent != nil {
		x.parent, x.cause = parent, parent.cause
		parent.inner = append(parent.inner, x)
	}
	return x
}

// err returns nil, or a *CanceledError.
func (x *cancellation) err() error { return x.cause }

// cancel cancels the node and those below it, and notifies their live ops, which resolve sooner or
// later. With abandon, running attempts are not waited for, and their results are dropped.
func (x *cancellation) cancel(cause error, abandon bool) {
	switch {
	case x.cause == nil:
		x.cause = &CanceledError{cause}
	case !abandon:
		return // an op that was canceled before may still be waited for, and given up now
	}
	for _, o := range slices.Clone(x.ops) {
		o.tell(abandon)
	}
	for _, inner := range slices.Clone(x.inner) {
		inner.cancel(cause, abandon)
	}
}

// unlink takes the node out of the tree.
func (x *cancellation) unlink() {
	if x.parent == nil {
		return
	}
	if i := slices.Index(x.parent.inner, x); i >= 0 {
		x.parent.inner = slices.Delete(x.parent.inner, i, i+1)
	}
	x.parent = nil
}

// listen registers a live op to be notified when its scope is canceled. If the scope is canceled
// already, as for operations that began before and begin again now, it notifies at once.
func (o *op) listen() {
	x := o.s.cancel
	if x.cause != nil {
		o.tell(false)
		return
	}
	o.watch, o.position = x, len(x.ops)
	x.ops = append(x.ops, o)
}

// unwatch undoes listen.
func (o *op) unwatch() {
	x := o.watch
	if x == nil {
		return
	}
	last := len(x.ops) - 1
	x.ops[o.position], x.ops[last].position = x.ops[last], o.position
	x.ops[last] = nil
	x.ops = x.ops[:last]
	o.watch = nil
}

// setCanceled gives an entry the outcome of a canceled operation.
func (o *op) setCanceled() {
	o.entry.Status = Canceled
	f := &Failure{Reason: reasonCanceled}
	var c *CanceledError
	if errors.As(o.s.cancel.err(), &c) && c.Cause != nil {
		inner := o.s.run.failure(c.Cause)
		f.Type, f.Code, f.Data, f.Message = inner.Type, inner.Code, inner.Data, inner.Message
	}
	o.entry.Failure = f
}

// canceledError returns the error of an operation that was canceled.
func (o *op) canceledError() error {
	f := o.entry.Failure
	if f == nil || f.Message == "" && f.Type == "" {
		return &CanceledError{}
	}
	cause := *f
	cause.Reason = ""
	return &CanceledError{o.s.run.errorOf(&cause)}
}

// WithCancel returns a Context for the same scope, and a function that cancels its operations and
// those of scopes inside it.
func WithCancel(ctx Context) (Context, func(cause error)) {
	s := ctx.scope()
	s.own()
	x := newCancellation(s.cancel, false)
	s.cancels = append(s.cancels, x)
	r := s.run
	return s.with(x, s.saga), func(cause error) {
		if r.gone {
			return
		}
		if r.current.Load() == nil {
			panic(&MisuseError{"the function that WithCancel returned was called outside of the workflow function"})
		}
		x.cancel(cause, false)
	}
}

// Detach returns a Context for the same scope whose operations are not canceled with the scope. Use
// it for cleanup after cancellation.
func Detach(ctx Context) Context {
	s := ctx.scope()
	s.own()
	return s.with(newCancellation(nil, true), s.saga)
}
