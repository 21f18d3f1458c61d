package replay

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/fxamacker/cbor/v2"
)

// A resultError says that the result of a body cannot be encoded. The body has run, so the step
// does not fail: the run is paused until the code is fixed.
type resultError struct{ err error }

func (e *resultError) Error() string { return "the result cannot be recorded: " + e.err.Error() }
func (e *resultError) Unwrap() error { return e.err }

// misuseOf returns the text of an error by which the code breaks a rule, "" for others.
func misuseOf(err error) string {
	if e, ok := errors.AsType[*MisuseError](err); ok {
		return e.Text
	}
	if e, ok := errors.AsType[*resultError](err); ok {
		return e.Error()
	}
	return ""
}

// mustEncode checks that the codec can encode values of a result type, before the body of a live
// operation runs. It does not return if not.
//
// REQUIRES: called on the owner's coroutine.
func mustEncode[T any](s *scope, o *op) {
	if o.done || o.replay != 0 {
		return
	}
	if err := s.run.program.encodable(reflect.TypeFor[T]()); err != nil {
		s.misuse(s.owner, fmt.Sprintf("%s %q: its result cannot be recorded: %v", o.entry.Kind, s.pathOf(o.name), err))
	}
}

// mustEncode is the check for a branch, before its function runs.
func (s *scope) mustEncode(t reflect.Type) {
	if err := s.run.program.encodable(t); err != nil {
		s.misuse(s.run.current.Load(), fmt.Sprintf("%s: its result cannot be recorded: %v", s.describe(), err))
	}
}

// encodable returns why no value of a type can be encoded, nil if some can. It knows that only for
// the default codec.
func (p *Program) encodable(t reflect.Type) error {
	if _, ok := p.config.codec.(cborCodec); !ok {
		return nil
	}
	p.mu.Lock()
	err, known := p.encodables[t]
	p.mu.Unlock()
	if known {
		return err
	}
	_, err = p.encode(reflect.Zero(t).Interface())
	if _, ok := errors.AsType[*cbor.UnsupportedTypeError](err); !ok {
		err = nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.encodables == nil {
		p.encodables = make(map[reflect.Type]error)
	}
	p.encodables[t] = err
	return err
}
