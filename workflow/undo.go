package workflow

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Compensated is a Step whose effect can be undone: if the enclosing Saga fails, or outside of any saga the run, undo is
// called with what do returned. It is called like the body of a step: at least once, with retries (see UndoRetry), and with
// an idempotency key of its own. A step that failed is not undone.
//
// The undo function is a part of the code, so as long as it may be called, the history that leads to it is kept, and is run
// through again after a crash. UndoBy has no such cost; as an option of Compensated it takes the place of undo.
func Compensated[T any](ctx Context, name string, do func(sc *StepCtx) (T, error), undo func(sc *StepCtx, v T) error, options ...StepOption) (T, error) {
	s := ctx.scope()
	p := s.run.program
	var b body
	if do != nil {
		b = func(sc *StepCtx) ([]byte, error) {
			v, err := do(sc)
			if err != nil {
				return nil, err
			}
			data, err := p.encode(v)
			if err != nil {
				return nil, Permanent(err)
			}
			return data, nil
		}
	}
	o, err := s.startStep(name, b, options)
	if err != nil {
		var none T
		return none, err
	}
	if undo == nil {
		s.misuse(s.owner, fmt.Sprintf("step %q: the undo function is nil", s.pathOf(name)))
	}
	o.undoneBy(func(sc *StepCtx) error {
		var v T
		if err := p.decode(o.entry.Output, &v); err != nil {
			return Permanent(err)
		}
		return undo(sc, v)
	})
	o.wait(s.owner)
	if err := o.stepError(); err != nil {
		var none T
		return none, err
	}
	return resultOf[T](s, o.entry.Output, nil)
}

// undoneBy has a step owe its undoing by a function of the code, unless it owes it by name already.
func (o *op) undoneBy(undo func(sc *StepCtx) error) {
	if o.replay != 0 || o.done {
		o.reoblige(undo)
		return
	}
	if o.after == nil {
		o.after = func() error { return o.obligeIfDone("", nil, undo) }
	}
}

func (o *op) obligeIfDone(handler string, args []byte, undo func(sc *StepCtx) error) error {
	if o.entry.Status != Completed {
		return nil
	}
	return o.oblige(handler, args, undo)
}

// undoBy is what the option UndoBy sets.
type undoBy struct {
	handler string
	args    any
}

// UndoBy has a step be undone by a handler that WithUndo registered, with arguments that are recorded along with the step's
// result. Unlike the function of Compensated, the handler may be called when the history of the step is gone, such as that of
// an early iteration of a long loop.
func UndoBy(handler string, args any) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.undo = undoBy{handler, args}
		return checkName(handler)
	})
}

// undoneByName has a live step owe its undoing as its options say.
func (o *op) undoneByName(by undoBy) error {
	if by.handler == "" {
		return nil
	}
	r := o.s.run
	if r.undoHandler(by.handler) == nil {
		return fmt.Errorf("UndoBy: no handler %q is registered with WithUndo", by.handler)
	}
	args, err := r.encode(by.args)
	if err != nil {
		return fmt.Errorf("UndoBy(%q): %w", by.handler, err)
	}
	o.after = func() error { return o.obligeIfDone(by.handler, args, nil) }
	return nil
}

// undoHandlers are the handlers of a program by name.
type undoHandlers map[string]func(sc *StepCtx, args []byte) error

// WithUndo registers a handler for UndoBy. fn gets the arguments that UndoBy was given. It must stay registered, and take
// the same type, for as long as runs may owe it.
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

// undoHandler finds a handler among those of the run's program and of the programs of children within it.
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

// addProgram says that a child within the run runs a program.
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
var defaultUndoRetry = RetryPolicy{MaxAttempts: 20, Max: 5 * time.Minute}

var errUndoGone = errors.New("the step that is to be undone was not asked for when the function ran again, so that its undo function is not known")

// undo undoes what is owed inside of the locations, the last first, and returns when nothing is left. What it does is not
// canceled. An undoing leaves no entry: what is left to do is recorded by what is still owed.
//
// REQUIRES: called on the coroutine of the scope.
func (s *scope) undo(options undoOptions, locs ...location) {
	r, c := s.run, s.owner
	detached := s.with(newCancellation(nil, true), nil)
	retry := defaultUndoRetry
	if options.retry != nil {
		retry = *options.retry
	}
	retry.OnExhausted = PauseRun
	list := r.obligations.under(locs...)
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
	o.s, o.name, o.quiet = s, "undo of "+r.names.path(p.Entry), true
	// The location is only what the idempotency key is made of: that of the step has another one.
	o.loc = childIteration(nil, p.Entry, 0, 0)
	o.recorded = p.Attempts > 0
	o.entry = Entry{Kind: KindStep, Created: r.clock()}
	so.task.meta = Metadata{Attempts: p.Attempts, LastAttempt: p.LastAttempt, Due: p.Due, Failure: p.Failure}
	so.task.save = func() {
		m := &so.task.meta
		p.Attempts, p.LastAttempt, p.Due, p.Failure = m.Attempts, m.LastAttempt, m.Due, m.Failure
		r.touched()
		r.must(putObligation(r.turn, p.obligation))
		if m.Failure != nil {
			r.must(r.noteUndo(p, func(of *Metadata) { of.UndoFailure = m.Failure }))
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
		return r.noteUndo(p, func(of *Metadata) { of.Undone = o.entry.Ended })
	}
	// It is found here, for the body runs beside the run.
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

// noteUndo changes the metadata of what an obligation undoes, if its entry is still there.
func (r *Run) noteUndo(p *pledge, change func(m *Metadata)) error {
	key := historyKey(nil, p.Entry)
	value, ok, err := r.turn.Get(key)
	if err != nil || !ok {
		return err
	}
	e, err := decodeEntry(key, slices.Clone(value))
	if err != nil {
		return err
	}
	var m Metadata
	if e.ID == 0 {
		e.ID = r.st.newID()
		if _, err := r.st.put(r.turn, p.Entry, &e); err != nil {
			return err
		}
	} else {
		key := metadataKey(nil, e.ID)
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
