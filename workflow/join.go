package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// A Branch is one of the functions that Join and JoinFast run. Make it with B.
type Branch = replay.Branch

// B makes a branch. When the join returns, *out has the result of fn if that succeeded, and is
// unchanged otherwise. A nil out drops the result. The names of the branches of a join are
// distinct.
func B[T any](name string, out *T, fn func(ctx Context) (T, error)) Branch {
	return replay.B[T](name, out, fn)
}

// Join runs the branches concurrently and waits until all have ended. If some failed, the error is
// a *JoinError that has the error of each. A failure does not affect the other branches.
//
// Branches run one at a time, and switch only where they wait, so they may share variables while
// the join lasts. Once a branch has ended, only its result counts. The set of branches and its
// order belong to the history: changing it while runs exist needs a Version.
func Join(ctx Context, name string, branches ...Branch) error {
	return replay.Join(ctx, name, branches...)
}

// JoinFast is Join, but the first branch that fails cancels the others. It still waits for them
// to end. Its error is a *JoinError that matches the first failure only.
func JoinFast(ctx Context, name string, branches ...Branch) error {
	return replay.JoinFast(ctx, name, branches...)
}

// A Case is one of the functions that Race runs. Make it with C.
type Case[T any] = replay.Case[T]

// C makes a case of a race. The names of the cases of a race are distinct.
func C[T any](name string, fn func(ctx Context) (T, error)) Case[T] {
	return replay.C[T](name, fn)
}

// Race runs the cases concurrently until the first returns without an error. It returns the name
// and result of that case. If all fail, the error is a *RaceError.
//
// The losers are canceled and removed before Race returns. Late results of their steps are dropped.
// Messages that they received and did not answer go back to the head of their queues, in order.
// Their Compensated and UndoBy steps are undone, and Race waits for the bodies of these. Their
// history is deleted. Effects of other steps stay.
func Race[T any](ctx Context, name string, cases ...Case[T]) (winner string, v T, err error) {
	return replay.Race[T](ctx, name, cases...)
}

// ForEach calls fn for each item, concurrently, and returns the results in the order of the items.
// All elements are finished even if some fail. The error is then a *JoinError whose branches are
// named by index, and the results of the others are returned.
//
// Each element is a branch with a scope of its own, as in Join, named by its index: at most
// MaxBranches. The number of items belongs to the history, so the items must come from the input or
// from an operation. An element that has ended is not entered again after a crash: its results
// belong into its return value, not into shared variables.
func ForEach[T, R any](ctx Context, name string, items []T,
	fn func(ctx Context, i int, item T) (R, error), opts ...ForEachOption) ([]R, error) {
	return replay.ForEach[T, R](ctx, name, items, fn, opts...)
}

// A ForEachOption changes how ForEach runs.
type ForEachOption = replay.ForEachOption

// Concurrency bounds how many elements run at the same time. The default, and 0, is no bound.
func Concurrency(n int) ForEachOption {
	return replay.Concurrency(n)
}

const (
	// MaxBranches is how many branches Join, Race or ForEach may have.
	MaxBranches = replay.MaxBranches
)
