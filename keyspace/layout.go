package keyspace

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// layout is a row of the table of keys: the bytes of a key and how it prints. The types that embed
// it append keys; only layout parses them.
type layout struct {
	Kind   Kind    // the first byte
	family string  // the bytes after it that distinguish the layouts of one kind
	fields []field // the rest
	prints string  // the name of the kind and the rest, with % for each field
	owner  string  // of the kind: the subsystem that reads and writes these keys
	value  string  // a description of the value
}

// field is one field of a layout.
type field struct {
	as   encoding
	name string
}

// encoding is the form of a field's bytes. The fields of a layout are either all raw or all
// elements of one tuple.
type encoding uint8

const (
	asU64      encoding = iota // raw: eight bytes, big-endian
	asU64From1                 // raw: eight bytes, big-endian, not 0
	asU32                      // raw: four bytes, big-endian
	asFile                     // raw: one byte, a SQLiteFile
	asActor                    // raw: the 16 bytes of an ActorID
	asUTF8                     // raw: UTF-8 to the end of the key, not empty
	asString                   // string
	asInt                      // integer, int64
	asUint                     // integer, uint64
	asUint32                   // integer, uint32
	asChunk                    // integer, uint32, not 0
	asField                    // integer, a Field
	asHash                     // byte string, a WorkflowHash
	asKey                      // byte string, a logical key that can expire
	asLocation                 // the segments of a Location, to the end of the tuple
	asElements                 // any elements, to the end of the tuple
)

// values are the fields of a key. n has numbers and the bits of an int64, s has texts. b has the
// last field of encoding bytes, at has a location.
type values struct {
	n  [3]uint64
	s  [3]string
	b  []byte
	at Location
}

// name returns the name of the kind.
func (l *layout) name() string {
	if end := strings.IndexAny(l.prints, "/(%"); end >= 0 {
		return l.prints[:end]
	}
	return l.prints
}

// Range returns the bounds of all keys that begin like those of this layout: with its kind and, in
// a kind with several layouts, its family.
func (l *layout) Range() (start, end []byte) {
	start = l.lead(nil)
	return start, Successor(start)
}

// Has reports whether a key begins like those of this layout. It does not check the rest.
func (l *layout) Has(key []byte) bool {
	n := 1 + len(l.family)
	return len(key) >= n && Kind(key[0]) == l.Kind && string(key[1:n]) == l.family
}

// lead appends the bytes that all keys of the layout begin with.
func (l *layout) lead(dst []byte) []byte { return append(append(dst, byte(l.Kind)), l.family...) }

// parse parses a key. On failure v is zero and the error a [*SyntaxError].
func (l *layout) parse(key []byte, v *values) error {
	if bad := l.read(key, v); bad != nil {
		*v = values{}
		return bad
	}
	return nil
}

func (l *layout) fault(at int, reason string) *SyntaxError {
	return &SyntaxError{l.name() + " key", at, reason}
}

func (l *layout) read(key []byte, v *values) *SyntaxError {
	if !l.Has(key) {
		return l.stranger(key)
	}
	at := 1 + len(l.family)
	switch {
	case len(l.fields) == 0 && len(key) > at:
		return l.fault(at, "bytes after the kind")
	case len(l.fields) == 0:
		return nil
	case l.fields[0].as < asString:
		return l.readRaw(key, at, v)
	}
	d := tuple.NewDecoder(key[at:])
	var err error
	for i := range l.fields {
		if err = l.fields[i].read(&d, i, v); err != nil {
			break
		}
	}
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return inside(l.name()+" key", at, err)
	}
	return nil
}

// stranger returns the fault of a key that begins differently.
func (l *layout) stranger(key []byte) *SyntaxError {
	switch {
	case len(key) == 0:
		return l.fault(0, "empty")
	case Kind(key[0]) != l.Kind:
		return l.fault(0, "found "+Kind(key[0]).String())
	default:
		return l.fault(1, "key of another family")
	}
}

// readRaw reads fields of fixed width, or text to the end, that begin at an offset.
func (l *layout) readRaw(key []byte, at int, v *values) *SyntaxError {
	for i := range l.fields {
		f, rest := &l.fields[i], key[at:]
		if f.as == asUTF8 {
			return l.readText(rest, at, v)
		}
		width, want := f.as.width()
		if last := i == len(l.fields)-1; len(rest) < width || last && len(rest) > width {
			return l.fault(min(len(key), at+width), want)
		}
		switch f.as {
		case asU64, asU64From1:
			if v.n[i] = binary.BigEndian.Uint64(rest); f.as == asU64From1 && v.n[i] == 0 {
				return l.fault(at, "number below the first")
			}
		case asU32:
			v.n[i] = uint64(binary.BigEndian.Uint32(rest))
		case asFile:
			if v.n[i] = uint64(rest[0]); int(rest[0]) >= len(fileNames) {
				return l.fault(at, "unknown "+SQLiteFile(rest[0]).String())
			}
		default: // asActor
			v.b = rest
		}
		at += width
	}
	return nil
}

func (l *layout) readText(rest []byte, at int, v *values) *SyntaxError {
	if len(rest) == 0 {
		return l.fault(at, "empty "+l.fields[0].name)
	}
	for i := 0; i < len(rest); {
		r, n := utf8.DecodeRune(rest[i:])
		if r == utf8.RuneError && n == 1 {
			return l.fault(at+i, l.fields[0].name+" is not UTF-8")
		}
		i += n
	}
	v.s[0] = string(rest)
	return nil
}

