package tuple

import (
	"bytes"
	"encoding/hex"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	must(t, err)
	return b
}

func power(exp uint, add int64) *big.Int {
	v := new(big.Int).Lsh(big.NewInt(1), exp)
	return v.Add(v, big.NewInt(add))
}

func negated(v *big.Int) *big.Int { return new(big.Int).Neg(v) }

func mustPack(t testing.TB, tuple Tuple) []byte {
	t.Helper()
	packed, err := tuple.Pack()
	fatalIf(t, err != nil, "%v: %v", tuple, err)
	return packed
}

// nested returns an element inside of n tuples.
func nested(n int, e any) Tuple {
	t := Tuple{e}
	for range n - 1 {
		t = Tuple{t}
	}
	return t
}

// vectors pairs packed forms with the elements that Unpack returns for them.
var vectors = []struct {
	hex   string
	tuple Tuple
}{
	{"", Tuple{}},
	{"00", Tuple{nil}},
	{"05 00", Tuple{Tuple{}}},
	{"05 00 FF 00", Tuple{Tuple{nil}}},
	{"05 05 00 00", Tuple{Tuple{Tuple{}}}},
	{strings.Repeat("05", MaxDepth) + "02 78 00" + strings.Repeat("00", MaxDepth), nested(MaxDepth+1, "x")},
	{"00 05 00 FF 15 01 00 00", Tuple{nil, Tuple{nil, int64(1)}, nil}},
	{"01 00", Tuple{[]byte{}}},
	{"01 66 6F 6F 00 FF 62 61 72 00", Tuple{[]byte("foo\x00bar")}},
	{"02 00", Tuple{""}},
	{"02 46 C3 94 4F 00 FF 62 61 72 00", Tuple{"F\u00d4O\x00bar"}},
	{"05 01 66 6F 6F 00 FF 62 61 72 00 00 FF 05 00 00", Tuple{Tuple{[]byte("foo\x00bar"), nil, Tuple{}}}},

	{"14", Tuple{int64(0)}},
	{"15 01", Tuple{int64(1)}},
	{"15 FF", Tuple{int64(255)}},
	{"16 01 00", Tuple{int64(256)}},
	{"1B FF FF FF FF FF FF FF", Tuple{int64(1<<56 - 1)}},
	{"1C 01 00 00 00 00 00 00 00", Tuple{int64(1 << 56)}},
	{"1C 7F FF FF FF FF FF FF FF", Tuple{int64(math.MaxInt64)}},
	{"1C 80 00 00 00 00 00 00 00", Tuple{uint64(1 << 63)}},
	{"1C FF FF FF FF FF FF FF FF", Tuple{uint64(math.MaxUint64)}},
	{"1D 09 01 00 00 00 00 00 00 00 00", Tuple{power(64, 0)}},
	{"13 FE", Tuple{int64(-1)}},
	{"13 00", Tuple{int64(-255)}},
	{"12 FE FF", Tuple{int64(-256)}},
	{"11 AB 49 1D", Tuple{int64(-5551842)}},
	{"0C 80 00 00 00 00 00 00 00", Tuple{int64(-math.MaxInt64)}},
	{"0C 7F FF FF FF FF FF FF FF", Tuple{int64(math.MinInt64)}},
	{"0C 7F FF FF FF FF FF FF FE", Tuple{negated(power(63, 1))}},
	{"0C 00 00 00 00 00 00 00 00", Tuple{negated(power(64, -1))}},
	{"0B F6 FE FF FF FF FF FF FF FF FF", Tuple{negated(power(64, 0))}},
	{"0B F6 00 FF FF FF FF FF FF FF FF", Tuple{negated(new(big.Int).Mul(big.NewInt(255), power(64, 0)))}},
	{"1D FF" + strings.Repeat("FF", 255), Tuple{power(2040, -1)}},
	{"0B 00" + strings.Repeat("00", 255), Tuple{negated(power(2040, -1))}},

	{"20 80 00 00 00", Tuple{float32(0)}},
	{"20 7F FF FF FF", Tuple{float32(math.Copysign(0, -1))}},
	{"20 3D D7 FF FF", Tuple{float32(-42)}},
	{"20 C2 28 00 00", Tuple{float32(42)}},
	{"21 C0 45 00 00 00 00 00 00", Tuple{float64(42)}},
	{"21 3F BA FF FF FF FF FF FF", Tuple{float64(-42)}},
	{"21 FF F0 00 00 00 00 00 00", Tuple{math.Inf(1)}},
	{"21 00 0F FF FF FF FF FF FF", Tuple{math.Inf(-1)}},
	{"26", Tuple{false}},
	{"27", Tuple{true}},
	{"30 00 01 02 03 04 05 06 07 08 09 0A 0B 0C 0D 0E 0F", Tuple{UUID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}},
	{"33 01 02 03 04 05 06 07 08 09 0A 0B 0C", Tuple{Versionstamp{[10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0x0B0C}}},

	// keys of Cairn
	{"14 15 03 15 48", Tuple{int64(0), int64(3), int64(72)}},
	{"01 66 6F 6F 00", Tuple{[]byte("foo")}},
	{"02 75 73 65 72 73 00 15 2A", Tuple{"users", int64(42)}},
	{"15 02 15 03 05 15 03 15 07 00 15 05", Tuple{int64(2), int64(3), Tuple{int64(3), int64(7)}, int64(5)}},
	{"15 02 15 01 05 15 01 14 00 15 02", Tuple{int64(2), int64(1), Tuple{int64(1), int64(0)}, int64(2)}},
	{"15 01 18 69 9C EA 00 16 01 2C", Tuple{int64(1), int64(1771891200), int64(300)}},
	{"15 04 02 61 62 63 00", Tuple{int64(4), "abc"}},
}

func TestVectorsPackAndUnpack(t *testing.T) {
	for _, v := range vectors {
		want := unhex(t, v.hex)
		if got, err := v.tuple.Pack(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v packs to %x (%v), want %x", v.tuple, got, err, want)
		}
		got, err := Unpack(want)
		if err != nil {
			t.Errorf("%x: %v", want, err)
			continue
		}
		errorIf(t, Compare(got, v.tuple) != 0 || !reflect.DeepEqual(got, v.tuple), "%x unpacks to %#v, want %#v", want, got, v.tuple)
	}
}

func TestAllGoIntegersShareOneLine(t *testing.T) {
	want := []byte{0x15, 0x07}
	for _, e := range []any{7, int8(7), int16(7), int32(7), int64(7), uint(7), uint8(7), uint16(7), uint32(7), uint64(7), big.NewInt(7)} {
		got, err := (Tuple{e}).Pack()
		errorIf(t, err != nil || !bytes.Equal(got, want), "%T: %x (%v), want %x", e, got, err, want)
		errorIf(t, Compare(Tuple{e}, Tuple{7}) != 0, "%T(7) does not compare equal to int(7)", e)
	}
	for _, e := range []any{-7, int8(-7), int16(-7), int32(-7), int64(-7), big.NewInt(-7)} {
		got, err := (Tuple{e}).Pack()
		errorIf(t, err != nil || !bytes.Equal(got, []byte{0x13, 0xF8}), "%T(-7): %x (%v)", e, got, err)
	}
}

func TestFloatsKeepTheirBits(t *testing.T) {
	for _, bits := range []uint64{0, 1 << 63, 1, math.Float64bits(math.Inf(1)), 0x7FF8000000000001, 0xFFF8000000000001,
		0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF} {
		d := NewDecoder(AppendFloat64(nil, math.Float64frombits(bits)))
		if v, err := d.Float64(); err != nil || math.Float64bits(v) != bits {
			t.Errorf("float64 %x: got %x (%v)", bits, math.Float64bits(v), err)
		}
	}
	for _, bits := range []uint32{0, 1 << 31, 1, 0x7FC00001, 0xFFC00001, 0x7FFFFFFF, 0xFFFFFFFF} {
		d := NewDecoder(AppendFloat32(nil, math.Float32frombits(bits)))
		if v, err := d.Float32(); err != nil || math.Float32bits(v) != bits {
			t.Errorf("float32 %x: got %x (%v)", bits, math.Float32bits(v), err)
		}
	}
}

func TestStringIsReadable(t *testing.T) {
	stamp := Versionstamp{User: 7}
	u := UUID{0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x11, 0, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF}
	got := Tuple{nil, []byte{0, 255}, "a\"\x00", -1, uint64(7), power(64, 0), float32(1.5), 2.5, true, u, stamp, Tuple{3, Tuple{}}}.String()
	want := `(nil, x"00ff", "a\"\x00", -1, 7, 18446744073709551616, 1.5, 2.5, true, 1100aabb-ccdd-eeff-1100-aabbccddeeff, versionstamp 00000000000000000000/7, (3, ()))`
	errorIf(t, got != want, "got  %s\nwant %s", got, want)
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
