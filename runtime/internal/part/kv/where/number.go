package where

import (
	"cmp"
	"strconv"
	"strings"
)

// A decimal is the exact value of a number of JSON: sign times 0.digits times 10^exponent. Zero has
// no digits.
type decimal struct {
	negative bool
	digits   string // without zeros at the ends
	exponent int64
}

// maxExponent bounds exponents. Beyond it, numbers of one sign are ordered by their digits alone.
const maxExponent = 1 << 40

// parseDecimal reads a number that is valid JSON.
func parseDecimal(text string) (d decimal) {
	text, d.negative = strings.CutPrefix(text, "-")
	mantissa := text
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa = text[:i]
		e, err := strconv.ParseInt(text[i+1:], 10, 64)
		if err != nil { // out of range
			if e = maxExponent; strings.HasPrefix(text[i+1:], "-") {
				e = -maxExponent
			}
		}
		d.exponent = min(max(e, -maxExponent), maxExponent)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	d.exponent += int64(len(whole))
	trimmed := strings.TrimLeft(digits, "0")
	d.exponent -= int64(len(digits) - len(trimmed))
	if d.digits = strings.TrimRight(trimmed, "0"); d.digits == "" {
		return decimal{} // -0 is 0
	}
	return d
}

// compareNumbers compares two numbers of JSON by their values.
func compareNumbers(x, y string) int {
	if len(x)+len(y) < 38 { // an error of ParseInt copies its argument
		if a, err := strconv.ParseInt(x, 10, 64); err == nil {
			if b, err := strconv.ParseInt(y, 10, 64); err == nil {
				return cmp.Compare(a, b)
			}
		}
	}
	return parseDecimal(x).compare(parseDecimal(y))
}

func (a decimal) compare(b decimal) int {
	switch {
	case a.sign() != b.sign():
		return cmp.Compare(a.sign(), b.sign())
	case a.sign() == 0:
		return 0
	}
	c := cmp.Or(cmp.Compare(a.exponent, b.exponent), cmp.Compare(a.digits, b.digits))
	if a.negative {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}
