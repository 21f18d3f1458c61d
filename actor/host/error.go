package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Code is the kind of an error, for programs to act on. The list is closed: codes are part of the
// wire format, are never reused, and each has a page under docs/errors. There is no code for
// success; success has no Error.
type Code string

// The codes. Retrying a call whose error is marked Retryable may succeed without any change by the
// caller.
const (
	// InvalidArgument: the request itself is wrong (undecodable input, a bad key part, a bad
	// parameter).
	InvalidArgument Code = "invalid_argument"
	// Unauthenticated: the request carries no valid credentials.
	Unauthenticated Code = "unauthenticated"
	// PermissionDenied: the caller is known and may not do this.
	PermissionDenied Code = "permission_denied"
	// NotFound: the actor, or the thing that the handler looked for, does not exist.
	NotFound Code = "not_found"
	// UnknownType: the node hosts no such actor type.
	UnknownType Code = "unknown_type"
	// UnknownMethod: the actor type has no such action or query.
	UnknownMethod Code = "unknown_method"
	// AlreadyExists: an explicit create named a key that is taken.
	AlreadyExists Code = "already_exists"
	// FailedPrecondition: the actor is not in a state in which this call makes sense. Handlers use
	// it for business rules.
	FailedPrecondition Code = "failed_precondition"
	// Cycle: the call would make actors wait for each other. Metadata "chain" shows the actors in
	// order.
	Cycle Code = "cycle"
	// Overloaded: a mailbox or another bounded queue is full. Retryable; nothing was done.
	Overloaded Code = "overloaded"
	// Canceled: the caller gave up. Whether the turn ran is unknown to the caller.
	Canceled Code = "canceled"
	// DeadlineExceeded: the caller's deadline or the turn's own time limit passed.
	DeadlineExceeded Code = "deadline_exceeded"
	// TooLarge: a key, value, message, state or write set is over its limit. Metadata names "what",
	// "limit" and "actual": OverLimit is the only way to make such an error.
	TooLarge Code = "too_large"
	// QuotaExceeded: the actor's storage quota is used up. Reads, deletes and exports go on.
	QuotaExceeded Code = "quota_exceeded"
	// IdempotencyMismatch: the idempotency key was used before with another request.
	IdempotencyMismatch Code = "idempotency_mismatch"
	// ReadOnly: a query, or something that a query called, tried to write.
	ReadOnly Code = "read_only"
	// Destroyed: the addressed life of the actor has ended.
	Destroyed Code = "destroyed"
	// StateTooNew: the stored state was written by a newer version of the actor's code. The data is
	// untouched.
	StateTooNew Code = "state_too_new"
	// ActorFailed: the actor could not be woken (its state does not decode, a hook fails, it keeps
	// crashing). Its data is kept; Metadata "reason" says why and "retry_at" when the next attempt
	// is allowed. Retryable, unless the reason is ReasonDamaged.
	ActorFailed Code = "actor_failed"
	// ActorPaused: an operator paused the actor. Retryable; Metadata "reason" says why.
	ActorPaused Code = "actor_paused"
	// Crashed: the handler panicked. Nothing of the turn was kept. Metadata "error_id" finds the
	// stack in the node's log.
	Crashed Code = "crashed"
	// Unavailable: the node is starting, draining, out of disk space or its store is read-only.
	// Retryable elsewhere or later.
	Unavailable Code = "unavailable"
	// Internal: an error without a code, whose details stay in the node's log under Metadata
	// "error_id".
	Internal Code = "internal"
)

var codes = []Code{
	InvalidArgument, Unauthenticated, PermissionDenied, NotFound, UnknownType, UnknownMethod, AlreadyExists,
	FailedPrecondition, Cycle, Overloaded, Canceled, DeadlineExceeded, TooLarge, QuotaExceeded, IdempotencyMismatch,
	ReadOnly, Destroyed, StateTooNew, ActorFailed, ActorPaused, Crashed, Unavailable, Internal,
}

// Codes lists every code, in a fixed order.
func Codes() []Code { return slices.Clone(codes) }

// Known reports whether c is one of the codes of this package.
func (c Code) Known() bool { return slices.Contains(codes, c) }

// An Error is the only kind of error that crosses the border of an actor: between actors, over HTTP
// and over NATS. It has no cause; what caused it stays in the log of the node where it happened.
//
// Two Errors match under errors.Is when their codes are equal, so errors.Is(err, &Error{Code:
// NotFound}) tests for a code.
type Error struct {
	// Code says what happened; see the constants.
	Code Code `json:"code"`
	// Message is for people: one sentence, safe to show to the remote caller.
	Message string `json:"message"`
	// Metadata holds details for programs. Nil when there are none.
	Metadata map[string]string `json:"metadata,omitempty"`
	// Retryable reports whether nothing was done and the same call may succeed later.
	Retryable bool `json:"retryable,omitempty"`
}

// Errorf makes an Error. The format's arguments become part of a message that remote callers see.
// Unlike fmt.Errorf it wraps nothing.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// OverLimit makes an Error with the code TooLarge. actual is the size, or one more than the limit
// if the size was measured only up to the limit.
func OverLimit(what string, limit, actual int64) *Error {
	e := Errorf(TooLarge, "%s: %d is over the limit of %d", what, actual, limit)
	e.Metadata = map[string]string{
		"what": what, "limit": strconv.FormatInt(limit, 10), "actual": strconv.FormatInt(actual, 10),
	}
	return e
}

// ReasonUncertain is the metadata "reason" of an Error with the code Unavailable that refuses to
// show an actor whose last commit may be lost.
const ReasonUncertain = "uncertain"

// ReasonDamaged is the metadata "reason" of an Error with the code Unavailable for damaged stored
// data, and of one with the code ActorFailed for an actor that cannot be woken because of it.
const ReasonDamaged = "damaged"

// With returns a copy of e with a metadata entry added.
func (e *Error) With(key, value string) *Error {
	c := *e
	c.Metadata = maps.Clone(e.Metadata)
	if c.Metadata == nil {
		c.Metadata = make(map[string]string, 1)
	}
	c.Metadata[key] = value
	return &c
}

// Retry returns a copy of e that is marked retryable.
func (e *Error) Retry() *Error {
	c := *e
	c.Retryable = true
	return &c
}

// Error returns the code and the message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// ErrorCode returns the code as text, for package workflow.
func (e *Error) ErrorCode() string { return string(e.Code) }

// The bounds of an error's stored metadata: entries, and the bytes of a key and of a value.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 1024
)

// ErrorMetadata returns the metadata that queues and package workflow store. It leaves out entries
// with a long key or value, and all but the first 16 in the order of their keys.
func (e *Error) ErrorMetadata() map[string]string {
	kept := maps.Clone(e.Metadata)
	maps.DeleteFunc(kept, func(key, value string) bool {
		return key == "" || len(key) > maxMetadataKey || len(value) > maxMetadataValue
	})
	if len(kept) > maxMetadata {
		for _, key := range slices.Sorted(maps.Keys(kept))[maxMetadata:] {
			delete(kept, key)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

// Is reports whether target is an *Error with the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code that err has when it leaves an actor: the code of the first Error in its
// tree, Canceled or DeadlineExceeded for the errors of package context, Internal for anything else,
// and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.Canceled):
		return Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	}
	return Internal
}
