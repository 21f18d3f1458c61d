package kernel

import (
	"fmt"
	"runtime/debug"

	"github.com/cairn-run/cairn/actor/host"
)

// Contain is deferred. It turns a panic of a hook of a part, or of a value of a part, into an error, and logs it.
func (s *Kernel) Contain(addr host.Address, hook string, part any, err *error) {
	if p := recover(); p != nil {
		*err = s.panicked(addr, hook, part, p)
	}
}

// panicked makes the error for a panic and logs the stack under its id.
func (s *Kernel) panicked(addr host.Address, hook string, part, p any) *host.Error {
	id := NewErrorID()
	s.Logger.Error("part panicked", "actor_type", addr.Type, "actor_key", addr.Key, "hook", hook, "part", fmt.Sprintf("%T", part),
		"error_id", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return host.Errorf(host.Internal, "a part of the node panicked (error %s)", id).With("error_id", id)
}

// contain calls f, which calls a hook of a part or of its value. The error says that it panicked.
func (a *Actor) contain(hook string, part any, f func()) (err error) {
	defer a.Kernel.Contain(a.Address, hook, part, &err)
	f()
	return nil
}

// lose gives up a core whose job has panicked. A turn may be open, so only what is committed is kept.
func (c *Core) lose(w *Work, err error) {
	a := c.Actor
	c.Refused, c.Broken = true, true
	c.Ended = false // a turn of the job may have destroyed the actor, which is not committed
	a.Mu.Lock()
	if !c.Gone() {
		a.Turn.Store(nil)
	}
	a.Mu.Unlock()
	c.drop(Unavailable("the actor was restarted"))
	w.Fail(err)
}
