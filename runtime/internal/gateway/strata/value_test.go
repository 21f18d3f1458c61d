package strata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// shows returns a value in the form for clients.
func shows(t testing.TB, v kv.Value) string {
	t.Helper()
	text, err := appendValue(nil, v)
	fatalIf(t, err != nil || !json.Valid(text), "%s: %v", text, err)
	return string(text)
}

// Values of the eight types keep their type.
func TestValuesKeepTheirTypes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"Null"`: `"Null"`, `null`: `"Null"`, `{"Null":null}`: `"Null"`, `{"String":"Null"}`: `{"String":"Null"}`,
		`true`: `{"Bool":true}`, `{"Bool":false}`: `{"Bool":false}`,
		`1`: `{"Int":1}`, `{"Int":1}`: `{"Int":1}`, `1.0`: `{"Float":1.0}`, `{"Float":1.0}`: `{"Float":1.0}`, `{"Float":1}`: `{"Float":1.0}`,
		`-1`: `{"Int":-1}`, `0`: `{"Int":0}`, `-0`: `{"Int":0}`, `-0.0`: `{"Float":-0.0}`, `1e2`: `{"Float":100.0}`, `1E-7`: `{"Float":1e-07}`,
		`9223372036854775807`: `{"Int":9223372036854775807}`, `{"Int":-9223372036854775808}`: `{"Int":-9223372036854775808}`,
		`9007199254740993`: `{"Int":9007199254740993}`, `0.1`: `{"Float":0.1}`, `5e-324`: `{"Float":5e-324}`, `1.7976931348623157e308`: `{"Float":1.7976931348623157e+308}`,
		`"x"`: `{"String":"x"}`, `{"String":""}`: `{"String":""}`, `"<é\u00e9\ud83d\ude00\n\u0000&>"`: `{"String":"<éé😀\n\u0000&>"}`, `"\ufffd�\\ufffd"`: `{"String":"��\\ufffd"}`,
		`{"Bytes":"AP8="}`: `{"Bytes":"AP8="}`, `{"Bytes":""}`: `{"Bytes":""}`,
		`[]`: `{"Array":[]}`, `{"Array":[]}`: `{"Array":[]}`, `[1,[2.5],{"Bytes":"AA=="},"Null"]`: `{"Array":[{"Int":1},{"Array":[{"Float":2.5}]},{"Bytes":"AA=="},"Null"]}`,
		`{}`: `{"Object":{}}`, `{"Object":{}}`: `{"Object":{}}`, `{"a":1,"b":{"Int":2}}`: `{"Object":{"a":{"Int":1},"b":{"Int":2}}}`,
		// one member alone is a tag
		`{"Object":{"Int":1}}`: `{"Object":{"Int":{"Int":1}}}`, `{"Int":1,"a":2}`: `{"Object":{"Int":{"Int":1},"a":{"Int":2}}}`,
		`{"int":1}`: `{"Object":{"int":{"Int":1}}}`, `{"":1}`: `{"Object":{"":{"Int":1}}}`,
		" [ 1 , { \"a\" : [ ] } ]\n":                       `{"Array":[{"Int":1},{"Object":{"a":{"Array":[]}}}]}`,
		`{"Array":[{"Object":{"Array":[{"Array":[1]}]}}]}`: `{"Array":[{"Object":{"Array":{"Array":[{"Array":[{"Int":1}]}]}}}]}`,
		`{"a":"]","b":"[{\"","c":"\\"}`:                    `{"Object":{"a":{"String":"]"},"b":{"String":"[{\""},"c":{"String":"\\"}}}`,
	} {
		v, err := parseValue([]byte(in), "value")
		if err != nil || v.Encoding != host.EncodedTyped {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got := shows(t, v)
		errorIf(t, got != want, "%s is %s, not %s", in, got, want)
		if err := cbor.Wellformed(v.Data); err != nil {
			t.Errorf("%s: %x is no CBOR: %v", in, v.Data, err)
		}
		again, err := parseValue([]byte(got), "value")
		errorIf(t, err != nil || !bytes.Equal(again.Data, v.Data), "%s: %x became %x, %v", in, v.Data, again.Data, err)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 128) + strings.Repeat("]", 128)
	tagged := strings.Repeat(`{"Array":[`, 128) + strings.Repeat("]}", 128)
	for _, in := range []string{deep, tagged} {
		_, err := parseValue([]byte(in), "value")
		check(t, err)
	}
	for in, want := range map[string]string{
		``: "value is missing", `{"Int":1.5}`: "value.Int is not an integer", `{"Int":"1"}`: "value.Int is not an integer", `{"Int":[1]}`: "value.Int is not an integer",
		`{"Int":9223372036854775808}`: "not an integer of 64 bits", `-9223372036854775809`: "value is -9223372036854775809, which is not an integer of 64 bits",
		`{"Float":"NaN"}`: "value.Float is not a number", `{"Float":null}`: "value.Float is not a number", `1e400`: "out of the range", `{"Float":-1e999}`: "out of the range",
		`{"Bool":1}`: "value.Bool is not", `{"Null":0}`: "value.Null is not", `{"String":1}`: "value.String is not a string", `{"String":null}`: "value.String is not a string",
		`{"Bytes":"A"}`: "value.Bytes is not base64", `{"Bytes":1}`: "value.Bytes is not base64", `{"Bytes":"AB=="}`: "value.Bytes is not base64", `{"Bytes":[0]}`: "value.Bytes is not base64",
		`{"Array":{}}`: "value.Array is not an array", `{"Array":1}`: "value.Array is not an array", `{"Object":[]}`: "value.Object is not an object", `{"Object":"x"}`: "value.Object is not an object",
		`[1,{"a":[{"Int":"x"}]}]`: "value[1].a[0].Int is not an integer", `"\ud800"`: "value is not Unicode", "\"\xa3\"": "value is not Unicode", `{"\udc00":1,"b":2}`: "name that is not Unicode",
		`["\ud83dx"]`: "value[0] is not Unicode", "[" + deep + "]": "nests more than 128", `{"Array":[` + tagged +
			`]}`: "nests more than 128",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "nests more than 128",
	} {
		_, err := parseValue([]byte(in), "value")
		e, is := errors.AsType[*host.Error](err)
		errorIf(t, !is || e.Code != host.InvalidArgument || !strings.Contains(e.Message, want) || e.Metadata["field"] != "value",
			"%.60s: %v, not %s", in, err, want)
	}
	for _, in := range []string{`"` + strings.Repeat("x", 1<<20) + `"`, "[" + strings.Repeat("1,", 1<<20) + "1]",
		"[" + strings.Repeat(`{"Int":1},`, 1<<20) + "1]"} {
		if _, err := parseValue([]byte(in), "value"); host.CodeOf(err) != host.TooLarge {
			t.Errorf("%.60s: %v", in, err)
		}
	}
}

// Values of other interfaces are shown with their own type.
func TestForeignValuesAreShown(t *testing.T) {
	t.Parallel()
	encoded := func(v any) []byte {
		b, err := cbor.Marshal(v)
		must(t, err)
		return b
	}
	short, err := cbor.EncOptions{ShortestFloat: cbor.ShortestFloat16, Sort: cbor.SortCanonical}.EncMode()
	must(t, err)
	floats, err := short.Marshal([]any{1.0, -2.5, 0.0, 6e-8, 65504.0, 1e10, math.Inf(-1), math.NaN()})
	must(t, err)
	for _, c := range []struct {
		v    kv.Value
		want string
	}{
		{kv.JSON([]byte(`{"a":[1,1.50,null,"x",true,{}],"b":12345678901234567890}`)),
			`{"Object":{"a":{"Array":[{"Int":1},{"Float":1.50},"Null",{"String":"x"},{"Bool":true},{"Object":{}}]},"b":{"Int":12345678901234567890}}}`},
		{kv.JSON([]byte(`{"Int":1}`)), `{"Object":{"Int":{"Int":1}}}`},
		{kv.Text(`a"b`), `{"String":"a\"b"}`},
		{kv.Bytes([]byte{0, 255}), `{"Bytes":"AP8="}`},
		{kv.Value{Encoding: host.EncodedU64, Data: []byte{255, 255, 255, 255, 255, 255, 255, 255}}, `{"Int":18446744073709551615}`},
		{kv.Value{Encoding: host.EncodedInteger, Data: []byte{1, 5}}, `{"Int":-5}`},
		{kv.Value{Encoding: host.EncodedCBOR, Data: encoded(map[string]any{"a": []byte{1}})}, `{"Object":{"a":{"Bytes":"AQ=="}}}`},
		{kv.Value{Encoding: host.EncodedTyped, Data: encoded(map[int]any{1: "x"})}, `{"Object":{"1":{"String":"x"}}}`},
		{kv.Value{Encoding: host.EncodedTyped, Data: encoded(uint64(math.MaxUint64))}, `{"Int":18446744073709551615}`},
		{kv.Value{Encoding: host.EncodedTyped, Data: floats},
			`{"Array":[{"Float":1.0},{"Float":-2.5},{"Float":0.0},{"Float":6e-08},{"Float":65504.0},{"Float":1e+10},{"Float":"-Inf"},{"Float":"NaN"}]}`},
		{kv.Value{Encoding: host.EncodedTyped, Data: []byte{0x9F, 1, 0xFF}}, `{"Array":[{"Int":1}]}`}, // of no length
	} {
		if got := shows(t, c.v); got != c.want {
			t.Errorf("%v %x is %s, not %s", c.v.Encoding, c.v.Data, got, c.want)
		}
	}
}

// A parsed value is shown in a form that parses to the same value. No text causes a panic.
func FuzzValues(f *testing.F) {
	for _, in := range []string{`{"Array":[{"Int":1},"Null",{"Object":{"a":{"Bytes":"AA=="}}}]}`,
		`[1,2.5e3,"\ud83d\ude00",{"a":[],"b":{}}]`, `{"Int":1,"Float":2}`, ` [ [ ] , { } ] `, `"]"`, `-0.0`, "\"\xa3\""} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) || host.CheckJSON(in, nil) != nil {
			return
		}
		v, err := parseValue(bytes.TrimSpace(in), "value")
		if err != nil {
			if e, is := errors.AsType[*host.Error](err); !is || e.Metadata["field"] != "value" {
				t.Fatal(err)
			}
			return
		}
		if err := cbor.Wellformed(v.Data); err != nil {
			t.Fatalf("%s: %x: %v", in, v.Data, err)
		}
		text := shows(t, v)
		again, err := parseValue([]byte(text), "value")
		fatalIf(t, err != nil || !bytes.Equal(again.Data, v.Data), "%s: %s: %x became %x, %v", in, text, v.Data, again.Data, err)
	})
}

// Any typed CBOR of other interfaces is shown as JSON.
func FuzzStoredValues(f *testing.F) {
	for _, in := range []string{"\x01", "\xa1\x61a\x81\xf6", "\xf9\x3c\x00", "\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00",
		"\x9f\xff", "\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", "\xa2\x61a\x01\x61a\x02"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		text, err := appendValue(nil, kv.Value{Encoding: host.EncodedTyped, Data: in})
		fatalIf(t, err == nil && !json.Valid(text), "%x: %s", in, text)
	})
}

// No body causes a panic, and a faulty one has an error with a name and a place.
func FuzzCommands(f *testing.F) {
	for _, in := range []string{`{"command":{"KvPut":{"key":"k","value":1}}}`, `{"session":"s","command":"TxnCommit"}`,
		`{"command":{"KvList":null}}`, `{"command":{"KvBatchPut":{"entries":[{"key":"a","value":[]}]}}}`, `{"command":{"TxnBegin":{"options":{"read_only":true}}}}`} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, cmd, err := parse(body)
		fatalIf(t, (cmd == nil) != (err != nil), "%v %v", cmd, err)
		if e, is := errors.AsType[*host.Error](err); err != nil && (!is || e.Code != host.InvalidArgument || e.Message == "") {
			t.Fatal(err)
		}
		if put, is := cmd.(*kvPut); is && len(put.Value) > 0 {
			parseValue(put.Value, "value") // must not panic
		}
	})
}

// TestErrorsShowPartsOfLongNames checks that an error does not repeat long input.
func TestErrorsShowPartsOfLongNames(t *testing.T) {
	long := strings.Repeat("né", 10_000)
	deep := strings.Repeat(`{"`+long+`":[`, 10) + `9e999` + strings.Repeat(`]}`, 10)
	for body, want := range map[string]string{
		`{"command":{"KvPut":{"key":"a","value":` + deep + `}}}`:              ".nénén",
		`{"command":{"KvPut":{"key":"a","` + long + `":1,"` + long + `":2}}}`: "nénén",
		`{"command":{"` + long + `":{}}}`:                                     "nénén",
	} {
		_, cmd, err := parse([]byte(body))
		if put, is := cmd.(*kvPut); is {
			_, err = parseValue(put.Value, "value")
		}
		text := fmt.Sprint(err)
		errorIf(t, err == nil || len(text) > 700 || !utf8.ValidString(text) || !strings.Contains(text, want),
			"%d bytes: %.900s", len(text), text)
	}
}

// TestLongCommandsTakeBoundedMemory parses commands whose lists and objects have too many elements.
func TestLongCommandsTakeBoundedMemory(t *testing.T) {
	const size = 256 << 10
	many := func(one string) string { return strings.Repeat(one+",", size/(len(one)+1)-100) + one }
	var members strings.Builder
	for i := range 25_000 {
		fmt.Fprintf(&members, `"%x":0,`, i)
	}
	members.WriteString(`"x":0`)
	for body, want := range map[string]string{
		`{"command":{"KvBatchPut":{"entries":[` + many("{}") + `]}}}`:          "command.KvBatchPut.entries",
		`{"command":{"KvBatchGet":{"keys":[` + many(`""`) + `]}}}`:             "command.KvBatchGet.keys",
		`{"command":{"KvBatchDelete":{"keys":[` + many(`[]`) + `]}}}`:          "command.KvBatchDelete.keys",
		`{"command":{` + members.String() + `}}`:                               "command",
		`{"command":{"KvPut":{"key":"a","value":{` + members.String() + `}}}}`: "",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := parse([]byte(body))
		runtime.ReadMemStats(&after)
		field := ""
		if e, is := err.(*host.Error); is {
			field = e.Metadata["field"]
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16*size || field != want {
			t.Errorf("%.60s of %d bytes: %d bytes are allocated; %v", body, len(body), n, err)
		}
	}
}

// A transaction is not idle while a request uses it, regardless of the request's duration.
func TestATransactionInUseIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sessions{open: make(map[sessionKey]*session), taken: make(map[sessionKey]usage)}
		used, idles := &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: "used"}},
			&session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: "idle"}}
		for _, s := range []*session{used, idles} {
			s.tx, s.link = new(kv.Tx), new(link)
			must(t, r.begin(s))
		}
		r.leave(idles)
		time.Sleep(2 * idle)
		r.mu.Lock()
		r.sweep(time.Now())
		r.mu.Unlock()
		errorIf(t, used.lapsed || used.tx == nil || !idles.lapsed, "the one in use has ended: %v; the other: %v", used.lapsed, idles.lapsed)
		r.leave(used)
	})
}

// Transactions that ended by themselves, or because they read too much, free their memory for
// others of their actor.
func TestTheRoomOfTransactionsThatEnded(t *testing.T) {
	r := &sessions{open: make(map[sessionKey]*session), taken: make(map[sessionKey]usage)}
	began := func(name string) *session {
		t.Helper()
		s := &session{key: sessionKey{actor: "a", caller: [32]byte{1}, name: name}, tx: new(kv.Tx), link: new(link)}
		must(t, r.begin(s))
		return s
	}
	stays := began("stays")
	for i := range 5 {
		s := began("other")
		must(t, r.grow(s, maxBytes), i)
		if err := (reads{s: s, r: r}).grow(1); err == nil || s.tx != nil || r.open[s.key] != nil {
			t.Errorf("%d: a transaction that has read too much goes on: %v", i, err)
		}
	}
	for _, k := range stays.key.takers() {
		errorIf(t, r.taken[k] != (usage{transactions: 1}), "%+v has taken %+v", k, r.taken[k])
	}
	r.end(stays)
	errorIf(t, len(r.taken) != 0, "after the last, %+v is taken", r.taken)
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf
