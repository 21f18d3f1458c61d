package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// wake brings the actor into memory for w: its directory entry, its head and its state are read; nothing else is until
// something asks for it. A missing actor gets a core too, with a new id, and comes into being with its first turn.
func (a *activation) wake(epoch uint64, w *work) (*core, error) {
	err := a.sup.failures.blocked(a)
	if a.typ.retired {
		if a.left() {
			return a.wakeBare(epoch, w) // there is no code to load
		}
		err = unknownType(a.typ.Type)
	}
	if err != nil {
		if w.destroys() {
			return a.wakeBare(epoch, w)
		}
		return nil, err
	}
	a.crashes = a.sup.failures.crashes(a)
	c, err := a.open(epoch, w, false)
	if err != nil {
		if _, ok := errors.AsType[*host.Error](err); !ok || fatalToWake(err) {
			e := a.sup.public(a, w, err)
			if e.Code != host.Unavailable || damage(err) {
				a.sup.failures.add(a, e, err)
				if w.destroys() {
					return a.wakeBare(epoch, w)
				}
				return nil, a.sup.failures.blocked(a)
			}
			return nil, e
		}
		return nil, err
	}
	if !a.adopt(epoch, c) {
		return nil, errAbandoned
	}
	if !c.exists || a.left() {
		return c, nil
	}
	c.quiet = a.staysQuiet(w)
	stale := false
	if !c.quiet {
		stale, err = c.stale()
	}
	if err == nil && !stale { // else queries wait for the commit of what prepares it
		a.ensureView(c)
	}
	if c.quiet {
		return c, nil
	}
	if err == nil {
		err = c.rouse(w, stale)
	}
	if err != nil {
		if err == errAbandoned {
			c.close()
			return nil, err
		}
		a.teardown(c)
		if a.sup.full(err) {
			return nil, a.sup.public(a, w, err) // the node is busy, the actor is well
		}
		a.sup.failures.add(a, a.sup.public(a, w, err), err)
		if w.destroys() {
			return a.wakeBare(epoch, w)
		}
		return nil, a.sup.failures.blocked(a)
	}
	for _, p := range a.typ.hooks.risers {
		if err := p.risen(c); err != nil {
			a.teardown(c)
			return nil, a.sup.public(a, w, err)
		}
	}
	if a.crashes == 0 {
		a.sup.failures.clear(a)
	} // else a turn has to succeed first
	a.sup.publishLife(a, c, "woke", "")
	return c, nil
}

// adopt makes c the core; false, and c is closed, if the activation was taken away from the caller.
func (a *activation) adopt(epoch uint64, c *core) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch.Load() != epoch {
		c.space.Close()
		return false
	}
	a.core = c
	a.sup.memory.woke(a, len(c.stored))
	return true
}

// rise makes the core that w needs.
func (a *activation) rise(epoch uint64, w *work) (*core, error) {
	t := w.job.traits(a)
	if t.bare {
		return a.wakeBare(epoch, w)
	}
	c, err := a.wake(epoch, w)
	if host.CodeOf(err) != host.ActorFailed || !t.sturdy {
		return c, err
	}
	w.existing = true // a bare core creates nothing
	c, bareErr := a.wakeBare(epoch, w)
	if host.CodeOf(bareErr) == host.NotFound {
		return nil, err
	}
	return c, bareErr
}

// wakeBare opens an actor without its state and without its code: for operators, and to destroy one that does not wake.
func (a *activation) wakeBare(epoch uint64, w *work) (*core, error) {
	c, err := a.open(epoch, w, true)
	if err != nil {
		return nil, err
	}
	if !a.adopt(epoch, c) {
		return nil, errAbandoned
	}
	if w.destroys() {
		a.sup.logger.Warn("an actor that does not wake is destroyed without its hook", "actor_type", a.addr.Type, "actor_key", a.addr.Key)
	}
	return c, nil
}

// fatalToWake reports that err says that the actor's data and its code do not fit, rather than that w was wrong.
func fatalToWake(err error) bool {
	switch host.CodeOf(err) {
	case host.NotFound, host.Destroyed, host.Canceled, host.DeadlineExceeded:
		return false
	}
	return true
}

// open reads what a core consists of; of a bare one, nothing but what the store needs.
func (a *activation) open(epoch uint64, w *work, bare bool) (*core, error) {
	s := a.sup
	c := &core{a: a, epoch: epoch, group: &group{a: a}, inst: a.typ.New()}
	var ok bool
	var err error
	if a.left() {
		c.id, ok = a.remains, true
	} else if c.id, ok, err = s.store.Lookup(s.identity(a.addr)); err != nil {
		return nil, err
	}
	if !ok {
		if w.existing || !w.job.traits(a).creates {
			return nil, notFound(a.addr)
		}
		if j, ok := w.job.(identified); !ok {
			c.id = s.newID(a.addr)
		} else if c.id, err = j.newID(a); err != nil {
			return nil, err
		}
	}
	if c.space, err = s.store.OpenSpace(c.id); err != nil {
		if a.left() && errors.Is(err, engine.ErrDestroyed) {
			err = notFound(a.addr) // nothing remains
		}
		return nil, err
	}
	c.ws = c.space.Writes()
	if err := c.adoptLimits(w); err != nil {
		c.space.Close()
		return nil, err
	}
	c.ident = host.Identity{Type: a.addr.Type, Key: a.addr.Key, ID: c.id.String()}
	if c.bare = bare; bare {
		c.exists = ok
		return c, nil
	}
	if err := c.load(ok); err != nil {
		c.space.Close()
		return nil, err
	}
	return c, nil
}

