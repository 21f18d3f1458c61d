package main

import (
	"bytes"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

func TestValueIsShownInItsReadableForm(t *testing.T) {
	d, err := newDescriber()
	must(t, err)
	const kv, state, event = "\x04\x02a\x00", "\x01", "\x16\x00\x00\x00\x00\x00\x00\x00\x01"
	for _, test := range []struct {
		key, value string
		whole      bool
		want       string
	}{
		{kv, `{"n": 9007199254740993, "s": "<x>"}`, true, `{"n":9007199254740993,"s":"<x>"}`},
		{kv, "\xa1\x61n\x07", true, `{"n": 7}`},
		{kv, "\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", true, "18446744073709551616"},
		{kv, "\xa1\x61n", true, "0xa1616e"},
		{kv, "hello", true, `"hello"`},
		{kv, "\x65hello", true, `"hello"`},
		{kv, `{"cut":"of`, false, `"{\"cut\":\"of"`},
		{kv, "sch\xc3", false, `"sch\xc3"`},
		{kv, "\x00\xff", true, "0x00ff"},
		{kv, "7", true, "7"},
		{state, "\x00\xa1\x61n\x07", true, `v0 {"n": 7}`},
		{state, "\x81\x02\xa0", true, `v257 {}`},
		{event, "\x01\x83\x63put\x07\x42{}", true, `v1 ["put", 7, '{}']`},
		{event, "\x01\x83\x63put", false, "0x0183637075" + "74"},
		{event, "\x00\x00\x00\x00\x00\x00\x00\x05", true, "0x0000000000000005"},
		{"", "x", true, `"x"`},
	} {
		if got := d.describe([]byte(test.key), []byte(test.value), test.whole); got != test.want {
			t.Errorf("describe(%q) = %s, want %s", test.value, got, test.want)
		}
	}
}

func FuzzPreviewFitsOneLine(f *testing.F) {
	f.Add([]byte("\x01"), []byte("\x00\xa1\x61n\x07"), true)
	f.Add([]byte("\x04\x02a\x00"), []byte(`{"a":"\u001b[31m"}`), true)
	f.Add([]byte("\x16"), []byte("\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), false)
	d, err := newDescriber()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, whole bool) {
		k := host.StoredKey{Key: key, Value: value, Size: len(value)}
		if !whole {
			k.Size++
		}
		line := d.preview(&k, 40)
		fatalIf(t, utf8.RuneCountInString(line) > 40, "%q is longer than 40 characters", line)
		for _, r := range line {
			fatalIf(t, !unicode.IsPrint(r), "%q has the character %U", line, r)
		}
	})
}

func TestADamagedRecordIsNamed(t *testing.T) {
	r := audit.Record{ID: 7, Time: time.Unix(1, 0).UTC(), Type: "cell", Key: []string{"a"}, Damaged: true}
	for asJSON, want := range map[bool]string{
		false: "1970-01-01T00:00:01Z  cell/a  record 7 is damaged and cannot be read\n",
		true:  `{"id":7,"time":"1970-01-01T00:00:01Z","type":"cell","key":["a"],"damaged":true,"verb":"","channel":""}` + "\n",
	} {
		var out bytes.Buffer
		c := cli{stdout: &out, json: asJSON}
		if err := c.printRecord(&r); err != nil || out.String() != want {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
}
