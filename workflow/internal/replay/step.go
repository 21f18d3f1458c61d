package replay

import (
	"errors"
	"fmt"
	"time"
)

// stepOptions are the values that StepOptions set.
type stepOptions struct {
	retry         RetryPolicy
	timeout       time.Duration
	total         time.Duration
	failOnTimeout bool
	atMostOnce    bool
	deferred      bool
	sensitive     bool
	cancelable    bool
	undo          undoBy
}

// A StepOption is an option of a step.
type StepOption interface{ step(*stepOptions) error }

type stepOption func(*stepOptions) error

func (o stepOption) step(s *stepOptions) error { return o(s) }

// Retry sets how a step is tried again.
func Retry(p RetryPolicy) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.retry = p
		return p.validate()
	})
}

// Timeout bounds one attempt.
func Timeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.timeout = d
		return notNegativeDuration("Timeout", d)
	})
}

// FailOnTimeout fails the step when an attempt exceeds its Timeout, instead of trying again.
func FailOnTimeout() StepOption {
	return stepOption(func(o *stepOptions) error { o.failOnTimeout = true; return nil })
}

// TotalTimeout bounds the step with all its attempts and the waits between them.
func TotalTimeout(d time.Duration) StepOption {
	return stepOption(func(o *stepOptions) error {
		o.total = d
		return notNegativeDuration("TotalTimeout", d)
	})
}

func notNegativeDuration(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s(%v): negative", option, d)
	}
	return nil
}

// AtMostOnce records that the body is about to run before it runs.
func AtMostOnce() StepOption {
	return stepOption(func(o *stepOptions) error { o.atMostOnce = true; return nil })
}

// Deferred begins later operations before the step's result is durable.
func Deferred() StepOption {
	return stepOption(func(o *stepOptions) error { o.deferred = true; return nil })
}

// Sensitive hides the result of a step from readers of the history.
func Sensitive() StepOption {
	return stepOption(func(o *stepOptions) error { o.sensitive = true; return nil })
}

// A body is the function of a step: it returns the encoded result.
type body func(sc *StepCtx) ([]byte, error)

// A stepOp is the memory of a step, in one allocation.
type stepOp struct {
	op   op
	task task
}

// Step runs fn outside of the run, where it may do anything, and records its result.
func Step[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error), options ...StepOption) (T, error) {
	s := ctx.scope()
	o, err := s.startStep(name, bodyOf(s.run.program, fn), nil, options)
	if err != nil {
		var none T
		return none, err
	}
	mustEncode[T](s, o)
	o.wait(s.owner)
	return stepResult[T](o)
}

// bodyOf returns fn without its type.
func bodyOf[T any](p *Program, fn func(sc *StepCtx) (T, error)) body {
	if fn == nil {
		return nil
	}
	return func(sc *StepCtx) ([]byte, error) {
		v, err := fn(sc)
		if err != nil {
			return nil, err
		}
		data, err := p.encode(v)
		if err != nil {
			return nil, &resultError{err}
		}
		return data, nil
	}
}

// stepResult returns the result of a step that has ended.
func stepResult[T any](o *op) (v T, err error) {
	if err := o.stepError(); err != nil {
		return v, err
	}
	o.decodeOutput(&v)
	return v, nil
}

// decodeOutput decodes the recorded result. If that fails, another program recorded it, and
// decodeOutput does not return.
//
// REQUIRES: called on a coroutine.
func (o *op) decodeOutput(v any) {
	r := o.s.run
	if err := r.decode(o.entry.Output, v); err != nil {
		r.fail(PausedDiverged,
			fmt.Sprintf("the recorded result of %s %q is not what the code expects: %v%s",
				o.entry.Kind, o.s.pathOf(o.name), err, callSite()))
		r.hang(r.current.Load())
	}
}

