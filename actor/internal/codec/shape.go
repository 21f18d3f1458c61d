package codec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// maxDepth bounds the nesting of an encoded value: structs, pointers, slices and maps inside each
// other. It makes a value that contains itself an error instead of a stack overflow, which would
// end the process.
const maxDepth = 500

// Uses are the encodings that a type needs.
type Uses uint8

const (
	CBOR Uses = 1 << iota
	JSON
)

// A shape has the facts of a type from reflection, determined once. Immutable.
type shape struct {
	// faults says why the type cannot be encoded so that it decodes to an equal value; empty if it
	// can.
	faults []string
	// check finds faults that only a value shows: times that RFC 3339 cannot hold, values nested
	// too deep, and values that a field of type any may not hold. Nil if no value of the type can
	// be at fault, which avoids it on most hot paths.
	check checker
	// flat reports whether a copy of a value shares no changeable memory with it.
	flat bool
	// itself reports whether a value, or a part of it, decodes itself.
	itself bool
	// text reports whether a value may hold text.
	text bool
}

// A checker returns a *ValueError if v, at that depth, cannot be encoded.
type checker func(v reflect.Value, depth int) error

// shapeOf determines the shape of t.
func shapeOf(t reflect.Type, uses Uses) *shape {
	b := builder{nodes: make(map[nodeKey]*node)}
	n := b.visit(t, uses, "")
	s := &shape{faults: b.faults, flat: flat(t), itself: b.itself, text: b.text}
	if n.needed() {
		s.check = n.run
	}
	return s
}

type nodeKey struct {
	typ  reflect.Type
	uses Uses
}

// A node is one type while its shape is determined. A type that contains itself finds its own
// unfinished node, and is then always checked.
type node struct {
	finished  bool
	recursive bool
	check     checker
}

func (n *node) needed() bool { return n.recursive || n.check != nil }

func (n *node) run(v reflect.Value, depth int) error {
	if depth > maxDepth {
		return &ValueError{Reason: fmt.Sprintf("nests deeper than %d levels", maxDepth)}
	}
	if n.check == nil {
		return nil
	}
	return n.check(v, depth)
}

type builder struct {
	nodes        map[nodeKey]*node
	faults       []string
	itself, text bool
}

func (b *builder) fault(path, format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if path != "" {
		s = path + ": " + s
	}
	b.faults = append(b.faults, s)
}

func (b *builder) visit(t reflect.Type, uses Uses, path string) *node {
	if uses&JSON != 0 && (implements[json.Marshaler](t) || implements[encoding.TextMarshaler](t)) {
		uses &^= JSON
	}
	key := nodeKey{t, uses}
	if n, ok := b.nodes[key]; ok {
		if !n.finished {
			n.recursive = true
		}
		return n
	}
	n := new(node)
	b.nodes[key] = n
	n.check = b.build(t, uses, path)
	n.finished = true
	return n
}

