package replay

import (
	"errors"
	"fmt"
	"math"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// An Iter is one iteration of a Loop: its Context, and the state that the iteration before left.
type Iter[S, R any] struct {
	Context
	// State is passed to the next iteration. It is encoded at the end of each iteration, so fields
	// that are not encodable are lost.
	State S

	i      uint32
	result R
	broke  *breakError
}

// Iteration returns the number of the iteration, from 0.
func (it *Iter[S, R]) Iteration() int { return int(it.i) }

// Break ends the loop with a result: the body must return the error of Break.
func (it *Iter[S, R]) Break(result R) error {
	it.result = result
	if it.broke == nil {
		it.broke = new(breakError)
	}
	return it.broke
}

// A breakError is the error of Break. Each iteration has its own, so that the body of an inner loop
// cannot break an outer one and lose its result.
type breakError struct{ _ byte }

func (*breakError) Error() string {
	return "workflow: the loop's body has not returned what Break returned"
}

// A LoopOption changes how a Loop keeps its history.
type LoopOption interface{ loop(*loopOptions) error }

type loopOption func(*loopOptions) error

func (f loopOption) loop(o *loopOptions) error { return f(o) }

type loopOptions struct {
	keep, every int
}

// Keep keeps the history of the last n ended iterations.
func Keep(n int) LoopOption {
	return loopOption(func(o *loopOptions) error {
		o.keep = n
		return notNegative("Keep", n)
	})
}

// TrimEvery deletes the history of ended iterations in one range, once there are n of them.
func TrimEvery(n int) LoopOption {
	return loopOption(func(o *loopOptions) error {
		o.every = n
		return notNegative("TrimEvery", n)
	})
}

func notNegative(option string, n int) error {
	if n < 0 {
		return fmt.Errorf("workflow: %s(%d): negative", option, n)
	}
	return nil
}

// defaultTrimEvery bounds the ended iterations that a loop stores. It is large enough for the
// deletion to cost little per iteration.
const defaultTrimEvery = 20

// Loop runs body until it returns the error of it.Break, which ends the loop, or another error,
// which fails it.
func Loop[S, R any](ctx Context, name string, init S, body func(it *Iter[S, R]) error, opts ...LoopOption) (R, error) {
	var zero R
	s := ctx.scope()
	l, skip, err := s.loop(name, opts)
	if err != nil {
		return zero, err
	}
	r := s.run
	if skip {
		l.o.wait(s.owner)
	} else {
		mustEncode[S](s, l.o)
		mustEncode[R](s, l.o)
		if !l.o.recorded {
			l.o.entry.State = s.encoded(init)
			r.put(l.o)
		}
		l.run(func(inner *scope, i uint32, state []byte) (next, output []byte, err error) {
			it := &Iter[S, R]{Context: inner, i: i}
			it.State, _ = resultOf[S](inner, state, nil)
			switch err := body(it); {
			case err == nil && it.broke != nil:
				inner.misuse(inner.owner,
					fmt.Sprintf("the body of loop %q has called Break and returned nil: it must return what Break returns", s.pathOf(name)))
				return nil, nil, nil
			case err == nil:
				return inner.encoded(it.State), nil, nil
			case it.broke != nil && errors.Is(err, it.broke):
				return nil, inner.encoded(it.result), nil
			default:
				return nil, nil, err
			}
		})
	}
	output, err := l.o.outcome()
	return resultOf[R](s, output, err)
}

// A loop is a Loop while it runs.
//
//  1. Its entry holds the current iteration and its state. Advancing is a resolution, with a seq in
//     the entry. Replay enters the iteration when that seq has its turn, in the recorded order with
//     the other operations of the run.
//  2. Iterations below trimmed have no rows, except those of pinned.
//  3. pinned are ended iterations with live obligations whose handlers are closures, which replay
//     enters.
//  4. An ended iteration that is pinned, or that Keep may keep, has a row of its own, which holds
//     the state that it began with.
type loop struct {
	s       *scope
	o       *op
	options loopOptions
	trimmed uint32
	pinned  []uint32
}

type iterate func(inner *scope, i uint32, state []byte) (next, output []byte, err error)

func (s *scope) loop(name string, opts []LoopOption) (*loop, bool, error) {
	o, skip, err := s.open(KindLoop, name)
	if err != nil {
		return nil, false, err
	}
	l := &loop{s: s, o: o}
	for _, opt := range opts {
		if err := opt.loop(&l.options); err != nil {
			return nil, false, o.refuse(err)
		}
	}
	if l.options.every == 0 {
		l.options.every = defaultTrimEvery
	}
	return l, skip, nil
}

func (l *loop) at(i uint32) journal.Location {
	return journal.ChildIteration(nil, l.o.loc, l.o.index, i)
}

// run runs the iterations until one ends the loop.
func (l *loop) run(body iterate) {
	r, o := l.s.run, l.o
	over := o.ended()
	if o.recorded {
		for _, i := range r.obligedIterations(o.loc) {
			if i == o.entry.Iteration && !over {
				continue // it is the current one
			}
			state, ok := r.pinnedState(l.at(i))
			if !ok {
				continue // obligations by name need no closure
			}
			inner := l.s.within(o, r.iteration(o, i))
			inner.sealed = true
			body(inner, i, state)
			l.s.leave(inner)
			l.pinned = append(l.pinned, i)
		}
		if over {
			o.wait(l.s.owner)
			return
		}
		if seq := o.entry.Seq; seq > 0 {
			r.replayAt(seq, o)
			o.wait(l.s.owner)
			o.again()
		}
	}
	for {
		i, state := o.entry.Iteration, o.entry.State
		seq, at := r.seq, r.now
		inner := l.s.within(o, r.iteration(o, i))
		next, output, err := body(inner, i, state)
		l.s.leave(inner)
		pin := r.obliged(l.at(i))
		if pin {
			l.pinned = append(l.pinned, i)
		}
		// mark writes the row of the iteration, which ends in the same transaction.
		mark := func(status EntryStatus) error {
			if !pin && l.options.keep == 0 {
				return nil
			}
			r.touched()
			_, err := r.st.put(r.turn, l.at(i),
				&Entry{Kind: KindScope, Status: status, Seq: seq, Created: at, Ended: o.entry.Ended,
					Iteration: i, State: state})
			return err
		}
		if err == nil && next != nil {
			err = l.s.Err() // a body that ignores ErrCanceled would loop for ever
		}
		if err == nil && next != nil && i == math.MaxUint32 {
			err = fmt.Errorf("workflow: loop %q: more than %d iterations", o.name, uint32(math.MaxUint32))
		}
		if err != nil || next == nil {
			o.end(output, err, func() error {
				if err := mark(o.entry.Status); err != nil {
					return err
				}
				return l.trim(uint64(i) + 1 - min(uint64(i)+1, uint64(l.options.keep)))
			})
			return
		}
		o.entry.Iteration, o.entry.State = i+1, next
		o.resolve = func() error {
			if err := mark(Completed); err != nil {
				return err
			}
			ended := uint64(i) + 1
			keep := uint64(l.options.keep)
			if ended < keep || ended-keep < uint64(l.trimmed)+uint64(l.options.every) {
				return nil
			}
			return l.trim(ended - keep)
		}
		o.complete(l.s.owner)
		o.again()
	}
}

// trim deletes the iterations below end, except pinned ones.
func (l *loop) trim(end uint64) error {
	r := l.s.run
	still := l.pinned[:0]
	from := uint64(l.trimmed)
	for _, i := range l.pinned {
		if !r.obliged(l.at(i)) {
			from = min(from, uint64(i)) // it was skipped before
			continue
		}
		still = append(still, i)
	}
	l.pinned = still
	for _, i := range still {
		if uint64(i) >= end {
			break
		}
		if uint64(i) > from {
			if err := r.dropIterations(l.o, uint32(from), i); err != nil {
				return err
			}
		}
		from = uint64(i) + 1
	}
	if from < end {
		if err := r.dropIterations(l.o, uint32(from), uint32(end)); err != nil {
			return err
		}
	}
	l.trimmed = uint32(min(end, math.MaxUint32))
	return nil
}
