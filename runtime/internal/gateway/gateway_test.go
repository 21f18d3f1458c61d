package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// echo answers every call with its input and remembers the request.
func echo(last **host.Request) *fakeNode {
	return &fakeNode{
		call: func(_ context.Context, r *host.Request) (host.Reply, error) {
			*last = r
			return host.Reply{Output: r.Input, Version: 7, Replayed: r.IdempotencyKey == "old"}, nil
		},
		lookup: func(_ context.Context, a host.Address) (host.Status, error) {
			if a.Type == "gone" {
				return host.Status{}, host.Errorf(host.NotFound, "no such actor")
			}
			return host.Status{ID: "id", Type: a.Type, Key: a.Key, State: host.Awake, Version: 9}, nil
		},
		destroy: func(context.Context, host.Address) error { return nil },
		list: func(_ context.Context, q host.ListQuery) (host.ListPage, error) {
			return host.ListPage{Cursor: fmt.Sprintf("%+v", q)}, nil
		},
		inspect: func(_ context.Context, _ host.Address, q host.InspectQuery) (host.InspectPage, error) {
			return host.InspectPage{Keys: []host.StoredKey{{Key: q.After, Size: q.Limit*1000 + q.ValueBytes}}, Next: []byte{0xfb, 0xff}}, nil
		},
		subscribe: func(context.Context, host.Address, host.Subscription) (host.EventStream, error) {
			return nil, host.Errorf(host.NotFound, "no such actor")
		},
	}
}

