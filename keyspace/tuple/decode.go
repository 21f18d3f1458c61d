package tuple

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// Type is the type of an element, returned by [Decoder.Peek].
type Type uint8

const (
	TypeEnd          Type = iota // the current tuple has no further element
	TypeInvalid                  // the next byte begins no element
	TypeNil                      // read with Nil
	TypeBytes                    // Bytes or AppendBytes
	TypeString                   // String
	TypeTuple                    // Nested, the elements, EndNested
	TypeInt                      // of any size: Int, Uint or BigInt
	TypeFloat32                  // Float32
	TypeFloat64                  // Float64
	TypeBool                     // Bool
	TypeUUID                     // UUID
	TypeVersionstamp             // Versionstamp
)

// String returns the name of the type in lower case.
func (t Type) String() string {
	names := [...]string{"end", "invalid", "nil", "bytes", "string", "tuple", "integer", "float32",
		"float64", "bool", "uuid", "versionstamp"}
	if int(t) < len(names) {
		return names[t]
	}
	return "type " + strconv.Itoa(int(t))
}

// Decoder reads the elements of a packed tuple one after another. It is a plain value: make it with
// [NewDecoder], copy it to look ahead.
//
// Each typed method reads the next element and moves past it. If the next element has another type,
// is malformed, or is missing, the method returns a [*SyntaxError] and the decoder stays where it
// was. No method panics on any bytes, and none keeps or changes the input.
type Decoder struct {
	b     []byte
	off   int
	depth int
}

// NewDecoder returns a decoder of b, before the first element.
func NewDecoder(b []byte) Decoder { return Decoder{b: b} }

// Unpack decodes a whole tuple. Empty input is the empty tuple. The elements
// share no memory with b. The error is a [*SyntaxError].
func Unpack(b []byte) (Tuple, error) {
	d := NewDecoder(b)
	t := Tuple{}
	for d.More() {
		e, err := d.Next()
		if err != nil {
			return nil, err
		}
		t = append(t, e)
	}
	return t, nil
}

// Offset returns how many bytes have been read.
func (d *Decoder) Offset() int { return d.off }

// Rest returns the bytes that have not been read; they alias the input.
func (d *Decoder) Rest() []byte { return d.b[d.off:] }

// More reports whether the current tuple (the outermost, or the nested one last entered) has
// another element. The element may be malformed.
func (d *Decoder) More() bool { return d.Peek() != TypeEnd }

// Peek returns the type of the next element without reading it.
func (d *Decoder) Peek() Type {
	if d.off >= len(d.b) {
		return TypeEnd
	}
	switch c := d.b[d.off]; {
	case c == codeNil:
		if d.depth > 0 && !d.escaped(d.off+1) {
			return TypeEnd
		}
		return TypeNil
	case c == codeBytes:
		return TypeBytes
	case c == codeString:
		return TypeString
	case c == codeNested:
		return TypeTuple
	case c >= codeNegBig && c <= codePosBig:
		return TypeInt
	case c == codeFloat32:
		return TypeFloat32
	case c == codeFloat64:
		return TypeFloat64
	case c == codeFalse, c == codeTrue:
		return TypeBool
	case c == codeUUID:
		return TypeUUID
	case c == codeVersionstamp:
		return TypeVersionstamp
	default:
		return TypeInvalid
	}
}

func (d *Decoder) escaped(at int) bool { return at < len(d.b) && d.b[at] == escape }

func (d *Decoder) want(t Type) error {
	got := d.Peek()
	if got == t {
		return nil
	}
	return d.mismatch(t, got)
}

func (d *Decoder) mismatch(want, got Type) error {
	if got == TypeInvalid {
		return &SyntaxError{d.off, "unknown code 0x" + strconv.FormatUint(uint64(d.b[d.off]), 16)}
	}
	return &SyntaxError{d.off, "want " + want.String() + ", found " + got.String()}
}

