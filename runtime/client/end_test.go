package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A node answers with its function and remembers requests.
type node struct {
	mu       sync.Mutex
	requests []host.Request
	answer   func(op string, r *host.Request) (host.Reply, error)
	listed   host.ListQuery
	asked    host.InspectQuery
}

func (n *node) handle(op string, r *host.Request) (host.Reply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.requests = append(n.requests, *r)
	if n.answer == nil {
		return host.Reply{Output: r.Input, Version: 7}, nil
	}
	return n.answer(op, r)
}

func (n *node) Call(_ context.Context, r *host.Request) (host.Reply, error) {
	return n.handle("call", r)
}
func (n *node) Lookup(_ context.Context, a host.Address) (host.Status, error) {
	_, err := n.handle("lookup", &host.Request{Address: a})
	return host.Status{ID: "id", Type: a.Type, Key: a.Key, State: host.Awake, Version: 1 << 60, Created: time.Unix(1, 5).UTC()}, err
}
func (n *node) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	n.listed = q
	return host.ListPage{Actors: []host.Status{{Type: "t", Key: []string{"a"}}}, Cursor: "next one"}, nil
}
func (n *node) Destroy(_ context.Context, a host.Address) error {
	_, err := n.handle("destroy", &host.Request{Address: a})
	return err
}
func (n *node) Inspect(_ context.Context, _ host.Address, q host.InspectQuery) (host.InspectPage, error) {
	n.asked = q
	return host.InspectPage{Keys: []host.StoredKey{{Key: []byte{0xff}, Value: []byte("v"), Text: "state"}}, Next: []byte{0xfb, 0xff}}, nil
}
func (n *node) Subscribe(context.Context, host.Address, host.Subscription) (host.EventStream, error) {
	return nil, host.Errorf(host.PermissionDenied, "nobody may subscribe")
}

func (n *node) Connect(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
	return nil, host.Errorf(host.PermissionDenied, "nobody may connect")
}
func (n *node) CallOver(_ context.Context, token string, r *host.Request) (host.Reply, error) {
	q := *r
	q.Connection = "of " + token
	return n.handle("call", &q)
}
func (n *node) Disconnect(context.Context, host.Address, string) error {
	return host.Errorf(host.Unauthenticated, "no such connection")
}

// A wire hands requests to a handler the way they would arrive at a server: as a request line and a header.
type wire struct {
	t       testing.TB
	handler http.Handler
	// before, if set, may fail an attempt before it arrives, after before its answer comes back.
	before, after func(attempt int) error
	attempts      int
	headers       []http.Header
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.attempts++
	w.headers = append(w.headers, r.Header.Clone())
	if w.before != nil {
		if err := w.before(w.attempts); err != nil {
			return nil, err
		}
	}
	u, err := url.ParseRequestURI(r.URL.RequestURI())
	if err != nil {
		w.t.Errorf("a server cannot read %q: %v", r.URL.RequestURI(), err)
		return nil, err
	}
	arrived := r.Clone(r.Context())
	arrived.URL, arrived.Host = u, r.URL.Host
	if r.Body == nil {
		arrived.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, arrived)
	if w.after != nil {
		if err := w.after(w.attempts); err != nil {
			return nil, err
		}
	}
	return rec.Result(), nil
}

