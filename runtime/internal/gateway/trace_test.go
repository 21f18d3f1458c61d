package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// TestEveryAnswerNamesItsTrace asks for what the node answers without an actor, or refuses before it looks at one.
func TestEveryAnswerNamesItsTrace(t *testing.T) {
	open, closed := setup{LoopbackOnly: true}, setup{Token: "secret"}
	for _, c := range []struct {
		setup
		method, path, header string
		status               int
	}{
		{closed, "GET", "/actors/room/a/-/", "", 401}, {closed, "GET", "/nowhere", "", 401},
		{closed, "POST", "/actors/room/a/-/call/enter", "Authorization: Bearer other", 401},
		{open, "POST", "/actors/room/a/-/call/enter", "Origin: https://elsewhere.example", 403},
		{open, "GET", "/actors", "Host: elsewhere.example", 403}, {open, "GET", "/nowhere", "", 404},
		{open, "GET", "/actors/room/%FF/-/", "", 400}, {open, "GET", "/actors?limit=x", "", 400},
		{open, "GET", "/actors", "", 500}, // the node panics
		{open, "GET", "/-/traces", "", 404}, {open, "PUT", "/actors", "", 405}, {open, "OPTIONS", "/actors", "", 204},
		{open, "GET", "/healthz", "", 200}, {open, "GET", "/metrics", "", 200}, {open, "GET", "/openapi.json", "", 200},
		{open, "GET", "/actors/room/a/-/connect", "Upgrade: websocket", 400},
		{open, "GET", "/actors/room/a/-/", "", 503}, // at the end of the node
	} {
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		for parent, want := range map[string]string{
			"": "", "00-" + trace + "-00f067aa0ba902b7-01": trace, "00-" + trace + "-00f067aa0ba902b7-00": trace, "00-" + trace + "-0-01": "",
		} {
			g := newGateway(t, c.setup)
			if c.status == 503 {
				g.front.Drain()
			}
			headers := []string{"Host: localhost", "Connection: Upgrade"}
			for _, h := range []string{c.header, "Traceparent: " + parent} {
				if name, value, _ := strings.Cut(h, ": "); value != "" {
					headers = append(headers, name+": "+value)
				}
			}
			w := ask(g, c.method, c.path, "", headers...)
			told := w.Header()["Traceresponse"]
			if w.Code != c.status || len(told) != 1 {
				t.Errorf("%s %s %s: %d, trace %q: %s", c.method, c.path, c.header, w.Code, told, w.Body)
				continue
			}
			s := host.ParseSpan(told[0])
			if at := fmt.Sprintf("%x", s.Trace); s.IsZero() || s.Flags != 0 || want != "" && at != want || want == "" && at == trace || strings.Contains(parent, fmt.Sprintf("%x", s.ID)) {
				t.Errorf("%s %s as a part of %q: it is told %q", c.method, c.path, parent, told)
			}
		}
	}
}

// TestTheHTTPServerItselfNamesNoTrace holds docs/http.md to the list of answers that no handler is asked for. All else has a Traceresponse.
func TestTheHTTPServerItselfNamesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := launch(t, newGateway(t, setup{Node: failing(nil)}))
		docs, err := os.ReadFile("../../../docs/http.md")
		_, list, found := strings.Cut(string(docs), "These come from the HTTP server")
		fatalIf(t, err != nil || !found, "%v %v", err, found)
		list, _, _ = strings.Cut(list, "\n\n")
		for _, c := range []struct {
			request string
			status  int
		}{
			{"GET\r\n\r\n", 400},
			{"GET / HTTP/1.1\r\n\r\n", 400},
			{"GET / HTTP/1.1\r\nHost: localhost\r\nX y: 1\r\n\r\n", 400},
			{"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: 200-ok\r\n\r\n", 417},
			{"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", serve.MaxHeaderBytes+5000) + "\r\n\r\n", 431},
			{"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
			{"GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 505},
			{"GET / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\r\n", 404},
			{"GET / HTTP/1.0\r\n\r\n", 404},
			{"GET //%2F/../ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404},
			{"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 204},
			{"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n", 404},
		} {
			client := l.dial()
			go io.WriteString(client, c.request)
			res, err := http.ReadResponse(bufio.NewReader(client), nil)
			fatalIf(t, err != nil, "%.60q: %v", c.request, err)
			told, listed := res.Header["Traceresponse"] != nil, strings.Contains(list, fmt.Sprintf("%d for ", c.status))
			errorIf(t, res.StatusCode != c.status || told == listed || listed && res.Header.Get("Content-Type") == "application/json",
				"%.60q: %s with %v; it is in the list: %t", c.request, res.Status, res.Header, listed)
			client.Close()
		}
		time.Sleep(time.Second) // the server waits before it closes some
	})
}
