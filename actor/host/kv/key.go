// Package kv has the keys of the key-value store of an actor, as callers write them.
package kv

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A Key names an entry of the key-value store: one or more parts, each bytes, a string, a number or
// a boolean. In JSON it is an array.
//
//  1. A number that is written without a fraction and an exponent is an integer of any size up to
//     255 bytes; any other is a double. So 1 and 1.0 are two keys, as in the tuple encoding, and a
//     key is written back as it was read.
//  2. Bytes are {"$bytes":base64}. A double that JSON does not have (NaN and the infinities) is
//     {"$raw":base64} of its stored form, and so is a part of another type, which only Go code can
//     write: a key with one can be read and deleted. In keys of mutations a part may be a
//     Placeholder.
//  3. Keys are ordered part by part: bytes before strings, each bytewise, then integers, then
//     doubles, each by value, then false, then true. A key comes directly before the keys that it
//     begins.
//
// In Go a part is []byte, a string, any integer type, *big.Int, float64 or bool. The stored form
// has up to 2,048 bytes.
type Key []any

// Raw ends a bound of a range: bytes that need not be the stored form of a part. In JSON it is
// {"$raw":base64} too.
type Raw []byte

// MarshalJSON writes the key as an array. It fails for a part that no key can have.
func (k Key) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, part := range k {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendPart(b, part); err != nil {
			return nil, fmt.Errorf("key part %d: %w", i+1, err)
		}
	}
	return append(b, ']'), nil
}

// JSONSchema describes the array.
func (Key) JSONSchema() []byte {
	return []byte(`{"type":"array","items":{"oneOf":[{"type":["string","number","boolean"]},` +
		`{"type":"object","properties":{"$bytes":{"type":"string","contentEncoding":"base64"}},"required":["$bytes"],"additionalProperties":false},` +
		`{"type":"object","properties":{"$raw":{"type":"string","contentEncoding":"base64"}},"required":["$raw"],"additionalProperties":false},` +
		`{"type":"object","properties":{"$uuidv7":{"type":["boolean","string"]}},"required":["$uuidv7"],"additionalProperties":false},` +
		`{"type":"object","properties":{"$versionstamp":{"type":"boolean"}},"required":["$versionstamp"],"additionalProperties":false}]}}`)
}

// unfit returns the reason why a caller may not write a part; "" if it may.
func unfit(part any) string {
	switch part := part.(type) {
	case string:
		if !utf8.ValidString(part) {
			return "is not valid UTF-8"
		}
	case Placeholder:
		return "is a placeholder, which only mutations of kv.commit take"
	case []byte, float64, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
	case *big.Int:
		if part == nil || part.BitLen() > 8*tuple.MaxBigIntBytes {
			return fmt.Sprintf("is not an integer of at most %d bytes", tuple.MaxBigIntBytes)
		}
	default:
		return "is not a string, number, boolean or bytes"
	}
	return ""
}

// opaque reports whether a part is written as its stored form.
func opaque(part any) bool {
	f, double := part.(float64)
	return double && (math.IsNaN(f) || math.IsInf(f, 0)) || unfit(part) != ""
}

// stored returns the stored form of a part.
func stored(part any) ([]byte, error) {
	if raw, is := part.(Raw); is {
		return raw, nil
	}
	return tuple.Tuple{part}.Pack()
}

func appendPart(b []byte, part any) ([]byte, error) {
	if p, is := part.(Placeholder); is {
		return append(b, p.String()...), p.check()
	}
	if opaque(part) {
		raw, err := stored(part)
		return append(base64.StdEncoding.AppendEncode(append(b, `{"$raw":"`...), raw), `"}`...), err
	}
	switch part := part.(type) {
	case float64:
		start := len(b)
		b = strconv.AppendFloat(b, part, 'g', -1, 64)
		if !bytes.ContainsAny(b[start:], ".e") {
			b = append(b, ".0"...)
		}
		return b, nil
	case []byte:
		return append(base64.StdEncoding.AppendEncode(append(b, `{"$bytes":"`...), part), `"}`...), nil
	}
	text, err := json.Marshal(part)
	return append(b, text...), err
}

