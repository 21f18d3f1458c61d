package kvconnect_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
	"github.com/cairn-run/cairn/runtime/store"
)

func TestMetadataIsExchanged(t *testing.T) {
	d := open(t, serve.Options{})
	now := time.Now()
	w := d.ask("/actors/room/a/-/kv", `{"supportedVersions":[1,2,3]}`, "Authorization: BEARER 0123456789ab",
		"Content-Type: application/json")
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil || w.Code != http.StatusOK ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatal(w.Code, w.Header(), w.Body)
	}
	expires, err := time.Parse("2006-01-02T15:04:05.000Z", m["expiresAt"].(string))
	errorIf(t, err != nil || expires.Before(now.Add(10*time.Minute)), "%v %v", expires, err)
	id := m["databaseId"].(string)
	delete(m, "expiresAt")
	if want := map[string]any{
		"version": 3.0, "databaseId": d.header.Get("X-Denokv-Database-Id"), "token": "0123456789ab",
		"endpoints": []any{map[string]any{"url": "../../../../actors/room/a/-/kv", "consistency": "strong"}},
	}; !reflect.DeepEqual(m, want) {
		t.Errorf("%v, not %v", m, want)
	}
	errorIf(t, len(id) != 36 || strings.ToLower(id) != id, "the id is %q", id)
	errorIf(t, d.base.String() != "http://node/actors/room/a/-/kv", "the endpoint is %s", d.base)
	for path, want := range map[string]string{
		"/kv/a": "/actors/cell/a/-/kv", "/kv/a/b%2Fc/~/~..": "/actors/cell/a/b%2Fc/~/~../-/kv", "/actors/room/x/-/kv/": "/actors/room/x/-/kv", "/kv/~-": "/actors/cell/~-/-/kv",
	} {
		if d.open(path); d.base.EscapedPath() != want || d.header.Get("X-Denokv-Database-Id") == id {
			t.Errorf("%s leads to %s, not %s", path, d.base, want)
		}
		d.commit(mutate(set, key("a"), isU64, u64(1)))
	}
	for _, c := range []struct {
		path, body, text string
		status           int
	}{
		{"/actors/room/a/-/kv", "", "neither version 2 nor 3", 400},
		{"/actors/room/a/-/kv", `{"supportedVersions":[1,4]}`, "neither version 2 nor 3", 400},
		{"/actors/room/a/-/kv", `{"supportedVersions":["3"]}`, "the body", 400},
		{"/actors/room/a/-/kv", `{`, "the body", 400},
		{"/actors/room/a/-/kv", `{"supportedVersions":[1` + strings.Repeat(",1", 2<<10) + `]}`, "the body is longer than 4096 bytes", 413},
		{"/actors/none/a/-/kv", `{"supportedVersions":[3]}`, "no actor type", 404},
		{"/kv/", `{"supportedVersions":[3]}`, "part 1 of the key", 400},
		{"/kv/a/-/b", `{"supportedVersions":[3]}`, "part 2 of the key", 400},
		{"/actors/room/a/-/kv/nonsense", "", "there is no operation", 404},
		{"/actors/room/a/-/kv/watch", "", "the header x-denokv-version", 400},
	} {
		d.refused(d.ask(c.path, c.body), c.status, c.text)
	}
	if w := d.ask("/actors/room/a/-/kv", `{"supportedVersions":[2]}`); !strings.Contains(w.Body.String(), `"version":2,`) {
		t.Error(w.Body)
	}
	if w := d.exchange(http.MethodGet, "/actors/room/a/-/kv", "", nil); w.Code != 405 || w.Header().Get("Allow") != "POST, OPTIONS" {
		t.Error(w.Code, w.Header())
	}
}

