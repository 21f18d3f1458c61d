package strata_test

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
type store struct {
	*gatewaytest.Store
	session string // of the commands; "" means none
	token   string
}

func open(t testing.TB) *store { return openWith(t, serve.Options{}) }

func openWith(t testing.TB, o serve.Options) *store {
	return &store{Store: gatewaytest.Open(t, "strata/", o)}
}

// in returns the store with a session.
func (s *store) in(session string) *store {
	other := *s
	other.session = session
	return &other
}

// of returns the store of another actor.
func (s *store) of(actor string) *store {
	room, other := *s.Store, *s
	room.Actor, other.Store = actor, &room
	return &other
}

// send sends a body.
func (s *store) send(body string) (status int, answer string) {
	s.T.Helper()
	return s.request("POST", "execute", body)
}

func (s *store) request(verb, path, body string, headers ...string) (status int, answer string) {
	if s.token != "" {
		headers = append([]string{"Authorization: Bearer " + s.token}, headers...)
	}
	w := s.Send(verb, path, body, headers...)
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// do executes a command, and returns the status and the answer.
func (s *store) do(command string) (status int, answer string) {
	s.T.Helper()
	session := ""
	if s.session != "" {
		session = `"session":"` + s.session + `",`
	}
	return s.send(`{` + session + `"command":` + command + `}`)
}

// want executes a command, and checks the answer.
func (s *store) want(answer, command string) {
	s.T.Helper()
	status, got := s.do(command)
	errorIf(s.T, status != 200 || got != answer, "%s: %d %s, not %s", command, status, got, answer)
}

// ok executes a command that must succeed, and returns the answer with its versions and times
// masked.
func (s *store) ok(command string) string {
	s.T.Helper()
	status, got := s.do(command)
	errorIf(s.T, status != 200, "%.200s: %d %s", command, status, got)
	return masked(got)
}

// shows is want for an answer with versions or times.
func (s *store) shows(answer, command string) {
	s.T.Helper()
	same(s.T, s.ok(command), answer, command)
}

var errorForm = regexp.MustCompile(`^\{"error":\{"name":"[A-Za-z]+","message":"(\\.|[^"\\])+"(,"earliest":"[0-9]+")?\}\}$`)

// fails executes a command, and checks the name of its error and a text in the message.
func (s *store) fails(status int, name, text, command string) {
	s.T.Helper()
	code, got := s.do(command)
	s.failed(code, got, status, name, text, command)
}

func (s *store) failed(code int, got string, status int, name, text, command string) {
	s.T.Helper()
	errorIf(s.T, code != status || !errorForm.MatchString(got) || !strings.Contains(got, `"name":"`+name+`"`) ||
		!strings.Contains(got, text),
		"%.200s: %d %s, not %d %s with %q", command, code, got, status, name, text)
}

var numbers = regexp.MustCompile(`"(version|timestamp|started_at|Version)":\d+`)

// masked replaces the versions and times of an answer.
func masked(answer string) string { return numbers.ReplaceAllString(answer, `"$1":N`) }

// tok returns the store with a new token.
func (s *store) tok(input string) *store {
	s.T.Helper()
	var out struct{ Token string }
	must(s.T, json.Unmarshal([]byte(s.Call("token.create", input)), &out))
	other := *s
	other.token = out.Token
	return &other
}

// bodies checks that bodies are refused with a status and the name of an error. Arguments alternate
// between bodies and texts of the errors.
func (s *store) bodies(status int, name string, bodies ...string) {
	s.T.Helper()
	for i := 0; i < len(bodies); i += 2 {
		code, got := s.send(bodies[i])
		s.failed(code, got, status, name, bodies[i+1], bodies[i])
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
