package tuple

import (
	"bytes"
	"math"
	"math/big"
)

// integer is a decoded integer: a sign and a magnitude, which is small if it fits eight bytes and
// big otherwise.
type integer struct {
	negative bool
	small    uint64
	big      []byte // as stored: inverted if negative
	end      int    // offset after the integer
}

// integer parses the next element without moving past it.
func (d *Decoder) integer() (integer, error) {
	if err := d.want(TypeInt); err != nil {
		return integer{}, err
	}
	code := d.b[d.off]
	v := integer{negative: code < codeIntZero}
	at, n := d.off+1, int(code)-codeIntZero
	switch {
	case code == codePosBig || code == codeNegBig:
		length, err := d.take(at, 1, TypeInt)
		if err != nil {
			return integer{}, err
		}
		n = int(length[0])
		if v.negative {
			n ^= 0xFF
		}
		if n <= 8 {
			return integer{}, &SyntaxError{at, "big integer of eight bytes or less"}
		}
		at++
	case v.negative:
		n = -n
	}
	digits, err := d.take(at, n, TypeInt)
	if err != nil {
		return integer{}, err
	}
	v.end = at + n
	if n > 0 && (digits[0] == 0 && !v.negative || digits[0] == 0xFF && v.negative) {
		return integer{}, &SyntaxError{at, "integer has a leading zero byte"}
	}
	if n > 8 {
		v.big = digits
		return v, nil
	}
	for _, c := range digits {
		if v.negative {
			c = ^c
		}
		v.small = v.small<<8 | uint64(c)
	}
	return v, nil
}

// short reads a non-negative integer of zero to eight bytes, as nearly all integers in keys are.
// For any other element, even a malformed one, it returns false and does not move.
func (d *Decoder) short() (v uint64, ok bool) {
	b := d.b[d.off:]
	if len(b) == 0 || b[0] < codeIntZero || b[0] >= codePosBig {
		return 0, false
	}
	n := int(b[0] - codeIntZero)
	if len(b) <= n || n > 0 && b[1] == 0 {
		return 0, false
	}
	for _, c := range b[1 : 1+n] {
		v = v<<8 | uint64(c)
	}
	d.off += 1 + n
	return v, true
}

// Int reads an integer; it returns an error for one outside the range of int64.
func (d *Decoder) Int() (int64, error) {
	start := d.off
	if v, ok := d.short(); ok && v <= math.MaxInt64 {
		return int64(v), nil
	}
	d.off = start
	v, err := d.integer()
	if err != nil {
		return 0, err
	}
	var n int64
	switch {
	case v.big == nil && !v.negative && v.small <= math.MaxInt64:
		n = int64(v.small)
	case v.big == nil && v.negative && v.small <= 1<<63:
		n = int64(-v.small)
	default:
		return 0, &SyntaxError{d.off, "integer outside the range of int64"}
	}
	d.off = v.end
	return n, nil
}

// Uint reads an integer; it returns an error for one outside the range of uint64.
func (d *Decoder) Uint() (uint64, error) {
	if v, ok := d.short(); ok {
		return v, nil
	}
	v, err := d.integer()
	if err != nil {
		return 0, err
	}
	if v.negative || v.big != nil {
		return 0, &SyntaxError{d.off, "integer outside the range of uint64"}
	}
	d.off = v.end
	return v.small, nil
}

// BigInt reads an integer of any size.
func (d *Decoder) BigInt() (*big.Int, error) {
	v, err := d.integer()
	if err != nil {
		return nil, err
	}
	d.off = v.end
	return v.bigInt(), nil
}

func (v integer) bigInt() *big.Int {
	n := new(big.Int)
	switch {
	case v.big == nil:
		n.SetUint64(v.small)
	case v.negative:
		magnitude := bytes.Clone(v.big)
		invert(magnitude)
		n.SetBytes(magnitude)
	default:
		n.SetBytes(v.big)
	}
	if v.negative {
		n.Neg(n)
	}
	return n
}
