package keyval

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// TestMeterForgetsTheActorThatRestsLongest counts requests of more actors than a meter can hold.
func TestMeterForgetsTheActorThatRestsLongest(t *testing.T) {
	m := newMeter()
	at := func(i int) host.Address { return host.Address{Type: "t", Key: []string{strconv.Itoa(i)}} }
	for i := range 2 * maxMetered {
		m.add(addressOf(at(i)), "get", time.Millisecond, false)
		m.add(addressOf(at(0)), "get", time.Millisecond, false)
	}
	if len(m.actors) != maxMetered || m.recent.Len() != maxMetered {
		t.Errorf("%d actors, of which %d are in order", len(m.actors), m.recent.Len())
	}
	if n := m.of(at(0))["get"].count; n != 2*maxMetered+1 {
		t.Errorf("the one that is used has %d", n)
	}
	if len(m.of(at(1))) != 0 || len(m.of(at(2*maxMetered-1))) != 1 {
		t.Error("another was forgotten")
	}
}

// TestMeterBuckets counts times in the buckets of a histogram, which are cumulative.
func TestMeterBuckets(t *testing.T) {
	m := newMeter()
	for _, took := range []time.Duration{500 * time.Microsecond, time.Millisecond, 3 * time.Millisecond,
		200 * time.Millisecond, time.Minute} {
		m.add("a", "get", took, took == time.Minute)
	}
	got := *m.actors["a"].Value.(*metered).timings["get"]
	want := timing{count: 5, errors: 1, sum: 60_204.5, buckets: [len(bounds)]uint64{2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4}}
	if got != want {
		t.Errorf("%+v", got)
	}
}

func TestAddressesDiffer(t *testing.T) {
	seen := make(map[string]host.Address)
	for _, a := range []host.Address{{Type: "t"}, {Type: "t", Key: []string{""}}, {Type: "t", Key: []string{"", ""}},
		{Type: "t", Key: []string{"a", "b"}}, {Type: "t", Key: []string{"a\x00\x01b"}}, {Type: "ta", Key: []string{"b"}}} {
		s := addressOf(a)
		if other, taken := seen[s]; taken {
			t.Errorf("%v and %v", a, other)
		}
		seen[s] = a
	}
}

// Shown values are the same JSON, with bigints for integers that JavaScript's numbers cannot hold.
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

// A parsed key is shown in a form that parses as the same key.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{`["a",7,-0.5,true]`,
		`[{"__type":"bigint","value":"-12345678901234567890"},{"$bytes":"AP8="}]`, `["😀",1e300]`, `[{"$raw":"IX/4AAAAAAAA"}]`} {
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
