package workflow

import (
	"time"

	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// StepCtx is the context of a step's body. It ends with the attempt's time limit, when the step
// is canceled, and when the host goes to sleep. It is valid until the body returns.
//
//	context.Context
//	// Host returns the value that the host gives to bodies, such as its actor.
//	func (sc *StepCtx) Host() any
//	// Attempt returns the number of the execution, from 1. Executions that a crash cut off
//	// count.
//	func (sc *StepCtx) Attempt() int
//	// IdempotencyKey returns a string that is the same for all attempts of the step and for no
//	// other step, for services that recognize a repeated request.
//	func (sc *StepCtx) IdempotencyKey() string
//	// OnCommit registers fn to run within the transaction that records the step's success.
//	// Functions run in the order of the calls. If fn fails or panics, the transaction is
//	// undone, and the attempt fails with that error. If the step does not succeed, fn does not
//	// run. It must be quick, do nothing outside of the transaction, and not be nil.
//	func (sc *StepCtx) OnCommit(fn func(tx *Tx) error)
//	// Progress saves a value for the next attempt, in case this one is cut off or fails. It is
//	// written soon, but Progress does not wait for that. Of values that follow quickly, only
//	// the last is written. The error is a *CodecError or a *TooLargeError.
//	func (sc *StepCtx) Progress(v any) error
//	// Undoes returns, in an undo function, the idempotency key of the step that is undone, and
//	// whether the step's result is known. It is unknown if the step was given up or cut off.
//	// Then the undo function must find out, by the key, whether the effect is there, and must
//	// make sure that it does not come later. In other bodies Undoes returns "" and false.
//	func (sc *StepCtx) Undoes() (key string, known bool)
type StepCtx = replay.StepCtx

// Step runs fn outside of the run, where it may do anything, and records its result. The codec
// encodes and decodes the returned value.
//
// The body fn runs at least once: after a crash that cuts it off, it runs again (see AtMostOnce,
// StepCtx.IdempotencyKey). If it fails or panics, it is tried again by the retry policy. The error
// is a *StepError when the attempts are used up, or matches ErrCanceled.
func Step[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error), options ...StepOption) (T, error) {
	return replay.Step[T](ctx, name, fn, options...)
}

// Do is Step without a result.
func Do(ctx Context, name string, fn func(sc *StepCtx) error, options ...StepOption) error {
	return replay.Do(ctx, name, fn, options...)
}

// Begin begins a step and returns at once. The error matches ErrCanceled. A scope ends only after
// the steps that it has started.
func Begin[T any](ctx Context, name string, fn func(sc *StepCtx) (T, error),
	options ...StepOption) (*Future[T], error) {
	return replay.Begin[T](ctx, name, fn, options...)
}

// A Future is an operation that has begun and may not have ended.
//
//	// Get waits until the operation has ended and returns its result; every call returns the
//	// same one. ctx is the Context of the function that waits. Canceling ctx does not end the
//	// wait; canceling the Context that began the operation ends the operation.
//	func (f *Future[T]) Get(ctx Context) (T, error)
//	// Done reports whether the operation has ended.
//	func (f *Future[T]) Done() bool
type Future[T any] = replay.Future[T]

// A StepOption is an option of a step.
type StepOption = replay.StepOption

// AtMostOnce records that the body is about to run before it runs. The body is then never repeated:
// if it is cut off, the step fails with ErrOutcomeUnknown. There are no retries.
func AtMostOnce() StepOption {
	return replay.AtMostOnce()
}

// CancelBody ends the context of a running body when its step is canceled, even if the step has an
// undo function. Without it such a body runs on until it returns or its Timeout or TotalTimeout
// passes, because its effect would otherwise be unknown. In both cases the step ends when the body
// has returned. Steps without an undo function need no such option.
func CancelBody() StepOption {
	return replay.CancelBody()
}

// Timeout bounds one attempt. When it passes, the context of the body is canceled, a late result is
// dropped, and the attempt fails with ErrTimeout. The next one begins when the body has returned. A
// step with an undo function waits for its body instead, and a late result counts. 0 means no
// limit, which is the default.
func Timeout(d time.Duration) StepOption {
	return replay.Timeout(d)
}

// FailOnTimeout fails the step when an attempt exceeds its Timeout, instead of trying again.
func FailOnTimeout() StepOption {
	return replay.FailOnTimeout()
}

// TotalTimeout bounds the step with all its attempts and the waits between them. When it passes,
// the step fails with ErrTimeout at once, and a late result is dropped. A step with an undo
// function ends the context of its body and waits for it instead; if the body returns a result, the
// step succeeds. The time runs on while the run is not in memory. 0 means no limit, which is the
// default.
func TotalTimeout(d time.Duration) StepOption {
	return replay.TotalTimeout(d)
}

// Deferred begins later operations before the step's result is durable. A crash may then repeat the
// step and the later operations, although they had ended.
func Deferred() StepOption {
	return replay.Deferred()
}

// Sensitive hides the result of a step from readers of the history.
func Sensitive() StepOption {
	return replay.Sensitive()
}

// LastProgress returns the value that an earlier attempt, or this one, saved last. ok is false if
// there is none, or none of type T.
func LastProgress[T any](sc *StepCtx) (v T, ok bool) {
	return replay.LastProgress[T](sc)
}

// Permanent wraps an error of a step so that it is not retried. It returns nil for nil.
func Permanent(err error) error {
	return replay.Permanent(err)
}

// RetryAfter wraps an error of a step so that its next attempt starts after d, instead of after the
// delay of the policy. It grants no further attempt. It returns nil for nil; a negative d counts as
// 0.
func RetryAfter(err error, d time.Duration) error {
	return replay.RetryAfter(err, d)
}

// Retry sets how a step is tried again.
func Retry(p RetryPolicy) StepOption {
	return replay.Retry(replay.RetryPolicy(p))
}

// A RetryPolicy says when a step is tried again. Zero fields have defaults.
type RetryPolicy struct {
	// MaxAttempts bounds the executions, including attempts cut off by a crash: 0 means 4, -1 no
	// limit.
	MaxAttempts int
	// Initial is the wait after the first failure, 0 means 100 ms; Max bounds every wait, 0 means
	// 30 s.
	Initial, Max time.Duration
	// Factor multiplies the wait after each further failure, 0 means 2, less than 1 is refused.
	// Jitter shortens or prolongs it by up to this fraction, at random: 0 means 0.2, -1 none,
	// more than 1 is refused.
	Factor, Jitter float64
	// MaxElapsed bounds the time from the begin of the step to the begin of an attempt; 0 for no
	// limit.
	MaxElapsed time.Duration
	// Retryable reports whether the step is tried again after an error; nil means after all
	// errors except those of Permanent. A result of false says nothing about the step's effects;
	// Permanent does. Retryable runs on the body's goroutine.
	Retryable func(error) bool
	// OnExhausted applies when the attempts, or MaxElapsed, are used up.
	OnExhausted ExhaustedPolicy
}

// An ExhaustedPolicy says what happens when the attempts of a step are used up.
type ExhaustedPolicy = replay.ExhaustedPolicy

const (
	// Fail returns the error to the workflow function.
	Fail = replay.Fail
	// PauseRun pauses the run until Resume, which grants the step as many attempts again. Other
	// running steps are finished meanwhile.
	PauseRun = replay.PauseRun
)
