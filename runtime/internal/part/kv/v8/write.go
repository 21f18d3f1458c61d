package v8

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"
)

// FromJSON returns JSON text as V8 serializes the result of JSON.parse, except that an integer from
// 2^53 on is a bigint, which keeps its digits, and {"$bytes":base64} is a Uint8Array.
func FromJSON(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	out, err := appendValue([]byte{tagVersion, latest}, d, 1)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("v8: text follows the JSON value")
	}
	return out, nil
}

// FromInteger returns an integer as V8 serializes a bigint.
func FromInteger(n *big.Int) []byte { return appendBigInt([]byte{tagVersion, latest}, n) }

// FromDouble returns a double as V8 serializes a number.
func FromDouble(f float64) []byte { return appendDouble([]byte{tagVersion, latest}, f) }

// FromText returns valid UTF-8 as V8 serializes a string.
func FromText(s string) []byte { return appendString([]byte{tagVersion, latest}, s) }

func appendValue(dst []byte, d *json.Decoder, depth int) ([]byte, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("v8: %w", err)
	}
	switch v := token.(type) {
	case nil:
		return append(dst, tagNull), nil
	case bool:
		if v {
			return append(dst, tagTrue), nil
		}
		return append(dst, tagFalse), nil
	case string:
		return appendString(dst, v), nil
	case json.Number:
		return appendJSONNumber(dst, string(v))
	case json.Delim:
		if depth > MaxDepth {
			return nil, fmt.Errorf("v8: the value nests deeper than %d", MaxDepth)
		}
		if v == '[' {
			return appendArray(dst, d, depth)
		}
		return appendObject(dst, d, depth)
	}
	return nil, fmt.Errorf("v8: %T in JSON", token)
}

func appendArray(dst []byte, d *json.Decoder, depth int) ([]byte, error) {
	var elements []byte
	n := uint64(0)
	for ; d.More(); n++ {
		var err error
		if elements, err = appendValue(elements, d, depth+1); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("v8: %w", err)
	}
	dst = binary.AppendUvarint(append(dst, tagDense), n)
	dst = append(append(dst, elements...), tagDenseEnd, 0)
	return binary.AppendUvarint(dst, n), nil
}

// appendObject appends an object, whose first token was read. Of members with one name the last
// counts, in the place of the first, as in JSON.parse.
func appendObject(dst []byte, d *json.Decoder, depth int) ([]byte, error) {
	type member struct {
		name  string
		value []byte
	}
	var members []member
	places := make(map[string]int)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("v8: %w", err)
		}
		name, _ := token.(string)
		value, err := appendValue(nil, d, depth+1)
		if err != nil {
			return nil, err
		}
		if i, there := places[name]; there {
			members[i].value = value
			continue
		}
		places[name] = len(members)
		members = append(members, member{name, value})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("v8: %w", err)
	}
	if len(members) == 1 && members[0].name == "$bytes" {
		if b, ok := plainBytes(members[0].value); ok {
			return appendBytes(dst, b), nil
		}
	}
	// JavaScript orders the members whose names are indexes before the others, by number.
	slices.SortStableFunc(members, func(a, b member) int {
		x, isX := index(a.name)
		y, isY := index(b.name)
		switch {
		case isX && isY:
			return int(int64(x) - int64(y))
		case isX:
			return -1
		case isY:
			return 1
		}
		return 0
	})
	dst = append(dst, tagObject)
	for _, m := range members {
		if n, is := index(m.name); is {
			dst = appendIndex(dst, n)
		} else {
			dst = appendString(dst, m.name)
		}
		dst = append(dst, m.value...)
	}
	return binary.AppendUvarint(append(dst, tagObjectEnd), uint64(len(members))), nil
}

// plainBytes returns the bytes whose base64 a serialized string is.
func plainBytes(value []byte) ([]byte, bool) {
	d := &decoder{b: value}
	t, err := d.tag()
	if err != nil || t != tagLatin1 {
		return nil, false
	}
	text, err := d.text(t)
	if err != nil {
		return nil, false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return b, err == nil
}

// index returns the number of a member's name, if JavaScript takes it for an index of an array.
func index(name string) (uint32, bool) {
	if name == "" || len(name) > 10 || name[0] == '0' && len(name) > 1 {
		return 0, false
	}
	n := uint64(0)
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + uint64(c-'0')
	}
	return uint32(n), n < math.MaxUint32
}

// appendIndex appends an index, which is a small integer up to 2^30-1 for V8 with 31-bit integers
// and a double above.
func appendIndex(dst []byte, n uint32) []byte {
	if n <= math.MaxInt32 {
		return appendInt32(dst, int32(n))
	}
	return appendDouble(dst, float64(n))
}

func appendInt32(dst []byte, n int32) []byte {
	return binary.AppendUvarint(append(dst, tagInt32), uint64(uint32(n<<1)^uint32(n>>31)))
}

func appendDouble(dst []byte, f float64) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, tagDouble), math.Float64bits(f))
}

func appendJSONNumber(dst []byte, text string) ([]byte, error) {
	f, err := json.Number(text).Float64()
	whole := !strings.ContainsAny(text, ".eE")
	switch {
	case whole && err == nil && math.Abs(f) < 1<<53:
		if n := int64(f); n >= math.MinInt32 && n <= math.MaxInt32 && !(n == 0 && text[0] == '-') {
			return appendInt32(dst, int32(n)), nil
		}
		return appendDouble(dst, f), nil
	case whole:
		if len(strings.TrimPrefix(text, "-")) > MaxDigits {
			return nil, fmt.Errorf("v8: an integer has more than %d digits", MaxDigits)
		}
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return nil, fmt.Errorf("v8: %.40q is not a number", text)
		}
		return appendBigInt(dst, n), nil
	case err != nil:
		return nil, fmt.Errorf("v8: %.40s is out of the range of a double", text)
	}
	return appendDouble(dst, f), nil
}

func appendBigInt(dst []byte, n *big.Int) []byte {
	b := n.Bytes()
	slices.Reverse(b)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	field := uint64(len(b)) << 1
	if n.Sign() < 0 {
		field |= 1
	}
	return append(binary.AppendUvarint(append(dst, tagBigInt), field), b...)
}

// appendString appends text in one-byte characters if they can hold it, otherwise in two-byte ones.
func appendString(dst []byte, s string) []byte {
	latin := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xFF {
			latin = nil
			break
		}
		latin = append(latin, byte(r))
	}
	if latin != nil {
		return append(binary.AppendUvarint(append(dst, tagLatin1), uint64(len(latin))), latin...)
	}
	units := utf16.Encode([]rune(s))
	dst = binary.AppendUvarint(append(dst, tagUTF16), uint64(2*len(units)))
	for _, u := range units {
		dst = binary.LittleEndian.AppendUint16(dst, u)
	}
	return dst
}

// appendBytes appends a Uint8Array.
func appendBytes(dst, b []byte) []byte {
	dst = append(binary.AppendUvarint(append(dst, tagBuffer), uint64(len(b))), b...)
	dst = append(dst, tagView, 'B', 0)
	return append(binary.AppendUvarint(dst, uint64(len(b))), 0)
}
