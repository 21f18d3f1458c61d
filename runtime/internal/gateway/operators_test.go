package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// An office is a node that answers operators, and keeps its last request in asked. If asked is nil,
// it panics.
type office struct {
	*hosttest.Recorder
	asked *string
	took  time.Duration // time until there is a record of the audit log
}

func (o office) note(q any) {
	if o.asked == nil {
		panic("the node was asked")
	}
	*o.asked = fmt.Sprintf("%+v", q)
}

var theEnd = host.Errorf(host.Unavailable, "the end")

// Audit implements audit.Log.
func (o office) Audit(_ context.Context, q audit.Query) (audit.Page, error) {
	o.note(q)
	return audit.Page{Records: []audit.Record{{ID: 7, Key: []string{"a"}, Verb: "actor.pause"}}, Cursor: 7}, nil
}

// FollowAudit implements audit.Log.
func (o office) FollowAudit(ctx context.Context, q audit.Query, f func(*audit.Record) error) error {
	o.note(q)
	select {
	case <-time.After(o.took):
	case <-ctx.Done():
		return ctx.Err()
	}
	return errors.Join(f(&audit.Record{ID: 8, Key: []string{}, Verb: "actor.resume"}), theEnd)
}

// BeginChanges implements liveFeed.
func (o office) BeginChanges(q changes.Query) (func(context.Context, func(*changes.Record) error) error, error) {
	o.note(q)
	return func(_ context.Context, f func(*changes.Record) error) error {
		first := changes.Record{Type: "room", Key: []string{"a"}, Version: 7,
			Changes: []changes.Change{{Kind: "event", Name: "said", Data: host.Raw(`{"a":"<b>"}`)}}}
		return errors.Join(f(&first), f(&changes.Record{Gap: true, Missed: 3}), theEnd)
	}, nil
}

// FollowTraces implements trace.Follower.
func (o office) FollowTraces(_ context.Context, a host.Address, in trace.FollowInput) (trace.Tail, error) {
	o.note(in)
	if a.Key[0] != "a" {
		return nil, host.Errorf(host.NotFound, "there is no such actor")
	}
	return &tailEnd{}, nil
}

// A tailEnd returns two spans, a gap and the end of an actor.
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
func (*tailEnd) Life() string { return exampleLife }

// Close implements trace.Tail.
func (*tailEnd) Close() {}

// FindTrace implements trace.Finder. It refuses a trace, with an error about its member trace_id.
func (o office) FindTrace(_ context.Context, q trace.FindQuery) (trace.FindPage, error) {
	o.note(q)
	return trace.FindPage{}, host.Errorf(host.InvalidArgument, "trace_id is wrong").With("field", "trace_id")
}

// TraceDocument implements trace.Documents.
func (o office) TraceDocument(_ context.Context, _ host.Address, in *trace.ReadInput) ([]byte, string, error) {
	o.note(*in)
	return nil, "", theEnd
}

// Sampling implements trace.Sampler.
func (o office) Sampling() trace.Sampling {
	o.note(nil)
	return trace.Sampling{}
}

// SetSampling implements trace.Sampler.
func (o office) SetSampling(_ context.Context, s trace.Sampling) (trace.Sampling, error) {
	o.note(s)
	return s, nil
}

// Usage implements usage.Meter.
func (o office) Usage(_ context.Context, q usage.Query) (usage.Page, error) {
	o.note(q)
	return usage.Page{Day: "2026-11-27", Cursor: "more", Actors: []usage.Actor{
		{Type: "room", Key: []string{"=cmd|' /C calc'!A0", "~", "a,b"},
			Work: usage.Work{Calls: 1, Turns: 2, HandlerUS: 3, BytesWritten: 4, BytesSent: 5, BytesStored: 6}},
	}}, nil
}

// Top implements usage.Meter.
func (o office) Top(q usage.TopQuery) (usage.Top, error) {
	o.note(q)
	return usage.Top{}, nil
}

