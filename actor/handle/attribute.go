package handle

import (
	"context"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// An Attribute is a value by which actors of a type are found, such as a plan, an owner or the time
// of a payment. It is part of the commits of the actor, and has no value until Set. Package actor
// declares attributes.
type Attribute[T any] struct {
	_ [0]func(T) // keeps types of other values from being converted into it
	attribute
}

// An attribute is an Attribute without its Go type: it takes pointers to values.
type attribute struct {
	of    any // the actor type
	name  string
	index int
	kind  host.AttributeKind
}

// A Turn is the context of a turn, *actor.Context.
type Turn interface {
	context.Context
	Now() time.Time
	DestroySelf()
}

// A Reader is the context of a turn or of a query, *actor.ReadContext.
type Reader interface {
	context.Context
	Version() uint64
}

// Set sets the value. Setting the same value again writes nothing.
//
// If Set fails, so does the turn, whether or not the handler looks at the error.
func (a *Attribute[T]) Set(ctx Turn, value T) error { return a.set(ctx, &value) }

func (a *attribute) set(ctx Turn, value any) error {
	s, err := a.scope(ctx)
	if err != nil {
		return err
	}
	t := s.Turn()
	if t == nil {
		return errNoTurn()
	}
	return s.Fail(t.SetAttribute(a.index, a.hosted(value)))
}

// Clear removes the value and reports whether there was one. If Clear fails, so does the turn.
func (a *attribute) Clear(ctx Turn) (bool, error) {
	s, err := a.scope(ctx)
	if err != nil {
		return false, err
	}
	t := s.Turn()
	if t == nil {
		return false, errNoTurn()
	}
	had, err := t.ClearAttribute(a.index)
	return had, s.Fail(err)
}

func errNoTurn() error {
	return host.Errorf(host.Internal, "an attribute can be changed in a turn only")
}

// Get returns the value; false means that there is none.
func (a *Attribute[T]) Get(ctx Reader) (value T, ok bool, err error) {
	ok, err = a.get(ctx, &value)
	return value, ok, err
}

func (a *attribute) get(ctx Reader, value any) (bool, error) {
	s, err := a.scope(ctx)
	if err != nil {
		return false, err
	}
	stored, ok, err := s.Reader().Attribute(a.index)
	if err != nil || !ok {
		return false, err
	}
	if stored.Kind != a.kind {
		return false, host.Errorf(host.Internal, "the stored value of attribute %q is no %s", a.name, a.kind)
	}
	v := reflect.ValueOf(value).Elem()
	switch a.kind {
	case host.StringAttribute:
		v.SetString(stored.Text)
	case host.IntegerAttribute:
		v.SetInt(stored.Number)
	case host.BoolAttribute:
		v.SetBool(stored.Number != 0)
	default:
		v.Set(reflect.ValueOf(time.UnixMilli(stored.Number).UTC()))
	}
	return true, nil
}

// Is returns the condition that the attribute equals value, for [FindQuery].Where.
func (a *Attribute[T]) Is(value T) string { return a.is(&value) }

func (a *attribute) is(value any) string {
	v := a.hosted(value)
	switch a.kind {
	case host.StringAttribute:
		return a.name + "=" + strconv.Quote(v.Text)
	case host.IntegerAttribute:
		return a.name + "=" + strconv.FormatInt(v.Number, 10)
	case host.BoolAttribute:
		return a.name + "=" + strconv.FormatBool(v.Number != 0)
	}
	return a.name + "=" + time.UnixMilli(v.Number).UTC().Format(time.RFC3339Nano)
}

// scope returns the turn or query, if its actor has the attribute's type.
func (a *attribute) scope(ctx context.Context) (site.Scope, error) {
	s, ok := ctx.Value(site.ScopeKey{}).(site.Scope)
	switch {
	case !ok:
		return nil, host.Errorf(host.Internal, "attribute %q was used outside of an actor", a.name)
	case s.Of() != a.of:
		return nil, s.Fail(host.Errorf(host.Internal, "attribute %q belongs to another actor type", a.name))
	}
	return s, nil
}

// hosted returns the host's form of the value that value points to.
func (a *attribute) hosted(value any) host.AttributeValue {
	switch v := value.(type) { // most types, without reflection
	case *string:
		return host.AttributeValue{Kind: a.kind, Text: *v}
	case *int64:
		return host.AttributeValue{Kind: a.kind, Number: *v}
	case *int:
		return host.AttributeValue{Kind: a.kind, Number: int64(*v)}
	case *time.Time:
		return host.AttributeValue{Kind: a.kind, Number: milliseconds(*v)}
	}
	return hosted(a.kind, reflect.ValueOf(value).Elem())
}

// milliseconds returns a time in Unix milliseconds. If they overflow, it returns the greatest
// number, which no attribute may have.
func milliseconds(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Unix() != t.Unix() {
		return math.MaxInt64
	}
	return ms
}

// hosted returns a value of a type that is neither a time nor named in [attribute.hosted].
func hosted(kind host.AttributeKind, v reflect.Value) host.AttributeValue {
	value := host.AttributeValue{Kind: kind}
	switch {
	case kind == host.StringAttribute:
		value.Text = v.String()
	case kind == host.IntegerAttribute:
		value.Number = v.Int()
	case v.Bool():
		value.Number = 1
	}
	return value
}

// A FindQuery selects actors of a type. All fields are optional.
type FindQuery struct {
	// Prefix has the first parts of the keys.
	Prefix []string
	// Where has conditions that must all hold: a field or an attribute, one of = != < <= > >=, and
	// a value, as in "plan=pro", "size>1MiB", "updated<2026-01-31" or "state=failed".
	// [Attribute.Is] makes one. An actor without the attribute meets no condition on it.
	// docs/guides/find.md lists the fields.
	Where []string
	// Sort is "key", "state", "size", "updated" or an attribute; "-" before it reverses the order.
	// Actors without the attribute are left out. Sizes are in order to an eighth, and updates to
	// the minute. Without Sort, the order is that of the index which finds the actors. An actor
	// whose value changes meanwhile may be missed, or appear again.
	Sort string
}