func TestRequestsNeedTheTokenAndTheHeaders(t *testing.T) {
	d := open(t, serve.Options{Token: "secret", Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Operation != serve.Call || r.Key[0] == "no" && r.Method == host.KVCommit {
			return host.Errorf(host.PermissionDenied, "not %s %s", r.Operation, r.Method)
		}
		return nil
	}})
	for _, header := range []string{"X: y", "Authorization: Bearer wrong", "Authorization: Basic secret"} {
		d.refused(d.ask("/actors/room/a/-/kv", `{"supportedVersions":[3]}`, header), 401, "bearer token")
	}
	closed := d.ask("/actors/closed/a/-/kv", `{"supportedVersions":[3]}`, "Authorization: bearer secret")
	d.refused(closed, 403, "not operate kv.list_many")
	d.open("/actors/room/no/-/kv", "Authorization: bearer secret")
	d.refuse(http.StatusForbidden, "not call kv.commit", mutate(set, key("a"), isBytes, nil))
	d.open("/actors/room/a/-/kv", "Authorization: bearer secret")
	good := d.header
	for _, c := range []struct {
		name, value string
		status      int
	}{
		{"Authorization", "Bearer other", 401}, {"X-Denokv-Version", "1", 400}, {"X-Denokv-Version", "", 400},
		{"X-Denokv-Database-Id", "", 400}, {"X-Denokv-Database-Id", "00000000-0000-0000-0000-000000000000", 400},
	} {
		d.header = good.Clone()
		d.header.Set(c.name, c.value)
		d.refused(d.send("snapshot_read", nil), c.status, "")
	}
	d.header = good
	got := d.read()
	errorIf(t, len(got) != 0, "%v", got)
}

func TestRangesAreRead(t *testing.T) {
	d := open(t, serve.Options{})
	same(t, d.get(key("a")), "")
	var writes [][]byte
	for _, k := range [][]byte{key([]byte("b")), key("a"), key("a", 1.0), key("b"), key(int64(-1)), key(2.5), key(true)} {
		writes = append(writes, mutate(set, k, isBytes, []byte("v")))
	}
	d.commit(writes...)
	all := []string{"016200 03 76", "026100 03 76", "02610021bff0000000000000 03 76", "026200 03 76", "13fe 03 76",
		"21c004000000000000 03 76", "27 03 76"}
	end := []byte{0xFF}
	for i, c := range []struct {
		bounds []byte
		want   []string
	}{
		{bounds(nil, end, 1000, 0), all}, {bounds([]byte{}, end, 3, 0), all[:3]},
		{bounds(nil, end, 2, 1), []string{all[6], all[5]}}, {bounds(key("a"), end, 1, 0), all[1:2]},
		{bounds(key("a", "none"), end, 1, 0), all[2:3]}, // a get of a missing key reads the next
		{bounds(key("a"), append(key("a"), 0xFF), 9, 0), all[1:3]}, {bounds([]byte{2}, []byte{3}, 9, 0), all[1:4]},
		{bounds([]byte("\x02a"), []byte("\x02a\x00\x21"), 9, 0), all[1:2]},
		{bounds(key("b"), key("a"), 9, 0), []string{}}, {bounds(key("a"), key("a"), 9, 0), []string{}},
		{bounds(nil, nil, 9, 0), []string{}},
		{bounds(bytes.Repeat([]byte{0xFF}, 2048), bytes.Repeat([]byte{0xFF}, 2049), 1, 1), []string{}},
	} {
		got := d.read(c.bounds)
		errorIf(t, !reflect.DeepEqual(got, [][]string{c.want}), "%d: %q, not %q", i, got, c.want)
	}
	if got := d.read(bounds(nil, end, 1, 0), bounds(key("b"), key("a"), 1, 0),
		bounds(nil, end, 1, 1)); !reflect.DeepEqual(got, [][]string{all[:1], {}, all[6:]}) {
		t.Error(got)
	}
	if got := d.read(bytes.Repeat(bounds(nil, end, 100, 0), 10)); len(got) != 10 || !reflect.DeepEqual(got[9], all) {
		t.Error(got)
	}
	for text, body := range map[string][]byte{
		"more than 10 ranges":   bytes.Repeat(bounds(nil, end, 1, 0), 11),
		"together more than":    append(bounds(nil, end, 1000, 0), bounds(nil, end, 1, 0)...),
		"the limit is 0":        bounds(nil, end, 0, 0),
		"the limit is -1":       message(1, message(2, end, 3, int64(-1))),
		"has 2050 bytes":        bounds(bytes.Repeat([]byte{1}, 2050), end, 1, 0),
		"not a message":         []byte("x"),
		"ranges[1]: the limit ": append(bounds(nil, end, 1, 0), bounds(nil, end, -9, 0)...),
	} {
		d.refused(d.send("snapshot_read", body), 400, text)
	}
}

