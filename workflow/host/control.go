package host

import "github.com/cairn-run/cairn/workflow/internal/replay"

// Cancel requests that the run ends: waits return ErrCanceled, contexts of steps are canceled,
// sagas undo, and then the run is cancelled, whatever its function returns. Bodies of steps that
// may have to be undone are waited for instead. A run that is paused does so when it goes on.
// Only the first request counts.
func Cancel(t Turn, reason string) error {
	return replay.Cancel(t, reason)
}

// Terminate ends a run at once, without running its code. Nothing is undone; the obligations stay
// visible. Children are ended as their Spawn says, and the parent is told.
func Terminate(t Turn, reason string) error {
	return replay.Terminate(t, reason)
}

// Hold pauses the run until Resume. Attempts of steps that are going on end, and their results
// are kept for then.
func Hold(t Turn, reason string) error {
	return replay.Hold(t, reason)
}

// Resume lets a paused run go on, whatever it was paused for. If the reason is still there, it is
// paused again.
func Resume(t Turn) error {
	return replay.Resume(t)
}

// RetryEntry executes a step again: one that waits for its next attempt, at once and with all its
// attempts; one that has failed, as Rewind does. The error is a *ControlError if that cannot be
// done.
func RetryEntry(t Turn, id EntryID) error {
	return replay.RetryEntry(t, id)
}

// Rewind makes a run continue from before an entry. It removes the entry, and everything that
// began or ended after it. Messages received after it return to their queues, and children
// started after it are terminated. Effects of steps outside stay: the steps are executed again,
// under another idempotency key. The host must make sure that no attempt is running.
//
// A run that has completed, failed or was cancelled is running again, with the same id and
// without its result. The error is a *ControlError if Rewind is impossible: the run was
// terminated, or its parent was told that it is over, or the rest of the history could not
// continue without the removed part.
func Rewind(t Turn, id EntryID) error {
	return replay.Rewind(t, id)
}

// A ControlError says why an operation on a run is refused.
//
//	Verb string // such as "rewind"
//	Reason string
type ControlError = replay.ControlError
