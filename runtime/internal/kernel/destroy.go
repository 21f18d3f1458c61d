package kernel

import (
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// destroying runs the destroy hook and removes the actor.
type destroying struct{}

// Traits implements Job.
func (destroying) Traits(*Actor) Traits { return Traits{Kind: "destroy"} }

// destroys reports whether w destroys the actor.
func (w *Work) destroys() bool {
	_, ok := w.Job.(destroying)
	return ok
}

// Run implements Job.
func (destroying) Run(c *Core, w *Work) {
	var err error
	switch {
	case !c.Exists:
		err = fault.NotFound(c.Actor.Address)
	case c.Ended: // by the wake hook
	case c.Bare:
		err = c.System(w, "destroy", func(h *Turn) error {
			h.Ends = true
			return nil
		})
		c.Broken = err != nil && !c.Gone()
	default:
		_, err = c.RunTurn(w, "OnDestroy", true, func(h *Turn) ([]byte, error) {
			h.DestroySelf()
			return nil, nil
		})
	}
	c.Respond(w, nil, err)
}

// sealDestroy writes the destruction of the turn's actor. Kinds that parts keep stay under the old
// id until they are done: taken up when the actor is gone, and at a start of the node.
func (c *Core) sealDestroy(t *Turn) error {
	a := c.Actor
	if a.Left() {
		if err := c.Rows.Destroy(); err != nil {
			return err
		}
		c.Group.Changed, c.Group.destroyed, c.Group.version = true, true, t.AsOf
		c.Ended = true
		return nil
	}
	for _, p := range a.Type.Hooks.Destroyers {
		if err := p.Destroy(t); err != nil {
			return err
		}
	}
	for p := range attach.As[Waker](a.Kernel.Parts) {
		rows, _ := p.Wakes(c.Rows) // a record that cannot be read leaves its row: the row finds no actor and is dropped
		for _, due := range rows {
			c.Rows.ClearWake(due.Due, due.Kind, due.Name, due.Instance)
		}
	}
	for kind := range a.Kernel.Recoverers {
		c.Arm(kind, false)
	}
	var kept []keyspace.Kind
	var heirs []Remainder
	for _, p := range a.Type.Hooks.remainders {
		kinds, err := p.Remains(t)
		if err != nil {
			return err
		}
		if len(kinds) > 0 {
			kept, heirs = append(kept, kinds...), append(heirs, p)
			c.Arm(p.StandsFor(), true)
		}
	}
	if err := c.Rows.Destroy(kept...); err != nil {
		return err
	}
	for _, p := range heirs {
		if err := p.Bequeath(t); err != nil {
			return err
		}
	}
	t.Changes = t.Changes[:t.Lasting]
	c.Group.After = append(c.Group.After, t.After...)
	if len(heirs) > 0 && !a.Kernel.Offline {
		c.Group.After = append(c.Group.After, &bequest{a: a, id: c.ID, heirs: heirs})
	}
	t.LifeChange("destroyed", "")
	if err := c.writeChanges(t); err != nil {
		return err
	}
	c.Group.Changed, c.Group.destroyed, c.Group.version = true, true, t.AsOf
	c.Ended = true
	return nil
}

// A bequest takes up the remains of an actor when its destruction is durable.
type bequest struct {
	a     *Actor
	id    keyspace.ActorID
	heirs []Remainder
}

// Durable implements Consequence.
func (b *bequest) Durable() {
	for _, p := range b.heirs {
		b.a.Kernel.TakeUpOf(b.a.Type, b.a.Address, b.id, p.TakeUp)
	}
}

// finishDestroy commits a group whose last turn destroyed the actor.
func (c *Core) finishDestroy() {
	a := c.Actor
	if k := attach.Get[Company](&c.Attached); k != nil {
		k.End(fault.DestroyedAt(a.Address))
	}
	c.Commit()
	if c.Refused {
		c.Ended = false // what survives the core must go on
		return
	}
	c.Broken = true // the next work for the address begins a new incarnation
	if !a.Left() {
		a.Kernel.Recovered(a.Key)
	}
}
