package kvfile

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// every returns an entry of each encoding, and of each type of key part.
func every() []kv.Entry {
	huge, _ := new(big.Int).SetString("-123456789012345678901234567890123456789", 10)
	document := must(cbor.Marshal(map[string]any{"a": []byte{1}, "b": 1.5}))
	v8 := must(value.FromJSON(host.EncodedV8, []byte(`{"n":1,"s":"é😀"}`))).Data
	values := []kv.Value{
		kv.JSON([]byte(`{"z":1,"a":12345678901234567890.10,"t":"<&>\u2028"}`)), kv.JSON([]byte("null")), kv.JSON([]byte("1e400")),
		kv.Text(""), kv.Text("a\x00\n<é😀\uFFFD\u2028"), kv.Bytes(nil), kv.Bytes([]byte{0, 1, 0xFF}),
		{Encoding: host.EncodedU64, Data: binary.LittleEndian.AppendUint64(nil, 1<<64-1)},
		{Encoding: host.EncodedInteger, Data: value.Integer(huge).Data}, {Encoding: host.EncodedInteger,
			Data: value.Integer(new(big.Int)).Data},
		{Encoding: host.EncodedCBOR, Data: document}, {Encoding: host.EncodedTyped, Data: document},
		{Encoding: host.EncodedV8, Data: v8}, {Encoding: host.EncodedV8, Data: []byte{0xFF, 0x0F, 'R', 0xFF}},
	}
	keys := []kv.Key{
		{"users", int64(7)}, {"users", 7.0}, {[]byte{0, 0xFF}, []byte{}}, {""}, {true,
			false}, {huge}, {uint64(1<<64 - 1)}, {"a", "b\x00c", "<é>"},
	}
	var all []kv.Entry
	for i, v := range values {
		e := kv.Entry{Key: append(kv.Key{int64(i)}, keys[i%len(keys)]...), Value: v}
		if i%2 == 1 {
			e.Expires = time.Date(2099, 1, 2, 3, 4, 5, i*int(time.Millisecond), time.UTC)
		}
		all = append(all, e)
	}
	return all
}

// same reports whether two entries have the same key, encoding, bytes and expiry.
func same(a, b *kv.Entry) bool {
	return reflect.DeepEqual(a.Key, b.Key) && a.Value.Encoding == b.Value.Encoding &&
		bytes.Equal(a.Value.Data, b.Value.Data) && a.Expires.Equal(b.Expires)
}

func TestLinesKeepKeysEncodingsBytesAndExpiry(t *testing.T) {
	for _, e := range every() {
		line := must(AppendLine(nil, &e))
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%q is not a line", line)
		}
		if got, err := ParseLine(line); err != nil || !same(&got, &e) {
			t.Errorf("%s is read as %+v, %v; want %+v", line, got, err, e)
		}
	}
}

func TestLinesAreAsDescribed(t *testing.T) {
	e := kv.Entry{Key: kv.Key{"user", int64(7)}, Value: kv.JSON([]byte(`{"name":"Ada"}`)),
		Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}
	if line := must(AppendLine(nil,
		&e)); string(line) != `{"key":["user",7],"value":{"name":"Ada"},"expires":"2027-01-01T00:00:00Z"}`+"\n" {
		t.Errorf("%s", line)
	}
	e = kv.Entry{Key: kv.Key{"raw"}, Value: kv.Bytes([]byte{0, 1, 0xFF})}
	if line := must(AppendLine(nil, &e)); string(line) != `{"key":["raw"],"value":{"$bytes":"AAH/"},"encoding":"bytes"}`+"\n" {
		t.Errorf("%s", line)
	}
}

// Values of an earlier release get the encoding of their bytes.
func TestLinesOfUnencodedValuesNameAnEncoding(t *testing.T) {
	for data, want := range map[string]string{
		`{"a": 1}`: `{"key":["a"],"value":{"a":1}}`,
		"\xa0":     `{"key":["a"],"value":{"$cbor":"oA=="},"encoding":"cbor"}`,
		"\xff\xff": `{"key":["a"],"value":{"$bytes":"//8="},"encoding":"bytes"}`,
	} {
		e := kv.Entry{Key: kv.Key{"a"}, Value: kv.Value{Data: []byte(data)}}
		if line := must(AppendLine(nil, &e)); string(line) != want+"\n" {
			t.Errorf("%q: %s", data, line)
		}
	}
}

