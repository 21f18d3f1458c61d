package value

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// decoding reads CBOR of applications.
var decoding = wire.MustDecMode(cbor.DecOptions{
	TimeTag: cbor.DecTagOptional, MapKeyByteString: cbor.MapKeyByteStringAllowed, MaxNestedLevels: MaxDepth,
	BigIntDec: cbor.BigIntDecodePointer, DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxArrayElements: 1 << 24, MaxMapPairs: 1 << 24,
})

// appendCBOR appends CBOR as JSON: byte strings are {"$bytes":base64}, keys that are no texts are
// their JSON as a text, and numbers that JSON does not have are null. Members are in the order of
// their names, unless that would take long. Values that JSON cannot hold are {"$cbor":base64}:
// texts that are not UTF-8, repeated names, and integers of too many digits.
func appendCBOR(dst, data []byte) ([]byte, error) {
	if err := decoding.Wellformed(data); err != nil {
		return dst, fmt.Errorf("is damaged CBOR: %w", err)
	}
	if out, ok := translate(dst, data); ok {
		return out, nil
	}
	return appendBase64(dst, "$cbor", data), nil
}

// The major types of CBOR (RFC 8949, section 3.1).
const (
	unsigned = iota
	negative
	byteString
	textString
	arrayOf
	mapOf
	tagOf
)

const indefinite, stop = 31, 0xFF

// head reads the head of a well-formed item: its major type, its argument, and the rest. An
// indefinite length is open.
func head(data []byte) (major byte, argument uint64, open bool, rest []byte) {
	major, info := data[0]>>5, data[0]&31
	rest = data[1:]
	switch {
	case info < 24:
		return major, uint64(info), false, rest
	case info == indefinite:
		return major, 0, true, rest
	}
	n := 1 << (info - 24)
	for _, b := range rest[:n] {
		argument = argument<<8 | uint64(b)
	}
	return major, argument, false, rest[n:]
}

// leaf splits a well-formed item that is neither array nor map, nor a tag of one, from the rest.
func leaf(data []byte) (item, rest []byte) {
	major, n, open, rest := head(data)
	switch {
	case major == tagOf:
		_, rest = leaf(rest)
	case open:
		for rest[0] != stop {
			_, rest = leaf(rest)
		}
		rest = rest[1:]
	case major == byteString, major == textString:
		rest = rest[n:]
	}
	return data[:len(data)-len(rest)], rest
}

// translate appends a well-formed item as JSON; ok is false if JSON cannot hold it. It decodes leaf
// by leaf: a value decoded at once has up to two hundred times its bytes.
func translate(dst, data []byte) (out []byte, ok bool) {
	t := translator{moves: 8*len(data) + 64<<10}
	out, _, ok = t.appendItem(dst, data)
	return out, ok
}

// A translator has how many bytes may still be moved, as JSON, to bring members into order. Without
// a bound these would be the bytes of a value times its depth.
type translator struct{ moves int }

// appendItem is translate for the first of several items, and returns the rest.
func (t *translator) appendItem(dst, data []byte) (out, rest []byte, ok bool) {
	major, n, open, rest := head(data)
	switch major {
	case unsigned:
		return strconv.AppendUint(dst, n, 10), rest, true
	case textString:
		if !open {
			return appendAny(dst, string(rest[:n])), rest[n:], utf8.Valid(rest[:n])
		}
	case arrayOf:
		dst = append(dst, '[')
		for i := uint64(0); open && rest[0] != stop || i < n; i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, rest, ok = t.appendItem(dst, rest); !ok {
				return dst, nil, false
			}
		}
		if open {
			rest = rest[1:]
		}
		return append(dst, ']'), rest, true
	case mapOf:
		return t.appendMap(dst, rest, n, open)
	case tagOf:
		if n > 3 { // all others say more than JSON can
			return t.appendItem(dst, rest)
		}
		if under := rest[0] >> 5; under == arrayOf || under == mapOf || under == tagOf {
			return dst, nil, false
		}
	}
	item, rest := leaf(data)
	var v any
	if decoding.Unmarshal(item, &v) != nil {
		return dst, nil, false
	}
	return appendAny(dst, v), rest, true
}