// For the npm client, a page shorter than its limit is the last one.
func TestPagesAreFilled(t *testing.T) {
	d := open(t, serve.Options{})
	value := bytes.Repeat([]byte{7}, 65536)
	for i := range 9 {
		var writes [][]byte
		for j := range 12 {
			writes = append(writes, mutate(set, key(float64(12*i+j)), isBytes, value))
		}
		d.commit(writes...)
	}
	got := d.read(bounds(nil, []byte{0xFF}, 108, 0))
	errorIf(t, len(got[0]) != 108, "a page of %d entries", len(got[0]))
	d.Front.Memory.Add(250 << 20) // as if other clients used it
	d.refused(d.send("snapshot_read", bounds(nil, []byte{0xFF}, 108, 0)), 503, "")
	d.Front.Memory.Add(-250 << 20)
	same(t, d.Front.Memory.Used(), 0)
}

// Values of other interfaces are read as JavaScript values.
func TestValuesOfOtherEncodingsAreTranslated(t *testing.T) {
	d := open(t, serve.Options{})
	b, err := v8.FromJSON([]byte(`{"a":[1,-1.5,"x",null,true]}`))
	must(t, err)
	document := hex.EncodeToString(b)
	for _, c := range []struct{ encoding, value, want string }{
		{"json", `{"a":[1,-1.5,"x",null,true]}`, "01 " + document},
		{"json", `9007199254740993`, "01 " + hex.EncodeToString(bigint(9007199254740993))},
		{"json", `2`, "01 ff0f4904"}, {"json", `1e999`, "03 3165393939"},
		{"integer", `2`, "01 " + hex.EncodeToString(bigint(2))},
		{"integer", `-2`, "01 " + hex.EncodeToString(bigint(-2))}, {"text", `"ü"`, "01 ff0f2201fc"},
		{"bytes", `{"$bytes":"AP8="}`, "03 00ff"}, {"u64", `258`, "02 0201000000000000"},
		{"v8", `{"$v8":"/w9UVA=="}`, "01 ff0f5454"}, {"cbor", `{"$cbor":"gQE="}`, "01 ff0f410149022400" + "01"},
	} {
		out := d.Call(host.KVCommit, fmt.Sprintf(`{"mutations":[{"op":"put","key":["a"],"encoding":%q,"value":%s}]}`, c.encoding, c.value))
		errorIf(t, !strings.Contains(out, `"ok":true`), "%v", out)
		same(t, d.get(key("a")), c.want, c.encoding, c.value)
	}
	// And back.
	d.commit(mutate(set, key("u", 7.0, 7), isV8, bigint(5)))
	if out := d.Call(host.KVGet, `{"key":["u",7.0,7]}`); !strings.Contains(out, `"value":5,"encoding":"v8"`) {
		t.Error(out)
	}
}

// A fault of the node has a status after which clients try again, and shows no details.
func TestFaultsOfTheNodeStayInside(t *testing.T) {
	d := open(t, serve.Options{})
	for _, c := range []struct {
		err         error
		read, write int
	}{
		{io.ErrUnexpectedEOF, 500, 500}, {host.Errorf(host.Overloaded, "busy").Retry(), 503,
			503}, {host.Errorf(host.ActorPaused, "paused"), 503, 503},
		{host.Errorf(host.DeadlineExceeded, "late"), 504, 408}, {host.Errorf(host.QuotaExceeded, "full"), 413, 413},
	} {
		d.Node.Before = func(context.Context, string, *host.Request) error { return c.err }
		read := d.send("snapshot_read", bounds(nil, []byte{0xFF}, 1, 0))
		write := d.send("atomic_write", nil)
		errorIf(t, read.Code != c.read || write.Code != c.write || strings.Contains(read.Body.String(), "EOF"),
			"%v: %d %q, %d %q", c.err, read.Code, read.Body, write.Code, write.Body)
	}
}

