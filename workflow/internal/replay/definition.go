package replay

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unicode/utf8"
)

// A Func is a workflow function.
type Func[In, Out any] func(ctx Context, in In) (Out, error)

// A Function is a workflow: a name, a function, and options. It is immutable and may be used by
// many runs at once.
type Function[In, Out any] struct {
	program *Program
}

// A Program is a Function without its types, as hosts use it.
type Program struct {
	name string
	// invoke runs the function on the encoded input and returns the encoded output.
	invoke func(ctx Context, input []byte) ([]byte, error)
	config config
	err    error
	// encodables has, by result type, the reason why it cannot be encoded.
	encodables map[reflect.Type]error // guarded by mu
	mu         sync.Mutex
}

// config holds the values that options set.
type config struct {
	version string
	codec   Codec
	errors  []errorType
	steps   stepOptions
	undo    undoHandlers
}

// An Option is an option of NewFunction.
type Option interface{ define(*config) error }

type option func(*config) error

func (o option) define(c *config) error { return o(c) }

// NewFunction makes a workflow of a function.
func NewFunction[In, Out any](name string, fn Func[In, Out], options ...Option) *Function[In, Out] {
	p := &Program{name: name}
	p.err = p.configure(fn == nil, options)
	p.invoke = func(ctx Context, input []byte) ([]byte, error) {
		var in In
		if err := p.decode(input, &in); err != nil {
			return nil, &inputError{err}
		}
		if err := p.encodable(reflect.TypeFor[Out]()); err != nil {
			return nil, &outputError{err}
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		data, err := p.encode(out)
		if err != nil {
			return nil, &outputError{err}
		}
		return data, nil
	}
	return &Function[In, Out]{p}
}

func (p *Program) configure(noFunction bool, options []Option) error {
	var errs []error
	if err := checkName(p.name); err != nil {
		errs = append(errs, err)
	}
	if noFunction {
		errs = append(errs, errors.New("the function is nil"))
	}
	codec, err := defaultCodec()
	if err != nil {
		errs = append(errs, err)
	}
	p.config.codec = codec
	for i, o := range options {
		if o == nil {
			errs = append(errs, fmt.Errorf("option %d is nil", i))
		} else if err := o.define(&p.config); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("workflow: definition %q: %w", shorten(p.name), err)
	}
	return nil
}

// An inputError says that the stored input does not fit the function. The program is wrong, so the
// run does not fail.
type inputError struct{ err error }

func (e *inputError) Error() string {
	return "the recorded input of the run is not what the function takes: " + e.err.Error()
}
func (e *inputError) Unwrap() error { return e.err }

// An outputError says that the codec cannot encode the function's result.
type outputError struct{ err error }

func (e *outputError) Error() string { return "the output of the function: " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// checkName returns the error of an invalid name.
func checkName(name string) error {
	switch {
	case name == "":
		return &NameError{Name: name, Reason: "empty"}
	case len(name) > MaxName:
		return &NameError{Name: shorten(name),
			Reason: fmt.Sprintf("has %d bytes, and the limit is %d", len(name), MaxName)}
	case !utf8.ValidString(name):
		return &NameError{Name: name, Reason: "is not UTF-8"}
	}
	return nil
}

// shorten cuts a long text.
func shorten(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// WithVersion names the version of the code, for people. It is stored with each run that it starts.
// At most 256 bytes.
func WithVersion(v string) Option {
	return option(func(c *config) error {
		if len(v) > MaxName {
			return fmt.Errorf("WithVersion: has %d bytes, and the limit is %d", len(v), MaxName)
		}
		c.version = v
		return nil
	})
}

// WithCodec sets the codec of all values; the last one counts. The default is deterministic CBOR.
func WithCodec(codec Codec) Option {
	return option(func(c *config) error {
		if codec == nil {
			return errors.New("WithCodec: nil")
		}
		c.codec = codec
		return nil
	})
}

// WithStepDefaults sets options for all steps, before their own.
func WithStepDefaults(options ...StepOption) Option {
	return option(func(c *config) error {
		var errs []error
		for i, o := range options {
			if o == nil {
				errs = append(errs, fmt.Errorf("WithStepDefaults: option %d is nil", i))
			} else if err := o.step(&c.steps); err != nil {
				errs = append(errs, fmt.Errorf("WithStepDefaults: %w", err))
			}
		}
		return errors.Join(errs...)
	})
}

// WithError registers an error type under a name, so that errors.As finds it in errors that were
// stored in the history.
func WithError[E error](name string) Option {
	return option(func(c *config) error {
		t := errorType{
			name: name,
			find: func(err error) (any, bool) {
				var e E
				if !errors.As(err, &e) {
					return nil, false
				}
				return e, true
			},
			rebuild: func(codec Codec, data []byte) (error, error) {
				var e E
				if err := codec.Decode(data, &e); err != nil {
					return nil, err
				}
				if v := reflect.ValueOf(e); v.Kind() == reflect.Pointer && v.IsNil() {
					return nil, nil
				}
				return e, nil
			},
		}
		if reflect.TypeFor[E]().Kind() == reflect.Interface {
			return fmt.Errorf("WithError %q: %v is an interface", name, reflect.TypeFor[E]())
		}
		return c.register(t)
	})
}

// WithErrorValue registers an error value under a name, so that errors.Is finds it in errors that
// were stored in the history.
func WithErrorValue(name string, value error) Option {
	return option(func(c *config) error {
		if value == nil {
			return fmt.Errorf("WithErrorValue %q: nil", name)
		}
		return c.register(errorType{
			name:    name,
			find:    func(err error) (any, bool) { return nil, errors.Is(err, value) },
			rebuild: func(Codec, []byte) (error, error) { return value, nil },
		})
	})
}

func (c *config) register(t errorType) error {
	if err := checkName(t.name); err != nil {
		return fmt.Errorf("error type: %w", err)
	}
	for _, old := range c.errors {
		if old.name == t.name {
			return fmt.Errorf("error type %q is registered twice", t.name)
		}
	}
	c.errors = append(c.errors, t)
	return nil
}

// Name returns the name of the workflow.
func (p *Program) Name() string { return p.name }

// Version returns the version that WithVersion set.
func (p *Program) Version() string { return p.config.version }

// Err returns the error of a wrong definition; nil if it can be run.
func (p *Program) Err() error { return p.err }

// Program returns the definition without its types.
func (d *Function[In, Out]) Program() *Program { return d.program }

// DecodeFailure returns the error behind a failure of a run, or of an entry of its history.
// errors.As and errors.Is find registered types and values in it. It is a *FailureError, or nil for
// nil.
func (p *Program) DecodeFailure(f *Failure) error { return p.errorOf(f) }
