package tuple

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strings"
)

// Codes of the elements. They are part of the format and never change.
const (
	codeNil          = 0x00
	codeBytes        = 0x01
	codeString       = 0x02
	codeNested       = 0x05
	codeNegBig       = 0x0B // then the length, inverted, then the magnitude, inverted
	codeIntZero      = 0x14 // 0x14+n: positive of n bytes; 0x14-n: negative of n bytes, inverted
	codePosBig       = 0x1D // then the length, then the magnitude
	codeFloat32      = 0x20
	codeFloat64      = 0x21
	codeFalse        = 0x26
	codeTrue         = 0x27
	codeUUID         = 0x30
	codeVersionstamp = 0x33

	escape = 0xFF // after a 00 of content, and after the 00 of a nested nil
)

// Append appends the packed form of t to dst. If an element cannot be packed
// it returns dst as it was and an [*ElementError]. It allocates only to grow
// dst.
func Append(dst []byte, t Tuple) ([]byte, error) {
	n := len(dst)
	for i, e := range t {
		var bad any
		var err error
		if dst, bad, err = appendElement(dst, e, 0); err != nil {
			return dst[:n], &ElementError{Index: i, Type: fmt.Sprintf("%T", bad), Err: err}
		}
	}
	return dst, nil
}

// appendElement appends e, which is depth tuples deep. On error it returns the bad element, and dst
// with an unspecified tail.
func appendElement(dst []byte, e any, depth int) (_ []byte, bad any, err error) {
	switch e := e.(type) {
	case nil:
		if depth > 0 {
			return AppendNestedNil(dst), nil, nil
		}
		return AppendNil(dst), nil, nil
	case []byte:
		return AppendBytes(dst, e), nil, nil
	case string:
		return AppendString(dst, e), nil, nil
	case int:
		return AppendInt(dst, int64(e)), nil, nil
	case int8:
		return AppendInt(dst, int64(e)), nil, nil
	case int16:
		return AppendInt(dst, int64(e)), nil, nil
	case int32:
		return AppendInt(dst, int64(e)), nil, nil
	case int64:
		return AppendInt(dst, e), nil, nil
	case uint:
		return AppendUint(dst, uint64(e)), nil, nil
	case uint8:
		return AppendUint(dst, uint64(e)), nil, nil
	case uint16:
		return AppendUint(dst, uint64(e)), nil, nil
	case uint32:
		return AppendUint(dst, uint64(e)), nil, nil
	case uint64:
		return AppendUint(dst, e), nil, nil
	case *big.Int:
		if e == nil {
			return dst, e, ErrType
		}
		if dst, err = AppendBigInt(dst, e); err != nil {
			return dst, e, err
		}
		return dst, nil, nil
	case float32:
		return AppendFloat32(dst, e), nil, nil
	case float64:
		return AppendFloat64(dst, e), nil, nil
	case bool:
		return AppendBool(dst, e), nil, nil
	case UUID:
		return AppendUUID(dst, e), nil, nil
	case Versionstamp:
		if dst, err = AppendVersionstamp(dst, e); err != nil {
			return dst, e, err
		}
		return dst, nil, nil
	case Tuple:
		if depth == MaxDepth {
			return dst, e, ErrDepth
		}
		dst = BeginNested(dst)
		for _, inner := range e {
			if dst, bad, err = appendElement(dst, inner, depth+1); err != nil {
				return dst, bad, err
			}
		}
		return EndNested(dst), nil, nil
	default:
		return dst, e, ErrType
	}
}

// AppendNil appends a nil of the outermost tuple. Inside a nested tuple use
// [AppendNestedNil]: there a bare 00 would end the tuple.
func AppendNil(dst []byte) []byte { return append(dst, codeNil) }

// AppendNestedNil appends a nil between [BeginNested] and [EndNested].
func AppendNestedNil(dst []byte) []byte { return append(dst, codeNil, escape) }

// BeginNested begins a nested tuple; the elements until [EndNested] belong to it. The caller keeps
// the two balanced, at most [MaxDepth] deep.
func BeginNested(dst []byte) []byte { return append(dst, codeNested) }

// EndNested ends the nested tuple that the last open [BeginNested] began.
func EndNested(dst []byte) []byte { return append(dst, codeNil) }

