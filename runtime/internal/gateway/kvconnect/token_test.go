package kvconnect_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

// newToken makes a token, and returns it with its id.
func (d *database) newToken(input string) (text, id string) {
	d.T.Helper()
	var out struct{ Token, ID string }
	must(d.T, json.Unmarshal([]byte(d.Call(host.TokenCreate, input)), &out))
	return out.Token, out.ID
}

// A holder is a client with a token.
type holder struct {
	*database
	server *httptest.Server
	token  string
}

// socket opens a WebSocket with the token in a header, or in a subprotocol as browsers do.
func (h *holder) socket(ctx context.Context, verb, path string) *websocket.Conn {
	h.T.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.token}}}
	if verb == "WS-TOKEN" {
		o = &websocket.DialOptions{Subprotocols: []string{"cairn.v1",
			"cairn.token." + base64.RawURLEncoding.EncodeToString([]byte(h.token))}}
	}
	ws, _, err := websocket.Dial(ctx, h.server.URL+"/actors/room/a/-/"+path, o)
	must(h.T, err)
	return ws
}

// send sends a request.
func (h *holder) send(ctx context.Context, verb, path, body string) *http.Response {
	h.T.Helper()
	r, err := http.NewRequestWithContext(ctx, verb, h.server.URL+"/actors/room/a/-/"+path, strings.NewReader(body))
	must(h.T, err)
	r.Header = h.header.Clone() // for requests of Deno KV
	r.Header.Set("Authorization", "Bearer "+h.token)
	res, err := http.DefaultClient.Do(r)
	must(h.T, err)
	return res
}

// does makes a request and returns its status. For a WebSocket the first message decides: 200 if it
// is no error.
func (h *holder) does(verb, path, body string) (int, string) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), 2*time.Minute)
	defer cancel()
	if strings.HasPrefix(verb, "WS") {
		ws := h.socket(ctx, verb, path)
		defer ws.CloseNow()
		_, first, err := ws.Read(ctx)
		must(h.T, err)
		switch text := string(first); {
		case strings.Contains(text, "does not allow"):
			return http.StatusForbidden, text
		case strings.Contains(text, "not valid"):
			return http.StatusUnauthorized, text
		}
		return http.StatusOK, string(first)
	}
	res := h.send(ctx, verb, path, body)
	defer res.Body.Close()
	if strings.Contains(res.Header.Get("Content-Type"), "stream") {
		return res.StatusCode, ""
	}
	text, err := io.ReadAll(res.Body)
	must(h.T, err)
	return res.StatusCode, string(text)
}

