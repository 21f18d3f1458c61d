package traces

import (
	"encoding/binary"
	"math"
)

// Attribute is a name with a value.
type Attribute struct {
	Key   string
	Value Value
}

// Type is the type of a value.
type Type uint8

// The types of values.
const (
	TypeNone Type = iota
	TypeString
	TypeInt
	TypeFloat
	TypeBool
	TypeBytes
	TypeList
)

// Value is the value of an attribute. The zero Value is none. Values of one number or text do not
// allocate.
type Value struct {
	kind Type
	bits uint64
	text string // a text, bytes, or the packed elements of a list
}

// String returns an attribute whose value is a text.
func String(key, v string) Attribute { return Attribute{key, Value{kind: TypeString, text: v}} }

// Int returns an attribute whose value is an integer.
func Int(key string, v int64) Attribute {
	return Attribute{key, Value{kind: TypeInt, bits: uint64(v)}}
}

// Float returns an attribute whose value is a floating-point number.
func Float(key string, v float64) Attribute {
	return Attribute{key, Value{kind: TypeFloat, bits: math.Float64bits(v)}}
}

// Bool returns an attribute whose value is true or false.
func Bool(key string, v bool) Attribute {
	a := Attribute{key, Value{kind: TypeBool}}
	if v {
		a.Value.bits = 1
	}
	return a
}

// Bytes returns an attribute whose value is a string of bytes. Bytes after the first [MaxString]
// are cut.
func Bytes(key string, v []byte) Attribute {
	return Attribute{key, Value{kind: TypeBytes, text: string(v[:min(len(v), MaxString)])}}
}

// List returns an attribute whose value is a list. It omits lists in lists, and the elements beyond
// [MaxString] bytes in total.
func List(key string, values ...Value) Attribute {
	var b []byte
	for _, v := range values {
		if v.kind == TypeString {
			v.text = clean(v.text)
		}
		before := len(b)
		if v.kind != TypeList {
			b = v.appendPacked(b)
		}
		if len(b) > MaxString {
			b = b[:before]
			break
		}
	}
	return Attribute{key, Value{kind: TypeList, text: string(b)}}
}

// Type returns the type of the value.
func (v Value) Type() Type { return v.kind }

// Text returns the text or the bytes of the value, or "".
func (v Value) Text() string {
	if v.kind == TypeList {
		return ""
	}
	return v.text
}

// Int returns the integer, or 0.
func (v Value) Int() int64 {
	if v.kind != TypeInt {
		return 0
	}
	return int64(v.bits)
}

// Float returns the floating-point number, or 0.
func (v Value) Float() float64 {
	if v.kind != TypeFloat {
		return 0
	}
	return math.Float64frombits(v.bits)
}

// Bool returns the truth value, or false.
func (v Value) Bool() bool { return v.kind == TypeBool && v.bits != 0 }

// Elements yields the elements of a list.
func (v Value) Elements(yield func(Value) bool) {
	if v.kind != TypeList {
		return
	}
	for b := v.text; len(b) > 0; {
		e, n := unpack(b)
		if n == 0 || !yield(e) {
			return
		}
		b = b[n:]
	}
}

// appendPacked appends a value that is not a list: its type and its content.
func (v Value) appendPacked(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case TypeString, TypeBytes:
		dst = append(binary.AppendUvarint(dst, uint64(len(v.text))), v.text...)
	case TypeInt:
		dst = binary.AppendVarint(dst, int64(v.bits))
	case TypeFloat:
		dst = binary.BigEndian.AppendUint64(dst, v.bits)
	case TypeBool:
		dst = append(dst, byte(v.bits))
	}
	return dst
}

// unpack returns the first of the packed values and its length, or 0 if there is none.
func unpack(s string) (Value, int) {
	d := decoder{b: s}
	v := d.packed()
	if d.bad {
		return Value{}, 0
	}
	return v, len(s) - len(d.b)
}
