package codec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"unsafe"

	"github.com/cairn-run/cairn/actor/host"
)

// None is the input or output of a method that takes or returns nothing. It encodes to no bytes.
type None struct{}

// A Value encodes and decodes values of one Go type, which is inspected once. Its methods take
// pointers to values. It is not generic, because generic code is compiled for each type of a
// program. Immutable.
type Value struct {
	// New returns a pointer to a new zero value. It takes less time than reflect.New.
	New   func() any
	codec *Codec
	typ   reflect.Type
	shape *shape
	json  *jsonForm // nil if encoding/json must write and read each value
	uses  Uses
	none  bool
	// null reports whether JSON null is a value of the type rather than a missing one.
	null bool
}

// Of derives the encoding of a T. uses has the encodings that it needs.
func Of[T any](c *Codec, uses Uses) *Value {
	return of(c, reflect.TypeFor[T](), func() any { return new(T) }, uses)
}

func of(c *Codec, t reflect.Type, zero func() any, uses Uses) *Value {
	w := &Value{New: zero, codec: c, typ: t, uses: uses, none: t == reflect.TypeFor[None]()}
	if w.none {
		w.shape, w.uses = new(shape), CBOR|JSON
		return w
	}
	w.shape = shapeOf(t, uses)
	if uses&JSON != 0 {
		w.json = make(jsonForms).of(t)
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		w.null = true
	default:
		w.null = reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
	}
	return w
}

// Is reports whether v points to a value of the type.
func (w *Value) Is(v any) bool {
	t := reflect.TypeOf(v)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem() == w.typ
}

// Faults returns the reasons why the type cannot be encoded.
func (w *Value) Faults() []string { return w.shape.faults }

// Append appends the encoded form of the value that v points to. Text of a value that has a form in
// JSON must be UTF-8. The error is a *ValueError.
func (w *Value) Append(as host.Codec, dst []byte, v any) ([]byte, error) {
	if out, ok := w.appendForm(as, dst, v); ok {
		return out, nil
	}
	out, err := w.appendByLibrary(as, dst, v)
	if err != nil || !w.has(host.JSON) || as == host.CBOR && !w.shape.text {
		return out, err
	}
	if err := checkText(as, out[len(dst):], reflect.ValueOf(v).Elem()); err != nil {
		return dst, err
	}
	return out, nil
}

// pointer returns v, which is a pointer, in less time than reflect.Value takes.
func pointer(v any) unsafe.Pointer { return (*[2]unsafe.Pointer)(unsafe.Pointer(&v))[1] }

// appendForm appends the encoded form of v if the type's JSON has one for it.
func (w *Value) appendForm(as host.Codec, dst []byte, v any) ([]byte, bool) {
	if as != host.JSON || w.json == nil {
		return dst, false
	}
	return w.json.append(dst, pointer(v))
}

func (w *Value) appendByLibrary(as host.Codec, dst []byte, v any) ([]byte, error) {
	if w.none {
		return dst, nil
	}
	if as == host.JSON {
		return w.codec.appendJSON(dst, v)
	}
	if w.shape.check != nil {
		if err := w.shape.check(reflect.ValueOf(v).Elem(), 0); err != nil {
			return dst, err
		}
	}
	return w.codec.AppendCBOR(dst, v)
}

// appendAny is Append for any text, such as text that an earlier version stored.
func (w *Value) appendAny(as host.Codec, dst []byte, v any) ([]byte, error) {
	if out, ok := w.appendForm(as, dst, v); ok {
		return out, nil
	}
	return w.appendByLibrary(as, dst, v)
}

// Decode decodes data into the zero value that v points to. The error is a *ValueError.
func (w *Value) Decode(as host.Codec, data []byte, v any) error {
	if w.none {
		return DecodeNone(as, data)
	}
	if as == host.JSON {
		return w.decodeJSON(data, v)
	}
	if len(data) == 0 {
		return &ValueError{Reason: "is missing"}
	}
	return w.codec.DecodeCBOR(data, v)
}

func (w *Value) decodeJSON(data []byte, v any) error {
	trimmed := bytes.Trim(data, " \t\r\n")
	if len(trimmed) == 0 {
		return &ValueError{Reason: "is missing; " + jsonNoun(w.typ) + " is expected"}
	}
	if !w.null && string(trimmed) == "null" {
		return &ValueError{Reason: "is null; " + jsonNoun(w.typ) + " is expected"}
	}
	if w.json != nil {
		if w.json.decode(data, pointer(v)) {
			return nil
		}
		reflect.ValueOf(v).Elem().SetZero()
	}
	return w.codec.decodeJSON(data, v)
}

// A Described describes one kind of value of a contract. It is not generic. Immutable.
type Described struct {
	Kind    host.ValueKind
	Type    reflect.Type
	Convert Converter
}

// A Converter decodes a value and appends it in another encoding, or in the same. The error is a
// *ValueError.
type Converter func(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error)

// Describe describes the values of w. A type with only one of the encodings is not converted to the
// other.
func (w *Value) Describe(kind host.ValueKind) Described {
	v := Described{Kind: kind, Type: w.typ}
	both := w
	if w.uses != CBOR|JSON {
		both = of(w.codec, w.typ, w.New, CBOR|JSON)
	}
	if len(both.Faults()) == 0 {
		v.Convert = both.convert
		return v
	}
	v.Convert = func(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error) {
		for _, as := range []host.Codec{from, to} {
			if !w.has(as) {
				return out, &ValueError{Reason: "has no form in " + as.String()}
			}
		}
		return w.convert(from, data, to, out)
	}
	return v
}

// IsNone reports whether the type is None.
func (w *Value) IsNone() bool { return w.none }

// IsFlat reports whether a copy of a value shares no changeable memory with it.
func (w *Value) IsFlat() bool { return w.shape.flat }

// DecodesItself reports whether methods of a value, or of a part of it, decode CBOR: they may keep
// their input, and pointers to the decoded value.
func (w *Value) DecodesItself() bool { return w.shape.itself }

func (w *Value) has(as host.Codec) bool {
	if as == host.JSON {
		return w.uses&JSON != 0
	}
	return w.uses&CBOR != 0
}

// convert is a Converter. None, which encodes to no bytes elsewhere, becomes null, because
// converted values are parts of others.
func (w *Value) convert(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error) {
	v := w.New()
	if err := w.Decode(from, data, v); err != nil {
		return out, err
	}
	return w.AppendInside(to, out, v)
}

// AppendInside is Append without the check of text, for a value that stands inside of another.
func (w *Value) AppendInside(to host.Codec, out []byte, v any) ([]byte, error) {
	switch {
	case w.none && to == host.JSON:
		return append(out, "null"...), nil
	case w.none:
		return append(out, 0xF6), nil
	}
	return w.appendAny(to, out, v)
}

// DecodeNone accepts no data, and the forms that generic clients send instead: null and an empty
// object.
func DecodeNone(as host.Codec, data []byte) error {
	if as == host.JSON {
		data = bytes.Trim(data, " \t\r\n")
	}
	switch string(data) {
	case "":
		return nil
	case "null", "{}":
		if as == host.JSON {
			return nil
		}
	case "\xf6", "\xa0":
		if as == host.CBOR {
			return nil
		}
	}
	return &ValueError{Reason: "none is expected"}
}