func TestDamagedValuesAreNotExported(t *testing.T) {
	e := kv.Entry{Key: kv.Key{"a"}, Value: kv.Text("\xff")}
	if _, err := AppendLine(nil, &e); host.CodeOf(err) != host.Internal || !strings.Contains(err.Error(), `["a"]`) {
		t.Error(err)
	}
}

func TestFaultyLinesNameTheMember(t *testing.T) {
	for text, field := range map[string]string{
		``:                             "",
		`{`:                            "",
		`[1]`:                          "",
		`null`:                         "",
		`{"key":["a"],"value":1} x`:    "",
		`{"key":["a"],"value":1}{}`:    "",
		`{"value":1}`:                  "key",
		`{"key":null,"value":1}`:       "key",
		`{"key":[],"value":1}`:         "key",
		`{"key":"a","value":1}`:        "key",
		`{"key":["a",null],"value":1}`: "key[1]",
		`{"key":["a",{"$raw":"IA=="}],"value":1}`:                                           "key[1]",
		`{"key":["a",{"$bytes":"!"}],"value":1}`:                                            "key[1]",
		`{"key":[{"$bytes":"AA==","$bytes":"AQ=="}],"value":1}`:                             "key[0].$bytes",
		`{"key":["\ud800"],"value":1}`:                                                      "key[0]",
		`{"key":["a"]}`:                                                                     "value",
		`{"key":["a"],"value":{"a":1,"a":2}}`:                                               "value.a",
		`{"key":["a"],"value":1,"value":2}`:                                                 "value",
		`{"key":["a"],"Value":1}`:                                                           "Value",
		`{"key":["a"],"value":1,"version":2}`:                                               "version",
		`{"key":["a"],"value":1,"encoding":"text"}`:                                         "value",
		`{"key":["a"],"value":"\ud800","encoding":"text"}`:                                  "value",
		`{"key":["a"],"value":{"$bytes":"a"},"encoding":"bytes"}`:                           "value",
		`{"key":["a"],"value":{"$cbor":"/w=="},"encoding":"cbor"}`:                          "value",
		`{"key":["a"],"value":{"$v8":"AA=="},"encoding":"v8"}`:                              "value",
		`{"key":["a"],"value":-1,"encoding":"u64"}`:                                         "value",
		`{"key":["a"],"value":1.5,"encoding":"integer"}`:                                    "value",
		`{"key":["a"],"value":1,"encoding":"xml"}`:                                          "encoding",
		`{"key":["a"],"value":1,"encoding":""}`:                                             "encoding",
		`{"key":["a"],"value":1,"encoding":7}`:                                              "encoding",
		`{"key":["a"],"value":1,"expires":"tomorrow"}`:                                      "expires",
		`{"key":["a"],"value":1,"expires":1}`:                                               "expires",
		`{"key":["a"],"value":1,"expires":null}`:                                            "expires",
		`{"key":["a"],"value":` + strings.Repeat("[", 501) + strings.Repeat("]", 501) + `}`: "value",
	} {
		e, err := ParseLine([]byte(text))
		fault, is := err.(*host.Error)
		if !is || fault.Code != host.InvalidArgument && fault.Code != host.TooLarge || fault.Metadata["field"] != field {
			t.Errorf("%.80s: %+v, %v", text, e, err)
			if is {
				t.Errorf("field %q, want %q", fault.Metadata["field"], field)
			}
		}
	}
}

func FuzzParseLine(f *testing.F) {
	for _, e := range every() {
		f.Add(must(AppendLine(nil, &e)))
	}
	f.Add([]byte(`{"key":["a"],"value":1,"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseLine(text)
		if err != nil {
			if _, is := err.(*host.Error); !is {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		line, err := AppendLine(nil, &e)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		again, err := ParseLine(line)
		if err != nil || !same(&e, &again) {
			t.Fatalf("%q is written %q, and read as %+v, %v", text, line, again, err)
		}
	})
}
