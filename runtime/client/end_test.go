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
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

func TestEverythingOfARequestReachesTheNode(t *testing.T) {
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, want := range []host.Request{
		{Address: host.Address{Type: "t", Key: []string{"a", "b"}}, Method: "add", Codec: host.CBOR, Input: []byte{1, 2, 0xff}},
		{Address: host.Address{Type: "t"}, Method: "a/b ü", Codec: host.JSON, Input: []byte("1"), Traceparent: trace},
		{Address: host.Address{Type: "t"}, Method: "add", Codec: host.CBOR, IdempotencyKey: "k 1", Existing: true},
		{Address: host.Address{Type: "t"}, Method: "create", Codec: host.CBOR, Create: true, Input: bytes.Repeat([]byte{7}, 300_000)},
		{Address: host.Address{Type: "t"}, Codec: host.CBOR, Create: true},
		{Address: room, Method: "m", Codec: host.CBOR, Input: []byte{1}, IdempotencyKey: "k", Connection: "the token"},
	} {
		n := refusing(errSeen)
		c, _ := connect(t, n, client.Options{Attempts: 1})
		r, do := want, c.Call
		if want.Connection != "" {
			r.Connection = ""
			do = func(ctx context.Context, r *host.Request) (host.Reply, error) {
				return c.CallOver(ctx, want.Connection, r)
			}
		}
		wantCode(t, errOf(do(t.Context(), &r)), host.NotFound, want)
		errorIf(t, !reflect.DeepEqual(n.Requests(), []host.Request{want}), "sent %+v, arrived %+v", want, n.Requests())
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
		must(t, errors.Join(err, err2))
		errorIf(t, !bytes.Equal(got.Output, want.Output) || got.Version < want.Version ||
			q.Codec == host.JSON && got.Version > want.Version,
			"%+v: %+v, want %+v", q, got, want)
	}
	same := func(got any, err error) func(want any, err error) {
		return func(want any, err2 error) {
			t.Helper()
			must(t, errors.Join(err, err2))
			errorIf(t, !reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
		}
	}
	same(c.Lookup(ctx, a))(n.Lookup(ctx, a))
	same(c.List(ctx, host.ListQuery{Type: "room"}))(n.List(ctx, host.ListQuery{Type: "room"}))
	iq := host.InspectQuery{Limit: 1, ValueBytes: 9}
	same(c.Inspect(ctx, a, iq))(n.Inspect(ctx, a, iq))

	n.Told() // and the node is asked for what the client is
	q := host.ListQuery{Type: "room", Prefix: []string{"a b", ""}, Limit: 3, Cursor: "c&d"}
	c.List(ctx, q)
	iq = host.InspectQuery{After: []byte{0xfb, 0xff}, Limit: 5, ValueBytes: 9}
	c.Inspect(ctx, a, iq)
	told, want := n.Told(), []string{fmt.Sprintf("list  %+v", q), fmt.Sprintf("inspect room//- %+v", iq)}
	errorIf(t, !slices.Equal(told, want), "told %q, want %q", told, want)
	must(t, errors.Join(c.Destroy(ctx, a), c.Health(ctx)))
}

func TestErrorsKeepTheirCodeMetadataAndRetryability(t *testing.T) {
	for _, code := range host.Codes() {
		want := host.Errorf(code, "why: %s", code).With("k", "v")
		c, w := connect(t, refusing(want), client.Options{})
		err := errOf(c.Call(t.Context(), &host.Request{Address: room, Method: "m", Codec: host.CBOR}))
		got, ok := errors.AsType[*host.Error](err)
		errorIf(t, !ok || !reflect.DeepEqual(got, want), "%s: %+v", code, err)
		errorIf(t, w.attempts != 1, "%s: %d attempts although it is not retryable", code, w.attempts)
	}
}

func TestAnswersAreReadWithCare(t *testing.T) {
	lookup := func(o client.Options, status int, body string) (host.Status, error) {
		return served(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, body[:len(body)/2])
			if status == 200 {
				w.(http.Flusher).Flush() // without a length
			}
			io.WriteString(w, body[len(body)/2:])
		}, o).Lookup(t.Context(), room)
	}
	// Without an error of Cairn, only the status counts.
	for status, want := range map[int]host.Code{
		301: host.Internal, 404: host.Internal, 500: host.Internal, 401: host.Unauthenticated, 403: host.PermissionDenied,
		413: host.InvalidArgument, 429: host.Overloaded, 502: host.Unavailable, 504: host.Unavailable,
	} {
		err := errOf(lookup(client.Options{Attempts: 1}, status, "<html>hello</html>"))
		wantCode(t, err, want, status)
		errorIf(t, !strings.Contains(fmt.Sprint(err), "hello"), "%d: %v", status, err)
	}
	const attributes = `{"n":-9223372036854775807,"plan":"pro"}` // integers stay exact
	st, err := lookup(client.Options{}, 200, `{"type":"t","attributes":`+attributes+`}`)
	must(t, err)
	got, err := json.Marshal(st.Attributes)
	errorIf(t, err != nil || string(got) != attributes, "%s %v", got, err)
	for _, status := range []int{200, 201} { // whether the length is said or not
		wantCode(t, errOf(lookup(client.Options{ReplyBytes: 10}, status, "{\"type\":\"\"}")), host.TooLarge, status)
	}
}

