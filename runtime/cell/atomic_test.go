package cell_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime/cell"
)

// entriesOf returns all entries of the cell as one JSON object: values by key.
func entriesOf(t *testing.T, h *actortest.Harness) string {
	t.Helper()
	all := make(map[string]json.RawMessage)
	for _, key := range keys(t, h, `[]`, false, 1000) {
		all[key] = get(t, h, key).Value
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAtomicDoesEverythingOrNothing(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		call(t, h, "put", `{"key":["text"],"value":"abc"}`)
		call(t, h, "put", `{"key":["n"],"value":1}`)
		before, events := entriesOf(t, h), len(h.Events("cell", "c"))
		version := h.Status("cell", "c").Version
		nVersion := fmt.Sprint(get(t, h, `["n"]`).Version)
		for _, test := range []struct{ input, want string }{
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"sum","key":["text"],"value":1}]}`, "mutations[1]: sum: the value that is stored is \"abc\", not an integer"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"append","key":["n"],"value":[1]}]}`, "failed_precondition"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"put","key":[],"value":1}]}`, "mutations[1]: the key is missing"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"put","key":["y"]}]}`, "mutations[1]: the value is missing"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"set","key":["y"],"value":1}]}`, "must be put, delete, sum, min, max, append or prepend"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"sum","key":["n"],"value":1.0}]}`, "mutations[1]: the value of sum is 1.0, not an integer"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"sum","key":["n"],"value":"1"}]}`, "not an integer"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"prepend","key":["l"],"value":{}}]}`, "not an array"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1},{"op":"delete","key":["n"],"value":1}]}`, "delete takes no value"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1,"ttl_ms":-1}]}`, "ttl_ms is -1"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1}],"checks":[{"key":["n"]}]}`, "checks[0]: the version is missing"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1}],"checks":[{"version":1}]}`, "checks[0]: the key is missing"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1}],"enqueues":[{"queue":"a b","body":1}]}`, "enqueues[0]: the queue is"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1}],"enqueues":[{"queue":"q"}]}`, "enqueues[0]: the body is missing"},
			{`{"mutations":[{"op":"put","key":["x"],"value":1}],"enqueues":[{"queue":"q","body":1,"delay_ms":-1}]}`, "enqueues[0]: delay_ms is -1"},
			{`{"mutation":[]}`, "unknown field"},
			{`{}`, "there is nothing to do"},
			{`{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"key":["n"],"version":0},`, 101), ",") + `]}`, "too_large"},
			{`{"checks":[{"key":["n"],"version":0}],"mutations":[{"op":"put","key":["x"],"value":1}]}`, `{"ok":false,"failed":[0]}`},
			{`{"checks":[{"key":["n"],"version":` + nVersion + `},{"key":["m"],"version":2},{"key":["m"],"version":0},{"key":["text"],"version":9}],"mutations":[{"op":"delete","key":["n"]}]}`,
				`{"ok":false,"failed":[1,3]}`},
		} {
			if out := call(t, h, "atomic", test.input); !strings.Contains(out, test.want) {
				t.Errorf("%.100s: %.200s, want %s", test.input, out, test.want)
			}
			if after := entriesOf(t, h); after != before {
				t.Fatalf("%.100s changed %s to %s", test.input, before, after)
			}
		}
		if n := len(h.Events("cell", "c")); n != events || h.Status("cell", "c").Version != version {
			t.Error("a commit that did nothing left an event or a version")
		}
	}, cell.Definition())
}

