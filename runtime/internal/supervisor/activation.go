package supervisor

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// An activation is an actor's place in memory: its mailbox, what queries read, and, while it is awake, its core. It is
// made by the first work for an address and leaves memory when the actor sleeps.
//
// Invariants:
//  1. The core is used only by the goroutine that runs the actor, which is the one whose epoch is current. An activation
//     that is abandoned gets a new epoch, so that the goroutine of a handler that will not return finds that it owns
//     nothing any more.
//  2. view is the last commit that was applied. It may be ahead of the disk; durable says how far the disk is.
//  3. gone is set once, with an empty mailbox and no commit pending; from then on enqueue refuses.
type activation struct {
	sup  *Supervisor
	typ  *actorType
	addr host.Address
	key  string
	// ghost marks the remains of a destroyed actor whose last messages are still on their way.
	ghost bool

	mu        sync.Mutex
	queue     []*work
	spare     []*work
	running   bool
	gone      bool
	epoch     atomic.Uint64 // changed under mu
	core      *core
	crashes   int // turns that panicked since one last succeeded; used by the goroutine that runs the actor
	sleepSoon bool

	waiting      atomic.Int64 // calls in the mailbox that have not started
	waitingBytes atomic.Int64
	lastUsed     atomic.Int64 // unix milliseconds
	weight       atomic.Int64 // what the actor counts for in memory
	turn         atomic.Pointer[turn]

	viewMu sync.Mutex
	view   *view

	pending  atomic.Int64  // commits that are not durable yet
	durable  atomic.Uint64 // the last durable version
	gateMu   sync.Mutex
	blocked  []gateWaiter
	gateFail error

	sender *sender // replaced, by the goroutine that runs the actor, when the actor is destroyed
}

// core is what an awake actor consists of.
type core struct {
	a     *activation
	epoch uint64
	id    keyspace.ActorID
	space *engine.Space
	ws    *engine.WriteSet
	inst  host.Instance
	// exists: the actor is in the directory, or will be by the commit under way.
	exists bool
	// creating: the actor comes into being in the turn under way, which goes or stays with the call that caused it.
	creating bool
	// stored is the state's value as of the last turn that succeeded; nil for an actor without one.
	stored []byte
	// events is the sequence of the last event; -1 when it was not read yet.
	events int64
	// armed: the row that recovers pending messages at a start is written.
	armed bool
	group *group
	held  ledger
	ident host.Identity
	// broken: the core must not be used any more; the actor is rebuilt from the store.
	broken bool
	// ended: the actor is destroyed by the commit under way; remains: messages of it outlive it.
	ended, remains bool
}

func newActivation(s *Supervisor, t *actorType, addr host.Address, key string) *activation {
	a := &activation{sup: s, typ: t, addr: host.Address{Type: t.Type, Key: append([]string(nil), addr.Key...)}, key: key}
	a.sender = newSender(a)
	a.lastUsed.Store(time.Now().UnixMilli())
	return a
}

// String names the actor: type/part/part.
func (a *activation) String() string { return formatAddress(a.addr) }

// enqueue adds work to the mailbox and starts a goroutine if nobody runs the actor. The error is errGone, or an *Error
// with code Overloaded when the mailbox is full; only calls and deliveries are refused.
func (a *activation) enqueue(w *work) error {
	cost := w.cost()
	a.mu.Lock()
	if a.gone {
		a.mu.Unlock()
		return errGone
	}
	if w.kind == workCall || w.kind == workDeliver {
		if n := a.waiting.Load(); n >= int64(a.typ.limits.MailboxCount) {
			a.mu.Unlock()
			a.typ.metrics.overloaded.Inc()
			return host.Errorf(host.Overloaded, "the mailbox of %s is full: %d calls wait", a, n).Retry()
		}
		if n := a.waitingBytes.Load(); n > 0 && n+cost > a.typ.limits.MailboxBytes {
			a.mu.Unlock()
			a.typ.metrics.overloaded.Inc()
			return host.Errorf(host.Overloaded, "the mailbox of %s is full: %d bytes wait", a, n).Retry()
		}
	}
	a.waiting.Add(1)
	a.waitingBytes.Add(cost)
	a.queue = append(a.queue, w)
	start := !a.running
	if start {
		a.running = true
		a.sup.busy.Add(1)
	}
	epoch := a.epoch.Load()
	a.mu.Unlock()
	if start {
		a.sup.workers.run(a, epoch)
	}
	return nil
}