// fixed returns the n bytes after the code of an element of type t.
func (d *Decoder) fixed(t Type, n int) ([]byte, error) {
	if err := d.want(t); err != nil {
		return nil, err
	}
	return d.take(d.off+1, n, t)
}

func (d *Decoder) take(at, n int, t Type) ([]byte, error) {
	if len(d.b)-at < n {
		return nil, &SyntaxError{len(d.b), t.String() + " cut short"}
	}
	return d.b[at : at+n], nil
}

// End returns an error if input is left, or the decoder is inside a nested tuple.
func (d *Decoder) End() error {
	if d.off < len(d.b) {
		return &SyntaxError{d.off, "bytes after the last element"}
	}
	if d.depth > 0 {
		return &SyntaxError{d.off, "tuple without end"}
	}
	return nil
}

// Nil reads a nil.
func (d *Decoder) Nil() error {
	if err := d.want(TypeNil); err != nil {
		return err
	}
	d.off++
	if d.depth > 0 {
		d.off++
	}
	return nil
}

// Nested enters a nested tuple. The following calls read its elements until [Decoder.More] is
// false; then [Decoder.EndNested] leaves it.
func (d *Decoder) Nested() error {
	if err := d.want(TypeTuple); err != nil {
		return err
	}
	if d.depth == MaxDepth {
		return &SyntaxError{d.off, "tuples nest too deep"}
	}
	d.off++
	d.depth++
	return nil
}

// EndNested leaves the nested tuple last entered. It returns an error if elements of it are unread.
func (d *Decoder) EndNested() error {
	if d.depth == 0 {
		return &SyntaxError{d.off, "not inside a nested tuple"}
	}
	if d.off >= len(d.b) {
		return &SyntaxError{len(d.b), "tuple without end"}
	}
	if t := d.Peek(); t != TypeEnd {
		return d.mismatch(TypeEnd, t)
	}
	d.off++
	d.depth--
	return nil
}

// terminator returns the offset of the 00 that ends the escaped content that
// begins at, and whether the content contains an escaped 00.
func (d *Decoder) terminator(at int, t Type) (end int, escapes bool, err error) {
	for {
		i := bytes.IndexByte(d.b[at:], codeNil)
		if i < 0 {
			return 0, false, &SyntaxError{len(d.b), t.String() + " without end"}
		}
		if !d.escaped(at + i + 1) {
			return at + i, escapes, nil
		}
		escapes = true
		at += i + 2
	}
}

// Bytes reads a byte string. The result aliases the input, with no spare
// capacity, if the content has no 00 byte, and is a copy otherwise. It is
// never nil.
func (d *Decoder) Bytes() ([]byte, error) {
	if err := d.want(TypeBytes); err != nil {
		return nil, err
	}
	end, escapes, err := d.terminator(d.off+1, TypeBytes)
	if err != nil {
		return nil, err
	}
	content := d.b[d.off+1 : end : end]
	if escapes {
		content = unescape(make([]byte, 0, len(content)), content)
	}
	d.off = end + 1
	return content, nil
}

// AppendBytes reads a byte string and appends its content to dst. It allocates
// only to grow dst, and returns dst as it was with an error.
func (d *Decoder) AppendBytes(dst []byte) ([]byte, error) {
	if err := d.want(TypeBytes); err != nil {
		return dst, err
	}
	end, escapes, err := d.terminator(d.off+1, TypeBytes)
	if err != nil {
		return dst, err
	}
	content := d.b[d.off+1 : end]
	d.off = end + 1
	if escapes {
		return unescape(dst, content), nil
	}
	return append(dst, content...), nil
}

// String reads a string. It does not check that it is UTF-8.
func (d *Decoder) String() (string, error) {
	if err := d.want(TypeString); err != nil {
		return "", err
	}
	end, escapes, err := d.terminator(d.off+1, TypeString)
	if err != nil {
		return "", err
	}
	content := d.b[d.off+1 : end]
	d.off = end + 1
	if escapes {
		content = unescape(make([]byte, 0, len(content)), content)
	}
	return string(content), nil
}