// Each interface refuses requests beyond the rights and prefix of a token, and an invalid token.
func TestTokensHoldThroughEachInterface(t *testing.T) {
	d := open(t, serve.Options{})
	d.Call(host.KVCommit,
		`{"mutations":[{"op":"put","key":["cb","in"],"value":{"id":"in","name":"in"}},{"op":"put","key":["cb","out"],"value":{"id":"out","name":"out"}}]}`)
	d.Call(host.KVSetScope, `{"prefix":[],"log":true}`)
	for _, id := range []string{"in", "out"} {
		d.Call(host.KVSetScope, `{"prefix":["cb","`+id+`"],"count_groups":true}`)
		d.Call(host.KVSetIndex, `{"prefix":["cb","`+id+`"],"fields":[{"path":"name"}]}`)
		d.Call(host.KVCommit, `{"mutations":[{"op":"put","key":["cb","`+id+`","n","k"],"value":"secret of `+id+`"}]}`)
	}
	const read, write, watch, never = "read", "write", "watch", "never" // tokens with a prefix
	h := &holder{database: d, server: d.listen()}
	// IN stands for the instance in the token's prefix.
	for _, c := range []struct{ rights, verb, path, body string }{
		{read, "POST", "call/kv.get", `{"key":["cb","IN","n","k"]}`}, {read, "GET", "kv-entry?path=cb/IN/n/k", ""},
		{write, "PUT", "kv-entry?path=cb/IN/n/y", "1"}, {write, "DELETE", "kv-entry?path=cb/IN/n/y", ""},
		{read, "POST", "call/kv.list", `{"prefix":["cb","IN"]}`},
		{read, "POST", "call/kv.search", `{"prefix":["cb","IN"],"query":"x"}`},
		{write, "POST", "call/kv.commit", `{"mutations":[{"op":"put","key":["cb","IN","n","x"],"value":1}]}`},
		{read + write, "POST", "call/kv.commit", `{"checks":[{"key":["cb","IN","n","k"],"exists":true}]}`},
		{read + watch, "POST", "call/kv.watch", `{"keys":[{"key":["cb","IN","n","k"]}],"wait_ms":1000}`},
		{read + watch, "POST", "call/kv.feed", `{"prefixes":[["cb","IN"]]}`},
		{read + watch, "GET", "kv-watch?prefix=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "GET", "kv-watch?key=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "POST", "kv-watch", `{"prefixes":[["cb","IN"]]}`},
		{read + watch, "WS", "kv-watch?prefix=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "WS-TOKEN", "kv-watch?key=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "GET", "kv-feed?prefix=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "WS", "kv-feed?prefix=%5B%22cb%22,%22IN%22%5D", ""},
		{read + watch, "WS-TOKEN", "kv-feed?prefix=%5B%22cb%22,%22IN%22%5D", ""},
		{read, "GET", "keyval/api/keys/cb/IN/n/k", ""},
		{read, "POST", "keyval/api/keys/batch", `{"keys":[["cb","IN","n","k"]]}`},
		{read, "GET", "keyval/api/keys?prefix=cb/IN", ""}, {read, "GET", "keyval/api/keys/count?prefix=cb/IN", ""},
		{read, "GET", "keyval/api/keys/paginate?prefix=cb/IN", ""},
		{read, "POST", "keyval/api/keys/list", `{"prefix":["cb","IN"]}`},
		{write, "PUT", "keyval/api/keys/cb/IN/n/y", `1`},
		{read + write, "DELETE", "keyval/api/keys/cb/IN/n/y", ""}, // as all whose answer shows the old state
		{read + write, "POST", "keyval/api/keys/delete-batch", `{"keys":[["cb","IN","n","y"]]}`},
		{read + write, "POST", "keyval/api/atomic", `{"checks":[{"key":["cb","IN","n","no"],"versionstamp":null}],"mutations":[]}`},
		{read + write, "POST", "keyval/api/atomic", `{"mutations":[{"type":"sum","key":["cb","IN","n","n"],"value":1}]}`},
		{read, "GET", "keyval/api/search?prefix=cb/IN&query=x", ""},
		{never, "POST", "keyval/api/indexes", `{"prefix":["cb","IN","z"],"options":{"fields":["a"]}}`},
		{never, "DELETE", "keyval/api/indexes?prefix=cb/IN/z", ""},
		{read + watch, "GET", "keyval/api/watch?keys=cb/IN/n/k", ""},
		{read + watch, "GET", "keyval/api/watch/prefix?prefix=cb/IN", ""},
		{read, "GET", "keyval/api/watch/poll?keys=cb/IN/n/k", ""},
		{read, "GET", "keyval/api/watch/prefix/poll?prefix=cb/IN", ""}, {read, "GET", "kvstore/instances/IN", ""},
		{read, "GET", "kvstore/kv/IN/n/k", ""},
		{read + write, "POST", "kvstore/kv", `{"instanceId":"IN","namespace":"n","key":"z","value":1}`},
		{read + write, "DELETE", "kvstore/kv/IN/n/z", ""}, {read + write, "DELETE", "kvstore/namespace/IN/m", ""},
		{read, "POST", "kvstore/query", `{"instance":"IN","namespace":"n"}`},
		{write, "POST", "kv/atomic_write", "IN set"}, {read + write, "POST", "kv/atomic_write", "IN sum"},
		{read + watch, "POST", "kv/watch", "IN watch"},
		{read, "POST", "strata/execute", `{"command":{"KvGet":{"space":"cb","key":"IN"}}}`},
		{write, "POST", "strata/execute", `{"command":{"KvPut":{"space":"cb","key":"IN","value":1}}}`},
		{read + write, "POST", "strata/execute", `{"command":{"KvDelete":{"space":"cb","key":"IN"}}}`},
		{read + write, "POST", "strata/execute", `{"command":{"KvBatchDelete":{"space":"cb","keys":["IN"]}}}`},
	} {
		for _, rights := range []string{`"read"`, `"write"`, `"read","write"`, `"read","watch"`} {
			h.token, _ = d.newToken(`{"rights":[` + rights + `],"prefix":["cb","in"]}`)
			for _, at := range []string{"in", "out"} {
				body := strings.ReplaceAll(c.body, "IN", at)
				switch c.body {
				case "IN set":
					body = string(mutate(set, key("cb", at, "n", "d"), isV8, v8.FromText("v")))
				case "IN sum":
					body = string(mutate(sum, key("cb", at, "n", "s"), isU64, u64(1)))
				case "IN watch":
					body = string(watched(key("cb", at, "n", "k")))
				}
				want := http.StatusOK
				for _, right := range []string{read, write, watch, never} {
					if strings.Contains(c.rights, right) && !strings.Contains(rights, right) {
						want = http.StatusForbidden
					}
				}
				if at == "out" {
					want = http.StatusForbidden
				}
				status, text := h.does(c.verb, strings.ReplaceAll(c.path, "IN", at), body)
				errorIf(t, status != want || want == http.StatusForbidden && strings.Contains(text, "secret of"),
					"%s with %s: %s %s: %d %s, not %d", at, rights, c.verb, c.path, status, text, want)
			}
		}
		text, id := d.newToken(`{"rights":["read","write","watch"]}`)
		d.Call(host.TokenRevoke, `{"id":"`+id+`"}`)
		h.token = text
		if status, text := h.does(c.verb, strings.ReplaceAll(c.path, "IN", "in"),
			""); status != http.StatusUnauthorized || !strings.Contains(text, "the token is not valid for this actor") {
			t.Errorf("revoked: %s %s: %d %s", c.verb, c.path, status, text)
		}
	}
}

// Tokens open only the key-value store, with any rights.
func TestTokensLeadNowhereElse(t *testing.T) {
	d := open(t, serve.Options{})
	d.Call(host.KVCommit, `{"mutations":[{"op":"put","key":["x"],"value":1}]}`)
	h := &holder{database: d, server: d.listen()}
	h.token, _ = d.newToken(`{"rights":["read","write","watch"]}`)
	for _, c := range [][3]string{
		{"GET", "", ""}, {"PUT", "", ""}, {"DELETE", "", ""}, {"GET", "keys", ""}, {"GET", "events", ""}, {"GET",
			"connect", ""}, {"POST", "connect", ""}, {"WS", "connect", ""}, {"WS-TOKEN", "connect", ""},
		{"GET", "sqlite", ""}, {"GET", "queue/kv", ""}, {"GET", "stream/x", ""}, {"POST", "call/add", "1"}, {"POST",
			"call/queue.send", `{}`}, {"POST", "call/token.create", `{"rights":["read"]}`},
		{"POST", "call/token.list", ""}, {"POST", "call/actor.why", ""}, {"POST", "call/sql.query",
			`{"sql":"SELECT 1"}`}, {"POST", "call/no.such", ""}, {"POST", "keyval/api/queue/enqueue", `{"value":1}`},
		{"GET", "keyval/api/queue/stats", ""}, {"GET", "keyval/api/queue/poll", ""}, {"GET", "keyval/api/queue/dlq",
			""}, {"GET", "keyval/api/metrics", ""},
		{"POST", "call/kv.commit", `{"sends":[{"queue":"kv","messages":[{"body":1}]}]}`},
	} {
		status, text := h.does(c[0], c[1], c[2])
		errorIf(t, status != http.StatusForbidden, "%s %s: %d %s", c[0], c[1], status, text)
	}
	for _, path := range []string{"/actors?type=room", "/metrics", "/openapi.json", "/workflows", "/nowhere",
		"/actors/room/b/-/call/kv.get", "/actors/no/a/-/call/kv.get", "/actors/room", "/kv/a"} {
		w := d.ask(path, "", "Authorization: Bearer "+h.token)
		errorIf(t, w.Code != http.StatusUnauthorized ||
			!strings.Contains(w.Body.String(), "the token is not valid for this actor") || w.Header().Get("WWW-Authenticate") == "",
			"%s: %d %s", path, w.Code, w.Body)
	}
}

// A client of Deno KV reads one entry with a range whose end is too far. It gets only the entries
// of the token.
func TestRangesOfATokenEndWithItsPrefix(t *testing.T) {
	d := open(t, serve.Options{Token: "of-the-node"})
	var list []string
	for _, k := range []string{`["a"]`, `["in"]`, `["in","x"]`, `["out"]`} {
		list = append(list, `{"op":"put","key":`+k+`,"value":{"$bytes":""},"encoding":"bytes"}`)
	}
	d.Call(host.KVCommit, `{"mutations":[`+strings.Join(list, ",")+`]}`)
	text, _ := d.newToken(`{"rights":["read"],"prefix":["in"]}`)
	d.open("/actors/room/a/-/kv", "Authorization: Bearer "+text)
	in, x := "02696e00 3 ", "02696e00027800 3 "
	for i, c := range []struct {
		start, end []byte
		limit      int
		reverse    int
		want       []string
	}{
		{nil, []byte{0xFF}, 10, 0, []string{in, x}}, {nil, []byte{0xFF}, 10, 1, []string{x, in}}, {key("in"),
			[]byte{0xFF}, 1, 0, []string{in}},
		{key("in", "y"), []byte{0xFF}, 1, 0, nil}, {key("out"), []byte{0xFF}, 1, 0, nil}, {nil, key("in"), 10, 0,
			nil}, {key("a"), key("in", "x"), 10, 0, []string{in}},
	} {
		var got []string
		for _, e := range d.read(bounds(c.start, c.end, c.limit, c.reverse))[0] {
			got = append(got, strings.Replace(e, " 03 ", " 3 ", 1))
		}
		errorIf(t, !slices.Equal(got, c.want), "%d: %q, not %q", i, got, c.want)
	}
	blind, _ := d.newToken(`{"rights":["write"],"prefix":["in"]}`)
	d.header.Set("Authorization", "Bearer "+blind)
	w := d.send("snapshot_read", bounds(key("out"), []byte{0xFF}, 1, 0))
	errorIf(t, w.Code != http.StatusForbidden, "a token that may not read: %d %s", w.Code, w.Body)
}

// A hook sees the token of a request, and has the last word. Requests with the token of the node,
// or without one, are as before.
func TestAHookHasTheLastWordOnTokens(t *testing.T) {
	var asked []serve.AuthRequest
	d := open(t, serve.Options{Token: "cairn_of-the-node", Authorize: func(_ context.Context, r serve.AuthRequest) error {
		asked = append(asked, r)
		if r.Token != "" && r.Method == host.KVCount {
			return host.Errorf(host.PermissionDenied, "not today")
		}
		return nil
	}})
	d.Call(host.KVCommit, `{"mutations":[{"op":"put","key":["x"],"value":1}]}`)
	text, id := d.newToken(`{"rights":["read"]}`)
	for _, c := range []struct {
		credential, path string
		want             int
		token            string
	}{
		{"Bearer " + text, "call/kv.get", 200, id}, {"Bearer " + text, "call/kv.count", 403,
			id}, {"Bearer cairn_of-the-node", "call/kv.get", 200, ""}, {"Bearer cairn_other", "call/kv.get", 401, "-"},
		{"", "call/kv.get", 401, "-"}, {"Bearer x", "call/kv.get", 401, "-"},
	} {
		asked = nil
		w := d.ask("/actors/room/a/-/"+c.path, `{"key":["x"]}`[:13*(1-strings.Count(c.path, "count"))], "Authorization: "+c.credential)
		errorIf(t, w.Code != c.want || len(asked) == 1 && asked[0].Token != c.token || (len(asked) == 0) != (c.token == "-"),
			"%q %s: %d %s %+v", c.credential, c.path, w.Code, w.Body, asked)
	}
}

// A response that follows changes ends when its token is revoked.
func TestResponsesThatLastEndWithTheirToken(t *testing.T) {
	d := open(t, serve.Options{})
	d.Call(host.KVCommit, `{"mutations":[{"op":"put","key":["x"],"value":1}]}`)
	d.Call(host.KVSetScope, `{"prefix":[],"log":true}`)
	h := &holder{database: d, server: d.listen()}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const x = "?prefix=%5B%22x%22%5D"
	for _, request := range []string{
		"GET kv-watch" + x, "GET kv-feed" + x, "GET keyval/api/watch/prefix?prefix=x", "POST kv/watch", "WS kv-watch" +
			x, "WS kv-feed" + x, "WS kvstore/ws",
	} {
		text, id := d.newToken(`{"rights":["read","watch","write"]}`)
		h.token = text
		verb, path, _ := strings.Cut(request, " ")
		last := ""
		if verb == "WS" {
			ws := h.socket(ctx, verb, path)
			_, b, err := ws.Read(ctx)
			must(t, err)
			for d.Call(host.TokenRevoke, `{"id":"`+id+`"}`); err == nil; _, b, err = ws.Read(ctx) {
				last = string(b)
			}
			ws.CloseNow()
		} else {
			body := ""
			if verb == "POST" {
				body = string(watched(key("x")))
			}
			res := h.send(ctx, verb, path, body)
			d.Call(host.TokenRevoke, `{"id":"`+id+`"}`)
			all, _ := io.ReadAll(res.Body)
			res.Body.Close()
			last = string(all)
		}
		errorIf(t, ctx.Err() != nil || verb != "POST" && !strings.Contains(last, "the token is not valid"),
			"%s has ended with %q, %v", request, last, ctx.Err())
	}
}
