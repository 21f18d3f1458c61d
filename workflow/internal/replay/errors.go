package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Errors that operations return. They match with errors.Is, even after a replay.
var (
	// ErrCanceled: the operation's scope was canceled. The error is a *CanceledError.
	ErrCanceled = errors.New("workflow: canceled")
	// ErrTimeout: the operation's own time limit passed.
	ErrTimeout = errors.New("workflow: time limit passed")
	// ErrOutcomeUnknown: a crash cut off an attempt of a step that may not be repeated, because it
	// must run at most once or its attempts are used up. A body that fails for good after a part of
	// its effect wraps it, so that the step is undone: see Compensated.
	ErrOutcomeUnknown = errors.New("workflow: outcome unknown: the attempt was cut off")
	// ErrClosed is returned by a Run that was closed or discarded.
	ErrClosed = errors.New("workflow: the run is closed")
)

// errTx is returned by functions of a Tx that is used too late.
var errTx = errors.New("workflow: transaction used after its function has returned")

// A StepError says that a step failed for good. A replay returns the same error.
type StepError struct {
	// Step is the step's name.
	Step string
	// Attempts counts its executions, including attempts cut off by a crash.
	Attempts int
	// Cause is the error of the last execution, as far as it can be stored. errors.As finds types
	// that WithError registered, and errors.Is finds values of WithErrorValue and of this package.
	// Of other errors only the text is kept.
	Cause error
}

func (e *StepError) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("step %q failed after %d attempts: %v", e.Step, e.Attempts, e.Cause)
	}
	return fmt.Sprintf("step %q failed: %v", e.Step, e.Cause)
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Cause }

// A CanceledError is the error of the operations of a canceled scope. It matches ErrCanceled.
type CanceledError struct {
	// Cause is the cause given with the cancellation; nil if there is none.
	Cause error
}

func (e *CanceledError) Error() string {
	if e.Cause == nil {
		return ErrCanceled.Error()
	}
	return ErrCanceled.Error() + ": " + e.Cause.Error()
}

// Is reports whether the target is ErrCanceled.
func (e *CanceledError) Is(target error) bool { return target == ErrCanceled }

// Unwrap returns the cause.
func (e *CanceledError) Unwrap() error { return e.Cause }

// A FailureError is an error that went through the history.
type FailureError struct {
	Failure Failure
	// err is the error of a registered type that was rebuilt, or a sentinel of this package; nil if
	// there is neither.
	err error
}

func (e *FailureError) Error() string { return e.Failure.Message }

// Unwrap returns the rebuilt error, if its type was registered.
func (e *FailureError) Unwrap() error { return e.err }

// ErrorCode returns the error's code, or "".
func (e *FailureError) ErrorCode() string { return e.Failure.Code }

// ErrorMetadata returns the error's metadata, or nil.
func (e *FailureError) ErrorMetadata() map[string]string { return e.Failure.Metadata }

// A permanentError is not retried.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

// Permanent wraps an error of a step so that it is not retried. It returns nil for nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// A retryAfterError says when to retry.
type retryAfterError struct {
	error
	after time.Duration
}

func (e *retryAfterError) Unwrap() error { return e.error }

// RetryAfter wraps an error of a step so that its next attempt starts after d, instead of after the
// delay of the policy.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, max(d, 0)}
}

// A MisuseError says that an operation is not allowed where it was called. Operations on a
// coroutine of the run never return it: they pause the run with its text. Calls from elsewhere
// panic with it.
type MisuseError struct{ Text string }

func (e *MisuseError) Error() string { return "workflow: " + e.Text }

// Reasons of a Failure.
const (
	reasonCanceled  = "canceled"
	reasonTimeout   = "timeout"
	reasonUnknown   = "unknown"
	reasonExhausted = "exhausted"
	reasonPermanent = "permanent"
)

// The largest stored text and data of an error, in bytes.
const (
	maxMessage   = 64 << 10
	maxErrorData = 1 << 20
)

// An errorType is an error of the user that survives the history.
type errorType struct {
	name string
	// find returns the error to encode, which is nil for a registered value, and whether err has
	// this type or value.
	find func(err error) (v any, ok bool)
	// rebuild decodes the error.
	rebuild func(c Codec, data []byte) (error, error)
}

func clipMessage(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}

// The limits of an error's stored metadata: entries, and bytes of a key and of a value. Package
// actor/host has the same.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 1024
)

// clipMetadata returns a copy of an error's metadata within the limits.
func clipMetadata(m map[string]string) map[string]string {
	var kept map[string]string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		value := m[key]
		if key == "" || len(key) > maxMetadataKey || len(value) > maxMetadataValue || len(kept) == maxMetadata {
			continue
		}
		if kept == nil {
			kept = make(map[string]string)
		}
		kept[strings.ToValidUTF8(key, "�")] = strings.ToValidUTF8(value, "�")
	}
	return kept
}

// failureOf makes an error storable. It runs on any goroutine.
func (p *Program) failureOf(err error) (stored *Failure) {
	if err == nil {
		return nil
	}
	var known *FailureError
	if errors.As(err, &known) && error(known) == err {
		f := known.Failure
		return &f
	}
	f := &Failure{}
	defer func() {
		// A method of the error may panic, for example on a nil pointer. That must not reach the
		// caller.
		if e := recover(); e != nil {
			f = &Failure{Message: fmt.Sprintf("%T, whose methods panic: %v", err, e)}
		}
		f.Message, f.Own = clipMessage(f.Message), clipMessage(f.Own)
		stored = f
	}()
	f.Message = err.Error()
	var coded interface{ ErrorCode() string }
	if errors.As(err, &coded) {
		f.Code = coded.ErrorCode()
		if detailed, ok := coded.(interface{ ErrorMetadata() map[string]string }); ok {
			f.Metadata = clipMetadata(detailed.ErrorMetadata())
		}
		if own, ok := coded.(error); ok && own.Error() != f.Message {
			f.Own = own.Error()
		}
	}
	switch {
	case errors.Is(err, ErrCanceled):
		f.Reason = reasonCanceled
	case errors.Is(err, ErrTimeout):
		f.Reason = reasonTimeout
	case errors.Is(err, ErrOutcomeUnknown):
		f.Reason = reasonUnknown
	}
	for _, t := range p.config.errors {
		v, ok := t.find(err)
		if !ok {
			continue
		}
		if v != nil {
			data, eerr := p.encode(v)
			if eerr == nil && len(data) > maxErrorData {
				eerr = &TooLargeError{What: "the error", Size: int64(len(data)), Limit: maxErrorData}
			}
			if eerr != nil {
				f.Message += " (the error's fields could not be stored: " + eerr.Error() + ")"
				break
			}
			f.Data = data
		}
		f.Type = t.name
		break
	}
	return f
}

// errorOf is the inverse of failureOf, as far as possible.
func (p *Program) errorOf(f *Failure) error {
	if f == nil {
		return nil
	}
	e := &FailureError{Failure: *f}
	switch f.Reason {
	case reasonCanceled:
		e.err = ErrCanceled
	case reasonTimeout:
		e.err = ErrTimeout
	case reasonUnknown:
		e.err = ErrOutcomeUnknown
	}
	for _, t := range p.config.errors {
		if f.Type != "" && t.name == f.Type {
			if err, derr := t.rebuild(p.codec(), f.Data); derr == nil && err != nil {
				e.err = err
			}
			break
		}
	}
	return e
}

// failure makes an error storable.
func (r *Run) failure(err error) *Failure { return r.program.failureOf(err) }

// errorOf makes an error of a stored failure.
func (r *Run) errorOf(f *Failure) error { return r.program.errorOf(f) }
