package supervisor

import (
	"encoding/json"

	"github.com/cairn-run/cairn/engine"
)

// change notes a change to publish. data is called only if somebody wants it.
func (t *turn) change(kind engine.ChangeKind, name string, data func() any) {
	if t.a.sup.options.Changes == nil {
		return
	}
	t.changes = append(t.changes, engine.Change{Kind: kind, Name: name, Data: changeData(kind, t.version, data())})
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
func (c *core) writeChanges(t *turn) error {
	if c.a.sup.options.Changes == nil {
		return nil
	}
	set := &engine.ChangeSet{
		ID: c.id, Identity: c.a.sup.identity(c.a.addr), Generation: c.space.Head().Generation, Version: t.version,
		TimeMS: unixMS(t.start), Traceparent: t.from.traceparent, Changes: append(t.ahead, t.changes...),
	}
	if len(set.Changes) == 0 {
		return nil
	}
	p := &pendingChange{set: set}
	if err := c.ws.Outbox(set.Append(nil), &p.seq); err != nil {
		return err
	}
	c.group.changes = append(c.group.changes, p)
	return nil
}
