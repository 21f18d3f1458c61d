package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// seal turns the effects of a handler into writes: state, events, messages, stored reply, outbox.
//
// A panic of a part's hook is an error, and crashed is true. A panic of Save is an error only.
func (c *Core) seal(t *Turn, instance bool, out []byte) (crashed bool, err error) {
	saving := false
	defer func() {
		if p := recover(); p == nil {
			return
		} else if saving {
			err = c.Actor.Kernel.Crashed(c.Actor.Address, c.Actor.Type.Type+".Save", p, t.attrs()...)
		} else {
			crashed, err = true, c.Actor.Kernel.Crashed(c.Actor.Address, t.Handler, p, t.attrs()...)
		}
	}()
	if t.Ends {
		t.dropSession()
		return false, c.sealDestroy(t)
	}
	if instance {
		if err := c.saveState(t, &saving); err != nil {
			return false, err
		}
	}
	for i := 0; i < len(t.parts); i++ { // one may enlist another
		if err := t.parts[i].Seal(t); err != nil {
			return false, err
		}
	}
	c.Group.After = append(c.Group.After, t.After...)
	if !t.Changed() {
		if b := t.Work.Builtin; t.Work.idempotencyKey == "" || b != nil && b.Row.Waits {
			c.Rows.Rollback(t.mark.at) // nothing happened; the version stays
			t.succeeded()
			return false, nil
		}
	}
	if t.Work.idempotencyKey != "" {
		if err := c.remember(t, out); err != nil {
			return false, err
		}
	}
	if err := c.writeChanges(t); err != nil {
		return false, err
	}
	t.succeeded()
	c.Group.Changed, c.Group.version = true, t.AsOf
	return false, nil
}

// states recycles the buffers in which states are encoded, except large ones.
var states sync.Pool

// stateKey is the logical key of the state.
var stateKey = keyspace.Persisted.Append(nil)

// saveState writes the state if it has changed. saving is true while the actor's own code runs.
func (c *Core) saveState(t *Turn, saving *bool) error {
	buf, _ := states.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer states.Put(buf)
	*saving = true
	value, err := c.Instance.Save(binary.AppendUvarint((*buf)[:0], c.Actor.Type.StateVersion))
	*saving = false
	if err != nil {
		return err
	}
	if cap(value) <= 1<<20 {
		*buf = value
	}
	if bytes.Equal(value, c.stored) {
		return nil
	}
	if n := len(value); n > c.Limits.StateBytes {
		return host.OverLimit("state bytes", int64(c.Limits.StateBytes), int64(n))
	}
	if err := c.Rows.Put(stateKey, value, engine.PutOptions{}); err != nil {
		return err
	}
	c.Actor.Weight.Grow(&c.Actor.Kernel.Memory, len(value)-len(c.stored))
	c.stored = bytes.Clone(value)
	for _, p := range c.Actor.Type.Hooks.watchers {
		if err := p.StateChanged(t); err != nil {
			return err
		}
	}
	t.Change(engine.ChangeState, "", func() any { return map[string]any{"size": len(value)} })
	return nil
}

// shield turns a panic of code that runs outside turns, the actor's or a part's, into an error.
func (c *Core) shield(what string, err *error) {
	if p := recover(); p != nil {
		*err = c.Actor.Kernel.Crashed(c.Actor.Address, c.Actor.Type.Type+"."+what, p)
	}
}

// reload puts the instance back to the last turn that succeeded.
func (c *Core) reload() (err error) {
	defer c.shield("Load", &err)
	if c.stored == nil {
		return c.Instance.Load(c.Actor.Type.StateVersion, nil)
	}
	version, blob, err := SplitState(c.stored)
	if err != nil {
		return err
	}
	return c.Instance.Load(version, blob)
}

// SplitState splits a KindPersisted value: the version as a varint, and what Instance.Save wrote.
func SplitState(value []byte) (version uint64, blob []byte, err error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, nil, fmt.Errorf("kernel: stored state has no version header")
	}
	return version, value[n:], nil
}
