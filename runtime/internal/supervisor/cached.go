package supervisor

import "github.com/cairn-run/cairn/engine"

// cached is what a core remembers of its actor's rows, so that it reads them once. It is as of a version of the write set:
// when turns are undone, what was remembered since is forgotten, and read again.
type cached[T any] struct {
	value T
	known bool
	asOf  engine.Version
}

// set remembers a value, which the write set has now.
func (v *cached[T]) set(ws *engine.WriteSet, value T) {
	v.value, v.known, v.asOf = value, true, ws.Version()
}

// get returns the value, which read reads if it is not known.
func (v *cached[T]) get(ws *engine.WriteSet, read func() (T, error)) (T, error) {
	if !v.known {
		value, err := read()
		if err != nil {
			return value, err
		}
		v.set(ws, value)
	}
	return v.value, nil
}

// forget drops what was remembered after a version, to which the write set was rolled back.
func (v *cached[T]) forget(version engine.Version) {
	if v.asOf > version {
		*v = cached[T]{}
	}
}

// forget has everything that remembers rows of the actor drop what was undone.
func (c *core) forget() {
	now := c.ws.Version()
	eachAttached(&c.attached, func(f facet) { f.forget(c, now) })
}
