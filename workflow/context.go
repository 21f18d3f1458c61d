package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Context gives a workflow function its operations. It is deliberately no context.Context: it
// cannot be passed to code that does I/O, which belongs into steps. It is valid on the coroutine
// that it was given to, until the function that got it returns.
//
//	// Info describes the run and its progress.
//	Info() Info
//	// Now is the time of the run: the time of the last operation that ended. It is the same when
//	// the function runs again, and never goes backwards.
//	Now() time.Time
//	// Rand returns random numbers that are the same in a replay.
//	Rand() *rand.Rand
//	// Logger logs with the run's attributes, and is silent during a replay.
//	Logger() *slog.Logger
//	// Err is nil until the scope is canceled; then it is a *CanceledError, which matches
//	// ErrCanceled.
//	Err() error
type Context = replay.Context

// Info describes the run of a Context. All fields except Replaying are the same in a replay.
//
//	// Workflow and Version are the name and version of the running definition.
//	Workflow, Version string
//	// RunID names the run, in hexadecimal. A fork has its own, even during its
//	// replay.
//	RunID string
//	// Self is the run's actor.
//	Self Destination
//	// Epoch counts the run's restarts by Restart, from 0.
//	Epoch uint32
//	// Started is the time at which the run, or the epoch, began.
//	Started time.Time
//	// Resolutions counts the operations that have ended so far. It measures the length of the
//	// run.
//	Resolutions uint64
//	// Replaying is set while the function replays the history. A decision by it breaks
//	// determinism.
//	Replaying bool
type Info = replay.Info

// A Destination names the actor of a child run by its type and key in the host's directory. The
// zero value is the run's own actor.
//
//	Type string
//	Key []string
type Destination = replay.Destination

// Detach returns a Context for the same scope whose operations are not canceled with the scope. Use
// it for cleanup after cancellation.
func Detach(ctx Context) Context {
	return replay.Detach(ctx)
}

// WithCancel returns a Context for the same scope, and a function that cancels its operations and
// those of scopes inside it. The cause may be nil. Operations that wait return an error that
// matches ErrCanceled. The context of a running step's body is canceled, and the step waits for the
// body: if the body still succeeds, so does the step. The body of a step that may have to be undone
// is only waited for: see CancelBody.
func WithCancel(ctx Context) (Context, func(cause error)) {
	return replay.WithCancel(ctx)
}

// Scope runs fn in a scope of its own, which may reuse names of the scope outside. Its result is
// recorded: when the workflow function runs again after a crash, an ended scope is not entered.
//
// The error is fn's, or matches ErrCanceled.
func Scope[T any](ctx Context, name string, fn func(ctx Context) (T, error)) (T, error) {
	return replay.Scope[T](ctx, name, fn)
}

// Publish sets the value that the run's status shows. It is no operation, so it is not in the
// history. When the function runs again, it publishes again, and a write happens only on a change.
func Publish[T any](ctx Context, v T) {
	replay.Publish[T](ctx, v)
}

// Restart ends the run's history and begins it anew with another input: same run, same id, next
// epoch. The workflow function must return the error of Restart. The history, including obligations
// to undo, is deleted in the transaction in which the function returns. Queues are not touched. A
// canceled run ends instead.
func Restart[In any](ctx Context, in In) error {
	return replay.Restart[In](ctx, in)
}
