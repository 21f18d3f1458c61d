package kernel

import (
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
)

// LimitsOf returns the limits of an actor.
func (s *Kernel) LimitsOf(t *Type, key []byte) *limit.Set {
	if l := s.Overrides.Of(key); l != nil {
		return l
	}
	return t.Base
}

// Override sets the limits of an actor, which is awake or not; nil means those of its type.
func (s *Kernel) Override(a *Actor, l *limit.Set) {
	s.Overrides.Put(a.Key, l)
	a.Limits.Store(s.LimitsOf(a.Type, []byte(a.Key)))
}

// adoptLimits gives the space of the core the limits that the actor has now, for a turn of w.
func (c *Core) adoptLimits(w *Work) error {
	l := c.Actor.Limits.Load()
	storage := l.Storage
	if w.Job.Traits(c.Actor).Sturdy {
		storage = l.Roomy
	}
	if storage != c.storage {
		if err := c.space.SetLimits(storage); err != nil {
			return err
		}
		c.storage = storage
	}
	c.Limits = l
	return nil
}
