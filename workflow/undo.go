package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Compensated is a Step with a function that undoes it. undo is called with the result of do if the
// enclosing Saga fails, or, outside of any saga, the run. It is called like the body of a step: at
// least once, with retries (see UndoRetry), and with an idempotency key of its own.
//
// A step that failed for good (see Permanent) has done nothing under its idempotency key, and is
// not undone, unless its error also wraps ErrOutcomeUnknown. The outcome of a step that was given
// up is unknown: its scope was canceled, its time or its attempts were used up, or crashes cut it
// off. Then undo is called even if the saga succeeds, with a zero v, and StepCtx.Undoes returns the
// step's idempotency key and false. An undo function that returns nil without calling Undoes counts
// as failed, unless T has no content, because it may have taken the zero v for a result.
//
// Canceling does not interrupt do (see CancelBody). The step ends when do has returned, and a late
// result is undone like others. An undo that keeps failing pauses the run.
//
// The undo function is part of the code. As long as it may be called, the history that leads to it
// is kept, and is replayed after a crash. UndoBy has no such cost; as an option of Compensated it
// replaces undo.
func Compensated[T any](ctx Context, name string, do func(sc *StepCtx) (T, error),
	undo func(sc *StepCtx, v T) error, options ...StepOption) (T, error) {
	return replay.Compensated[T](ctx, name, do, undo, options...)
}

// Saga runs fn. If fn returns an error, Saga undoes the steps inside that are Compensated or have
// UndoBy. Undo handlers run one after another, in the reverse of the order in which the steps
// ended. This includes steps in loops, branches and scopes inside, whether these have ended or not.
// Undo handlers are not canceled along with the run, and they survive restarts: a handler that a
// crash cuts off runs again, under the same idempotency key. Then Saga returns fn's error.
//
// If fn returns no error, its steps are settled: they will not be undone later.
// Steps that were given up, whose outcome is unknown, are undone before Saga returns. A saga within
// another one leaves its steps to the outer one to undo, instead. Steps outside of any saga are
// undone if the run itself fails or is canceled, and before it ends if they were given up.
//
// The result is recorded like that of a Scope: a saga that has ended is not entered again. Code
// after it must use the result of fn, not variables that fn has set.
func Saga[T any](ctx Context, name string, fn func(ctx Context) (T, error), opts ...SagaOption) (T, error) {
	return replay.Saga[T](ctx, name, fn, opts...)
}

// A SagaOption changes how a Saga undoes.
type SagaOption = replay.SagaOption

// UndoBy names the handler that undoes a step, registered by WithUndo. Its arguments are recorded
// when the step ends. It is called in the same cases as the undo function of Compensated, including
// steps that were given up. Unlike that function, it may be called when the history of the step is
// gone, such as that of an early iteration of a long loop.
func UndoBy(handler string, args any) StepOption {
	return replay.UndoBy(handler, args)
}

// UndoParallel runs up to n undo handlers of the saga at the same time. They begin in reverse
// order, as always. The default, and 0, is 1: each begins when the one before has ended.
func UndoParallel(n int) SagaOption {
	return replay.UndoParallel(n)
}

// UndoRetry sets how undo handlers of the saga are retried. The default is 20 attempts, from 100 ms
// to 5 minutes apart. Then the run is paused, which an operator sees; Resume tries again.
// MaxAttempts -1 never pauses. OnExhausted has no meaning here: an undo is never given up.
func UndoRetry(p RetryPolicy) SagaOption {
	return replay.UndoRetry(replay.RetryPolicy(p))
}
