package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// A Tx is the transaction that records an operation, for a function that runs within it. It is
// valid until that function returns.
//
//	// Host returns the host's view of the transaction, such as an actor's state to change.
//	func (tx *Tx) Host() any
type Tx = replay.Tx

// Update runs fn within the transaction that records its result. Its changes and the result become
// durable together, exactly once. fn must be quick and do nothing outside of the transaction: no
// I/O, no operations of the run.
//
// If fn fails or panics, its changes are undone, and the error, a *StepError, is recorded. There
// are no retries. In a canceled scope fn does not run, and the error matches ErrCanceled.
func Update[T any](ctx Context, name string, fn func(tx *Tx) (T, error)) (T, error) {
	return replay.Update[T](ctx, name, fn)
}

// Reply answers the sender of a message in the transaction, if the sender waits for a reply. Only
// the first reply of a message counts.
func Reply[T, R any](tx *Tx, m Received[T], reply R) error {
	return replay.Reply[T, R](tx, m, reply)
}

// ReplyError answers the sender of a message with an error, which must not be nil.
func ReplyError[T any](tx *Tx, m Received[T], reason error) error {
	return replay.ReplyError[T](tx, m, reason)
}
