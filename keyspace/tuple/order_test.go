package tuple

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomTuples(n int) []Tuple {
	random := rand.New(rand.NewChaCha8([32]byte{1}))
	out := make([]Tuple, n)
	for i := range out {
		seed := make([]byte, 64)
		for j := range seed {
			seed[j] = byte(random.Uint32())
			if random.IntN(3) == 0 {
				seed[j] %= 4 // makes equal beginnings likely
			}
		}
		s := source{seed}
		out[i] = s.tuple(3)
	}
	return out
}

// checkOrder compares two tuples and their packed forms.
func checkOrder(t *testing.T, a, b Tuple) {
	t.Helper()
	pa, pb := mustPack(t, a), mustPack(t, b)
	if got, want := Compare(a, b), bytes.Compare(pa, pb); got != want {
		t.Fatalf("Compare(%v, %v) = %d, but the packed forms %x and %x compare %d", a, b, got, pa, pb, want)
	}
	if Compare(a, b) != -Compare(b, a) {
		t.Fatalf("Compare(%v, %v) is not antisymmetric", a, b)
	}
}

func TestCompareIsTheOrderOfThePackedForms(t *testing.T) {
	tuples := randomTuples(1200)
	for _, v := range vectors {
		tuples = append(tuples, v.tuple)
	}
	for i, a := range tuples {
		for _, b := range tuples[i:] {
			checkOrder(t, a, b)
		}
	}
}

// The order that the encoding promises, written down by hand.
func TestElementsOrderByTypeThenValue(t *testing.T) {
	nan := math.Float64frombits
	ordered := []Tuple{
		{}, {nil}, {nil, nil}, {nil, 1},
		{[]byte{}}, {[]byte{0}}, {[]byte{0, 0}}, {[]byte{0, 1}}, {[]byte{1}}, {[]byte{0xFF}},
		{""}, {"", nil}, {"", 9}, {"\x00"}, {"a"}, {"a", "z"}, {"a\x00"}, {"a\x00", 1}, {"ab"},
		{Tuple{}}, {Tuple{}, 1}, {Tuple{nil}}, {Tuple{nil, nil}}, {Tuple{1}}, {Tuple{1}, nil}, {Tuple{1, nil}}, {Tuple{2}},
		{negated(power(2040, -1))}, {negated(power(72, 0))}, {negated(power(64, 0))}, {negated(power(64, -1))},
		{math.MinInt64}, {math.MinInt64 + 1}, {-65536}, {-256}, {-255}, {-1}, {0}, {1}, {255}, {256}, {math.MaxInt64},
		{uint64(math.MaxUint64)}, {power(64, 0)}, {power(72, 0)}, {power(2040, -1)},
		{float32(math.Inf(-1))}, {float32(1e30)},
		{nan(0xFFF8000000000001)}, {math.Inf(-1)}, {-1.5}, {math.Copysign(0, -1)},
		{0.0}, {math.SmallestNonzeroFloat64}, {1.5}, {math.Inf(1)}, {nan(0x7FF8000000000001)},
		{false}, {true},
		{UUID{}}, {UUID{0, 1}},
		{Versionstamp{User: 1}}, {Versionstamp{User: 2}}, {Versionstamp{Transaction: [10]byte{1}}},
	}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := Compare(a, b), cmp.Compare(i, j); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
			checkOrder(t, a, b)
		}
	}
}

func TestCompareOrdersWhatHasNoEncodingLast(t *testing.T) {
	a, b := Tuple{struct{}{}}, Tuple{complex(1, 2)}
	if Compare(a, b) != 0 || Compare(a, Tuple{Versionstamp{}}) != 1 || Compare(Tuple{nil}, a) != -1 {
		t.Error("values without encoding are not one class after all others")
	}
	if slices.IsSortedFunc([]Tuple{a, {1}}, Compare) {
		t.Error("an integer sorted after a value without encoding")
	}
}

// Escaping must keep the order of byte strings and of their prefixes, or range
// scans over keys would miss some.
func TestEscapingKeepsOrderAndPrefixes(t *testing.T) {
	words := [][]byte{{}}
	for i := 0; len(words[i]) < 4; i++ {
		for _, c := range []byte{0x00, 0x01, 0xFE, 0xFF} {
			words = append(words, append(bytes.Clone(words[i]), c))
		}
	}
	for _, a := range words {
		for _, b := range words {
			ea, eb := AppendEscaped(nil, a), AppendEscaped(nil, b)
			if bytes.Compare(a, b) != bytes.Compare(AppendBytes(nil, a), AppendBytes(nil, b)) {
				t.Fatalf("%x and %x change order when packed", a, b)
			}
			if bytes.HasPrefix(b, a) && !bytes.HasPrefix(eb, ea) {
				t.Fatalf("%x begins with %x, but escaped not: %x, %x", b, a, eb, ea)
			}
		}
	}
}
