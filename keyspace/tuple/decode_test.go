package tuple

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"testing"
)

func TestDecoderReadsElementByElement(t *testing.T) {
	u := UUID{1, 2, 3}
	stamp := Versionstamp{[10]byte{9}, 7}
	packed, err := Tuple{nil, []byte("a\x00b"), []byte("raw"), "text", -5, uint64(math.MaxUint64), power(70, 0), Tuple{nil, 1, Tuple{}}, float32(1.5), 2.5, true, false, u, stamp}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(packed)
	check := func(what string, got any, err error, want any) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if Compare(Tuple{got}, Tuple{want}) != 0 {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
	if err := d.Nil(); err != nil {
		t.Fatal(err)
	}
	b, err := d.Bytes()
	check("escaped bytes", b, err, []byte("a\x00b"))
	b, err = d.AppendBytes([]byte("+"))
	check("appended bytes", b, err, []byte("+raw"))
	s, err := d.String()
	check("string", s, err, "text")
	n, err := d.Int()
	check("int", n, err, -5)
	v, err := d.Uint()
	check("uint", v, err, uint64(math.MaxUint64))
	i, err := d.BigInt()
	check("big", i, err, power(70, 0))

	if err := d.Nested(); err != nil {
		t.Fatal(err)
	}
	if err := d.EndNested(); err == nil {
		t.Fatal("left a nested tuple with elements unread")
	}
	if err := d.Nil(); err != nil {
		t.Fatal(err)
	}
	n, err = d.Int()
	check("inner int", n, err, 1)
	inner, err := d.Next()
	check("inner tuple", inner, err, Tuple{})
	if d.More() {
		t.Fatal("More at the end of a nested tuple")
	}
	if _, err := d.Next(); err == nil {
		t.Fatal("Next at the end of a nested tuple")
	}
	if err := d.EndNested(); err != nil {
		t.Fatal(err)
	}

	f, err := d.Float32()
	check("float32", f, err, float32(1.5))
	g, err := d.Float64()
	check("float64", g, err, 2.5)
	for _, want := range []bool{true, false} {
		got, err := d.Bool()
		check("bool", got, err, want)
	}
	if err := d.End(); err == nil {
		t.Fatal("End with elements unread")
	}
	gotID, err := d.UUID()
	check("uuid", gotID, err, u)
	gotStamp, err := d.Versionstamp()
	check("versionstamp", gotStamp, err, stamp)
	if d.More() || d.End() != nil || d.Offset() != len(packed) || len(d.Rest()) != 0 {
		t.Fatal("not at the end")
	}
	if err := d.EndNested(); err == nil {
		t.Fatal("left a nested tuple that was never entered")
	}
}

func TestDecoderStaysWhereItWasOnError(t *testing.T) {
	packed, err := Tuple{"text", Tuple{1}}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(packed)
	for name, read := range map[string]func() error{
		"Nil":          d.Nil,
		"Nested":       d.Nested,
		"Bytes":        func() error { _, err := d.Bytes(); return err },
		"AppendBytes":  func() error { _, err := d.AppendBytes(nil); return err },
		"Int":          func() error { _, err := d.Int(); return err },
		"Uint":         func() error { _, err := d.Uint(); return err },
		"BigInt":       func() error { _, err := d.BigInt(); return err },
		"Float32":      func() error { _, err := d.Float32(); return err },
		"Float64":      func() error { _, err := d.Float64(); return err },
		"Bool":         func() error { _, err := d.Bool(); return err },
		"UUID":         func() error { _, err := d.UUID(); return err },
		"Versionstamp": func() error { _, err := d.Versionstamp(); return err },
	} {
		var syntax *SyntaxError
		if err := read(); !errors.As(err, &syntax) || syntax.Offset != 0 {
			t.Errorf("%s of a string: %v", name, err)
		}
		if d.Offset() != 0 {
			t.Fatalf("%s moved to %d", name, d.Offset())
		}
	}

	broken := NewDecoder([]byte{0x05, 0x15, 0x01, 0x03, 0x00})
	var syntax *SyntaxError
	if _, err := broken.Next(); !errors.As(err, &syntax) || syntax.Offset != 3 {
		t.Errorf("Next of a broken nested tuple: %v", err)
	}
	if broken.Offset() != 0 || broken.EndNested() == nil {
		t.Error("Next moved although it failed")
	}
}

func TestIntegersOutsideTheGoTypeAreRefused(t *testing.T) {
	for _, v := range []*big.Int{power(63, 0), negated(power(63, 1)), power(64, 0), negated(power(64, 0)), power(2040, -1)} {
		packed, err := AppendBigInt(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder(packed)
		if got, err := d.Int(); err == nil {
			t.Errorf("Int of %v returned %d", v, got)
		}
		got, err := d.BigInt()
		if err != nil || got.Cmp(v) != 0 {
			t.Errorf("BigInt of %v returned %v (%v)", v, got, err)
		}
	}
	for _, packed := range [][]byte{AppendInt(nil, -1), {0x1D, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0}} {
		d := NewDecoder(packed)
		if got, err := d.Uint(); err == nil {
			t.Errorf("Uint of %x returned %d", packed, got)
		}
	}
}

func TestDecodedBytesCannotOverwriteTheInput(t *testing.T) {
	packed, err := Tuple{[]byte("ab"), []byte("cd")}.Pack()
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(packed)
	d := NewDecoder(packed)
	b, err := d.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	_ = append(b, "xxxx"...)
	if !bytes.Equal(packed, before) {
		t.Fatalf("input became %x", packed)
	}
	whole, err := Unpack(packed)
	if err != nil {
		t.Fatal(err)
	}
	whole[0].([]byte)[0] = 'x'
	if !bytes.Equal(packed, before) {
		t.Fatalf("input became %x", packed)
	}
}
