package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

func TestAPanicIsLoggedUnderItsID(t *testing.T) {
	var log bytes.Buffer
	g := newGateway(t, setup{Node: failing(nil), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	id := errorOf(t, ask(g, "POST", "/actors/room/-/call/add", "")).Metadata["error_id"]
	errorIf(t, id == "" || !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "the node was asked"),
		"log: %q", &log)
}

func TestARegistryIsSharedByNoTwoFronts(t *testing.T) {
	r := prometheus.NewRegistry()
	g := newGateway(t, setup{Registerer: r})
	if _, err := serve.New(serve.Options{Registerer: r}); err == nil {
		t.Error("two fronts share one registry")
	}
	g.front.Close()
	check(t, errOf(serve.New(serve.Options{Registerer: r})), "Close did not unregister")
}

// Bodies without a length are limited too, and long replies arrive whole.
func TestBodiesAndRepliesOfAnyLength(t *testing.T) {
	s := httptest.NewServer(newGateway(t, setup{Node: nodetest.Open(t, hosttest.Room()), Limits: serve.Limits{BodyBytes: 900_000}}))
	defer s.Close()
	for _, n := range []int{0, 1, 1000, autoLength - 1, autoLength, 100_000, 900_000, 900_001} {
		for _, told := range []bool{false, true} {
			body := io.Reader(strings.NewReader(strings.Repeat("1", n)))
			if !told {
				body = struct{ io.Reader }{body}
			}
			res, err := s.Client().Post(s.URL+"/actors/room/-/call/echo", "application/json", body)
			must(t, err)
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			switch want := map[int]int{0: 204, 900_001: 413}[n]; {
			case err != nil || want != 0 && res.StatusCode != want:
				t.Errorf("%d bytes: %d, %v", n, res.StatusCode, err)
			case want == 0 && (res.StatusCode != 200 || len(got) != n+1 || got[n] != '\n' || res.ContentLength != int64(n+1)): // plus a newline
				t.Errorf("%d bytes: %d, got %d of %d", n, res.StatusCode, len(got), res.ContentLength)
			}
		}
	}
}

// Entries of a key-value store may be longer than other bodies, and so may inputs of a type with
// OpenKV.
func TestBodiesWithEntriesMayBeLong(t *testing.T) {
	open := hosttest.Room()
	open.Type, open.OpenKV = "open", true
	behaviors := []*host.Behavior{hosttest.Room(), open}
	g := newGateway(t, setup{Node: nodetest.Open(t, behaviors...), Behaviors: behaviors, Limits: serve.Limits{BodyBytes: 1000}})
	long := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	put := func(n int) string { return `{"mutations":[{"op":"put","key":["a"],"value":` + long(n) + `}]}` }
	for _, tc := range []struct {
		path, body string
		status     int
	}{
		{"room/a/-/call/echo", long(1001), 413}, {"open/a/-/call/echo", long(1 << 20), 200}, {"open/a/-/call/echo", long(16<<20 + 1), 413},
		{"room/a/-/call/kv.commit", put(1 << 20), 404}, {"open/a/-/call/kv.commit", put(1 << 20),
			200}, {"open/a/-/call/kv.commit", put(1<<20 + 1), 413},
	} {
		w := ask(g, "POST", "/actors/"+tc.path, tc.body, "Content-Type: application/json")
		errorIf(t, w.Code != tc.status, "%s with %d bytes: %d %.200s", tc.path, len(tc.body), w.Code, w.Body)
	}
}

// speaking is a client of a version of HTTP.
func speaking(version int, l *pipeListener) *http.Client {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(version == 2)
	protocols.SetHTTP1(version == 1)
	dial := func(context.Context, string, string) (net.Conn, error) { return l.dial(), nil }
	return &http.Client{Transport: &http.Transport{Protocols: &protocols, DialContext: dial}}
}

// The deadline of a write must not end a stream that is quiet afterwards. The shutdown of the
// server ends streams.
func TestQuietStreamsLiveOnUntilTheServerShutsDown(t *testing.T) {
	for _, version := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			node := nodetest.Open(t, hosttest.Room())
			g := newGateway(t, setup{Node: node, Limits: serve.Limits{Heartbeat: time.Minute, StreamWriteTimeout: time.Second}})
			l, s := newPipe(), g.front.Server(g)
			served := make(chan error, 1)
			go func() { served <- s.Serve(l) }()
			client := speaking(version, l)
			defer client.CloseIdleConnections()
			res, err := client.Get("http://localhost/actors/room/a/-/events")
			fatalIf(t, err != nil || res.ProtoMajor != version, "%v %v", res, err)
			got := make(chan string, 1)
			go func() {
				text, err := io.ReadAll(res.Body)
				got <- fmt.Sprint(string(text), err)
			}()
			time.Sleep(3 * time.Minute)
			must(t, errOf(node.Call(t.Context(), &host.Request{Address: roomA, Method: "say", Codec: host.JSON, Input: []byte("1")})))
			synctest.Wait()
			must(t, s.Shutdown(t.Context()))
			<-served
			text := <-got
			if strings.Count(text, comment) < 2 || !strings.Contains(text, "event: said") || !strings.HasSuffix(text, "\n\n<nil>") ||
				!strings.Contains(text, EventBye) {
				t.Errorf("HTTP/%d: %q", version, text)
			}
		})
	}
}

