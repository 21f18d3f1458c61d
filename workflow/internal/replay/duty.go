package replay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A duty is the state of a running step that may have to be undone.
//
//  1. The transaction that launches the first attempt writes the step's row, with Entry.Owed. From
//     then on every later activation knows that the step may have had an effect.
//  2. The step ends when its body has returned, even if it was given up before: then a late result
//     is still a result.
//  3. The transaction that ends the step writes the obligation, if the step has succeeded or its
//     outcome is unknown.
//
// So an undo function never runs beside the body that it undoes, and no effect is without an
// obligation.
type duty struct {
	handler string  // of WithUndo; "" for a function of the code
	args    []byte  // of the handler
	undo    undoing // nil for a handler, and if the code no longer has the function
	doubt   bool    // an attempt may have had an effect, and its outcome is unknown
	overdue bool    // TotalTimeout passed while the body ran
	owed    uint32  // Entry.Owed when the step ended
	late    timer   // pauses the run if the body does not return
}

// An undoing is a function of the code that undoes a step. output is the step's encoded result; nil
// if that is unknown.
type undoing func(sc *StepCtx, output []byte) error

// lingering bounds the time that a body may take to return after its context has ended.
const lingering = 30 * time.Second

// CancelBody ends the context of a running body when its step is canceled, even if the step has an
// undo function.
func CancelBody() StepOption {
	return stepOption(func(o *stepOptions) error { o.cancelable = true; return nil })
}

// Undoes returns, in an undo function, the idempotency key of the step that is undone, and whether
// the step's result is known. It is unknown if the step was given up or cut off. Then the undo
// function must find out, by the key, whether the effect is there, and must make sure that it does
// not come later. In other bodies Undoes returns "" and false.
func (sc *StepCtx) Undoes() (key string, known bool) {
	p := sc.a.t.undoes
	if p == nil {
		return "", false
	}
	sc.a.asked.Store(true)
	return sc.a.key(p.Entry), !p.Unknown
}

// dutyOf returns the duty of a live step, by its option UndoBy or else by a function of the code;
// nil if it has neither.
func (o *op) dutyOf(by undoBy, undo undoing) (*duty, error) {
	switch {
	case by.handler == "" && undo == nil:
		return nil, nil
	case by.handler == "":
		return &duty{undo: undo}, nil
	}
	r := o.s.run
	if r.undoHandler(by.handler) == nil {
		return nil, fmt.Errorf("UndoBy: no handler %q is registered with WithUndo", by.handler)
	}
	args, err := r.encode(by.args)
	if err != nil {
		return nil, fmt.Errorf("UndoBy(%q): %w", by.handler, err)
	}
	return &duty{handler: by.handler, args: args}, nil
}

// takeDuty continues a step with the recorded state of its duty.
func (t *task) takeDuty() {
	e := &t.o.entry
	if t.duty == nil && e.Owed != 0 {
		t.duty = new(duty)
		t.o.s.run.undoless = append(t.o.s.run.undoless, t.o.loc)
	}
	if t.meta.Held != nil && e.Owed == 0 {
		t.duty = nil // of a fork: the effect is that of the recorded run
	}
	if t.duty == nil {
		return
	}
	t.duty.doubt = e.Owed != 0 || t.meta.Attempts > 0 || e.Status == Running
	t.o.after = t.owe
}

// oblige records, before an attempt is launched, that the step may have to be undone.
func (t *task) oblige() {
	if t.duty == nil {
		return
	}
	t.duty.doubt = true
	if e := &t.o.entry; e.Owed == 0 {
		e.Owed = t.o.s.run.record.Epoch + 1
		t.o.s.run.put(t.o)
	}
}

// epoch returns the epoch that is part of the attempts' idempotency key. For a step that may have
// to be undone, a rewind does not change it, so that the undo function finds the effect.
func (t *task) epoch() uint32 {
	owed := t.o.entry.Owed
	if t.undoes != nil {
		owed = t.undoes.Owed
	}
	if owed != 0 {
		return owed - 1
	}
	return t.o.s.run.record.Epoch
}

// doubts sets whether the step may have had an unknown effect, from the result of an attempt.
func (t *task) doubts(res *result) {
	if t.duty != nil {
		t.duty.doubt = res.failure != nil && !res.definite
	}
}

func (t *task) overdue() bool { return t.duty != nil && t.duty.overdue }

// linger pauses the run if the body, whose context has ended, does not return.
func (t *task) linger() {
	d, r := t.duty, t.o.s.run
	if d.late.fire != nil {
		return
	}
	d.late.fire = func() error {
		r.fail(PausedMisuse,
			fmt.Sprintf("the body of step %q does not return, although its context ended %v ago: what it does is unknown until then, and cannot be undone", t.o.s.pathOf(t.o.name), lingering))
		return nil
	}
	r.timers.set(&d.late, after(r.clock(), lingering))
}

// returned undoes linger: the next attempt has time of its own.
func (t *task) returned() {
	if d := t.duty; d != nil {
		t.o.s.run.timers.stop(&d.late)
		d.late.fire = nil
	}
}

// quit moves Owed from the entry of a step that ends to its duty.
func (t *task) quit() {
	d := t.duty
	if d == nil {
		return
	}
	d.owed, t.o.entry.Owed = t.o.entry.Owed, 0
}

// owe writes the obligation of a step that has ended, in the same transaction.
func (t *task) owe() error {
	d, done := t.duty, t.o.entry.Status == Completed
	if !done && !d.doubt {
		return nil
	}
	return t.o.oblige(d, !done)
}

// unclear reports whether an error that is not retried leaves the effect unknown: the body says so,
// it was interrupted, or it succeeded and its result cannot be recorded.
func unclear(err error) bool {
	var panicked *PanicError
	var value *CodecError
	var large *TooLargeError
	return errors.As(err, &panicked) || errors.As(err, &value) || errors.As(err, &large) ||
		errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, errGoexit) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
