package value

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// MaxDigits bounds the integers of mutations, in decimal digits. A commit may have thousands, and
// reading a longer one takes time that grows with the square of its length.
const MaxDigits = v8.MaxDigits

// An Op is a mutation that combines the stored value of an entry and an operand.
type Op string

// The mutations of numbers, and of arrays.
const (
	Sum     Op = "sum"
	Min     Op = "min"
	Max     Op = "max"
	Append  Op = "append"
	Prepend Op = "prepend"
)

// Numeric reports whether the operation is one of numbers.
func (o Op) Numeric() bool { return o == Sum || o == Min || o == Max }

// Bounds are what the result of a Sum must not pass. A result beyond them is an error, or is the
// bound if Clamp is set.
type Bounds struct {
	Min, Max *Value
	Clamp    bool
}

// A MismatchError says that a mutation cannot be done with its values. It is matched by ErrMismatch
// or, for a result outside of the Bounds or the range of numbers, by ErrRange.
type MismatchError struct {
	// Operand: the operand is wrong, and otherwise the stored value.
	Operand bool
	reason  string
	kind    error
}

var (
	// ErrMismatch is matched by the error for a value of a type that the operation does not take.
	ErrMismatch = errors.New("the type does not fit")
	// ErrRange is matched by the error for a result that is out of range.
	ErrRange = errors.New("the result is out of range")
)

// Error returns what the value is not: it goes on after "the value".
func (e *MismatchError) Error() string { return e.reason }

// Unwrap returns the kind of the error.
func (e *MismatchError) Unwrap() error { return e.kind }

func mismatch(operand bool, format string, args ...any) error {
	return &MismatchError{operand, fmt.Sprintf(format, args...), ErrMismatch}
}

func outOfRange(format string, args ...any) error {
	return &MismatchError{false, fmt.Sprintf(format, args...), ErrRange}
}

// A number is an operand of the operations of numbers: exactly one of the fields, and u64 as the
// integer.
type number struct {
	integer *big.Int
	double  float64
	u64     bool
}

func (n number) isDouble() bool { return n.integer == nil }

func (n number) float() float64 {
	if n.isDouble() {
		return n.double
	}
	f, _ := n.integer.Float64()
	return f
}

// fits reports whether a double has all digits of the number.
func (n number) fits() bool {
	if n.isDouble() {
		return true
	}
	_, accuracy := n.integer.Float64()
	return accuracy == big.Exact
}

// number reads a value as a number. The text of the error goes on after "the value".
func (v Value) number() (number, error) {
	switch v.Encoding {
	case host.EncodedU64:
		n, err := v.u64()
		return number{integer: new(big.Int).SetUint64(n), u64: true}, err
	case host.EncodedInteger:
		n, err := v.integer()
		return number{integer: n}, err
	case host.EncodedV8:
		n, f, err := v8.Number(v.Data)
		if err != nil {
			return number{}, errors.New("is not a number")
		}
		return number{integer: n, double: f}, nil
	case host.EncodedJSON:
		return parseNumber(v.Data)
	}
	return number{}, fmt.Errorf("is %s, not a number", v.Encoding)
}

// parseNumber reads a number of JSON. One without a fraction and an exponent is an integer.
func parseNumber(text []byte) (number, error) {
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return number{}, fmt.Errorf("is %s, not a number", clip(text))
	}
	if strings.ContainsAny(string(text), ".eE") {
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return number{}, errors.New("is out of the range of a double")
		}
		return number{double: f}, nil
	}
	if digits(text) > MaxDigits {
		return number{}, fmt.Errorf("has more than %d digits", MaxDigits)
	}
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		return number{}, fmt.Errorf("is %s, not a number", clip(text))
	}
	return number{integer: n}, nil
}

// value returns a number in the encoding of a stored number.
func (n number) value(as host.Encoding) (Value, error) {
	switch as {
	case host.EncodedU64:
		if !n.integer.IsUint64() {
			return Value{}, outOfRange("would not fit into 64 bits without a sign")
		}
		return U64(n.integer.Uint64()), nil
	case host.EncodedInteger:
		return Integer(n.integer), n.short()
	case host.EncodedV8:
		if n.isDouble() {
			return Value{as, v8.FromDouble(n.double)}, nil
		}
		return Value{as, v8.FromInteger(n.integer)}, n.short()
	}
	if !n.isDouble() {
		text := n.integer.Append(nil, 10)
		if digits(text) > MaxDigits {
			return Value{}, errTooManyDigits
		}
		return Value{host.EncodedJSON, text}, nil
	}
	if math.IsInf(n.double, 0) || math.IsNaN(n.double) {
		return Value{}, outOfRange("would pass the range of a double")
	}
	text := strconv.AppendFloat(nil, n.double, 'g', -1, 64)
	if !strings.ContainsAny(string(text), ".e") {
		text = append(text, ".0"...) // so that it is read as a double again
	}
	return Value{host.EncodedJSON, text}, nil
}