// A client of Deno waits for an answer of the server before it sends a long body over HTTP/2.
func TestLongBodiesOverHTTP2AreAskedFor(t *testing.T) {
	d := open(t, serve.Options{})
	server := httptest.NewUnstartedServer(nil)
	server.Config = d.Front.Server(d.Gateway)
	server.Start()
	defer server.Close()
	for _, c := range []struct{ version, size, want int }{{2, 100, 0}, {2, 1000, 1}, {1, 1000, 0}} {
		var protocols http.Protocols
		protocols.SetUnencryptedHTTP2(c.version == 2)
		protocols.SetHTTP1(c.version == 1)
		transport := &http.Transport{Protocols: &protocols}
		asked := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { asked++ }})
		body := mutate(set, key("a"), isBytes, make([]byte, c.size))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+d.base.Path+"/atomic_write", bytes.NewReader(body))
		must(t, err)
		r.Header = d.header
		res, err := transport.RoundTrip(r)
		must(t, err)
		out, err := io.ReadAll(res.Body)
		errorIf(t, err != nil || res.StatusCode != http.StatusOK || res.ProtoMajor != c.version || asked != c.want,
			"HTTP/%d, %d bytes: %s %q %v, asked %d times", c.version, c.size, res.Status, out, err, asked)
		transport.CloseIdleConnections()
	}
}

// An access is one interface to an entry: how to write and how to read it.
type access struct {
	name  string
	write func() // nil if it only reads
	read  func() string
	want  string // the text read contains it
}