// run takes what waits and works through it until nothing does.
func (a *activation) run(epoch uint64) {
	var batch []*work
	for {
		a.mu.Lock()
		if a.epoch.Load() != epoch {
			a.mu.Unlock()
			return
		}
		if batch != nil {
			clear(batch)
			if cap(batch) <= 256 {
				a.spare = batch[:0]
			}
		}
		if len(a.queue) == 0 {
			if cap(a.queue) > 0 && a.spare != nil {
				a.queue = nil
			}
			a.rest()
			a.mu.Unlock()
			return
		}
		batch = a.queue
		a.queue, a.spare = a.spare, nil
		a.mu.Unlock()
		if !a.process(epoch, batch) {
			return
		}
	}
}

// rest stops running: nothing waits.
//
// REQUIRES: a.mu, a.running, the current epoch.
func (a *activation) rest() {
	a.running = false
	a.lastUsed.Store(time.Now().UnixMilli())
	a.sup.busy.Add(-1)
	c := a.core
	switch {
	case c == nil || !c.exists || a.ghost && !a.sender.active():
		a.leave() // nothing is there to be awake
	case a.sleepSoon:
		a.sleepSoon = false
		if a.leave() {
			a.slept(c)
			return
		}
		a.sup.memory.idle(a)
	default:
		a.sup.memory.idle(a)
	}
}

// leave takes the activation out of memory if nothing needs it.
//
// REQUIRES: a.mu, !a.running
func (a *activation) leave() bool {
	if a.gone || len(a.queue) > 0 || a.pending.Load() > 0 || a.sender.active() {
		return false
	}
	a.gone = true
	if c := a.core; c != nil {
		c.space.Close()
		a.core = nil
		a.sup.memory.asleep(a)
	}
	a.dropView()
	if a.ghost {
		a.sup.memory.dropGhost(a)
	} else {
		a.sup.forget(a)
	}
	return true
}

// process works through a batch, sharing commits where turns are quick. It returns false when the activation was
// abandoned under it.
func (a *activation) process(epoch uint64, batch []*work) bool {
	c, ok := a.owned(epoch)
	if !ok {
		a.requeue(batch)
		return false
	}
	for i, w := range batch {
		a.waiting.Add(-1)
		a.waitingBytes.Add(-w.cost())
		if w.ctx != nil && w.ctx.Err() != nil {
			w.fail(contextError(w.ctx))
			continue
		}
		if c == nil {
			var err error
			if c, err = a.wake(epoch, w); err == errAbandoned {
				w.fail(unavailable("the actor was restarted"))
				a.requeue(batch[i+1:])
				return false
			} else if err != nil {
				c = nil
				a.answer(w, err)
				continue
			}
		}
		if (c.group.changed || !c.held.empty()) && (!c.exists || !a.quick(w)) {
			c.commit()
		}
		if c.broken {
			w.fail(unavailable("an earlier commit of the actor failed"))
		} else {
			c.perform(w)
		}
		if c.gone() {
			c.space.Close()
			a.requeue(batch[i+1:])
			return false
		}
		if c.ended {
			c.finishDestroy()
		} else if c.group.turns >= maxGroupTurns || c.ws.Bytes() >= maxGroupBytes {
			c.commit()
		}
		if c.broken {
			a.teardown(c)
			c = nil
		}
	}
	if c != nil {
		c.commit()
		if c.broken {
			a.teardown(c)
		}
	}
	return true
}

