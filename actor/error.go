package actor

import "github.com/cairn-run/cairn/actor/host"

// An Error is the only kind of error that crosses the border of an actor. Its message is shown to
// the remote caller; it wraps nothing. errors.Is(err, &actor.Error{Code: actor.NotFound}) tests for
// a code.
type Error = host.Error

// A Code is the kind of an error, for programs to act on. The list is closed.
type Code = host.Code

// The codes. package host documents each.
const (
	InvalidArgument     = host.InvalidArgument
	Unauthenticated     = host.Unauthenticated
	PermissionDenied    = host.PermissionDenied
	NotFound            = host.NotFound
	UnknownType         = host.UnknownType
	UnknownMethod       = host.UnknownMethod
	AlreadyExists       = host.AlreadyExists
	FailedPrecondition  = host.FailedPrecondition
	Cycle               = host.Cycle
	Overloaded          = host.Overloaded
	Canceled            = host.Canceled
	DeadlineExceeded    = host.DeadlineExceeded
	TooLarge            = host.TooLarge
	QuotaExceeded       = host.QuotaExceeded
	IdempotencyMismatch = host.IdempotencyMismatch
	ReadOnly            = host.ReadOnly
	Destroyed           = host.Destroyed
	StateTooNew         = host.StateTooNew
	ActorFailed         = host.ActorFailed
	ActorPaused         = host.ActorPaused
	Crashed             = host.Crashed
	Unavailable         = host.Unavailable
	Internal            = host.Internal
)

// Errorf makes an Error. The format's arguments become part of a message that remote callers see.
// Unlike fmt.Errorf it wraps nothing.
func Errorf(code Code, format string, args ...any) *Error { return host.Errorf(code, format, args...) }

// CodeOf returns the code that err has when it leaves an actor, and "" for nil. Errors that are not
// an Error are Internal, and those of package context are Canceled and DeadlineExceeded.
func CodeOf(err error) Code { return host.CodeOf(err) }

// A ContractError is one fault of a contract or of its implementation. [Definition.Validate] joins
// all it finds.
type ContractError struct {
	// Type is the actor type's name.
	Type string
	// Contract names the contract value or field at fault, such as `action "add"`, or is "" for the
	// type itself.
	Contract string
	// Reason says what is wrong and what to do.
	Reason string
}

// Error returns the type, the contract and the reason.
func (e *ContractError) Error() string {
	s := "actor type \"" + e.Type + "\": "
	if e.Contract != "" {
		s += e.Contract + ": "
	}
	return s + e.Reason
}
