// Package cached remembers the content of an actor's rows.
package cached

import "github.com/cairn-run/cairn/engine"

// A Value is what a core remembers of its actor's rows, so that it reads them once. It is as of a
// version of the write set: when turns are undone, later values are forgotten and read again.
type Value[T any] struct {
	Value T
	Known bool
	asOf  engine.Version
}

// Set remembers a value, which the write set has now.
func (v *Value[T]) Set(ws *engine.WriteSet, value T) {
	v.Value, v.Known, v.asOf = value, true, ws.Version()
}

// Get returns the value. If it is not known, read reads it.
func (v *Value[T]) Get(ws *engine.WriteSet, read func() (T, error)) (T, error) {
	if !v.Known {
		value, err := read()
		if err != nil {
			return value, err
		}
		v.Set(ws, value)
	}
	return v.Value, nil
}

// Forget drops what was remembered after a version, to which the write set was rolled back.
func (v *Value[T]) Forget(version engine.Version) {
	if v.asOf > version {
		*v = Value[T]{}
	}
}
