package cell_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/localnats"
)

// open starts a node that hosts cells, in a directory of its own.
func open(t *testing.T, o runtime.Options) *runtime.Runtime {
	t.Helper()
	o.Dir, o.Actors = t.TempDir(), []actor.Definition{cell.Definition()}
	rt, err := runtime.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { check(t, rt.Close()) })
	return rt
}

// call calls a method of the cell "c" with JSON and returns the output, or the code and message of
// the error.
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

// A prefix selects whole parts of keys. Pages of any size have no gap and no repetition between
// them, in both directions.
func TestCellAgreesWithAMap(t *testing.T) {
	// in order
	pool := []string{`["user"]`, `["user",1]`, `["user",1,"x"]`, `["user",10]`, `["user\u0000"]`, `["users"]`, `["users",1]`, `[1]`}
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
				out := call(t, h, "delete_range", `{"prefix":`+prefix+`}`)
				fatalIf(t, out != fmt.Sprintf(`{"deleted":%d}`, deleted-len(model)), "%v %v", prefix, out)
			case 1, 2, 3:
				delete(model, key)
				out := call(t, h, "delete", `{"key":`+key+`}`)
				fatalIf(t, out != fmt.Sprintf(`{"deleted":%t}`, exists), "%v %v", key, out)
			default:
				model[key] = fmt.Sprint(n)
				out := call(t, h, "put", fmt.Sprintf(`{"key":%s,"value":%d}`, key, n))
				fatalIf(t, !strings.Contains(out, fmt.Sprintf(`"created":%t`, !exists)), "%v %v", key, out)
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

func TestJobsInCBORMayNestAsDocumentsDo(t *testing.T) {
	for depth, fits := range map[int]bool{400: true, 600: false} {
		var j cell.Job
		err := j.UnmarshalCBOR([]byte("\xa2\x65queue\x61q\x64body" + strings.Repeat("\x81", depth) + "\x01"))
		errorIf(t, fits != (err == nil) || fits && len(j.Body) != 2*depth+1, "%d levels: %v", depth, err)
	}
}

func TestGoCallersUseQueuesStreamsAndSchedules(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, ref := t.Context(), cell.Type.Ref(h, "go")
		answer := make(chan string, 1)
		go func() {
			got, err := cell.Queues.Named("jobs").Of(ref).Ask(ctx, cell.Document(`{"a":1}`))
			answer <- fmt.Sprint(string(got), err)
		}()
		got, err := cell.Queues.Named("jobs").Of(ref).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute})
		fatalIf(t, err != nil || len(got) != 1 || string(got[0].Body) != `{"a":1}`, "%v %v", got, err)
		must(t, got[0].Ack(ctx, cell.Document(`3`)))
		if got := <-answer; got != "3<nil>" {
			t.Error(got)
		}
		must(t, errOf(cell.Streams.Named("log").Of(ref).Append(ctx, cell.Document(`[1]`), nil)))
		page, err := cell.Streams.Named("log").Of(ref).Read(ctx, handle.Position{}, handle.ReadConfig{})
		errorIf(t, err != nil || len(page.Items) != 2 || string(page.Items[0].Value) != `[1]` || page.Items[1].Value != nil,
			"%v %v", page, err)
		set, err := cell.Schedules.Named("s").Of(ref).Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{Event: true})
		errorIf(t, err != nil || !set.Payload.Event || set.Next.IsZero(), "%v %v", set, err)
		if _, err := cell.Schedules.Named("s").Of(ref).
			Set(ctx, actor.Rule{Every: time.Minute}, cell.Job{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("a job that does nothing: %v", err)
		}
	}, cell.Definition())
}

