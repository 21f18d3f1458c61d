package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/gate"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/memory"
)

// An Actor is an actor's place in memory: its mailbox, what queries read, and, while it is awake, its core. It is
// made by the first work for an address and leaves memory when the actor sleeps.
//
// Invariants:
//  1. The core is used only by the goroutine that runs the actor, which is the one whose epoch is current. An Actor
//     that is abandoned gets a new epoch, so that the goroutine of a handler that will not return finds that it owns
//     nothing.
//  2. view is the last commit that was applied. It may be ahead of the disk; the gate says how far the disk is. Both are
//     counted in commits and not in versions, because versions begin anew when the actor is destroyed and made again.
//  3. gone is set once, with an empty mailbox and no commit pending; from then on enqueue refuses.
type Actor struct {
	Kernel  *Kernel
	Type    *Type
	Address host.Address
	Key     string
	// Remains is the id of a destroyed actor, of which this is what is left; zero for the actor of the address.
	Remains   keyspace.ActorID
	Attached  attach.List // residents
	sleepSoon bool        // the sleep hook was the last that ran; used by the goroutine that runs the actor, or under mu if none does

	Mu      sync.Mutex
	queue   []*Work
	Taken   *batch // what the goroutine that runs the actor works through
	spare   []*Work
	Running bool
	gone    bool
	Epoch   atomic.Uint64 // changed under mu
	Core    *Core
	crashes int // turns that panicked since one last succeeded, as of the last wake; used by the goroutine that runs the actor

	Waiting      atomic.Int64 // calls in the mailbox that have not started
	waitingBytes atomic.Int64
	lastUsed     atomic.Int64 // unix milliseconds
	Weight       memory.Weight
	Limits       atomic.Pointer[limit.Set]
	Turn         atomic.Pointer[Turn]
	Raised       atomic.Uint64 // 1 + the epoch whose goroutine is getting the actor into memory; 0 while none is

	viewMu sync.Mutex
	view   *View

	Pending atomic.Int64  // commits that are not durable yet
	Applied atomic.Uint64 // counts the commits that were applied; changed under viewMu
	Gate    gate.Gate     // how many of them are durable
	Vacant  atomic.Bool   // nothing is awake, or wants to be; only commits that are not durable keep the Actor
}

func newActor(s *Kernel, t *Type, addr host.Address, key string) *Actor {
	a := &Actor{Kernel: s, Type: t, Address: host.Address{Type: t.Type, Key: append([]string(nil), addr.Key...)}, Key: key}
	a.Limits.Store(s.LimitsOf(t, []byte(key)))
	a.lastUsed.Store(time.Now().UnixMilli())
	return a
}

// Left reports that the Actor is of what is left of a destroyed actor.
func (a *Actor) Left() bool { return !a.Remains.IsZero() }

// String names the actor: type/part/part.
func (a *Actor) String() string { return address.Format(a.Address) }

// Enqueue adds work to the mailbox and starts a goroutine if nobody runs the actor. The error is errGone, or an *Error
// with code Overloaded when the mailbox is full; only calls and deliveries are refused.
func (a *Actor) Enqueue(w *Work) error {
	job, err := a.Post(w)
	if job.Actor != nil {
		a.Kernel.Workers.Run(job)
	}
	return err
}

// Post is Enqueue for a caller that can run the actor itself. The assignment says whether it must.
func (a *Actor) Post(w *Work) (job Assignment, err error) {
	t := w.Job.Traits(a)
	cost := t.Bytes + 64
	w.bytes = cost
	a.Mu.Lock()
	if a.gone {
		a.Mu.Unlock()
		return job, errGone
	}
	if t.Bounded {
		limits, n, bytes := a.Limits.Load(), a.Waiting.Load(), a.waitingBytes.Load()
		most, total := a.Kernel.Options.MaxMailboxBytes, a.Kernel.WaitingBytes.Load()
		switch {
		case n >= int64(limits.MailboxCount):
			err = Overloaded(int64(limits.MailboxCount), a.Drains(w, n), "the mailbox of %s is full: %d calls wait", a, n)
		case bytes > 0 && bytes+cost > limits.MailboxBytes:
			err = Overloaded(limits.MailboxBytes, a.Drains(w, n), "the mailbox of %s is full: %d bytes wait", a, bytes)
		case total > 0 && total+cost > most:
			err = Overloaded(most, MaxDrain, "the mailboxes of the node are full: the calls that wait take all of %d bytes", most)
		}
		if err != nil {
			a.Mu.Unlock()
			a.Type.metrics.overloaded.Inc()
			return job, err
		}
	}
	a.Waiting.Add(1)
	a.waitingBytes.Add(cost)
	a.Kernel.WaitingBytes.Add(cost)
	a.queue = append(a.queue, w)
	start := !a.Running
	if start {
		a.Running = true
		a.Vacant.Store(false)
		a.Kernel.Busy.Add(1)
	}
	epoch := a.Epoch.Load()
	a.Mu.Unlock()
	if start {
		job = Assignment{Actor: a, Epoch: epoch}
	}
	return job, nil
}

// An Assignment is an actor for a worker to run, and the epoch in which it was given out.
type Assignment struct {
	Actor *Actor
	Epoch uint64
}

func (j Assignment) run() { j.Actor.run(j.Epoch) }