// appendMap is appendItem for the n pairs of a map, or for the pairs until its end.
func (t *translator) appendMap(dst, rest []byte, n uint64, open bool) (out, after []byte, ok bool) {
	type member struct {
		name       string
		start, end int // of its text
	}
	var members []member
	dst = append(dst, '{')
	from, size := len(dst), len(rest)
	for i := uint64(0); open && rest[0] != stop || i < n; i++ {
		m := member{start: len(dst)}
		if m.name, rest, ok = name(rest); !ok || len(members) > 0 && m.name == members[len(members)-1].name {
			return dst, nil, false
		}
		dst = append(appendAny(dst, m.name), ':')
		if dst, rest, ok = t.appendItem(dst, rest); !ok {
			return dst, nil, false
		}
		dst = append(dst, ',')
		m.end = len(dst)
		members = append(members, m)
	}
	if open {
		rest = rest[1:]
	}
	if members == nil {
		return append(dst, '}'), rest, true
	}
	byName := func(a, b member) int { return cmp.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(members, byName) {
		slices.SortFunc(members, byName)
		if t.moves -= size - len(rest); t.moves >= 0 {
			text := slices.Clone(dst[from:])
			dst = dst[:from]
			for _, m := range members {
				dst = append(dst, text[m.start-from:m.end-from]...)
			}
		}
	}
	for i := range members[1:] {
		if members[i].name == members[i+1].name {
			return dst, nil, false
		}
	}
	dst[len(dst)-1] = '}'
	return dst, rest, true
}

// name returns the first of well-formed items as the name of a member, and the rest.
func name(data []byte) (text string, rest []byte, ok bool) {
	under := data
	for under[0]>>5 == tagOf {
		_, _, _, under = head(under)
	}
	if major := under[0] >> 5; major == arrayOf || major == mapOf {
		return "", nil, false
	}
	item, rest := leaf(data)
	var v any
	if decoding.Unmarshal(item, &v) != nil {
		return "", nil, false
	}
	switch v := v.(type) {
	case string:
		return v, rest, true
	case []byte:
		return base64.StdEncoding.EncodeToString(v), rest, true
	}
	return string(appendAny(nil, v)), rest, true
}

// appendAny appends a decoded leaf.
func appendAny(dst []byte, v any) []byte {
	switch v := v.(type) {
	case []byte:
		return appendBase64(dst, "$bytes", v)
	case *big.Int:
		if v8.Long(v) {
			b, _ := cbor.Marshal(v) // an integer can always be written
			return appendBase64(dst, "$cbor", b)
		}
		return v.Append(dst, 10)
	case uint64:
		return strconv.AppendUint(dst, v, 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return append(dst, "null"...)
		}
	case time.Time:
		return v.UTC().AppendFormat(dst, `"`+time.RFC3339Nano+`"`)
	case cbor.Tag: // in the name of a member
		return appendAny(dst, v.Content)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

// appendUnencoded appends a value of an earlier release. A cell stored JSON, or, under the keys of
// a message that was given up, a CBOR byte string that holds JSON; a Map of a Go actor stored CBOR.
// One byte from 0 to 9 may be either; it is JSON.
func appendUnencoded(dst, data []byte) []byte {
	if utf8.Valid(data) && json.Valid(data) {
		return append(dst, data...)
	}
	if decoding.Wellformed(data) != nil {
		return appendBase64(dst, "$bytes", data)
	}
	if data[0]>>5 == byteString {
		var text []byte
		if decoding.Unmarshal(data, &text) == nil && utf8.Valid(text) && json.Valid(text) {
			return append(dst, text...)
		}
	}
	if out, ok := translate(dst, data); ok {
		return out
	}
	return appendBase64(dst, "$bytes", data)
}
