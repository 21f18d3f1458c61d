package keyval_test

import (
	"encoding/json"
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
	return &store{gatewaytest.Open(t, "keyval/api/", o)}
}

// want sends a request, checks the status and a text in the answer, and returns the answer.
func (s *store) want(status int, text, verb, path, body string) string {
	s.T.Helper()
	w := s.Send(verb, path, body)
	got := strings.TrimSuffix(w.Body.String(), "\n")
	errorIf(s.T, w.Code != status || !strings.Contains(got, text),
		"%s %s %.200s: %d %.500s, not %d %s", verb, path, body, w.Code, got, status, text)
	var e map[string]any
	errorIf(s.T, status >= 400 && (json.Unmarshal([]byte(got), &e) != nil || len(e) != 1 || e["error"] == ""),
		"%s is no error", got)
	return got
}

// exactly is want for the whole answer, with STAMP for each versionstamp.
func (s *store) exactly(want, verb, path, body string) {
	s.T.Helper()
	same(s.T, masked(s.want(200, "", verb, path, body)), want, verb, path, body)
}

var stamps = regexp.MustCompile(`\b0{8}[0-9a-f]{12}\b`)

func masked(text string) string { return stamps.ReplaceAllString(text, "STAMP") }

// put sets entries. Arguments alternate between paths and values.
func (s *store) put(entries ...string) {
	s.T.Helper()
	for i := 0; i < len(entries); i += 2 {
		s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "PUT", "keys/"+entries[i], entries[i+1])
	}
}

// stamp returns the versionstamp of a key.
func (s *store) stamp(path string) string {
	s.T.Helper()
	return stamps.FindString(s.want(200, "", "GET", "keys/"+path, ""))
}

// keys lists the keys of a prefix. Parameters may follow the prefix.
func (s *store) keys(prefix string) string {
	s.T.Helper()
	var list []struct{ Key json.RawMessage }
	s.decode(s.want(200, "", "GET", "keys?prefix="+prefix, ""), &list)
	var keys []string
	for _, e := range list {
		keys = append(keys, string(e.Key))
	}
	return strings.Join(keys, " ")
}

func (s *store) decode(text string, v any) {
	s.T.Helper()
	must(s.T, json.Unmarshal([]byte(text), v))
}

// commit does mutations.
func (s *store) commit(mutations string) {
	s.T.Helper()
	s.exactly(`{"ok":true,"versionstamp":"STAMP"}`, "POST", "atomic", `{"mutations":[`+mutations+`]}`)
}

// bodies checks that requests are refused with a status. Arguments alternate between bodies and
// texts of the errors.
func (s *store) bodies(status int, verb, path string, bodies ...string) {
	s.T.Helper()
	for i := 0; i < len(bodies); i += 2 {
		s.want(status, bodies[i+1], verb, path, bodies[i])
	}
}

// paths is bodies with one body. Arguments alternate between paths and texts of the errors.
func (s *store) paths(status int, verb, body string, paths ...string) {
	s.T.Helper()
	for i := 0; i < len(paths); i += 2 {
		s.want(status, paths[i+1], verb, paths[i], body)
	}
}

var must, errorIf = testutil.Must, testutil.ErrorIf

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
