package client_test

import (
	"bytes"
	"context"
	"encoding/json"
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
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// refusing is a Recorder's Before that fails each operation.
func refusing(err error) func(context.Context, string, *host.Request) error {
	return func(context.Context, string, *host.Request) error { return err }
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

func connect(t testing.TB, n *hosttest.Recorder, o client.Options) (*client.Client, *wire) {
	t.Helper()
	f, err := serve.New(serve.Options{Token: "secret"})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	w := &wire{t: t, handler: gateway.New(f, gateway.Options{Node: n})}
	o.Token, o.HTTPClient = "secret", &http.Client{Transport: w}
	c, err := client.New("http://node.example", o)
	must(t, err)
	return c, w
}

func TestEverythingOfARequestReachesTheNode(t *testing.T) {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, want := range []host.Request{
		{Address: host.Address{Type: "t", Key: []string{"a", "b"}}, Method: "add", Codec: host.CBOR, Input: []byte{1, 2, 0xff}},
		{Address: host.Address{Type: "t"}, Method: "a/b ü", Codec: host.JSON, Input: []byte("1"), Traceparent: trace},
		{Address: host.Address{Type: "t"}, Method: "add", Codec: host.CBOR, IdempotencyKey: "k 1", Existing: true},
		{Address: host.Address{Type: "t"}, Method: "create", Codec: host.CBOR, Create: true, Input: bytes.Repeat([]byte{7}, 300_000)},
		{Address: host.Address{Type: "t"}, Codec: host.CBOR, Create: true},
	} {
		n := &hosttest.Recorder{Before: refusing(host.Errorf(host.NotFound, "seen"))}
		c, _ := connect(t, n, client.Options{Attempts: 1})
		if _, err := c.Call(t.Context(), &want); host.CodeOf(err) != host.NotFound {
			t.Errorf("%+v: %v", want, err)
		}
		if !reflect.DeepEqual(n.Requests(), []host.Request{want}) {
			t.Errorf("sent %+v, arrived %+v", want, n.Requests())
		}
	}
}

func TestRepliesAndReadsAreThoseOfTheNode(t *testing.T) {
	n := nodetest.Open(t, hosttest.Room())
	c, _ := connect(t, n, client.Options{})
	ctx, a := t.Context(), host.Address{Type: "room", Key: []string{"", "-"}}
	for _, q := range []host.Request{
		{Address: a, Codec: host.CBOR, Create: true}, {Address: a, Method: "echo", Codec: host.CBOR, Input: []byte{1, 0xff}},
		{Address: a, Method: "total", Codec: host.JSON}, {Address: a, Method: "none", Codec: host.CBOR},
	} {
		want, err := n.Node.Call(ctx, &q)
		if q.Create { // there cannot be two
			err = errors.Join(err, n.Node.Destroy(ctx, a))
		}
		got, err2 := c.Call(ctx, &q)
		if errors.Join(err, err2) != nil || !bytes.Equal(got.Output, want.Output) || got.Version < want.Version ||
			q.Codec == host.JSON && got.Version > want.Version {
			t.Errorf("%+v: %+v %v, want %+v %v", q, got, err2, want, err)
		}
	}
	want, _ := n.Lookup(ctx, a)
	if got, err := c.Lookup(ctx, a); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
	q := host.ListQuery{Type: "room", Prefix: []string{"a b", ""}, Limit: 3, Cursor: "c&d"}
	c.List(ctx, q)
	if told := n.Told(); !slices.Contains(told, fmt.Sprintf("list  %+v", q)) {
		t.Errorf("%q", told)
	}
	page, err := c.List(ctx, host.ListQuery{Type: "room"})
	if want, _ := n.List(ctx, host.ListQuery{Type: "room"}); err != nil || len(page.Actors) != 1 || !reflect.DeepEqual(page, want) {
		t.Errorf("%+v %v", page, err)
	}
	iq := host.InspectQuery{After: []byte{0xfb, 0xff}, Limit: 5, ValueBytes: 9}
	c.Inspect(ctx, a, iq)
	if told := n.Told(); !slices.Contains(told, fmt.Sprintf("inspect room//- %+v", iq)) {
		t.Errorf("%q", told)
	}
	iq = host.InspectQuery{Limit: 1, ValueBytes: 9}
	keys, err := c.Inspect(ctx, a, iq)
	if want, _ := n.Inspect(ctx, a, iq); err != nil || len(keys.Keys) != 1 || keys.Next == nil || !reflect.DeepEqual(keys, want) {
		t.Errorf("%+v %v", keys, err)
	}
	if err := errors.Join(c.Destroy(ctx, a), c.Health(ctx)); err != nil {
		t.Error(err)
	}
}

func TestIntegersOfAttributesStayExact(t *testing.T) {
	const attributes = `{"n":-9223372036854775807,"plan":"pro"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"type":"t","attributes":`+attributes+`}`)
	}))
	defer s.Close()
	c, err := client.New(s.URL, client.Options{})
	must(t, err)
	defer c.Close()
	st, err := c.Lookup(t.Context(), host.Address{Type: "t"})
	if got, err2 := json.Marshal(st.Attributes); errors.Join(err, err2) != nil || string(got) != attributes {
		t.Errorf("%s %v %v", got, err, err2)
	}
}

