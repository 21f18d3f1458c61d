package kv

import (
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// memory caches the store of an awake actor.
type memory struct {
	scopes  kvrows.Scopes
	store   *kvrows.Store
	indexes indexes
}

var (
	_ kernel.Facet  = (*memory)(nil)
	_ kernel.Purger = (*Part)(nil)
)

func memoryOf(c *kernel.Core) *memory {
	return attach.Make(&c.Attached, func() *memory {
		m := new(memory)
		m.scopes.Log = kernel.PartOf[*Part](c.Actor.Kernel).log
		if d := attach.Get[*declaration](&c.Actor.Type.Attached); d != nil {
			m.scopes.Declared, m.scopes.Handlers = d.scopes, d.handlers
		}
		m.store = kvrows.Of(c.Rows, &m.scopes)
		return m
	})
}

// A declaration is the scopes that an actor type declares.
type declaration struct {
	scopes   []kvrows.Scope
	handlers []kvrows.Handler
}

func (d *declaration) list() []kvrows.Scope {
	if d == nil {
		return nil
	}
	return d.scopes
}

// Declare implements kernel.Declarer.
func (*Part) Declare(t *kernel.Type) error {
	if len(t.Maps) == 0 {
		return nil
	}
	d := new(declaration)
	for _, m := range t.Maps {
		if m.Handler != "" {
			d.handlers = append(d.handlers, kvrows.Handler{Map: m.Name, Prefix: tuple.AppendString(nil, m.Name)})
		}
		d.scopes = append(d.scopes, kvrows.Scope{
			Prefix: tuple.AppendString(nil, m.Name),
			Policy: kvrows.Policy{MaxKeys: m.Keys, MaxBytes: m.Bytes,
				DefaultTTL: m.TTL.Milliseconds(), Log: m.Log, LogEvents: m.LogEvents, LogBytes: m.LogBytes, LogFor: m.LogFor.Milliseconds()},
		})
	}
	attach.Make(&t.Attached, func() *declaration { return d })
	return nil
}

// storeOf returns the store of an awake actor, in a turn.
func storeOf(c *kernel.Core) *kvrows.Store { return memoryOf(c).store }

// Forget implements kernel.Facet.
func (m *memory) Forget(_ *kernel.Core, version engine.Version) {
	m.scopes.Forget(version)
	if m.indexes.changed > version {
		m.indexes = indexes{}
	}
}

// Close implements kernel.Facet.
func (*memory) Close(*kernel.Core) {}

// Abandon implements kernel.Facet.
func (*memory) Abandon(*kernel.Core) {}

// Purges implements kernel.Purger: the row without a name is of keys that expire, of all kinds.
func (*Part) Purges(name string) bool { return name == "" || name == kvrows.LogName }

// Purge implements kernel.Purger. It removes keys that have expired, or items that the log no
// longer keeps.
func (p *Part) Purge(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	if row.Name == kvrows.LogName {
		return c.System(w, "purge log", func(t *kernel.Turn) error {
			keep, err := storeOf(c).LogKept()
			if err != nil {
				return err
			}
			return p.log.Purge(c.Rows, t.Start.UnixMilli(), keep, row.Due)
		})
	}
	return c.System(w, "purge", func(t *kernel.Turn) error {
		// First, because the purge may arm the same time again.
		c.Rows.ClearWake(row.Due, keyspace.WakeExpiry, "", "")
		_, _, err := TurnOf(t).purge()
		return err
	})
}
