package cell_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
)

// open starts a node that hosts cells, in a directory of its own.
func open(t *testing.T) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: t.TempDir(), Actors: []actor.Definition{cell.Definition()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
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

// found is the part of an answer of get that does not depend on the time.
type found struct {
	Found   bool
	Value   json.RawMessage
	Version uint64
	Created time.Time
	Updated time.Time
}

func get(t *testing.T, n host.Node, key string) found {
	t.Helper()
	var f found
	output := call(t, n, "get", `{"key":`+key+`}`)
	if err := json.Unmarshal([]byte(output), &f); err != nil {
		t.Fatalf("get %s: %s", key, output)
	}
	return f
}

func TestValuesAreKeptAsWritten(t *testing.T) {
	n := open(t)
	last := uint64(0)
	for _, value := range []string{
		`null`, `true`, `""`, `0`, `-0`, `1.10`, `1e400`, `123456789012345678901234567890`, `"<&>\u2028\u00e9é"`, `{"b":1,"a":2,"c":3}`, `[[],{}]`,
	} {
		var put cell.PutResult
		out := call(t, n, "put", `{"key":["v"],"value":`+value+`}`)
		if err := json.Unmarshal([]byte(out), &put); err != nil || put.Created != (last == 0) || put.Version <= last {
			t.Errorf("put %s: %s", value, out)
		}
		last = put.Version
		if f := get(t, n, `["v"]`); !f.Found || string(f.Value) != value || f.Version != last || f.Created.IsZero() || f.Updated.IsZero() {
			t.Errorf("%s is read as %s at version %d", value, f.Value, f.Version)
		}
	}
	if out := call(t, n, "put", "{\"key\":[\"v\"],\"value\": { \"a\" : [ 1 ,\t2 ] } }"); !strings.Contains(out, `"created":false`) {
		t.Error(out)
	}
	if f := get(t, n, `["v"]`); string(f.Value) != `{"a":[1,2]}` {
		t.Errorf("read %s", f.Value)
	}
}

func TestPrefixSelectsWholeParts(t *testing.T) {
	n := open(t)
	for _, key := range []string{`["user"]`, `["user",1]`, `["user",1,"x"]`, `["user",10]`, `["user\u0000"]`, `["users"]`, `["users",1]`, `[1]`} {
		call(t, n, "put", `{"key":`+key+`,"value":0}`)
	}
	for prefix, want := range map[string]string{
		`[]`:         `["user"] ["user",1] ["user",1,"x"] ["user",10] ["user\u0000"] ["users"] ["users",1] [1]`,
		`["user"]`:   `["user"] ["user",1] ["user",1,"x"] ["user",10]`,
		`["user",1]`: `["user",1] ["user",1,"x"]`,
		`["u"]`:      ``,
	} {
		if got := strings.Join(keys(t, n, prefix, false, 100), " "); got != want {
			t.Errorf("prefix %s selects %s, want %s", prefix, got, want)
		}
	}
	if out := call(t, n, "delete_range", `{"prefix":["user"]}`); out != `{"deleted":4}` {
		t.Error(out)
	}
	if got, want := strings.Join(keys(t, n, `[]`, false, 100), " "), `["user\u0000"] ["users"] ["users",1] [1]`; got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
	if out := call(t, n, "delete_range", `{"prefix":[]}`); out != `{"deleted":4}` {
		t.Error(out)
	}
	if out := call(t, n, "size", ""); !strings.HasPrefix(out, `{"entries":0,`) {
		t.Error(out)
	}
}

// keys lists the keys below a prefix, page by page.
func keys(t *testing.T, n host.Node, prefix string, reverse bool, limit int) []string {
	t.Helper()
	var all []string
	cursor := ""
	for {
		var page struct {
			Entries []struct{ Key json.RawMessage }
			Cursor  string
		}
		output := call(t, n, "list", fmt.Sprintf(`{"prefix":%s,"reverse":%t,"limit":%d,"cursor":%q}`, prefix, reverse, limit, cursor))
		if err := json.Unmarshal([]byte(output), &page); err != nil {
			t.Fatalf("list %s: %s", prefix, output)
		}
		for _, e := range page.Entries {
			all = append(all, string(e.Key))
		}
		if len(page.Entries) > limit || page.Cursor != "" && len(page.Entries) == 0 {
			t.Fatalf("a page of %d entries, limit %d", len(page.Entries), limit)
		}
		if cursor = page.Cursor; cursor == "" {
			return all
		}
	}
}

func TestPagesMeetWithoutGapOrRepeat(t *testing.T) {
	n := open(t)
	for i := range 23 {
		call(t, n, "put", fmt.Sprintf(`{"key":["p",%d],"value":%d}`, i*100, i))
		call(t, n, "put", fmt.Sprintf(`{"key":["q%d"],"value":%d}`, i, i))
	}
	for _, prefix := range []string{`["p"]`, `[]`} {
		want := keys(t, n, prefix, false, 1000)
		for _, limit := range []int{1, 2, 7, 22, 23, 24, 46} {
			if got := keys(t, n, prefix, false, limit); !slices.Equal(got, want) {
				t.Errorf("pages of %d below %s bring %v", limit, prefix, got)
			}
			got := keys(t, n, prefix, true, limit)
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Errorf("reverse pages of %d below %s bring %v", limit, prefix, got)
			}
		}
	}
}

