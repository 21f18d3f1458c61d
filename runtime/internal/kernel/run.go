package kernel

import (
	"runtime"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/mailbox"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
)

// An actor that has done so much work without a respite first gives way to every goroutine that is
// ready. Otherwise a busy actor and its callers hand one processor to each other as long as the
// scheduler allows it, 10 milliseconds at a time, while the other callers and all other actors
// wait. Callers that come together share commits.
const (
	maxStreak = 16
	respite   = 5 * time.Millisecond
)

// An Assignment is an actor for a worker to run, and the epoch in which it was given out.
type Assignment struct {
	Actor *Actor
	Epoch uint64
}

// begin marks the actor as running and returns the assignment, which the caller must run.
// REQUIRES: a.Mu, !a.Running
func (a *Actor) begin() Assignment {
	a.Running = true
	a.Vacant.Store(false)
	a.Kernel.Busy.Add(1)
	if c := a.Core; c != nil && a.Kernel.Now()-time.Duration(a.lastUsed.Load()) > respite {
		c.streak = 0
	}
	return Assignment{Actor: a, Epoch: a.Epoch.Load()}
}

// run works through the mailbox until nothing waits, or until the actor is abandoned.
func (j Assignment) run() {
	a := j.Actor
	for {
		if a.Pending.Load() > 0 && a.Mailbox.Count() > 0 { // the next sync comes after that of an earlier commit: time for more to share it
			runtime.Gosched()
		}
		a.Mu.Lock()
		if a.Epoch.Load() != j.Epoch {
			a.Mu.Unlock()
			return
		}
		b := a.Mailbox.Take()
		if b == nil {
			a.rest()
			a.Mu.Unlock()
			return
		}
		c := a.Core
		a.Mu.Unlock()
		if !a.process(j.Epoch, c, b) {
			return
		}
	}
}

// rest stops running: nothing waits. REQUIRES: a.Mu, a.Running, the current epoch.
func (a *Actor) rest() {
	a.Running = false
	a.Touch(a.Kernel.Now())
	a.Kernel.Busy.Add(-1)
	c := a.Core
	switch {
	case c == nil || !c.Exists || a.sleepSoon || a.Left() && !a.Busy():
		a.Vacant.Store(true) // before the look at what is pending, so that either this or settled sees the other
		if a.Leave() && a.sleepSoon && c != nil {
			a.slept(c)
		}
	default:
		a.Idle()
	}
}

// Idle is called when the actor has nothing to do: it may fall asleep after a while.
func (a *Actor) Idle() {
	if s := a.Kernel; a.Type.idle != 0 || s.Memory.Over() {
		s.sweeper.Start()
	}
}

// resume runs an Actor that was abandoned if something waits. Otherwise it leaves memory.
func (a *Actor) resume() {
	a.Mu.Lock()
	if a.gone || a.Running {
		a.Mu.Unlock()
		return
	}
	if a.Mailbox.Empty() {
		a.Vacant.Store(true)
		a.Leave()
		a.Mu.Unlock()
		return
	}
	job := a.begin()
	a.Mu.Unlock()
	a.Kernel.Workers.Run(job)
}

// process works through a batch, sharing commits where turns are quick. It returns false when the
// Actor was abandoned under it.
// REQUIRES: c is the core, nil if the actor sleeps, as of the moment at which the batch was taken.
func (a *Actor) process(epoch uint64, c *Core, b *mailbox.Batch[*Work]) bool {
	for w, ok := b.Next(); ok; w, ok = b.Next() {
		if w.Ctx != nil && w.Ctx.Err() != nil {
			w.Fail(fault.Ended(w.Ctx))
			continue
		}
		if c != nil && c.Quiet && !a.staysQuiet(w) {
			a.teardown(c) // to be woken with its hook
			c = nil
		}
		if a.turnedAway(c, w) {
			continue
		}
		if p := a.Type.Profile; p != nil {
			t := w.Job.Traits(a)
			p.Enter(t.Kind, t.Name, t.Declared)
		}
		span.Caused(a.Spans, w.Span, "mailbox", "", w.posted, nil)
		late := false
		if c == nil {
			began, err := time.Now(), error(nil)
			a.Raised.Store(epoch + 1)
			c, err = a.rise(epoch, w)
			a.Raised.CompareAndSwap(epoch+1, 0)
			a.Type.Metrics.Woke(time.Since(began), err)
			span.Caused(a.Spans, w.Span, "wake", "", began, err)
			if err == ErrAbandoned {
				w.Fail(fault.Unavailable("the actor was restarted"))
				return false
			} else if err != nil {
				c = nil
				a.answer(w, err)
				continue
			}
			late = w.Ctx != nil && w.Ctx.Err() != nil // waking took longer than the caller waits
		}
		if !late && (c.Group.Changed || c.Holds()) && (!c.Exists || !w.Job.Traits(a).Quick) {
			c.Commit()
		}
		switch {
		case late:
			w.Fail(fault.Ended(w.Ctx))
		case c.Broken:
			w.Fail(fault.Unavailable("an earlier commit of the actor failed"))
		case c.Ended && !w.destroys(): // the wake hook has destroyed the actor
			c.Respond(w, nil, fault.DestroyedAt(a.Address))
		default:
			a.sleepSoon = false
			if err := a.contain("Run", w.Job, func() { w.Job.Run(c, w) }); err != nil {
				c.lose(w, err)
			}
		}
		attach.Each(&c.Attached, func(f Follower) { // if late, after the wake hook
			if !c.Broken && a.contain("Follow", f, func() { f.Follow(c) }) != nil {
				c.Broken = true
			}
		})
		if c.Gone() {
			c.close()
			return false
		}
		if c.streak++; c.streak >= maxStreak {
			c.streak = 0
			runtime.Gosched()
		}
		if c.Ended {
			c.finishDestroy()
		} else if c.Bare {
			c.Broken = true // it was opened for w alone
		} else if c.Group.Full() || c.Rows.Bytes() >= MaxGroupBytes {
			c.Commit()
		}
		if c.Broken {
			a.teardown(c)
			c = nil
		}
	}
	if c != nil {
		c.Commit()
		if c.Broken {
			a.teardown(c)
		}
	}
	return true
}

// contain calls f, a hook of a part or of its value, and returns a panic as an error.
func (a *Actor) contain(hook string, part any, f func()) (err error) {
	defer a.Kernel.Contain(a.Address, hook, part, &err)
	f()
	return nil
}

// lose gives up a core whose job has panicked, and keeps only what is committed.
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
