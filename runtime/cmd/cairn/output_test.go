package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
)

func TestSizesAndCountsReadWell(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1024*1024 - 1: "1.0 MiB", 10 << 30: "10.0 GiB", math.MaxInt64: "8.0 EiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100000: "100,000"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for us, want := range map[float64]string{47.25: "47.2 µs", 999.9: "999.9 µs", 1500: "1.50 ms", 2.5e6: "2.50 s"} {
		if got := micros(us); got != want {
			t.Errorf("micros(%v) = %q, want %q", us, got, want)
		}
	}
	if got := clock(time.Time{}); got != "-" {
		t.Errorf("the zero time is %q", got)
	}
}

func TestTerminalIsSafeFromStoredText(t *testing.T) {
	for s, want := range map[string]string{
		"plain ü 日本": "plain ü 日本", "a\tb\nc": `a\tb\nc`, "\x1b[31m": `\x1b[31m`, `say "hi"` + "\n": `say "hi"\n`, "\xff": `\xff`, "\u202e": `\u202e`,
	} {
		if got := oneLine(s); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", s, got, want)
		}
	}
	if got := cut("日本語です", 3); got != "日本…" {
		t.Errorf("cut is %q", got)
	}
}

func TestValueIsShownInItsReadableForm(t *testing.T) {
	d, err := newDescriber()
	if err != nil {
		t.Fatal(err)
	}
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

func TestQuantileIsASample(t *testing.T) {
	samples := make([]time.Duration, 100)
	for i := range samples {
		samples[i] = time.Duration(i+1) * time.Microsecond
	}
	for q, want := range map[float64]float64{0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(samples, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(samples[:1], 0.5); got != 1 {
		t.Errorf("the median of one sample is %v", got)
	}
}

func TestNearestFindsSlips(t *testing.T) {
	types := []string{"cell", "airport", "route"}
	for word, want := range map[string]string{"cel": "cell", "clel": "cell", "airprot": "airport", "Routes": "route", "tenant": "", "x": ""} {
		if got, ok := nearest(word, types); got != want || ok != (want != "") {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if d := distance("", "abc"); d != 3 {
		t.Errorf("distance from nothing is %d", d)
	}
	if d := distance(strings.Repeat("ab", 5), strings.Repeat("ba", 5)); d != 2 {
		t.Errorf("distance is %d, want 2", d)
	}
}

func TestColourKeepsColumnsAligned(t *testing.T) {
	var out strings.Builder
	c := &cli{stdout: &out, getenv: func(string) string { return "" }}
	tab := c.table()
	tab.colour = true
	for _, s := range []host.State{host.Awake, host.Failed, host.Asleep} {
		tab.row("a", tab.state(s), "end")
	}
	tab.row("a", tab.paint(bold, "STATE!!"), "end")
	tab.flush()
	column := -1
	for line := range strings.Lines(out.String()) {
		for _, code := range []string{red, green, yellow, grey, bold, plain} {
			line = strings.ReplaceAll(line, code, "")
		}
		at := strings.Index(line, "end")
		if column >= 0 && at != column {
			t.Errorf("the column moved from %d to %d:\n%q", column, at, out.String())
		}
		column = at
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if c.colour(&out) || c.colour(null) {
		t.Error("something that is no terminal gets colour")
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
		if utf8.RuneCountInString(line) > 40 {
			t.Fatalf("%q is longer than 40 characters", line)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has the character %U", line, r)
			}
		}
	})
}
