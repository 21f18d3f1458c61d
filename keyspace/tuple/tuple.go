package tuple

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
)

// MaxDepth is how deep tuples may nest: a tuple inside a tuple has depth 1. The bound stops hostile
// input from exhausting the stack.
const MaxDepth = 64

// MaxBigIntBytes is the largest magnitude of an integer, in bytes.
const MaxBigIntBytes = 255

// Tuple is an ordered sequence of elements. An element is one of
//
//	nil
//	[]byte, string
//	int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64
//	*big.Int (not nil, magnitude of at most MaxBigIntBytes bytes)
//	float32, float64
//	bool
//	UUID
//	Versionstamp (complete)
//	Tuple
//
// Integers of all Go types share one number line: int(7), uint8(7) and
// big.NewInt(7) pack to the same bytes. [Unpack] returns an integer as int64
// if it fits, else as uint64 if it fits, else as *big.Int.
type Tuple []any

// UUID is an element of 16 bytes, ordered bytewise. The package attaches no
// meaning to the bytes.
type UUID [16]byte

// String returns the UUID in the form 8-4-4-4-12, lower-case.
func (u UUID) String() string {
	var b [36]byte
	return string(u.append(b[:0]))
}

func (u UUID) append(dst []byte) []byte {
	for i, c := range u {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{c})
	}
	return dst
}

// Versionstamp is the 12-byte commit position of FoundationDB: ten bytes that the server chose and
// two that order writes within one transaction. If all transaction bytes are FF, it is incomplete
// and cannot be packed.
type Versionstamp struct {
	Transaction [10]byte
	User        uint16
}

// Complete reports whether the transaction bytes have been filled in.
func (v Versionstamp) Complete() bool {
	return v.Transaction != [10]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
}

// Packed is a packed tuple.
type Packed []byte

// Unpack returns the tuple. The elements share no memory with p.
func (p Packed) Unpack() (Tuple, error) { return Unpack(p) }

// Pack returns the packed form of t in a new slice. The error is an
// [*ElementError].
func (t Tuple) Pack() ([]byte, error) {
	return Append(nil, t)
}

// String returns t in a readable form: (nil, x"00ff", "text", 42, 1.5, true, (3, 7)). It is for
// people; distinct tuples may print alike (such as an int and a float32 of equal value).
func (t Tuple) String() string {
	return string(t.AppendText(nil))
}

// AppendText appends the form that [Tuple.String] returns.
func (t Tuple) AppendText(dst []byte) []byte {
	dst = append(dst, '(')
	for i, e := range t {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendElementText(dst, e)
	}
	return append(dst, ')')
}

func appendElementText(dst []byte, e any) []byte {
	switch e := e.(type) {
	case nil:
		return append(dst, "nil"...)
	case []byte:
		dst = append(dst, `x"`...)
		dst = hex.AppendEncode(dst, e)
		return append(dst, '"')
	case string:
		return strconv.AppendQuote(dst, e)
	case int64:
		return strconv.AppendInt(dst, e, 10)
	case uint64:
		return strconv.AppendUint(dst, e, 10)
	case *big.Int:
		return e.Append(dst, 10)
	case float32:
		return strconv.AppendFloat(dst, float64(e), 'g', -1, 32)
	case float64:
		return strconv.AppendFloat(dst, e, 'g', -1, 64)
	case UUID:
		return e.append(dst)
	case Versionstamp:
		dst = append(dst, "versionstamp "...)
		dst = hex.AppendEncode(dst, e.Transaction[:])
		dst = append(dst, '/')
		return strconv.AppendUint(dst, uint64(e.User), 10)
	case Tuple:
		return e.AppendText(dst)
	default:
		return fmt.Append(dst, e)
	}
}
