package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

func TestWithoutATokenOnLoopbackOnlyLoopbackNamesAreServed(t *testing.T) {
	var last *host.Request
	open := newGateway(t, setup{Node: echo(&last), LoopbackOnly: true})
	hooked := newGateway(t, setup{Node: echo(&last), LoopbackOnly: true, Authorize: func(context.Context, serve.AuthRequest) error { return nil }})
	guarded := newGateway(t, setup{Node: echo(&last), LoopbackOnly: true, Token: "secret"})
	for name, ok := range map[string]bool{
		"localhost": true, "localhost:6420": true, "LOCALHOST": true, "localhost.:1": true, "app.localhost:1": true,
		"127.0.0.1": true, "127.0.0.1:6420": true, "127.1.2.3": true, "[::1]:6420": true, "[::1]": true, "[::ffff:127.0.0.1]:1": true,
		"evil.example:6420": false, "localhost.evil.example": false, "10.0.0.1:6420": false, "127.0.0.1.evil.example": false,
		"0.0.0.0:6420": false, "[::]:1": false, "": false, "notlocalhost": false,
	} {
		w := ask(open, "GET", "/actors", "", "Host: "+name)
		if (w.Code == 200) != ok {
			t.Errorf("host %q: %d %q", name, w.Code, w.Body)
		}
		// A page that reaches the node by a name of its own sends no token, but a hook may go by the peer's address.
		if w := ask(hooked, "GET", "/actors", "", "Host: "+name); (w.Code == 200) != ok {
			t.Errorf("with a hook, host %q: %d", name, w.Code)
		}
		if w := ask(guarded, "GET", "/actors", "", "Host: "+name, "Authorization: Bearer secret"); w.Code != 200 {
			t.Errorf("with a token, host %q: %d", name, w.Code)
		}
	}
}

func TestPagesOfOtherOriginsAreRefusedUnlessAllowed(t *testing.T) {
	var last *host.Request
	g := newGateway(t, setup{Node: echo(&last), AllowedOrigins: []string{"https://app.example"}})
	for _, c := range []struct {
		name, method string
		headers      []string
		ok           bool
		allow        string
	}{
		{"no browser", "POST", nil, true, ""},
		{"same origin, modern", "POST", []string{"Origin: http://example.com", "Sec-Fetch-Site: same-origin"}, true, ""},
		{"same origin, old", "POST", []string{"Origin: http://example.com"}, true, ""},
		{"other port, old", "POST", []string{"Origin: http://example.com:3000"}, false, ""},
		{"allowed", "POST", []string{"Origin: https://app.example", "Sec-Fetch-Site: cross-site"}, true, "https://app.example"},
		{"allowed only with its scheme", "POST", []string{"Origin: http://app.example"}, false, ""},
		{"cross-site", "POST", []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, false, ""},
		{"cross-site that claims the host", "POST", []string{"Origin: http://example.com", "Sec-Fetch-Site: cross-site"}, false, ""},
		{"same-site", "POST", []string{"Origin: http://a.example.com", "Sec-Fetch-Site: same-site"}, false, ""},
		{"opaque", "POST", []string{"Origin: null"}, false, ""},
		{"reading from a script", "GET", []string{"Origin: https://evil.example"}, false, ""},
		{"following a link", "GET", []string{"Sec-Fetch-Site: cross-site"}, true, ""},
		{"form without an origin", "POST", []string{"Sec-Fetch-Site: cross-site"}, false, ""},
		{"typed address", "POST", []string{"Sec-Fetch-Site: none"}, true, ""},
	} {
		path := "/actors/counter/-/call/add"
		if c.method == "GET" {
			path = "/actors"
		}
		w := ask(g, c.method, path, "", c.headers...)
		if (w.Code < 300) != c.ok || !c.ok && (w.Code != 403 || errorOf(t, w).Code != host.PermissionDenied) {
			t.Errorf("%s: %d %q", c.name, w.Code, w.Body)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != c.allow {
			t.Errorf("%s: Access-Control-Allow-Origin is %q", c.name, got)
		}
	}
}

func TestPreflights(t *testing.T) {
	var last *host.Request
	g := newGateway(t, setup{Node: echo(&last), AllowedOrigins: []string{"https://app.example"}, Token: "secret"})
	preflight := []string{"Origin: https://app.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true"}
	w := ask(g, "OPTIONS", "/actors/counter/-/call/add", "", preflight...)
	h := w.Header()
	if w.Code != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || h.Get("Vary") != "Origin" ||
		!strings.Contains(h.Get("Access-Control-Allow-Methods"), "POST") || h.Get("Access-Control-Allow-Private-Network") != "true" ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") || h.Get("Access-Control-Allow-Credentials") != "" {
		t.Error(w.Code, h)
	}
	preflight[0] = "Origin: https://evil.example"
	if w := ask(g, "OPTIONS", "/actors/counter/-/call/add", "", preflight...); w.Code != 403 || w.Header().Get("Access-Control-Allow-Methods") != "" {
		t.Error(w.Code, w.Header())
	}
	any := newGateway(t, setup{Node: echo(&last), AllowedOrigins: []string{"*"}, Token: "secret"})
	w = ask(any, "POST", "/actors/counter/-/call/add", "", "Origin: https://evil.example", "Authorization: Bearer secret")
	if w.Code != 204 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Error(w.Code, w.Header())
	}
	// An error must be readable by the page, too.
	w = ask(any, "POST", "/actors/counter/-/call/add", "", "Origin: https://evil.example")
	if w.Code != 401 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
		t.Error(w.Code, w.Header())
	}
}

