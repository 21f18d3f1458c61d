package replay

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// A Tx is the transaction that records an operation, for a function that runs within it.
type Tx struct {
	run *Run
	o   *op
}

// Host returns the host's view of the transaction, such as an actor's state to change.
func (tx *Tx) Host() any {
	if tx.run == nil {
		return nil
	}
	return tx.run.turn.Value()
}

// transact runs a function of the user within the transaction.
func (r *Run) transact(o *op, fn func(tx *Tx) error) (err error) {
	r.wrote, r.durable = true, true
	r.asked++ // it may have filled a queue or changed the state
	tx := &Tx{r, o}
	defer func() {
		tx.run = nil
		if p := recover(); p != nil {
			if m, ok := p.(*MisuseError); ok {
				err = &MisuseError{m.Text + "\n\n" + string(debug.Stack())}
			} else {
				err = &PanicError{fmt.Sprint(p), string(debug.Stack())}
			}
		}
		if err != nil {
			o.entry.Messages = nil // its replies are undone
		}
	}()
	if fn == nil {
		return errors.New("the function is nil")
	}
	return fn(tx)
}

// Update runs fn within the transaction that records its result.
func Update[T any](ctx Context, name string, fn func(tx *Tx) (T, error)) (T, error) {
	var v T
	s := ctx.scope()
	u := new(updateOp)
	o := &u.op
	if err := s.beginOp(o, KindStep, name); err != nil {
		return v, err
	}
	if !o.done && o.replay == 0 {
		if fn == nil {
			s.misuse(s.owner, fmt.Sprintf("update %q: the function is nil", s.pathOf(name)))
		}
		p := s.run.program
		u.fn = func(tx *Tx) error {
			v, err := fn(tx)
			if err != nil {
				return err
			}
			if u.output, err = p.encode(v); err != nil {
				return &resultError{err}
			}
			return s.run.checkSize(u.output)
		}
		mustEncode[T](s, o)
		o.live, o.clean = u, true
		o.listen()
		o.happened()
	}
	o.wait(s.owner)
	return stepResult[T](o)
}

// An updateOp is an Update that has not ended.
type updateOp struct {
	op     op
	fn     func(tx *Tx) error
	output []byte
	failed *Failure // fn failed, and its transaction was undone
}

func (u *updateOp) canceled(bool) { u.op.happened() }

func (u *updateOp) resolve() error {
	o := &u.op
	r := o.s.run
	switch {
	case u.failed != nil:
		o.entry.Status, o.entry.Failure = Failed, u.failed
	case o.s.cancel.err() != nil:
		o.setCanceled()
	default:
		if err := r.transact(o, u.fn); err != nil {
			if text := misuseOf(err); text != "" {
				r.fail(PausedMisuse, fmt.Sprintf("update %q: %s", o.s.pathOf(o.name), text))
				return errNotYet
			}
			u.failed, o.clean = r.failure(err), false
			return errUndo
		}
		o.entry.Status, o.entry.Output = Completed, u.output
	}
	return nil
}
