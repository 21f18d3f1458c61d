package kv

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

func TestKeyIsWrittenBackAsItWasRead(t *testing.T) {
	for _, text := range []string{
		`[]`, `["a"]`, `["a",1]`, `[1]`, `[1.0]`, `[-0.0]`, `[1e+300]`, `[0.1]`, `[true,false]`, `[""]`,
		`[9007199254740993]`, `[18446744073709551615]`, `[-9223372036854775808]`, `[340282366920938463463374607431768211456]`,
		`[-340282366920938463463374607431768211456]`, `["ü","日本","\u0000"]`, "[\"\uFFFD\"]", `[{"$bytes":"AP8="},"a"]`, `[{"$bytes":""}]`,
	} {
		var k Key
		if err := json.Unmarshal([]byte(text), &k); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		packed, err := mustTuple(t, k).Pack()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		unpacked, err := tuple.Unpack(packed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(Key(unpacked))
		if err != nil || string(got) != text {
			t.Errorf("%s is read back as %s, %v", text, got, err)
		}
	}
}

func TestKeysWithTheSameSpellingOfOneValueAreOneKey(t *testing.T) {
	for _, pair := range [][2]string{{`["a"]`, `["\u0061"]`}, {`[1.0]`, `[10e-1]`}, {`[-0]`, `[0]`}} {
		if a, b := packed(t, pair[0]), packed(t, pair[1]); a != b {
			t.Errorf("%s and %s are two keys", pair[0], pair[1])
		}
	}
	if packed(t, `[1]`) == packed(t, `[1.0]`) {
		t.Error("[1] and [1.0] are one key")
	}
}

func TestKeysAreOrderedByTypeThenValue(t *testing.T) {
	want := []string{
		`[{"$bytes":""}]`, `[{"$bytes":"AA=="}]`, `[{"$bytes":"/w=="}]`, `[""]`, `["a"]`, `["a",1]`, `["a\u0000"]`, `["b"]`, `[-340282366920938463463374607431768211456]`, `[-256]`, `[-255]`, `[-1]`,
		`[0]`, `[1]`, `[255]`, `[256]`, `[340282366920938463463374607431768211456]`, `[-1.5]`, `[0.5]`, `[false]`, `[true]`,
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, func(a, b string) int { return strings.Compare(packed(t, a), packed(t, b)) })
	if !slices.Equal(got, want) {
		t.Errorf("order is %v, want %v", got, want)
	}
}

func FuzzKey(f *testing.F) {
	for _, s := range []string{`["a",1,1.5,true]`, `["\ud83d\ude00\\u"]`, `[-0]`, `[1E5]`, `[{"$bytes":"AP8="}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var k Key
		if json.Unmarshal([]byte(text), &k) != nil {
			return
		}
		first := mustPack(t, k)
		again, err := json.Marshal(k)
		if err != nil {
			t.Fatalf("%s is read and not written: %v", text, err)
		}
		var l Key
		if err := json.Unmarshal(again, &l); err != nil {
			t.Fatalf("%s is written as %s, which is not read: %v", text, again, err)
		}
		if mustPack(t, l) != first {
			t.Fatalf("%s is written as %s, which is another key", text, again)
		}
	})
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var k Key
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return mustPack(t, k)
}

func mustTuple(t *testing.T, k Key) tuple.Tuple {
	t.Helper()
	tup, err := k.Tuple()
	if err != nil {
		t.Fatalf("%v: %v", k, err)
	}
	return tup
}

func mustPack(t *testing.T, k Key) string {
	t.Helper()
	b, err := mustTuple(t, k).Pack()
	if err != nil {
		t.Fatalf("%v: %v", k, err)
	}
	return string(b)
}

func TestKeyRefusesWhatItCannotKeep(t *testing.T) {
	huge := `[1` + strings.Repeat("0", 700) + `]`
	for _, text := range []string{
		`null`, `{}`, `"a"`, `[null]`, `[[1]]`, `[{}]`, `[1e999]`, huge, `[` + new(big.Int).Lsh(big.NewInt(1), 255*8).String() + `]`,
		`["\ud800"]`, "[\"\xff\"]", `["\ud800\ufffd"]`, `[{"$bytes":null}]`, `[{"$bytes":"A"}]`, `[{"$bytes":"AB=="}]`,
		`[{"$bytes":"AA==","x":1}]`, `[{"$byte":"AA=="}]`, `[{"$bytes":1}]`, `[{"$raw":1}]`, `[{"$raw":"","$bytes":""}]`,
		`[{"$uuidv7":false}]`, `[{"$uuidv7":""}]`, `[{"$uuidv7":"a b"}]`, `[{"$uuidv7":1}]`, `[{"$uuidv7":true,"x":1}]`,
		`[{"$versionstamp":"a"}]`, `[{"$x":true}]`,
	} {
		if err := json.Unmarshal([]byte(text), new(Key)); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%.60s: %v", text, err)
		}
	}
	if err := json.Unmarshal([]byte(`["`+strings.Repeat("a", maxText)+`"]`), new(Key)); host.CodeOf(err) != host.TooLarge {
		t.Errorf("a long key: %v", err)
	}
	for _, m := range []map[string]any{
		{"$uuidv7": false}, {"$uuidv7": ""}, {"$uuidv7": 1}, {"$versionstamp": "a"}, {"uuidv7": true}, {"$uuidv7": true, "$x": true}, {},
	} {
		binary, err := cbor.Marshal([]any{m})
		if err != nil {
			t.Fatal(err)
		}
		if err := cbor.Unmarshal(binary, new(Key)); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, k := range []Key{{nil}, {Raw("a")}, {"\xff"}, {(*big.Int)(nil)}, {float32(1)}, {Key{1}}} {
		if _, err := k.Tuple(); err == nil {
			t.Errorf("%#v became a tuple", k)
		}
	}
	if text, err := json.Marshal(Key{Placeholder("uuidv7:a b")}); err == nil {
		t.Errorf("%s", text)
	}
}

// written returns the keys read from a key's JSON and CBOR, and the JSON.
func written(t *testing.T, k Key) (fromText, fromBinary Key, text string) {
	t.Helper()
	b, err := json.Marshal(k)
	binary, err2 := cbor.Marshal(k)
	if err := errors.Join(err, err2, json.Unmarshal(b, &fromText), cbor.Unmarshal(binary, &fromBinary)); err != nil {
		t.Fatalf("%#v: %v", k, err)
	}
	return fromText, fromBinary, string(b)
}

// A part that only Go code writes is shown in a form that finds it again.
func TestPartsOfOtherTypesAreShown(t *testing.T) {
	for _, part := range []any{tuple.UUID{1, 2}, nil, float32(1.5), tuple.Tuple{"a", int64(1)}, math.Inf(1), "\xff"} {
		k := Key{"a", part}
		fromText, fromBinary, text := written(t, k)
		if !reflect.DeepEqual(fromText, k) || !reflect.DeepEqual(fromBinary, k) || !strings.Contains(text, `{"$raw":"`) {
			t.Errorf("%s is read as %#v and %#v", text, fromText, fromBinary)
		}
		if _, err := k.Tuple(); (err == nil) != (part == math.Inf(1)) {
			t.Errorf("%v: %v", k, err)
		}
	}
}

// Placeholders keep their names on the way, and no key of an entry has one.
func TestPlaceholdersAreWrittenBackAsTheyWereRead(t *testing.T) {
	for text, want := range map[string]Placeholder{
		`{"$uuidv7":true}`: UUIDv7, `{"$uuidv7":"a-B_9"}`: "uuidv7:a-B_9", `{"$versionstamp":true}`: Versionstamp, `{"$uuidv7":"true"}`: "uuidv7:true",
	} {
		k := Key{"a", want}
		fromText, fromBinary, again := written(t, k)
		if !reflect.DeepEqual(fromText, k) || !reflect.DeepEqual(fromBinary, k) || again != `["a",`+text+`]` {
			t.Errorf("%s is read as %#v and %#v", again, fromText, fromBinary)
		}
		if _, err := k.Tuple(); host.CodeOf(err) != host.InvalidArgument {
			t.Error(err)
		}
	}
}

// Bytes that are no part bound a range, and name no entry.
func TestBoundsMayEndWithAnyBytes(t *testing.T) {
	for _, raw := range []string{"", "\x00\x00\x00", "\xff", "\x02a", "\x02a\x00\x02b\x00", "a"} {
		k := Key{"a", Raw(raw)}
		fromText, fromBinary, _ := written(t, k)
		for _, k := range []Key{k, fromText, fromBinary} {
			if b, err := k.PackBound(); err != nil || string(b) != "\x02a\x00"+raw {
				t.Errorf("%#v is the bound %q, %v", k, b, err)
			}
			_, err := k.Pack()
			_, err2 := k.Tuple()
			if host.CodeOf(err) != host.InvalidArgument || host.CodeOf(err2) != host.InvalidArgument {
				t.Errorf("%#v names an entry: %v, %v", k, err, err2)
			}
		}
	}
	if _, err := (Key{Raw("a"), "b"}).PackBound(); host.CodeOf(err) != host.InvalidArgument {
		t.Error(err)
	}
	if b, err := (Key{}).PackBound(); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
