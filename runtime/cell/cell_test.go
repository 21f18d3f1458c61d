package cell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
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

func TestNullIsNotAbsence(t *testing.T) {
	n := open(t)
	if out := call(t, n, "get", `{"key":["n"]}`); out != `{"found":false}` {
		t.Error(out)
	}
	call(t, n, "put", `{"key":["n"],"value":null}`)
	if f := get(t, n, `["n"]`); !f.Found {
		t.Error("a stored null reads as absent")
	}
	if out := call(t, n, "delete", `{"key":["n"]}`); out != `{"deleted":true}` {
		t.Error(out)
	}
	if out := call(t, n, "delete", `{"key":["n"]}`); out != `{"deleted":false}` {
		t.Error(out)
	}
}

func TestFaultyInputIsNamedAndDoesNothing(t *testing.T) {
	n := open(t)
	call(t, n, "put", `{"key":["a"],"value":1}`)
	before := get(t, n, `["a"]`)
	for _, test := range []struct{ method, input, want string }{
		{"put", `{"key":["a"]}`, "the value is missing"},
		{"put", `{"value":1}`, "the key is missing or empty"},
		{"put", `{"key":[],"value":1}`, "the key is missing or empty"},
		{"put", `{"key":"a","value":1}`, "a key is an array of strings, numbers and booleans"},
		{"put", `{"key":["a",null],"value":1}`, "key part 2"},
		{"put", `{"key":["a"],"value":1,"ttl":5}`, "unknown field"},
		{"put", `{"key":["a"],"value":1,"ttl_ms":0}`, "ttl_ms is 0; it must be a number from 1"},
		{"put", `{"key":["a"],"key":["b"],"value":1}`, `"key" is given twice`},
		{"put", `{"key":["a"],"value":{"x":[{"y":1,"y":2}]}}`, `member "value.x[0].y" is given twice`},
		{"set_state", `{"state":{"x":1,"x":2}}`, `member "state.x" is given twice`},
		{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":{"x":1,"x":2}}]}`, `member "mutations[0].value.x" is given twice`},
		{"atomic", `{"enqueues":[{"queue":"a","body":{"x":1,"x":2}}]}`, `member "enqueues[0].body.x" is given twice`},
		{"queue.send", `{"queue":"a","messages":[{"body":1},{"body":{"x":1,"x":2}}]}`, `messages[1].body: member "x" is given twice`},
		{"stream.append", `{"stream":"a","items":[1,{"x":1,"x":2}]}`, `member "x" is given twice`},
		{"schedule.set", `{"name":"a","every_ms":1000,"payload":{"event":true,"body":{"x":1,"x":2}}}`, `member "body.x" is given twice`},
		{"put", `{"key":["a"],"Value":1}`, `unknown field "Value"`},
		{"atomic", `{"mutations":[{"op":"put","key":["a"],"value":1,"ttl_ms":0}]}`, "ttl_ms is 0"},
		{"queue.send", `{"queue":"","messages":[{"body":1}]}`, "invalid_argument: queue is missing"},
		{"queue.send", `{"queue":"a b","messages":[{"body":1}]}`, "a name is 1 to 64 characters"},
		{"queue.send", `{"queue":"a","messages":[{"body":1},{"body":1,"ttl_ms":0}]}`, "messages[1].ttl_ms: 0 is not"},
		{"queue.send", `{"queue":"a","messages":[{"body":1},{"body":1,"delay_ms":-5}]}`, "messages[1].delay_ms: -5 is not from 0 to 2592000000"},
		{"schedule.set", `{"name":"é","every_ms":1000,"payload":{"event":true}}`, "a name is 1 to 64 characters"},
		{"stream.append", `{"stream":"a.b","items":[1]}`, "a name is 1 to 64 characters"},
		{"put", `{"key":["` + strings.Repeat("k", 3000) + `"],"value":1}`, "too_large"},
		{"put", `{"key":["a"],"value":"` + strings.Repeat("v", 200_000) + `"}`, "too_large"},
		{"put", "{\"key\":[\"a\"],\"value\":\"\xff\"}", "not JSON"},
		{"get", ``, "missing"},
		{"get", `{}`, "the key is missing or empty"},
		{"delete", `{"prefix":["a"]}`, "unknown field"},
		{"delete_range", `{}`, "the prefix is missing"},
		{"delete_range", ``, "missing"},
		{"delete_range", `{"prefix":null}`, "a key is an array"},
		{"list", `{"limit":1001}`, "the limit is 1001"},
		{"list", `{"limit":-1}`, "the limit is -1"},
		{"list", `{"limit":0}`, "the limit is 0"},
		{"list", `{"cursor":"?"}`, "the cursor does not belong"},
		{"list", `{"prefix":["b"],"cursor":"AmEA"}`, "the cursor does not belong"},
		{"size", `{"a":1}`, "invalid_argument"},
	} {
		if out := call(t, n, test.method, test.input); !strings.Contains(out, test.want) || strings.Contains(out, "internal") {
			t.Errorf("%s %.60s: %.200s, want %q", test.method, test.input, out, test.want)
		}
	}
	if f := get(t, n, `["a"]`); string(f.Value) != "1" || f.Version != before.Version {
		t.Errorf("a faulty call changed the cell: %+v", f)
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

func TestEveryWriteEmitsOneChange(t *testing.T) {
	n := open(t)
	large := `"` + strings.Repeat("v", cell.MaxEventValue) + `"`
	for _, c := range [][2]string{
		{"put", `{"key":["a",1],"value":{"n":123456789012345678901}}`},
		{"put", `{"key":["a",2],"value":` + large + `}`},
		{"delete", `{"key":["a",2]}`},
		{"delete", `{"key":["none"]}`},
		{"delete_range", `{"prefix":["none"]}`},
		{"delete_range", `{"prefix":["a"]}`},
		{"get", `{"key":["a"]}`},
	} {
		call(t, n, c[0], c[1])
	}
	stream, err := n.Subscribe(t.Context(), host.Address{Type: "cell", Key: []string{"c"}}, host.Subscription{Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	want := []string{
		`{"op":"put","key":["a",1],"value":{"n":123456789012345678901},"size":27}`,
		fmt.Sprintf(`{"op":"put","key":["a",2],"size":%d}`, len(large)),
		`{"op":"delete","key":["a",2]}`,
		`{"op":"delete_range","prefix":["a"],"deleted":1}`,
	}
	for i := 0; i < len(want); {
		d, err := stream.Next(t.Context())
		if err != nil || d.Missed > 0 {
			t.Fatal(d, err)
		}
		for _, e := range d.Events {
			if i == len(want) || e.Name != "changed" || string(e.Data) != want[i] {
				t.Fatalf("event %d is %s %s", i+1, e.Name, e.Data)
			}
			i++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := stream.Next(ctx); err == nil {
		t.Errorf("one more event: %+v", d)
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

func TestReadingACellThatWasNeverWrittenFindsNothing(t *testing.T) {
	n := open(t)
	if out := call(t, n, "list", `{}`); out != `{"entries":[]}` {
		t.Error(out)
	}
	if out := call(t, n, "size", ``); !strings.HasPrefix(out, `{"entries":0,"bytes":`) {
		t.Error(out)
	}
}

func TestStateIsOneDocumentThatIsReplacedIfItsVersionIsAsExpected(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := t.Context(), cell.Type.Ref(h, "a")
		zero, other := uint64(0), uint64(99)
		if got, err := cell.State.Call(ctx, ref, actor.None{}); err != nil || got.State != nil || got.Version != 0 {
			t.Fatalf("%+v %v", got, err)
		}
		set, err := cell.SetState.Call(ctx, ref, cell.StateInput{State: cell.Document(`{"n": 12345678901234567890}`), Version: &zero})
		if err != nil || !set.OK || set.Version == 0 {
			t.Fatalf("%+v %v", set, err)
		}
		if again, err := cell.SetState.Call(ctx, ref, cell.StateInput{State: cell.Document(`1`), Version: &other}); err != nil || again.OK || again.Version != set.Version {
			t.Fatalf("%+v %v", again, err)
		}
		if _, err := cell.SetState.Call(ctx, ref, cell.StateInput{State: cell.Document(`"` + strings.Repeat("x", cell.MaxState) + `"`)}); actor.CodeOf(err) != actor.TooLarge {
			t.Fatal(err)
		}
		if _, err := cell.SetState.Call(ctx, ref, cell.StateInput{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Fatal(err)
		}
		h.Crash()
		if got, err := cell.State.Call(ctx, ref, actor.None{}); err != nil || string(got.State) != `{"n":12345678901234567890}` || got.Version != set.Version {
			t.Fatalf("%s %v", got.State, err)
		}
	}, cell.Definition())
}