// short returns an error for an integer with too many digits.
func (n number) short() error {
	if v8.Long(n.integer) {
		return errTooManyDigits
	}
	return nil
}

var errTooManyDigits = outOfRange("would get more than %d digits", MaxDigits)

// digits counts those of an integer in JSON.
func digits(text []byte) int {
	if len(text) > 0 && text[0] == '-' {
		return len(text) - 1
	}
	return len(text)
}

// Check returns what is wrong with an operand, regardless of the stored value.
func (o Op) Check(operand Value) error {
	if !o.Numeric() {
		if !array(operand) && !operand.joins() {
			return mismatch(true, "is %s, not an array", clip(operand.Data))
		}
		return nil
	}
	n, err := operand.number()
	switch {
	case err != nil:
		return mismatch(true, "%s", err)
	case n.isDouble() && math.IsNaN(n.double):
		return mismatch(true, "is not a number")
	}
	return nil
}

// Combine returns the new value of an entry. old is nil if there is no entry: then it is the
// operand, within the bounds.
//
// Integers are exact. A u64 stays one: its sum with another one is taken modulo 2^64, as the
// clients of Deno KV expect. It takes no larger integer, and with a negative one it must not pass
// zero. A sum of an integer and a double is a double in JSON, if that has all digits of the
// integer. The same holds for an integer of JSON and a double of V8. Between a bigint of V8 and a
// u64 the clients of Deno KV know one sum: of a u64 and a bigint in its range, without bounds. All
// else is a mismatch. The elements of arrays stay as they are written.
func (o Op) Combine(old *Value, operand Value, b Bounds) (Value, error) {
	if err := o.Check(operand); err != nil {
		return Value{}, err
	}
	if old != nil && old.Encoding == host.Unencoded {
		text, err := old.AppendJSON(nil)
		if err != nil {
			return Value{}, mismatch(false, "is damaged")
		}
		document, err := JSON(text)
		if err != nil {
			return Value{}, mismatch(false, "is not JSON")
		}
		old = &document
	}
	if !o.Numeric() {
		return o.concatenate(old, operand)
	}
	y, err := operand.number()
	if err != nil {
		return Value{}, mismatch(true, "%s", err)
	}
	if old == nil {
		if y, err = b.within(y); err != nil {
			return Value{}, err
		}
		return y.value(operand.Encoding)
	}
	x, err := old.number()
	if err != nil {
		return Value{}, mismatch(false, "%s", err)
	}
	as := old.Encoding
	switch {
	case x.isDouble() == y.isDouble():
	case y.u64 || x.u64, as != host.EncodedJSON &&
		(as != host.EncodedV8 || !x.isDouble() || operand.Encoding != host.EncodedJSON):
		return Value{}, mismatch(false, "and the operand are numbers of two types")
	case (o == Sum || as != host.EncodedJSON) && (!x.fits() || !y.fits()):
		return Value{}, mismatch(false, "or the operand would lose digits as a double")
	case as != host.EncodedJSON:
		y = number{double: y.float()}
	}
	if x.u64 && o == Sum && y.integer.Sign() > 0 && !y.integer.IsUint64() {
		return Value{}, mismatch(false, "is a u64, and the operand is out of its range")
	}
	if as == host.EncodedV8 && y.u64 {
		return Value{}, mismatch(false, "and the operand are numbers of two types")
	}
	if x.u64 && operand.Encoding == host.EncodedV8 && (!y.integer.IsUint64() || b.Min != nil || b.Max != nil) {
		return Value{}, mismatch(false, "is a u64, which takes no bigint below zero or with bounds")
	}
	z, err := o.calculate(x, y)
	if err != nil {
		return Value{}, err
	}
	if x.u64 && o == Sum && y.integer.Sign() >= 0 && b.Min == nil && b.Max == nil {
		z.integer.And(z.integer, new(big.Int).SetUint64(math.MaxUint64))
	}
	if z, err = b.within(z); err != nil {
		return Value{}, err
	}
	return z.value(as)
}