// owned returns the core for the goroutine that runs the actor in an epoch, nil if the actor sleeps; false if the epoch
// has passed.
func (a *activation) owned(epoch uint64) (*core, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch.Load() != epoch {
		return nil, false
	}
	return a.core, true
}

// A commit is shared by at most so many turns and about so many bytes, which bounds how long the first reply waits for
// the last turn.
const (
	maxGroupTurns = 256
	maxGroupBytes = 1 << 20
	// quickTurn is how long a turn may usually take to share a commit with the turns before it.
	quickTurn = 500 * time.Microsecond
)

// quick reports whether w is known to take little time, so that the turns before it can wait for it.
func (a *activation) quick(w *work) bool {
	switch w.kind {
	case workSettle, workPin, workPurge, workRecover:
		return true
	case workCall:
		if w.method < 0 {
			return false
		}
		p := a.typ.pace[w.method].Load()
		return p > 0 && p < int64(quickTurn)
	case workDeliver:
		m, ok := a.typ.methods[w.deliver.messages[0].record.Method]
		if !ok {
			return true
		}
		p := a.typ.pace[m].Load()
		return p > 0 && p*int64(len(w.deliver.messages)) < int64(quickTurn)
	}
	return false
}

// requeue puts work that was taken but not started back in front of the mailbox of an abandoned activation.
func (a *activation) requeue(rest []*work) {
	a.mu.Lock()
	if a.gone || a.sup.killed.Load() {
		a.mu.Unlock()
		for _, w := range rest {
			w.fail(unavailable("the node is shutting down"))
		}
		return
	}
	q := make([]*work, 0, len(rest)+len(a.queue))
	q = append(append(q, rest...), a.queue...)
	a.queue = q
	start := !a.running && len(q) > 0
	if start {
		a.running = true
		a.sup.busy.Add(1)
	}
	epoch := a.epoch.Load()
	a.mu.Unlock()
	if start {
		a.sup.workers.run(a, epoch)
	}
}

// teardown gives up the core after a crash or a failed commit; the next work rebuilds the actor from the store.
func (a *activation) teardown(c *core) {
	c.drop(unavailable("the actor was restarted"))
	a.mu.Lock()
	if a.core == c {
		a.core = nil
		a.sup.memory.asleep(a)
	}
	a.mu.Unlock()
	c.space.Close()
	a.dropView()
}

// abandon takes the actor away from a goroutine that runs it, answers what it was doing and what waits, and returns the
// handler that was running, or "". The work that waits is answered too if the node is going away, else it is run anew.
func (a *activation) abandon(err *host.Error) string { return a.abandonTurn(nil, err) }

// abandonTurn abandons the activation if it still runs turn only, or whatever it runs if only is nil.
func (a *activation) abandonTurn(only *turn, err *host.Error) string {
	a.mu.Lock()
	if only != nil && a.turn.Load() != only {
		a.mu.Unlock()
		return "" // it returned after all
	}
	a.epoch.Add(1)
	c, t := a.core, a.turn.Swap(nil)
	a.core = nil
	running := a.running
	a.running = false
	var rest []*work
	if a.sup.killed.Load() {
		rest, a.queue = a.queue, nil
		a.gone = true
	}
	if running {
		a.sup.busy.Add(-1)
	}
	if c != nil {
		a.sup.memory.asleep(a)
	}
	a.mu.Unlock()
	if a.gone {
		a.sup.forget(a)
		a.failWaiters(err)
	}
	handler := ""
	if t != nil {
		handler = t.handler
		t.close()
		t.work.fail(err)
	}
	if c != nil {
		c.held.abandon(err)
		c.space.Fence()
	}
	a.dropView()
	for _, w := range rest {
		w.fail(err)
	}
	if !a.gone {
		a.requeue(nil)
	}
	return handler
}

// answer reports an error that tells nothing of the actor's state to whoever waits for w.
func (a *activation) answer(w *work, err error) {
	w.fail(a.sup.public(a, w, err))
}