func connect(t testing.TB, n *node, o client.Options) (*client.Client, *wire) {
	t.Helper()
	f, err := serve.New(serve.Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	w := &wire{t: t, handler: gateway.New(f, gateway.Options{Node: n})}
	o.Token, o.HTTPClient = "secret", &http.Client{Transport: w}
	c, err := client.New("http://node.example", o)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func TestEverythingOfARequestReachesTheNode(t *testing.T) {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, want := range []host.Request{
		{Address: host.Address{Type: "t", Key: []string{"a", "b"}}, Method: "add", Codec: host.CBOR, Input: []byte{1, 2, 0xff}},
		{Address: host.Address{Type: "t"}, Method: "a/b ü", Codec: host.JSON, Input: []byte("1"), Traceparent: trace},
		{Address: host.Address{Type: "t"}, Method: "add", Codec: host.CBOR, IdempotencyKey: "k 1", Existing: true},
		{Address: host.Address{Type: "t"}, Method: "create", Codec: host.CBOR, Create: true, Input: bytes.Repeat([]byte{7}, 300_000)},
	} {
		n := &node{}
		c, _ := connect(t, n, client.Options{Attempts: 1})
		reply, err := c.Call(t.Context(), &want)
		if err != nil || !bytes.Equal(reply.Output, want.Input) || reply.Version != 7 {
			t.Errorf("%+v: %+v, %v", want, reply, err)
		}
		if !reflect.DeepEqual(n.requests, []host.Request{want}) {
			t.Errorf("sent %+v, arrived %+v", want, n.requests)
		}
	}
	n := &node{}
	c, _ := connect(t, n, client.Options{Attempts: 1})
	reply, err := c.Call(t.Context(), &host.Request{Address: host.Address{Type: "t"}, Codec: host.CBOR, Create: true})
	if err != nil || reply.Output != nil || reply.Version != 7 || !n.requests[0].Create || n.requests[0].Method != "" {
		t.Errorf("%+v %v %+v", reply, err, n.requests)
	}
}

func TestReadsHaveTheSameAnswersAsTheNode(t *testing.T) {
	n := &node{}
	c, _ := connect(t, n, client.Options{})
	a := host.Address{Type: "t", Key: []string{"", "-"}}
	want, _ := n.Lookup(t.Context(), a)
	if got, err := c.Lookup(t.Context(), a); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	q := host.ListQuery{Type: "t", Prefix: []string{"a b", ""}, Limit: 3, Cursor: "c&d"}
	page, err := c.List(t.Context(), q)
	if err != nil || page.Cursor != "next one" || len(page.Actors) != 1 || !reflect.DeepEqual(n.listed, q) {
		t.Errorf("%+v %v %+v", page, err, n.listed)
	}
	iq := host.InspectQuery{After: []byte{0xfb, 0xff}, Limit: 5, ValueBytes: 9}
	keys, err := c.Inspect(t.Context(), a, iq)
	wantKeys, _ := n.Inspect(t.Context(), a, iq)
	if err != nil || !reflect.DeepEqual(keys, wantKeys) || !reflect.DeepEqual(n.asked, iq) {
		t.Errorf("%+v %v %+v", keys, err, n.asked)
	}
	if err := c.Destroy(t.Context(), a); err != nil {
		t.Error(err)
	}
	if err := c.Health(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestErrorsKeepTheirCodeMetadataAndRetryability(t *testing.T) {
	for _, code := range host.Codes() {
		want := host.Errorf(code, "why: %s", code).With("k", "v")
		n := &node{answer: func(string, *host.Request) (host.Reply, error) { return host.Reply{}, want }}
		c, w := connect(t, n, client.Options{})
		_, err := c.Call(t.Context(), &host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR})
		if got := (*host.Error)(nil); !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", code, err)
		}
		if w.attempts != 1 {
			t.Errorf("%s: %d attempts although it is not retryable", code, w.attempts)
		}
	}
}

func TestRequestsThatHTTPCannotCarryAreRefused(t *testing.T) {
	c, w := connect(t, &node{}, client.Options{})
	at := host.Address{Type: "t"}
	for _, r := range []host.Request{
		{Address: host.Address{Type: ""}, Method: "m", Codec: host.CBOR},
		{Address: host.Address{Type: "t", Key: []string{"\xff"}}, Method: "m", Codec: host.CBOR},
		{Address: host.Address{Type: "\xff"}, Method: "m", Codec: host.CBOR},
		{Address: at, Method: "\xff", Codec: host.CBOR},
		{Address: at, Method: "m"},
		{Address: at, Codec: host.CBOR},
		{Address: at, Method: "m", Codec: host.CBOR, IdempotencyKey: "a\nb"},
		{Address: at, Method: "m", Codec: host.CBOR, IdempotencyKey: " a"},
	} {
		if _, err := c.Call(t.Context(), &r); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if w.attempts != 0 {
		t.Error("something was sent")
	}
}

func TestWithoutAnErrorOfCairnAStatusSaysLittle(t *testing.T) {
	for status, want := range map[int]host.Code{301: host.Internal, 404: host.Internal, 500: host.Internal, 401: host.Unauthenticated,
		403: host.PermissionDenied, 413: host.InvalidArgument, 429: host.Overloaded, 502: host.Unavailable, 504: host.Unavailable} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, "<html>hello</html>")
		}))
		c, err := client.New(s.URL, client.Options{Attempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Lookup(t.Context(), host.Address{Type: "t"})
		if host.CodeOf(err) != want || !strings.Contains(err.Error(), "hello") {
			t.Errorf("%d: %v", status, err)
		}
		c.Close()
		s.Close()
	}
}

