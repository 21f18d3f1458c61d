package sqlitevfs

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestMetadataGolden(t *testing.T) {
	t.Parallel()
	m := Metadata{Pages: 300, Sequence: 1<<40 + 7, Migrations: 2, Fingerprint: [16]byte{0xaa, 15: 0xbb}}
	want := append([]byte{1, 0, 0, 1, 44, 0, 0, 1, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0xaa}, append(make([]byte, 14), 0xbb)...)
	if got := m.append(nil); !bytes.Equal(got, want) {
		t.Fatalf("encoded %x, want %x", got, want)
	}
	for _, m := range []Metadata{m, {}, {Pages: math.MaxUint32, Sequence: math.MaxUint64, Migrations: math.MaxUint32}} {
		b := m.append(nil)
		if len(b) != metadataSize {
			t.Errorf("%+v takes %d bytes", m, len(b))
		}
		if got, err := parseMetadata(b); err != nil || got != m {
			t.Errorf("%+v came back as %+v, %v", m, got, err)
		}
		for n := range b {
			if _, err := parseMetadata(b[:n]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(b), err)
			}
		}
		if _, err := parseMetadata(append(b, 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("a byte too many: %v", err)
		}
	}
}

func FuzzParseMetadata(f *testing.F) {
	f.Add([]byte{})
	f.Add(Metadata{Pages: 300, Sequence: 1 << 40, Migrations: 3}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMetadata(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if again, err := parseMetadata(m.append(nil)); err != nil || again != m {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
