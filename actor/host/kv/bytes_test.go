package kv

import (
	"bytes"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// Values of all lengths are written and read like byte strings of the CBOR library.
func TestByteStringsAreThoseOfCBOR(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 23, 24, 25, 255, 256, 65535, 65536, 1 << 20} {
		b := bytes.Repeat([]byte{7}, n)
		want, err := cbor.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := ByteString(b); !bytes.Equal(got, want) {
			t.Errorf("%d bytes begin with %x, not %x", n, got[:5], want[:5])
		}
		if got, err := Bytes(want); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func FuzzBytes(f *testing.F) {
	for _, raw := range []string{"", "\x40", "\x41", "\x41a", "\x58\x01a", "\x58", "\x59\x00", "\x5a\x00\x00\x00\x01a",
		"\x5b\x00\x00\x00\x00\x00\x00\x00\x01a", "\x5f\x41a\xff", "\x61a", "\xf6", "\x41ab"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want []byte
		bad := len(raw) == 0 || raw[0]>>5 != 2 || cbor.Unmarshal(raw, &want) != nil
		got, err := Bytes(raw)
		if (err != nil) != bad || !bytes.Equal(got, want) {
			t.Errorf("%x is %x %v; CBOR says %x", raw, got, err, want)
		}
	})
}