func TestOptionsAndURLsAreChecked(t *testing.T) {
	for _, u := range []string{"", "localhost:6420", "ftp://x", "http://", "http://u@x", "http://x?q", "http://x#f", "://"} {
		if _, err := client.New(u, client.Options{}); err == nil {
			t.Errorf("%q passes", u)
		}
	}
	_, err := client.New("http://x", client.Options{Token: "a\n", HTTPClient: &http.Client{Timeout: 1}, Attempts: -1, Backoff: -1,
		MaxBackoff: -2, ReplyBytes: -1, StreamSilence: -1, MaxOutage: -1})
	for _, want := range []string{"Token", "HTTPClient", "Attempts", "Backoff", "MaxBackoff", "ReplyBytes", "StreamSilence", "MaxOutage"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not reported in %v", want, err)
		}
	}
}

func TestABaseURLMayHaveAPath(t *testing.T) {
	n := &node{}
	f, err := serve.New(serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := &wire{t: t, handler: http.StripPrefix("/a/b", gateway.New(f, gateway.Options{Node: n}))}
	c, err := client.New("http://node.example/a/b/", client.Options{HTTPClient: &http.Client{Transport: w}})
	if err != nil {
		t.Fatal(err)
	}
	key := []string{"x/y", "-", "ü"}
	if _, err := c.Lookup(t.Context(), host.Address{Type: "t", Key: key}); err != nil || !slices.Equal(n.requests[0].Key, key) {
		t.Error(err, n.requests)
	}
}

func FuzzEveryKeyRoundTrips(f *testing.F) {
	f.Add("t", "", "-", "m", 2)
	f.Add("t", ".", "..", "m", 2)
	f.Add("t", "~", "~~-", "~.", 2)
	f.Add("-", "a/b", "%2F", "call", 2)
	f.Add("é", "\x00", "日本 ?#;,+&=:@", "-", 2)
	f.Add("..", "", "", "..", 0)
	f.Fuzz(func(t *testing.T, typ, a, b, method string, parts int) {
		key := []string{a, b}[:max(0, min(parts, 2))]
		valid := typ != "" && utf8.ValidString(typ) && utf8.ValidString(method)
		for _, p := range key {
			valid = valid && utf8.ValidString(p)
		}
		if method == "" {
			return
		}
		n := &node{}
		c, _ := connect(t, n, client.Options{Attempts: 1})
		_, err := c.Call(t.Context(), &host.Request{Address: host.Address{Type: typ, Key: key}, Method: method, Codec: host.CBOR})
		if !valid {
			if host.CodeOf(err) != host.InvalidArgument || len(n.requests) > 0 {
				t.Fatalf("%v %+v", err, n.requests)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := n.requests[0]; got.Type != typ || !slices.Equal(got.Key, key) || got.Method != method {
			t.Fatalf("sent %q %q %q, arrived %q %q %q", typ, key, method, got.Type, got.Key, got.Method)
		}
		// Whatever resolves dot segments or merges slashes on the way must leave the path alone.
		path, err := client.Path(host.Address{Type: typ, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if cleaned := (&url.URL{Path: "/"}).JoinPath(path).EscapedPath(); cleaned != path {
			t.Fatalf("%q is cleaned to %q", path, cleaned)
		}
	})
}

func TestRetries(t *testing.T) {
	lost := errors.New("connection reset")
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	call := func(c *client.Client, ctx context.Context) error {
		_, err := c.Call(ctx, &host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR})
		return err
	}
	destroy := func(c *client.Client, ctx context.Context) error { return c.Destroy(ctx, host.Address{Type: "t"}) }
	for _, tc := range []struct {
		name          string
		do            func(*client.Client, context.Context) error
		attempts      int
		before, after func(int) error
		answer        func(n int) error // of the node, at its nth request
		sent          int
		code          host.Code
		retryable     bool
	}{
		{name: "lost answers are asked for again", do: call, after: first(2, lost), sent: 3},
		{name: "lost requests too", do: call, before: first(4, lost), sent: 5},
		{name: "but not for ever", do: call, before: first(9, lost), sent: 5, code: host.Unavailable},
		{name: "no connection", do: call, before: first(9, dial), sent: 5, code: host.Unavailable, retryable: true},
		{name: "no retries, no knowledge", do: call, attempts: 1, after: first(9, lost), sent: 1, code: host.Unavailable},
		{name: "overloaded, then not", do: call, answer: first(2, host.Errorf(host.Overloaded, "full").Retry()), sent: 3},
		{name: "overloaded for long", do: call, answer: first(9, host.Errorf(host.Overloaded, "full").Retry()), sent: 5, code: host.Overloaded, retryable: true},
		{name: "overloaded after a loss", do: call, after: first(1, lost), answer: first(9, host.Errorf(host.Overloaded, "full").Retry()), sent: 5, code: host.Overloaded},
		{name: "final", do: call, answer: first(1, host.Errorf(host.FailedPrecondition, "no")), sent: 1, code: host.FailedPrecondition},
		{name: "destroyed by the lost attempt", do: destroy, after: first(1, lost), answer: func(n int) error {
			if n == 2 {
				return host.Errorf(host.NotFound, "gone")
			}
			return nil
		}, sent: 2},
		{name: "never there", do: destroy, answer: first(1, host.Errorf(host.NotFound, "none")), sent: 1, code: host.NotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node{}
				n.answer = func(string, *host.Request) (host.Reply, error) {
					if tc.answer == nil {
						return host.Reply{}, nil
					}
					return host.Reply{}, tc.answer(len(n.requests))
				}
				c, w := connect(t, n, client.Options{Attempts: tc.attempts})
				w.before, w.after = tc.before, tc.after
				err := tc.do(c, t.Context())
				var e *host.Error
				if errors.As(err, &e); host.CodeOf(err) != tc.code || e != nil && e.Retryable != tc.retryable {
					t.Errorf("%+v", err)
				}
				if w.attempts != tc.sent {
					t.Errorf("%d attempts, want %d", w.attempts, tc.sent)
				}
				key := w.headers[0].Get("Idempotency-Key")
				if isCall := n.requests == nil || n.requests[0].Method == "m"; isCall && tc.attempts != 1 && key == "" && tc.name != "destroyed by the lost attempt" {
					t.Error("no idempotency key")
				}
				for _, h := range w.headers {
					if h.Get("Idempotency-Key") != key {
						t.Error("the idempotency key changes between attempts")
					}
				}
			})
		})
	}
}

func first(n int, err error) func(int) error {
	return func(attempt int) error {
		if attempt <= n {
			return err
		}
		return nil
	}
}

func TestWaitsEndWithTheContextAndRespectTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{answer: func(string, *host.Request) (host.Reply, error) {
			return host.Reply{}, host.Errorf(host.Overloaded, "full").Retry()
		}}
		c, w := connect(t, n, client.Options{Attempts: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		_, err := c.Call(ctx, &host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR})
		if host.CodeOf(err) != host.DeadlineExceeded || !strings.Contains(err.Error(), "full") {
			t.Error(err)
		}
		// The gateway asks for a second each time.
		if w.attempts < 3 || w.attempts > 11 {
			t.Errorf("%d attempts in 10.5 s", w.attempts)
		}
	})
}

func TestLongRepliesAreRefused(t *testing.T) {
	for _, chunked := range []bool{true, false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !chunked {
				w.Header().Set("Content-Length", "11")
			}
			fmt.Fprint(w, strings.Repeat("x", 10))
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "x")
		}))
		c, err := client.New(s.URL, client.Options{ReplyBytes: 10})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Call(t.Context(), &host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR})
		if host.CodeOf(err) != host.TooLarge {
			t.Error(err)
		}
		c.Close()
		s.Close()
	}
}
