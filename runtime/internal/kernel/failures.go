package kernel

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
)

// crashed counts a turn that panicked.
func (a *Actor) crashed(err error) {
	if a.crashes = a.Kernel.Failures.Crash(a.Key); a.crashes >= retry.CrashesToFail {
		e, _ := a.Kernel.PublicError(err)
		a.failed(e, err)
	}
}

// failed counts a failure of the actor. public is what callers see of the cause.
func (a *Actor) failed(public *host.Error, cause error) {
	s := a.Kernel
	f := s.Failures.Add(a.Key, public, cause, fault.Damage(cause))
	s.Metrics.Failed.Set(float64(s.Failures.Len()))
	s.Logger.Error("actor failed", "actor_type", a.Address.Type, "actor_key", a.Address.Key, "reason", f.Reason, "attempts", f.Attempts, "retry_at", f.RetryAt)
	id, _, _ := s.Store.Lookup(s.Identity(a.Address)) // the zero id if the actor was never created
	s.Changes.Failed(id, s.Identity(a.Address), &f)
}

// resting returns the error for an actor that must not be tried yet, or nil.
func (a *Actor) resting() error { return a.Kernel.Failures.Blocked(a.Key, a) }

// Recovered forgets the failures of an actor, which may be tried at once. It reports whether the
// actor had failed.
func (s *Kernel) Recovered(key string) bool {
	had := s.Failures.Forget(key)
	if had {
		s.Metrics.Failed.Set(float64(s.Failures.Len()))
	}
	return had
}

// The causes with which the contexts of tasks end.
const (
	CauseSleep    = "the actor goes to sleep"
	causeMemory   = "the actor goes to sleep: memory is short"
	CauseShutdown = "the node is shutting down"
	causeRestart  = "the actor was restarted"
)

// RestartCause is the cause that the tasks of a core get when the core is given up.
func (c *Core) RestartCause() *host.Error {
	switch {
	case c.Actor.Kernel.Killed.Load():
		return fault.Unavailable(CauseShutdown)
	case c.slept != nil:
		return fault.Unavailable(CauseSleep)
	}
	return fault.Unavailable(causeRestart)
}
