package kernel

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// wake brings the actor into memory for w. It reads the directory entry, the head and the state;
// the rest is read on demand. A missing actor gets a core too, with a new id, and is created by its
// first turn.
func (a *Actor) wake(epoch uint64, w *Work) (*Core, error) {
	err := a.resting()
	if a.Type.Retired {
		if a.Left() {
			return a.wakeBare(epoch, w) // there is no code to load
		}
		err = fault.UnknownType(a.Type.Type)
	}
	if err != nil {
		if w.destroys() {
			return a.wakeBare(epoch, w)
		}
		return nil, err
	}
	a.crashes = a.Kernel.Failures.Crashes(a.Key)
	c, err := a.open(epoch, w, false)
	if err != nil {
		if _, ok := errors.AsType[*host.Error](err); !ok || fatalToWake(err) {
			e := a.Kernel.Public(a, w, err)
			if e.Code != host.Unavailable || fault.Damage(err) {
				a.failed(e, err)
				if w.destroys() {
					return a.wakeBare(epoch, w)
				}
				return nil, a.resting()
			}
			return nil, e
		}
		return nil, err
	}
	if !a.adopt(epoch, c) {
		return nil, ErrAbandoned
	}
	if !c.Exists || a.Left() {
		return c, nil
	}
	c.Quiet = a.staysQuiet(w)
	stale := false
	if !c.Quiet {
		stale, err = c.stale()
	}
	if err == nil && !stale { // else queries wait for the commit of what prepares it
		c.ensureView()
	}
	if c.Quiet {
		return c, nil
	}
	if err == nil {
		err = c.rouse(w, stale)
	}
	if err != nil {
		if err == ErrAbandoned {
			c.close()
			return nil, err
		}
		a.teardown(c)
		if a.Kernel.Full(err) {
			return nil, a.Kernel.Public(a, w, err) // the node is busy, the actor is well
		}
		a.failed(a.Kernel.Public(a, w, err), err)
		if w.destroys() {
			return a.wakeBare(epoch, w)
		}
		return nil, a.resting()
	}
	if err := c.risen(); err != nil {
		a.teardown(c)
		return nil, a.Kernel.Public(a, w, err)
	}
	if a.crashes == 0 {
		a.Kernel.Recovered(a.Key)
	} // else a turn has to succeed first
	c.published("woke", "")
	return c, nil
}

