package kernel

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/gate"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/mailbox"
	"github.com/cairn-run/cairn/runtime/internal/kernel/memory"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/tally"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

var (
	// errGone: the Actor has left memory; look the actor up again.
	errGone = errors.New("kernel: activation is gone")
	// ErrAbandoned: the turn outlived its deadline and grace, and its Actor was given up.
	ErrAbandoned = errors.New("kernel: turn was abandoned")
)

// An Actor is an actor's place in memory: its mailbox, what queries read, and, while it is awake,
// its core. It is made by the first work for an address and leaves memory when the actor sleeps.
//
// Invariants:
//  1. The core is used only by the goroutine that runs the actor, the one whose epoch is current.
//     An abandoned Actor gets a new epoch, so a goroutine whose handler does not return finds that
//     it owns nothing.
//  2. The current view is the last commit that was applied. It may be ahead of the disk; the gate
//     says how far the disk is. Both count commits and not versions, because versions begin anew
//     when the actor is destroyed and made again.
//  3. gone is set once, with an empty mailbox and no commit pending; from then on enqueue refuses.
type Actor struct {
	Kernel  *Kernel
	Type    *Type
	Address host.Address
	Key     string
	// Remains is the id of the destroyed actor whose remains these are; zero if it is none.
	Remains  keyspace.ActorID
	Attached attach.List // residents
	Spans    span.Sink   // nil if nothing is recorded
	Tally    tally.Tally // of its work

	Mu        sync.Mutex
	Mailbox   mailbox.Box[*Work] // guarded by Mu
	Running   bool
	gone      bool
	sleepSoon bool          // the sleep hook ran last; used by the goroutine that runs the actor, or under mu if none does
	Vacant    atomic.Bool   // the actor is asleep; only commits that are not durable keep the Actor
	Epoch     atomic.Uint64 // changed under mu
	Core      *Core
	crashes   int // turns that panicked since the last success, as of the last wake; used by the goroutine that runs the actor

	lastUsed atomic.Int64 // as Now returns it
	Weight   memory.Weight
	Limits   atomic.Pointer[limit.Set]
	Turn     atomic.Pointer[Turn]
	Raised   atomic.Uint64 // 1 + the epoch whose goroutine is getting the actor into memory; 0 while none is

	view.Box // what queries read

	Pending atomic.Int64 // commits that are not durable yet
	Gate    gate.Gate    // how many of them are durable
	Told    gate.Gate    // the consequences of how many of them are out
}

func newActor(s *Kernel, t *Type, addr host.Address, key string) *Actor {
	a := &Actor{Kernel: s, Type: t, Address: host.Address{Type: t.Type, Key: append([]string(nil), addr.Key...)}, Key: key}
	a.Mailbox.All, a.Mailbox.Waits = &s.WaitingBytes, t.Metrics.Mailbox
	if s.Tracer != nil {
		a.Spans = s.Tracer.Sink(a)
	}
	a.Limits.Store(s.LimitsOf(t, []byte(key)))
	a.Touch(s.Now())
	return a
}

// Left reports whether the Actor is the remains of a destroyed actor.
func (a *Actor) Left() bool { return !a.Remains.IsZero() }

// String names the actor: type/part/part.
func (a *Actor) String() string { return address.Format(a.Address) }

// Enqueue adds work to the mailbox and starts a goroutine if nobody runs the actor. The error is
// errGone, or an *Error with code Overloaded when the mailbox is full; only calls and deliveries
// are refused.
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
	bytes := t.Bytes + 64
	w.posted = span.Now(w.Span.Sampled())
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.gone {
		return job, errGone
	}
	if t.Bounded {
		if err := a.refuse(w, bytes); err != nil {
			a.Type.Metrics.Overloaded.Inc()
			return job, err
		}
	}
	a.Mailbox.Put(w, bytes)
	if !a.Running {
		job = a.begin()
	}
	return job, nil
}

// refuse returns the error for work that the mailbox has no room for, or nil.
func (a *Actor) refuse(w *Work, bytes int64) error {
	l, box, node := a.Limits.Load(), &a.Mailbox, a.Kernel.Options.MaxMailboxBytes
	n := box.Count()
	switch box.Check(bytes, mailbox.Limits{Count: l.MailboxCount, Bytes: l.MailboxBytes, All: node}) {
	case mailbox.FullCount:
		return fault.Overloaded(int64(l.MailboxCount), a.Drains(w, n), "the mailbox of %s is full: %d calls wait", a, n)
	case mailbox.FullBytes:
		return fault.Overloaded(l.MailboxBytes, a.Drains(w, n), "the mailbox of %s is full: %d bytes wait", a, box.Bytes())
	case mailbox.FullNode:
		return fault.Overloaded(node, pace.MaxDrain, "the mailboxes of the node are full: the calls that wait take all of %d bytes", node)
	}
	return nil
}

// Leave takes the Actor out of memory if nothing needs it. REQUIRES: a.mu, !a.running
func (a *Actor) Leave() bool {
	if a.gone || !a.Mailbox.Empty() || a.Pending.Load() > 0 || SizeOf(a.Core.Company()) > 0 || a.Busy() {
		return false
	}
	if a.Gate.Durable.Load() < a.Applied.Load() {
		return false // the disk failed: the store may show commits that are never durable, and only this Actor knows
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
	a.DropView()
	a.Kernel.forget(a)
	return true
}

// yields calls Leave of the residents, and reports whether none refused. REQUIRES: a.mu
func (a *Actor) yields() bool {
	ok := true
	attach.Each(&a.Attached, func(r Resident) { ok = ok && r.Leave() })
	return ok
}

// Busy reports whether something attached keeps the actor awake. REQUIRES: a.mu
func (a *Actor) Busy() (busy bool) {
	attach.Each(&a.Attached, func(r Resident) { busy = busy || r.Busy() })
	return busy
}

// Waking returns the core of an actor that is awake, or nil.
func (a *Actor) Waking() *Core {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Core
}

// SizeOf returns the size of a company, which may be nil.
func SizeOf(k Company) int {
	if k == nil {
		return 0
	}
	return k.Size()
}

// Lost notifies what is attached that the actor's core was lost.
func (a *Actor) Lost() { attach.Each(&a.Attached, Survivor.Lost) }

// settled counts off a commit that is durable or never will be. The gate calls it.
func (a *Actor) settled() {
	if a.Pending.Add(-1) == 0 && a.Vacant.Load() {
		a.Kernel.Go(a.Vacate)
	}
}

// Vacate removes from memory an Actor that only its commits kept there.
func (a *Actor) Vacate() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if c := a.Core; !a.Running && a.Vacant.Load() && a.Leave() && c != nil && a.sleepSoon {
		a.slept(c)
	}
}