// The hook and the node receive the same scope as the operator's request. A lasting answer ends
// with an event.
func TestOperatorsReadWithinTheirScope(t *testing.T) {
	asked, allowed := "", ""
	g := newGateway(t, setup{Node: office{Recorder: failing(nil), asked: &asked},
		Authorize: func(_ context.Context, r serve.AuthRequest) error {
			allowed = fmt.Sprintf("%s %s%q %s", r.Operation, r.Type, r.Key, r.Method)
			if len(r.Key) > 0 && r.Key[0] == "secret" {
				return host.Errorf(host.PermissionDenied, "no")
			}
			return nil
		}})
	const sse, never = "Accept: text/event-stream", "0001-01-01 00:00:00 +0000 UTC"
	for _, c := range []struct {
		path    string
		headers []string
		status  int
		scope   string
		asked   string
		answer  []string // contains these, in this order
	}{
		{"/-/audit", nil, 200, `operate [] audit.list`,
			"{Type: Prefix:[] Exact:false Verb: Since:" + never + " Until:" + never +
				" After:0 Before:0 Limit:0}", []string{`"verb":"actor.pause"`, `"cursor":7`}},
		{"/-/audit?type=room&prefix=a&prefix=b&verb=queue.purge&cursor=5&limit=3", nil, 200, `operate room["a" "b"] audit.list`,
			"{Type:room Prefix:[a b] Exact:false Verb:queue.purge Since:" + never + " Until:" + never + " After:0 Before:5 Limit:3}", nil},
		{"/actors/room/a/-/audit?after=4", nil, 200, `operate room["a"] audit.read`,
			"{Type:room Prefix:[a] Exact:true Verb: Since:" + never + " Until:" + never + " After:4 Before:0 Limit:0}", nil},
		// A client that reconnects continues at its position, even if the clock was set back since
		// its first connection.
		{"/-/audit?type=room&since=2027-01-01T00:00:00Z", []string{sse, "Last-Event-ID: 6"}, 200, `operate room[] audit.list`,
			"{Type:room Prefix:[] Exact:false Verb: Since:" + never + " Until:" + never + " After:6 Before:0 Limit:0}",
			[]string{"id: 8\nevent: audit\ndata: {\"id\":8,", "event: cairn.bye"}},
		{"/-/changes?type=room&prefix=a&kinds=event,kv", nil, 200, `operate room["a"] changes.follow`,
			"{Type:room Prefix:[a] Kinds:[event kv]}",
			[]string{"event: changes\ndata: {\"type\":\"room\",\"key\":[\"a\"],\"version\":7,\"changes\":[{\"kind\":\"event\",\"name\":\"said\",\"data\":{\"a\":\"\\u003cb\\u003e\"}}]}\n\n",
				`data: {"gap":true,"missed":3}`, "event: cairn.bye"}},
		{"/actors/room/a/-/traces?name=turn&errors=true&trace_id=7", []string{sse, "Last-Event-ID: " + exampleLife},
			200, `operate room["a"] trace.read`,
			"{TraceID:7 Name:turn Errors:true Life:" + exampleLife + "}",
			[]string{"retry: ", "id: " + exampleLife + "\n\n", "event: span\ndata: {", `"name":"turn\n\u003cb\u003e"`,
				"event: span\ndata: {",
				"event: cairn.gap\ndata: {\"missed\":7}\n", "event: cairn.bye\ndata: {\"code\":\"destroyed\""}},
		{"/actors/room/b/-/traces", []string{sse}, 404, `operate room["b"] trace.read`, "{TraceID: Name: Errors:false Life:}", nil},
		{"/actors/room/secret/-/traces", []string{sse}, 403, `operate room["secret"] trace.read`, "", nil},
		{"/-/usage?day=2026-11-27&type=room&prefix=a&prefix=b&limit=7&cursor=c&format=csv", nil, 200, `operate room["a" "b"] ` + ListUsage,
			"{Day:2026-11-27 Type:room Prefix:[a b] Limit:7 Cursor:c}",
			[]string{"day,actor,calls,turns,handler_us,bytes_written,bytes_sent,bytes_stored\r\n2026-11-27,room/=cmd%7C%27%20%2FC%20calc%27%21A0/~~/a%2Cb,1,2,3,4,5,6\r\n"}},
		{"/-/top?by=calls&limit=2", nil, 200, `list [] `, "{By:calls Limit:2}", nil},
	} {
		asked, allowed = "", ""
		w := ask(g, "GET", c.path, "", append(c.headers, "X: y")...)
		errorIf(t, w.Code != c.status || allowed != c.scope || asked != c.asked,
			"%s: %d, allowed %s, the node is asked for %s: %s", c.path, w.Code, allowed, asked, w.Body)
		kind := w.Header().Get("Content-Type")
		switch rest := w.Body.String(); {
		case strings.Contains(c.path, "csv"):
			errorIf(t, kind != "text/csv; charset=utf-8" || w.Header().Get("Cairn-Cursor") != "more" || rest != c.answer[0],
				"%s: %v %q", c.path, w.Header(), rest)
		default:
			errorIf(t, (kind == "text/event-stream") != strings.Contains(rest, "event: "), "%s is %s", c.path, kind)
			for _, want := range c.answer {
				_, after, found := strings.Cut(rest, want)
				fatalIf(t, !found, "%s: %q is missing or too early in %s", c.path, want, w.Body)
				rest = after
			}
		}
	}
}