// maxText bounds the JSON and CBOR of a key, which has up to 2,048 bytes of up to six characters
// each.
const maxText = 16 << 10

// tooLong refuses a text before it is decoded, because decoding takes much more memory.
func tooLong(b []byte) error {
	if len(b) > maxText {
		return host.OverLimit("bytes of a key as it is written", maxText, int64(len(b)))
	}
	return nil
}

// maxParts bounds the parts of a key. Each takes at least a byte.
const maxParts = 2_048

func tooMany(parts int) error {
	if parts > maxParts {
		return host.OverLimit("parts of a key", maxParts, int64(parts))
	}
	return nil
}

// UnmarshalJSON reads an array. An integer becomes the first of int64, uint64 and *big.Int that
// holds it.
func (k *Key) UnmarshalJSON(b []byte) error {
	var parts []json.RawMessage
	if err := tooLong(b); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &parts); err != nil || parts == nil {
		return host.Errorf(host.InvalidArgument,
			"a key is an array of strings, numbers, booleans and bytes, not %s", clip(b))
	}
	if err := tooMany(len(parts)); err != nil {
		return err
	}
	*k = make(Key, len(parts))
	for i, raw := range parts {
		part, err := parsePart(raw)
		if err != nil {
			return host.Errorf(host.InvalidArgument, "key part %d: %s", i+1, err).With("field", "["+strconv.Itoa(i)+"]")
		}
		(*k)[i] = part
	}
	return nil
}

func parsePart(raw []byte) (any, error) {
	switch raw[0] {
	case '"':
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		// The decoder replaces text that is not Unicode by U+FFFD, so two keys would become one.
		if !utf8.Valid(raw) || strings.Count(s, "\uFFFD") != replacements(raw) {
			return nil, fmt.Errorf("%s is not Unicode", clip(raw))
		}
		return s, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '{':
		var text bytes.Buffer
		if json.Compact(&text, raw) == nil && placeholder.FindString(text.String()) == text.String() {
			return parsePlaceholder(text.String()), nil
		}
		return parseBytes(raw)
	case 'n', '[':
		return nil, fmt.Errorf("%s is not a string, number, boolean or {\"$bytes\":base64}", clip(raw))
	}
	return parseNumber(string(raw))
}

func parseBytes(raw []byte) (any, error) {
	var members map[string]*string
	if json.Unmarshal(raw, &members) == nil && len(members) == 1 {
		for name, text := range members {
			if text == nil || name != "$bytes" && name != "$raw" {
				continue
			}
			b, err := base64.StdEncoding.Strict().DecodeString(*text)
			switch {
			case err != nil:
				return nil, fmt.Errorf("%s is not base64", clip([]byte(*text)))
			case name == "$raw":
				return unpack(b), nil
			}
			return b, nil
		}
	}
	return nil, fmt.Errorf("%s is not {\"$bytes\":base64}", clip(raw))
}

// unpack reads the stored form of one part. Other bytes are Raw.
func unpack(raw []byte) any {
	if t, err := tuple.Unpack(raw); err == nil && len(t) == 1 {
		return t[0]
	}
	return Raw(raw)
}

func parseNumber(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is out of the range of a double", clip([]byte(text)))
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	// 255 bytes are at most 615 digits. Converting more would take time that grows with their
	// square.
	if i, ok := new(big.Int), false; len(text) <= 616 {
		if i, ok = i.SetString(text, 10); ok && i.BitLen() <= 8*tuple.MaxBigIntBytes {
			return i, nil
		}
	}
	return nil, fmt.Errorf("%s is an integer of more than %d bytes", clip([]byte(text)), tuple.MaxBigIntBytes)
}

// MarshalCBOR writes the key as an array.
func (k Key) MarshalCBOR() ([]byte, error) {
	parts := slices.Clone([]any(k))
	for i, part := range parts {
		if p, is := part.(Placeholder); is {
			parts[i] = p.binary()
		} else if opaque(part) {
			raw, err := stored(part)
			if err != nil {
				return nil, err
			}
			parts[i] = map[string][]byte{"$raw": raw}
		}
	}
	return cbor.Marshal(parts)
}

