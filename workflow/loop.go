package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// An Iter is one iteration of a Loop: the Context for what it does, and the state that it has
// from the iteration before.
//
//	Context
//	// State is what the next iteration will have. It is encoded at the end of each iteration,
//	// so what is not encodable in it does not reach the next one.
//	State S
//	// Iteration returns the number of the iteration, from 0.
//	func (it *Iter[S, R]) Iteration() int
//	// Break ends the loop with a result: the body returns what Break returns.
//	func (it *Iter[S, R]) Break(result R) error
type Iter[S, R any] = replay.Iter[S, R]

// Loop runs body again and again until it returns what it.Break returned, or another error, which
// fails the loop. The first iteration has the state init, each later one what the one before has
// left in it.State. A loop without a state uses struct{}.
//
// When an iteration ends, the state is recorded, and after a crash the loop goes on with the
// iteration that it was in: those before do not run again, and their history is deleted (see
// Keep). What they should leave behind belongs into the state, not into variables outside. An
// iteration in which a Compensated step may yet have to be undone stays until that is settled; in
// loops that run for long use UndoBy, or a Saga within the iteration.
func Loop[S, R any](ctx Context, name string, init S, body func(it *Iter[S, R]) error, opts ...LoopOption) (R, error) {
	return replay.Loop[S, R](ctx, name, init, body, opts...)
}

// A LoopOption changes how a Loop keeps its history.
type LoopOption = replay.LoopOption

// Keep keeps the history of the last n iterations that have ended: people can look at it, and the
// run can be rewound or forked to any place in it. The state that such an iteration began with is
// stored with it. The default is 0.
func Keep(n int) LoopOption {
	return replay.Keep(n)
}

// TrimEvery deletes the history of ended iterations when n of them have come together, in one
// range. The default is 20, 0 means the default.
func TrimEvery(n int) LoopOption {
	return replay.TrimEvery(n)
}
