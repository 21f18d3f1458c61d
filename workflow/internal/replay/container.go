package replay

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A container is an operation with operations inside: a scope, a loop, a join, a race, a foreach, a
// saga, a child within the run.
//
//  1. Its entry is written when it begins, so that the order of its scope's operations and its
//     shape are on record, and again when it ends.
//  2. If the history has its end, it is not entered when the function runs again: it returns the
//     recorded result. The exception is a container with live obligations inside whose handlers are
//     closures, because only running again can provide these. It is then sealed: everything that
//     runs in it must be on record.
//  3. While a container runs on its parent's own coroutine, the parent scope is busy, and no
//     operation may begin in it.
//  4. A container ends after everything that runs in it.

// open begins a container. If skip is true, its end is recorded and it need not be entered: the
// recorded outcome is in o.entry once the coroutine has waited for its turn.
func (s *scope) open(kind Kind, name string) (o *op, skip bool, err error) {
	o, err = s.begin(kind, name)
	if err != nil {
		return nil, false, err
	}
	return o, o.ended() && !s.run.obliged(o.loc), nil
}

// ended reports whether the history has the end of the operation.
func (o *op) ended() bool { return o.recorded && o.entry.Status.Over() }

// inside makes the scope of the operations at o's location.
func (s *scope) inside(o *op, x *cancellation, g *saga) *scope {
	return &scope{s.run.newPlace(s, o.loc), x, g}
}

// within marks a scope as busy, until leave, with a container that runs on its coroutine.
func (s *scope) within(o *op, inner *scope) *scope {
	s.inner = o
	inner.sealed = s.sealed || o.ended()
	return inner
}

// leave undoes within.
func (s *scope) leave(inner *scope) {
	inner.end()
	s.inner = nil
}

// end gives a container its outcome and waits until it is on record. at, if not nil, runs in the
// recording transaction, before the entry is written.
func (o *op) end(output []byte, err error, at func() error, members ...*member) {
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
		return o.s.run.collapse(o, members...)
	}
	o.complete(o.s.owner)
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
func (o *op) settle(output []byte, err error) { o.settleIn(o.s, output, err) }

// settleIn is settle; s says whether an error is one of cancellation.
func (o *op) settleIn(s *scope, output []byte, err error) {
	r := o.s.run
	o.entry.Output, o.entry.Failure = nil, nil
	switch {
	case err == nil:
		o.entry.Status, o.entry.Output = Completed, output
	case s.Err() != nil && errors.Is(err, ErrCanceled):
		o.entry.Status, o.entry.Failure = Canceled, r.failure(err)
	default:
		o.entry.Status, o.entry.Failure = Failed, r.failure(err)
	}
}

// outcome returns the output, or the error, of a resolved entry.
func (o *op) outcome() ([]byte, error) {
	if o.entry.Status == Completed {
		return o.entry.Output, nil
	}
	return nil, o.s.run.errorOf(o.entry.Failure)
}

// resultOf decodes the result of an operation. If decoding fails, the code is wrong, which must not
// look like a failure of the operation: the run is paused, and resultOf does not return.
func resultOf[T any](s *scope, output []byte, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	s.decodeInto(s.run.program, output, &v)
	return v, nil
}

// decodeInto decodes a recorded value into *v. It does not return if decoding fails.
func (s *scope) decodeInto(p *Program, data []byte, v any) {
	if err := p.decode(data, v); err != nil {
		s.run.fail(PausedDiverged,
			fmt.Sprintf("what is recorded in %s is not what the code expects: %v%s", s.describe(), err, callSite()))
		s.run.hang(s.run.current.Load())
	}
}

// encoded encodes the result of a container. If encoding fails, the run is paused, and encoded does
// not return.
func (s *scope) encoded(v any) []byte {
	data, err := s.run.encode(v)
	if err != nil {
		s.misuse(s.run.current.Load(), s.describe()+": "+(&resultError{err}).Error())
	}
	return data
}

// Scope runs fn in a scope of its own, which may reuse names of the scope outside.
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
		mustEncode[T](s, o)
		if !o.recorded {
			r.put(o)
		}
		inner := s.within(o, s.inside(o, s.cancel, s.saga))
		v, err := fn(inner)
		s.leave(inner)
		var output []byte
		if err == nil {
			output = inner.encoded(v)
		}
		o.end(output, err, nil)
	}
	output, err := o.outcome()
	return resultOf[T](s, output, err)
}

// structure is the state of containers while a run is in memory.
type structure struct {
	obligations obligations
	undoing     int        // sagas that undo
	programs    []*Program // of children within the run
	children    []*op      // spawned in other actors, and not ended
	// steps under way that may have to be undone, and for which the code has no undo
	undoless []journal.Location
}

// dropIterations deletes the history of the iterations of a loop from one up to but excluding
// another.
func (r *Run) dropIterations(o *op, from, to uint32) error {
	if from >= to {
		return nil
	}
	r.touched()
	if err := r.keepAnswers(o, journal.ChildIteration(nil, o.loc, o.index, from), journal.ChildIteration(nil, o.loc, o.index, to)); err != nil {
		return err
	}
	return r.st.dropIterations(r.turn, o.loc, o.index, from, to)
}

// touched records a write that must be durable before anything leaves the run.
func (r *Run) touched() { r.wrote, r.durable = true, true }

// must keeps an error of the transaction for the driver.
func (r *Run) must(err error) {
	if err != nil && r.err == nil {
		r.err = err
	}
}

// collapseAt is the size of a history, in bytes, from which containers that end drop their
// contents.
const collapseAt = 256 << 10

// collapse drops the contents of a container that ends, if the history is large. The ends of
// branches stay, because they hold the results.
func (r *Run) collapse(o *op, members ...*member) error {
	if r.bytes < collapseAt || r.obliged(o.loc) || o.s.racing {
		return nil
	}
	if err := r.drop(o.loc, false); err != nil {
		return err
	}
	for _, m := range members {
		r.put(m.o)
	}
	return r.err
}
