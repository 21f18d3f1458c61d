package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Compensated is a Step whose effect can be undone: if the enclosing Saga fails, or outside of
// any saga the run, undo is called with what do returned. It is called like the body of a step:
// at least once, with retries (see UndoRetry), and with an idempotency key of its own.
//
// A step that failed for good (see Permanent) has done nothing under its idempotency key, and is
// not undone; an error that wraps ErrOutcomeUnknown as well says that it may have. A step that
// was given up is unknown: its scope was canceled, its time or its attempts were used up, or
// crashes have cut it off. Then undo is called even if the saga succeeds, with a zero v, and
// StepCtx.Undoes returns the step's idempotency key and false. An undo function that returns nil
// without having asked counts as failed, unless T has no content, because it may have taken the
// zero v for a result.
//
// Canceling does not interrupt do (see CancelBody). The step ends when do has returned, and a
// result that comes late is undone like others. An undo that cannot be done pauses the run.
//
// The undo function is a part of the code, so as long as it may be called, the history that leads
// to it is kept, and is run through again after a crash. UndoBy has no such cost; as an option of
// Compensated it takes the place of undo.
func Compensated[T any](ctx Context, name string, do func(sc *StepCtx) (T, error),
	undo func(sc *StepCtx, v T) error, options ...StepOption) (T, error) {
	return replay.Compensated[T](ctx, name, do, undo, options...)
}

// Saga runs fn. If fn returns an error, Saga undoes the steps inside that say how: Compensated
// ones, and those with UndoBy. Undo handlers run one after another, in the reverse of the order in
// which the steps ended, in loops, branches and scopes inside as well, whether these
// have ended or not. They are not canceled along with the run, and they survive restarts: one
// that a crash cuts off runs again, under the same idempotency key. Then Saga returns fn's error.
//
// If fn returns no error, what it did is settled: it will not be undone, whatever happens later.
// What was not done, but may have had an effect, is undone before Saga returns: steps that were
// given up, whose outcome is unknown. A saga within another one leaves its steps to the outer one
// to undo, instead. Steps outside of any saga are undone if the run itself fails or is canceled,
// and before it ends if they were given up.
//
// The result is recorded as that of a Scope is: a saga that has ended is not entered again, so
// what follows it must use what fn returned, not variables that fn has set.
func Saga[T any](ctx Context, name string, fn func(ctx Context) (T, error), opts ...SagaOption) (T, error) {
	return replay.Saga[T](ctx, name, fn, opts...)
}

// A SagaOption changes how a Saga undoes.
type SagaOption = replay.SagaOption

// UndoBy names what undoes a step: a handler that WithUndo registered, with arguments that are
// recorded when the step ends. The handler is called where the function of Compensated would be,
// also for a step that was given up. Unlike that function, it may be called when the history of
// the step is gone, such as that of an early iteration of a long loop.
func UndoBy(handler string, args any) StepOption {
	return replay.UndoBy(handler, args)
}

// UndoParallel lets up to n undo handlers of the saga run at the same time. They begin in reverse
// order, as always. The default, and 0, is 1: each begins when the one before has ended.
func UndoParallel(n int) SagaOption {
	return replay.UndoParallel(n)
}

// UndoRetry sets how undo handlers of the saga are retried. The default is to try 20 times, from
// 100 ms to 5 minutes apart, and then to pause the run, which tells an operator; Resume tries
// again. MaxAttempts -1 never pauses. OnExhausted has no meaning here: an obligation is not given
// up.
func UndoRetry(p RetryPolicy) SagaOption {
	return replay.UndoRetry(replay.RetryPolicy(p))
}
