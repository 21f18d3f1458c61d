package replay

import "time"

// A Future is an operation that has begun and may not have ended.
type Future[T any] struct {
	o      *op
	result func(o *op) (T, error)
}

// Get waits until the operation has ended and returns its result; every call returns the same one.
// ctx is the Context of the function that waits. Canceling ctx does not end the wait; canceling the
// Context that began the operation ends the operation.
func (f *Future[T]) Get(ctx Context) (T, error) {
	s := ctx.scope()
	s.own()
	f.o.wait(s.owner)
	return f.result(f.o)
}

// Done reports whether the operation has ended.
func (f *Future[T]) Done() bool { return f.o.done }

// Timer begins to wait for d and returns at once.
func Timer(ctx Context, name string, d time.Duration) (*Future[time.Time], error) {
	s := ctx.scope()
	w, err := s.sleep(name, func(now time.Time) time.Time { return now.Add(d) })
	if err != nil {
		return nil, err
	}
	o := &w.op
	if !o.done && o.replay == 0 {
		o.abandon = func() { w.canceled(false) }
	}
	s.futures = append(s.futures, o)
	return &Future[time.Time]{o, func(o *op) (time.Time, error) {
		if o.entry.Status == Canceled {
			return time.Time{}, o.canceledError()
		}
		return o.entry.Ended, nil
	}}, nil
}
