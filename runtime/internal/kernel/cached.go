package kernel

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// Cached is what a core remembers of its actor's rows, so that it reads them once. It is as of a version of the write set:
// when turns are undone, what was remembered since is forgotten, and read again.
type Cached[T any] struct {
	Value T
	Known bool
	asOf  engine.Version
}

// Set remembers a value, which the write set has now.
func (v *Cached[T]) Set(ws *engine.WriteSet, value T) {
	v.Value, v.Known, v.asOf = value, true, ws.Version()
}

// Get returns the value, which read reads if it is not known.
func (v *Cached[T]) Get(ws *engine.WriteSet, read func() (T, error)) (T, error) {
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
func (v *Cached[T]) Forget(version engine.Version) {
	if v.asOf > version {
		*v = Cached[T]{}
	}
}

// forget has everything that remembers rows of the actor drop what was undone. If something panics, it may remember what is
// not so: the actor is rebuilt.
func (c *Core) forget() {
	now := c.Rows.Version()
	attach.Each(&c.Attached, func(f Facet) {
		if c.Actor.contain("Forget", f, func() { f.Forget(c, now) }) != nil {
			c.Broken = true
		}
	})
}