// UnmarshalCBOR reads an array. Integers become the same Go types as from JSON.
func (k *Key) UnmarshalCBOR(b []byte) error {
	var parts []any
	if err := tooLong(b); err != nil {
		return err
	}
	if err := cbor.Unmarshal(b, &parts); err != nil {
		return host.Errorf(host.InvalidArgument, "a key is an array of strings, numbers, booleans and bytes")
	}
	if err := tooMany(len(parts)); err != nil {
		return err
	}
	for i, part := range parts {
		switch n := part.(type) {
		case []any: // it may have as many elements as bytes
			return host.Errorf(host.InvalidArgument,
				"key part %d is an array, and not a string, number, boolean or bytes", i+1).
				With("field", "["+strconv.Itoa(i)+"]")
		case uint64:
			if n <= math.MaxInt64 {
				parts[i] = int64(n)
			}
		case big.Int:
			parts[i] = &n
		case map[any]any:
			if p := fromBinary(n); p != "" {
				parts[i] = p
				continue
			}
			raw, is := n["$raw"].([]byte)
			if !is || len(n) != 1 {
				return host.Errorf(host.InvalidArgument,
					"key part %d is a map, and not {\"$raw\":bytes}", i+1).With("field", "["+strconv.Itoa(i)+"]")
			}
			parts[i] = unpack(raw)
		}
	}
	*k = parts
	return nil
}

// replacements counts the U+FFFD that a JSON string itself contains.
func replacements(raw []byte) int {
	n := 0
	for i := 0; i < len(raw); {
		switch {
		case raw[i] != '\\':
			r, size := utf8.DecodeRune(raw[i:])
			if r == utf8.RuneError {
				n++
			}
			i += size
		case raw[i+1] == 'u':
			if strings.EqualFold(string(raw[i+2:i+6]), "fffd") {
				n++
			}
			i += 6
		default:
			i += 2
		}
	}
	return n
}

// Entry returns the key of one entry as a tuple. The error code is InvalidArgument.
func (k Key) Entry() (tuple.Tuple, error) {
	if len(k) == 0 {
		return nil, host.Errorf(host.InvalidArgument,
			"the key is missing or empty; an array of strings, numbers, booleans and bytes is expected")
	}
	return k.Tuple()
}

// Tuple checks the parts of a key or prefix, which need not come from JSON, and returns it as a
// tuple. The error code is InvalidArgument.
func (k Key) Tuple() (tuple.Tuple, error) {
	for i, part := range k {
		if fault := unfit(part); fault != "" {
			return nil, host.Errorf(host.InvalidArgument, "key part %d %s", i+1, fault).
				With("field", "["+strconv.Itoa(i)+"]")
		}
	}
	return tuple.Tuple(k), nil
}

// Pack returns the stored form of a key whose parts may have any type. The error code is
// InvalidArgument.
func (k Key) Pack() ([]byte, error) { return k.Append(nil) }

// Append appends the stored form of a key.
func (k Key) Append(dst []byte) ([]byte, error) {
	for i, part := range k {
		fault := ""
		switch part.(type) {
		case Raw:
			fault = ": $raw is not the stored form of a part"
		case Placeholder:
			fault = " " + unfit(part)
		default:
			continue
		}
		return nil, host.Errorf(host.InvalidArgument, "key part %d%s", i+1, fault).
			With("field", "["+strconv.Itoa(i)+"]")
	}
	b, err := tuple.Append(dst, tuple.Tuple(k))
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "%s", err)
	}
	return b, nil
}

// PackBound is Pack for a bound of a range, which may end with Raw.
func (k Key) PackBound() ([]byte, error) {
	last := len(k) - 1
	if last < 0 {
		return nil, nil
	}
	raw, is := k[last].(Raw)
	if !is {
		return k.Pack()
	}
	b, err := k[:last].Pack()
	return append(b, raw...), err
}

// clip shortens the text of an error message.
func clip(b []byte) string {
	const most = 40
	if len(b) <= most {
		return string(b)
	}
	return strings.ToValidUTF8(string(b[:most]), "") + "…"
}
