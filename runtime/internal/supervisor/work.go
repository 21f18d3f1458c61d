package supervisor

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A job is what an item of a mailbox asks for.
type job interface {
	// traits says how the mailbox treats the job, as things are.
	traits(a *activation) traits
	// run brings the job to the point where only its commit is missing, and answers w.
	run(c *core, w *work)
}

// traits is how a mailbox treats a job.
type traits struct {
	// kind and name say what it is, for logs: "alarm" and the alarm's name.
	kind, name string
	// code: it runs code of the actor, which a paused actor does not.
	code bool
	// quick: it is known to take little time, so that the turns before it can wait for it.
	quick bool
	// bounded: a full mailbox refuses it.
	bounded bool
	// creates: it makes an actor that is not there.
	creates bool
	// sturdy: it can be done on an actor that does not wake, because it runs no code of the actor and is an operator's verb or
	// goes on with what a commit has promised. bare: it is always done so.
	sturdy, bare bool
	// bytes is what it counts for in the mailbox, besides itself.
	bytes int64
}

// An early job may be answered before it wakes its actor. c is the core, nil if the actor sleeps.
type early interface{ turnedAway(c *core, w *work) bool }

// An identified job creates its actor under an id that it knows.
type identified interface {
	newID(a *activation) (keyspace.ActorID, error)
}

// A call is the job of a request: an action, a creation, a bare create or a built-in method.
type call struct {
	method         int      // index of the method; -1 for a bare create and for builtin
	builtin        *builtin // instead of a method
	codec          host.Codec
	input          []byte
	idempotencyKey string
	create         bool
	connection     string // the connection that the call came over
}

// work is one item of a mailbox. The sender fills it in; the goroutine that runs the actor owns it from the moment it
// is taken; whoever wins settled reports the result.
type work struct {
	job         job
	call                        // the job, if it is a call, so that a call is one allocation
	ctx         context.Context // the caller's; nil for work that nobody waits for
	existing    bool            // it does not create the actor
	traceparent string
	chain       int   // how many calls deep
	bytes       int64 // what it counts for in the mailbox, while it is there

	// of is the item of the mailbox whose turn this is, if it is not one itself: a creation, a wake-up, a message of a run.
	of *work

	paused bool // it was refused because the actor is paused

	// waiter is the actor whose turn waits for this work; guarded by waitGraph.mu.
	waiter *activation
	// waits is where to leave the wait edge, nil if none was entered.
	waits *waitGraph

	// The result, written by the winner of settled before release.
	out      []byte
	version  engine.Version
	replayed bool
	err      error

	settled atomic.Bool
	finish  func(*work)   // called when the result may leave; nil means signal done
	done    chan struct{} // capacity 1
}

// calls makes the call that is filled in the job.
func (w *work) calls() { w.job = &w.call }

// leave removes the item's wait edge.
func (w *work) leave() {
	if w.waits != nil {
		w.waits.leave(w)
	}
}

// settle claims the right to report the item's result.
func (w *work) claim() bool { return w.settled.CompareAndSwap(false, true) }

// release lets the result out.
//
// REQUIRES: the caller claimed w.
func (w *work) release() {
	if w.finish != nil {
		w.finish(w)
		return
	}
	w.done <- struct{}{}
}

// fail reports an error that depends on nothing uncommitted.
func (w *work) fail(err error) {
	if w.of != nil {
		w.of.fail(err)
		return
	}
	w.leave()
	if w.claim() {
		w.err = err
		w.release()
	}
}

// workPool recycles the items of calls whose caller saw the result, with their channels.
type workPool struct{ p sync.Pool }

func (p *workPool) get() *work {
	if w, ok := p.p.Get().(*work); ok {
		return w
	}
	return &work{done: make(chan struct{}, 1)}
}

// put gives w back.
//
// REQUIRES: w was received from done, so that nobody else holds it.
func (p *workPool) put(w *work) {
	done := w.done
	*w = work{done: done}
	p.p.Put(w)
}
