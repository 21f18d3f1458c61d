package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// A Func is a workflow function. It must be deterministic: its behavior may depend only on its
// input and on the results of its operations.
type Func[In, Out any] func(ctx Context, in In) (Out, error)

// A Function is a workflow: a name, a function, and options. It is immutable and may be used by
// many runs at once.
//
//	// Program returns the function without its types, as hosts use it.
//	func (d *Function[In, Out]) Program() *host.Program
type Function[In, Out any] = replay.Function[In, Out]

// NewFunction makes a workflow of a function. Its name, of 1 to 256 bytes, is stored with each run
// and finds the function again. Program.Err, and every start of a run of it, returns an error if
// the arguments are wrong.
func NewFunction[In, Out any](name string, fn Func[In, Out], options ...Option) *Function[In, Out] {
	return replay.NewFunction[In, Out](name, replay.Func[In, Out](fn), options...)
}

// An Option is an option of NewFunction.
type Option = replay.Option

// WithVersion names the version of the code, for people. It is stored with each run that it starts.
// At most 256 bytes.
func WithVersion(v string) Option {
	return replay.WithVersion(v)
}

// WithCodec sets the codec of all values; the last one counts. The default is deterministic CBOR.
func WithCodec(codec Codec) Option {
	return replay.WithCodec(codec)
}

// WithError registers an error type under a name, so that errors.As finds it in errors that were
// stored in the history. E is encoded by the codec, so its exported fields survive. If several
// types match, the first registered counts.
func WithError[E error](name string) Option {
	return replay.WithError[E](name)
}

// WithErrorValue registers an error value under a name, so that errors.Is finds it in errors that
// were stored in the history.
func WithErrorValue(name string, value error) Option {
	return replay.WithErrorValue(name, value)
}

// WithStepDefaults sets options for all steps, before their own.
func WithStepDefaults(options ...StepOption) Option {
	return replay.WithStepDefaults(options...)
}

// WithUndo registers a handler for UndoBy. fn gets the arguments of UndoBy, even if the step's
// result is unknown (see StepCtx.Undoes). Like the body of a step, it is called at least once, and
// always under the same StepCtx.IdempotencyKey. It must stay registered, with the same type, as
// long as runs may need it.
func WithUndo[T any](handler string, fn func(sc *StepCtx, args T) error) Option {
	return replay.WithUndo[T](handler, fn)
}

// A Codec encodes what a run stores: inputs, results, states of loops, errors. It must be safe
// for concurrent use, and Encode must give the same bytes for the same value. Encryption wraps a
// codec.
type Codec interface {
	// Encode returns the encoded form of v, never nil.
	Encode(v any) ([]byte, error)
	// Decode decodes data into the value that v points to. It does not keep data.
	Decode(data []byte, v any) error
}
