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

// What is shown is the same JSON, with bigints for the integers that JavaScript's numbers cannot hold.
func FuzzShownValues(f *testing.F) {
	for _, seed := range []string{
		`{"a":[9007199254740992,-9007199254740993,1e400,"9007199254740993\\"],"b":0.1}`, `-123456789012345678901234567890`, `"\u005c\""`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var b bytes.Buffer
		if json.Compact(&b, text) != nil || bytes.Contains(b.Bytes(), []byte("__type")) {
			return
		}
		shown := appendShown(nil, b.Bytes())
		if again := integers(bytes.Clone(shown)); !json.Valid(shown) || !bytes.Equal(again, b.Bytes()) {
			t.Fatalf("%s is shown as %s, which is %s", b.Bytes(), shown, again)
		}
		for _, m := range bigints.FindAllSubmatch(shown, -1) {
			if n, ok := new(big.Int).SetString(string(m[1]), 10); !ok || n.CmpAbs(big.NewInt(maxSafe)) <= 0 {
				t.Fatalf("%s is shown as %s", b.Bytes(), shown)
			}
		}
	})
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