// The OpenAPI document of a node with cells has all their methods, with valid examples.
func TestNodesDescribeCells(t *testing.T) {
	w := httptest.NewRecorder()
	open(t, runtime.Options{}).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/openapi.json", nil))
	fatalIf(t, w.Code != http.StatusOK, "status %d: %s", w.Code, w.Body)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	must(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	must(t, c.AddResource("https://node/openapi.json", doc))
	compile := func(pointer string) *jsonschema.Schema {
		s, err := c.Compile("https://node/openapi.json#" + (&url.URL{Fragment: pointer}).EscapedFragment())
		must(t, err)
		return s
	}
	examples := 0
	for name, schema := range doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		all, _ := schema.(map[string]any)["examples"].([]any)
		for _, example := range all {
			check(t, compile("/components/schemas/"+name).Validate(example), "the example of", name)
			examples++
		}
	}
	errorIf(t, examples < 3, "cells have %d examples", examples)
	paths := doc.(map[string]any)["paths"].(map[string]any)
	for method, input := range map[string]string{
		"put":           `{"key":["a",1,true],"value":{"any":["thing"]},"ttl_ms":5}`,
		"atomic":        `{"checks":[{"key":["a"],"version":0}],"mutations":[{"op":"sum","key":["a"],"value":1}],"enqueues":[{"queue":"q","body":1}]}`,
		"queue.send":    `{"queue":"any-name","messages":[{"body":{"any":"thing"}}]}`,
		"queue.receive": `{"queue":"any-name"}`,
		"schedule.set":  `{"name":"any","every_ms":1000,"payload":{"event":true}}`,
		"stream.append": `{"stream":"any","items":[1,"x"]}`,
	} {
		const base = "/actors/cell/{key}/-/call/"
		if paths[base+method] == nil {
			t.Errorf("the document lacks %s", method)
			continue
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(input))
		must(t, err)
		pointer := "/paths/" + strings.ReplaceAll(base+method, "/", "~1") + "/post/requestBody/content/application~1json/schema"
		check(t, compile(pointer).Validate(value), method, input)
	}
	for _, what := range []string{"", "events", "connect", "keys", "queues/{name}", "streams/{name}"} {
		errorIf(t, paths["/actors/cell/{key}/-/"+what] == nil, "the document lacks %q", what)
	}
}

// bounded calls a method of the cell "c", and checks that its allocations are at most times the
// size of the input.
func bounded(t *testing.T, node host.Node, method string, codec host.Codec, input string, times uint64) error {
	t.Helper()
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	_, err := node.Call(t.Context(), &host.Request{
		Address: host.Address{Type: "cell", Key: []string{"c"}}, Method: method, Codec: codec, Input: []byte(input),
	})
	goruntime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > times*uint64(len(input)) {
		t.Errorf("%.40q: %d bytes are allocated for %d", input, got, len(input))
	}
	return err
}

// A document in CBOR takes memory in proportion to its JSON. A document above the limit is not
// read.
func TestADocumentInCBORTakesFewTimesItsSize(t *testing.T) {
	node := open(t, runtime.Options{})
	array := func(n int, one string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n))) + strings.Repeat(one, n)
	}
	for _, c := range []struct {
		item  string
		code  host.Code
		times uint64 // bound of all allocations, in sizes of the input; most are of a growing text
	}{
		{array(350_000, "\xa1\x01\xf6"), host.InvalidArgument, 48},
		{array(2, array(530_000, "\xf6")), host.InvalidArgument, 48},
		{array(50_000, "\xf6"), "", 300},
		{array(20_000, "\xa1\x01\xf6"), "", 300},
	} {
		input := "\xa2\x66stream\x63log\x65items\x81" + c.item
		if err := bounded(t, node, host.StreamAppend, host.CBOR, input, c.times); host.CodeOf(err) != c.code {
			t.Errorf("%.20q of %d bytes: %v", c.item, len(c.item), err)
		}
	}
}

// TestLongListsOfACommitAreNotDecoded sends commits with far too many elements, and one with a
// value that has as many.
func TestLongListsOfACommitAreNotDecoded(t *testing.T) {
	const n = 300_000
	node := open(t, runtime.Options{})
	list := func(one string) string { return "[" + strings.Repeat(one+",", n-1) + one + "]" }
	bytes := func(one string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0x9a}, n)) + strings.Repeat(one, n)
	}
	for _, c := range []struct {
		codec       host.Codec
		input, path string
		limit       int
	}{
		{host.JSON, `{"mutations":` + list("{}") + `}`, "mutations", cell.MaxMutations},
		{host.JSON, `{"checks":` + list("null") + `}`, "checks", cell.MaxChecks},
		{host.JSON, `{"\u0065nqueues":` + list("{}") + `}`, "enqueues", cell.MaxEnqueues},
		{host.JSON, `{"enqueues":[{},{"backoff_ms":` + list("0") + `}]}`, "enqueues[1].backoff_ms", 100},
		{host.JSON, `{"enqueues":[{"keys_if_undelivered":` + list("[]") + `}]}`, "enqueues[0].keys_if_undelivered", 10},
		{host.JSON, `{"mutations":[{"op":"put","key":["a"],"value":` + list("[]") + `}]}`, "", 0},
		{host.CBOR, "\xa1\x69mutations" + bytes("\xa0"), "mutations", cell.MaxMutations},
		{host.CBOR, "\xa1\x69mutations\xc6" + bytes("\xf6"), "mutations", cell.MaxMutations},
	} {
		err := bounded(t, node, "atomic", c.codec, c.input, 16)
		var e *host.Error
		switch is := errors.As(err, &e); {
		case c.path == "" && err != nil, c.path != "" && !is:
			t.Errorf("%.40q: %v", c.input, err)
		case is && (e.Code != host.TooLarge || e.Metadata["field"] != c.path ||
			e.Metadata["limit"] != strconv.Itoa(c.limit) || e.Metadata["actual"] != "300000"):
			t.Errorf("%.40q: %v, with %v", c.input, e, e.Metadata)
		}
	}
}

