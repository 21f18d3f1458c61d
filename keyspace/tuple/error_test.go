package tuple

import (
	"errors"
	"math/big"
	"strings"
	"testing"
)

func TestPackRefusesWhatHasNoEncoding(t *testing.T) {
	incomplete := Versionstamp{Transaction: [10]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}
	for name, c := range map[string]struct {
		tuple Tuple
		index int
		want  error
	}{
		"struct":                  {Tuple{1, struct{}{}}, 1, ErrType},
		"nil big integer":         {Tuple{(*big.Int)(nil)}, 0, ErrType},
		"big integer":             {Tuple{1, 2, power(2040, 0)}, 2, ErrRange},
		"negative big integer":    {Tuple{negated(power(2040, 0))}, 0, ErrRange},
		"incomplete versionstamp": {Tuple{incomplete}, 0, ErrIncomplete},
		"nested":                  {Tuple{"a", Tuple{Tuple{incomplete}}}, 1, ErrIncomplete},
		"depth":                   {Tuple{"a", "b", nested(MaxDepth+1, Tuple{})}, 2, ErrDepth},
	} {
		prefix := []byte("prefix")
		got, err := Append(prefix, c.tuple)
		var element *ElementError
		if !errors.Is(err, c.want) || !errors.As(err, &element) || element.Index != c.index || element.Type == "" {
			t.Errorf("%s: error %v, want %v at element %d", name, err, c.want, c.index)
		}
		errorIf(t, string(got) != "prefix", "%s: dst became %q", name, got)
	}
}

func TestUnpackRefusesWithOffset(t *testing.T) {
	ff := strings.Repeat("FF", 10)
	for name, c := range map[string]struct {
		hex    string
		offset int
		reason string
	}{
		"unknown code":                {"15 01 2F", 2, "unknown code 0x2f"},
		"retired code":                {"03 00", 0, "unknown code"},
		"code above all":              {"FF", 0, "unknown code"},
		"bytes without end":           {"01 61 62", 3, "bytes without end"},
		"string without end":          {"02 61", 2, "string without end"},
		"escape at end":               {"02 61 00 FF", 4, "string without end"},
		"tuple without end":           {"05 15 01", 3, "tuple without end"},
		"inner tuple without end":     {"05 05 15 01 00", 5, "tuple without end"},
		"integer cut short":           {"16 01", 2, "integer cut short"},
		"negative integer cut short":  {"0C 01", 2, "integer cut short"},
		"big integer without length":  {"1D", 1, "integer cut short"},
		"big integer cut short":       {"1D 09 01", 3, "integer cut short"},
		"negative big cut short":      {"0B F6 01", 3, "integer cut short"},
		"leading zero":                {"15 00", 1, "leading zero"},
		"leading zero of two":         {"16 00 01", 1, "leading zero"},
		"negative leading zero":       {"12 FF 00", 1, "leading zero"},
		"negative zero":               {"13 FF", 1, "leading zero"},
		"big with leading zero":       {"1D 09 00 01 02 03 04 05 06 07 08", 2, "leading zero"},
		"negative big, leading zero":  {"0B F6 FF 01 02 03 04 05 06 07 08", 2, "leading zero"},
		"big of eight bytes":          {"1D 08 01 02 03 04 05 06 07 08", 1, "eight bytes or less"},
		"big of no bytes":             {"1D 00", 1, "eight bytes or less"},
		"negative big of eight bytes": {"0B F7 01 02 03 04 05 06 07 08", 1, "eight bytes or less"},
		"float32 cut short":           {"20 00 00 00", 4, "float32 cut short"},
		"float64 cut short":           {"21 00 00 00 00", 5, "float64 cut short"},
		"uuid cut short":              {"27 30 01", 3, "uuid cut short"},
		"versionstamp cut short":      {"33 01", 2, "versionstamp cut short"},
		"versionstamp incomplete":     {"26 33" + ff + "0001", 2, "incomplete versionstamp"},
		"too deep":                    {strings.Repeat("05", MaxDepth+1), MaxDepth, "too deep"},
		"far too deep":                {strings.Repeat("05", 1<<16), MaxDepth, "too deep"},
	} {
		got, err := Unpack(unhex(t, c.hex))
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: got %v (%v), want a *SyntaxError", name, got, err)
			continue
		}
		if syntax.Offset != c.offset || !strings.Contains(syntax.Reason, c.reason) {
			t.Errorf("%s: %v, want byte %d: %s", name, err, c.offset, c.reason)
		}
	}
}
