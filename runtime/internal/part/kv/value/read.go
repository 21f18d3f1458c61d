package value

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// Stored returns bytes that a caller gives in their stored form as a value. The error code is
// InvalidArgument, or TooLarge.
func Stored(encoding host.Encoding, data []byte) (Value, error) {
	v := Value{encoding, data}
	var err error
	switch encoding {
	case host.EncodedJSON:
		return JSON(data)
	case host.EncodedText:
		if !utf8.Valid(data) {
			return v, host.Errorf(host.InvalidArgument, "the value is not UTF-8")
		}
	case host.EncodedU64:
		_, err = v.u64()
	case host.EncodedInteger:
		var n *big.Int
		if n, err = v.integer(); err == nil && v8.Long(n) {
			err = fmt.Errorf("has more than %d digits", MaxDigits)
		}
	case host.EncodedCBOR, host.EncodedTyped:
		if decoding.Wellformed(data) != nil {
			return v, host.Errorf(host.InvalidArgument, "the value is not CBOR")
		}
	case host.EncodedV8:
		if len(data) < 2 || data[0] != v8.Header { // the rest is the client's
			return v, host.Errorf(host.InvalidArgument, "the value is not serialized by V8")
		}
	}
	if err != nil {
		return v, host.Errorf(host.InvalidArgument, "the value %s", err)
	}
	return v, nil
}

// FromJSON reads a value from the JSON form of AppendJSON, where CBOR is {"$cbor":base64}. The
// error code is InvalidArgument, or TooLarge.
func FromJSON(encoding host.Encoding, text []byte) (Value, error) {
	document, err := JSON(text)
	if err != nil || encoding == host.EncodedJSON {
		return document, err
	}
	word := encoding.String()
	switch encoding {
	case host.EncodedText:
		var s *string
		if json.Unmarshal(document.Data, &s) != nil || s == nil {
			return Value{}, host.Errorf(host.InvalidArgument, "a value of the encoding text is a string")
		}
		if strings.Count(*s, "\uFFFD") != replacements(document.Data) {
			return Value{},
				host.Errorf(host.InvalidArgument, "the value is not Unicode: it has a surrogate without its partner")
		}
		return Value{encoding, []byte(*s)}, nil
	case host.EncodedU64, host.EncodedInteger:
		n, err := parseNumber(document.Data)
		if err != nil || n.isDouble() || encoding == host.EncodedU64 && !n.integer.IsUint64() {
			return Value{},
				host.Errorf(host.InvalidArgument, "a value of the encoding %s is a whole number that fits", word)
		}
		if encoding == host.EncodedInteger {
			return Integer(n.integer), nil
		}
		return U64(n.integer.Uint64()), nil
	case host.EncodedBytes:
		return wrapped(encoding, "$bytes", document.Data)
	case host.EncodedCBOR, host.EncodedTyped:
		return wrapped(encoding, "$cbor", document.Data)
	case host.EncodedV8:
		var m map[string]json.RawMessage
		if json.Unmarshal(document.Data, &m) == nil && len(m) == 1 && m["$v8"] != nil {
			return wrapped(encoding, "$v8", document.Data)
		}
		data, err := v8.FromJSON(document.Data)
		if err != nil {
			return Value{}, host.Errorf(host.InvalidArgument, "the value: %s", err)
		}
		return Value{encoding, data}, nil
	}
	return Value{}, host.Errorf(host.InvalidArgument, "%q is not an encoding of a value", word)
}

// replacements counts how often a JSON string has U+FFFD. The decoder also puts it for text that is
// not Unicode.
func replacements(text []byte) int {
	escapes := bytes.ReplaceAll(bytes.ToLower(text), []byte(`\\`), nil)
	return bytes.Count(text, []byte("\uFFFD")) + bytes.Count(escapes, []byte(`\ufffd`))
}

// wrapped reads bytes in an object of one member.
func wrapped(encoding host.Encoding, member string, text []byte) (Value, error) {
	var m map[string]*string
	if json.Unmarshal(text, &m) == nil && len(m) == 1 && m[member] != nil {
		if data, err := base64.StdEncoding.Strict().DecodeString(*m[member]); err == nil {
			return Stored(encoding, data)
		}
	}
	return Value{}, host.Errorf(host.InvalidArgument, "a value of the encoding %s is {%q:base64}", encoding, member)
}
