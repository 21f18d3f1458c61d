package host

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Cancel requests that the run ends. Waits return ErrCanceled, contexts of steps are canceled,
// sagas undo, and then the run is cancelled, regardless of its function's result. Bodies of steps
// that may have to be undone are waited for instead. A paused run does so when it goes on. Only the
// first request counts.
func Cancel(t Turn, reason string) error {
	return replay.Cancel(t, reason)
}

// Terminate ends a run at once, without running its code. Nothing is undone; the obligations stay
// visible. Children are ended as their Spawn says, and the parent gets a result.
func Terminate(t Turn, reason string) error {
	return replay.Terminate(t, reason)
}

// Hold pauses the run until Resume. Running attempts of steps end, and their results are kept for
// then.
func Hold(t Turn, reason string) error {
	return replay.Hold(t, reason)
}

// Resume continues a paused run, regardless of why it was paused. If the reason is still there, the
// run is paused again.
func Resume(t Turn) error {
	return replay.Resume(t)
}

// RetryEntry executes a step again. A step that waits for its next attempt runs at once and has all
// its attempts again. A failed step is retried as by Rewind. The error is a *ControlError if that
// is impossible.
func RetryEntry(t Turn, id EntryID) error {
	return replay.RetryEntry(t, id)
}

// Rewind makes a run continue from before an entry. It removes the entry, and everything that
// began or ended after it. Messages received after it return to their queues, and children
// started after it are terminated. Effects of steps outside stay: the steps are executed again,
// under another idempotency key. The host must make sure that no attempt is running.
//
// A run that completed, failed or was cancelled runs again, with the same id and without its
// result. The error is a *ControlError if Rewind is impossible: the run was terminated, its parent
// has got its result, or the rest of the history could not continue without the removed part.
func Rewind(t Turn, id EntryID) error {
	return replay.Rewind(t, id)
}

// A ControlError says why an operation on a run is refused.
//
//	Verb string // such as "rewind"
//	Reason string
type ControlError = replay.ControlError