func TestAtomicChecksSeeTheVersionOfTheLastWrite(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		add := func(version uint64) string {
			return call(t, h, "atomic", fmt.Sprintf(`{"checks":[{"key":["a"],"version":%d}],"mutations":[{"op":"sum","key":["a"],"value":1}]}`, version))
		}
		if out := add(0); !strings.HasPrefix(out, `{"ok":true,`) {
			t.Fatal(out)
		}
		if out := add(0); out != `{"ok":false,"failed":[0]}` {
			t.Error(out)
		}
		version := get(t, h, `["a"]`).Version
		call(t, h, "put", `{"key":["b"],"value":1}`) // another entry's write does not count
		var out cell.AtomicResult
		if err := json.Unmarshal([]byte(add(version)), &out); err != nil || !out.OK || get(t, h, `["a"]`).Version != out.Version {
			t.Errorf("%+v %v", out, err)
		}
		if out := add(version); out != `{"ok":false,"failed":[0]}` {
			t.Error(out)
		}
		// An entry that expired is absent.
		call(t, h, "put", `{"key":["a"],"value":1,"ttl_ms":1000}`)
		time.Sleep(time.Second)
		if out := add(0); !strings.Contains(out, `"results":[{"value":1}]`) {
			t.Error(out)
		}
		// Without a mutation there is nothing that the cell would have to write.
		if out := call(t, h, "atomic", `{"checks":[{"key":["none"],"version":0}]}`); out != `{"ok":true}` {
			t.Error(out)
		}
	}, cell.Definition())
}

func TestMutationsAreDoneInOrderAndExactly(t *testing.T) {
	for _, test := range []struct{ stored, mutations, want string }{
		{``, `{"op":"sum","key":["k"],"value":5}`, `5`},
		{``, `{"op":"sum","key":["k"],"value":-0}`, `0`},
		{`9007199254740993`, `{"op":"sum","key":["k"],"value":9007199254740993}`, `18014398509481986`},
		{`-1`, `{"op":"sum","key":["k"],"value":340282366920938463463374607431768211456}`, `340282366920938463463374607431768211455`},
		{`7`, `{"op":"max","key":["k"],"value":-7},{"op":"max","key":["k"],"value":9007199254740993}`, `9007199254740993`},
		{`7`, `{"op":"min","key":["k"],"value":8},{"op":"min","key":["k"],"value":-8}`, `-8`},
		{``, `{"op":"append","key":["k"],"value":[ {"x": 1.0}, true ]}`, `[{"x":1.0},true]`},
		{`[{"x":1},true,[1]]`, `{"op":"append","key":["k"],"value":[{"y":2},false,null]}`, `[{"x":1},true,[1],{"y":2},false,null]`},
		{`[1]`, `{"op":"prepend","key":["k"],"value":[2,3]}`, `[2,3,1]`},
		{`[]`, `{"op":"prepend","key":["k"],"value":[2]},{"op":"append","key":["k"],"value":[]}`, `[2]`},
		{`1`, `{"op":"delete","key":["k"]},{"op":"sum","key":["k"],"value":3},{"op":"sum","key":["k"],"value":4}`, `7`},
		{`1`, `{"op":"put","key":["k"],"value":"x"},{"op":"put","key":["k"],"value":[1e400]}`, `[1e400]`},
		{`1`, `{"op":"delete","key":["k"]},{"op":"delete","key":["k"]}`, ``},
	} {
		actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
			if test.stored != "" {
				call(t, h, "put", `{"key":["k"],"value":`+test.stored+`}`)
			}
			out := call(t, h, "atomic", `{"mutations":[`+test.mutations+`]}`)
			if f := get(t, h, `["k"]`); string(f.Value) != test.want || !strings.HasPrefix(out, `{"ok":true`) {
				t.Errorf("%s on %s: %s is stored, want %s; %s", test.mutations, test.stored, f.Value, test.want, out)
			}
		}, cell.Definition())
	}
}

func TestCountersAgreeWithAModel(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		random := rand.New(rand.NewPCG(1, 2))
		model := make(map[string]*big.Int)
		for range 300 {
			key, op := fmt.Sprintf(`["%d"]`, random.IntN(5)), []string{"sum", "min", "max"}[random.IntN(3)]
			n := new(big.Int).Lsh(big.NewInt(random.Int64()-random.Int64()), uint(random.IntN(100)))
			old := model[key]
			switch {
			case old == nil, op == "min" && n.Cmp(old) < 0, op == "max" && n.Cmp(old) > 0:
				model[key] = n
			case op == "sum":
				model[key] = new(big.Int).Add(old, n)
			}
			out := call(t, h, "atomic", fmt.Sprintf(`{"mutations":[{"op":%q,"key":%s,"value":%s}]}`, op, key, n))
			if !strings.Contains(out, `"results":[{"value":`+model[key].String()+`}]`) {
				t.Fatalf("%s %s of %s: %s, want %s", op, n, old, out, model[key])
			}
		}
		h.Crash()
		for key, want := range model {
			if f := get(t, h, key); string(f.Value) != want.String() {
				t.Errorf("%s is %s after a crash, want %s", key, f.Value, want)
			}
		}
	}, cell.Definition())
}

