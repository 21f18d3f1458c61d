package wire_test

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// The inputs of tests are a sixteenth of the longest. So are the bytes that may be allocated while
// they are decoded, with what is garbage again at once.
const (
	bombBytes = 16 << 20 / 16
	bombLimit = 192 << 20 / 16
)

// lists calls f with the members that lead to each list of an input, and its tag max.
func lists(t reflect.Type, path []string, f func(path []string, max string)) {
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		lists(t.Elem(), path, f)
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if field.Anonymous || name == "" {
				continue
			}
			inner := append(append([]string(nil), path...), name)
			of := field.Type
			if (of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8 || of.Kind() == reflect.Map) &&
				!reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
				f(inner, field.Tag.Get("max"))
				of = of.Elem()
				inner = append(inner, "")
			}
			lists(of, inner, f)
		}
	}
}

// within puts a list into the members that lead to it; "" is the first element of a list.
func within(codec host.Codec, path []string, list []byte) []byte {
	for i := len(path) - 1; i >= 0; i-- {
		switch name := path[i]; {
		case codec == host.JSON && name == "":
			list = append(append([]byte{'['}, list...), ']')
		case codec == host.JSON:
			list = append(append([]byte(`{"`+name+`":`), list...), '}')
		case name == "":
			list = append([]byte{0x81}, list...)
		default:
			list = append(append([]byte{0xa1, 0x60 + byte(len(name))}, name...), list...)
		}
	}
	return list
}

// listBytes is enough for more elements than any list may have.
const listBytes = 256 << 10

// bombs are lists of as many elements as fit, of each kind.
func bombs(codec host.Codec) (all [][]byte) {
	if codec == host.JSON {
		for _, one := range []string{"{}", "[]", `""`, "0", "null", `{"":0}`, "[[]]"} {
			one += ","
			list := append([]byte{'['}, bytes.Repeat([]byte(one), listBytes/len(one))...)
			list[len(list)-1] = ']'
			all = append(all, list)
		}
		return all
	}
	for _, one := range []string{"\xa0", "\x80", "\x60", "\x00", "\xf6", "\xa1\x60\x00", "\x81\x80", "\xc6\xa0"} {
		n := listBytes / len(one)
		list := binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n))
		all = append(all, append(list, bytes.Repeat([]byte(one), n)...))
	}
	return all
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLongListsAreNotDecoded sends each built-in method its lists with very many elements. They are
// refused by their limits before they take more memory than the input.
func TestLongListsAreNotDecoded(t *testing.T) {
	var tests []struct {
		row  method.Row
		path []string
	}
	for _, row := range method.All() {
		if row.Input == nil {
			continue
		}
		lists(row.Input, nil, func(path []string, max string) {
			errorIf(t, max == "", "%s: the list %s has no tag max", row.Name, strings.Join(path, "."))
			tests = append(tests, struct {
				row  method.Row
				path []string
			}{row, path})
		})
	}
	fatalIf(t, len(tests) < 20, "only %d lists are found", len(tests))
	for _, codec := range []host.Codec{host.JSON, host.CBOR} {
		for _, bomb := range bombs(codec) {
			for _, test := range tests {
				field := strings.ReplaceAll(strings.Join(test.path, "."), "..", "[0].")
				input := within(codec, test.path, bomb)
				var err error
				n := allocated(func() { err = wire.Decode(test.row.Name, codec, input, reflect.New(test.row.Input).Interface()) })
				e, is := err.(*host.Error)
				errorIf(t, !is || e.Code != host.TooLarge || e.Metadata["field"] != field || e.Metadata["limit"] == "",
					"%s, %.40q: %v", test.row.Name, input, err)
				errorIf(t, n > listBytes, "%s, %.40q: %d bytes are allocated", test.row.Name, input, n)
			}
		}
	}
}