func TestEveryRouteAndFaultHasItsAnswer(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	big := strings.Repeat("x", 2000)
	key := []string{"a"}
	type want struct {
		status  int
		body    string   // contained in the body
		headers []string // "Name: value"
		request *host.Request
	}
	json := "Content-Type: application/json"
	for _, c := range []struct {
		name, method, url, body string
		headers                 []string
		want                    want
	}{
		{"call", "POST", "/actors/counter/a/-/call/add", `{"n":1}`, []string{json},
			want{200, `{"n":1}`, []string{"Cairn-Version: 7", json, "Idempotency-Replayed: "},
				&host.Request{Address: host.Address{Type: "counter", Key: key}, Method: "add", Codec: host.JSON, Input: []byte(`{"n":1}`)}}},
		{"call without content type", "POST", "/actors/counter/-/call/add", `1`, nil, want{status: 200, body: "1"}},
		{"call with charset", "POST", "/actors/counter/-/call/add", `1`, []string{"Content-Type: application/json; charset=UTF-8"}, want{status: 200}},
		{"call in CBOR", "POST", "/actors/counter/-/call/add", "\x01", []string{"Content-Type: application/cbor"},
			want{200, "\x01", []string{"Content-Type: application/cbor"},
				&host.Request{Address: host.Address{Type: "counter"}, Method: "add", Codec: host.CBOR, Input: []byte{1}}}},
		{"call without input or output", "POST", "/actors/counter/-/call/add", "", nil,
			want{204, "", []string{"Cairn-Version: 7", "Content-Type: "}, &host.Request{Address: host.Address{Type: "counter"}, Method: "add", Codec: host.JSON}}},
		{"empty body of any type", "POST", "/actors/counter/-/call/add", "", []string{"Content-Type: text/plain"}, want{status: 204}},
		{"conditions and trace", "POST", "/actors/counter/-/call/add", "", []string{"If-Match: *", "Idempotency-Key: k", "Traceparent: " + trace},
			want{204, "", nil, &host.Request{Address: host.Address{Type: "counter"}, Method: "add", Codec: host.JSON, Existing: true, IdempotencyKey: "k", Traceparent: trace}}},
		{"replayed", "POST", "/actors/counter/-/call/add", "", []string{"Idempotency-Key: old"}, want{status: 204, headers: []string{"Idempotency-Replayed: true"}}},
		{"bad trace is dropped", "POST", "/actors/counter/-/call/add", "", []string{"Traceparent: 00-xyz"},
			want{204, "", nil, &host.Request{Address: host.Address{Type: "counter"}, Method: "add", Codec: host.JSON}}},
		{"create by call", "POST", "/actors/counter/-/call/create", "5", []string{"If-None-Match: *"},
			want{200, "", nil, &host.Request{Address: host.Address{Type: "counter"}, Method: "create", Codec: host.JSON, Create: true, Input: []byte("5")}}},
		{"form body", "POST", "/actors/counter/-/call/add", "a=b", []string{"Content-Type: application/x-www-form-urlencoded"}, want{status: 415, body: "--json"}},
		{"foreign charset", "POST", "/actors/counter/-/call/add", "1", []string{"Content-Type: application/json; charset=latin1"}, want{status: 415, body: "invalid_argument"}},
		{"malformed type", "POST", "/actors/counter/-/call/add", "1", []string{"Content-Type: ;"}, want{status: 415}},
		{"body too long", "POST", "/actors/counter/-/call/add", big, nil, want{status: 413, body: `"metadata":{"actual":"2000","limit":"1000","what":"body"}`, headers: []string{"Connection: close"}}},
		{"If-Match with a tag", "POST", "/actors/counter/-/call/add", "", []string{`If-Match: "7"`}, want{status: 400, body: "If-Match"}},
		{"If-None-Match with a tag", "POST", "/actors/counter/-/call/add", "", []string{`If-None-Match: "7"`}, want{status: 400, body: "If-None-Match"}},
		{"contradiction", "POST", "/actors/counter/-/call/add", "", []string{"If-None-Match: *", "If-Match: *"}, want{status: 400, body: "contradict"}},
		{"long idempotency key", "POST", "/actors/counter/-/call/add", "", []string{"Idempotency-Key: " + strings.Repeat("k", 256)}, want{status: 400, body: "255"}},
		{"empty idempotency key", "POST", "/actors/counter/-/call/add", "", []string{"Idempotency-Key: "}, want{status: 400, body: "empty"}},
		{"two idempotency keys", "POST", "/actors/counter/-/call/add", "", []string{"Idempotency-Key: a", "Idempotency-Key: b"}, want{status: 400, body: "more than one"}},
		{"wrong method for call", "GET", "/actors/counter/-/call/add", "", nil, want{status: 405, headers: []string{"Allow: POST, OPTIONS"}}},
		{"head of call", "HEAD", "/actors/counter/-/call/add", "", nil, want{status: 405}},

		{"create", "PUT", "/actors/counter/a/-/", "", []string{"If-None-Match: *"},
			want{201, `"state":"awake"`, []string{"Location: /actors/counter/a/-/", "Cairn-Version: 7"},
				&host.Request{Address: host.Address{Type: "counter", Key: key}, Codec: host.JSON, Create: true}}},
		{"create with input", "PUT", "/actors/counter/~-/%2D/-/", "5", nil,
			want{201, "", []string{"Location: /actors/counter/~-/%2D/-/"},
				&host.Request{Address: host.Address{Type: "counter", Key: []string{"-", "-"}}, Method: "create", Codec: host.JSON, Create: true, Input: []byte("5")}}},
		{"create with input that the type does not take", "PUT", "/actors/plain/-/", "5", nil, want{status: 400, body: "without input"}},
		{"create and gone", "PUT", "/actors/gone/-/", "", nil, want{status: 201}},
		{"create if it exists", "PUT", "/actors/counter/-/", "", []string{"If-Match: *"}, want{status: 400, body: "contradicts"}},
		{"create with parameter", "PUT", "/actors/counter/-/?x=1", "", nil, want{status: 400, body: `\"x\" is not known`}},

		{"status", "GET", "/actors/counter/-/", "", nil, want{status: 200, body: `"key":[]`, headers: []string{"Cairn-Version: 9", "Cache-Control: no-store", "X-Content-Type-Options: nosniff"}}},
		{"status without slash", "GET", "/actors/counter/a/-", "", nil, want{status: 200, body: `"key":["a"]`}},
		{"head of status", "HEAD", "/actors/counter/-/", "", nil, want{status: 200}},
		{"status of nobody", "GET", "/actors/gone/-/", "", nil, want{status: 404, body: `{"code":"not_found","message":"no such actor"}`}},
		{"destroy", "DELETE", "/actors/counter/-/", "", nil, want{status: 204}},
		{"patch", "PATCH", "/actors/counter/-/", "", nil, want{status: 405, headers: []string{"Allow: GET, HEAD, PUT, DELETE, OPTIONS"}}},
		{"options", "OPTIONS", "/actors/counter/-/", "", nil, want{status: 204, headers: []string{"Allow: GET, HEAD, PUT, DELETE, OPTIONS"}}},
		{"options of all", "OPTIONS", "*", "", nil, want{status: 204}},

		{"list", "GET", "/actors?type=counter&prefix=a&prefix=b%2F&limit=5&cursor=c", "", nil,
			want{status: 200, body: `{"actors":[],"cursor":"{Type:counter Prefix:[a b/] Limit:5 Cursor:c Brief:false}"}`}},
		{"brief list", "GET", "/actors?brief=true", "", nil, want{status: 200, body: "Brief:true"}},
		{"list that is brief or not", "GET", "/actors?brief=1", "", nil, want{status: 400, body: "true or false"}},
		{"list without parameters", "GET", "/actors", "", nil, want{status: 200}},
		{"list with a large limit", "GET", "/actors?limit=1001", "", nil, want{status: 400, body: "limit"}},
		{"list with a limit of 0", "GET", "/actors?limit=0", "", nil, want{status: 400, body: "limit"}},
		{"list with a typing error", "GET", "/actors?tpye=counter", "", nil, want{status: 400, body: "known are: type, prefix, limit, cursor, brief"}},
		{"list with a bad query", "GET", "/actors?type=%zz", "", nil, want{status: 400, body: "malformed"}},
		{"list by post", "POST", "/actors", "", nil, want{status: 405}},

		{"keys", "GET", "/actors/counter/-/keys?limit=3&value_bytes=4&after=-_8", "", nil, want{status: 200, body: `"key":"+/8=","text":"","size":3004`}},
		{"keys have a next for the URL", "GET", "/actors/counter/-/keys", "", nil, want{status: 200, body: `"next":"-_8"`}},
		{"keys after a key as printed", "GET", "/actors/counter/-/keys?after=%2B/8=", "", nil, want{status: 200, body: `"key":"+/8="`}},
		{"keys after nonsense", "GET", "/actors/counter/-/keys?after=*", "", nil, want{status: 400, body: "base64url"}},
		{"keys with a bad size", "GET", "/actors/counter/-/keys?value_bytes=-1", "", nil, want{status: 400, body: "value_bytes"}},

		{"events of nobody", "GET", "/actors/counter/-/events", "", nil, want{status: 404}},
		{"events after nonsense", "GET", "/actors/counter/-/events?after=x", "", nil, want{status: 400, body: "parameter after"}},
		{"events after a bad id", "GET", "/actors/counter/-/events?after=1", "", []string{"Last-Event-ID: x"}, want{status: 400, body: "Last-Event-ID"}},
		{"events with an empty name", "GET", "/actors/counter/-/events?names=a,,b", "", nil, want{status: 400, body: "names"}},
		{"options of connections", "OPTIONS", connectPath, "", nil, want{status: 204, headers: []string{"Allow: GET, POST, DELETE, OPTIONS"}}},
		{"options of queues", "OPTIONS", mailPath, "", nil, want{status: 204, headers: []string{"Allow: GET, OPTIONS"}}},
		{"posting to a stream", "POST", tokensPath, "1", nil, want{status: 405, headers: []string{"Allow: GET, OPTIONS"}}},
		{"openapi", "GET", "/openapi.json", "", nil, want{status: 200, body: `"openapi":"3.1.0"`}},
		{"head of events", "HEAD", "/actors/counter/-/events", "", nil, want{status: 405}},

		{"health", "GET", "/healthz", "", nil, want{status: 200, body: `{"status":"ok"}`}},
		{"metrics", "GET", "/metrics", "", nil, want{status: 200, body: "cairn_http_requests_total"}},
		{"unknown path", "GET", "/", "", nil, want{status: 404, body: "nothing at this path"}},
		{"unclean path", "GET", "/actors/../healthz", "", nil, want{status: 400}},
		{"unknown operation", "GET", "/actors/counter/-/nothing", "", nil, want{status: 404}},
		{"bad path", "GET", "/actors/counter", "", nil, want{status: 400, body: `\"/-/\" after the key is missing`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var last *host.Request
			g := newGateway(t, setup{Node: echo(&last), Limits: serve.Limits{BodyBytes: 1000}})
			g.front.Meter.Count(g.front.Meter.Type("unknown"), serve.LabelUnknown, "", 0) // so that /metrics has something to show
			w := ask(g, c.method, c.url, c.body, c.headers...)
			if w.Code != c.want.status || !strings.Contains(w.Body.String(), c.want.body) {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, c.want.status, c.want.body)
			}
			for _, h := range c.want.headers {
				name, value, _ := strings.Cut(h, ": ")
				if got := w.Header().Get(name); got != value {
					t.Errorf("header %s is %q, want %q", name, got, value)
				}
			}
			if c.want.request != nil && !reflect.DeepEqual(last, c.want.request) {
				t.Errorf("the node got %+v, want %+v", last, c.want.request)
			}
			if w.Code >= 400 && c.method != "HEAD" && errorOf(t, w).Code == "" {
				t.Errorf("no code in %q", w.Body)
			}
		})
	}
}

