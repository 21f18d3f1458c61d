package cell_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

// open starts a node that hosts cells, in a directory of its own.
func open(t *testing.T, o runtime.Options) *runtime.Runtime {
	t.Helper()
	o.Dir, o.Actors = t.TempDir(), []actor.Definition{cell.Definition()}
	rt, err := runtime.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		check(t, rt.Close())
	})
	return rt
}

// call calls a method of the cell "c" with JSON and returns its output, or the error's code and message.
func call(t *testing.T, n host.Node, method, input string) string {
	t.Helper()
	r, err := n.Call(t.Context(), &host.Request{
		Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: method, Codec: host.JSON, Input: []byte(input),
	})
	if err != nil {
		return err.Error()
	}
	return string(r.Output)
}

// entries lists the keys below a prefix with their values, page by page.
func entries(t *testing.T, n host.Node, prefix string, reverse bool, limit int) []string {
	t.Helper()
	var all []string
	cursor := ""
	for {
		var page struct {
			Entries []struct{ Key, Value json.RawMessage }
			Cursor  string
		}
		output := call(t, n, "list", fmt.Sprintf(`{"prefix":%s,"reverse":%t,"limit":%d,"cursor":%q}`, prefix, reverse, limit, cursor))
		must(t, json.Unmarshal([]byte(output), &page), "list", prefix, output)
		for _, e := range page.Entries {
			all = append(all, string(e.Key)+string(e.Value))
		}
		fatalIf(t, len(page.Entries) > limit || page.Cursor != "" && len(page.Entries) == 0,
			"a page of %d entries, limit %d", len(page.Entries), limit)
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

func TestPageIsBoundedByBytes(t *testing.T) {
	n := open(t, runtime.Options{})
	for i := range 12 {
		call(t, n, "put", fmt.Sprintf(`{"key":[%d],"value":"%s"}`, i, strings.Repeat("v", 120_000)))
	}
	page := call(t, n, "list", `{}`)
	errorIf(t, len(page) > cell.PageBytes+200_000 || !strings.Contains(page, `"cursor":"`), "a page of %d bytes", len(page))
	got := entries(t, n, `[]`, false, 1000)
	errorIf(t, len(got) != 12, "%d entries of 12", len(got))
}

func TestGoCallersUseTheTypedContract(t *testing.T) {
	n := open(t, runtime.Options{})
	ctx, ref := t.Context(), cell.Type.Ref(n, "go")
	big1 := new(big.Int).Lsh(big.NewInt(1), 100)
	key := cell.Key{"k", 7, int64(-1), uint8(3), 1.0, true, big1}
	put, err := cell.Put.Call(ctx, ref, cell.Entry{Key: key, Value: json.RawMessage(`{"big": 1e999}`)})
	fatalIf(t, err != nil || !put.Created, "%v %v", put, err)
	got, err := cell.Get.Call(ctx, ref, cell.KeyInput{Key: key})
	fatalIf(t, err != nil || string(got.Value) != `{"big":1e999}`, "%v %v", got, err)
	page, err := cell.List.Call(ctx, ref, cell.ListInput{Prefix: cell.Key{"k"}})
	fatalIf(t, err != nil || len(page.Entries) != 1, "%v %v", page, err)
	errorIf(t, tuple.Compare(tuple.Tuple(page.Entries[0].Key), tuple.Tuple(key)) != 0, "key is %v", page.Entries[0].Key)
	text, err := json.Marshal(page.Entries[0].Key)
	errorIf(t, err != nil || string(text) != `["k",7,-1,3,1.0,true,1267650600228229401496703205376]`, "key is %s, %v", text, err)
	for _, faulty := range []cell.Entry{
		{Key: cell.Key{nil}, Value: json.RawMessage("1")}, {Key: cell.Key{"\xff"}, Value: json.RawMessage("1")},
		{Key: cell.Key{struct{}{}}, Value: json.RawMessage("1")}, {Key: cell.Key{"k"}, Value: json.RawMessage("{")},
	} {
		if _, err := cell.Put.Call(ctx, ref, faulty); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("%#v: %v", faulty, err)
		}
	}
	if _, err := cell.DeleteRange.Call(ctx, ref, cell.PrefixInput{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
	if n, err := cell.DeleteRange.Call(ctx, ref, cell.PrefixInput{Prefix: cell.Key{}}); err != nil || n.Deleted != 1 {
		t.Error(n, err)
	}
}

// A prefix selects whole parts of keys, and pages of any size meet without a gap or a repetition, in both directions.
func TestCellAgreesWithAMap(t *testing.T) {
	pool := []string{`["user"]`, `["user",1]`, `["user",1,"x"]`, `["user",10]`, `["user\u0000"]`, `["users"]`, `["users",1]`, `[1]`} // in order
	for i := range 12 {
		pool = slices.Insert(pool, i, fmt.Sprintf(`["p",%d]`, i*100))
	}
	prefixes := []string{`["user"]`, `["user",1]`, `["u"]`, `["p"]`, `[]`}
	below := func(key, prefix string) bool {
		prefix = strings.TrimSuffix(prefix, "]")
		return prefix == "[" || strings.HasPrefix(key, prefix) && strings.Contains(",]", key[len(prefix):][:1])
	}
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		random := rand.New(rand.NewPCG(1, 2))
		model := make(map[string]string)
		for n := range 400 {
			key := pool[random.IntN(len(pool))]
			switch _, exists := model[key]; random.IntN(10) {
			case 0:
				prefix, deleted := prefixes[random.IntN(len(prefixes))], len(model)
				maps.DeleteFunc(model, func(key, _ string) bool { return below(key, prefix) })
				if out := call(t, h, "delete_range", `{"prefix":`+prefix+`}`); out != fmt.Sprintf(`{"deleted":%d}`, deleted-len(model)) {
					t.Fatal(prefix, out)
				}
			case 1, 2, 3:
				delete(model, key)
				if out := call(t, h, "delete", `{"key":`+key+`}`); out != fmt.Sprintf(`{"deleted":%t}`, exists) {
					t.Fatal(key, out)
				}
			default:
				model[key] = fmt.Sprint(n)
				if out := call(t, h, "put", fmt.Sprintf(`{"key":%s,"value":%d}`, key, n)); !strings.Contains(out, fmt.Sprintf(`"created":%t`, !exists)) {
					t.Fatal(key, out)
				}
			}
			if n%40 != 39 {
				continue
			}
			for _, prefix := range prefixes {
				var want []string
				for _, key := range pool {
					if value, ok := model[key]; ok && below(key, prefix) {
						want = append(want, key+value)
					}
				}
				limit := 1 + random.IntN(10)
				forward, backward := entries(t, h, prefix, false, limit), entries(t, h, prefix, true, limit)
				if slices.Reverse(backward); !slices.Equal(forward, want) || !slices.Equal(backward, want) {
					t.Fatalf("below %s are %v, in pages of %d %v, in reverse %v", prefix, want, limit, forward, backward)
				}
			}
			if out := call(t, h, "size", ""); !strings.HasPrefix(out, fmt.Sprintf(`{"entries":%d,`, len(model))) {
				t.Fatalf("%d entries, size says %s", len(model), out)
			}
		}
	}, cell.Definition())
}
