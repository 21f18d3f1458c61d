package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// An Iter is one iteration of a Loop: its Context, and the state that the iteration before left.
//
//	Context
//	// State is passed to the next iteration. It is encoded at the end of each iteration, so
//	// fields that are not encodable are lost.
//	State S
//	// Iteration returns the number of the iteration, from 0.
//	func (it *Iter[S, R]) Iteration() int
//	// Break ends the loop with a result: the body must return the error of Break.
//	func (it *Iter[S, R]) Break(result R) error
type Iter[S, R any] = replay.Iter[S, R]

// Loop runs body until it returns the error of it.Break, which ends the loop, or another error,
// which fails it. The first iteration has the state init. Each later one has the state that the one
// before left in it.State. A loop without a state uses struct{}.
//
// When an iteration ends, the state is recorded. After a crash the loop continues with the
// iteration that was interrupted: earlier ones do not run again, and their history is deleted (see
// Keep). Their results belong into the state, not into variables outside. An iteration stays in the
// history while a Compensated step of it may have to be undone. In loops that run for long use
// UndoBy, or a Saga within the iteration.
func Loop[S, R any](ctx Context, name string, init S, body func(it *Iter[S, R]) error, opts ...LoopOption) (R, error) {
	return replay.Loop[S, R](ctx, name, init, body, opts...)
}

// A LoopOption changes how a Loop keeps its history.
type LoopOption = replay.LoopOption

// Keep keeps the history of the last n ended iterations. It can be read, and the run can be rewound
// or forked to any place in it. The state at the begin of each of them is stored as well. The
// default is 0.
func Keep(n int) LoopOption {
	return replay.Keep(n)
}

// TrimEvery deletes the history of ended iterations in one range, once there are n of them. The
// default is 20, 0 means the default.
func TrimEvery(n int) LoopOption {
	return replay.TrimEvery(n)
}
