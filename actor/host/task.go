package host

import (
	"context"
	"log/slog"
)

// A Task runs beside its actor, started by a turn, and keeps the actor awake. As a context it ends
// when the actor goes to sleep, fails or is destroyed, or the node shuts down; context.Cause says
// why. Its methods may be called from any goroutine until the task's function returns.
type Task interface {
	context.Context
	Node

	Self() Identity
	Logger() *slog.Logger
	// Turn runs f as a turn of the actor, on its state, and returns when that is durable. state has
	// the type that Behavior.Decode returns; f may change it. The error is f's, or the reason why
	// the turn could not run.
	Turn(ctx context.Context, f func(state any, t Turn) error) error
	// Append appends items, in CBOR, to a stream in a separate turn and returns the sequence of the
	// last.
	Append(ctx context.Context, stream string, items [][]byte) (uint64, error)
}
