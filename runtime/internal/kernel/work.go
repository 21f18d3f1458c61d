package kernel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A Job is the work of an item of a mailbox.
type Job interface {
	// Traits returns how the mailbox treats the job now.
	Traits(a *Actor) Traits
	// Run does everything of the job except its commit, and answers w.
	Run(c *Core, w *Work)
}

// Traits is how a mailbox treats a job.
type Traits struct {
	// Kind and name say what it is, for logs: "alarm" and the alarm's name.
	Kind, Name string
	Declared   bool // the code declares Name, so that there are few such names
	// Code: it runs code of the actor, which a paused actor does not.
	Code bool
	// Quick: it is known to take little time, so that the turns before it can wait for it.
	Quick bool
	// Bounded: a full mailbox refuses it.
	Bounded bool
	// Creates: it makes a missing actor.
	Creates bool
	// Sturdy: it can run on an actor that does not wake, because it runs none of its code, and is
	// an operator's verb or continues what a commit promised. bare: it always runs so.
	Sturdy, bare bool
	// Bytes is its size in the mailbox, besides itself.
	Bytes int64
}

// An early job may be answered before it wakes its actor. c is the core, nil if the actor sleeps.
type early interface{ TurnedAway(c *Core, w *Work) bool }

// An identified job creates its actor under an id of its own.
type identified interface {
	NewID(a *Actor) (keyspace.ActorID, error)
}

// A Call is the job of a request: an action, a creation, a bare create or a built-in method.
type Call struct {
	Method         int        // index of the method; -1 for a bare create and for built-in method
	Builtin        *Procedure // instead of a method
	Codec          host.Codec
	Create         bool // the actor must not exist
	Input          []byte
	Value          any   // the request's, of Bytes bytes; then the reply's
	Bytes          int64 // of Value
	idempotencyKey string
	Connection     string // the connection that the call came over
}

// Work is one item of a mailbox. The sender fills it in; the goroutine that runs the actor owns it
// from the moment it is taken; the goroutine that wins settled reports the result.
type Work struct {
	Job      Job
	Call                     // the job, if it is a call, so that a call is one allocation
	Ctx      context.Context // the caller's; nil for work without a waiter
	Existing bool            // it does not create the actor
	Paused   bool            // it was refused because the actor is paused
	replayed bool            // the result is that of an earlier call
	Chain    int32           // how many calls deep
	Span     host.Span       // of the operation that it is part of
	posted   time.Time       // when it came into the mailbox, if it is sampled
	order    host.Order      // notified when the work has its place in the mailbox; may be nil
	GoodFor  int64           // until when the reply is worth repeating, in Unix ms; 0 for as long as all replies, -1 never

	// Of is the item whose turn this is, if not one itself: for a creation, a message of a run.
	Of *Work

	// waiter is the actor whose turn waits for this work; nil if none does.
	waiter *Actor

	// The result, written by the winner of settled before release.
	out     []byte
	version engine.Version
	Err     error

	settled atomic.Bool
	Finish  func(*Work)   // called when the result may leave; nil means signal done
	Done    chan struct{} // capacity 1
	timer   *time.Timer   // of the caller's wait; nil before the first that needs one
}

// Wait records that an actor's turn waits for w, which no mailbox has yet. The error code is Cycle.
//
// The edge stands from the call until the callee's turn has run, not until the reply has passed the
// gate: from then on the reply needs nothing but the disk.
func (w *Work) Wait(from, to *Actor) error {
	cycle := from.Kernel.Waits.Enter(from, to, w)
	if cycle == nil {
		w.waiter = from
		return nil
	}
	return fault.Cycle(cycle)
}

// Leave removes the item's wait edge. It may be called more than once.
func (w *Work) Leave() {
	if w.waiter != nil {
		w.waiter.Kernel.Waits.Leave(w.waiter, w)
	}
}

// Claim claims the right to report the item's result.
func (w *Work) Claim() bool { return w.settled.CompareAndSwap(false, true) }

// release delivers the result. REQUIRES: the caller claimed w.
func (w *Work) release() {
	if w.Finish != nil {
		w.Finish(w)
		return
	}
	w.Done <- struct{}{}
}

// Fail reports an error that depends on nothing uncommitted.
func (w *Work) Fail(err error) {
	if w.Of != nil {
		w.Of.Fail(err)
		return
	}
	w.Leave()
	if w.Claim() {
		w.Err = err
		w.release()
	}
}

// workPool recycles the items of calls whose caller saw the result, with their channels and timers.
type workPool struct{ p sync.Pool }

// Get returns an empty item with its channel.
func (p *workPool) Get() *Work {
	if w, ok := p.p.Get().(*Work); ok {
		return w
	}
	return &Work{Done: make(chan struct{}, 1)}
}

// Put gives w back. REQUIRES: w was received from done, so that no other goroutine holds it.
func (p *workPool) Put(w *Work) {
	*w = Work{Done: w.Done, timer: w.timer}
	p.p.Put(w)
}