func TestFaultyQueriesOfOperatorsNameTheirField(t *testing.T) {
	asked := ""
	g := newGateway(t, setup{Node: office{Recorder: failing(nil), asked: &asked}})
	const follow = "text/event-stream"
	for _, c := range []struct{ path, accept, fields string }{ // a field with a fault, or two that contradict each other
		{"/-/audit", "",
			"since=yesterday until=7 cursor=x after=0 limit=1001 prefix=a nonsense=1 until=2027-01-01T00:00:00Z&since=2027-01-02T00:00:00Z type=a&type=b"},
		{"/actors/room/a/-/audit", "", "type=room"},
		{"/actors/room/a/-/audit", follow, "until=1 cursor=1 limit=1"},
		{"/actors/room/a/-/traces", follow, "limit=1 start=2027-01-01T00:00:00Z cursor=x errors=x"},
		{"/-/traces", "", "trace=x"},
		{"/-/changes", "", "kinds=nonsense prefix=a nonsense=1 type=a&type=b"},
		{"/-/usage", "", "format=xml limit=0 limit=1001 by=x day=1&day=2"},
		{"/-/top", "", "limit=x"},
	} {
		for query := range strings.FieldsSeq(c.fields) {
			w := ask(g, "GET", c.path+"?"+query, "", "X: y", "Accept: "+c.accept)
			field, _, _ := strings.Cut(query, "=")
			if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
				t.Errorf("%s?%s: %d %s", c.path, query, w.Code, w.Body)
			}
		}
	}
	w := ask(g, "GET", "/actors/room/a/-/traces", "", "Accept: "+follow, "Last-Event-ID: 7") // not a life
	if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != "Last-Event-ID" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// hasty is a node that fails to follow changes after the response has begun.
type hasty struct {
	office
	w *httptest.ResponseRecorder
}

// BeginChanges implements liveFeed.
func (h hasty) BeginChanges(q changes.Query) (func(context.Context, func(*changes.Record) error) error, error) {
	if h.w.Flushed {
		return nil, host.Errorf(host.Internal, "the client was told before")
	}
	return h.office.BeginChanges(q)
}

func TestChangesAreFollowedBeforeTheClientIsTold(t *testing.T) {
	asked, w := "", httptest.NewRecorder()
	newGateway(t, setup{Node: hasty{office{Recorder: failing(nil), asked: &asked}, w}}).
		ServeHTTP(w, httptest.NewRequest("GET", "/-/changes", nil))
	errorIf(t, w.Code != 200 || !strings.Contains(w.Body.String(), `"version":7`), "%d %s", w.Code, w.Body)
}

func TestASearchOfTheAuditLogGoesOnThroughHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		g := newGateway(t, setup{Node: office{failing(nil), &asked, 10 * time.Minute}, Limits: serve.Limits{Heartbeat: time.Minute}})
		w := ask(g, "GET", "/-/audit?verb=actor.resume&after=1", "", "Accept: text/event-stream")
		body := w.Body.String()
		errorIf(t, !strings.Contains(body, "id: 8") || strings.Count(body, comment) < 9, "%d %q", w.Code, body)
	})
}