// Clients of Deno KV begin with HTTP/2; others use HTTP/1.1 and open WebSockets.
func TestOnePortServesBothVersionsOfHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := launch(t, newGateway(t, setup{Node: nodetest.Open(t, hosttest.Room())}))
		for _, version := range []int{1, 2} {
			client := speaking(version, l)
			defer client.CloseIdleConnections()
			res, err := client.Post("http://localhost/actors/room/a/-/call/echo", "application/json", strings.NewReader("7"))
			must(t, err)
			body, err := io.ReadAll(res.Body)
			errorIf(t, err != nil || res.ProtoMajor != version || string(body) != "7\n",
				"HTTP/%d: %s %q %v", version, res.Proto, body, err)
			conn, _, err := websocket.Dial(t.Context(), "ws://localhost/actors/room/a/-/connect",
				&websocket.DialOptions{HTTPClient: client})
			errorIf(t, (err == nil) != (version == 1), "HTTP/%d: a WebSocket: %v", version, err)
			if err == nil {
				conn.CloseNow()
			}
		}
	})
}

func TestAnEventIsEncodedOnceForAllItsReceivers(t *testing.T) {
	e := host.EmittedEvent{Sequence: 18, Name: "said", Data: []byte("1"), Shared: new(host.SharedFrames)}
	first := eventMessage(&e)
	again := eventMessage(&e)
	errorIf(t, &first[0] != &again[0], "the second receiver's message is another one")
	e.Shared.Get(host.FrameSSE, func() []byte { return []byte("shared\n\n") })
	out := appendEmitted(nil, &e)
	errorIf(t, string(out) != "shared\n\n", "%q", out)
}

func TestEventTextCannotForgeFields(t *testing.T) {
	got := string(serve.AppendField(nil, "\ndata: ", "a\nid: 9\r\r\nevent: x\r"))
	want := "\ndata: a\ndata: id: 9\ndata: \ndata: event: x\ndata: "
	errorIf(t, got != want, "%q", got)
}

