package kernel

import "github.com/cairn-run/cairn/runtime/internal/kernel/fault"

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
	c.drop(fault.Unavailable("the actor was restarted"))
	w.Fail(err)
}
