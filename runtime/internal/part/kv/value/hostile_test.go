package value

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// A value that Stored accepts has a form in JSON that FromJSON reads, so that one entry never makes
// a listing fail.
func TestAcceptedValuesAreShownAndReadBack(t *testing.T) {
	for name, v := range map[string]Value{
		"a member twice":     {host.EncodedCBOR, []byte("\xa2\x61a\x01\x61a\x02")},
		"a text of no text":  {host.EncodedCBOR, []byte("\x61\xff")},
		"an array as name":   {host.EncodedTyped, []byte("\xa1\x80\x01")},
		"a time of no time":  {host.EncodedCBOR, []byte("\xc0\x61x")},
		"a huge time":        {host.EncodedCBOR, []byte("\xc1\xfb\x7e\x37\xe4\x3c\x88\x00\x75\x9c")},
		"40 arrays":          {host.EncodedCBOR, []byte(strings.Repeat("\x81", 40) + "\x01")},
		"200,000 elements":   {host.EncodedCBOR, append([]byte("\x9a\x00\x03\x0d\x40"), make([]byte, 200_000)...)},
		"an integer of 1 MB": {host.EncodedCBOR, append([]byte("\xc2\x5a\x00\x10\x00\x00"), strings.Repeat("\x01", 1<<20)...)},
		"an integer of V8":   {host.EncodedV8, v8.FromInteger(new(big.Int).Lsh(big.NewInt(1), 8<<20))},
	} {
		v, err := Stored(v.Encoding, v.Data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		start := time.Now()
		text, err := v.AppendJSON(nil)
		if err != nil || !json.Valid(text) || len(text) > 6*len(v.Data)+64 {
			t.Errorf("%s: %.80s %v", name, text, err)
			continue
		}
		if took := time.Since(start); took > time.Minute { // the square of a megabyte
			t.Errorf("%s: %v", name, took)
		}
		_, err = JSON(text)
		errorIf(t, err != nil, "%s: %.80s %v", name, text, err)
	}
	_, err := Stored(host.EncodedInteger, append([]byte{0, 1}, make([]byte, 1<<20)...))
	errorIf(t, err == nil, "an integer of 1 MB is accepted")
}

// Gaps cost a client nothing, and a reader memory.
func TestGapsOfAnArrayAreBounded(t *testing.T) {
	inner := []byte{'a', 0xC0, 0x84, 0x3D, '@', 0, 0xC0, 0x84, 0x3D} // 1,000,000 gaps
	data := append([]byte{0xFF, 15, 'A', 200, 78}, make([]byte, 0, 100_000)...)
	for range 10_000 {
		data = append(data, inner...)
	}
	data = append(data, '$', 0, 200, 78)
	text, err := Value{host.EncodedV8, data}.AppendJSON(nil)
	errorIf(t, err != nil || len(text) > 16*5*len(data)+6<<10, "%d bytes become %d %v", len(data), len(text), err)
}

func TestMembersOfCBORHaveOneOrder(t *testing.T) {
	for cbor, want := range map[string]string{
		"\xa3\x61b\x01\x05\x02\x61a\xa2\x61z\x03\x20\x04": `{"5":2,"a":{"-1":4,"z":3},"b":1}`,
		"\xbf\x61b\x9f\x01\xff\x61a\x02\xff":              `{"a":2,"b":[1]}`,
		"\xa2\x61\x31\x01\x01\x02":                        `{"$cbor":"omExAQEC"}`, // "1" and 1 have one name
		"\xa3\x61\x31\x01\x02\x02\x01\x03":                `{"$cbor":"o2ExAQICAQM="}`,
		"\xa2\x61z\xa2\x61b" + "\x9a\x00\x00\x9c\x40" + strings.Repeat("\xf4", 40_000) +
			"\x61a\x01\x61y\x01": `{"y":1,"z":{"a":1,"b":[` + strings.Repeat("false,", 39_999) + "false]}}",
		"\xa2\xf9\x7e\x00\x01\xf9\x7e\x00\x02": `{"$cbor":"ovl+AAH5fgAC"}`,
		"\xa1\xd8\x30\x80\x01":                 `{"$cbor":"odgwgAE="}`,
		"\xc1\x80":                             `{"$cbor":"wYA="}`,
		"\xa1\x3b\xff\xff\xff\xff\xff\xff\xff\xff\xd8\x30\x82\x01\xc2\x41\x05": `{"-18446744073709551616":[1,5]}`,
	} {
		got, err := (Value{host.EncodedCBOR, []byte(cbor)}).AppendJSON(nil)
		errorIf(t, err != nil || string(got) != want, "%x: %s %v, want %s", cbor, got, err, want)
	}
}

// Members within members are not moved repeatedly: bringing members into order costs a part of
// their bytes, and not the bytes times their depth.
func TestMembersOfDeepMapsAreMovedWithinBounds(t *testing.T) {
	const levels, size = 400, 1 << 16
	data := strings.Repeat("\xa2\x61b\x00\x61a", levels) + "\x7a" +
		string(binary.BigEndian.AppendUint32(nil, size)) + strings.Repeat("\x01", size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := Value{host.EncodedCBOR, []byte(data)}.AppendJSON(nil)
	runtime.ReadMemStats(&after)
	n := after.TotalAlloc - before.TotalAlloc
	errorIf(t, err != nil || !json.Valid(text) || n > 128*size, "%.40s %v, with %d bytes for %d", text, err, n, len(data))
}

func BenchmarkSumOfTheLongest(b *testing.B) {
	old := Value{host.EncodedJSON, []byte(strings.Repeat("9", MaxDigits-1) + "0")}
	for b.Loop() {
		_, err := Sum.Combine(&old, Value{host.EncodedJSON, []byte("1")}, Bounds{})
		must(b, err)
	}
}

// Values that a caller gives in JSON, and their stored form.
func TestValuesAreReadFromJSON(t *testing.T) {
	for _, c := range []struct {
		encoding string
		text     string
		want     Value
	}{
		{"json", `{ "a": 1.0 }`, Value{host.EncodedJSON, []byte(`{"a":1.0}`)}},
		{"text", `"é"`, Value{host.EncodedText, []byte("é")}},
		{"text", `""`, Value{host.EncodedText, nil}},
		{"text", `"\ufffd\ud83d\ude00"`, Value{host.EncodedText, []byte("\uFFFD😀")}},
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
		"json": {"", "{"}, "text": {"1", "null", `"\ud800"`, `"a\udc00b"`}, "bytes": {`"AA=="`, `{"$bytes":1}`,
			`{"$bytes":"A"}`, `{"$bytes":"AB=="}`, `{"$bytes":"AA==","b":1}`, `{}`}, "u64": {"-1", "18446744073709551616", "1.0", `"1"`},
		"integer": {"1.5", "1e3", "null"}, "cbor": {"1",
			`{"$cbor":"/w=="}`}, "typed": {`{"$bytes":"AQ=="}`}, "v8": {"1e400", `{"$v8":"?"}`, `{"$v8":"AAAA"}`, `{"$v8":1}`},
	} {
		e, _ := host.ParseEncoding(encoding)
		for _, text := range texts {
			got, err := FromJSON(e, []byte(text))
			errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%s %s: %q %v", encoding, text, got.Data, err)
		}
	}
	for _, damaged := range []Value{{host.EncodedJSON, []byte("{")}, {host.EncodedText, []byte{0xFF}},
		{host.EncodedU64, []byte{1}}, {host.EncodedInteger, nil}, {host.EncodedCBOR, []byte{0xFF}}, {host.EncodedV8, nil}} {
		_, err := Stored(damaged.Encoding, damaged.Data)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v %q: %v", damaged.Encoding, damaged.Data, err)
	}
	if _, ok := host.ParseEncoding(""); ok {
		t.Error("no word is an encoding")
	}
	_, err := FromJSON(host.Encoding(99), []byte("1"))
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}