func TestErrorsKeepTheirCodeMetadataAndRetryability(t *testing.T) {
	for _, code := range host.Codes() {
		want := host.Errorf(code, "why: %s", code).With("k", "v")
		c, w := connect(t, &hosttest.Recorder{Before: refusing(want)}, client.Options{})
		_, err := c.Call(t.Context(), &host.Request{Address: room, Method: "m", Codec: host.CBOR})
		if got := (*host.Error)(nil); !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", code, err)
		}
		if w.attempts != 1 {
			t.Errorf("%s: %d attempts although it is not retryable", code, w.attempts)
		}
	}
}

func TestRequestsThatHTTPCannotCarryAreRefused(t *testing.T) {
	c, w := connect(t, &hosttest.Recorder{}, client.Options{})
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
		must(t, err)
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
	n := &hosttest.Recorder{Before: refusing(host.Errorf(host.NotFound, "seen"))}
	f, err := serve.New(serve.Options{})
	must(t, err)
	defer f.Close()
	w := &wire{t: t, handler: http.StripPrefix("/a/b", gateway.New(f, gateway.Options{Node: n}))}
	c, err := client.New("http://node.example/a/b/", client.Options{HTTPClient: &http.Client{Transport: w}})
	must(t, err)
	key := []string{"x/y", "-", "ü"}
	_, err = c.Lookup(t.Context(), host.Address{Type: "t", Key: key})
	if told := n.Told(); host.CodeOf(err) != host.NotFound || !slices.Equal(told, []string{"lookup t/x/y/-/ü"}) {
		t.Error(err, told)
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
		n := &hosttest.Recorder{Before: refusing(host.Errorf(host.NotFound, "seen"))}
		c, _ := connect(t, n, client.Options{Attempts: 1})
		_, err := c.Call(t.Context(), &host.Request{Address: host.Address{Type: typ, Key: key}, Method: method, Codec: host.CBOR})
		if !valid {
			if host.CodeOf(err) != host.InvalidArgument || len(n.Requests()) > 0 {
				t.Fatalf("%v %+v", err, n.Requests())
			}
			return
		}
		if host.CodeOf(err) != host.NotFound {
			t.Fatal(err)
		}
		if got := n.Requests()[0]; got.Type != typ || !slices.Equal(got.Key, key) || got.Method != method {
			t.Fatalf("sent %q %q %q, arrived %q %q %q", typ, key, method, got.Type, got.Key, got.Method)
		}
		// Whatever resolves dot segments or merges slashes on the way must leave the path alone.
		path, err := client.Path(host.Address{Type: typ, Key: key})
		must(t, err)
		if cleaned := (&url.URL{Path: "/"}).JoinPath(path).EscapedPath(); cleaned != path {
			t.Fatalf("%q is cleaned to %q", path, cleaned)
		}
	})
}

func TestRetries(t *testing.T) {
	lost := errors.New("connection reset")
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	call := func(c *client.Client, ctx context.Context) error {
		_, err := c.Call(ctx, &host.Request{Address: room, Method: "none", Codec: host.CBOR})
		return err
	}
	destroy := func(c *client.Client, ctx context.Context) error { return c.Destroy(ctx, room) }
	var token string
	disconnect := func(c *client.Client, ctx context.Context) error { return c.Disconnect(ctx, room, token) }
	never := func(c *client.Client, ctx context.Context) error { return c.Destroy(ctx, host.Address{Type: "room"}) }
	for _, tc := range []struct {
		name          string
		do            func(*client.Client, context.Context) error
		attempts      int
		before, after func(int) error
		answer        func(n int) error // of the node instead, at its nth request
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
		{name: "destroyed by the lost attempt", do: destroy, after: first(1, lost), sent: 2},
		{name: "disconnected by the lost attempt", do: disconnect, after: first(1, lost), sent: 2},
		{name: "never there", do: never, sent: 1, code: host.NotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := nodetest.Open(t, hosttest.Room())
				must(t, errOf(n.Node.Call(t.Context(), &host.Request{Address: room, Codec: host.CBOR, Create: true})))
				cn, err := n.Node.Connect(t.Context(), room, host.ConnectRequest{})
				must(t, err)
				token = cn.Welcome().Token
				asked := 0
				n.Before = func(context.Context, string, *host.Request) error {
					if asked++; tc.answer != nil {
						return tc.answer(asked)
					}
					return nil
				}
				c, w := connect(t, n, client.Options{Attempts: tc.attempts})
				w.before, w.after = tc.before, tc.after
				err = tc.do(c, t.Context())
				var e *host.Error
				if errors.As(err, &e); host.CodeOf(err) != tc.code || e != nil && e.Retryable != tc.retryable {
					t.Errorf("%+v", err)
				}
				if w.attempts != tc.sent {
					t.Errorf("%d attempts, want %d", w.attempts, tc.sent)
				}
				key := w.headers[0].Get("Idempotency-Key")
				if q := n.Requests(); key == "" && len(q) > 0 && tc.attempts != 1 {
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
		n := &hosttest.Recorder{Before: refusing(host.Errorf(host.Overloaded, "full").Retry())}
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
		must(t, err)
		_, err = c.Call(t.Context(), &host.Request{Address: host.Address{Type: "t"}, Method: "m", Codec: host.CBOR})
		if host.CodeOf(err) != host.TooLarge {
			t.Error(err)
		}
		c.Close()
		s.Close()
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
