package record

import (
	"reflect"
	"testing"
)

type old struct {
	_    struct{} `cbor:",toarray"`
	Name string
	N    int64
}

type grown struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	N     int64
	Data  []byte
	Names []string
	Flag  bool
	More  string
}

func TestLaterReleaseReadsWhatAnEarlierOneWrote(t *testing.T) {
	b, err := Encode(&old{Name: "a", N: 7})
	if err != nil {
		t.Fatal(err)
	}
	var g grown
	if err := Decode(b, &g); err != nil {
		t.Fatal(err)
	}
	if want := (grown{Name: "a", N: 7}); !reflect.DeepEqual(g, want) {
		t.Errorf("decoded %+v, want %+v", g, want)
	}
}

func TestRecordOfALaterReleaseIsRefused(t *testing.T) {
	b, err := Encode(&grown{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := Decode(b, new(old)); err == nil {
		t.Error("a record with more fields than are known was decoded")
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range []any{&old{Name: "a", N: 7}, &grown{Name: "b", Data: []byte("x"), Names: []string{"c"}, Flag: true}} {
		b, err := Encode(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{1, 0x81, 0x61})
	f.Fuzz(func(t *testing.T, b []byte) {
		var g, again grown
		if Decode(b, &g) != nil {
			return
		}
		enc, err := Encode(&g)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(enc, &again); err != nil || !reflect.DeepEqual(g, again) {
			t.Errorf("%x decodes to %+v, and that to %+v, %v", b, g, again, err)
		}
	})
}
