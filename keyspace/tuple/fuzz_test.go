package tuple

import (
	"bytes"
	"errors"
	"testing"
)

// Bytes that Unpack accepts are canonical; for others its error has an offset inside the input.
func FuzzUnpack(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(f, v.hex))
	}
	f.Add(bytes.Repeat([]byte{0x05}, 200))
	whole := mustPack(f, Tuple{
		nil, []byte("a\x00b"), "c\x00d", Tuple{nil, Tuple{1, "x"}}, 1 << 40, -1 << 40, power(100, 0), negated(power(100, 0)),
		float32(1), 2.0, true, UUID{1}, Versionstamp{User: 1},
	})
	for n := range whole {
		f.Add(whole[:n:n])
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		before := bytes.Clone(packed)
		got, err := Unpack(packed)
		fatalIf(t, !bytes.Equal(packed, before), "the input was changed")
		if err != nil {
			var syntax *SyntaxError
			fatalIf(t, !errors.As(err, &syntax) || syntax.Offset < 0 || syntax.Offset > len(packed), "%x: %v", packed, err)
			return
		}
		again, err := got.Pack()
		fatalIf(t, err != nil || !bytes.Equal(again, packed), "%x unpacks to %v, which packs to %x (%v)", packed, got, again, err)
		_ = got.String()
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte{4, 13, 2, 0, 0, 1, 3, 1, 2, 3, 6, 200, 9, 1, 1})
	f.Add([]byte{3, 7, 0, 7, 1, 7, 2})
	f.Fuzz(func(t *testing.T, seed []byte) {
		s := source{seed}
		want := s.tuple(MaxDepth)
		packed, err := Append([]byte("p"), want)
		fatalIf(t, err != nil, "%v: %v", want, err)
		got, err := Unpack(packed[1:])
		fatalIf(t, err != nil || Compare(got, want) != 0, "%v came back as %v (%v)", want, got, err)
	})
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte{1, 2, 1, 97}, []byte{1, 2, 2, 97, 1})
	f.Add([]byte{1, 13, 0}, []byte{1, 13, 1, 0})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := source{a}, source{b}
		checkOrder(t, x.tuple(8), y.tuple(8))
	})
}