func TestTheTokenGuardsAllButHealth(t *testing.T) {
	var last *host.Request
	g := newGateway(t, setup{Node: echo(&last), Token: "secret"})
	for _, c := range []struct {
		path, header string
		status       int
	}{
		{"/actors", "X: y", 401},
		{"/actors", "Authorization: Basic secret", 401},
		{"/actors", "Authorization: Bearer", 401},
		{"/actors", "Authorization: Bearer Secret", 401},
		{"/actors", "Authorization: Bearer secretx", 401},
		{"/actors", "Authorization: Bearer secret", 200},
		{"/actors", "Authorization: bearer  secret ", 200},
		{"/metrics", "X: y", 401},
		{"/healthz", "X: y", 200},
	} {
		if w := ask(g, "GET", c.path, "", c.header); w.Code != c.status {
			t.Errorf("%s with %q: %d", c.path, c.header, w.Code)
		}
	}
}

func TestAuthorizeSeesEveryRequestBeforeItsBody(t *testing.T) {
	var seen serve.AuthRequest
	var answer error
	g := newGateway(t, setup{Node: &fakeNode{}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		seen = r
		return answer
	}})
	answer = host.Errorf(host.NotFound, "hidden")
	for _, c := range []struct {
		method, url string
		op          serve.Operation
		typ         string
		key, name   string
		header      string
	}{
		{"POST", "/actors/counter/a/b/-/call/add", serve.Call, "counter", "a b", "add", "X: y"},
		{"POST", "/actors/counter/-/call/create", serve.Create, "counter", "", "create", "If-None-Match: *"},
		{"POST", "/actors/counter/-/call/create", serve.Create, "counter", "", "create", "X: y"},
		{"PUT", "/actors/counter/a/-/", serve.Create, "counter", "a", "", "X: y"},
		{"GET", "/actors/counter/a/-/", serve.Read, "counter", "a", "", "X: y"},
		{"DELETE", "/actors/counter/a/-/", serve.Destroy, "counter", "a", "", "X: y"},
		{"GET", "/actors/counter/a/-/events", serve.Events, "counter", "a", "", "X: y"},
		{"POST", "/actors/counter/a/-/call/queue.ack", serve.Work, "counter", "a", "queue.ack", "X: y"},
		{"POST", "/actors/counter/a/-/call/stream.read", serve.Follow, "counter", "a", "stream.read", "X: y"},
		{"POST", "/actors/counter/a/-/call/actor.pause", serve.Operate, "counter", "a", "actor.pause", "X: y"},
		{"POST", "/actors/counter/a/-/call/actor.pause", serve.Operate, "counter", "a", "actor.pause", "If-None-Match: *"},
		{"POST", "/actors/counter/a/-/call/queue.send", serve.Call, "counter", "a", "queue.send", "X: y"},
		{"GET", "/actors/counter/a/-/connect", serve.Connect, "counter", "a", "", "X: y"},
		{"POST", "/actors/counter/a/-/connect", serve.Connect, "counter", "a", "", "X: y"},
		{"DELETE", "/actors/counter/a/-/connect", serve.Connect, "counter", "a", "", "Cairn-Connection: t"},
		{"GET", "/actors/counter/a/-/queues/mail", serve.Work, "counter", "a", "queue.receive", "X: y"},
		{"GET", "/actors/counter/a/-/streams/tokens", serve.Follow, "counter", "a", "stream.read", "X: y"},
		{"GET", "/openapi.json", serve.OpenAPI, "", "", "", "X: y"},
		{"GET", "/actors/counter/a/-/keys", serve.Inspect, "counter", "a", "", "X: y"},
		{"GET", "/actors?type=counter&prefix=a", serve.List, "counter", "a", "", "X: y"},
		{"GET", "/healthz", serve.Health, "", "", "", "X: y"},
		{"GET", "/metrics", serve.Metrics, "", "", "", "X: y"},
	} {
		w := ask(g, c.method, c.url, "", c.header, "From: me")
		if w.Code != 404 || errorOf(t, w).Message != "hidden" {
			t.Errorf("%s %s: %d %q", c.method, c.url, w.Code, w.Body)
		}
		if seen.Operation != c.op || seen.Type != c.typ || strings.Join(seen.Key, " ") != c.key || seen.Method != c.name ||
			seen.Header.Get("From") != "me" || seen.RemoteAddr == "" {
			t.Errorf("%s %s: the hook saw %+v", c.method, c.url, seen)
		}
	}
	answer = errors.New("secret")
	w := ask(g, "POST", "/actors/counter/-/call/add", "not read", "Content-Type: text/plain")
	if w.Code != 403 || strings.Contains(w.Body.String(), "secret") {
		t.Error(w.Code, w.Body)
	}
}
