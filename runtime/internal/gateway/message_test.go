package gateway

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func FuzzClientMessage(f *testing.F) {
	for _, text := range []string{
		`{"connect":{"params":{"a":1},"events":["said"],"token":"t","after":17}}`, `{"id":1,"call":"add","input":{"n":1},"idempotency_key":"k"}`,
		`{"id":2,"subscribe":["said"]}`, `{"id":3,"unsubscribe":["said"]}`, `{"id":4,"follow":"tokens","after":17}`, `{"id":5,"unfollow":4}`,
		`{"id":-1}`, `{"ID":1,"id":2,"call":"a"}`, `null`, `5`, `{`, "\"\xff\"", `{"id":1e3,"call":"a"}`, `{"connect":{"after":18446744073709551615}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, fault := decodeMessage(data)
		fatalIf(t, m.ID < 0 || m.ID > maxID, "the id %d cannot be answered", m.ID)
		if fault != nil {
			fatalIf(t, fault.Code != host.InvalidArgument || !strings.Contains(fault.Message, " "), "%v", fault)
			text := appendFault(nil, m.ID, fault)
			fatalIf(t, !json.Valid(text) || !utf8.Valid(text), "%q", text)
			fatalIf(t, fault == serve.ErrNotJSON && json.Valid(data) && utf8.Valid(data), "%q is JSON", data)
			return
		}
		fatalIf(t, !json.Valid(data), "%q is not JSON", data)
		if m.Connect != nil {
			if q, fault := m.Connect.request("websocket"); fault == nil &&
				(len(q.Params) > host.MaxConnectionParams || len(q.Events) > host.MaxSubscriptions) {
				t.Fatalf("%+v", q)
			}
			return
		}
		fatalIf(t, m.ID == 0, "a request without an id")
		fatalIf(t, m.Input != nil && !json.Valid(m.Input), "%q", m.Input)
	})
}

func TestMessagesOfTheServerAreJSONWhateverTheyHold(t *testing.T) {
	e := host.EmittedEvent{Sequence: 1<<64 - 1, Name: "a\"b\\c\n\u2028é"}
	var got struct {
		Event    string
		Sequence uint64
		Data     any
	}
	err := json.Unmarshal(eventMessage(&e), &got)
	errorIf(t, err != nil || got.Event != e.Name || got.Sequence != e.Sequence || got.Data != nil, "%v %v", got, err)
	fault := host.Errorf(host.Internal, "a\"b\xff").With("k\n", "v")
	for _, text := range [][]byte{
		appendBye(nil, fault), appendFault(nil, 0, fault), appendFault(nil, maxID, fault), appendEnd(nil, 1, fault), appendEnd(nil, 1, nil),
		appendItem(nil, 1, &host.ReadStreamItem{}), appendMissed(nil, 1, 1<<64-1, true), appendGap(nil, 1,
			true), appendWelcome(nil, host.Welcome{}),
		appendReply(nil, 1, &host.Reply{Replayed: true, Output: []byte("[]")}), appendDone(nil, 1),
	} {
		errorIf(t, !json.Valid(text), "%s", text)
	}
}

// Many changes become several messages, and the last of them says what the changes said.
func TestChangesOverAWebSocketComeInPieces(t *testing.T) {
	big := json.RawMessage(`"` + strings.Repeat("x", 700<<10) + `"`)
	change := func(n int) kv.Change {
		return kv.Change{Key: kv.Key{int64(n)}, Entry: &kv.Entry{Key: kv.Key{int64(n)}, Value: host.Raw(big)}}
	}
	c := kv.Changes{Version: 7, Life: "life"}
	for i := range 5 {
		c.Changes = append(c.Changes, change(i))
	}
	c.Changes = append(c.Changes, kv.Change{Key: kv.Key{"gone"}})
	for _, more := range []bool{false, true} {
		c.More = more
		batch, fault := new(exchange).changeMessages(&c)
		fatalIf(t, fault != nil || len(batch) != 3, "%v %v", len(batch), fault)
		var all []kv.Change
		for i, text := range batch {
			var got kv.Changes
			if err := json.Unmarshal(text, &got); err != nil || got.More != (more || i < 2) || got.Version != 7 || got.Life != "life" {
				t.Errorf("message %d: %t %v", i, got.More, err)
			}
			all = append(all, got.Changes...)
		}
		errorIf(t, len(all) != 6 || all[5].Entry != nil || all[4].Key[0] != int64(4), "%d changes", len(all))
	}
	if batch, fault := new(exchange).changeMessages(&kv.Changes{Changes: []kv.Change{}}); fault != nil ||
		string(batch[0]) != `{"changes":[],"version":0}` {
		t.Errorf("%s %v", batch, fault)
	}
}

func TestPathsNameRoutesActorsAndMethods(t *testing.T) {
	for _, c := range []struct {
		path   string
		route  route
		typ    string
		key    []string
		method string
	}{
		{"/healthz", toHealth, "", nil, ""}, {"/actors", toList, "", nil, ""}, {"/actors/t/-/", toActor, "t", nil, ""},
		{"/actors/t/a/b/-/", toActor, "t", []string{"a", "b"}, ""}, {"/actors/t/-/call/add", toCall, "t", nil, "add"},
		{"/actors/t/a/-/call/a%2Fb", toCall, "t", []string{"a"}, "a/b"},
		{"/actors/t/a/-/queues/mail", toQueue, "t", []string{"a"}, "mail"},
		{"/actors/t/-/streams/a%2Fb", toStream, "t", nil, "a/b"}, {"/actors/t/a/-/kv/", toKV, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kv/watch", toKV, "t", []string{"a"}, "watch"},
		{"/actors/t/a/-/kv/watch/", nowhere, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kvstore/kv/i/n/~a%2Fb", toCodebolt, "t", []string{"a"}, ""},
		{"/actors/t/a/-/kvstore/ws/x", toCodebolt, "t", []string{"a"}, ""},
		{"/actors/t/a/-/keyval/api/keys", toKeyVal, "t", []string{"a"}, ""},
		{"/actors/t/a/-/strata/execute", toStrata, "t", []string{"a"}, ""},
		{"/kv/a/b%2Fc/~-", toKV, "cell", []string{"a", "b/c", "-"}, ""}, {"/kv", nowhere, "", nil, ""},
		{"/kvx/a", nowhere, "", nil, ""}, {"/actors/t/-/queues/a/b", nowhere, "t", nil, ""},
		{"/actors/t/a%2Fb/%25/-/", toActor, "t", []string{"a/b", "%"}, ""},
		{"/actors/t/%2D/-/", toActor, "t", []string{"-"}, ""}, {"/actors/t/~-/-/", toActor, "t", []string{"-"}, ""},
		{"/actors/t/%2E/%2E%2e/-/", toActor, "t", []string{".", ".."}, ""},
		{"/actors/t/~./~../-/", toActor, "t", []string{".", ".."}, ""},
		{"/actors/t/~/-/", toActor, "t", []string{""}, ""},
		{"/actors/t/~~/~~a/~~~/-/", toActor, "t", []string{"~", "~a", "~~"}, ""},
		{"/actors/t/a+b c/é/-/", toActor, "t", []string{"a+b c", "é"}, ""},
		{"/actors/t/%00/-/", toActor, "t", []string{"\x00"}, ""},
		{"/actors/t/a/-/nothing", nowhere, "t", []string{"a"}, ""},
		{"/actors/t/a/-/keys/", nowhere, "t", []string{"a"}, ""}, {"/actorsx", nowhere, "", nil, ""},
		{"", nowhere, "", nil, ""},
	} {
		u, err := url.Parse(c.path)
		must(t, err)
		got, fault := parseTarget(u)
		if fault != nil {
			t.Errorf("%s: %v", c.path, fault)
			continue
		}
		errorIf(t, got.route != c.route || got.Type != c.typ || !slices.Equal(got.Key, c.key) || got.name != c.method,
			"%s: got %+v", c.path, got)
	}
}

func TestBadPathsAreRefusedWithTheFaultNamed(t *testing.T) {
	for path, want := range map[string]string{
		"/actors/":            "names no actor type",
		"/actors/t/a":         `"/-/" after the key is missing`,
		"/actors//a/-/":       "the actor type is empty",
		"/actors/-/-/":        `the actor type is "-"`,
		"/actors/t/a//b/-/":   "part 2 of the key is empty",
		"/actors/t/a/../-/":   `part 2 of the key is ".."`,
		"/actors/t/~bob/-/":   `part 1 of the key begins with "~"`,
		"/actors/t/%FF/-/":    "part 1 of the key is not valid UTF-8",
		"/actors/%FF/-/":      "the actor type is not valid UTF-8",
		"/actors/t/-/call":    "names no action or query",
		"/actors/t/-/call/":   "names no action or query",
		"/actors/t/-/call/..": `the name of the action or query is ".."`,
	} {
		u, err := url.Parse(path)
		must(t, err)
		_, fault := parseTarget(u)
		errorIf(t, fault == nil || fault.Code != "invalid_argument" || !strings.Contains(fault.Message, want),
			"%s: got %v, want %q", path, fault, want)
	}
}

func TestAChangedPathWinsOverAStaleRawPath(t *testing.T) {
	got, fault := parseTarget(&url.URL{Path: "/actors/t/b/-/", RawPath: "/prefix/actors/t/%62/-/"})
	errorIf(t, fault != nil || !slices.Equal(got.Key, []string{"b"}), "%v %v", got, fault)
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/actors/t/a/-/", "/actors/t/~-/%2D/-/call/x", "/actors/t//-/", "/actors/%7E/-/-/", "/actors/t/a/-/connect",
		"/actors/t/a/-/queues/~-", "/actors/t/-/streams/%2e", "/actors/t/a/-/kv/%ff", "/kv/%ff/-"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		got, fault := parseTarget(u)
		if fault != nil {
			errorIf(t, !strings.Contains(fault.Message, " ") || fault.Message[0] == ' ', "message %q", fault.Message)
			return
		}
		for _, part := range append(got.Key, got.Type, got.name) {
			errorIf(t, !utf8.ValidString(part), "%q gives %q", path, part)
		}
	})
}