func TestEntriesExpireForEveryReaderAtOnce(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for i := range 4 {
			call(t, h, "put", fmt.Sprintf(`{"key":["s",%d],"value":%d,"ttl_ms":%d}`, i, i, 1500*(i+1)))
		}
		call(t, h, "put", `{"key":["s",9],"value":9}`)
		count := func(want int) {
			t.Helper()
			if out := call(t, h, "count", `{"prefix":["s"]}`); out != fmt.Sprintf(`{"entries":%d}`, want) {
				t.Errorf("count is %s, want %d", out, want)
			}
			if out := call(t, h, "size", ``); !strings.HasPrefix(out, fmt.Sprintf(`{"entries":%d,`, want)) {
				t.Errorf("size is %s, want %d", out, want)
			}
			if got := len(keys(t, h, `["s"]`, false, 2)); got != want {
				t.Errorf("%d are listed, want %d", got, want)
			}
		}
		count(5)
		time.Sleep(1499 * time.Millisecond)
		count(5)
		time.Sleep(time.Millisecond)
		count(4)
		// A put without ttl_ms makes an entry permanent, one with it moves the end; a mutation leaves it where it is.
		call(t, h, "put", `{"key":["s",1],"value":1}`)
		call(t, h, "atomic", `{"mutations":[{"op":"sum","key":["s",2],"value":1}]}`)
		call(t, h, "atomic", `{"mutations":[{"op":"max","key":["s",3],"value":1,"ttl_ms":10000}]}`)
		time.Sleep(4500 * time.Millisecond) // at 6 s
		count(3)
		h.Crash()
		count(3)
		if out := call(t, h, "delete", `{"key":["s",2]}`); out != `{"deleted":false}` {
			t.Errorf("an expired entry was deleted: %s", out)
		}
		time.Sleep(6 * time.Second)
		if out := call(t, h, "delete_range", `{"prefix":["s"]}`); out != `{"deleted":2}` {
			t.Errorf("expired entries are counted as deleted: %s", out)
		}
		count(0)
	}, cell.Definition())
}

func TestTimesToLiveAreShownAndBounded(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		expires := time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339Nano)
		call(t, h, "put", `{"key":["s"],"value":1,"ttl_ms":2000}`)
		for _, query := range []string{"get", "list"} {
			input := `{}`
			if query == "get" {
				input = `{"key":["s"]}`
			}
			if out := call(t, h, query, input); !strings.Contains(out, `"expires":"`+expires+`"`) {
				t.Errorf("%s: %s", query, out)
			}
		}
		if e := h.Events("cell", "c"); len(e) != 1 || !strings.Contains(string(e[0].Data), `"expires":"`+expires+`"`) {
			t.Errorf("%s", e[0].Data)
		}
		for _, ms := range []string{"-1", fmt.Sprint(int64(cell.MaxTTL) + 1), "1.5", `"1"`} {
			if out := call(t, h, "put", `{"key":["s"],"value":1,"ttl_ms":`+ms+`}`); !strings.Contains(out, "invalid_argument") {
				t.Errorf("ttl_ms %s: %s", ms, out)
			}
		}
		if out := call(t, h, "put", fmt.Sprintf(`{"key":["s"],"value":1,"ttl_ms":%d}`, int64(cell.MaxTTL))); !strings.Contains(out, `"created":false`) {
			t.Error(out)
		}
	}, cell.Definition())
}