// AppendBytes appends a byte string.
func AppendBytes(dst, b []byte) []byte {
	dst = append(dst, codeBytes)
	dst = AppendEscaped(dst, b)
	return append(dst, codeNil)
}

// AppendEscaped appends b with each 00 written as 00 FF: the content of a byte string without code
// and terminator. Escaping keeps the order of byte strings, and the escaped form of a prefix of b
// is a prefix of the escaped form of b; range scans need both.
func AppendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i+1]...)
		dst = append(dst, escape)
		b = b[i+1:]
	}
}

// AppendString appends a string. It does not check that s is UTF-8.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, codeString)
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			dst = append(dst, s...)
			return append(dst, codeNil)
		}
		dst = append(dst, s[:i+1]...)
		dst = append(dst, escape)
		s = s[i+1:]
	}
}

// AppendInt appends an integer.
func AppendInt(dst []byte, v int64) []byte {
	if v >= 0 {
		return AppendUint(dst, uint64(v))
	}
	magnitude := -uint64(v) // also right for math.MinInt64
	n := byteLen(magnitude)
	dst = append(dst, byte(codeIntZero-n))
	return appendLow(dst, ^magnitude, n)
}

// AppendUint appends an integer that is not negative.
func AppendUint(dst []byte, v uint64) []byte {
	n := byteLen(v)
	dst = append(dst, byte(codeIntZero+n))
	return appendLow(dst, v, n)
}

// byteLen returns how many bytes v needs: 0 for 0.
func byteLen(v uint64) int { return (bits.Len64(v) + 7) / 8 }

// appendLow appends the low n bytes of v, most significant first.
func appendLow(dst []byte, v uint64, n int) []byte {
	for shift := 8 * (n - 1); shift >= 0; shift -= 8 {
		dst = append(dst, byte(v>>shift))
	}
	return dst
}

// AppendBigInt appends an integer of up to [MaxBigIntBytes] bytes; for a larger one it returns
// [ErrRange] and dst unchanged. An integer that fits eight bytes gets the same bytes as from
// [AppendInt] and [AppendUint].
func AppendBigInt(dst []byte, v *big.Int) ([]byte, error) {
	n := (v.BitLen() + 7) / 8
	if n > MaxBigIntBytes {
		return dst, ErrRange
	}
	negative := v.Sign() < 0
	switch {
	case n <= 8 && negative:
		dst = append(dst, byte(codeIntZero-n))
	case n <= 8:
		dst = append(dst, byte(codeIntZero+n))
	case negative:
		dst = append(dst, codeNegBig, ^byte(n))
	default:
		dst = append(dst, codePosBig, byte(n))
	}
	at := len(dst)
	for range n {
		dst = append(dst, 0)
	}
	v.FillBytes(dst[at:])
	if negative {
		invert(dst[at:])
	}
	return dst, nil
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// AppendFloat32 appends a float32. In the order it is a separate type: every float32 sorts before
// every float64.
func AppendFloat32(dst []byte, v float32) []byte {
	dst = append(dst, codeFloat32)
	return binary.BigEndian.AppendUint32(dst, orderFloat32(math.Float32bits(v)))
}

// AppendFloat64 appends a float64.
func AppendFloat64(dst []byte, v float64) []byte {
	dst = append(dst, codeFloat64)
	return binary.BigEndian.AppendUint64(dst, orderFloat64(math.Float64bits(v)))
}

// orderFloat32 maps the bits of floats to integers in the same order: it flips all bits of a
// negative number, and only the sign bit of others.
func orderFloat32(b uint32) uint32 {
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func orderFloat64(b uint64) uint64 {
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// AppendBool appends a boolean; false sorts before true.
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, codeTrue)
	}
	return append(dst, codeFalse)
}

// AppendUUID appends a UUID.
func AppendUUID(dst []byte, u UUID) []byte {
	dst = append(dst, codeUUID)
	return append(dst, u[:]...)
}

// AppendVersionstamp appends a complete versionstamp; for an incomplete one it returns
// [ErrIncomplete] and dst unchanged.
func AppendVersionstamp(dst []byte, v Versionstamp) ([]byte, error) {
	if !v.Complete() {
		return dst, ErrIncomplete
	}
	dst = append(dst, codeVersionstamp)
	dst = append(dst, v.Transaction[:]...)
	return binary.BigEndian.AppendUint16(dst, v.User), nil
}
