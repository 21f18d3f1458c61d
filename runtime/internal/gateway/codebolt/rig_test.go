package codebolt_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/gateway/gatewaytest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A store is the store of a room, over a gateway.
type store struct{ *gatewaytest.Store }

func open(t *testing.T) *store { return openWith(t, serve.Options{}) }

func openWith(t *testing.T, o serve.Options) *store {
	return &store{gatewaytest.Open(t, "kvstore/", o)}
}

// want sends a request, checks the status and a text in the answer, and returns the answer.
func (s *store) want(status int, text, verb, path, body string) string {
	s.T.Helper()
	w := s.Send(verb, path, body)
	got := strings.TrimSuffix(w.Body.String(), "\n")
	fatalIf(s.T, w.Code != status || !strings.Contains(got, text),
		"%s %s %s: %d %s, not %d %s", verb, path, body, w.Code, got, status, text)
	var e map[string]any
	errorIf(s.T, status >= 400 && verb != http.MethodHead && (json.Unmarshal([]byte(got), &e) != nil || len(e) != 1 || e["error"] == ""),
		"%s is no error", got)
	return got
}

// exactly is want for the whole answer.
func (s *store) exactly(want, verb, path, body string) {
	s.T.Helper()
	same(s.T, s.want(200, "", verb, path, body), want, verb, path, body)
}

// instance makes an instance, and returns its id.
func (s *store) instance(name string) string {
	s.T.Helper()
	var in struct{ ID string }
	err := json.Unmarshal([]byte(s.want(201, "", "POST", "instances", fmt.Sprintf(`{"name":%q}`, name))), &in)
	fatalIf(s.T, err != nil || in.ID == "", "%v", err)
	return in.ID
}

// set sets a record.
func (s *store) set(instance, namespace, key, value string) {
	s.T.Helper()
	body, err := json.Marshal(map[string]any{"instanceId": instance, "namespace": namespace, "key": key, "value": 0})
	must(s.T, err)
	s.want(200, "", "POST", "kv", strings.TrimSuffix(string(body), "0}")+value+"}")
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ`)
var millis = regexp.MustCompile(`"updated_at":\d{13}\b`)

// masked replaces ids and times, which differ from run to run.
func masked(text string) string {
	return millis.ReplaceAllString(times.ReplaceAllString(uuids.ReplaceAllString(text, "ID"), "TIME"), `"updated_at":MS`)
}

// bodies checks that requests are refused with a status. Arguments alternate between bodies and
// texts of the errors.
func (s *store) bodies(status int, verb, path string, bodies ...string) {
	s.T.Helper()
	for i := 0; i < len(bodies); i += 2 {
		s.want(status, bodies[i+1], verb, path, bodies[i])
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
