package workflow

// A container is an operation with operations inside: a scope, a loop, a join, a race, a map, a saga, a child within the
// run.
//
//  1. Its entry is written when it begins, so that the order of its scope's operations and its shape are on record, and again
//     when it ends.
//  2. One that has ended according to the history is not entered when the function runs again: it returns what is recorded. The
//     exception is a container with live obligations inside whose handlers are closures: running again is the only way
//     to get hold of them. It is then sealed: what runs in it must all be on record.
//  3. While a container runs on its parent's own coroutine, the parent scope is busy: nothing may be asked of it.
//  4. A container ends after everything that runs in it.

// open begins a container. If skip is true, its end is recorded and it need not be entered: the recorded outcome is in
// o.entry, for when the coroutine has waited for its turn.
func (s *scope) open(kind Kind, name string) (o *op, skip bool, err error) {
	o, err = s.begin(kind, name)
	if err != nil {
		return nil, false, err
	}
	return o, o.ended() && !s.run.obliged(o.loc), nil
}

// ended reports whether the history has the end of the operation.
func (o *op) ended() bool { return o.recorded && o.entry.Status.Over() }

// within makes the scope of a container that runs on its parent's coroutine, and marks the parent as busy until leave.
func (s *scope) within(o *op, inner *scope) *scope {
	s.inner = o
	inner.owner = s.owner
	inner.sealed = s.sealed || o.ended()
	return inner
}

// leave ends what within began.
func (s *scope) leave(inner *scope) {
	inner.end()
	s.inner = nil
}

// end gives a container its outcome and waits until it is on record. at, if not nil, runs in the recording transaction,
// before the entry is written.
func (o *op) end(output []byte, err error, at func() error) {
	if o.ended() {
		o.wait(o.s.owner)
		return
	}
	o.settle(output, err)
	o.resolve = func() error {
		if at != nil {
			if err := at(); err != nil {
				return err
			}
		}
		return o.s.run.collapse(o)
	}
	o.happened()
	o.wait(o.s.owner)
}

// refuse ends a container whose arguments are wrong.
func (o *op) refuse(err error) error {
	o.end(nil, err, nil)
	if _, recorded := o.outcome(); recorded != nil {
		return recorded
	}
	return err
}

// settle sets the outcome of an entry.
func (o *op) settle(output []byte, err error) {
	r := o.s.run
	o.entry.Output, o.entry.Failure = nil, nil
	switch {
	case err == nil:
		o.entry.Status, o.entry.Output = Completed, output
	case o.s.Err() != nil && isCanceled(err):
		o.entry.Status, o.entry.Failure = Canceled, r.failure(err)
	default:
		o.entry.Status, o.entry.Failure = Failed, r.failure(err)
	}
}

// outcome returns what a resolved entry says: its output, or its error.
func (o *op) outcome() ([]byte, error) {
	if o.entry.Status == Completed {
		return o.entry.Output, nil
	}
	return nil, o.s.run.errorOf(o.entry.Failure)
}

// decoded decodes a result that the run has encoded.
func decoded[T any](r *Run, output []byte, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	err = r.decode(output, &v)
	return v, err
}

// Scope runs fn in a scope of its own, in which names may be used that are used outside as well. Its result is recorded: when
// the workflow function runs again after a crash, a scope that has ended is not entered.
//
// The error is fn's, or matches ErrCanceled.
func Scope[T any](ctx Context, name string, fn func(ctx Context) (T, error)) (T, error) {
	var zero T
	s := ctx.scope()
	r := s.run
	o, skip, err := s.open(KindScope, name)
	if err != nil {
		return zero, err
	}
	if skip {
		o.wait(s.owner)
	} else {
		if !o.recorded {
			r.put(o)
		}
		inner := s.within(o, r.scopeAt(o, ""))
		v, err := fn(inner)
		s.leave(inner)
		var output []byte
		if err == nil {
			output, err = r.encode(v)
		}
		o.end(output, err, nil)
	}
	output, err := o.outcome()
	return decoded[T](r, output, err)
}
