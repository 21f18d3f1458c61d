package keyval_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// A store is that of a room, over a gateway.
type store struct {
	t       *testing.T
	gateway http.Handler
	node    *hosttest.Recorder
}

// open opens a node with rooms whose stores are open to all callers.
func open(t *testing.T) *store { return openWith(t, serve.Options{}) }

func openWith(t *testing.T, o serve.Options) *store {
	t.Helper()
	room := hosttest.Room()
	room.OpenKV, room.Queues = true, []host.Queue{{Name: "kv"}}
	o.Behaviors = []*host.Behavior{room}
	node := nodetest.Open(t, o.Behaviors...)
	f, err := serve.New(o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return &store{t, gateway.New(f, gateway.Options{Node: node}), node}
}

// request makes a request to a path of the interface.
func request(verb, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(verb, "/actors/room/a/-/keyval/api/"+path, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// send sends a request to a path of the interface.
func (s *store) send(verb, path, body string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, request(verb, path, body, headers...))
	return w
}

// want sends a request, and wants a status and an answer that contains a text. It returns the answer.
func (s *store) want(status int, text, verb, path, body string) string {
	s.t.Helper()
	w := s.send(verb, path, body)
	got := strings.TrimSuffix(w.Body.String(), "\n")
	errorIf(s.t, w.Code != status || !strings.Contains(got, text),
		"%s %s %.200s: %d %.500s, not %d %s", verb, path, body, w.Code, got, status, text)
	var e map[string]any
	errorIf(s.t, status >= 400 && (json.Unmarshal([]byte(got), &e) != nil || len(e) != 1 || e["error"] == ""),
		"%s is no error", got)
	return got
}

// exactly is want for the whole answer, with STAMP for each versionstamp.
func (s *store) exactly(want, verb, path, body string) {
	s.t.Helper()
	same(s.t, masked(s.want(200, "", verb, path, body)), want, verb, path, body)
}

var stamps = regexp.MustCompile(`\b0{8}[0-9a-f]{12}\b`)

func masked(text string) string { return stamps.ReplaceAllString(text, "STAMP") }

// put sets entries: paths and values by turns.
func (s *store) put(entries ...string) {
	s.t.Helper()
	for i := 0; i < len(entries); i += 2 {
		s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "PUT", "keys/"+entries[i], entries[i+1])
	}
}

// stamp returns the versionstamp of a key.
func (s *store) stamp(path string) string {
	s.t.Helper()
	return stamps.FindString(s.want(200, "", "GET", "keys/"+path, ""))
}

// keys lists the keys of a prefix, which parameters may follow.
func (s *store) keys(prefix string) string {
	s.t.Helper()
	var list []struct{ Key json.RawMessage }
	s.decode(s.want(200, "", "GET", "keys?prefix="+prefix, ""), &list)
	var keys []string
	for _, e := range list {
		keys = append(keys, string(e.Key))
	}
	return strings.Join(keys, " ")
}

func (s *store) decode(text string, v any) {
	s.t.Helper()
	must(s.t, json.Unmarshal([]byte(text), v))
}

// commit does mutations.
func (s *store) commit(mutations string) {
	s.t.Helper()
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[`+mutations+`]}`)
}

// call calls a method of the actor.
func (s *store) call(method, input string) string {
	s.t.Helper()
	r, err := s.node.Call(context.Background(), &host.Request{
		Address: host.Address{Type: "room", Key: []string{"a"}}, Method: method, Codec: host.JSON, Input: []byte(input),
	})
	must(s.t, err)
	return string(r.Output)
}

// bodies wants a request to be refused with a status for each of some bodies: bodies and texts of the errors by turns.
func (s *store) bodies(status int, verb, path string, bodies ...string) {
	s.t.Helper()
	for i := 0; i < len(bodies); i += 2 {
		s.want(status, bodies[i+1], verb, path, bodies[i])
	}
}

// paths wants requests to be refused with a status: paths and texts of the errors by turns.
func (s *store) paths(status int, verb, body string, paths ...string) {
	s.t.Helper()
	for i := 0; i < len(paths); i += 2 {
		s.want(status, paths[i+1], verb, paths[i], body)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// errorIf is a message if something is wrong.
func errorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// same is an error unless got is want. where says of what.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
