package tuple

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
)

// Compare orders two tuples as their packed forms order bytewise: element by element, a tuple
// before its extensions. Elements of different types order nil < bytes < string < tuple < integer <
// float32 < float64 < bool < UUID < versionstamp; integers by value, of any Go type; floats by
// value, with negative zero below zero and NaNs by sign and payload outside the infinities.
//
// A value without an encoding sorts after every value with one, and equal to every other such
// value, so Compare stays a total order.
func Compare(a, b Tuple) int {
	for i := range min(len(a), len(b)) {
		if c := compareElements(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// rank places the types in the order of their codes.
type rank int

const (
	rankNil rank = iota
	rankBytes
	rankString
	rankTuple
	rankInt
	rankFloat32
	rankFloat64
	rankBool
	rankUUID
	rankVersionstamp
	rankNone
)

func rankOf(e any) rank {
	switch e := e.(type) {
	case nil:
		return rankNil
	case []byte:
		return rankBytes
	case string:
		return rankString
	case Tuple:
		return rankTuple
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return rankInt
	case *big.Int:
		if e == nil {
			return rankNone
		}
		return rankInt
	case float32:
		return rankFloat32
	case float64:
		return rankFloat64
	case bool:
		return rankBool
	case UUID:
		return rankUUID
	case Versionstamp:
		return rankVersionstamp
	default:
		return rankNone
	}
}

func compareElements(a, b any) int {
	r := rankOf(a)
	if c := cmp.Compare(r, rankOf(b)); c != 0 {
		return c
	}
	switch r {
	case rankBytes:
		return bytes.Compare(a.([]byte), b.([]byte))
	case rankString:
		return cmp.Compare(a.(string), b.(string))
	case rankTuple:
		return Compare(a.(Tuple), b.(Tuple))
	case rankInt:
		return compareInts(a, b)
	case rankFloat32:
		return cmp.Compare(orderFloat32(math.Float32bits(a.(float32))), orderFloat32(math.Float32bits(b.(float32))))
	case rankFloat64:
		return cmp.Compare(orderFloat64(math.Float64bits(a.(float64))), orderFloat64(math.Float64bits(b.(float64))))
	case rankBool:
		return compareBools(a.(bool), b.(bool))
	case rankUUID:
		x, y := a.(UUID), b.(UUID)
		return bytes.Compare(x[:], y[:])
	case rankVersionstamp:
		x, y := a.(Versionstamp), b.(Versionstamp)
		if c := bytes.Compare(x.Transaction[:], y.Transaction[:]); c != 0 {
			return c
		}
		return cmp.Compare(x.User, y.User)
	default:
		return 0
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func compareInts(a, b any) int {
	x, xBig := a.(*big.Int)
	y, yBig := b.(*big.Int)
	if xBig || yBig {
		if !xBig {
			x = toBig(a)
		}
		if !yBig {
			y = toBig(b)
		}
		return x.Cmp(y)
	}
	xNeg, xMag := signMagnitude(a)
	yNeg, yMag := signMagnitude(b)
	switch {
	case xNeg && yNeg:
		return cmp.Compare(yMag, xMag)
	case xNeg:
		return -1
	case yNeg:
		return 1
	default:
		return cmp.Compare(xMag, yMag)
	}
}

func toBig(e any) *big.Int {
	negative, magnitude := signMagnitude(e)
	v := new(big.Int).SetUint64(magnitude)
	if negative {
		v.Neg(v)
	}
	return v
}

func signMagnitude(e any) (negative bool, magnitude uint64) {
	switch e := e.(type) {
	case int:
		return e < 0, abs(int64(e))
	case int8:
		return e < 0, abs(int64(e))
	case int16:
		return e < 0, abs(int64(e))
	case int32:
		return e < 0, abs(int64(e))
	case int64:
		return e < 0, abs(e)
	case uint:
		return false, uint64(e)
	case uint8:
		return false, uint64(e)
	case uint16:
		return false, uint64(e)
	case uint32:
		return false, uint64(e)
	case uint64:
		return false, e
	default:
		return false, 0
	}
}

func abs(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}