func TestTheDocumentHasEveryMemberOfConnect(t *testing.T) {
	post := paths(t, setup{})["/actors/tenant/{key}/-/connect"]["post"]
	body := post["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
	got := slices.Sorted(maps.Keys(body["properties"].(map[string]any)))
	var want []string
	for f := range reflect.TypeFor[connectInput]().Fields() {
		want = append(want, f.Tag.Get("json"))
	}
	slices.Sort(want)
	errorIf(t, !slices.Equal(got, want), "the body of connect has %v, want %v", got, want)
	text := fmt.Sprint(post["parameters"])
	errorIf(t, !strings.Contains(text, "/After]") || !strings.Contains(text, "/LastEventID]"),
		"the position of connect is not among %v", text)
}

// TestTheDashboard checks which requests reach the pages below /dashboard/, which contain no data:
// all requests to a host that the node serves, with or without a token.
func TestTheDashboard(t *testing.T) {
	const reached = http.StatusTeapot
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(reached) })
	guarded, local, off := newGateway(t, setup{Token: "secret"}), newGateway(t, setup{LoopbackOnly: true}),
		newGateway(t, setup{Token: "secret"})
	guarded.opts.Dashboard, local.opts.Dashboard = pages, pages
	for _, test := range []struct {
		name         string
		g            *Gateway
		method, path string
		header       string
		want         int
	}{
		{"no token", guarded, "GET", "/dashboard/", "X: y", reached},
		{"HEAD", guarded, "HEAD", "/dashboard/main.js", "X: y", reached},
		{"without the slash", guarded, "GET", "/dashboard", "X: y", reached},
		{"a link of another site", guarded, "GET", "/dashboard/", "Sec-Fetch-Site: cross-site", reached},
		{"fetch of another site", guarded, "GET", "/dashboard/", "Origin: https://evil.example", 403},
		{"another method", guarded, "POST", "/dashboard/", "X: y", 401},
		{"another method, with the token", guarded, "POST", "/dashboard/", "Authorization: Bearer secret", 405},
		{"a path beside it", guarded, "GET", "/dashboards", "X: y", 401},
		{"the data", guarded, "GET", "/actors", "X: y", 401},
		{"loopback", local, "GET", "/dashboard/", "Host: localhost:6420", reached},
		{"a rebound name", local, "GET", "/dashboard/", "Host: evil.example:6420", 403},
		{"a rebound name, a file", local, "GET", "/dashboard/main.js", "Host: evil.example", 403},
		{"switched off", off, "GET", "/dashboard/", "X: y", 401},
		{"switched off, with the token", off, "GET", "/dashboard/", "Authorization: Bearer secret", 404},
	} {
		w := ask(test.g, test.method, test.path, "", test.header)
		errorIf(t, w.Code != test.want, "%s: %d; want %d: %s", test.name, w.Code, test.want, w.Body)
	}
}

func TestAnExportThatFailsHalfWayIsCutOff(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Databases: &fakeDatabases{}})
	for _, h2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(g)
		server.EnableHTTP2 = h2
		server.StartTLS()
		res, err := server.Client().Get(server.URL + "/actors/room/half/-/sqlite")
		must(t, err)
		n, err := io.Copy(io.Discard, res.Body)
		res.Body.Close()
		server.Close()
		errorIf(t, res.ProtoMajor == 2 != h2 || res.StatusCode != 200 || err == nil || n > 1<<20,
			"%s: %d, %d bytes, %v", res.Proto, res.StatusCode, n, err)
	}
}

func TestAClientThatDoesNotReadItsFileIsCutOff(t *testing.T) {
	t.Parallel()
	ended := make(chan string, 1)
	d := &fakeDatabases{heard: func(fault string) { ended <- fault }}
	server := httptest.NewServer(newGateway(t, setup{Limits: serve.Limits{StreamWriteTimeout: 50 * time.Millisecond}, Databases: d}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET /actors/room/endless/-/sqlite HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-ended
}

// readPage reads a page of the documentation.
func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", name))
	must(t, err)
	return string(page)
}

// tableRows returns the rows of a page's tables with a number of columns, by their first cell.
func tableRows(page string, columns int) map[string]string {
	rows := make(map[string]string)
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) == columns+2 {
			rows[strings.Trim(cells[1], " `")] = strings.Join(cells[2:], " ")
		}
	}
	return rows
}

func TestTheHTTPPageNamesEveryStatusAndOperation(t *testing.T) {
	page := readPage(t, "http.md")
	rows := tableRows(page, 2)
	for _, c := range host.Codes() {
		row := rows[fmt.Sprint(serve.Status(c))]
		errorIf(t, !strings.Contains(row, "`"+string(c)+"`"), "the row of status %d does not have %s: %q", serve.Status(c), c, row)
	}
	for _, op := range []serve.Operation{serve.Call, serve.Create, serve.Read, serve.Destroy, serve.Events,
		serve.Connect, serve.Work, serve.Follow, serve.Operate, serve.Inspect, serve.List, serve.Health, serve.Metrics, serve.OpenAPI} {
		errorIf(t, !strings.Contains(page, "`"+string(op)+"`"), "operation %s is not described", op)
	}
	for _, event := range []string{EventGap, EventBye, EventWelcome, EventEnd, EventItem, EventMessage} {
		errorIf(t, !strings.Contains(page, "`"+event+"`") && !strings.Contains(page, "event: "+event),
			"event %s is not described", event)
	}
}