// The reason of an operator reaches the audit log over each protocol.
func TestReasonsReachTheAuditLogOverEachProtocol(t *testing.T) {
	rt := open(t, runtime.Options{Listen: "127.0.0.1:0", NATSListen: "127.0.0.1:0", NATSServer: localnats.Serve})
	a := host.Address{Type: "cell", Key: []string{"a"}}
	c, err := client.New("http://"+rt.Addr(), client.Options{})
	must(t, err)
	defer c.Close()
	must(t, errOf(c.Call(t.Context(), &host.Request{Address: a, Method: "put", Codec: host.JSON, Input: []byte(`{"key":[1],"value":1}`)})))
	ws, _, err := websocket.Dial(t.Context(), "ws://"+rt.Addr()+"/actors/cell/a/-/connect",
		&websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	must(t, err)
	defer ws.CloseNow()
	for _, text := range []string{`{"connect":{}}`, `{"id":1,"call":"actor.pause","reason":"50 % über"}`} {
		must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
		if _, reply, err := ws.Read(t.Context()); err != nil {
			t.Errorf("%s: %s, %v", text, reply, err)
		}
	}

	if _, err := c.Call(audit.WithReason(t.Context(), "für alle"),
		&host.Request{Address: a, Method: host.ActorResume, Codec: host.JSON}); err != nil {
		t.Error(err)
	}

	nc, err := nats.Connect(rt.NATSURL())
	must(t, err)
	defer nc.Close()
	published, err := nc.SubscribeSync("cairn.default.audit.cell.actor%2Esleep.a")
	must(t, err)
	m := nats.NewMsg("cairn.default.call.cell.actor%2Esleep.a")
	m.Header.Set(audit.Header, "50%25 %C3%BCber")
	if r, err := nc.RequestMsg(m, time.Minute); err != nil || r.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%+v, %v", r, err)
	}
	check(t, errOf(published.NextMsg(time.Minute)), "the record is not published")

	page, err := c.Audit(t.Context(), audit.Query{Type: "cell", Prefix: a.Key, Exact: true})
	fatalIf(t, err != nil || len(page.Records) != 3, "%+v, %v", page, err)
	for i, want := range []audit.Record{
		{Verb: host.ActorSleep, Channel: "nats", Reason: "50% über"}, {Verb: host.ActorResume, Channel: "http", Reason: "für alle"},
		{Verb: host.ActorPause, Channel: "websocket", Reason: "50 % über"},
	} {
		r := page.Records[i]
		errorIf(t, r.Verb != want.Verb || r.Channel != want.Channel || r.Reason != want.Reason ||
			(r.Remote == "") != (want.Channel == "nats"),
			"%+v, want %+v", r, want)
	}
}

func TestAClientFollowsTheAuditLogThoughItsConnectionBreaks(t *testing.T) {
	rt := open(t, runtime.Options{})
	server := httptest.NewServer(rt.Handler())
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	must(t, err)
	defer c.Close()
	verb := func(name string) {
		t.Helper()
		text := call(t, rt, name, "")
		fatalIf(t, text != "" && text[0] != '{', "%v", text)
	}
	call(t, rt, "put", `{"key":[1],"value":1}`)
	enough := errors.New("enough")
	records, done := make(chan audit.Record, 1000), make(chan error, 1)
	go func() {
		done <- c.FollowAudit(t.Context(), audit.Query{Type: "cell"}, func(r *audit.Record) error {
			if records <- *r; r.Verb == host.ActorRetry {
				return enough
			}
			return nil
		})
	}()
	for len(records) == 0 { // until the follower has begun
		verb(host.ActorPause)
	}
	for range 5 {
		server.CloseClientConnections()
		verb(host.ActorResume)
		verb(host.ActorPause)
	}
	verb(host.ActorRetry)
	if err := <-done; err != enough {
		t.Error(err)
	}
	close(records)
	var followed, all []uint64
	for r := range records {
		followed = append(followed, r.ID)
	}
	page, err := c.Audit(t.Context(), audit.Query{After: followed[0] - 1, Limit: audit.MaxPage})
	must(t, err)
	for _, r := range slices.Backward(page.Records) {
		all = append(all, r.ID)
	}
	errorIf(t, len(all) < 11 || !slices.Equal(followed, all), "%d records are followed, of %d", len(followed), len(all))
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
