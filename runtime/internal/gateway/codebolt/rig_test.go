package codebolt_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	typ     string
}

// open opens a node with rooms whose stores are open to all callers, and with closed rooms.
func open(t *testing.T) *store { return openWith(t, serve.Options{}) }

func openWith(t *testing.T, o serve.Options) *store {
	t.Helper()
	room, closed := hosttest.Room(), hosttest.Room()
	room.OpenKV, closed.Type = true, "closed"
	o.Behaviors = []*host.Behavior{room, closed}
	node := nodetest.Open(t, o.Behaviors...)
	f, err := serve.New(o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return &store{t, gateway.New(f, gateway.Options{Node: node}), node, "room"}
}

// send sends a request to a path of the interface.
func (s *store) send(verb, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(verb, "/actors/"+s.typ+"/a/-/kvstore/"+path, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w
}

// want sends a request, and wants a status and an answer that contains a text. It returns the answer.
func (s *store) want(status int, text, verb, path, body string) string {
	s.t.Helper()
	w := s.send(verb, path, body)
	got := strings.TrimSuffix(w.Body.String(), "\n")
	fatalIf(s.t, w.Code != status || !strings.Contains(got, text),
		"%s %s %s: %d %s, not %d %s", verb, path, body, w.Code, got, status, text)
	var e map[string]any
	errorIf(s.t, status >= 400 && verb != http.MethodHead && (json.Unmarshal([]byte(got), &e) != nil || len(e) != 1 || e["error"] == ""),
		"%s is no error", got)
	return got
}

// exactly is want for the whole answer.
func (s *store) exactly(want, verb, path, body string) {
	s.t.Helper()
	same(s.t, s.want(200, "", verb, path, body), want, verb, path, body)
}

// instance makes an instance, and returns its id.
func (s *store) instance(name string) string {
	s.t.Helper()
	var in struct{ ID string }
	err := json.Unmarshal([]byte(s.want(201, "", "POST", "instances", fmt.Sprintf(`{"name":%q}`, name))), &in)
	fatalIf(s.t, err != nil || in.ID == "", "%v", err)
	return in.ID
}

// set sets a record.
func (s *store) set(instance, namespace, key, value string) {
	s.t.Helper()
	body, err := json.Marshal(map[string]any{"instanceId": instance, "namespace": namespace, "key": key, "value": 0})
	must(s.t, err)
	s.want(200, "", "POST", "kv", strings.TrimSuffix(string(body), "0}")+value+"}")
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

// methods are the calls that a request makes.
func (s *store) methods(do func()) string {
	s.t.Helper()
	before := len(s.node.Requests())
	do()
	var names []string
	for _, r := range s.node.Requests()[before:] {
		names = append(names, r.Method)
	}
	return strings.Join(names, " ")
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ`)
var millis = regexp.MustCompile(`"updated_at":\d{13}\b`)

// masked puts words for what differs from run to run.
func masked(text string) string {
	return millis.ReplaceAllString(times.ReplaceAllString(uuids.ReplaceAllString(text, "ID"), "TIME"), `"updated_at":MS`)
}

// bodies wants a request to be refused with a status for each of some bodies: bodies and texts of the errors by turns.
func (s *store) bodies(status int, verb, path string, bodies ...string) {
	s.t.Helper()
	for i := 0; i < len(bodies); i += 2 {
		s.want(status, bodies[i+1], verb, path, bodies[i])
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// fatalIf ends the test with a message if something is wrong.
func fatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
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
