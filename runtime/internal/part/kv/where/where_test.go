package where

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	fatalIf(t, err != nil, "%s: %v", text, err)
	return v
}

var now = time.UnixMilli(1_000_000)

func entry(t testing.TB, value string) *Entry {
	return &Entry{
		Key: []any{"user", json.Number("7"), true}, Value: decode(t, value), Version: 12, Size: len(value),
		Created: now.Add(-time.Hour), Updated: now.Add(-time.Minute),
	}
}

const person = `{"name":"Ann Straße","age":30,"big":9007199254740993,"pi":3.14,"on":true,"none":null,"tags":["a","b"],"at":{"x.y":1,"$z":2},
	"nothing":"","list":[],"object":{},"bytes":{"$bytes":"AA=="},"then":940000,"emoji":"😀"}`

func TestConditionsMeetWhatTheySay(t *testing.T) {
	e := entry(t, person)
	for filter, want := range map[string]bool{
		`{"name":"Ann Straße"}`: true, `{"name":"ann straße"}`: false, `{"age":30}`: true, `{"age":30.0}`: true, `{"age":"30"}`: false, `{"age":3e1}`: true,
		`{"big":9007199254740993}`: true, `{"big":9007199254740992}`: false, `{"on":true}`: true, `{"none":null}`: true, `{"absent":null}`: true,
		`{"age":30,"on":false}`: false, `{"tags":["a","b"]}`: true, `{"tags":["b","a"]}`: false, `{"tags[1]":"b"}`: true, `{"tags[2]":null}`: true, `{"tags":"a"}`: false,
		`{"at.x\\.y":1}`: true, `{"at.\\$z":2}`: true, `{"age.x":null}`: true, `{"name[0]":null}`: true,
		`{"age":{"$ne":31}}`: true, `{"age":{"$ne":30}}`: false, `{"absent":{"$ne":1}}`: true, `{"name":{"$ne":{"a":1}}}`: true,
		`{"age":{"$gt":29,"$lt":31}}`: true, `{"age":{"$gt":30}}`: false, `{"age":{"$gte":30}}`: true, `{"age":{"$lte":29.99}}`: false, `{"age":{"$lt":"40"}}`: false,
		`{"name":{"$gt":"Ann"}}`: true, `{"name":{"$gt":5}}`: false, `{"absent":{"$gt":-1}}`: false, `{"absent":{"$lt":1}}`: false, `{"on":{"$gt":false}}`: true,
		`{"big":{"$gt":9007199254740992}}`: true, `{"big":{"$lt":1e400}}`: true, `{"big":{"$gt":-1e99999999999999999999}}`: true, `{"emoji":{"$gt":"\uffff"}}`: true,
		`{"age":{"$between":[30,31]}}`: true, `{"age":{"$between":[31,40]}}`: false, `{"name":{"$between":["A","B"]}}`: true, `{"absent":{"$between":[0,1]}}`: false,
		`{"age":{"$in":[1,30]}}`: true, `{"age":{"$in":[]}}`: false, `{"age":{"$nin":[]}}`: true, `{"absent":{"$in":[null]}}`: true, `{"age":{"$nin":[30]}}`: false,
		`{"name":{"$contains":"Str"}}`: true, `{"name":{"$contains":"str"}}`: false, `{"name":{"$containsi":"STRASSE"}}`: true, `{"name":{"$notContains":"x"}}`: true,
		`{"age":{"$notContains":"x"}}`: false, `{"none":{"$notContainsi":"x"}}`: false, `{"tags":{"$contains":"a"}}`: false, `{"name":{"$notContainsi":"ANN"}}`: false,
		`{"name":{"$startsWith":"Ann"}}`: true, `{"emoji":{"$startsWith":"😀"}}`: true, `{"name":{"$startsWith":""}}`: true, `{"name":{"$endsWith":""}}`: true, `{"age":{"$endsWith":""}}`: false,
		`{"name":{"$startsWithi":"ANN"}}`: true, `{"name":{"$endsWithi":"SSE"}}`: true, `{"name":{"$endsWith":"ße"}}`: true, `{"name":{"$regex":"^A.*e$"}}`: true, `{"age":{"$regex":"3"}}`: false,
		`{"none":{"$null":true}}`: true, `{"absent":{"$null":true}}`: true, `{"age":{"$null":true}}`: false, `{"age":{"$null":false}}`: true,
		`{"nothing":{"$empty":true}}`: true, `{"list":{"$empty":true}}`: true, `{"object":{"$empty":true}}`: true, `{"absent":{"$empty":true}}`: true, `{"age":{"$empty":true}}`: false,
		`{"age":{"$notEmpty":true}}`: true, `{"list":{"$notEmpty":true}}`: false, `{"age":{"$exists":true}}`: true, `{"absent":{"$exists":true}}`: false, `{"absent":{"$exists":false}}`: true,
		`{"bytes":{"$type":"bytes"}}`: true, `{"object":{"$type":"object"}}`: true, `{"absent":{"$type":"null"}}`: true, `{"age":{"$type":"string"}}`: false, `{"bytes":{"$eq":{"$bytes":"AA=="}}}`: true,
		`{"$and":[]}`: true, `{"$or":[]}`: false, `{"$and":[{"age":30},{"on":true}]}`: true, `{"$or":[{"age":1},{"on":true}]}`: true, `{"$or":[{"age":1}]}`: false,
		`{"$not":{"age":1}}`: true, `{"$not":{"age":30}}`: false, `{"age":{"$not":{"$gt":40}}}`: true, `{"absent":{"$not":{"$gt":40}}}`: true,
		`{"then":{"$lt":{"$now":true}}}`: true, `{"then":{"$gt":{"$now":true,"$offset":-60000}}}`: false, `{"then":{"$gte":{"$now":true,"$offset":-60000}}}`: true, `{"then":{"$now":true,"offset":-60000}}`: true,
		`{"then":{"$in":[{"$now":true,"$offset":-60000}]}}`: true, `{"then":{"$between":[0,{"$now":true}]}}`: true,
		`{"$key[0]":"user"}`: true, `{"$key[1]":{"$gt":6}}`: true, `{"$key[3]":null}`: true, `{"$version":12}`: true, `{"$size":{"$gt":10}}`: true,
		`{"$updated":{"$gte":{"$now":true,"$offset":-60000}}}`: true, `{"$created":{"$lt":{"$now":true,"$offset":-60000}}}`: true, `{"$expires":null}`: true,
	} {
		f, err := Compile([]byte(filter), now)
		if err != nil {
			t.Errorf("%s: %v", filter, err)
			continue
		}
		got := f.Meets(e)
		errorIf(t, got != want, "%s: %v", filter, got)
		// An entry that does not meet a filter meets the complement.
		f, err = Compile([]byte(`{"$not":`+filter+`}`), now)
		errorIf(t, err != nil || f.Meets(e) == want, "the complement of %s: %v", filter, err)
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	deep := strings.Repeat(`{"$not":`, 17) + `{"a":1}` + strings.Repeat("}", 17)
	wide := `{"$and":[` + strings.Repeat(`{"a":1},`, 64) + `{"a":1}]}`
	for filter, field := range map[string]string{
		``: "", `{`: "", `[]`: "", `null`: "", `{}`: "", `{"a":1}{}`: "", `{"$nor":[]}`: "$nor", `{"a":{}}`: "a", `{"a":{"b":1}}`: "a.b", `{"a":{"$gt":1,"b":1}}`: "a.b",
		`{"a":{"$equals":1}}`: "a.$equals", `{"a":{"$gt":null}}`: "a.$gt", `{"a":{"$gt":[1]}}`: "a.$gt", `{"a":{"$in":1}}`: "a.$in", `{"a":{"$between":[1]}}`: "a.$between",
		`{"a":{"$between":[2,1]}}`: "a.$between", `{"a":{"$between":[1,"x"]}}`: "a.$between", `{"a":{"$between":[1,null]}}`: "a.$between[1]", `{"a":{"$contains":1}}`: "a.$contains",
		`{"a":{"$null":1}}`: "a.$null", `{"a":{"$type":"integer"}}`: "a.$type", `{"a":{"$regex":"("}}`: "a.$regex", `{"a":{"$regexi":"a"}}`: "a.$regexi", `{"a":{"$not":1}}`: "a.$not",
		`{"$and":{}}`: "$and", `{"$or":[1]}`: "$or[0]", `{"$or":[{}]}`: "$or[0]", `{"$not":{}}`: "$not", `{"a":{"$eq":{"$gt":1}}}`: "a.$eq.$gt", `{"a":{"$gt":{"$now":false}}}`: "a.$gt.$now",
		`{"a":{"$gt":{"$now":true,"$offset":1.5}}}`: "a.$gt.$offset", `{"a":{"$gt":{"$now":true,"x":1}}}`: "a.$gt.x", `{"a":{"$gt":{"$now":true,"$offset":1e300}}}`: "a.$gt.$offset",
		`{"a..b":1}`: "a..b", `{".a":1}`: ".a", `{"a.":1}`: "a.", `{"":1}`: "", `{"a[x]":1}`: "a[x]", `{"a[01]":1}`: "a[01]", `{"a[0":1}`: "a[0", `{"a[0]b":1}`: "a[0]b", `{"a]":1}`: "a]",
		`{"a\\":1}`: `a\`, `{"$key":1}`: "$key", `{"$key[a]":1}`: "$key[a]", `{"a[99999999999]":1}`: "a[99999999999]", `{"$and":[{"a":{"$x":1}}]}`: "$and[0].a.$x",
		// A decoder would drop the first condition, or put U+FFFD for what is not Unicode: then
		// more entries meet the filter.
		`{"a":1,"a":2}`: "a", `{"a":{"$gt":1,"$gt":2}}`: "a.$gt", `{"$or":[{"a":1},{"b":{"$eq":{"c":1,"c":2}}}]}`: "$or[1].b.$eq.c", "{\"a\":\"\xff\"}": "",
	} {
		_, err := Compile([]byte(filter), now)
		e, ok := errors.AsType[*host.Error](err)
		if !ok || e.Code != host.InvalidArgument || e.Metadata["field"] != field {
			t.Errorf("%s: %v, field %q, want %q", filter, err, e.Metadata["field"], field)
		}
	}
	for _, filter := range []string{deep, wide, `{"a":{"$regex":"` + strings.Repeat("a", 257) + `"}}`,
		`{"a":{"$in":[1` + strings.Repeat(",1", 1000) + `]}}`,
		`{"a":"` + strings.Repeat("x", MaxBytes) + `"}`, `{"a":{"$regex":"(x{1,30}y{1,30}){1,16}$"}}`} {
		_, err := Compile([]byte(filter), now)
		errorIf(t, host.CodeOf(err) != host.TooLarge, "%.40s: %v", filter, err)
	}
}

// Numbers are compared by their values at any size, in time that does not grow with their
// exponents.
func FuzzNumbers(f *testing.F) {
	for _, pair := range [][2]string{{"1", "1.0"}, {"-0", "0e9"}, {"10", "1e1"}, {"0.1", "1e-1"}, {"-5", "-50e-1"},
		{"1e400", "2e400"}, {"0.001", "0.0010"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		var a, b json.Number
		if json.Unmarshal([]byte(x), &a) != nil || json.Unmarshal([]byte(y), &b) != nil || a == "" || b == "" {
			return
		}
		got := compareNumbers(string(a), string(b))
		fatalIf(t, got != -compareNumbers(string(b), string(a)), "%s and %s are not compared alike both ways", a, b)
		if small(string(a)) && small(string(b)) {
			r, _ := new(big.Rat).SetString(string(a))
			s, _ := new(big.Rat).SetString(string(b))
			want := r.Cmp(s)
			fatalIf(t, got != want, "%s and %s: %d, want %d", a, b, got, want)
		}
	})
}

// small reports whether a number's exponent has at most three digits.
func small(text string) bool {
	i := strings.IndexAny(text, "eE")
	return i < 0 || len(text)-i < 6
}

// Any input of a client is a filter or an error of the client's, and a filter's complement is its
// opposite.
func FuzzCompile(f *testing.F) {
	f.Add(`{"a":{"$gt":1,"$in":[1,"x"]},"$or":[{"b[0].c":{"$not":{"$null":true}}}]}`, person)
	f.Add(`{"then":{"$between":[0,{"$now":true,"$offset":-5}]},"$key[0]":{"$regex":"u+"}}`, `[1,{"a":"x"}]`)
	f.Fuzz(func(t *testing.T, filter, value string) {
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		e := &Entry{Key: []any{"user"}, Value: v}
		c, err := Compile([]byte(filter), now)
		if err != nil {
			code := host.CodeOf(err)
			fatalIf(t, code != host.InvalidArgument && code != host.TooLarge, "%v", err)
			return
		}
		meets := c.Meets(e)
		if !bytes.HasPrefix([]byte(filter), []byte("{")) {
			return
		}
		opposite, err := Compile(fmt.Appendf(nil, `{"$not":%s}`, filter), now)
		if host.CodeOf(err) == host.TooLarge {
			return
		}
		fatalIf(t, err != nil || opposite.Meets(e) == meets, "%s of %s: %v, and so is its complement: %v", filter, value, meets, err)
	})
}

func TestErrorsOfFiltersAreShort(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	for _, filter := range []string{`{"` + long + `":{}}`, `{"a":{"` + long + `":1}}`,
		`{"a":{"$eq":{"$` + long + `":1}}}`, `{"a":{"$regex":"` + long + `"}}`, `{"` + long + `":1,"` + long + `":1}`} {
		_, err := Compile([]byte(filter), now)
		e, ok := errors.AsType[*host.Error](err)
		errorIf(t, !ok || len(e.Message) > 1000 || len(e.Metadata["field"]) > 500, "%.40s: %.200v", filter, err)
	}
}

// The work for one entry is bounded for any filter.
func TestFiltersAreBounded(t *testing.T) {
	list := "[0" + strings.Repeat(",1", 999) + "]"
	filter, err := Compile(fmt.Appendf(nil, `{"$or":[{"a":{"$in":%s}}%s]}`, list, strings.Repeat(`,{"a":{"$in":`+list+`}}`, 60)), now)
	must(t, err)
	e := &Entry{Value: map[string]any{"a": json.Number("1" + strings.Repeat("0", 1<<20-1) + ".5e7")}}
	start := time.Now()
	errorIf(t, filter.Meets(e), "a number of a million digits is 0 or 1")
	if took := time.Since(start); took > time.Minute { // all comparisons take hours
		t.Error(took)
	}
}

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
	if want := []any{map[string]any{"\xED\xA0\x80": []any{json.Number("1"), "\xED\xA0\x81"},
		"\xED\xA0\x81": nil}}; err != nil || !reflect.DeepEqual(v, want) {
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

// The time does not grow with the characters of private use; the mark is one of them.
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

// Text without a lone surrogate is decoded as by encoding/json.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"a":"\ud800\udc00\ud800"}`, `"\\\ud800"`, `["\u"`, `"\ud800\ue000"`,
		"\"\uE000\\ud800\"", `"\uE000\ud83d\ue000"`} {
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

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
