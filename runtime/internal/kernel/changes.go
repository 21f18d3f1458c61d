package kernel

import (
	"encoding/json"

	"github.com/cairn-run/cairn/engine"
)

// Change notes a change to publish. data is called only if somebody wants it.
func (t *Turn) Change(kind engine.ChangeKind, name string, data func() any) {
	if t.Actor.Kernel.Options.Changes == nil {
		return
	}
	t.Changes = append(t.Changes, engine.Change{Kind: kind, Name: name, Data: changeData(kind, t.AsOf, data())})
}

// changeData makes the JSON of a change: what it says, with the version and kind added.
func changeData(kind engine.ChangeKind, version engine.Version, data any) []byte {
	m, ok := data.(map[string]any)
	if !ok {
		m = map[string]any{"data": data}
	}
	m["version"], m["kind"] = version, kind.String()
	b, err := json.Marshal(m)
	if err != nil {
		return []byte(`{}`) // the maps above hold only strings, numbers, times and bytes
	}
	return b
}

// writeChanges puts what is to be published into the outbox.
func (c *Core) writeChanges(t *Turn) error {
	if c.Actor.Kernel.Options.Changes == nil {
		return nil
	}
	set := &engine.ChangeSet{
		ID: c.ID, Identity: c.Actor.Kernel.Identity(c.Actor.Address), Generation: c.space.Head().Generation, Version: t.AsOf,
		TimeMS: t.Start.UnixMilli(), Traceparent: t.From.Traceparent, Changes: t.Changes,
	}
	if len(set.Changes) == 0 {
		return nil
	}
	p := &pendingChange{set: set}
	if err := c.Rows.Outbox(set.Append(nil), &p.seq); err != nil {
		return err
	}
	c.Group.changes = append(c.Group.changes, p)
	return nil
}
