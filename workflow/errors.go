package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

var (
	// ErrCanceled: the operation's scope was canceled. The error is a *CanceledError.
	ErrCanceled = replay.ErrCanceled
	// ErrOutcomeUnknown: a crash cut off an attempt of a step that may not be repeated, because it
	// must run at most once or its attempts are used up. A body that fails for good after a part of
	// its effect wraps it, so that the step is undone: see Compensated.
	ErrOutcomeUnknown = replay.ErrOutcomeUnknown
	// ErrTimeout: the operation's own time limit passed.
	ErrTimeout = replay.ErrTimeout
	// ErrTooLarge is matched by a *TooLargeError.
	ErrTooLarge = replay.ErrTooLarge
)

// A BranchError is the error of a failed branch.
//
//	// Branch is its name; for an element of ForEach its index.
//	Branch string
//	Err error
type BranchError = replay.BranchError

// A CanceledError is the error of the operations of a canceled scope. It matches ErrCanceled.
//
//	// Cause is the cause given with the cancellation; nil if there is none.
//	Cause error
type CanceledError = replay.CanceledError

// A ChildError says that a child did not complete.
//
//	// Name is that of the Spawn, Program that of the workflow.
//	Name, Program string
//	// Status says how it ended: Failed, Canceled, or Exhausted if it could not be run at all:
//	// its actor refused to start it, or was destroyed.
//	Status host.EntryStatus
//	// Err is the child's error, as far as it can be stored.
//	Err error
type ChildError = replay.ChildError

// A CodecError says that a value cannot be encoded or decoded.
//
//	// Type is the Go type.
//	Type string
//	// Decoding is set if decoding failed.
//	Decoding bool
//	Err error
type CodecError = replay.CodecError

// A FailureError is an error that went through the history.
//
//	Failure host.Failure
//	// ErrorCode returns the error's code, or "".
//	func (e *FailureError) ErrorCode() string
//	// ErrorMetadata returns the error's metadata, or nil.
//	func (e *FailureError) ErrorMetadata() map[string]string
type FailureError = replay.FailureError

// A JoinError is the error of Join, JoinFast and ForEach: some branches failed.
//
//	Name string // of the join
//	Failed []*BranchError // in the order in which the function lists the branches
//	// First returns the failure that came first.
//	func (e *JoinError) First() *BranchError
type JoinError = replay.JoinError

// A PanicError is the error of a step's body, or of a function within a transaction, that panics.
//
//	Value string // of the panic, printed
//	Stack string
type PanicError = replay.PanicError

// A RaceError is the error of a Race in which every case failed.
//
//	Name string // of the race
//	Failed []*BranchError // in the order in which the function lists the cases
type RaceError = replay.RaceError

// A StepError says that a step failed for good. A replay returns the same error.
//
//	// Step is the step's name.
//	Step string
//	// Attempts counts its executions, including attempts cut off by a crash.
//	Attempts int
//	// Cause is the error of the last execution, as far as it can be stored. errors.As finds
//	// types that WithError registered, and errors.Is finds values of WithErrorValue and of
//	// this package. Of other errors only the text is kept.
//	Cause error
type StepError = replay.StepError

// A TooLargeError says which value exceeds which limit.
//
//	What string // such as "output of step \"charge\""
//	Size int64
//	Limit int64
type TooLargeError = replay.TooLargeError
