package replay

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A SagaOption changes how a Saga undoes.
type SagaOption interface{ saga(*undoOptions) error }

type sagaOption func(*undoOptions) error

func (f sagaOption) saga(o *undoOptions) error { return f(o) }

// UndoRetry sets how undo handlers of the saga are retried.
func UndoRetry(p RetryPolicy) SagaOption {
	return sagaOption(func(o *undoOptions) error {
		o.retry = &p
		if err := p.validate(); err != nil {
			return fmt.Errorf("workflow: UndoRetry: %w", err)
		}
		return nil
	})
}

// UndoParallel runs up to n undo handlers of the saga at the same time.
func UndoParallel(n int) SagaOption {
	return sagaOption(func(o *undoOptions) error {
		o.parallel = n
		return notNegative("UndoParallel", n)
	})
}

// A saga encloses Compensated steps.
type saga struct {
	parent *saga // nil for the run as a whole, which undoes if it fails or is canceled
	loc    journal.Location
}

// Saga runs fn. If fn returns an error, Saga undoes the steps inside that are Compensated or have
// UndoBy.
func Saga[T any](ctx Context, name string, fn func(ctx Context) (T, error), opts ...SagaOption) (T, error) {
	var zero T
	s := ctx.scope()
	o, skip, err := s.open(KindSaga, name)
	if err != nil {
		return zero, err
	}
	var options undoOptions
	for _, opt := range opts {
		if err := opt.saga(&options); err != nil {
			return zero, o.refuse(err)
		}
	}
	if skip {
		o.wait(s.owner)
	} else {
		mustEncode[T](s, o)
		s.runSaga(o, options, func(inner *scope) ([]byte, error) {
			v, err := fn(inner)
			if err != nil {
				return nil, err
			}
			return inner.encoded(v), nil
		})
	}
	output, err := o.outcome()
	return resultOf[T](s, output, err)
}

// runSaga runs a saga to its end.
func (s *scope) runSaga(o *op, options undoOptions, fn func(inner *scope) ([]byte, error)) {
	r := s.run
	if !o.recorded {
		r.put(o)
	}
	own := &saga{s.saga, o.loc}
	inner := s.within(o, s.inside(o, s.cancel, own))
	output, err := fn(inner)
	s.leave(inner)
	switch {
	case o.ended():
	case err != nil:
		s.compensate(o, r.failure(err), options)
	case own.parent == nil:
		s.undo(options, r.obligations.within(false, o.loc))
	}
	o.end(output, err, func() error {
		if o.entry.Status == Completed && own.parent == nil {
			return r.discharge(o.loc)
		}
		return nil
	})
}

// compensate undoes the steps inside of a failed saga. The failure is on record before the first
// handler runs.
func (s *scope) compensate(o *op, f *Failure, options undoOptions) {
	r := s.run
	if len(r.obligations.under(o.loc)) == 0 {
		return
	}
	if o.entry.Failure == nil {
		o.entry.Failure = f
		r.put(o)
	}
	r.rollingBack(1)
	s.undo(options, r.obligations.under(o.loc))
	r.rollingBack(-1)
}

// rollingBack counts the sagas that undo, and sets the state of the run.
func (r *Run) rollingBack(by int) {
	r.undoing += by
	switch {
	case r.undoing == 1 && by > 0:
		r.setState(StateRollingBack)
	case r.undoing == 0:
		r.setState(StateRunning)
	}
}

// rootSaga runs the workflow function, and then undoes: everything if it fails or if the run was
// canceled, otherwise the steps that were given up.
func (r *Run) rootSaga(s *scope, invoke func(ctx Context, input []byte) ([]byte, error), input []byte) ([]byte, error) {
	output, err := invoke(s, input)
	if out, ok := err.(*outputError); ok { // the run has not failed, so its steps must not be undone
		s.misuse(s.owner, out.Error())
	}
	if in, ok := err.(*inputError); ok { // operations that the function did not reach are no leftovers
		r.fail(PausedDiverged,
			in.Error()+"\n  Runs that are there keep the input that they began with: let the input's type still decode it, or give the workflow another name.")
		r.hang(s.owner)
	}
	s.end()
	for len(r.replays) > 0 {
		r.hand(r.replays.pop()) // the run was canceled while it was undoing
	}
	var again *restartError
	back := false // the state stays: the run ends
	for {
		failed := s.Err() != nil || err != nil && !errors.As(err, &again)
		list := r.obligations.within(failed, journal.Location{})
		if len(list) == 0 {
			break
		}
		if failed && !back {
			back = true
			r.rollingBack(1)
		}
		s.undo(undoOptions{}, list)
	}
	if back {
		r.undoing--
	}
	return output, err
}