// TestLongInputsTakeBoundedMemory decodes inputs like the ones that take most, among those whose
// lists are not too long. Only what is refused for its many values is longer.
func TestLongInputsTakeBoundedMemory(t *testing.T) {
	repeat := func(open, one, close string, n int) string { return open + strings.Repeat(one+",", n-1) + one + close }
	cbor := func(n int, one string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n))) + strings.Repeat(one, n)
	}
	in := func(name, list string) string { return string(within(host.CBOR, []string{name}, []byte(list))) }
	for _, test := range []struct {
		method string
		codec  host.Codec
		input  string
		fits   bool
	}{
		{host.KVGetMany, host.JSON, `{"keys":` + repeat("[", repeat("[", "0", "]", 2_000), "]", 32) + "}", true},
		{host.KVGetMany, host.JSON, `{"keys":` + repeat("[", repeat("[", "0", "]", 2_000), "]", 525) + "}", false},
		{host.KVCommit, host.JSON,
			`{"mutations":` + repeat("[", `{"op":"put","key":["a"],"value":`+repeat("[", "0", "]", 750)+"}", "]", 625) + "}", true},
		{host.KVCommit, host.JSON,
			`{"mutations":` + repeat("[", `{"op":"put","key":`+repeat("[", "0", "]", 100)+"}", "]", 625) + "}", true},
		{host.KVCommit, host.JSON, `{"sends":` + repeat("[", `{"messages":`+repeat("[", "{}", "]", 1_000)+"}", "]", 6) + "}", true},
		{host.KVCommit, host.JSON,
			`{"sends":` +
				repeat("[",
					`{"messages":`+
						repeat("[",
							`{"backoff_ms":[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9,0]}`, "]", 1_000)+"}", "]", 6) + "}", true},
		{host.KVCommit, host.JSON, `{"mutations":` + repeat("[", `{"value":"`+strings.Repeat("x", 64<<10)+`"}`, "]", 15) + "}", true},
		{host.SQLExec, host.JSON, `{"sql":"x","args":[` + repeat("[", "[]", "]", 62_500) + "]}", true},
		{host.SQLExec, host.JSON, `{"sql":"x","args":[` + repeat("[", `{"":0}`, "]", 6_250) + "]}", true},
		{host.SQLExec, host.JSON, `{"sql":"x","args":[` + repeat("{", `"":0`, "}", 62_500) + "]}", false},
		{host.QueueSend, host.JSON,
			`{"queue":"q","messages":[{"keys_if_undelivered":` + repeat("[", repeat("[", "0", "]", 6_250), "]", 10) + `}]}`, true},
		{host.KVGetMany, host.CBOR, in("keys", cbor(32, cbor(2_000, "\x00"))), true},
		{host.KVGetMany, host.CBOR, in("keys", cbor(525, cbor(2_000, "\x00"))), false},
		{host.KVGetMany, host.CBOR, in("keys", cbor(25, cbor(2_000, "\x80"))), false},
		{host.KVCommit, host.CBOR, in("mutations", cbor(625, "\xa1\x65value\x59\x05\xdc"+strings.Repeat("x", 1_500))), true},
		{host.KVCommit, host.CBOR, in("mutations", cbor(625, "\xa1\x65value"+cbor(1_500, "\x80"))), true},
		{host.SQLExec, host.CBOR, in("args", cbor(1, cbor(6_250, "\xa0"))), false},
	} {
		errorIf(t, test.fits && len(test.input) > bombBytes, "%s, %.60q: the input has %d bytes", test.method, test.input, len(test.input))
		row, _ := method.Find(test.method)
		var err error
		input := []byte(test.input)
		n := allocated(func() { err = wire.Decode(test.method, test.codec, input, reflect.New(row.Input).Interface()) })
		errorIf(t, n > bombLimit, "%s, %.60q: %d bytes are allocated", test.method, test.input, n)
		errorIf(t, (err == nil) != test.fits, "%s, %.60q: %v", test.method, test.input, err)
	}
}

// TestUnknownMembersTakeBoundedMemory decodes objects with very many members that their types lack.
func TestUnknownMembersTakeBoundedMemory(t *testing.T) {
	members := func(one string) string { return "{" + strings.Repeat(one+",", 300_000) + one + "}" }
	for _, input := range []string{
		members(`"\u006b":0`), members(`"\u006beys":[]`), `{"keys":[],"cursors":` + members(`"":0`) + `}`,
	} {
		var err error
		n := allocated(func() { err = wire.Decode(host.KVGetMany, host.JSON, []byte(input), new(kv.GetManyInput)) })
		errorIf(t, err == nil || n > 32<<20, "%.40s: %d bytes are allocated; %v", input, n, err)
	}
}

// TestErrorsDoNotRepeatLongInputs: an error is for people to read.
func TestErrorsDoNotRepeatLongInputs(t *testing.T) {
	const n = 1 << 20
	long := strings.Repeat("1", n)
	head := binary.BigEndian.AppendUint32([]byte{0x7a}, n)
	twice := "\xa2" + string(head) + long + "\x00" + string(head) + long + "\x00"
	for input, codec := range map[string]host.Codec{
		`{"sql":"x","limit":` + long + `}`:               host.JSON,
		`{"` + long + `":0}`:                             host.JSON,
		`{"args":[{"` + long + `":0,"` + long + `":0}]}`: host.JSON,
		"\xa1" + string(head) + long + "\x00":            host.CBOR,
		twice:                                            host.CBOR,
		string(within(host.CBOR, []string{"args"}, []byte("\x81"+twice))): host.CBOR,
		string(within(host.CBOR, []string{"limit"}, []byte(head))) + long: host.CBOR,
		string(within(host.CBOR, []string{"limit"}, []byte(twice))):       host.CBOR,
		string(within(host.CBOR, []string{"args", long[:9]}, []byte{0})):  host.CBOR,
	} {
		err := wire.Decode(host.SQLExec, codec, []byte(input), new(host.SQLInput))
		e, is := err.(*host.Error)
		errorIf(t, !is || len(e.Message) > 600 || len(e.Metadata["field"]) > 300, "%.40q: %.200v", input, err)
	}
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