func TestPageIsBoundedByBytes(t *testing.T) {
	n := open(t)
	for i := range 12 {
		call(t, n, "put", fmt.Sprintf(`{"key":[%d],"value":"%s"}`, i, strings.Repeat("v", 120_000)))
	}
	output := call(t, n, "list", `{}`)
	if len(output) > cell.PageBytes+200_000 || !strings.Contains(output, `"cursor":"`) {
		t.Errorf("a page of %d bytes", len(output))
	}
	if got := keys(t, n, `[]`, false, 1000); len(got) != 12 {
		t.Errorf("%d entries of 12", len(got))
	}
}

func TestGoCallersUseTheTypedContract(t *testing.T) {
	n := open(t)
	ctx, ref := t.Context(), cell.Type.Ref(n, "go")
	big1 := new(big.Int).Lsh(big.NewInt(1), 100)
	key := cell.Key{"k", 7, int64(-1), uint8(3), 1.0, true, big1}
	put, err := cell.Put.Call(ctx, ref, cell.Entry{Key: key, Value: json.RawMessage(`{"big": 1e999}`)})
	if err != nil || !put.Created {
		t.Fatal(put, err)
	}
	got, err := cell.Get.Call(ctx, ref, cell.KeyInput{Key: key})
	if err != nil || string(got.Value) != `{"big":1e999}` {
		t.Fatal(got, err)
	}
	page, err := cell.List.Call(ctx, ref, cell.ListInput{Prefix: cell.Key{"k"}})
	if err != nil || len(page.Entries) != 1 {
		t.Fatal(page, err)
	}
	if tuple.Compare(tuple.Tuple(page.Entries[0].Key), tuple.Tuple(key)) != 0 {
		t.Errorf("key is %v", page.Entries[0].Key)
	}
	if text, err := json.Marshal(page.Entries[0].Key); err != nil || string(text) != `["k",7,-1,3,1.0,true,1267650600228229401496703205376]` {
		t.Errorf("key is %s, %v", text, err)
	}
	for _, faulty := range []cell.Key{{nil}, {"\xff"}, {[]byte("b")}} {
		if _, err := cell.Put.Call(ctx, ref, cell.Entry{Key: faulty, Value: json.RawMessage("1")}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("key %#v: %v", faulty, err)
		}
	}
	if _, err := cell.Put.Call(ctx, ref, cell.Entry{Key: cell.Key{"k"}, Value: json.RawMessage("{")}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
	if _, err := cell.DeleteRange.Call(ctx, ref, cell.PrefixInput{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
	if n, err := cell.DeleteRange.Call(ctx, ref, cell.PrefixInput{Prefix: cell.Key{}}); err != nil || n.Deleted != 1 {
		t.Error(n, err)
	}
}

func TestCellAgreesWithAMap(t *testing.T) {
	n := open(t)
	random := rand.New(rand.NewPCG(1, 2))
	model := make(map[string]string)
	for range 400 {
		a, b := random.IntN(4), random.IntN(6)
		key := fmt.Sprintf(`[%d,"%d"]`, a, b)
		switch random.IntN(10) {
		case 0:
			call(t, n, "delete_range", fmt.Sprintf(`{"prefix":[%d]}`, a))
			for k := range model {
				if strings.HasPrefix(k, fmt.Sprintf("[%d,", a)) {
					delete(model, k)
				}
			}
		case 1, 2, 3:
			call(t, n, "delete", `{"key":`+key+`}`)
			delete(model, key)
		default:
			value := fmt.Sprint(random.IntN(1000))
			call(t, n, "put", `{"key":`+key+`,"value":`+value+`}`)
			model[key] = value
		}
	}
	for _, key := range keys(t, n, `[]`, false, 5) {
		f := get(t, n, key)
		if string(f.Value) != model[key] {
			t.Errorf("%s is %s, want %s", key, f.Value, model[key])
		}
		delete(model, key)
	}
	if len(model) > 0 {
		t.Errorf("missing: %v", model)
	}
	all := keys(t, n, `[]`, true, 1000)
	if out := call(t, n, "size", "{}"); !strings.HasPrefix(out, fmt.Sprintf(`{"entries":%d,"bytes":`, len(all))) {
		t.Errorf("%d entries, size says %s", len(all), out)
	}
}