// Do is Step without a result.
func Do(ctx Context, name string, fn func(sc *StepCtx) error, options ...StepOption) error {
	s := ctx.scope()
	var b body
	if fn != nil {
		b = func(sc *StepCtx) ([]byte, error) {
			if err := fn(sc); err != nil {
				return nil, err
			}
			return encodedNil, nil
		}
	}
	o, err := s.startStep(name, b, nil, options)
	if err != nil {
		return err
	}
	o.wait(s.owner)
	return o.stepError()
}

// encodedNil is the recorded result of operations without a result.
var encodedNil = []byte{0xF6}

// Begin begins a step and returns at once.
func Begin[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error),
	options ...StepOption) (*Future[T], error) {
	s := ctx.scope()
	o, err := s.startStep(name, bodyOf(s.run.program, fn), nil, options)
	if err != nil {
		return nil, err
	}
	mustEncode[T](s, o)
	s.futures = append(s.futures, o)
	return &Future[T]{o, stepResult[T]}, nil
}

// startStep begins a step. undo is the function of the code that undoes it; nil for none.
func (s *scope) startStep(name string, fn body, undo undoing, options []StepOption) (*op, error) {
	var so *stepOp
	var o *op
	if s.run.image == nil {
		so = new(stepOp)
		o = &so.op
	} else {
		o = new(op) // most likely it has ended
	}
	if err := s.beginOp(o, KindStep, name); err != nil {
		return nil, err
	}
	if o.done || o.replay != 0 {
		o.reoblige(undo)
		return o, nil
	}
	var t *task
	if so != nil {
		t = &so.task
	} else {
		t = new(task)
	}
	opts, err := s.stepOptions(name, options)
	if fn == nil && err == nil {
		err = errors.New("the function is nil")
	}
	if err == nil {
		t.duty, err = o.dutyOf(opts.undo, undo)
	}
	if err != nil {
		s.misuse(s.owner, fmt.Sprintf("step %q: %v", s.pathOf(name), err))
	}
	s.attempt(o, t, fn, opts)
	return o, nil
}

// stepOptions returns the options of a step.
func (s *scope) stepOptions(name string, options []StepOption) (*stepOptions, error) {
	defaults := &s.run.program.config.steps
	if len(options) == 0 {
		return defaults, nil
	}
	all := *defaults
	for i, o := range options {
		if o == nil {
			return nil, fmt.Errorf("option %d is nil", i)
		}
		if err := o.step(&all); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// attempt executes the body of a live step until the step has ended. t is the memory for it.
func (s *scope) attempt(o *op, t *task, fn body, options *stepOptions) {
	r := s.run
	t.o, t.fn, t.options = o, fn, options
	o.live = t
	o.entry.Sensitive = options.sensitive
	if o.entry.ID != 0 && r.image != nil {
		if m := r.image.metadata(o.entry.ID); m != nil {
			t.meta = *m
		}
	}
	t.takeDuty()
	if t.meta.Held != nil {
		t.release()
		o.happened()
	}
	if options.total > 0 {
		if o.entry.Deadline.IsZero() {
			o.entry.Deadline = after(o.entry.Created, options.total)
			r.put(o)
		}
		t.limit.fire = t.expire
		r.timers.set(&t.limit, o.entry.Deadline)
	}
	o.listen()
	if o.queued {
		return
	}
	switch {
	case options.atMostOnce && o.entry.Status == Running:
		t.settle(unknownOutcome(), Failed)
	case options.atMostOnce:
		_ = t.start()
	case !t.meta.Due.IsZero():
		t.schedule(t.meta.Due)
	default:
		if t.meta.Attempts > 0 && r.record.Boots == 0 {
			t.meta.Attempts-- // the host ended it with Rest
		}
		_ = t.start()
	}
}

// stepError returns the error of a step that has ended.
func (o *op) stepError() error {
	e := &o.entry
	switch e.Status {
	case Completed:
		return nil
	case Canceled:
		return o.canceledError()
	}
	return &StepError{Step: o.name, Attempts: max(int(o.tries), 1), Cause: o.s.run.errorOf(e.Failure)}
}
