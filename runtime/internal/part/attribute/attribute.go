// Package attribute is the part for attributes: values of an actor that it is found by. The engine
// keeps the index of them.
package attribute

import (
	"fmt"
	"slices"
	"strings"
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

// A value is the value of an attribute, with the size that it has in the store: -1 if it is not
// there.
type value struct {
	host.AttributeValue
	size int
}

// remembered caches the attributes of an actor, so that a turn that sets the same value again reads
// nothing.
type remembered []cached.Value[value]

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

// appendKey appends the key of an attribute.
func appendKey(dst []byte, t *kernel.Type, attribute int) []byte {
	return keyspace.Attribute.Append(dst, t.Attributes[attribute].Name)
}

// read returns a stored value.
func read(rows engine.Reader, t *kernel.Type, attribute int) (value, error) {
	e, ok, err := rows.Get(appendKey(nil, t, attribute))
	if !ok || err != nil {
		return value{size: -1}, err
	}
	return value{survey.ParseAttribute(e.Value), len(e.Value)}, nil
}

// current returns the value of an attribute.
func (h Turn) current(attribute int) (*cached.Value[value], error) {
	c := h.K.Core
	if err := check(c.Actor.Type, attribute); err != nil {
		return nil, err
	}
	v := &of(c)[attribute]
	if v.Known {
		return v, nil
	}
	now, err := read(c.Rows, c.Actor.Type, attribute)
	if err != nil {
		return nil, err
	}
	v.Set(c.Rows, now)
	return v, nil
}

// Attribute implements host.Reader.
func (h Turn) Attribute(attribute int) (host.AttributeValue, bool, error) {
	if err := h.K.Enter(); err != nil {
		return host.AttributeValue{}, false, err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil {
		return host.AttributeValue{}, false, err
	}
	return v.Value.AttributeValue, v.Value.size >= 0, nil
}

// SetAttribute implements host.Turn.
func (h Turn) SetAttribute(attribute int, next host.AttributeValue) error {
	if err := h.K.Enter(); err != nil {
		return err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil || v.Value.AttributeValue == next && next.Kind != 0 {
		return err
	}
	a := &h.K.Actor.Type.Attributes[attribute]
	switch {
	case next.Kind != a.Kind:
		return host.Errorf(host.InvalidArgument, "a value of attribute %q is a %s", a.Name, a.Kind).
			With("attribute", a.Name)
	case len(next.Text) > host.MaxAttributeBytes:
		return host.OverLimit("bytes of attribute "+a.Name, host.MaxAttributeBytes, int64(len(next.Text)))
	case next.Kind == host.TimeAttribute && !writable(time.UnixMilli(next.Number).UTC()):
		return host.Errorf(host.InvalidArgument,
			"the value of attribute %q is not within the years 0 to 9999", a.Name).With("attribute", a.Name)
	case !utf8.ValidString(next.Text):
		return host.Errorf(host.InvalidArgument, "the value of attribute %q is not valid UTF-8",
			a.Name).With("attribute", a.Name)
	}
	var room [128]byte // of most keys and values
	key := appendKey(room[:0], h.K.Actor.Type, attribute)
	stored := survey.AppendAttribute(key, next)[len(key):]
	rows := h.K.Core.Rows
	if err := rows.Put(key, stored, engine.PutOptions{Known: true, Old: v.Value.size}); err != nil {
		return fault.Limit(err)
	}
	next.Text = strings.Clone(next.Text)
	v.Set(rows, value{next, len(stored)})
	return nil
}

// ClearAttribute implements host.Turn.
func (h Turn) ClearAttribute(attribute int) (bool, error) {
	if err := h.K.Enter(); err != nil {
		return false, err
	}
	defer h.K.Leave()
	v, err := h.current(attribute)
	if err != nil || v.Value.size < 0 {
		return false, err
	}
	if _, err := h.K.Core.Rows.DeleteKnown(appendKey(nil, h.K.Actor.Type, attribute), v.Value.size); err != nil {
		return false, fault.Limit(err)
	}
	v.Set(h.K.Core.Rows, value{size: -1})
	return true, nil
}

// Attribute implements host.Reader.
func (q Query) Attribute(attribute int) (host.AttributeValue, bool, error) {
	if err := check(q.K.Type(), attribute); err != nil {
		return host.AttributeValue{}, false, err
	}
	rows, done, err := q.K.Rows()
	if err != nil {
		return host.AttributeValue{}, false, err
	}
	defer done()
	v, err := read(rows, q.K.Type(), attribute)
	return v.AttributeValue, v.size >= 0, err
}
