package keyval

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// What is shown is the same JSON. Only integers may be bigints, if JavaScript cannot read them otherwise.
func FuzzShownValues(f *testing.F) {
	for _, seed := range []string{
		`{"a":[9007199254740992,-9007199254740993,1e400,"9007199254740993\\"],"b":0.1}`, `-123456789012345678901234567890`, `"\u005c\""`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b bytes.Buffer
		if json.Compact(&b, text) != nil {
			return
		}
		shown := appendShown(nil, b.Bytes())
		if before, after := decoded(t, b.Bytes()), decoded(t, shown); !same(before, after) {
			t.Fatalf("%s is shown as %s", b.Bytes(), shown)
		}
		if again := appendShown(nil, integers(bytes.Clone(shown))); bytes.Contains(b.Bytes(), []byte("__type")) == false && !bytes.Equal(again, shown) {
			t.Fatalf("%s is shown as %s, and then as %s", b.Bytes(), shown, again)
		}
	})
}

func decoded(t *testing.T, text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// same compares a value with one that is shown.
func same(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		if n, is := b.(json.Number); is {
			return n == a
		}
		m, _ := b.(map[string]any)
		n, ok := new(big.Int).SetString(string(a), 10)
		return ok && n.CmpAbs(big.NewInt(maxSafe)) > 0 && m["__type"] == "bigint" && m["value"] == string(a)
	case []any:
		list, _ := b.([]any)
		if len(list) != len(a) {
			return false
		}
		for i := range a {
			if !same(a[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, _ := b.(map[string]any)
		if len(m) != len(a) {
			return false
		}
		for name := range a {
			if !same(a[name], m[name]) {
				return false
			}
		}
		return true
	}
	return a == b
}

// A key that is read is shown as one that is read as the same key.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{`["a",7,-0.5,true]`, `[{"__type":"bigint","value":"-12345678901234567890"},{"$bytes":"AP8="}]`, `["😀",1e300]`, `[{"$raw":"IX/4AAAAAAAA"}]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := jsonKey(host.Raw(text), "key")
		if err != nil {
			return
		}
		for _, part := range key {
			if _, placeholder := part.(kv.Placeholder); placeholder {
				return
			}
		}
		shown, err := json.Marshal(shownKey(key))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		again, err := jsonKey(shown, "key")
		if err != nil || !reflect.DeepEqual(again, key) && !strings.Contains(string(shown), "$raw") {
			t.Fatalf("%s is shown as %s, and read as %v, %v", text, shown, again, err)
		}
	})
}

func FuzzPaths(f *testing.F) {
	f.Add("a/7/-7/a%2Fb", "a/d~7:00000000000000020000,a:")
	f.Fuzz(func(t *testing.T, path, stamps string) {
		key, err := paramKey(path, "prefix")
		if err != nil {
			return
		}
		if _, err := key.Pack(); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		order, all, err := known(stamps, key)
		if err == nil && len(all) > len(order) {
			t.Fatalf("%s: %v of %v", stamps, all, order)
		}
	})
}
