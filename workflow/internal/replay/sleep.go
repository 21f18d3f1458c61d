package replay

import "time"

// Sleep waits for d, counted from now.
func Sleep(ctx Context, name string, d time.Duration) error {
	return sleepTo(ctx, name, func(now time.Time) time.Time { return now.Add(d) })
}

// SleepUntil waits until t, which may be past. The error matches ErrCanceled.
func SleepUntil(ctx Context, name string, t time.Time) error {
	return sleepTo(ctx, name, func(time.Time) time.Time { return t })
}

func sleepTo(ctx Context, name string, deadline func(now time.Time) time.Time) error {
	s := ctx.scope()
	w, err := s.sleep(name, deadline)
	if err != nil {
		return err
	}
	w.op.wait(s.owner)
	if w.op.entry.Status == Canceled {
		return w.op.canceledError()
	}
	return nil
}

// A sleepOp is a wait for a time that has not ended.
type sleepOp struct {
	op    op
	timer timer
}

func (s *scope) sleep(name string, deadline func(now time.Time) time.Time) (*sleepOp, error) {
	w := new(sleepOp)
	o := &w.op
	if err := s.beginOp(o, KindSleep, name); err != nil {
		return nil, err
	}
	if o.done || o.replay != 0 {
		return w, nil
	}
	r := s.run
	o.live = w
	if !o.recorded {
		at := roundUp(deadline(o.entry.Created)) // stored to the millisecond
		o.entry.Deadline = at
		if at.After(o.entry.Created) {
			r.put(o)
		}
	}
	w.timer.fire = func() error {
		o.happened()
		return nil
	}
	r.timers.set(&w.timer, o.entry.Deadline)
	o.listen()
	return w, nil
}

func (w *sleepOp) resolve() error {
	if w.op.entry.Status != Canceled {
		w.op.entry.Status = Completed
	}
	return nil
}

func (w *sleepOp) canceled(bool) {
	if w.op.queued {
		return
	}
	w.op.s.run.timers.stop(&w.timer)
	w.op.setCanceled()
	w.op.happened()
}
