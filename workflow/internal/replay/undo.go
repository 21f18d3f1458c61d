package replay

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Compensated is a Step with a function that undoes it.
func Compensated[T any](ctx Context, name string, do func(sc *StepCtx) (T, error),
	undo func(sc *StepCtx, v T) error, options ...StepOption) (T, error) {
	s := ctx.scope()
	p := s.run.program
	if undo == nil {
		s.misuse(s.owner, fmt.Sprintf("step %q: the undo function is nil", s.pathOf(name)))
	}
	o, err := s.startStep(name, bodyOf(p, do), func(sc *StepCtx, output []byte) error {
		var v T
		if err := p.decode(output, &v); err != nil {
			return Permanent(err)
		}
		err := undo(sc, v)
		if err == nil && sc.a.t.undoes.Unknown && !sc.a.asked.Load() && reflect.TypeFor[T]().Size() > 0 {
			err = Permanent(errNotAsked)
		}
		return err
	}, options)
	if err != nil {
		var none T
		return none, err
	}
	mustEncode[T](s, o)
	o.wait(s.owner)
	if err := o.stepError(); err != nil {
		var none T
		return none, err
	}
	return resultOf[T](s, o.entry.Output, nil)
}

// undoBy holds the arguments of the option UndoBy.
type undoBy struct {
	handler string
	args    any
}

// UndoBy names the handler that undoes a step, registered by WithUndo.
func UndoBy(handler string, args any) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.undo = undoBy{handler, args}
		return checkName(handler)
	})
}

// undoHandlers are the handlers of a program by name.
type undoHandlers map[string]func(sc *StepCtx, args []byte) error

// WithUndo registers a handler for UndoBy.
func WithUndo[T any](handler string, fn func(sc *StepCtx, args T) error) Option {
	return option(func(c *config) error {
		if err := checkName(handler); err != nil {
			return fmt.Errorf("WithUndo: %w", err)
		}
		if fn == nil {
			return fmt.Errorf("WithUndo(%q): the function is nil", handler)
		}
		if c.undo[handler] != nil {
			return fmt.Errorf("WithUndo(%q): registered twice", handler)
		}
		if c.undo == nil {
			c.undo = undoHandlers{}
		}
		c.undo[handler] = func(sc *StepCtx, args []byte) error {
			var v T
			if err := c.codec.Decode(args, &v); err != nil {
				return Permanent(fmt.Errorf("arguments of undo handler %q: %w", handler, err))
			}
			return fn(sc, v)
		}
		return nil
	})
}

// undoHandler finds a handler among those of the run's program and of the programs of children
// within it.
func (r *Run) undoHandler(name string) func(sc *StepCtx, args []byte) error {
	if h := r.program.config.undo[name]; h != nil {
		return h
	}
	for _, p := range r.programs {
		if h := p.config.undo[name]; h != nil {
			return h
		}
	}
	return nil
}

// addProgram adds the program of a child within the run.
func (r *Run) addProgram(p *Program) {
	if p != r.program && !slices.Contains(r.programs, p) {
		r.programs = append(r.programs, p)
	}
}

// undoOptions say how obligations are undone.
type undoOptions struct {
	retry    *RetryPolicy
	parallel int
}

// How undo handlers are retried by default: for about 50 minutes.
var defaultUndoRetry = RetryPolicy{MaxAttempts: defaultUndoAttempts, Max: defaultUndoMax}

var errNotAsked = errors.New("the outcome of the step is unknown, and its undo function has not asked whether it is (StepCtx.Undoes): what it got was no result")

var errUndoGone = errors.New("the step that is to be undone was not asked for when the function ran again, so that its undo function is not known")

// undo undoes obligations, in their order, and returns when all are undone. It is not canceled. An
// undoing leaves no entry: the recorded obligations say what remains.
//
// REQUIRES: called on the coroutine of the scope.
func (s *scope) undo(options undoOptions, list []*pledge) {
	c := s.owner
	detached := s.with(newCancellation(nil, true), nil)
	retry := defaultUndoRetry
	if options.retry != nil {
		retry = *options.retry
	}
	retry.OnExhausted = PauseRun
	var running []*op
	for len(list) > 0 || len(running) > 0 {
		for len(list) > 0 && len(running) < max(options.parallel, 1) {
			running = append(running, detached.undoOne(list[0], retry))
			list = list[1:]
		}
		for !slices.ContainsFunc(running, func(o *op) bool { return o.done }) {
			for _, o := range running {
				o.waiter = c
			}
			c.waits = running[0]
			c.park()
			c.waits = nil
		}
		running = slices.DeleteFunc(running, func(o *op) bool { return o.done })
	}
}