func TestOptionsAndURLsAreChecked(t *testing.T) {
	for _, u := range []string{"", "localhost:6420", "ftp://x", "http://", "http://u@x", "http://x?q", "http://x#f", "://"} {
		errorIf(t, errOf(client.New(u, client.Options{})) == nil, "%q passes", u)
	}
	_, err := client.New("http://x", client.Options{Token: "a\n", HTTPClient: &http.Client{Timeout: 1}, Attempts: -1, Backoff: -1,
		MaxBackoff: -2, ReplyBytes: -1, StreamSilence: -1, MaxOutage: -1})
	for _, want := range []string{"Token", "HTTPClient", "Attempts", "Backoff", "MaxBackoff", "ReplyBytes", "StreamSilence", "MaxOutage"} {
		errorIf(t, err == nil || !strings.Contains(err.Error(), want), "%s is not reported in %v", want, err)
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
		if method == "" {
			return
		}
		n := refusing(errSeen)
		c, _ := connect(t, n, client.Options{Attempts: 1})
		at := host.Address{Type: typ, Key: key}
		err := errOf(c.Call(t.Context(), &host.Request{Address: at, Method: method, Codec: host.CBOR}))
		if typ == "" || !utf8.ValidString(typ+"/"+method+"/"+strings.Join(key, "/")) {
			wantCode(t, err, host.InvalidArgument)
			errorIf(t, len(n.Requests()) > 0, "%+v", n.Requests())
			return
		}
		fatalIf(t, host.CodeOf(err) != host.NotFound, "%v", err)
		got := n.Requests()[0]
		errorIf(t, got.Type != typ || !slices.Equal(got.Key, key) || got.Method != method,
			"sent %q %q %q, arrived %q %q %q", typ, key, method, got.Type, got.Key, got.Method)
		// Proxies that resolve dot segments or merge slashes must not change the path.
		path, err := client.Path(at)
		must(t, err)
		cleaned := (&url.URL{Path: "/"}).JoinPath(path).EscapedPath()
		errorIf(t, cleaned != path, "%q is cleaned to %q", path, cleaned)
	})
}

func TestRetries(t *testing.T) {
	lost := errors.New("connection reset")
	dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
	full := host.Errorf(host.Overloaded, "full").Retry()
	var token string
	call := func(c *client.Client, ctx context.Context) error {
		return errOf(c.Call(ctx, &host.Request{Address: room, Method: "none", Codec: host.CBOR}))
	}
	destroy := func(c *client.Client, ctx context.Context) error { return c.Destroy(ctx, room) }
	disconnect := func(c *client.Client, ctx context.Context) error { return c.Disconnect(ctx, room, token) }
	never := func(c *client.Client, ctx context.Context) error { return c.Destroy(ctx, host.Address{Type: "room"}) }
	for _, tc := range []struct {
		name          string
		do            func(*client.Client, context.Context) error
		attempts      int
		before, after func(int) error
		answer        func(n int) error // replaces the node's answer to its nth request
		sent          int
		code          host.Code
		retryable     bool
	}{
		{name: "lost answers are asked for again", do: call, after: first(2, lost), sent: 3},
		{name: "lost requests too", do: call, before: first(4, lost), sent: 5},
		{name: "but not for ever", do: call, before: first(9, lost), sent: 5, code: host.Unavailable},
		{name: "no connection", do: call, before: first(9, dial), sent: 5, code: host.Unavailable, retryable: true},
		{name: "no retries, no knowledge", do: call, attempts: 1, after: first(9, lost), sent: 1, code: host.Unavailable},
		{name: "overloaded, then not", do: call, answer: first(2, full), sent: 3},
		{name: "overloaded for long", do: call, answer: first(9, full), sent: 5, code: host.Overloaded, retryable: true},
		{name: "overloaded after a loss", do: call, after: first(1, lost), answer: first(9, full), sent: 5, code: host.Overloaded},
		{name: "final", do: call, answer: first(1, host.Errorf(host.FailedPrecondition, "no")), sent: 1, code: host.FailedPrecondition},
		{name: "destroyed by the lost attempt", do: destroy, after: first(1, lost), sent: 2},
		{name: "disconnected by the lost attempt", do: disconnect, after: first(1, lost), sent: 2},
		{name: "never there", do: never, sent: 1, code: host.NotFound},
	} {
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
			wantCode(t, err, tc.code, tc.name)
			e, failed := errors.AsType[*host.Error](err)
			errorIf(t, failed && e.Retryable != tc.retryable, "%s: retryable is %v", tc.name, e)
			errorIf(t, w.attempts != tc.sent, "%s: %d attempts, want %d", tc.name, w.attempts, tc.sent)
			key := w.headers[0].Get("Idempotency-Key")
			errorIf(t, key == "" && len(n.Requests()) > 0 && tc.attempts != 1, "%s: no idempotency key", tc.name)
			for _, h := range w.headers {
				errorIf(t, h.Get("Idempotency-Key") != key, "%s: the idempotency key changes between attempts", tc.name)
			}
		})
	}
}

func TestWaitsEndWithTheContextAndRespectTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := connect(t, refusing(host.Errorf(host.Overloaded, "full").Retry()), client.Options{Attempts: 1000})
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		err := errOf(c.Call(ctx, &host.Request{Address: room, Method: "m", Codec: host.CBOR}))
		wantCode(t, err, host.DeadlineExceeded)
		errorIf(t, !strings.Contains(fmt.Sprint(err), "full"), "%v", err)
		// The gateway asks for a second each time.
		errorIf(t, w.attempts < 3 || w.attempts > 11, "%d attempts in 10.5 s", w.attempts)
	})
}
