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

// appendCBOR appends CBOR as JSON: byte strings are {"$bytes":base64}, keys that are no texts are their JSON as a text,
// and numbers that JSON does not have are null. Members are in the order of their names. What JSON cannot hold is
// {"$cbor":base64}: a value with a text that is not UTF-8 or with a name twice, and an integer of too many digits.
func appendCBOR(dst, data []byte) ([]byte, error) {
	var v any
	if decoding.Unmarshal(data, &v) == nil {
		return appendAny(dst, v), nil
	}
	if err := decoding.Wellformed(data); err != nil {
		return dst, fmt.Errorf("is damaged CBOR: %w", err)
	}
	return appendBase64(dst, "$cbor", data), nil
}

func appendAny(dst []byte, v any) []byte {
	switch v := v.(type) {
	case []byte:
		return appendBase64(dst, "$bytes", v)
	case cbor.ByteString:
		return appendBase64(dst, "$bytes", []byte(v))
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
	case cbor.Tag:
		return appendAny(dst, v.Content)
	case []any:
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAny(dst, element)
		}
		return append(dst, ']')
	case map[any]any:
		return appendMap(dst, v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, text...)
}

func appendMap(dst []byte, m map[any]any) []byte {
	type member struct {
		name  string
		kind  string // orders 1 and "1", which are both "1"
		value any
	}
	members := make([]member, 0, len(m))
	for k, v := range m {
		name := ""
		switch k := k.(type) {
		case string:
			name = k
		case cbor.ByteString:
			name = base64.StdEncoding.EncodeToString([]byte(k))
		default:
			name = string(appendAny(nil, k))
		}
		members = append(members, member{name, fmt.Sprintf("%T", k), v})
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.kind, b.kind))
	})
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendAny(append(appendAny(dst, m.name), ':'), m.value)
	}
	return append(dst, '}')
}

// appendUnencoded appends a value of an earlier release. A cell stored JSON, or, under the keys of a message that was given
// up, a CBOR byte string that holds JSON; a Map of a Go actor stored CBOR. One byte from 0 to 9 may be either; it is JSON.
func appendUnencoded(dst, data []byte) []byte {
	if utf8.Valid(data) && json.Valid(data) {
		return append(dst, data...)
	}
	var v any
	if decoding.Unmarshal(data, &v) != nil {
		return appendBase64(dst, "$bytes", data)
	}
	if text, is := v.([]byte); is && utf8.Valid(text) && json.Valid(text) {
		return append(dst, text...)
	}
	return appendAny(dst, v)
}
