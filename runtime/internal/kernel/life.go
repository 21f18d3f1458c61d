package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// LifeChange notes a transition that has a commit.
func (t *Turn) LifeChange(transition, reason string) {
	t.Change(engine.ChangeLife, transition, func() any { return lifeData(t.Core, transition, reason) })
}

// lifeFailed publishes that an actor does not run, best effort.
func (s *Kernel) lifeFailed(a *Actor, f *host.Failure) {
	sink := s.Options.Changes
	if sink == nil {
		return
	}
	sink.Life(&engine.ChangeSet{Identity: s.Identity(a.Address), TimeMS: time.Now().UnixMilli(), Changes: []engine.Change{{
		Kind: engine.ChangeLife, Name: "failed",
		Data: changeData(engine.ChangeLife, 0, map[string]any{"transition": "failed", "reason": f.Public, "retry_at": f.RetryAt}),
	}}})
}

func lifeData(c *Core, transition, reason string) map[string]any {
	m := map[string]any{"transition": transition, "generation": c.space.Head().Generation}
	if reason != "" {
		m["reason"] = reason
	}
	return m
}

// publishLife publishes a transition that has no commit, best effort.
func (s *Kernel) publishLife(a *Actor, c *Core, transition, reason string) {
	sink := s.Options.Changes
	if sink == nil {
		return
	}
	head := c.space.Head()
	sink.Life(&engine.ChangeSet{
		ID: c.ID, Identity: s.Identity(a.Address), Generation: head.Generation, Version: head.Version, TimeMS: time.Now().UnixMilli(),
		Changes: []engine.Change{{Kind: engine.ChangeLife, Name: transition,
			Data: changeData(engine.ChangeLife, head.Version, lifeData(c, transition, reason))}},
	})
}
