// Package value has the values of entries of a key-value store: how each encoding looks in JSON,
// and the results of mutations of a stored value and their operand.
package value

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// MaxDepth is how deep the arrays and objects of a JSON document may nest: few readers of JSON take
// much more.
const MaxDepth = 500

// A Value is the value of an entry.
type Value struct {
	Encoding host.Encoding
	Data     []byte
}

// JSON returns a document as a value: without white space between its tokens, otherwise as it was
// written. The error code is InvalidArgument, or TooLarge if it nests too deep.
func JSON(text []byte) (Value, error) {
	if len(text) == 0 {
		return Value{}, host.Errorf(host.InvalidArgument,
			"the value is missing; a JSON document is expected (null is one)")
	}
	var compact bytes.Buffer
	if !utf8.Valid(text) || json.Compact(&compact, text) != nil {
		return Value{}, host.Errorf(host.InvalidArgument, "the value is not JSON")
	}
	if err := host.CheckJSON(compact.Bytes(), nil); err != nil {
		return Value{}, host.WithMember(host.Errorf(host.InvalidArgument, "%s", err), "", err)
	}
	if n := depth(compact.Bytes()); n > MaxDepth {
		return Value{}, host.OverLimit("depth", MaxDepth, int64(n))
	}
	return Value{host.EncodedJSON, compact.Bytes()}, nil
}

// depth returns how deep valid JSON nests.
func depth(text []byte) (most int) {
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			most = max(most, level)
		case c == ']' || c == '}':
			level--
		}
	}
	return most
}

// Integer returns an integer as a value of its own encoding.
func Integer(n *big.Int) Value {
	b := make([]byte, 1, 1+(n.BitLen()+7)/8)
	if n.Sign() < 0 {
		b[0] = 1
	}
	return Value{host.EncodedInteger, append(b, n.Bytes()...)}
}

// integer reads the result of Integer.
func (v Value) integer() (*big.Int, error) {
	if len(v.Data) == 0 || v.Data[0] > 1 || len(v.Data) > 1 && v.Data[1] == 0 || len(v.Data) == 1 && v.Data[0] == 1 {
		return nil, errors.New("is a damaged integer")
	}
	n := new(big.Int).SetBytes(v.Data[1:])
	if v.Data[0] == 1 {
		n.Neg(n)
	}
	return n, nil
}

// U64 returns an integer of 8 bytes as a value.
func U64(n uint64) Value { return Value{host.EncodedU64, binary.LittleEndian.AppendUint64(nil, n)} }

func (v Value) u64() (uint64, error) {
	if len(v.Data) != 8 {
		return 0, fmt.Errorf("has %d bytes, not the 8 of a u64", len(v.Data))
	}
	return binary.LittleEndian.Uint64(v.Data), nil
}

// AppendJSON appends the value as JSON. Bytes are {"$bytes":base64}, integers of any size are
// numbers, and CBOR is translated. V8's form is translated if it is plain data, otherwise it is
// {"$v8":base64}. The error is about the value, which is damaged.
func (v Value) AppendJSON(dst []byte) ([]byte, error) {
	switch v.Encoding {
	case host.EncodedJSON:
		return append(dst, v.Data...), nil
	case host.EncodedText:
		text, err := json.Marshal(string(v.Data))
		return append(dst, text...), err
	case host.EncodedU64:
		n, err := v.u64()
		if err != nil {
			return dst, err
		}
		return fmt.Append(dst, n), nil
	case host.EncodedInteger:
		n, err := v.integer()
		if err != nil {
			return dst, err
		}
		return n.Append(dst, 10), nil
	case host.EncodedCBOR, host.EncodedTyped:
		return appendCBOR(dst, v.Data)
	case host.EncodedV8:
		out, err := v8.AppendJSON(dst, v.Data)
		if err != nil {
			return appendBase64(dst, "$v8", v.Data), nil
		}
		return out, nil
	case host.Unencoded:
		return appendUnencoded(dst, v.Data), nil
	}
	return appendBase64(dst, "$bytes", v.Data), nil
}

func appendBase64(dst []byte, member string, b []byte) []byte {
	dst = append(append(append(dst, `{"`...), member...), `":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, `"}`...)
}
