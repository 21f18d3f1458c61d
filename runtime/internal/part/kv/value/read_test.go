package value

import (
	"bytes"
	"math/big"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// What a caller gives in JSON, and what is stored then.
func TestValuesAreReadFromJSON(t *testing.T) {
	for _, c := range []struct {
		encoding string
		text     string
		want     Value
	}{
		{"json", `{ "a": 1.0 }`, Value{host.EncodedJSON, []byte(`{"a":1.0}`)}},
		{"text", `"é"`, Value{host.EncodedText, []byte("é")}},
		{"text", `""`, Value{host.EncodedText, nil}},
		{"bytes", `{"$bytes":"AP8="}`, Value{host.EncodedBytes, []byte{0, 255}}},
		{"u64", "18446744073709551615", U64(1<<64 - 1)},
		{"integer", "-300", Integer(big.NewInt(-300))},
		{"v8", `[1]`, v8JSON(t, "[1]")},
		{"v8", `{"$v8":"/w9UAA=="}`, Value{host.EncodedV8, []byte("\xff\x0fT\x00")}},
		{"cbor", `{"$cbor":"AQ=="}`, Value{host.EncodedCBOR, []byte{1}}},
		{"typed", `{"$cbor":"AQ=="}`, Value{host.EncodedTyped, []byte{1}}},
	} {
		encoding, ok := host.ParseEncoding(c.encoding)
		got, err := FromJSON(encoding, []byte(c.text))
		errorIf(t, !ok || err != nil || got.Encoding != c.want.Encoding || !bytes.Equal(got.Data, c.want.Data),
			"%s %s: %v %q %v", c.encoding, c.text, got.Encoding, got.Data, err)
		stored, err := Stored(encoding, got.Data)
		errorIf(t, err != nil || stored.Encoding != got.Encoding || !bytes.Equal(stored.Data, got.Data),
			"%s %q as it is stored: %v", c.encoding, got.Data, err)
	}
	for encoding, texts := range map[string][]string{
		"json": {"", "{"}, "text": {"1", "null"}, "bytes": {`"AA=="`, `{"$bytes":1}`, `{"$bytes":"A"}`, `{"$bytes":"AB=="}`, `{"$bytes":"AA==","b":1}`, `{}`}, "u64": {"-1", "18446744073709551616", "1.0", `"1"`},
		"integer": {"1.5", "1e3", "null"}, "cbor": {"1", `{"$cbor":"/w=="}`}, "typed": {`{"$bytes":"AQ=="}`}, "v8": {"1e400"},
	} {
		e, _ := host.ParseEncoding(encoding)
		for _, text := range texts {
			got, err := FromJSON(e, []byte(text))
			errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%s %s: %q %v", encoding, text, got.Data, err)
		}
	}
	for _, damaged := range []Value{{host.EncodedJSON, []byte("{")}, {host.EncodedText, []byte{0xFF}}, {host.EncodedU64, []byte{1}}, {host.EncodedInteger, nil}, {host.EncodedCBOR, []byte{0xFF}}, {host.EncodedV8, nil}} {
		_, err := Stored(damaged.Encoding, damaged.Data)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v %q: %v", damaged.Encoding, damaged.Data, err)
	}
	if _, ok := host.ParseEncoding(""); ok {
		t.Error("no word is an encoding")
	}
	_, err := FromJSON(host.Encoding(99), []byte("1"))
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}
