package state

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
)

func TestTypesOfCBORAreKept(t *testing.T) {
	huge, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	for _, c := range []struct {
		value any
		text  string
	}{
		{nil, `null`}, {true, `true`}, {1, `1`}, {-7, `-7`}, {uint64(math.MaxUint64), `18446744073709551615`}, {huge,
			`-123456789012345678901234567890`},
		{1.0, `1.0`}, {1e300, `1e+300`}, {-0.5, `-0.5`}, {math.Inf(-1), `{"$float":"-Infinity"}`}, {"a\"<é", `"a\"<é"`},
		{[]byte{0, 255}, `{"$bytes":"AP8="}`}, {[]any{1, []byte{}}, `[1,{"$bytes":""}]`},
		{map[string]any{"b": 1, "a": map[string]any{}}, `{"a":{},"b":1}`}, {map[int]any{2: "x", 1: nil}, `{"$map":[[1,null],[2,"x"]]}`},
		{map[string]any{"$bytes": "x"}, `{"$map":[["$bytes","x"]]}`}, {map[cbor.ByteString]int{"k": 1}, `{"$map":[[{"$bytes":"aw=="},1]]}`},
		{cbor.Tag{Number: 4000, Content: []any{1}}, `{"$tag":4000,"value":[1]}`},
		{cbor.Tag{Number: 0, Content: "2027-01-02T03:04:05Z"}, `{"$tag":0,"value":"2027-01-02T03:04:05Z"}`},
	} {
		data, err := encoding.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		text, err := toJSON(data)
		if err != nil || string(text) != c.text || !json.Valid(text) {
			t.Errorf("%v is %s, %v; want %s", c.value, text, err, c.text)
			continue
		}
		back, err := fromJSON(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		again, err := encoding.Marshal(back)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := toJSON(again); err != nil || !bytes.Equal(after, text) || len(again) != len(data) {
			t.Errorf("%s comes back as %s, %x instead of %x", text, after, again, data)
		}
	}
	if data, err := encoding.Marshal(time.Unix(5, 0)); err != nil {
		t.Fatal(err)
	} else if _, err := toJSON(data); err != nil {
		t.Error(err)
	}
}

func TestWrongStatesNameTheirPlace(t *testing.T) {
	for text, path := range map[string]string{
		`{"a":[1,{"$bytes":"?"}]}`: "a[1]", `{"a":{"$x":1}}`: "a", `{"$tag":1}`: "", `{"a":{"$map":[[1]]}}`: "a", `{"a":{"$map":[[{"b":1},1]]}}`: "a[0]",
		`{"a":1e999}`: "a", `{"$float":"x"}`: "",
	} {
		_, err := fromJSON([]byte(text))
		if f, is := err.(*fault); !is || f.path != path {
			t.Errorf("%s: %v", text, err)
		}
	}
	given, _ := fromJSON([]byte(`{"a":{"b":1,"c":0,"d":""},"l":[{"x":1}],"n":null,"s":[1,2,0]}`))
	for made, want := range map[string]string{
		`{"a":{"b":1},"l":[{"x":1}],"s":[1,2]}`: "", `{"a":{},"l":[{"x":1}],"s":[1,2]}`: "a.b", `{"a":{"b":2},"l":[{}],"s":[1,2]}`: "l[0].x",
		`{"a":{"b":1},"s":[1,2]}`: "l", `{"a":{"b":1},"l":[{"x":1}],"s":[1]}`: "s[1]", `{"a":{"b":1},"l":[{"x":1}],"s":[1,2,0,0]}`: "",
	} {
		m, _ := fromJSON([]byte(made))
		if got := lost(given, m, ""); got != want {
			t.Errorf("%s: %q is lost, want %q", made, got, want)
		}
	}
}

func FuzzStatesInJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1.5,{"$bytes":"AA=="},{"$tag":1,"value":2}]}`))
	f.Add([]byte(`{"$map":[[1,{"$cbor":"9w=="}]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := fromJSON(text)
		if err != nil {
			return
		}
		data, err := encoding.Marshal(v)
		if err != nil {
			return // a key that no map can have
		}
		if again, err := toJSON(data); err == nil && !json.Valid(again) {
			t.Errorf("%s becomes %s", text, again)
		}
	})
}
