package actor

import (
	"bytes"
	"encoding/json"
	"reflect"
	"unsafe"

	"github.com/cairn-run/cairn/actor/host"
)

// A wire is how values of one Go type are encoded and decoded, worked out once from the type.
// Immutable.
type wire[T any] struct {
	codec *codec
	shape *shape
	json  *jsonForm // nil if encoding/json must write and read each value
	uses  encodings
	none  bool
	// null reports whether JSON null is a value of the type rather than a missing one.
	null bool
}

// newWire derives the encoding of a T. uses names the encodings that it needs.
func newWire[T any](c *core, uses encodings) *wire[T] {
	t := reflect.TypeFor[T]()
	w := &wire[T]{codec: c.codec, uses: uses, none: t == reflect.TypeFor[None]()}
	if w.none {
		w.shape, w.uses = new(shape), cborValue|jsonValue
		return w
	}
	w.shape = shapeOf(t, uses)
	if uses&jsonValue != 0 {
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

// faults says why the type cannot be encoded.
func (w *wire[T]) faults() []string { return w.shape.faults }

// append appends the encoded form of v to dst. Text of a value that has a form in JSON must be
// UTF-8. The error is a *ValueError.
func (w *wire[T]) append(as host.Codec, dst []byte, v *T) ([]byte, error) {
	if out, ok := w.appendForm(as, dst, v); ok {
		return out, nil
	}
	out, err := w.appendByLibrary(as, dst, v)
	if err != nil || w.none || !w.has(host.JSON) {
		return out, err
	}
	if err := checkText(as, out[len(dst):], reflect.ValueOf(v).Elem()); err != nil {
		return dst, err
	}
	return out, nil
}

// appendForm appends the encoded form of v if the type's JSON has one for it.
func (w *wire[T]) appendForm(as host.Codec, dst []byte, v *T) ([]byte, bool) {
	if as != host.JSON || w.json == nil {
		return dst, false
	}
	return w.json.append(dst, unsafe.Pointer(v))
}

func (w *wire[T]) appendByLibrary(as host.Codec, dst []byte, v *T) ([]byte, error) {
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
	return w.codec.appendCBOR(dst, v)
}

// appendAny is append that takes any text, as what was stored by an earlier version may hold.
func (w *wire[T]) appendAny(as host.Codec, dst []byte, v *T) ([]byte, error) {
	if out, ok := w.appendForm(as, dst, v); ok {
		return out, nil
	}
	return w.appendByLibrary(as, dst, v)
}

// decode decodes data into v, which must be zero. The error is a *ValueError.
func (w *wire[T]) decode(as host.Codec, data []byte, v *T) error {
	if w.none {
		return decodeNone(as, data)
	}
	if as == host.JSON {
		return w.decodeJSON(data, v)
	}
	if len(data) == 0 {
		return &ValueError{Reason: "is missing"}
	}
	return w.codec.decodeCBOR(data, v)
}

func (w *wire[T]) decodeJSON(data []byte, v *T) error {
	trimmed := bytes.Trim(data, " \t\r\n")
	if len(trimmed) == 0 {
		return &ValueError{Reason: "is missing; " + jsonNoun(reflect.TypeFor[T]()) + " is expected"}
	}
	if !w.null && string(trimmed) == "null" {
		return &ValueError{Reason: "is null; " + jsonNoun(reflect.TypeFor[T]()) + " is expected"}
	}
	if w.json != nil {
		if w.json.decode(data, unsafe.Pointer(v)) {
			return nil
		}
		*v = *new(T)
	}
	return w.codec.decodeJSON(data, v)
}

// A value is one kind of value of a contract, free of its Go type. Immutable.
type value struct {
	kind    host.ValueKind
	typ     reflect.Type
	convert converter
}

// A converter decodes a value and appends it in another encoding, or in the same. The error is a
// *ValueError.
type converter func(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error)

// value describes the values of w. A type that has only one of the encodings is converted to no
// other.
func (w *wire[T]) value(c *core, kind host.ValueKind) value {
	v := value{kind: kind, typ: reflect.TypeFor[T]()}
	both := w
	if w.uses != cborValue|jsonValue {
		both = newWire[T](c, cborValue|jsonValue)
	}
	if len(both.faults()) == 0 {
		v.convert = both.convert
		return v
	}
	v.convert = func(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error) {
		for _, as := range []host.Codec{from, to} {
			if !w.has(as) {
				return out, &ValueError{Reason: "has no form in " + as.String()}
			}
		}
		return w.convert(from, data, to, out)
	}
	return v
}

func (w *wire[T]) has(as host.Codec) bool {
	if as == host.JSON {
		return w.uses&jsonValue != 0
	}
	return w.uses&cborValue != 0
}

// convert is a converter. Nothing, which encodes to no bytes elsewhere, becomes null: converted
// values stand inside others.
func (w *wire[T]) convert(from host.Codec, data []byte, to host.Codec, out []byte) ([]byte, error) {
	var v T
	if err := w.decode(from, data, &v); err != nil {
		return out, err
	}
	return w.appendInside(to, out, &v)
}

// appendInside is appendAny for a value that stands inside of another.
func (w *wire[T]) appendInside(to host.Codec, out []byte, v *T) ([]byte, error) {
	switch {
	case w.none && to == host.JSON:
		return append(out, "null"...), nil
	case w.none:
		return append(out, 0xF6), nil
	}
	return w.appendAny(to, out, v)
}

// decodeNone accepts no data and the forms in which generic clients say nothing: null and an empty
// object.
func decodeNone(as host.Codec, data []byte) error {
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
