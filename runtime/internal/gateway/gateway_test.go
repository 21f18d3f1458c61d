package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
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
			case want == 0 && (res.StatusCode != 200 || len(got) != n+1 || got[n] != '\n' || res.ContentLength != int64(n+1)): // with a line break
				t.Errorf("%d bytes: %d, got %d of %d", n, res.StatusCode, len(got), res.ContentLength)
			}
		}
	}
}

// Entries of a key-value store may be longer than other bodies, and so may what a type with OpenKV takes.
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
		{"room/a/-/call/kv.commit", put(1 << 20), 404}, {"open/a/-/call/kv.commit", put(1 << 20), 200}, {"open/a/-/call/kv.commit", put(1<<20 + 1), 413},
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

// The deadline of a write must not end a stream that is quiet after it, and a server that shuts down ends streams.
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

// Clients of Deno KV begin with HTTP/2 where others speak HTTP/1.1 and open WebSockets.
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
			conn, _, err := websocket.Dial(t.Context(), "ws://localhost/actors/room/a/-/connect", &websocket.DialOptions{HTTPClient: client})
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
