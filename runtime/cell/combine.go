package cell

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// maxDigits bounds the integers of sum, min and max. Converting more would take time that grows with their square.
const maxDigits = 1000

// combinations make the new value of an entry of the old one and the operand, both canonical JSON. The error is about the
// old value: it says what it is not.
//
// Nothing passes through a floating-point number: integers are exact at any size up to maxDigits, and the elements of
// arrays stay as they are written. A number with a fraction or an exponent is not an integer, even if its value is whole.
var combinations = map[string]func(old, operand []byte) ([]byte, error){
	"sum": func(old, operand []byte) ([]byte, error) {
		return integers(old, operand, func(a, b *big.Int) *big.Int { return a.Add(a, b) })
	},
	"min": func(old, operand []byte) ([]byte, error) {
		return integers(old, operand, func(a, b *big.Int) *big.Int {
			if a.Cmp(b) <= 0 {
				return a
			}
			return b
		})
	},
	"max": func(old, operand []byte) ([]byte, error) {
		return integers(old, operand, func(a, b *big.Int) *big.Int {
			if a.Cmp(b) >= 0 {
				return a
			}
			return b
		})
	},
	"append":  func(old, operand []byte) ([]byte, error) { return concatenate(old, old, operand) },
	"prepend": func(old, operand []byte) ([]byte, error) { return concatenate(old, operand, old) },
}

// number reports whether an operation is one of integers.
func number(op string) bool { return op == "sum" || op == "min" || op == "max" }

// alone is the new value of an entry that does not exist.
func alone(op string, operand []byte) ([]byte, error) {
	if !number(op) {
		return operand, nil
	}
	return integers(operand, operand, func(a, _ *big.Int) *big.Int { return a }) // -0 becomes 0
}

func integers(old, operand []byte, f func(a, b *big.Int) *big.Int) ([]byte, error) {
	a, err := integer(old)
	if err != nil {
		return nil, err
	}
	b, err := integer(operand)
	if err != nil {
		return nil, err
	}
	result := f(a, b).Append(nil, 10)
	if len(result) > maxDigits {
		return nil, fmt.Errorf("would get more than %d digits", maxDigits)
	}
	return result, nil
}

// integer reads a JSON number without a fraction and an exponent.
func integer(text []byte) (*big.Int, error) {
	for i, c := range text {
		if (c < '0' || c > '9') && !(i == 0 && c == '-') {
			return nil, fmt.Errorf("is %s, not an integer", clip(text))
		}
	}
	if len(text) > maxDigits {
		return nil, fmt.Errorf("has more than %d digits", maxDigits)
	}
	n, ok := new(big.Int).SetString(string(text), 10)
	if !ok {
		return nil, errors.New("is not an integer")
	}
	return n, nil
}

// concatenate joins two arrays; old is the stored one.
func concatenate(old, first, second []byte) ([]byte, error) {
	if old[0] != '[' {
		return nil, fmt.Errorf("is %s, not an array", clip(old))
	}
	switch {
	case string(first) == "[]":
		return second, nil
	case len(second) <= len("[]"):
		return first, nil
	}
	joined := append([]byte{}, first[:len(first)-1]...)
	return append(append(joined, ','), second[1:]...), nil
}

// clip shortens the text of an error message.
func clip(b []byte) string {
	const most = 40
	if len(b) <= most {
		return string(b)
	}
	return strings.ToValidUTF8(string(b[:most]), "") + "…"
}
