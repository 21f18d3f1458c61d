package supervisor

import (
	"runtime"
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
//  2. view is the last commit that was applied. It may be ahead of the disk; durable says how far the disk is. Both are
//     counted in commits and not in versions, because versions begin anew when the actor is destroyed and made again.
//  3. gone is set once, with an empty mailbox and no commit pending; from then on enqueue refuses.
type activation struct {
	sup  *Supervisor
	typ  *actorType
	addr host.Address
	key  string
	// remains is the id of a destroyed actor, of which this is what is left; zero for the actor of the address.
	remains   keyspace.ActorID
	attached  attached // residents
	sleepSoon bool     // the sleep hook was the last that ran; used by the goroutine that runs the actor, or under mu if none does

	mu      sync.Mutex
	queue   []*work
	taken   *batch // what the goroutine that runs the actor works through
	spare   []*work
	running bool
	gone    bool
	epoch   atomic.Uint64 // changed under mu
	core    *core
	crashes int // turns that panicked since one last succeeded, as of the last wake; used by the goroutine that runs the actor

	waiting      atomic.Int64 // calls in the mailbox that have not started
	waitingBytes atomic.Int64
	lastUsed     atomic.Int64 // unix milliseconds
	weight       atomic.Int64 // what the actor counts for in memory
	limits       atomic.Pointer[actorLimits]
	turn         atomic.Pointer[turn]
	raised       atomic.Uint64 // 1 + the epoch whose goroutine is getting the actor into memory; 0 while none is

	viewMu sync.Mutex
	view   *view

	pending  atomic.Int64  // commits that are not durable yet
	applied  atomic.Uint64 // counts the commits that were applied; changed under viewMu
	durable  atomic.Uint64 // how many of them are durable
	vacant   atomic.Bool   // nothing is awake, or wants to be; only commits that are not durable keep the activation
	gateMu   sync.Mutex
	blocked  []gateWaiter
	gateFail error
}

// core is what an awake actor consists of.
type core struct {
	a     *activation
	epoch uint64
	id    keyspace.ActorID
	space *engine.Space
	// limits are the actor's, and storage those of them that space has.
	limits  *actorLimits
	storage *engine.Limits
	ws      *engine.WriteSet
	inst    host.Instance
	// exists: the actor is in the directory, or will be by the commit under way.
	exists bool
	// creating: the actor comes into being in the turn under way, which goes or stays with the call that caused it.
	creating bool
	// rising: the actor is being prepared and woken, in turns that stand or fall together.
	rising bool
	// stored is the state's value as of the last turn that succeeded; nil for an actor without one.
	stored   []byte
	standing standing
	attached attached // facets
	group    *group
	held     ledger
	ident    host.Identity
	// broken: the core must not be used any more; the actor is rebuilt from the store.
	broken bool
	// refused: a commit failed; what the write set holds was answered as undone and must never be committed.
	refused bool
	// ended: the actor is destroyed by the commit under way.
	ended bool
	// bare: the core has neither state nor code; it serves operators, and to destroy an actor that does not wake.
	bare bool
	// quiet: the actor is paused and was loaded for queries and the like; its wake hook has not run.
	quiet bool
	// streak counts the work done since the actor last rested for a while, or let others run.
	streak int
	// timer ends the contexts of turns.
	timer turnTimer
	// slept is who asked the actor to sleep whatever waits.
	slept *work
}

func newActivation(s *Supervisor, t *actorType, addr host.Address, key string) *activation {
	a := &activation{sup: s, typ: t, addr: host.Address{Type: t.Type, Key: append([]string(nil), addr.Key...)}, key: key}
	a.limits.Store(s.limitsOf(t, []byte(key)))
	a.lastUsed.Store(time.Now().UnixMilli())
	return a
}

// left reports that the activation is of what is left of a destroyed actor.
func (a *activation) left() bool { return !a.remains.IsZero() }

// String names the actor: type/part/part.
func (a *activation) String() string { return formatAddress(a.addr) }

// enqueue adds work to the mailbox and starts a goroutine if nobody runs the actor. The error is errGone, or an *Error
// with code Overloaded when the mailbox is full; only calls and deliveries are refused.
func (a *activation) enqueue(w *work) error {
	job, err := a.post(w)
	if job.a != nil {
		a.sup.workers.run(job.a, job.epoch)
	}
	return err
}

// post is enqueue for one who runs the actor if nobody does, which the assignment then says.
func (a *activation) post(w *work) (job assignment, err error) {
	t := w.job.traits(a)
	cost := t.bytes + 64
	w.bytes = cost
	a.mu.Lock()
	if a.gone {
		a.mu.Unlock()
		return job, errGone
	}
	if t.bounded {
		limits := a.limits.Load()
		if n := a.waiting.Load(); n >= int64(limits.MailboxCount) {
			a.mu.Unlock()
			a.typ.metrics.overloaded.Inc()
			return job, overloaded(int64(limits.MailboxCount), a.drains(w, n), "the mailbox of %s is full: %d calls wait", a, n)
		}
		if n := a.waitingBytes.Load(); n > 0 && n+cost > limits.MailboxBytes {
			a.mu.Unlock()
			a.typ.metrics.overloaded.Inc()
			return job, overloaded(limits.MailboxBytes, a.drains(w, a.waiting.Load()), "the mailbox of %s is full: %d bytes wait", a, n)
		}
		if limit, n := a.sup.options.MaxMailboxBytes, a.sup.waitingBytes.Load(); n > 0 && n+cost > limit {
			a.mu.Unlock()
			a.typ.metrics.overloaded.Inc()
			return job, overloaded(limit, maxDrain, "the mailboxes of the node are full: the calls that wait take all of %d bytes", limit)
		}
	}
	a.waiting.Add(1)
	a.waitingBytes.Add(cost)
	a.sup.waitingBytes.Add(cost)
	a.queue = append(a.queue, w)
	start := !a.running
	if start {
		a.running = true
		a.vacant.Store(false)
		a.sup.busy.Add(1)
	}
	epoch := a.epoch.Load()
	a.mu.Unlock()
	if start {
		job = assignment{a: a, epoch: epoch}
	}
	return job, nil
}

// run takes what waits and works through it until nothing does.
func (a *activation) run(epoch uint64) {
	var b *batch
	for {
		a.mu.Lock()
		if a.epoch.Load() != epoch {
			a.mu.Unlock()
			return
		}
		if b != nil {
			clear(b.items)
			if cap(b.items) <= 256 {
				a.spare = b.items[:0]
			}
			b.items = nil
		} else {
			if a.core != nil && time.Now().UnixMilli()-a.lastUsed.Load() > respite {
				a.core.streak = 0
			}
			if b = a.taken; b == nil {
				b = new(batch)
				a.taken = b
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
		b.items = a.queue
		b.next.Store(0)
		a.queue, a.spare = a.spare, nil
		c := a.core
		a.mu.Unlock()
		if !a.process(epoch, c, b) {
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
	case c == nil || !c.exists || a.sleepSoon || a.left() && !a.busy():
		a.vacant.Store(true) // before the look at what is pending, so that either this or settled sees the other
		if a.leave() && a.sleepSoon && c != nil {
			a.slept(c)
		}
	default:
		a.sup.memory.idle(a)
	}
}

// leave takes the activation out of memory if nothing needs it.
//
// REQUIRES: a.mu, !a.running
func (a *activation) leave() bool {
	if a.gone || len(a.queue) > 0 || a.pending.Load() > 0 || sizeOf(a.company()) > 0 || a.busy() {
		return false
	}
	if a.durable.Load() < a.applied.Load() {
		return false // the disk failed: what the store shows may never be durable, and this activation knows it
	}
	if !a.yields() {
		return false
	}
	a.gone = true
	if c := a.core; c != nil {
		c.close()
		a.core = nil
		a.sup.memory.asleep(a)
	}
	a.dropView()
	if a.left() {
		a.sup.memory.dropRemains(a)
	} else {
		a.sup.forget(a)
	}
	return true
}

// yields lets what is attached leave memory; false if some of it must not.
//
// REQUIRES: a.mu
func (a *activation) yields() bool {
	ok := true
	eachAttached(&a.attached, func(r resident) { ok = ok && r.leave() })
	return ok
}

// busy reports that something attached keeps the actor awake.
//
// REQUIRES: a.mu
func (a *activation) busy() (busy bool) {
	eachAttached(&a.attached, func(r resident) { busy = busy || r.busy() })
	return busy
}

// company returns what runs beside the actor as it is awake, or nil.
//
// REQUIRES: a.mu
func (a *activation) company() company {
	if a.core == nil {
		return nil
	}
	return attachedTo[company](&a.core.attached)
}

// currentCompany is company for those who do not hold mu.
func (a *activation) currentCompany() company {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.company()
}

// sizeOf returns the size of a company, which may be nil.
func sizeOf(k company) int {
	if k == nil {
		return 0
	}
	return k.size()
}

// lost tells what is attached that the actor's core was lost.
func (a *activation) lost() { eachAttached(&a.attached, survivor.lost) }

// settled counts a commit off that is durable, or will never be. It is called by the gate and does not block.
func (a *activation) settled() {
	if a.pending.Add(-1) == 0 && a.vacant.Load() {
		a.sup.task(a.vacate)
	}
}

// vacate lets an activation leave that only its commits kept.
func (a *activation) vacate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.core; !a.running && a.vacant.Load() && a.leave() && c != nil && a.sleepSoon {
		a.slept(c)
	}
}

// process works through a batch, sharing commits where turns are quick. It returns false when the activation was
// abandoned under it.
//
// REQUIRES: c is the core, nil if the actor sleeps, as of the moment at which the batch was taken.
func (a *activation) process(epoch uint64, c *core, b *batch) bool {
	for {
		w, ok := b.take()
		if !ok {
			break
		}
		a.waiting.Add(-1)
		a.waitingBytes.Add(-w.bytes)
		a.sup.waitingBytes.Add(-w.bytes)
		if w.ctx != nil && w.ctx.Err() != nil {
			w.fail(contextError(w.ctx))
			continue
		}
		if c != nil && c.quiet && !a.staysQuiet(w) {
			a.teardown(c) // to be woken with its hook
			c = nil
		}
		if a.turnedAway(c, w) {
			continue
		}
		late := false
		if c == nil {
			var err error
			a.raised.Store(epoch + 1)
			c, err = a.rise(epoch, w)
			a.raised.CompareAndSwap(epoch+1, 0)
			if err == errAbandoned {
				w.fail(unavailable("the actor was restarted"))
				return false
			} else if err != nil {
				c = nil
				a.answer(w, err)
				continue
			}
			late = w.ctx != nil && w.ctx.Err() != nil // waking took longer than the caller waits
		}
		if !late && (c.group.changed || !c.held.empty()) && (!c.exists || !w.job.traits(a).quick) {
			c.commit()
		}
		switch {
		case late:
			w.fail(contextError(w.ctx))
		case c.broken:
			w.fail(unavailable("an earlier commit of the actor failed"))
		default:
			c.perform(w)
		}
		if !c.broken {
			c.follow() // if late, with what the wake hook has done
		}
		if c.gone() {
			c.close()
			return false
		}
		if c.streak++; c.streak >= maxStreak {
			c.streak = 0
			runtime.Gosched()
		}
		if c.ended {
			c.finishDestroy()
		} else if c.bare {
			c.broken = true // it was opened for w alone
		} else if c.group.full() || c.ws.Bytes() >= maxGroupBytes {
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

// follow lets the parts go on with what the work has made necessary.
func (c *core) follow() {
	for _, p := range c.a.typ.hooks.followers {
		p.follow(c)
	}
}

// resume lets a goroutine run an activation that was abandoned, if something waits, and lets it leave otherwise.
func (a *activation) resume() {
	a.mu.Lock()
	if a.gone || a.running {
		a.mu.Unlock()
		return
	}
	if len(a.queue) == 0 {
		a.vacant.Store(true)
		a.leave()
		a.mu.Unlock()
		return
	}
	a.running = true
	a.vacant.Store(false)
	a.sup.busy.Add(1)
	epoch := a.epoch.Load()
	a.mu.Unlock()
	a.sup.workers.run(a, epoch)
}

// teardown gives up the core after a crash or a failed commit; the next work rebuilds the actor from the store.
func (a *activation) teardown(c *core) {
	c.commit() // the turns that succeeded, and the answer of the one that did not
	c.drop(unavailable("the actor was restarted"))
	a.mu.Lock()
	own := a.core == c
	if own {
		a.core = nil
		a.sup.memory.asleep(a)
	}
	a.mu.Unlock()
	c.close()
	if own {
		a.dropView()
	}
	if own && !c.ended {
		a.lost()
	}
	if w := c.slept; w != nil {
		a.tellSlept(c, w)
	}
}

// close gives up what the core holds. It is called once, by the goroutine that runs the actor or while none does.
func (c *core) close() {
	c.attached.ended.Store(true)
	eachAttached(&c.attached, func(f facet) { f.close(c) })
	c.space.Close()
}

// abandon takes the actor away from a goroutine that runs it, answers what it was doing and what waits, and returns the
// handler that was running, or "". The work that waits is answered too if the node is going away, else it is run anew.
func (a *activation) abandon(err *host.Error) string { return a.abandonTurn(nil, err) }

// abandonTurn abandons the activation if it still runs turn only, or whatever it runs if only is nil.
func (a *activation) abandonTurn(only *turn, err *host.Error) string {
	a.mu.Lock()
	t := only
	if only == nil {
		t = a.turn.Swap(nil)
	} else if !a.turn.CompareAndSwap(only, nil) {
		a.mu.Unlock()
		return "" // it returned after all
	}
	a.epoch.Add(1)
	c := a.core
	a.core = nil
	running := a.running
	a.running = false
	if b := a.taken; b != nil {
		// The goroutine that took the batch may never come back to it.
		a.taken = nil
		a.queue = append(b.revoke(), a.queue...)
	}
	var rest []*work
	ended := a.sup.killed.Load()
	if ended {
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
	if ended {
		a.sup.forget(a)
		a.failWaiters(err)
	}
	handler := ""
	if t != nil {
		handler = t.handler
		t.close()
		if t.session != nil {
			a.sup.task(t.session.drop) // else it would be in use for as long as the handler does not return
		}
		t.work.fail(err)
	}
	if c != nil {
		c.held.abandon(unavailable("the actor was restarted")) // turns before this one, which can no longer be committed
		c.attached.ended.Store(true)
		eachAttached(&c.attached, func(f facet) { f.abandon(c) })
		c.space.Fence()
	}
	a.dropView()
	for _, w := range rest {
		w.fail(err)
	}
	if !ended {
		a.lost()
	}
	if len(rest) == 0 {
		a.resume()
	}
	return handler
}

// answer reports why the actor could not be woken to whoever waits for w. That it is not there is news as well, which
// waits at the gate for the commit that removed it.
func (a *activation) answer(w *work, err error) { a.tell(w, a.sup.public(a, w, err)) }

// tell ends work without a turn of its own, when the commits before it are durable.
func (a *activation) tell(w *work, result error) {
	if a.durable.Load() == a.applied.Load() || !a.sup.task(func() {
		if err := a.pass(a.sup.life, a.applied.Load()); err != nil {
			w.fail(err)
			return
		}
		w.fail(result)
	}) {
		w.fail(result)
	}
}
