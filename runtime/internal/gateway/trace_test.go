package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// tailed is a node whose actor has a span, a gap and an end for each follower.
type tailed struct {
	documented
	asked *trace.FollowInput
}

// FollowTraces implements trace.Follower.
func (d tailed) FollowTraces(_ context.Context, a host.Address, in trace.FollowInput) (trace.Tail, error) {
	*d.asked = in
	if a.Key[0] != "a" {
		return nil, host.Errorf(host.NotFound, "there is no such actor")
	}
	return &tailEnd{}, nil
}

type tailEnd struct{ ended bool }

// Next implements trace.Tail.
func (e *tailEnd) Next(context.Context) (trace.News, error) {
	if e.ended {
		return trace.News{}, host.Errorf(host.Destroyed, "it is gone")
	}
	e.ended = true
	return trace.News{Spans: []trace.Span{{Name: "turn\n<b>"}, {Name: "commit"}}, Missed: 7}, nil
}

// Life implements trace.Tail.
func (*tailEnd) Life() string { return life }

// Close implements trace.Tail.
func (*tailEnd) Close() {}

const life = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"

func TestTracesAreFollowedAsServerSentEvents(t *testing.T) {
	var asked trace.FollowInput
	allowed := ""
	g := newGateway(t, setup{Node: tailed{documented{failing(nil)}, &asked}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		allowed = fmt.Sprintf("%s %s%q %s", r.Operation, r.Type, r.Key, r.Method)
		if r.Key[0] == "secret" {
			return host.Errorf(host.PermissionDenied, "no")
		}
		return nil
	}})
	const sse = "Accept: text/event-stream"
	w := ask(g, "GET", "/actors/room/a/-/traces?name=turn&errors=true&trace_id=7", "", sse, "Last-Event-ID: "+life)
	body := w.Body.String()
	at := 0
	for _, want := range []string{"retry: ", "id: " + life + "\n\n", "event: span\ndata: {", `"name":"turn\n\u003cb\u003e"`, "event: span\ndata: {", "event: cairn.gap\ndata: {\"missed\":7}\n", "event: cairn.bye\ndata: {\"code\":\"destroyed\""} {
		i := strings.Index(body[at:], want)
		if i < 0 {
			t.Fatalf("%d: %q is missing or too early in %s", w.Code, want, body)
		}
		at += i
	}
	if w.Header().Get("Content-Type") != "text/event-stream" || allowed != `operate room["a"] trace.read` || asked != (trace.FollowInput{TraceID: "7", Name: "turn", Errors: true, Life: life}) {
		t.Errorf("%v; allowed %s, asked %+v", w.Header(), allowed, asked)
	}
	if w := ask(g, "GET", "/actors/room/b/-/traces", "", sse); w.Code != 404 {
		t.Errorf("an actor that is not there: %d %s", w.Code, w.Body)
	}
	if w := ask(g, "GET", "/actors/room/secret/-/traces", "", sse); w.Code != 403 {
		t.Errorf("without a right: %d %s", w.Code, w.Body)
	}
	if e := errorOf(t, ask(g, "GET", "/actors/room/a/-/traces", "", sse, "Last-Event-ID: 7")); e.Code != host.InvalidArgument || e.Metadata["field"] != "Last-Event-ID" {
		t.Errorf("an id that is no life: %v", e)
	}
	for query, field := range map[string]string{"limit=1": "limit", "start=2027-01-01T00:00:00Z": "start", "cursor=x": "cursor", "errors=x": "errors"} {
		w := ask(g, "GET", "/actors/room/a/-/traces?"+query, "", sse)
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestEveryAnswerNamesItsTrace asks for what the node answers without an actor, or refuses before it looks at one.
func TestEveryAnswerNamesItsTrace(t *testing.T) {
	open, closed := setup{LoopbackOnly: true}, setup{Token: "secret"}
	for _, c := range []struct {
		setup
		method, path, header string
		status               int
	}{
		{closed, "GET", "/actors/room/a/-/", "", 401},
		{closed, "GET", "/nowhere", "", 401},
		{closed, "POST", "/actors/room/a/-/call/enter", "Authorization: Bearer other", 401},
		{open, "POST", "/actors/room/a/-/call/enter", "Origin: https://elsewhere.example", 403},
		{open, "GET", "/actors", "Host: elsewhere.example", 403},
		{open, "GET", "/nowhere", "", 404},
		{open, "GET", "/actors/room/%FF/-/", "", 400},
		{open, "GET", "/actors?limit=x", "", 400},
		{open, "GET", "/actors", "", 500}, // the node panics
		{open, "GET", "/-/traces", "", 404},
		{open, "PUT", "/actors", "", 405},
		{open, "OPTIONS", "/actors", "", 204},
		{open, "GET", "/healthz", "", 200},
		{open, "GET", "/metrics", "", 200},
		{open, "GET", "/openapi.json", "", 200},
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

// strict is a node that knows no trace, as it says of a member of its own.
type strict struct{ documented }

// FindTrace implements trace.Finder.
func (strict) FindTrace(context.Context, trace.FindQuery) (trace.FindPage, error) {
	return trace.FindPage{}, host.Errorf(host.InvalidArgument, "trace_id is wrong").With("field", "trace_id")
}

func TestAWrongTraceNamesTheParameter(t *testing.T) {
	w := ask(newGateway(t, setup{Node: strict{}}), "GET", "/-/traces?trace=x", "")
	if w.Code != 400 || !strings.Contains(w.Body.String(), `"field":"trace"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestTheHTTPServerItselfNamesNoTrace holds docs/http.md to the list of answers that no handler is asked for. All else has a Traceresponse.
func TestTheHTTPServerItselfNamesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := launch(t, newGateway(t, setup{Node: failing(nil)}))
		docs, err := os.ReadFile("../../../docs/http.md")
		_, list, found := strings.Cut(string(docs), "These come from the HTTP server")
		if err != nil || !found {
			t.Fatal(err, found)
		}
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
			if err != nil {
				t.Fatalf("%.60q: %v", c.request, err)
			}
			told, listed := res.Header["Traceresponse"] != nil, strings.Contains(list, fmt.Sprintf("%d for ", c.status))
			if res.StatusCode != c.status || told == listed || listed && res.Header.Get("Content-Type") == "application/json" {
				t.Errorf("%.60q: %s with %v; it is in the list: %t", c.request, res.Status, res.Header, listed)
			}
			client.Close()
		}
		time.Sleep(time.Second) // the server waits before it closes some
	})
}