// unescape appends b to dst with each 00 FF as 00. Each 00 of b has its FF.
func unescape(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i+1]...)
		b = b[i+2:]
	}
}

// Float32 reads a float32 with its exact bits.
func (d *Decoder) Float32() (float32, error) {
	b, err := d.fixed(TypeFloat32, 4)
	if err != nil {
		return 0, err
	}
	d.off += 5
	v := binary.BigEndian.Uint32(b)
	if v>>31 != 0 {
		return math.Float32frombits(v &^ (1 << 31)), nil
	}
	return math.Float32frombits(^v), nil
}

// Float64 reads a float64 with its exact bits.
func (d *Decoder) Float64() (float64, error) {
	b, err := d.fixed(TypeFloat64, 8)
	if err != nil {
		return 0, err
	}
	d.off += 9
	v := binary.BigEndian.Uint64(b)
	if v>>63 != 0 {
		return math.Float64frombits(v &^ (1 << 63)), nil
	}
	return math.Float64frombits(^v), nil
}

// Bool reads a boolean.
func (d *Decoder) Bool() (bool, error) {
	if err := d.want(TypeBool); err != nil {
		return false, err
	}
	d.off++
	return d.b[d.off-1] == codeTrue, nil
}

// UUID reads a UUID.
func (d *Decoder) UUID() (UUID, error) {
	b, err := d.fixed(TypeUUID, 16)
	if err != nil {
		return UUID{}, err
	}
	d.off += 17
	return UUID(b), nil
}

// Versionstamp reads a complete versionstamp.
func (d *Decoder) Versionstamp() (Versionstamp, error) {
	b, err := d.fixed(TypeVersionstamp, 12)
	if err != nil {
		return Versionstamp{}, err
	}
	v := Versionstamp{Transaction: [10]byte(b), User: binary.BigEndian.Uint16(b[10:])}
	if !v.Complete() {
		return Versionstamp{}, &SyntaxError{d.off + 1, "incomplete versionstamp"}
	}
	d.off += 13
	return v, nil
}

// Next reads an element of any type and returns it as the Go type that [Tuple]
// lists; integers as int64, uint64 or *big.Int, the first that fits. The result
// shares no memory with the input.
func (d *Decoder) Next() (any, error) {
	start := *d
	e, err := d.next()
	if err != nil {
		*d = start
		return nil, err
	}
	return e, nil
}

func (d *Decoder) next() (any, error) {
	switch t := d.Peek(); t {
	case TypeNil:
		return nil, d.Nil()
	case TypeBytes:
		return d.AppendBytes([]byte{})
	case TypeString:
		return d.String()
	case TypeInt:
		v, err := d.integer()
		if err != nil {
			return nil, err
		}
		d.off = v.end
		switch {
		case v.big != nil || v.negative && v.small > 1<<63:
			return v.bigInt(), nil
		case v.negative:
			return int64(-v.small), nil
		case v.small > math.MaxInt64:
			return v.small, nil
		default:
			return int64(v.small), nil
		}
	case TypeFloat32:
		return d.Float32()
	case TypeFloat64:
		return d.Float64()
	case TypeBool:
		return d.Bool()
	case TypeUUID:
		return d.UUID()
	case TypeVersionstamp:
		return d.Versionstamp()
	case TypeTuple:
		if err := d.Nested(); err != nil {
			return nil, err
		}
		inner := Tuple{}
		for d.More() {
			e, err := d.next()
			if err != nil {
				return nil, err
			}
			inner = append(inner, e)
		}
		return inner, d.EndNested()
	case TypeEnd:
		return nil, &SyntaxError{d.off, "no further element"}
	default:
		return nil, d.mismatch(TypeInvalid, t)
	}
}