// load reads the state into the instance.
func (c *core) load(exists bool) error {
	c.exists = exists
	if exists && !c.a.left() {
		e, found, err := c.ws.Get(stateKey)
		if err != nil {
			return err
		}
		if found {
			c.stored = bytes.Clone(e.Value)
		}
	}
	if err := c.reload(); err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	return nil
}

func destroyedError(addr host.Address) *host.Error {
	return host.Errorf(host.Destroyed, "the actor %s that this was for has been destroyed", formatAddress(addr))
}

// stale reports that a part has to prepare the actor before its wake hook runs.
func (c *core) stale() (bool, error) {
	for _, p := range c.a.typ.hooks.preparers {
		if stale, err := p.stale(c); stale || err != nil {
			return stale, err
		}
	}
	return false, nil
}

// prepare has the parts prepare the actor, in the turn.
func (t *turn) prepare() error {
	for _, p := range t.a.typ.hooks.preparers {
		if err := p.prepare(t); err != nil {
			return err
		}
	}
	return nil
}

// rouse runs what runs when an actor wakes: what its parts prepare, if it is stale, and the wake hook. The preparation is a
// turn of its own, in one commit with what follows, and it is undone if the hook fails: the data of an actor that does not
// run stays as the code left it that last ran.
func (c *core) rouse(w *work, stale bool) error {
	if !stale {
		return c.wakeHook(w)
	}
	before := c.mark()
	c.rising = true
	_, err := c.internal(&work{job: waking{}, traceparent: w.traceparent, chain: w.chain, of: w}, "migrate", (*turn).prepare)
	if err == nil {
		err = c.wakeHook(w)
	}
	c.rising = false
	if err != nil && !c.gone() {
		c.undo(before)
	}
	return err
}

// wakeHook runs OnWake, and saves a state that was migrated, in one turn.
func (c *core) wakeHook(w *work) error {
	// Not under the caller's deadline: the actor wakes for everybody who waits, and for those to come.
	_, err := c.run(&work{job: waking{}, traceparent: w.traceparent, chain: w.chain, of: w}, "OnWake", func(h *turn) ([]byte, error) {
		return nil, c.inst.Wake(h.host)
	})
	return err
}

// waking makes the actor exist and awake, for a query.
type waking struct{}

// traits implements job.
func (waking) traits(*activation) traits { return traits{kind: "wake", creates: true} }

// run implements job.
func (waking) run(c *core, w *work) {
	err := c.exist(w)
	if err == nil && !c.group.changed {
		c.a.ensureView(c)
	}
	c.respond(w, nil, err)
}

// wakes reports that a turn is part of waking the actor.
func (w *work) wakes() bool {
	_, ok := w.job.(waking)
	return ok
}

// sleeping runs the sleep hook and leaves memory; if true, though more work waits, which wakes the actor again.
type sleeping bool

// traits implements job.
func (sleeping) traits(*activation) traits { return traits{kind: "sleep"} }

// turnedAway implements early.
func (sleeping) turnedAway(c *core, w *work) bool {
	if c != nil {
		return false
	}
	w.fail(nil) // it sleeps
	return true
}

// run implements job.
func (force sleeping) run(c *core, w *work) {
	if c.exists && c.a.typ.HasSleep && !c.quiet && !c.bare {
		if _, err := c.run(w, "OnSleep", func(h *turn) ([]byte, error) { return nil, c.inst.Sleep(h.host) }); err != nil {
			if err == errAbandoned {
				return
			}
			c.a.sup.public(c.a, w, err) // logged; the actor sleeps all the same
		}
	}
	if force {
		c.slept, c.broken = w, true // told when the core is gone
		return
	}
	c.a.sleepSoon = true
	c.respond(w, nil, nil)
}

// destroying runs the destroy hook and removes the actor.
type destroying struct{}

// traits implements job.
func (destroying) traits(*activation) traits { return traits{kind: "destroy"} }

// destroys reports that w is to remove the actor.
func (w *work) destroys() bool {
	_, ok := w.job.(destroying)
	return ok
}

// run implements job.
func (destroying) run(c *core, w *work) {
	if !c.exists {
		c.respond(w, nil, notFound(c.a.addr))
		return
	}
	var err error
	if c.bare {
		_, err = c.internal(w, "destroy", func(h *turn) error {
			h.destroy = true
			return nil
		})
		c.broken = err != nil && !c.gone()
	} else {
		_, err = c.run(w, "OnDestroy", func(h *turn) ([]byte, error) {
			h.DestroySelf()
			return nil, nil
		})
	}
	c.respond(w, nil, err)
}

