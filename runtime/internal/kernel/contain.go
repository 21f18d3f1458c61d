package kernel

import (
	"fmt"
	"runtime/debug"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
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

func (c *Core) runs(w *Work) (err error) {
	defer c.Actor.Kernel.Contain(c.Actor.Address, "Run", w.Job, &err)
	w.Job.Run(c, w)
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

func (c *Core) follows(p Follower) (err error) {
	defer c.Actor.Kernel.Contain(c.Actor.Address, "Follow", p, &err)
	p.Follow(c)
	return nil
}

func (c *Core) forgets(f Facet, version engine.Version) (err error) {
	defer c.Actor.Kernel.Contain(c.Actor.Address, "Forget", f, &err)
	f.Forget(c, version)
	return nil
}

func (c *Core) closes(f Facet) (err error) {
	defer c.Actor.Kernel.Contain(c.Actor.Address, "Close", f, &err)
	f.Close(c)
	return nil
}

func (c *Core) abandons(f Facet) (err error) {
	defer c.Actor.Kernel.Contain(c.Actor.Address, "Abandon", f, &err)
	f.Abandon(c)
	return nil
}

func (a *Actor) letsOut(f Consequence) (err error) {
	defer a.Kernel.Contain(a.Address, "Durable", f, &err)
	f.Durable()
	return nil
}

// keeps reports a part that panics as one that keeps the actor awake.
func (a *Actor) keeps(p Keeper) (err error) {
	defer a.Kernel.Contain(a.Address, "Keeps", p, &err)
	return p.Keeps(a)
}