// The table of docs/http.md: each interface reads the values written through the others.
func TestInterfacesShareOneStore(t *testing.T) {
	d := open(t, serve.Options{})
	via := func(verb, path, body string) string {
		t.Helper()
		w := d.exchange(verb, "/actors/room/a/-/"+path, body, nil)
		fatalIf(t, w.Code >= 300, "%s %s: %d %s", verb, path, w.Code, w.Body)
		return w.Body.String()
	}
	over := func(name, verb, path, body, readVerb, readPath, readBody, want string) access {
		return access{name, func() { via(verb, path, body) }, func() string { return via(readVerb, readPath, readBody) }, want}
	}
	via("POST", "call/kv.commit",
		`{"mutations":[{"op":"put","key":["cb","I"],"value":{"id":"I","name":"one"}},{"op":"put","key":["cb",true,"one","I"],"value":null}]}`)
	goStore := store.Of(actor.NewType[struct{}]("room").Ref(d.Node, "a").KV())
	for _, c := range []struct {
		native string // the key, in JSON
		key    []byte // for clients of Deno KV
		keyval string // in JSON
		path   string // of KeyVal; "" if it has none
		record string // of Codebolt; "" if it is none
		strata string // the members of a command of Strata; "" if it has none
		group  string // of the Go package store; "" if it has none. The key is theme
	}{
		{`["config","theme"]`, key("config", "theme"), `["config","theme"]`, "config/theme", "",
			`"space":"config","key":"theme"`, "config"},
		{`["tenant-42","config","theme"]`, key("tenant-42", "config", "theme"), `["tenant-42","config","theme"]`,
			"tenant-42/config/theme", "", "", "tenant-42:config"},
		{`["users",7]`, key("users", 7), `["users",{"__type":"bigint","value":"7"}]`, "", "", "", ""},
		{`["users",7.0]`, key("users", 7.0), `["users",7]`, "users/7", "", "", ""},
		{`["users","7"]`, key("users", "7"), `["users","7"]`, "", "", `"space":"users","key":"7"`, ""},
		{`["a/b",true,{"$bytes":"AP8="}]`, key("a/b", true, []byte{0, 255}), `["a/b",true,{"$bytes":"AP8="}]`, "", "", "", ""},
		{`["cb","I","config","theme"]`, key("cb", "I", "config", "theme"), `["cb","I","config","theme"]`,
			"cb/I/config/theme", "I/config/theme", "", ""},
		{`["default","theme"]`, key("default", "theme"), `["default","theme"]`, "default/theme", "", `"key":"theme"`, "default"},
	} {
		ways := []access{
			over("native", "POST", "call/kv.commit", `{"mutations":[{"op":"put","key":`+c.native+`,"value":"v"}]}`,
				"POST", "call/kv.get", `{"key":`+c.native+`}`, `"key":`+c.native+`,"value":"v"`),
			{"Deno", func() { d.commit(mutate(set, c.key, isV8, v8.FromText("v"))) },
				func() string { return d.get(c.key) }, "01 " + hex.EncodeToString(v8.FromText("v"))},
			over("KeyVal", "POST", "keyval/api/atomic", `{"mutations":[{"type":"set","key":`+c.keyval+`,"value":"v"}]}`,
				"POST", "keyval/api/keys/batch", `{"keys":[`+c.keyval+`]}`, `[{"key":`+c.keyval+`,"value":"v","versionstamp":"0`),
		}
		if c.path != "" {
			ways = append(ways,
				over("KeyVal path", "PUT", "keyval/api/keys/"+c.path, `"v"`, "GET", "keyval/api/keys/"+c.path, "", `"value":"v"`))
		}
		if p := strings.Split(c.record, "/"); c.record != "" {
			ways = append(ways,
				over("Codebolt", "POST", "kvstore/kv", `{"instanceId":"`+p[0]+`","namespace":"`+p[1]+`","key":"`+p[2]+`","value":"v"}`,
					"GET", "kvstore/kv/"+c.record, "", `{"value":"v"}`),
				access{"Codebolt's count", nil, func() string { return via("GET", "kvstore/instances/I", "") },
					`"recordCount":1,"namespaces":["config"]`})
		}
		if c.strata != "" {
			ways = append(ways, over("Strata", "POST", "strata/execute", `{"command":{"KvPut":{`+c.strata+`,"value":"v"}}}`,
				"POST", "strata/execute", `{"command":{"KvGet":{`+c.strata+`}}}`, `{"Maybe":{"String":"v"}}`))
		}
		if c.group != "" {
			ways = append(ways, access{"Go", func() { must(t, goStore.Set(c.group, "theme", "v")) }, func() string {
				got, err := goStore.Get(c.group, "theme")
				must(t, err)
				return got
			}, "v"})
		}
		for _, from := range ways {
			if from.write == nil {
				continue
			}
			via("POST", "call/kv.commit", `{"mutations":[{"op":"delete","key":`+c.native+`}]}`)
			same(t, d.get(c.key), "", c.native)
			from.write()
			for _, to := range ways {
				if got := to.read(); !strings.Contains(got, to.want) {
					t.Errorf("%s wrote %s, and %s reads %s", from.name, c.native, to.name, got)
				}
			}
		}
	}
}

// watched encodes a Watch of keys.
func watched(keys ...[]byte) (b []byte) {
	for _, k := range keys {
		b = append(b, message(1, message(1, k))...)
	}
	return b
}

// listen serves the gateway over a network until the answers are closed at the end of the test.
func (d *database) listen() *httptest.Server {
	server := httptest.NewServer(d.Gateway)
	d.T.Cleanup(server.Close)
	return server
}

// frames opens a watch over a network, and returns the answer.
func (d *database) frames(server *httptest.Server, keys ...[]byte) *http.Response {
	d.T.Helper()
	r, err := http.NewRequestWithContext(d.T.Context(), http.MethodPost, server.URL+d.base.Path+"/watch", bytes.NewReader(watched(keys...)))
	must(d.T, err)
	r.Header = d.header.Clone()
	w, err := server.Client().Do(r)
	must(d.T, err)
	d.T.Cleanup(func() { w.Body.Close() })
	fatalIf(d.T, w.StatusCode != http.StatusOK || w.Header.Get("Content-Type") != "application/octet-stream",
		"%v %v", w.StatusCode, w.Header)
	return w
}