// sealDestroy turns a turn that destroys its actor into writes. What parts say stays under the old id until it is done,
// and is taken up when the actor is gone, as it would be by a start of the node.
func (c *core) sealDestroy(t *turn) error {
	a := c.a
	if a.left() {
		if err := c.ws.Destroy(); err != nil {
			return err
		}
		c.group.changed, c.group.destroyed, c.group.version = true, true, t.version
		c.ended = true
		return nil
	}
	for _, p := range a.typ.hooks.destroyers {
		if err := p.destroy(t); err != nil {
			return err
		}
	}
	if err := c.dropControl(t); err != nil {
		return err
	}
	rows, err := c.wakeRows()
	if err != nil {
		return err
	}
	for _, due := range rows {
		c.ws.ClearWake(due.Due, due.Kind, due.Name, due.Instance)
	}
	for kind := range a.sup.recoverers {
		c.arm(kind, false)
	}
	c.arm(keyspace.WakePaused, false)
	var kept []keyspace.Kind
	var heirs []remainder
	for _, p := range a.typ.hooks.remainders {
		kinds, err := p.remains(t)
		if err != nil {
			return err
		}
		if len(kinds) > 0 {
			kept, heirs = append(kept, kinds...), append(heirs, p)
			c.arm(p.standsFor(), true)
		}
	}
	if err := c.ws.Destroy(kept...); err != nil {
		return err
	}
	for _, p := range heirs {
		if err := p.bequeath(t); err != nil {
			return err
		}
	}
	t.changes = t.changes[:0]
	c.group.after = append(c.group.after, t.after...)
	if len(heirs) > 0 && !a.sup.offline {
		c.group.after = append(c.group.after, &bequest{a: a, id: c.id, heirs: heirs})
	}
	t.lifeChange("destroyed", "")
	if err := c.writeChanges(t); err != nil {
		return err
	}
	g := c.group
	g.changed, g.destroyed, g.version = true, true, t.version
	c.ended = true
	return nil
}

// A bequest takes up what is left of an actor when its destruction is durable.
type bequest struct {
	a     *activation
	id    keyspace.ActorID
	heirs []remainder
}

// durable implements consequence.
func (b *bequest) durable() {
	for _, p := range b.heirs {
		b.a.sup.takeUpOf(b.a.typ, b.a.addr, b.id, p.takeUp)
	}
}

// finishDestroy commits a group whose last turn destroyed the actor.
func (c *core) finishDestroy() {
	a := c.a
	if k := attachedTo[company](&c.attached); k != nil {
		k.end(destroyedError(a.addr))
	}
	c.commit()
	if c.refused {
		return
	}
	c.broken = true // the next work for the address begins a new incarnation
	if !a.left() {
		a.sup.failures.clear(a)
	}
}

// wakeRows lists the actor's rows in the wake index, from the records that they are derived from.
func (c *core) wakeRows() ([]engine.Wake, error) {
	var rows []engine.Wake
	for _, p := range c.a.sup.parts {
		if w, ok := p.(waker); ok {
			more, _ := w.wakes(c.ws) // those of records that cannot be read are left over
			rows = append(rows, more...)
		}
	}
	return rows, nil // a row that is left over finds no actor and is dropped
}

// lifeChange notes a transition that has a commit.
func (t *turn) lifeChange(transition, reason string) {
	t.change(engine.ChangeLife, transition, func() any { return lifeData(t.c, transition, reason) })
}

// lifeFailed publishes that an actor does not run, best effort.
func (s *Supervisor) lifeFailed(a *activation, f *host.Failure) {
	sink := s.options.Changes
	if sink == nil {
		return
	}
	sink.Life(&engine.ChangeSet{Identity: s.identity(a.addr), TimeMS: time.Now().UnixMilli(), Changes: []engine.Change{{
		Kind: engine.ChangeLife, Name: "failed",
		Data: changeData(engine.ChangeLife, 0, map[string]any{"transition": "failed", "reason": f.Public, "retry_at": f.RetryAt}),
	}}})
}

func lifeData(c *core, transition, reason string) map[string]any {
	m := map[string]any{"transition": transition, "generation": c.space.Head().Generation}
	if reason != "" {
		m["reason"] = reason
	}
	return m
}

// publishLife publishes a transition that has no commit, best effort.
func (s *Supervisor) publishLife(a *activation, c *core, transition, reason string) {
	sink := s.options.Changes
	if sink == nil {
		return
	}
	head := c.space.Head()
	sink.Life(&engine.ChangeSet{
		ID: c.id, Identity: s.identity(a.addr), Generation: head.Generation, Version: head.Version, TimeMS: unixMS(time.Now()),
		Changes: []engine.Change{{Kind: engine.ChangeLife, Name: transition,
			Data: changeData(engine.ChangeLife, head.Version, lifeData(c, transition, reason))}},
	})
}

// tellSlept ends a sleep that somebody asked for.
func (a *activation) tellSlept(c *core, w *work) {
	if c.refused {
		w.fail(unavailable("the commit of the sleep hook failed; the actor sleeps all the same"))
		return
	}
	if !c.ended {
		a.slept(c)
	}
	a.tell(w, nil)
}