// A call of an operator reaches the node with its origin, which has the hook's name of the caller.
func TestCallsOfOperatorsHaveAnOrigin(t *testing.T) {
	var seen *audit.Origin
	node := &hosttest.Recorder{Before: func(ctx context.Context, _ string, _ *host.Request) error {
		seen = audit.Of(ctx)
		return theEnd
	}}
	open := hosttest.Room()
	open.Type, open.OpenKV = "open", true
	g := newGateway(t, setup{Node: node, Behaviors: []*host.Behavior{hosttest.Room(), open},
		Authorize: func(_ context.Context, r serve.AuthRequest) error {
			if r.Operation == serve.Operate && r.Header.Get("Guest") != "" {
				return errors.New("guests do not operate")
			}
			r.SetPrincipal("ada")
			return nil
		}})
	for _, c := range []struct {
		method, path string
		headers      []string
		want         string
	}{
		{"POST", "/actors/room/a/-/call/actor.pause", []string{"Cairn-Reason: f%C3%BCr alle"}, "http ada für alle"},
		{"POST", "/actors/room/a/-/call/actor.pause", nil, "http ada "},
		{"DELETE", "/actors/room/a/-/", []string{"Cairn-Reason: old"}, "http ada old"},
		{"POST", "/actors/room/a/-/call/add", []string{"Cairn-Reason: old"}, ""},
		{"POST", "/actors/open/a/-/call/add", []string{"Cairn-Reason: old"}, ""},
		{"POST", "/actors/open/a/-/call/kv.commit", nil, ""},
		{"POST", "/actors/open/a/-/call/kv.commit", []string{"Cairn-Reason: old"}, "http ada old"},
		{"POST", "/actors/open/a/-/call/kv.commit", []string{"Cairn-Reason: old", "Guest: yes"}, ""},
	} {
		seen = nil
		ask(g, c.method, c.path, "", c.headers...)
		got := ""
		if seen != nil {
			got = seen.Channel + " " + seen.Principal + " " + seen.Reason
			errorIf(t, seen.Remote == "", "the address is not known")
		}
		errorIf(t, got != c.want, "%s %s: %q, want %q", c.method, c.path, got, c.want)
	}
	w := ask(g, "POST", "/actors/room/a/-/call/actor.pause", "", "Cairn-Reason: %")
	e := errorOf(t, w)
	errorIf(t, w.Code != 400 || e.Metadata["field"] != audit.Header, "%d %s", w.Code, w.Body)
}

// TestEveryRouteThatWritesHasAnOrigin walks the routes, and the methods of the table. Every
// operator's request by one of them has the origin that the audit log needs.
func TestEveryRouteThatWritesHasAnOrigin(t *testing.T) {
	asked, operated := 0, map[route]bool{}
	var at route
	g := newGateway(t, setup{Node: office{Recorder: failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{},
		Authorize: func(ctx context.Context, r serve.AuthRequest) error {
			asked++
			if r.Operation != serve.Operate && r.Operation != serve.Destroy || at == toWatch || at == toQueryMany { // the last two read
				return host.Errorf(host.PermissionDenied, "no")
			}
			operated[at] = true
			if o := audit.Of(ctx); o == nil || o.Channel != "http" || o.Remote == "" || o.Reason != "why" {
				t.Errorf("%s of %s %q %s has the origin %+v", r.Operation, r.Type, r.Key, r.Method, o)
			}
			return host.Errorf(host.PermissionDenied, "no")
		}})
	walk := func(methods, path string) {
		for m := range strings.FieldsSeq(methods) {
			if m == "GET" || m == "HEAD" {
				continue
			}
			before := asked
			w := ask(g, m, path, "", "Cairn-Reason: why", "Content-Type: application/json")
			errorIf(t, w.Code != 403 || asked == before, "%s %s: %d %s", m, path, w.Code, w.Body)
		}
	}
	for at = toCall; at <= toOpenAPI; at++ {
		walk(everyRoute[at].methods, everyRoute[at].path)
	}
	at = toCall
	for _, row := range method.All() {
		if row.Kind == host.Action {
			walk("POST", "/actors/room/a/-/call/"+row.Name)
		}
	}
	for _, want := range []route{toCall, toActor, toSQLite, toSampling, toKV, toCodebolt, toKeyVal, toStrata} {
		errorIf(t, !operated[want], "an operator does nothing at %s", everyRoute[want].path)
	}
}

// TestEveryAnswerNamesItsTrace sends requests that the node answers without an actor, or refuses
// before it uses one.
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
		{open, "GET", "/actors/room/a/-/", "", 503}, // after the node has ended
	} {
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		for parent, want := range map[string]string{
			"": "", "00-" + trace + "-00f067aa0ba902b7-01": trace, "00-" + trace +
				"-00f067aa0ba902b7-00": trace, "00-" + trace + "-0-01": "",
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
			if at := fmt.Sprintf("%x", s.Trace); s.IsZero() || s.Flags != 0 || want != "" && at != want ||
				want == "" && at == trace || strings.Contains(parent, fmt.Sprintf("%x", s.ID)) {
				t.Errorf("%s %s as a part of %q: it is told %q", c.method, c.path, parent, told)
			}
		}
	}
}

// TestTheHTTPServerItselfNamesNoTrace checks the list in docs/http.md of answers that come from no
// handler. All others have a Traceresponse.
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