// frame reads the next non-empty frame, as text: for each key "gone", or the encoding and the
// value.
func frame(t *testing.T, w *http.Response) string {
	t.Helper()
	for {
		var size [4]byte
		must(t, errOf(io.ReadFull(w.Body, size[:])))
		n := binary.LittleEndian.Uint32(size[:])
		if n == 0 {
			continue
		}
		b := make([]byte, n)
		must(t, errOf(io.ReadFull(w.Body, b)))
		fields := repeated(b)
		errorIf(t, fields[0][0] != 1, "the status is %d", fields[0][0])
		var keys []string
		for _, k := range fields[1:] {
			text := "gone"
			if parts := repeated(k); len(parts) > 1 {
				e := repeated(parts[1])
				text = fmt.Sprintf("%x %x", e[2], e[1])
			}
			keys = append(keys, text)
		}
		return strings.Join(keys, ", ")
	}
}

func TestWatchTellsTheStatesOfKeys(t *testing.T) {
	d := open(t, serve.Options{Limits: serve.Limits{Heartbeat: 20 * time.Millisecond}})
	server := d.listen()
	a, b, c := key("a"), key("b", int64(1)), key("c")
	hello := v8.FromText("hello")
	w := d.frames(server, a, b, a) // of an actor that does not exist; one key twice
	want := func(w *http.Response, text string) {
		t.Helper()
		same(t, frame(t, w), text)
	}
	want(w, "gone, gone, gone")
	d.commit(mutate(set, a, isV8, hello), mutate(set, c, isBytes, nil))
	want(w, fmt.Sprintf("01 %x, gone, 01 %x", hello, hello))
	d.commit(mutate(set, c, isBytes, []byte{1})) // not watched
	d.commit(mutate(set, b, isU64, u64(7)), mutate(set, a, isBytes, []byte{1}))
	want(w, "03 01, 02 0700000000000000, 03 01")
	d.commit(mutate(remove, a, 0, nil), mutate(remove, a, 0, nil), mutate(set, b, isU64, u64(8)))
	want(w, "gone, 02 0800000000000000, gone")
	var nothing [4]byte
	if _, err := io.ReadFull(w.Body, nothing[:]); err != nil || nothing != [4]byte{} {
		t.Errorf("%x came while nothing changed, %v", nothing, err)
	}
	d.commit(mutate(remove, b, 0, nil))
	want(w, "gone, gone, gone")
	late := d.frames(server, b, c, a, a, a, a, a, a, a, a) // the most keys
	want(late, "gone, 03 01"+strings.Repeat(", gone", 8))
	must(t, d.Node.Destroy(context.Background(), host.Address{Type: "room", Key: []string{"a"}}))
	io.Copy(io.Discard, late.Body) // it ends, and the client reconnects
	want(d.frames(server, b, c), "gone, gone")
	d.Front.Drain()
	if err := d.Front.Close(); err != nil || d.Front.Open() != 0 {
		t.Error(err, d.Front.Open())
	}
}

func TestWatchRefusesWhatItCannotWatch(t *testing.T) {
	d := open(t, serve.Options{Limits: serve.Limits{Streams: 1}})
	for _, c := range []struct {
		body []byte
		text string
		code int
	}{
		{nil, "the watch names no key", 400}, {[]byte{0x0A}, "is not a message", 400}, {watched([]byte("x")),
			"keys[0]: the key is no tuple", 400},
		{watched(key("a"), nil), "keys[1]: the key is missing", 400}, {bytes.Repeat(watched(key("a")), 11), "more than 10 keys", 400},
		{watched(key(strings.Repeat("x", 2050))), "keys[0]: ", 413}, {make([]byte, 33<<10), "longer than", 413},
	} {
		d.refused(d.send("watch", c.body), c.code, c.text)
	}
	server := d.listen()
	first := d.frames(server, key("a"))
	frame(t, first)
	d.refused(d.send("watch", watched(key("a"))), 503, "")
	first.Body.Close()
	d.base = &url.URL{Path: "/actors/closed/a/-/kv"} // the id is of another database
	d.refused(d.send("watch", watched(key("a"))), 400, "database-id")
}
