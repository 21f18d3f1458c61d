// Package attribute is the part for attributes: values of an actor that it is found by. The engine keeps the index of them.
package attribute

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for attributes.
type Part struct{}

var _ interface {
	kernel.Declarer
	survey.ListReporter
} = (*Part)(nil)

// Name implements kernel.Part.
func (*Part) Name() string { return "attribute" }

// Declare implements kernel.Declarer.
func (*Part) Declare(t *kernel.Type) error {
	if n := len(t.Attributes); n > host.MaxAttributes {
		return fmt.Errorf("it has %d attributes; a type has up to %d", n, host.MaxAttributes)
	}
	for i, a := range t.Attributes {
		switch same := func(b host.Attribute) bool { return b.Name == a.Name }; {
		case !wire.ValidName(a.Name):
			return fmt.Errorf("attribute %q has no valid name", a.Name)
		case slices.Contains(host.ListFields, a.Name):
			return fmt.Errorf("attribute %q has the name of a field that every actor has", a.Name)
		case slices.ContainsFunc(t.Attributes[:i], same):
			return fmt.Errorf("attribute %q is declared twice", a.Name)
		case a.Kind < host.StringAttribute || a.Kind > host.TimeAttribute:
			return fmt.Errorf("attribute %q has the unknown kind %d", a.Name, a.Kind)
		}
	}
	return nil
}

// Lists implements survey.ListReporter.
func (*Part) Lists(t *kernel.Type) bool { return len(t.Attributes) > 0 || t.Retired }

// Report implements survey.Reporter.
func (*Part) Report(rows *engine.Snapshot, st *host.Status) error {
	start, end := keyspace.Attribute.Kind.Range()
	return rows.Scan(start, end, func(key, value []byte) bool {
		name, err := keyspace.Attribute.Parse(key)
		if v, ok := shown(value); ok && err == nil {
			if st.Attributes == nil {
				st.Attributes = make(map[string]any)
			}
			st.Attributes[name] = v
		}
		return true
	})
}

// shown returns a stored value as operators see it.
func shown(value []byte) (any, bool) {
	t, err := tuple.Unpack(value)
	if err != nil || len(t) != 1 {
		return nil, false
	}
	if nested, ok := t[0].(tuple.Tuple); ok {
		if len(nested) != 1 {
			return nil, false
		}
		ms, ok := nested[0].(int64)
		if at := time.UnixMilli(ms).UTC(); writable(at) {
			return at, ok
		}
		return ms, ok
	}
	return t[0], true
}

// writable reports whether a time can be written as RFC 3339, as in the JSON of a list.
func writable(t time.Time) bool { return t.Year() >= 0 && t.Year() <= 9999 }

func isTime(value []byte) bool {
	v, _ := shown(value)
	_, ok := v.(time.Time)
	return ok
}

// remembered is what a core remembers of the attributes of its actor, so that a turn which sets the same value again reads nothing.
type remembered []cached.Value[[]byte] // nil for none

func of(c *kernel.Core) remembered {
	if r := attach.Get[*remembered](&c.Attached); r != nil {
		return *r
	}
	return *attach.Make(&c.Attached, func() *remembered {
		r := make(remembered, len(c.Actor.Type.Attributes))
		return &r
	})
}

// Forget implements kernel.Facet.
func (r *remembered) Forget(_ *kernel.Core, version engine.Version) {
	for i := range *r {
		(*r)[i].Forget(version)
	}
}

// Close implements kernel.Facet.
func (*remembered) Close(*kernel.Core) {}

// Abandon implements kernel.Facet.
func (*remembered) Abandon(*kernel.Core) {}

// Turn is the view of handlers on attributes.
type Turn struct{ K *kernel.Turn }

// Query is what handlers of queries may read of attributes.
type Query struct{ K *call.Query }

// check returns an error for an index that is none.
func check(t *kernel.Type, attribute int) error {
	if attribute < 0 || attribute >= len(t.Attributes) {
		return host.Errorf(host.InvalidArgument, "the type has no attribute %d", attribute)
	}
	return nil
}

// key returns the key of an attribute.
func key(t *kernel.Type, attribute int) []byte {
	return keyspace.Attribute.Append(nil, t.Attributes[attribute].Name)
}

// current returns the value of an attribute; nil if it has none.
func (h Turn) current(attribute int) (*cached.Value[[]byte], error) {
	c := h.K.Core
	if err := check(c.Actor.Type, attribute); err != nil {
		return nil, err
	}
	v := &of(c)[attribute]
	if v.Known {
		return v, nil
	}
	e, ok, err := c.Rows.Get(key(c.Actor.Type, attribute))
	if err != nil {
		return nil, err
	}
	if !ok {
		e.Value = nil
	}
	v.Set(c.Rows, e.Value)
	return v, nil
}

// Attribute implements host.Reader.
func (h Turn) Attribute(attribute int) ([]byte, bool, error) {
	if err := h.K.Enter(); err != nil {
		return nil, false, err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil {
		return nil, false, err
	}
	return v.Value, v.Value != nil, nil
}

// SetAttribute implements host.Turn.
func (h Turn) SetAttribute(attribute int, value []byte) error {
	if err := h.K.Enter(); err != nil {
		return err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil || bytes.Equal(v.Value, value) {
		return err
	}
	a := h.K.Actor.Type.Attributes[attribute]
	switch kind, text := survey.AttributeKind(value); {
	case kind != a.Kind:
		return host.Errorf(host.InvalidArgument, "a value of attribute %q is a %s", a.Name, a.Kind).With("attribute", a.Name)
	case len(text) > host.MaxAttributeBytes:
		return host.OverLimit("bytes of attribute "+a.Name, host.MaxAttributeBytes, int64(len(text)))
	case kind == host.TimeAttribute && !isTime(value):
		return host.Errorf(host.InvalidArgument, "the value of attribute %q is not within the years 0 to 9999", a.Name).With("attribute", a.Name)
	case !utf8.ValidString(text):
		return host.Errorf(host.InvalidArgument, "the value of attribute %q is not valid UTF-8", a.Name).With("attribute", a.Name)
	}
	old := len(v.Value)
	if v.Value == nil {
		old = -1
	}
	rows := h.K.Core.Rows
	if err := rows.Put(key(h.K.Actor.Type, attribute), value, engine.PutOptions{Known: true, Old: old}); err != nil {
		return fault.Limit(err)
	}
	v.Set(rows, append(v.Value[:0], value...))
	return nil
}

// ClearAttribute implements host.Turn.
func (h Turn) ClearAttribute(attribute int) (bool, error) {
	if err := h.K.Enter(); err != nil {
		return false, err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil || v.Value == nil {
		return false, err
	}
	if _, err := h.K.Core.Rows.Delete(key(h.K.Actor.Type, attribute)); err != nil {
		return false, fault.Limit(err)
	}
	v.Set(h.K.Core.Rows, nil)
	return true, nil
}

// Attribute implements host.Reader.
func (q Query) Attribute(attribute int) ([]byte, bool, error) {
	if err := check(q.K.Type(), attribute); err != nil {
		return nil, false, err
	}
	rows, done, err := q.K.Rows()
	if err != nil {
		return nil, false, err
	}
	defer done()
	e, ok, err := rows.Get(key(q.K.Type(), attribute))
	return e.Value, ok, err
}
