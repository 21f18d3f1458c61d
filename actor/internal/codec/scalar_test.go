package codec

import (
	"bytes"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"math"
	"reflect"
	"testing"
)

// scalars makes a pointer to each type that has an encoding of its own.
func scalars() []any { return []any{new(int), new(int64), new(uint64), new(string), new(bool)} }

// FuzzScalar compares the encoding of scalars with the encoding of the libraries: both must agree
// on each accepted value.
func FuzzScalar(f *testing.F) {
	for _, seed := range []string{"\x00", "\x17", "\x18\x18", "\x18\x05", "\x19\x01\x00", "\x1a\xff\xff\xff\xff",
		"\x1b\x7f\xff\xff\xff\xff\xff\xff\xff", "\x1b\x80\x00\x00\x00\x00\x00\x00\x00", "\x20", "\x3b\x7f\xff\xff\xff\xff\xff\xff\xff",
		"\x61a", "\x78\x01a", "\x61\xff", "\x62a", "\xf4", "\xf5", "\xf6", "\xfb\x00", "\x7f\xff", "\x00\x00", "\x1c", "\x40", ""} {
		f.Add([]byte(seed))
	}
	c := New()
	f.Fuzz(func(t *testing.T, data []byte) {
		want := scalars()
		for i, got := range scalars() {
			if decodeScalarCBOR(data, got) {
				if err := c.decodeAnyCBOR(data, want[i]); err != nil || !reflect.DeepEqual(got, want[i]) {
					t.Errorf("CBOR %x as %T: %v, the library says %v (%v)", data, got, reflect.ValueOf(got).Elem(),
						reflect.ValueOf(want[i]).Elem(), err)
				}
			}
			sameForms(t, c, got)
		}
	})
}

// sameForms compares the forms of a value with the forms that the libraries make.
func sameForms(t *testing.T, c *Codec, v any) {
	t.Helper()
	got, err := c.AppendCBOR(nil, v)
	want, werr := c.appendAnyCBOR(nil, v)
	if err != nil || werr != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: %x, the library says %x (%v, %v)", reflect.ValueOf(v).Elem(), got, want, err, werr)
	}
}

func TestScalarsHaveTheFormsThatTheLibrariesMake(t *testing.T) {
	c := New()
	for _, n := range []int64{0, 1, 23, 24, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64} {
		for _, n := range []int64{n, -n, ^n} {
			i, u := int(n), uint64(n)
			sameForms(t, c, &n)
			sameForms(t, c, &i)
			sameForms(t, c, &u)
			for _, v := range []any{&n, &i, &u} {
				data, err := c.AppendCBOR(nil, v)
				back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				if err != nil || !decodeScalarCBOR(data, back) || !reflect.DeepEqual(v, back) {
					t.Errorf("%v is %x, which is read as %v", reflect.ValueOf(v).Elem(), data, reflect.ValueOf(back).Elem())
				}
			}
		}
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
