package kv

import (
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestKeysAsPaths(t *testing.T) {
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	for path, want := range map[string]Key{
		"users/i~7":                        {"users", int64(7)},
		"a%2Fb/%25/%5B":                    {"a/b", "%", "["},
		"i~-5/d~1.5/d~2/b~1/b~0":           {int64(-5), 1.5, 2.0, true, false},
		"i~18446744073709551615":           {uint64(math.MaxUint64)},
		"i~123456789012345678901234567890": {huge},
		"x~AAH_/x~":                        {[]byte{0, 1, 255}, []byte{}},
		"s~/s~i~5/s~./s~..":                {"", "i~5", ".", ".."},
		"7/true/-/~x/ab~c":                 {"7", "true", "-", "~x", "ab~c"},
		"d~1e300":                          {1e300},
		"%E2%82%AC":                        {"€"},
	} {
		got, err := ParsePath(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", path, got, err)
			continue
		}
		text, err := got.Path()
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if again, err := ParsePath(text); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is written %s, which is %#v, %v", path, text, again, err)
		}
	}
}

// A part that only Go code writes can be named, too.
func TestKeysAsPathsNameEveryStoredPart(t *testing.T) {
	want := Key{"a", float32(1.5)}
	path, err := want.Path()
	if got, parseErr := ParsePath(path); err != nil || parseErr != nil || !reflect.DeepEqual(got, want) ||
		!strings.HasPrefix(path, "a/r~") {
		t.Errorf("%s: %#v, %v, %v", path, got, err, parseErr)
	}
}

func TestPathsThatAreNoKeysAreRefused(t *testing.T) {
	for path, want := range map[string]string{
		"":           "key part 1, \"\", is missing",
		"a//b":       "key part 2, \"\", is missing",
		"a/":         "key part 2, \"\", is missing",
		"%zz":        "is not percent-escaped",
		"%":          "is not percent-escaped",
		"%+1":        "is not percent-escaped",
		"%FF":        "is not valid UTF-8",
		"s~%FF":      "is not valid UTF-8",
		"i~1.5":      "is not an integer",
		"i~":         "is not a number",
		"i~ 1":       "is not a number",
		"i~0x10":     "is not a number",
		"i~[1]":      "is not a number",
		"d~NaN":      "is not a number",
		"d~1e999":    "is out of range",
		"b~true":     "is not b~0 or b~1",
		"x~A":        "is not base64url",
		"x~AAH/":     "is not base64url",
		"r~AAAA":     "is not the stored form of a part",
		"u~x":        "written s~u~x",
		"i~" + nines: "is out of range",
	} {
		_, err := ParsePath(path)
		if host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", path, err)
		}
	}
}

var nines = strings.Repeat("9", 700)

func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{"users/i~7", "x~AAH_/b~1/d~-0", "s~/s~i~5", "r~BQAAAA", "i~123456789012345678901234567890", "%E2%82%AC"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		key, err := ParsePath(path)
		if err != nil {
			return
		}
		text, err := key.Path()
		if err != nil {
			t.Fatalf("%q: %v", path, err)
		}
		again, err := ParsePath(text)
		if err != nil {
			t.Fatalf("%q is written %q: %v", path, text, err)
		}
		if second, err := again.Path(); err != nil || second != text {
			t.Fatalf("%q is written %q and then %q, %v", path, text, second, err)
		}
	})
}