// width returns the number of bytes of a raw field, and the fault of any other number.
func (e encoding) width() (n int, want string) {
	switch e {
	case asU64, asU64From1:
		return 8, "want eight bytes to the end"
	case asU32:
		return 4, "want four bytes to the end"
	case asFile:
		return 1, "want one byte to the end"
	default:
		return len(ActorID{}), "want 16 bytes to the end"
	}
}

// read reads one field that is an element of a tuple, or its last elements.
func (f *field) read(d *tuple.Decoder, i int, v *values) (err error) {
	at := d.Offset()
	fail := func(reason string) error { return &tuple.SyntaxError{Offset: at, Reason: reason} }
	switch f.as {
	case asString:
		v.s[i], err = d.String()
	case asInt:
		var n int64
		n, err = d.Int()
		v.n[i] = uint64(n)
	case asUint:
		v.n[i], err = d.Uint()
	case asUint32, asChunk:
		var n uint32
		n, err = uint32Element(d)
		v.n[i] = uint64(n)
		if err == nil && n == 0 && f.as == asChunk {
			err = fail("number below the first")
		}
	case asField:
		if v.n[i], err = d.Uint(); err == nil && (v.n[i] == 0 || v.n[i] >= uint64(len(fieldNames))) {
			err = fail("unknown field " + strconv.FormatUint(v.n[i], 10))
		}
	case asHash:
		if v.b, err = d.Bytes(); err == nil && len(v.b) != len(WorkflowHash{}) {
			err = fail("hash of " + strconv.Itoa(len(v.b)) + " bytes")
		}
	case asKey:
		if v.b, err = d.AppendBytes(nil); err == nil && (len(v.b) == 0 || Kind(v.b[0]) == Expiry.Kind) {
			at++
			err = fail("want a key that can expire")
		}
	case asLocation:
		v.at, err = locationElements(d)
	default: // asElements
		t := tuple.Tuple{}
		for d.More() {
			e, err := d.Next()
			if err != nil {
				return err
			}
			t = append(t, e)
		}
		v.s[i] = t.String()
	}
	return err
}

func uint32Element(d *tuple.Decoder) (uint32, error) {
	at := d.Offset()
	v, err := d.Uint()
	if err == nil && v > math.MaxUint32 {
		err = &tuple.SyntaxError{Offset: at, Reason: "number does not fit 32 bits"}
	}
	return uint32(v), err
}

// find parses a logical key of any layout. If several layouts begin like the key but none fits, it
// returns the fault with the largest offset.
func find(key []byte) (found *layout, v values, bad *SyntaxError) {
	for _, l := range layouts {
		if !l.Has(key) {
			continue
		}
		v = values{}
		fault := l.read(key, &v)
		if fault == nil {
			return l, v, nil
		}
		if bad == nil || fault.Offset >= bad.Offset {
			bad = fault
		}
	}
	if bad == nil {
		bad = unknown(key)
	}
	return nil, values{}, bad
}

// unknown returns the fault of a key that begins like no layout.
func unknown(key []byte) *SyntaxError {
	if len(key) == 0 {
		return &SyntaxError{"key", 0, "empty"}
	}
	kind := Kind(key[0])
	what := kind.String() + " key"
	switch {
	case kind.name() == "":
		return &SyntaxError{"key", 0, "unknown " + kind.String()}
	case kind == KindSQLite && len(key) == 1:
		return &SyntaxError{what, 1, "cut short"}
	case kind == KindSQLite:
		return &SyntaxError{what, 1, "unknown form " + strconv.Itoa(int(key[1]))}
	}
	d := tuple.NewDecoder(key[1:])
	family, err := d.Uint()
	if err != nil {
		return inside(what, 1, err)
	}
	return &SyntaxError{what, 1, "unknown family " + strconv.FormatUint(family, 10)}
}

// Format prints a logical key for people: kv("users", 42), workflow/history[3, loop 3 #7, 5],
// sqlite/main/chunk 0, alarm("remind", ""). Bytes that are not a key print as the name of their
// kind, if it has one, a question mark, and all bytes in hexadecimal: queue?x"0501". It never
// panics.
func Format(key []byte) string {
	l, v, bad := find(key)
	if bad == nil {
		return string(l.append(nil, &v))
	}
	var dst []byte
	if len(key) > 0 {
		dst = append(dst, Kind(key[0]).name()...)
	}
	return string(appendHex(append(dst, '?'), key))
}

func appendHex(dst, b []byte) []byte {
	dst = append(dst, `x"`...)
	dst = hex.AppendEncode(dst, b)
	return append(dst, '"')
}

// append prints a parsed key.
func (l *layout) append(dst []byte, v *values) []byte {
	i := 0
	for _, c := range []byte(l.prints) {
		if c != '%' {
			dst = append(dst, c)
			continue
		}
		switch l.fields[i].as {
		case asUTF8, asString:
			dst = strconv.AppendQuote(dst, v.s[i])
		case asInt:
			dst = strconv.AppendInt(dst, int64(v.n[i]), 10)
		case asFile:
			dst = append(dst, SQLiteFile(v.n[i]).String()...)
		case asActor:
			dst = ActorID(v.b).AppendString(dst)
		case asField:
			dst = append(dst, fieldNames[v.n[i]]...)
		case asHash:
			dst = hex.AppendEncode(dst, v.b)
		case asKey:
			dst = append(dst, Format(v.b)...)
		case asLocation:
			dst = v.at.append(dst)
		case asElements:
			dst = append(dst, v.s[i]...)
		default:
			dst = strconv.AppendUint(dst, v.n[i], 10)
		}
		i++
	}
	return dst
}
