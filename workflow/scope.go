package workflow

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// Context is what a workflow function has. It is deliberately no context.Context: it cannot be handed to anything that
// talks to the world, which belongs into steps. It is valid on the coroutine that it was given to, until the function that
// got it returns.
type Context interface {
	// Info says which run this is and how long its history has become.
	Info() Info
	// Now is the time of the run: that of the last operation that ended. It is the same when the function runs again.
	Now() time.Time
	// Rand returns random numbers that are the same when the function runs again.
	Rand() *rand.Rand
	// Logger logs with the run's attributes, and is silent while the function only runs again.
	Logger() *slog.Logger
	// Err is nil until the scope is canceled; then it matches ErrCanceled and wraps the cause.
	Err() error
	scope() *scope
}

// A scope is a place in the history under which operations are named: the root, an iteration, a branch.
//
//  1. Operations are asked for on the owner's coroutine only.
//  2. next is the ordinal of the next new operation; recorded operations are consumed in the order of their ordinals.
//  3. used holds the names that the code has asked for since the scope began, so that none is used twice.
type scope struct {
	run    *Run
	parent *scope
	owner  *coroutine
	loc    []byte // the tuple after 07 15 02, "" for the root
	path   string // for people: "serve~3/checkout"
	next   uint32
	used   map[uint32]struct{}
	cancel *cancellation
	saga   *saga // the innermost one that encloses the scope
}