// risen calls Risen of the parts: the actor has been woken.
func (c *Core) risen() (err error) {
	defer c.shield("Risen", &err)
	for _, p := range c.Actor.Type.Hooks.risers {
		if err := p.Risen(c); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes c the core. If the Actor was taken from the caller, it closes c and returns false.
func (a *Actor) adopt(epoch uint64, c *Core) bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	if a.Epoch.Load() != epoch {
		c.space.Close()
		return false
	}
	a.Core = c
	a.Weight.Wake(&a.Kernel.Memory, len(c.stored))
	a.Kernel.Metrics.Wakes.Inc()
	if a.Kernel.Memory.Over() {
		a.Kernel.sweeper.Poke()
	}
	return true
}

// rise makes the core that w needs.
func (a *Actor) rise(epoch uint64, w *Work) (*Core, error) {
	t := w.Job.Traits(a)
	if t.bare {
		return a.wakeBare(epoch, w)
	}
	c, err := a.wake(epoch, w)
	if host.CodeOf(err) != host.ActorFailed || !t.Sturdy {
		return c, err
	}
	w.Existing = true // a bare core creates nothing
	c, bareErr := a.wakeBare(epoch, w)
	if host.CodeOf(bareErr) == host.NotFound {
		return nil, err
	}
	return c, bareErr
}

// wakeBare opens an actor without state and code: for operators, and to destroy an actor that does
// not wake.
func (a *Actor) wakeBare(epoch uint64, w *Work) (*Core, error) {
	c, err := a.open(epoch, w, true)
	if err != nil {
		return nil, err
	}
	if !a.adopt(epoch, c) {
		return nil, ErrAbandoned
	}
	if w.destroys() {
		a.Kernel.Logger.Warn("an actor that does not wake is destroyed without its hook", "actor_type", a.Address.Type, "actor_key", a.Address.Key)
	}
	return c, nil
}

// fatalToWake reports whether the actor's data and its code do not fit; otherwise w was wrong.
func fatalToWake(err error) bool {
	switch host.CodeOf(err) {
	case host.NotFound, host.Destroyed, host.Canceled, host.DeadlineExceeded:
		return false
	}
	return true
}

// open reads the parts of a core; of a bare one, only what the store needs.
func (a *Actor) open(epoch uint64, w *Work, bare bool) (*Core, error) {
	s := a.Kernel
	c := &Core{Actor: a, epoch: epoch, Group: &Group{a: a}, Instance: a.Type.New()}
	var ok bool
	var err error
	if a.Left() {
		c.ID, ok = a.Remains, true
	} else if c.ID, ok, err = s.Store.Lookup(s.Identity(a.Address)); err != nil {
		return nil, err
	}
	open := s.Store.OpenSpace
	if !ok {
		if w.Existing || !w.Job.Traits(a).Creates {
			return nil, fault.NotFound(a.Address)
		}
		if j, ok := w.Job.(identified); !ok {
			c.ID, open = s.NewID(a.Address), s.Store.NewSpace // the store has nothing of it
		} else if c.ID, err = j.NewID(a); err != nil {
			return nil, err
		}
	}
	if c.space, err = open(c.ID); bare && w.destroys() && errors.Is(err, &engine.CorruptError{}) {
		c.space, err = s.Store.NewSpace(c.ID) // the new space removes all rows
	}
	if err != nil {
		if a.Left() && errors.Is(err, engine.ErrDestroyed) {
			err = fault.NotFound(a.Address) // nothing remains
		}
		return nil, err
	}
	c.Rows = c.space.Writes()
	if err := c.adoptLimits(w); err != nil {
		c.space.Close()
		return nil, err
	}
	c.Identity = host.Identity{Type: a.Address.Type, Key: a.Address.Key, ID: c.ID.String()}
	if c.Bare, c.Exists = bare, ok; bare {
		return c, nil
	}
	if err := c.load(); err != nil {
		c.space.Close()
		return nil, err
	}
	return c, nil
}

// load reads the state into the instance.
func (c *Core) load() error {
	if c.Exists && !c.Actor.Left() {
		e, _, err := c.Rows.Get(stateKey)
		if err != nil {
			return err
		}
		c.stored = e.Value
	}
	if err := c.reload(); err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	return nil
}

// stale reports whether a part has to prepare the actor before its wake hook runs.
func (c *Core) stale() (stale bool, err error) {
	defer c.shield("Stale", &err)
	for _, p := range c.Actor.Type.Hooks.preparers {
		if stale, err := p.Stale(c); stale || err != nil {
			return stale, err
		}
	}
	return false, nil
}

// prepare calls Prepare of the parts, in the turn.
func (t *Turn) prepare() error {
	for _, p := range t.Actor.Type.Hooks.preparers {
		if err := p.Prepare(t); err != nil {
			return err
		}
	}
	return nil
}

// rouse runs the wake hook, and before it what the parts prepare, if that is stale. The preparation
// is a turn of its own, in one commit with the hook, and is undone if the hook fails: the data of
// an actor that does not run stays as the code that last ran left it.
func (c *Core) rouse(w *Work, stale bool) error {
	if !stale {
		if !c.Actor.Type.HasWake {
			if version, _, err := SplitState(c.stored); err == nil && version == c.Actor.Type.StateVersion {
				return nil // the state, if it is encoded in another way now, is stored by the first turn
			}
		}
		return c.wakeHook(w)
	}
	before := c.mark()
	c.joint = rising
	err := c.System(&Work{Job: Waking{}, Span: w.Span, Chain: w.Chain, Of: w}, "migrate", (*Turn).prepare)
	if err == nil {
		err = c.wakeHook(w)
	}
	c.joint = single
	if err != nil && !c.Gone() {
		c.undo(&before)
	}
	return err
}

// wakeHook runs OnWake, and saves a state that was migrated, in one turn.
func (c *Core) wakeHook(w *Work) error {
	// Not under the caller's deadline: the actor wakes for all callers, even later ones.
	_, err := c.RunTurn(&Work{Job: Waking{}, Span: w.Span, Chain: w.Chain, Of: w}, "OnWake", true, func(h *Turn) ([]byte, error) {
		return nil, c.Instance.Wake(h.Host)
	})
	return err
}

// Waking creates the actor if need be, and wakes it, for a query.
type Waking struct{}

// Traits implements Job.
func (Waking) Traits(*Actor) Traits { return Traits{Kind: "wake", Creates: true} }

// Run implements Job.
func (Waking) Run(c *Core, w *Work) {
	err := c.Exist(w)
	if err == nil && !c.Group.Changed {
		c.ensureView()
	}
	c.Respond(w, nil, err)
}

// wakes reports whether a turn is part of waking the actor.
func (w *Work) wakes() bool {
	_, ok := w.Job.(Waking)
	return ok
}