func TestErrorsOfTheNodeReachTheClient(t *testing.T) {
	for _, code := range host.Codes() {
		node := &fakeNode{call: func(context.Context, *host.Request) (host.Reply, error) {
			return host.Reply{}, fmt.Errorf("wrapped: %w", host.Errorf(code, "why").With("a", "b").Retry())
		}}
		w := ask(newGateway(t, setup{Node: node}), "POST", "/actors/counter/-/call/add", "")
		e := errorOf(t, w)
		if w.Code != serve.Status(code) || e.Code != code || e.Message != "why" || e.Metadata["a"] != "b" || !e.Retryable {
			t.Errorf("%s: %d %+v", code, w.Code, e)
		}
		if retry := w.Header().Get("Retry-After") != ""; retry != (w.Code == 429 || w.Code == 503) {
			t.Errorf("%s: Retry-After is %q", code, w.Header().Get("Retry-After"))
		}
		if (w.Header().Get("WWW-Authenticate") != "") != (w.Code == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", code, w.Header().Get("WWW-Authenticate"))
		}
	}
}

func TestAPanicLeaksNothingAndIsLogged(t *testing.T) {
	var log bytes.Buffer
	node := &fakeNode{call: func(context.Context, *host.Request) (host.Reply, error) { panic("secret") }}
	g := newGateway(t, setup{Node: node, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := ask(g, "POST", "/actors/counter/-/call/add", "")
	e := errorOf(t, w)
	if w.Code != 500 || e.Code != host.Internal || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	if id := e.Metadata["error_id"]; id == "" || !strings.Contains(log.String(), id) || !strings.Contains(log.String(), "secret") {
		t.Errorf("log: %q", &log)
	}
}

func TestACallEndsWithItsTimeout(t *testing.T) {
	node := &fakeNode{call: func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		<-ctx.Done()
		return host.Reply{}, ctx.Err()
	}}
	g := newGateway(t, setup{Node: node, Limits: serve.Limits{CallTimeout: time.Nanosecond}})
	if w := ask(g, "POST", "/actors/counter/-/call/add", ""); w.Code != 504 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestACallEndsWhenItsClientLeaves(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	node := &fakeNode{call: func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		close(started)
		<-ctx.Done()
		ended <- ctx.Err()
		return host.Reply{}, ctx.Err()
	}}
	s := httptest.NewServer(newGateway(t, setup{Node: node}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/actors/counter/-/call/add", strings.NewReader("1"))
	if _, err := s.Client().Do(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestBodiesWithoutALengthAreLimitedToo(t *testing.T) {
	var last *host.Request
	s := httptest.NewServer(newGateway(t, setup{Node: echo(&last), Limits: serve.Limits{BodyBytes: 1000}}))
	defer s.Close()
	for n, want := range map[int]int{0: 204, 1: 200, 1000: 200, 1001: 413} {
		body := struct{ io.Reader }{bytes.NewReader(bytes.Repeat([]byte("1"), n))}
		res, err := s.Client().Post(s.URL+"/actors/counter/-/call/add", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != want || want == 200 && len(got) != n+1 { // with a line break
			t.Errorf("%d bytes: %d %q", n, res.StatusCode, got)
		}
	}
}

func TestLongRepliesArriveWhole(t *testing.T) {
	for _, n := range []int{1, autoLength - 1, autoLength, 100_000, 900_000} {
		var last *host.Request
		s := httptest.NewServer(newGateway(t, setup{Node: echo(&last)}))
		res, err := s.Client().Post(s.URL+"/actors/counter/-/call/add", "", bytes.NewReader(make([]byte, n)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		if err != nil || len(got) != n+1 || got[n] != '\n' || res.ContentLength != int64(n+1) {
			t.Errorf("%d bytes: got %d of %d, %v", n, len(got), res.ContentLength, err)
		}
		res.Body.Close()
		s.Close()
	}
}

func TestHealthSaysWhyOnlyWhatMayBeSaid(t *testing.T) {
	var fault error
	g := newGateway(t, setup{Node: &fakeNode{}, Health: func() error { return fault }})
	fault = errors.New("secret path")
	if w := ask(g, "GET", "/healthz", ""); w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
		t.Error(w.Code, w.Body)
	}
	fault = host.Errorf(host.Unavailable, "the disk is full")
	if w := ask(g, "GET", "/healthz", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "disk is full") {
		t.Error(w.Code, w.Body)
	}
}

func TestAfterShutdownRequestsAreRefusedAsRetryable(t *testing.T) {
	g := newGateway(t, setup{Node: &fakeNode{}})
	if err := g.front.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/actors", "/healthz", "/actors/counter/-/events"} {
		if w := ask(g, "GET", path, ""); w.Code != 503 || !errorOf(t, w).Retryable {
			t.Error(path, w.Code, w.Body)
		}
	}
	if err := g.front.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestMetricsHaveBoundedLabels(t *testing.T) {
	var last *host.Request
	r := prometheus.NewRegistry()
	g := newGateway(t, setup{Node: echo(&last), Registerer: r})
	if _, err := serve.New(serve.Options{Registerer: r}); err == nil {
		t.Error("two fronts share one registry")
	}
	for i := range 50 {
		ask(g, "POST", fmt.Sprintf("/actors/x%d/-/call/add", i), "")
		ask(g, "POST", fmt.Sprintf("/actors/counter/-/call/m%d", i), "")
		ask(g, "GET", fmt.Sprintf("/actors/x%d/-/", i), "")
		ask(g, "GET", fmt.Sprintf("/y%d", i), "")
	}
	ask(g, "POST", "/actors/counter/-/call/add", "")
	ask(g, "POST", "/actors/counter/-/call/total", "")
	ask(g, "PUT", "/actors/counter/-/", "")
	ask(g, "GET", "/healthz", "")
	text := ask(g, "GET", "/metrics", "").Body.String()
	var got []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cairn_http_requests_total{") {
			got = append(got, strings.TrimSpace(strings.TrimPrefix(line, "cairn_http_requests_total")))
		}
	}
	want := []string{
		`{code="not_found",operation="unknown",type="unknown"} 50`,
		`{code="ok",operation="action",type="counter"} 1`,
		`{code="ok",operation="create",type="counter"} 1`,
		`{code="ok",operation="query",type="counter"} 1`,
		`{code="ok",operation="read",type="unknown"} 50`,
		`{code="ok",operation="unknown",type="counter"} 50`,
		`{code="ok",operation="unknown",type="unknown"} 50`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s", strings.Join(got, "\n"))
	}
	g.front.Close()
	if _, err := serve.New(serve.Options{Registerer: r}); err != nil {
		t.Errorf("Close did not unregister: %v", err)
	}
}
