package where

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestALoneSurrogateEqualsNothingElse(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud800"`: "\xED\xA0\x80", `"a\uDFFFb"`: "a\xED\xBF\xBFb", `"\ud83d\ude00"`: "😀", `"\ud83d\ud83d\ude00"`: "\xED\xA0\xBD😀",
		`"\ude00\ud83d"`: "\xED\xB8\x80\xED\xA0\xBD", `"\\ud800"`: `\ud800`, `"\ufffd"`: "\uFFFD", `"\ud800\ue000"`: "\xED\xA0\x80",
		`"\ud800\ud800\n"`: "\xED\xA0\x80\xED\xA0\x80\n", "\"\\ud800\uE000e000\uE001\"": "\xED\xA0\x80\uE000e000\uE001",
		`"\uE000"`: "\uE000", "\"\uE000\"": "\uE000",
	} {
		v, err := Decode([]byte(text))
		errorIf(t, err != nil || v != want, "%s: %q, %v", text, v, err)
	}
	v, err := Decode([]byte(`[{"\ud800":[1,"\ud801"],"\ud801":null}]`))
	if want := []any{map[string]any{"\xED\xA0\x80": []any{json.Number("1"), "\xED\xA0\x81"}, "\xED\xA0\x81": nil}}; err != nil || !reflect.DeepEqual(v, want) {
		t.Errorf("%q, %v", v, err)
	}
	for _, c := range []struct {
		filter, value string
		meets         bool
	}{
		{`{"a":"\ud800"}`, `{"a":"\ud800"}`, true},
		{`{"a":"\ud800"}`, `{"a":"\uFFFD"}`, false},
		{`{"a":"\ufffd"}`, `{"a":"\ud800"}`, false},
		{`{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
		{`{"a":{"$gt":"\ud800"}}`, `{"a":"\ud801"}`, true},
		{`{"\ud800":1}`, `{"\ud800":1}`, true},
		{`{"\ud800":1}`, `{"\ufffd":1}`, false},
	} {
		f, err := Compile([]byte(c.filter), now)
		must(t, err, c.filter)
		v, err := Decode([]byte(c.value))
		errorIf(t, err != nil || f.Meets(&Entry{Value: v}) != c.meets, "%s of %s: %v, %v", c.filter, c.value, !c.meets, err)
	}
}

// The time does not grow with the characters of private use, among which the mark is.
func TestSurrogatesAmongPrivateCharactersAreReadInOnePass(t *testing.T) {
	var want strings.Builder
	for r := rune(0xE000); r < 0xE000+200_000; r++ {
		want.WriteRune(r)
	}
	start := time.Now()
	v, err := Decode([]byte(`"\ud800` + want.String() + `"`))
	errorIf(t, err != nil || v != "\xED\xA0\x80"+want.String(), "%.20q, %v", v, err)
	if took := time.Since(start); took > 8*time.Second { // one pass for each character takes twice as long on a fast machine
		t.Error(took)
	}
}

// What has no lone surrogate is what encoding/json makes of it.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"a":"\ud800\udc00\ud800"}`, `"\\\ud800"`, `["\u"`, `"\ud800\ue000"`, "\"\uE000\\ud800\"", `"\uE000\ud83d\ue000"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		bad := d.Decode(&want)
		got, err := Decode([]byte(text))
		fatalIf(t, (err == nil) != (bad == nil), "%q: %v, and encoding/json says %v", text, err, bad)
		_, changed := markSurrogates([]byte(text))
		fatalIf(t, !changed && err == nil && !reflect.DeepEqual(got, want), "%q is %v, not %v", text, got, want)
		if s, is := got.(string); is && utf8.ValidString(text) {
			if w, _ := want.(string); strings.ToValidUTF8(s, "") != strings.ReplaceAll(w, "\uFFFD", "") && !strings.Contains(w, "\uFFFD") {
				t.Fatalf("%q is %q, not %q", text, s, w)
			}
		}
	})
}
