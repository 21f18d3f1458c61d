package kernel

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/change"
)

// Change notes a change to publish. data is called only if the change is published.
func (t *Turn) Change(kind engine.ChangeKind, name string, data func() any) {
	t.Actor.Kernel.Changes.Add(&t.Changes, kind, name, t.AsOf, data)
}

// LifeChange notes a transition that has a commit.
func (t *Turn) LifeChange(transition, reason string) {
	t.Change(engine.ChangeLife, transition, func() any {
		return change.Transition(transition, t.Core.space.Head().Generation, reason)
	})
}

// set returns an empty change set of the actor as of a version.
func (c *Core) set(version engine.Version) engine.ChangeSet {
	return engine.ChangeSet{
		ID: c.ID, Identity: c.Actor.Kernel.Identity(c.Actor.Address), Generation: c.space.Head().Generation, Version: version,
	}
}

// writeChanges puts the changes of the turn into the outbox.
func (c *Core) writeChanges(t *Turn) error {
	if len(t.Changes) == 0 {
		return nil
	}
	set := c.set(t.AsOf)
	set.TimeMS, set.Traceparent, set.Changes = t.Start.UnixMilli(), t.From.Span.Span().String(), t.Changes
	p, err := c.Actor.Kernel.Changes.Write(c.Rows, &set)
	if err == nil {
		c.Group.changes = append(c.Group.changes, p)
	}
	return err
}

// published publishes a transition that has no commit, best effort.
func (c *Core) published(transition, reason string) {
	if f := c.Actor.Kernel.Changes; f.Wanted() {
		f.Life(c.set(c.space.Head().Version), transition, reason)
	}
}