func (b *builder) build(t reflect.Type, uses Uses, path string) checker {
	if uses == 0 {
		return nil
	}
	if uses&CBOR != 0 {
		switch {
		case t == reflect.TypeFor[time.Time]():
			return checkTime
		case t == reflect.TypeFor[big.Int]():
			return nil
		}
		if opaque, fault := encodesItself(t); opaque {
			b.itself = true
			if fault != "" {
				b.fault(path, "%s", fault)
			}
			if uses &^= CBOR; uses == 0 {
				return nil
			}
		}
	}
	switch t.Kind() {
	case reflect.String:
		b.text = true
		return nil
	case reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Interface:
		b.text = true
		if t.NumMethod() > 0 {
			b.fault(path, "an interface with methods does not decode; use a concrete type or any")
		}
		if uses&CBOR == 0 {
			return nil
		}
		return checkAny
	case reflect.Pointer:
		elem := b.visit(t.Elem(), uses, path)
		if !elem.needed() {
			return nil
		}
		return func(v reflect.Value, depth int) error {
			if v.IsNil() {
				return nil
			}
			return elem.run(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		elem := b.visit(t.Elem(), uses, path+"[]")
		if !elem.needed() {
			return nil
		}
		return func(v reflect.Value, depth int) error { return checkElements(v, depth, elem.run) }
	case reflect.Map:
		return b.buildMap(t, uses, path)
	case reflect.Struct:
		return b.buildStruct(t, uses, path)
	}
	b.fault(path, "a %s cannot be encoded", t.Kind())
	return nil
}

func (b *builder) buildMap(t reflect.Type, uses Uses, path string) checker {
	if t.Key().Kind() == reflect.Interface {
		b.fault(path, "a map's keys cannot be of an interface type")
		return nil
	}
	if uses&JSON != 0 && !jsonKey(t.Key()) {
		b.fault(path, "a map's keys must be strings or integers, or text marshalers, to become JSON")
	}
	key := b.visit(t.Key(), uses&CBOR, path+" key")
	elem := b.visit(t.Elem(), uses, path+"[]")
	if !key.needed() && !elem.needed() {
		return nil
	}
	return func(v reflect.Value, depth int) error {
		for i := v.MapRange(); i.Next(); {
			if err := key.run(i.Key(), depth+1); err != nil {
				return within(err, "key "+mapKeyText(i.Key()))
			}
			if err := elem.run(i.Value(), depth+1); err != nil {
				return within(err, "["+mapKeyText(i.Key())+"]")
			}
		}
		return nil
	}
}

func (b *builder) buildStruct(t reflect.Type, uses Uses, path string) checker {
	type field struct {
		index int
		name  string
		node  *node
	}
	var checked []field
	saved := 0
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() && !(f.Anonymous && f.Type.Kind() == reflect.Struct) {
			continue
		}
		fieldUses := uses
		if skipped(f, "cbor", "json") {
			fieldUses &^= CBOR
		}
		if skipped(f, "json") {
			fieldUses &^= JSON
		}
		if fieldUses == 0 {
			saved++ // left out on purpose
			continue
		}
		saved++
		inner := f.Name
		if path != "" {
			inner = path + "." + f.Name
		}
		if n := b.visit(f.Type, fieldUses, inner); n.needed() {
			checked = append(checked, field{i, f.Name, n})
		}
	}
	if saved == 0 && t.NumField() > 0 && path != "" {
		b.fault(path, "nothing of it would be saved: its type has no exported fields and does not encode itself")
	}
	if len(checked) == 0 {
		return nil
	}
	return func(v reflect.Value, depth int) error {
		for i := range checked {
			f := &checked[i]
			if err := f.node.run(v.Field(f.index), depth+1); err != nil {
				return within(err, f.name)
			}
		}
		return nil
	}
}

// skipped reports whether the first of the tags that the field has excludes it.
func skipped(f reflect.StructField, tags ...string) bool {
	for _, tag := range tags {
		if v, ok := f.Tag.Lookup(tag); ok {
			return v == "-"
		}
	}
	return false
}

// encodesItself reports whether the CBOR library leaves t's encoding to its methods, and returns
// their fault.
func encodesItself(t reflect.Type) (opaque bool, fault string) {
	pairs := []struct {
		enc, dec bool
		missing  string
	}{
		{implements[cbor.Marshaler](t), implements[cbor.Unmarshaler](t), "MarshalCBOR and UnmarshalCBOR"},
		{implements[encoding.BinaryMarshaler](t), implements[encoding.BinaryUnmarshaler](t),
			"MarshalBinary and UnmarshalBinary"},
	}
	for _, p := range pairs {
		switch {
		case p.enc && p.dec:
			return true, ""
		case p.enc || p.dec:
			return true, "its type has only one of " + p.missing
		}
	}
	return false, ""
}

// implements reports whether values of t in an addressable place have the methods of I. Pointers
// and interfaces do not count: their elements do.
func implements[I any](t reflect.Type) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		return false
	}
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}

func jsonKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

func checkElements(v reflect.Value, depth int, check checker) error {
	for i := range v.Len() {
		if err := check(v.Index(i), depth+1); err != nil {
			return within(err, "["+strconv.Itoa(i)+"]")
		}
	}
	return nil
}

// checkTime refuses times that RFC 3339 would change.
func checkTime(v reflect.Value, _ int) error {
	var t time.Time
	if v.CanAddr() && v.CanInterface() {
		t = *v.Addr().Interface().(*time.Time)
	} else if v.CanInterface() {
		t = v.Interface().(time.Time)
	}
	if y := t.Year(); y < 0 || y > 9999 {
		return &ValueError{Reason: fmt.Sprintf("the time's year %d is outside 0 to 9999", y)}
	}
	if _, offset := t.Zone(); offset%60 != 0 || offset <= -24*3600 || offset >= 24*3600 {
		return &ValueError{Reason: fmt.Sprintf("the time's zone offset of %d s has no RFC 3339 form; use UTC", offset)}
	}
	return nil
}

// checkAny accepts values that decode from a field of type any as an equal value, up to the width
// of numbers.
func checkAny(v reflect.Value, depth int) error {
	if depth > maxDepth {
		return &ValueError{Reason: fmt.Sprintf("nests deeper than %d levels", maxDepth)}
	}
	for v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Time]():
		return checkTime(v, depth)
	case t == reflect.TypeFor[big.Int]() || t == reflect.TypeFor[*big.Int]():
		return nil
	}
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		return checkElements(v, depth, checkAny)
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			break
		}
		for i := v.MapRange(); i.Next(); {
			if err := checkAny(i.Value(), depth+1); err != nil {
				return within(err, "["+mapKeyText(i.Key())+"]")
			}
		}
		return nil
	}
	return &ValueError{Reason: fmt.Sprintf("a field of type any cannot hold a %s; it would decode as something else", v.Kind())}
}

func mapKeyText(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.String:
		return strconv.Quote(v.String())
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10)
	}
	return "?"
}

// within adds the place in which an error was found to its path.
func within(err error, place string) error {
	e, ok := err.(*ValueError)
	if !ok {
		return err
	}
	switch {
	case e.Path == "":
		e.Path = place
	case strings.HasPrefix(e.Path, "["):
		e.Path = place + e.Path
	default:
		e.Path = place + "." + e.Path
	}
	return e
}

// flat reports whether a copy of a value of type t shares no changeable memory with it. It counts
// unexported fields, which a type that decodes itself may fill.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface, reflect.Chan, reflect.Func,
		reflect.UnsafePointer:
		return false
	case reflect.Array:
		return t.Len() == 0 || flat(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return true
		}
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
