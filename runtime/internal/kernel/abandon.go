package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// teardown gives up the core after a crash or a failed commit; the next work rebuilds it.
func (a *Actor) teardown(c *Core) {
	c.Commit() // the turns that succeeded, and the answer of the one that did not
	c.drop(fault.Unavailable("the actor was restarted"))
	a.Mu.Lock()
	own := a.Core == c
	if own {
		a.Core = nil
		a.Weight.Sleep(&a.Kernel.Memory)
	}
	a.Mu.Unlock()
	c.close()
	if own {
		a.DropView()
	}
	if own && !c.Ended {
		a.Lost()
	}
	if w := c.slept; w != nil {
		a.tellSlept(c, w)
	}
}

// AbandonTurn takes the actor away from the goroutine that runs it, if only is nil or still its
// turn. The turn that it was running fails, and AbandonTurn returns the turn's handler, or "".
// Waiting work fails too if the node was killed; otherwise it is run anew.
func (a *Actor) AbandonTurn(only *Turn, err *host.Error) string {
	a.Mu.Lock()
	t := only
	if only == nil {
		t = a.Turn.Swap(nil)
	} else if !a.Turn.CompareAndSwap(only, nil) {
		a.Mu.Unlock()
		return "" // it returned after all
	}
	a.Epoch.Add(1)
	c := a.Core
	a.Core = nil
	running := a.Running
	a.Running = false
	a.Mailbox.Revoke() // the goroutine that took the batch may never come back to it
	var rest []*Work
	ended := a.Kernel.Killed.Load()
	if ended {
		rest = a.Mailbox.Drain()
		a.gone = true
	}
	if running {
		a.Kernel.Busy.Add(-1)
	}
	if c != nil {
		a.Weight.Sleep(&a.Kernel.Memory)
	}
	a.Mu.Unlock()
	if ended {
		a.Kernel.forget(a)
		a.fail(err)
	}
	handler := ""
	if t != nil {
		handler = t.Handler
		t.Close()
		if t.Session != nil {
			a.Kernel.Go(t.Session.Drop) // else it would be in use for as long as the handler does not return
		}
		t.over(time.Since(t.Start), err)
		t.Work.Fail(err)
	}
	if c != nil {
		restarted := fault.Unavailable("the actor was restarted")
		failAll(c.held.Abandon(restarted), restarted) // turns before this one, which can no longer be committed
		c.Attached.Ended.Store(true)
		attach.Each(&c.Attached, func(f Facet) { _ = a.contain("Abandon", f, func() { f.Abandon(c) }) })
		c.space.Fence()
	}
	a.DropView()
	for _, w := range rest {
		w.Fail(err)
	}
	if !ended {
		a.Lost()
	}
	if len(rest) == 0 {
		a.resume()
	}
	return handler
}

// answer tells the caller of w why the actor could not be woken. Even "not found" waits at the
// gate, for the commit that removed the actor.
func (a *Actor) answer(w *Work, err error) { a.tell(w, a.Kernel.Public(a, w, err)) }

// tell ends work without a turn of its own, when the commits before it are durable.
func (a *Actor) tell(w *Work, result error) {
	last := a.Last() // and not a commit under way, which may be declined
	if a.Gate.Durable.Load() == last || !a.Kernel.Go(func() {
		if err := a.Pass(a.Kernel.Life, last); err != nil {
			w.Fail(err)
			return
		}
		w.Fail(result)
	}) {
		w.Fail(result)
	}
}