func TestTheWebSocketPageHasTheCloseCodeOfEveryError(t *testing.T) {
	page := readPage(t, "websocket.md")
	rows := tableRows(page, 3)
	for _, c := range host.Codes() {
		before, after := serve.CloseCode(host.Errorf(c, "x"), false), serve.CloseCode(host.Errorf(c, "x"), true)
		row := rows[fmt.Sprint(int(before))]
		errorIf(t, before != 1008 && !strings.Contains(row, "`"+string(c)+"`"),
			"the row of %d does not have %s: %q", before, c, row)
		errorIf(t, before == 1008 && after != 1000, "%s is %d before the welcome and %d after it", c, before, after)
	}
	for _, code := range []int{1000, 1001, 1002, 1003, 1008, 1009, 1011, 1013} {
		errorIf(t, rows[fmt.Sprint(code)] == "", "the close code %d is not described", code)
	}
	for _, word := range []string{Subprotocol, tokenProtocol, fmt.Sprint(serve.DefaultConnectionCalls), "4 MiB", "10 s", "15 s", "30 s"} {
		errorIf(t, !strings.Contains(page, word), "%q is not mentioned", word)
	}
}

// paths returns the paths of the OpenAPI document for a type with everything, by path and method.
func paths(t *testing.T, o setup) map[string]map[string]map[string]any {
	t.Helper()
	o.Behaviors = []*host.Behavior{{
		Type: "tenant", Methods: []host.Method{{Name: "add", Kind: host.Action}}, Events: []host.Event{{Name: "said"}},
		Queues: []host.Queue{{Name: "mail"}}, Streams: []host.Stream{{Name: "tokens"}},
	}}
	text, err := newGateway(t, o).describe()
	must(t, err)
	var d struct {
		Paths map[string]map[string]map[string]any `json:"paths"`
	}
	must(t, json.Unmarshal(text, &d))
	return d.Paths
}

func TestTheDocumentHasEveryRouteAndNoOther(t *testing.T) {
	routes := make(map[route]bool)
	visit := func(path, method string) {
		u, err := url.Parse(strings.NewReplacer("{key}", "a/b", "{name}", "n").Replace(path))
		must(t, err)
		target, fault := parseTarget(u)
		if fault != nil || target.route == nowhere {
			t.Errorf("the gateway does not know %s: %v", path, fault)
			return
		}
		errorIf(t, !slices.Contains(strings.Split(target.route.methods(), ", "), strings.ToUpper(method)),
			"%s does not take %s", path, method)
		routes[target.route] = true
	}
	for path, item := range paths(t, setup{Node: office{}, Databases: &fakeDatabases{}, Runs: fakeRuns{}}) {
		for method := range item {
			visit(path, method)
		}
	}
	for r := range everyRoute {
		errorIf(t, !routes[r], "route %d is not described", r)
	}
	errorIf(t, paths(t, setup{})["/actors/tenant/{key}/-/sqlite"] != nil, "the document of a node without databases has their path")
}

// The page lists the operation of each built-in method, by its name or by its family.
func TestEveryBuiltinMethodHasItsOperation(t *testing.T) {
	rows, listed := tableRows(readPage(t, "http.md"), 2), make(map[string]serve.Operation)
	for _, op := range []serve.Operation{serve.Call, serve.Work, serve.Follow, serve.Operate} {
		for _, m := range regexp.MustCompile("`([a-z.]+\\.(?:[a-z]+|\\*))`").FindAllStringSubmatch(rows[string(op)], -1) {
			errorIf(t, listed[m[1]] != "", "the page has %s as %s and as %s", m[1], listed[m[1]], op)
			listed[m[1]] = op
		}
	}
	used := make(map[string]bool)
	for _, m := range method.All() {
		family, _, _ := strings.Cut(m.Name, ".")
		used[m.Name], used[family+".*"] = true, true
		same(t, OperationOf(m.Name, 0), cmp.Or(listed[m.Name], listed[family+".*"]), m.Name)
	}
	for name := range listed {
		errorIf(t, !used[name], "the page has %s, which is not built in", name)
	}
	for name, op := range map[string]serve.Operation{"add": serve.Call, "": serve.Call, "actor": serve.Call,
		"actor.new": serve.Operate, "x.y": serve.Operate} {
		same(t, OperationOf(name, 0), op, name)
	}
	for name, op := range map[string]serve.Operation{
		host.SQLQuery: serve.Call, host.SQLExec: serve.Call, host.SQLMigrate: serve.Operate, host.SQLStatus: serve.Operate, host.ActorPause: serve.Operate,
	} {
		same(t, OperationOf(name, host.SQLOpen|host.KVOpen), op, name)
	}
}