// run takes what waits and works through it until nothing does.
func (a *Actor) run(epoch uint64) {
	var b *batch
	for {
		a.Mu.Lock()
		if a.Epoch.Load() != epoch {
			a.Mu.Unlock()
			return
		}
		if b != nil {
			clear(b.items)
			if cap(b.items) <= 256 {
				a.spare = b.items[:0]
			}
			b.items = nil
		} else {
			if a.Core != nil && time.Now().UnixMilli()-a.lastUsed.Load() > respite {
				a.Core.streak = 0
			}
			if b = a.Taken; b == nil {
				b = new(batch)
				a.Taken = b
			}
		}
		if len(a.queue) == 0 {
			if cap(a.queue) > 0 && a.spare != nil {
				a.queue = nil
			}
			a.rest()
			a.Mu.Unlock()
			return
		}
		b.items = a.queue
		b.next.Store(0)
		a.queue, a.spare = a.spare, nil
		c := a.Core
		a.Mu.Unlock()
		if !a.process(epoch, c, b) {
			return
		}
	}
}

// rest stops running: nothing waits.
//
// REQUIRES: a.mu, a.running, the current epoch.
func (a *Actor) rest() {
	a.Running = false
	a.lastUsed.Store(time.Now().UnixMilli())
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

// Leave takes the Actor out of memory if nothing needs it.
//
// REQUIRES: a.mu, !a.running
func (a *Actor) Leave() bool {
	if a.gone || len(a.queue) > 0 || a.Pending.Load() > 0 || SizeOf(a.company()) > 0 || a.Busy() {
		return false
	}
	if a.Gate.Durable.Load() < a.Applied.Load() {
		return false // the disk failed: what the store shows may never be durable, and this Actor knows it
	}
	if !a.yields() {
		return false
	}
	a.gone = true
	if c := a.Core; c != nil {
		c.close()
		a.Core = nil
		a.Weight.Sleep(&a.Kernel.Memory)
	}
	a.dropView()
	a.Kernel.forget(a)
	return true
}

// yields lets what is attached leave memory; false if some of it must not.
//
// REQUIRES: a.mu
func (a *Actor) yields() bool {
	ok := true
	attach.Each(&a.Attached, func(r Resident) { ok = ok && r.Leave() })
	return ok
}

// Busy reports that something attached keeps the actor awake.
//
// REQUIRES: a.mu
func (a *Actor) Busy() (busy bool) {
	attach.Each(&a.Attached, func(r Resident) { busy = busy || r.Busy() })
	return busy
}

// company returns what runs beside the actor as it is awake, or nil.
//
// REQUIRES: a.mu
func (a *Actor) company() Company {
	if a.Core == nil {
		return nil
	}
	return attach.Get[Company](&a.Core.Attached)
}

// CurrentCompany is company for those who do not hold mu.
func (a *Actor) CurrentCompany() Company {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.company()
}

// SizeOf returns the size of a company, which may be nil.
func SizeOf(k Company) int {
	if k == nil {
		return 0
	}
	return k.Size()
}

// Lost tells what is attached that the actor's core was lost.
func (a *Actor) Lost() { attach.Each(&a.Attached, Survivor.Lost) }

// settled counts a commit off that is durable, or will never be. It is called by the gate and does not block.
func (a *Actor) settled() {
	if a.Pending.Add(-1) == 0 && a.Vacant.Load() {
		a.Kernel.Go(a.Vacate)
	}
}

// Vacate lets an Actor leave that only its commits kept.
func (a *Actor) Vacate() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if c := a.Core; !a.Running && a.Vacant.Load() && a.Leave() && c != nil && a.sleepSoon {
		a.slept(c)
	}
}

// process works through a batch, sharing commits where turns are quick. It returns false when the Actor was
// abandoned under it.
//
// REQUIRES: c is the core, nil if the actor sleeps, as of the moment at which the batch was taken.
func (a *Actor) process(epoch uint64, c *Core, b *batch) bool {
	for {
		w, ok := b.take()
		if !ok {
			break
		}
		a.Waiting.Add(-1)
		a.waitingBytes.Add(-w.bytes)
		a.Kernel.WaitingBytes.Add(-w.bytes)
		if w.Ctx != nil && w.Ctx.Err() != nil {
			w.Fail(ContextError(w.Ctx))
			continue
		}
		if c != nil && c.Quiet && !a.staysQuiet(w) {
			a.teardown(c) // to be woken with its hook
			c = nil
		}
		if a.turnedAway(c, w) {
			continue
		}
		late := false
		if c == nil {
			var err error
			a.Raised.Store(epoch + 1)
			c, err = a.rise(epoch, w)
			a.Raised.CompareAndSwap(epoch+1, 0)
			if err == ErrAbandoned {
				w.Fail(Unavailable("the actor was restarted"))
				return false
			} else if err != nil {
				c = nil
				a.answer(w, err)
				continue
			}
			late = w.Ctx != nil && w.Ctx.Err() != nil // waking took longer than the caller waits
		}
		if !late && (c.Group.Changed || !c.Held.Empty()) && (!c.Exists || !w.Job.Traits(a).Quick) {
			c.Commit()
		}
		switch {
		case late:
			w.Fail(ContextError(w.Ctx))
		case c.Broken:
			w.Fail(Unavailable("an earlier commit of the actor failed"))
		default:
			a.sleepSoon = false
			if err := c.runs(w); err != nil {
				c.lose(w, err)
			}
		}
		if !c.Broken {
			for _, p := range a.Type.Hooks.followers {
				if c.follows(p) != nil { // if late, with what the wake hook has done
					c.Broken = true
					break
				}
			}
		}
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
