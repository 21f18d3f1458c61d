package actor

import (
	"reflect"
	"time"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// An Attribute is a value by which [Type.Find] finds actors of a type. Make one with
// [NewAttribute]. A turn sets it, and a turn or query reads it.
type Attribute[T attributeValue] = handle.Attribute[T]

// attributeValue constrains the type of an attribute's values.
type attributeValue interface {
	~string | ~int | ~int64 | ~bool | time.Time
}

// NewAttribute declares an attribute of t, which may have up to 16. Its values are strings of up to
// 256 bytes, integers, bools, or times of the years 0 to 9999, which are kept to the millisecond;
// their type must not change while actors have values. The name has the form that [NewType]
// describes, is unique among the type's attributes, and is not key, state, run, size, updated or
// created.
func NewAttribute[T attributeValue, S any](t *Type[S], name string) *Attribute[T] {
	kind := host.TimeAttribute
	switch reflect.TypeFor[T]().Kind() {
	case reflect.String:
		kind = host.StringAttribute
	case reflect.Int, reflect.Int64:
		kind = host.IntegerAttribute
	case reflect.Bool:
		kind = host.BoolAttribute
	}
	d := coreOf(t).declare(declared{kind: kindAttribute, name: name, attribute: kind})
	return handle.NewAttribute[T](d.core, d.name, d.index, kind)
}

// A turnScope implements site.Scope for a Context, and a queryScope for a ReadContext.
type (
	turnScope  Context
	queryScope ReadContext
)

var (
	_ site.Scope = (*turnScope)(nil)
	_ site.Scope = (*queryScope)(nil)
)

// Of implements site.Scope.
func (s *turnScope) Of() any { return s.core }

// Reader implements site.Scope.
func (s *turnScope) Reader() host.Reader { return s.turn }

// Turn implements site.Scope.
func (s *turnScope) Turn() host.Turn { return s.turn }

// Fail implements site.Scope.
func (s *turnScope) Fail(err error) error { return (*Context)(s).fail(err) }

// Of implements site.Scope.
func (s *queryScope) Of() any { return s.core }

// Reader implements site.Scope.
func (s *queryScope) Reader() host.Reader { return s.r }

// Turn implements site.Scope.
func (*queryScope) Turn() host.Turn { return nil }

// Fail implements site.Scope.
func (*queryScope) Fail(err error) error { return err }
