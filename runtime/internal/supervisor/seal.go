package supervisor

import (
	"bytes"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// buffers recycles the buffers in which states are encoded.
type buffers struct{ p sync.Pool }

func (b *buffers) get() *[]byte {
	if p, ok := b.p.Get().(*[]byte); ok {
		return p
	}
	return new([]byte)
}

func (b *buffers) put(p *[]byte) {
	if cap(*p) <= 1<<20 {
		*p = (*p)[:0]
		b.p.Put(p)
	}
}

// seal turns what a handler did into writes: the state if it changed, events, messages, the stored reply, the record
// for the outbox.
func (c *core) seal(t *turn, instance bool, out []byte) error {
	if t.destroy {
		t.dropSession()
		return c.sealDestroy(t)
	}
	if instance {
		if err := c.saveState(t); err != nil {
			return err
		}
	}
	for i := 0; i < len(t.parts); i++ { // one may enlist another
		if err := t.parts[i].seal(t); err != nil {
			return err
		}
	}
	c.group.after = append(c.group.after, t.after...)
	if !t.changed() {
		if b := t.work.builtin; t.work.idempotencyKey == "" || b != nil && b.wait != nil {
			c.ws.Rollback(t.mark.at) // nothing happened; the version stays
			t.succeeded()
			return nil
		}
	}
	if key := t.work.idempotencyKey; key != "" {
		if err := c.remember(t, key, out); err != nil {
			return err
		}
	}
	if err := c.writeChanges(t); err != nil {
		return err
	}
	t.succeeded()
	g := c.group
	g.changed = true
	g.version = t.version
	return nil
}

// stateKey is the logical key of the state.
var stateKey = keyspace.AppendPersisted(nil)

// saveState writes the state if it differs from what is stored.
func (c *core) saveState(t *turn) error {
	buf := c.a.sup.states.get()
	defer c.a.sup.states.put(buf)
	value, err := c.save(*buf)
	if err != nil {
		return err
	}
	*buf = value
	if bytes.Equal(value, c.stored) {
		return nil
	}
	if n := len(value); n > c.limits.StateBytes {
		return host.OverLimit("state bytes", int64(c.limits.StateBytes), int64(n))
	}
	if err := c.ws.Put(stateKey, value, engine.PutOptions{}); err != nil {
		return err
	}
	c.a.sup.memory.resized(c.a, len(value)-len(c.stored))
	c.stored = bytes.Clone(value)
	for _, p := range c.a.typ.hooks.watchers {
		if err := p.stateChanged(t); err != nil {
			return err
		}
	}
	t.change(engine.ChangeState, "", func() any { return map[string]any{"size": len(value)} })
	return nil
}

// save encodes the state, after the header.
func (c *core) save(dst []byte) (value []byte, err error) {
	defer c.shield("Save", &err)
	return c.inst.Save(appendStateHeader(dst, c.a.typ.StateVersion))
}

// shield turns a panic of the code that encodes, decodes or migrates the state into an error.
func (c *core) shield(what string, err *error) {
	if p := recover(); p != nil {
		*err = c.a.sup.crashed(c.a, c.a.typ.Type+"."+what, p)
	}
}

// reload puts the instance back to the last turn that succeeded.
func (c *core) reload() (err error) {
	defer c.shield("Load", &err)
	if c.stored == nil {
		return c.inst.Load(c.a.typ.StateVersion, nil)
	}
	version, blob, err := splitState(c.stored)
	if err != nil {
		return err
	}
	return c.inst.Load(version, blob)
}
