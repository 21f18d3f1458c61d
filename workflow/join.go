package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// A Branch is one of the functions that Join and JoinFast run. Make it with B.
type Branch = replay.Branch

// B makes a branch. When the join returns, *out has the result of fn if that succeeded, and is as
// it was if not. A nil out drops the result. Names are those of the join's branches, and
// distinct.
func B[T any](name string, out *T, fn func(ctx Context) (T, error)) Branch {
	return replay.B[T](name, out, fn)
}

// Join runs the branches concurrently and waits until all have ended. If some failed, the error
// is a *JoinError that has the error of each; the others are not disturbed by it.
//
// Branches run one at a time, and switch only where they wait, so they may share variables while
// the join lasts. Once a branch has ended, what counts is what it returned. The set of branches
// and its order belong to the history: changing it while runs are under way needs a Version.
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

// C makes a case of a race. Names are those of the race's cases, and distinct.
func C[T any](name string, fn func(ctx Context) (T, error)) Case[T] {
	return replay.C[T](name, fn)
}

// Race runs the cases concurrently until the first returns without an error. It returns that
// one's name and result. If all fail, the error is a *RaceError.
//
// The losers are canceled, and nothing of them stays: results that their steps still
// bring are dropped, messages that they received and did not answer go back to the head of their
// queues in order, what they did with Compensated or UndoBy is undone, and their history is
// deleted, all before Race returns. For that, Race waits for the bodies of such steps. What other
// steps have done outside stays done.
func Race[T any](ctx Context, name string, cases ...Case[T]) (winner string, v T, err error) {
	return replay.Race[T](ctx, name, cases...)
}

// ForEach calls fn for each item, concurrently, and returns the results in the order of the items.
// All elements are finished even if some fail; the error is then a *JoinError whose branches are
// named by index, and the results of the others are there.
//
// Each element is a branch with a scope of its own, as in Join, and is told apart by its index:
// at most MaxBranches. The number of items belongs to the history, so the items must come
// from the input or from an operation. An element that has ended is not entered again after a
// crash: what it should leave behind belongs into its result, not into variables that it shares.
func ForEach[T, R any](ctx Context, name string, items []T,
	fn func(ctx Context, i int, item T) (R, error), opts ...ForEachOption) ([]R, error) {
	return replay.ForEach[T, R](ctx, name, items, fn, opts...)
}

// A ForEachOption changes how ForEach runs.
type ForEachOption = replay.ForEachOption

// Concurrency bounds how many elements are under way at the same time. The default, and 0, is no
// bound.
func Concurrency(n int) ForEachOption {
	return replay.Concurrency(n)
}

const (
	// MaxBranches is how many branches Join, Race or ForEach may have.
	MaxBranches = replay.MaxBranches
)