// undoOne begins to undo an obligation.
func (s *scope) undoOne(p *pledge, retry RetryPolicy) *op {
	r := s.run
	so := new(stepOp)
	o := &so.op
	o.s, o.name, o.quiet = s, "undo of "+r.names.Path(p.Entry), true
	// The location only serves the idempotency key, which must differ from that of the step.
	o.loc = journal.ChildIteration(nil, p.Entry, 0, 0)
	o.recorded = p.Attempts > 0
	o.entry = Entry{Kind: KindStep, Created: r.clock()}
	so.task.undoes = p
	so.task.meta = Metadata{Attempts: p.Attempts, LastAttempt: p.LastAttempt, Due: p.Due, Failure: p.Failure}
	so.task.save = func() {
		m := &so.task.meta
		p.Attempts, p.LastAttempt, p.Due, p.Failure = m.Attempts, m.LastAttempt, m.Due, m.Failure
		r.touched()
		r.must(putObligation(r.turn, p.obligation))
		if m.Failure != nil {
			r.must(r.noteUndo(p, p.Entry, func(of *Metadata) { of.UndoFailure = m.Failure }))
		}
	}
	o.after = func() error {
		r.touched()
		r.obligations.remove(p)
		if err := deleteObligation(r.turn, p.Number); err != nil {
			return err
		}
		if r.record.Boots > 1 {
			// It is progress, although no entry has its seq.
			r.record.Boots = 1
			if err := putRecord(r.turn, &r.record); err != nil {
				return err
			}
		}
		return r.noteUndo(p, nil, func(of *Metadata) { of.Undone = o.entry.Ended })
	}
	// The function is looked up here, because the body runs concurrently with the run.
	undo := p.undo
	if p.Handler != "" {
		undo = func(*StepCtx) error {
			return Permanent(fmt.Errorf("no undo handler %q is registered with WithUndo", p.Handler))
		}
		if h := r.undoHandler(p.Handler); h != nil {
			undo = func(sc *StepCtx) error { return h(sc, p.Args) }
		}
	} else if undo == nil {
		undo = func(*StepCtx) error { return Permanent(errUndoGone) }
	}
	s.attempt(o, &so.task, func(sc *StepCtx) ([]byte, error) {
		return encodedNil, undo(sc)
	}, &stepOptions{retry: retry})
	return o
}

// noteUndo changes the metadata of the entry that an obligation undoes, or of the innermost
// remaining entry around it. A rewind must find there that the effect is gone, even if the
// iteration of the entry is deleted. It changes nothing outside of within.
func (r *Run) noteUndo(p *pledge, within journal.Location, change func(m *Metadata)) error {
	at, value, err := r.recordedAround(p.Entry, within)
	if err != nil || at == nil {
		return err
	}
	e, err := decodeEntry(journal.HistoryKey(nil, at), value)
	if err != nil {
		return err
	}
	var m Metadata
	if e.ID == 0 {
		e.ID = r.st.newID()
		if _, err := r.st.put(r.turn, at, &e); err != nil {
			return err
		}
	} else {
		key := journal.MetadataKey(nil, e.ID)
		value, ok, err := r.turn.Get(key)
		if err != nil {
			return err
		}
		if ok {
			if m, err = decodeMetadata(key, slices.Clone(value)); err != nil {
				return err
			}
		}
	}
	change(&m)
	return r.st.putMetadata(r.turn, e.ID, &m)
}

// recordedAround returns the innermost location around loc, itself included, that has a row, and
// that row. Both are nil if there is none inside of within, itself included.
func (r *Run) recordedAround(loc, within journal.Location) (journal.Location, []byte, error) {
	for ; len(loc) > 0 && len(loc) >= len(within); loc = journal.ParentOf(loc) {
		value, ok, err := r.turn.Get(journal.HistoryKey(nil, loc))
		if err != nil {
			return nil, nil, err
		}
		if ok {
			return loc, slices.Clone(value), nil
		}
	}
	return nil, nil, nil
}
