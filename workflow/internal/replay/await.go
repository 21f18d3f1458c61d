package replay

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// An await is a wait for a condition that has not ended.
type await struct {
	op     op
	probe  func(view any) (output []byte, ok bool, err error)
	timer  timer
	asked  uint64
	output []byte
}

// Await waits until probe returns true. It records and returns the value that probe returned with
// it.
func Await[V, T any](ctx Context, name string, probe func(view V) (T, bool), options ...WaitOption) (T, error) {
	var v T
	s := ctx.scope()
	w := new(await)
	o := &w.op
	if err := s.beginOp(o, KindAwait, name); err != nil {
		return v, err
	}
	if !o.done && o.replay == 0 {
		if probe == nil {
			s.misuse(s.owner, fmt.Sprintf("await %q: the function is nil", s.pathOf(name)))
		}
		mustEncode[T](s, o)
		p := s.run.program
		w.probe = func(view any) ([]byte, bool, error) {
			typed, ok := view.(V)
			if !ok {
				return nil, false, fmt.Errorf("the host's view is a %T and not a %T", view, *new(V))
			}
			v, ok := probe(typed)
			if !ok {
				return nil, false, nil
			}
			data, err := p.encode(v)
			if err != nil {
				return nil, false, &resultError{err}
			}
			return data, true, nil
		}
		w.begin(s.waitOptions("await", name, options))
	}
	o.wait(s.owner)
	if err := o.waitError(); err != nil {
		return v, err
	}
	o.decodeOutput(&v)
	return v, nil
}

// begin starts the wait of a live await.
func (w *await) begin(options waitOptions) {
	o := &w.op
	r := o.s.run
	if !o.recorded && options.limited {
		o.entry.Deadline = after(o.entry.Created, options.within)
	}
	o.live = w
	w.timer.fire = func() error {
		if o.queued {
			return nil // it was met, or canceled, before
		}
		// The condition counts if it holds now, even if no Advance checked it in time.
		if done, err := w.look(); done || err != nil {
			return err
		}
		o.entry.Status, o.entry.Failure = TimedOut, &Failure{Reason: reasonTimeout, Message: ErrTimeout.Error()}
		o.happened()
		return nil
	}
	if !o.entry.Deadline.IsZero() {
		r.timers.set(&w.timer, o.entry.Deadline)
	}
	r.awaits = append(r.awaits, w)
	o.listen()
}

func (w *await) canceled(bool) {
	if !w.op.queued {
		w.op.setCanceled()
		w.op.happened()
	}
}

func (w *await) resolve() error {
	r := w.op.s.run
	if w.op.entry.Status == Pending {
		w.op.entry.Status, w.op.entry.Output = Completed, w.output
	}
	r.timers.stop(&w.timer)
	if i := slices.Index(r.awaits, w); i >= 0 {
		r.awaits = slices.Delete(r.awaits, i, i+1)
	}
	return nil
}

// look checks the condition, and if it holds queues the op to be resolved.
func (w *await) look() (done bool, err error) {
	r := w.op.s.run
	output, ok, err := w.call(r.turn.Value())
	switch {
	case err != nil:
		reason := PausedPanicked
		if misuseOf(err) != "" {
			reason = PausedMisuse
		}
		r.fail(reason, fmt.Sprintf("await %q: %v", w.op.s.pathOf(w.op.name), err))
		return true, nil
	case !ok:
		w.asked = r.asked
		return false, nil
	}
	w.output = output
	w.op.happened()
	return true, nil
}

func (w *await) call(view any) (output []byte, ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n\n%s", p, debug.Stack())
		}
	}()
	return w.probe(view)
}

// pollAwaits checks the conditions until one holds.
func (r *Run) pollAwaits() (bool, error) {
	for _, w := range r.awaits {
		if w.asked == r.asked || w.op.queued || w.op.done {
			continue
		}
		if done, err := w.look(); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// recordAwaits writes the entries of waits that have none yet.
func (r *Run) recordAwaits() {
	for _, w := range r.awaits {
		if w.op.hidden {
			r.put(&w.op)
		}
	}
}
