package kernel

import (
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
)

// Unpause resumes an actor. It does not block.
func (s *Kernel) Unpause(key string) {
	if parked := s.Pauses.Resume(key); len(parked) > 0 {
		s.Go(func() {
			for _, f := range parked {
				f()
			}
		})
	}
}

// staysQuiet reports whether w must not wake an actor with its hook, because the actor is paused.
func (a *Actor) staysQuiet(w *Work) bool {
	return !w.destroys() && a.Kernel.Pauses.Of(a.Key) != nil
}

// turnedAway answers work that must not run now, and reports whether it did.
func (a *Actor) turnedAway(c *Core, w *Work) bool {
	if j, ok := w.Job.(early); ok && j.TurnedAway(c, w) {
		return true
	}
	if a.Kernel.Pauses.Len() == 0 || !w.Job.Traits(a).Code {
		return false
	}
	p := a.Kernel.Pauses.Of(a.Key)
	if p == nil {
		return false
	}
	w.Paused = true
	w.Fail(park.Refusal(a.Address, p))
	return true
}