func (o Op) calculate(x, y number) (number, error) {
	switch {
	case x.isDouble() && math.IsNaN(x.double):
		return number{}, mismatch(false, "is not a number")
	case o == Sum && (x.isDouble() || y.isDouble()):
		return number{double: x.float() + y.float()}, nil
	case o == Sum:
		return number{integer: new(big.Int).Add(x.integer, y.integer)}, nil
	}
	if c := compare(x, y); c == 0 || (o == Min) == (c < 0) {
		return x, nil
	}
	return y, nil
}

// Empty reports whether nothing is within the bounds, which must pass Sum.Check.
func (b Bounds) Empty() bool {
	if b.Min == nil || b.Max == nil {
		return false
	}
	least, err := b.Min.number()
	most, err2 := b.Max.number()
	return err != nil || err2 != nil || compare(least, most) > 0
}

// within applies the bounds to a result.
func (b Bounds) within(n number) (number, error) {
	if n.isDouble() && math.IsNaN(n.double) && (b.Min != nil || b.Max != nil) { // the sum of both infinities
		return n, outOfRange("would be no number")
	}
	for _, bound := range []struct {
		value *Value
		word  string
		sign  int
	}{{b.Min, "below the least", -1}, {b.Max, "above the greatest", 1}} {
		if bound.value == nil {
			continue
		}
		limit, err := bound.value.number()
		switch {
		case err != nil:
			return n, mismatch(true, "has a bound that %s", err)
		case limit.isDouble() != n.isDouble():
			return n, mismatch(true, "has a bound of another type")
		}
		if compare(n, limit) != bound.sign {
			continue
		}
		if !b.Clamp {
			return n, outOfRange("would be %s that is allowed", bound.word)
		}
		n = limit
	}
	return n, nil
}

// compare compares two numbers by their exact values.
func compare(a, b number) int {
	if !a.isDouble() && !b.isDouble() {
		return a.integer.Cmp(b.integer)
	}
	return a.exact().Cmp(b.exact())
}

func (n number) exact() *big.Float {
	if n.isDouble() {
		return big.NewFloat(n.double)
	}
	return new(big.Float).SetInt(n.integer)
}

// array reports whether a value is an array in JSON.
func array(v Value) bool {
	return v.Encoding == host.EncodedJSON && bytes.HasPrefix(v.Data, []byte{'['})
}

// joins reports whether the value is appended unchanged to one of its encoding.
func (v Value) joins() bool { return v.Encoding == host.EncodedText || v.Encoding == host.EncodedBytes }

// Trim returns an array with up to most elements: without the first ones if the operation is
// Append, and without the last ones otherwise. Any other value stays as it is.
func (o Op) Trim(v Value, most int) Value {
	if !array(v) || string(v.Data) == "[]" {
		return v
	}
	starts := []int{1} // of the elements
	level, quoted := 0, false
	for i, text := 1, v.Data; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
		case c == ']' || c == '}':
			level--
		case c == ',' && level == 0:
			starts = append(starts, i+1)
		}
	}
	extra := len(starts) - most
	if extra <= 0 {
		return v
	}
	if o == Append {
		return Value{v.Encoding, append([]byte{'['}, v.Data[starts[extra]:]...)}
	}
	return Value{v.Encoding, append(slices.Clone(v.Data[:starts[most]-1]), ']')}
}

// concatenate joins two arrays, texts or bytes.
func (o Op) concatenate(old *Value, operand Value) (Value, error) {
	if old == nil {
		return operand, nil
	}
	if operand.joins() && old.Encoding == operand.Encoding {
		first, second := old.Data, operand.Data
		if o == Prepend {
			first, second = second, first
		}
		return Value{old.Encoding, append(append(make([]byte, 0, len(first)+len(second)), first...), second...)}, nil
	}
	if operand.joins() {
		return Value{}, mismatch(false, "is %s, not %s", old.Encoding, operand.Encoding)
	}
	if !array(*old) {
		return Value{}, mismatch(false, "is %s, not an array", clip(old.Data))
	}
	first, second := old.Data, operand.Data
	if o == Prepend {
		first, second = second, first
	}
	switch {
	case string(first) == "[]":
		return Value{host.EncodedJSON, second}, nil
	case string(second) == "[]":
		return Value{host.EncodedJSON, first}, nil
	}
	joined := make([]byte, 0, len(first)+len(second)-1)
	joined = append(append(joined, first[:len(first)-1]...), ',')
	return Value{host.EncodedJSON, append(joined, second[1:]...)}, nil
}

// clip shortens a value for the text of an error.
func clip(b []byte) string {
	const most = 40
	if len(b) <= most {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return strings.ToValidUTF8(string(b[:most]), "") + "…"
}
