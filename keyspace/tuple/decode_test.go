package tuple

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"testing"
)

// reads ends the test unless a decoder reads a value.
func reads(t *testing.T, want any) func(got any, err error) {
	return func(got any, err error) {
		t.Helper()
		fatalIf(t, err != nil || Compare(Tuple{got}, Tuple{want}) != 0, "got %v (%v), want %v", got, err, want)
	}
}

func TestDecoderReadsElementByElement(t *testing.T) {
	u := UUID{1, 2, 3}
	stamp := Versionstamp{[10]byte{9}, 7}
	packed := mustPack(t, Tuple{
		nil, []byte("a\x00b"), []byte("raw"), "text", -5, uint64(math.MaxUint64), power(70, 0), Tuple{nil, 1, Tuple{}},
		float32(1.5), 2.5, true, false, u, stamp,
	})
	d := NewDecoder(packed)
	reads(t, nil)(nil, d.Nil())
	reads(t, []byte("a\x00b"))(d.Bytes())
	reads(t, []byte("+raw"))(d.AppendBytes([]byte("+")))
	reads(t, "text")(d.String())
	reads(t, -5)(d.Int())
	reads(t, uint64(math.MaxUint64))(d.Uint())
	reads(t, power(70, 0))(d.BigInt())

	reads(t, nil)(nil, d.Nested())
	fatalIf(t, d.EndNested() == nil, "left a nested tuple with elements unread")
	reads(t, nil)(nil, d.Nil())
	reads(t, 1)(d.Int())
	reads(t, Tuple{})(d.Next())
	fatalIf(t, d.More(), "More at the end of a nested tuple")
	_, err := d.Next()
	fatalIf(t, err == nil, "Next at the end of a nested tuple")
	reads(t, nil)(nil, d.EndNested())

	reads(t, float32(1.5))(d.Float32())
	reads(t, 2.5)(d.Float64())
	reads(t, true)(d.Bool())
	reads(t, false)(d.Bool())
	fatalIf(t, d.End() == nil, "End with elements unread")
	reads(t, u)(d.UUID())
	reads(t, stamp)(d.Versionstamp())
	fatalIf(t, d.More() || d.End() != nil || d.Offset() != len(packed) || len(d.Rest()) != 0, "not at the end")
	fatalIf(t, d.EndNested() == nil, "left a nested tuple that was never entered")
}

func TestDecoderStaysWhereItWasOnError(t *testing.T) {
	d := NewDecoder(mustPack(t, Tuple{"text", Tuple{1}}))
	for name, read := range map[string]func() error{
		"Nil":          d.Nil,
		"Nested":       d.Nested,
		"Bytes":        errOf(d.Bytes),
		"AppendBytes":  func() error { _, err := d.AppendBytes(nil); return err },
		"Int":          errOf(d.Int),
		"Uint":         errOf(d.Uint),
		"BigInt":       errOf(d.BigInt),
		"Float32":      errOf(d.Float32),
		"Float64":      errOf(d.Float64),
		"Bool":         errOf(d.Bool),
		"UUID":         errOf(d.UUID),
		"Versionstamp": errOf(d.Versionstamp),
	} {
		var syntax *SyntaxError
		err := read()
		errorIf(t, !errors.As(err, &syntax) || syntax.Offset != 0, "%s of a string: %v", name, err)
		fatalIf(t, d.Offset() != 0, "%s moved to %d", name, d.Offset())
	}

	broken := NewDecoder([]byte{0x05, 0x15, 0x01, 0x03, 0x00})
	var syntax *SyntaxError
	if _, err := broken.Next(); !errors.As(err, &syntax) || syntax.Offset != 3 {
		t.Errorf("Next of a broken nested tuple: %v", err)
	}
	errorIf(t, broken.Offset() != 0 || broken.EndNested() == nil, "Next moved although it failed")
}

func TestIntegersOutsideTheGoTypeAreRefused(t *testing.T) {
	for _, v := range []*big.Int{power(63, 0), negated(power(63, 1)), power(64, 0), negated(power(64, 0)), power(2040, -1)} {
		packed, err := AppendBigInt(nil, v)
		must(t, err)
		d := NewDecoder(packed)
		if got, err := d.Int(); err == nil {
			t.Errorf("Int of %v returned %d", v, got)
		}
		got, err := d.BigInt()
		errorIf(t, err != nil || got.Cmp(v) != 0, "BigInt of %v returned %v (%v)", v, got, err)
	}
	for _, packed := range [][]byte{AppendInt(nil, -1), {0x1D, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0}} {
		d := NewDecoder(packed)
		got, err := d.Uint()
		errorIf(t, err == nil, "Uint of %x returned %d", packed, got)
	}
}

func TestDecodedBytesCannotOverwriteTheInput(t *testing.T) {
	packed := mustPack(t, Tuple{[]byte("ab"), []byte("cd")})
	before := bytes.Clone(packed)
	d := NewDecoder(packed)
	b, err := d.Bytes()
	_ = append(b, "xxxx"...)
	whole, err2 := Unpack(packed)
	whole[0].([]byte)[0] = 'x'
	fatalIf(t, err != nil || err2 != nil || !bytes.Equal(packed, before), "input became %x (%v, %v)", packed, err, err2)
}

// errOf returns a function that calls a method and returns only its error.
func errOf[T any](read func() (T, error)) func() error {
	return func() error { _, err := read(); return err }
}
