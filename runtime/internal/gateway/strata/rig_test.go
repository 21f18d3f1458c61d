package strata_test

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
	t       testing.TB
	gateway http.Handler
	node    *hosttest.Recorder
	session string // of the commands; "" is none
	actor   string
	token   string
}

// open opens a node with rooms whose stores are open to all callers, and with closed rooms.
func open(t testing.TB) *store { return openWith(t, serve.Options{}) }

func openWith(t testing.TB, o serve.Options) *store {
	t.Helper()
	room, closed := hosttest.Room(), hosttest.Room()
	room.OpenKV, closed.Type = true, "closed"
	o.Behaviors = []*host.Behavior{room, closed}
	node := nodetest.Open(t, o.Behaviors...)
	f, err := serve.New(o)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return &store{t: t, gateway: gateway.New(f, gateway.Options{Node: node}), node: node, actor: "room/a"}
}

// in returns the store with a session.
func (s *store) in(session string) *store {
	other := *s
	other.session = session
	return &other
}

// of returns the store of another actor.
func (s *store) of(actor string) *store {
	other := *s
	other.actor = actor
	return &other
}

// send sends a body.
func (s *store) send(body string) (status int, answer string) {
	s.t.Helper()
	return s.request("POST", "execute", body)
}

func (s *store) request(verb, path, body string, headers ...string) (status int, answer string) {
	r := httptest.NewRequest(verb, "/actors/"+s.actor+"/-/strata/"+path, strings.NewReader(body))
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w.Code, strings.TrimSuffix(w.Body.String(), "\n")
}

// do executes a command, and returns the answer behind its status.
func (s *store) do(command string) (status int, answer string) {
	s.t.Helper()
	session := ""
	if s.session != "" {
		session = `"session":"` + s.session + `",`
	}
	return s.send(`{` + session + `"command":` + command + `}`)
}

// want executes a command, and wants an answer.
func (s *store) want(answer, command string) {
	s.t.Helper()
	status, got := s.do(command)
	errorIf(s.t, status != 200 || got != answer, "%s: %d %s, not %s", command, status, got, answer)
}

// ok executes a command that succeeds, and returns the answer with words for its versions and times.
func (s *store) ok(command string) string {
	s.t.Helper()
	status, got := s.do(command)
	errorIf(s.t, status != 200, "%.200s: %d %s", command, status, got)
	return masked(got)
}

// shows is want for an answer with versions or times.
func (s *store) shows(answer, command string) {
	s.t.Helper()
	same(s.t, s.ok(command), answer, command)
}

var errorForm = regexp.MustCompile(`^\{"error":\{"name":"[A-Za-z]+","message":"(\\.|[^"\\])+"(,"earliest":"[0-9]+")?\}\}$`)

// fails executes a command, and wants an error whose name and message contain texts.
func (s *store) fails(status int, name, text, command string) {
	s.t.Helper()
	code, got := s.do(command)
	s.failed(code, got, status, name, text, command)
}

func (s *store) failed(code int, got string, status int, name, text, command string) {
	s.t.Helper()
	errorIf(s.t, code != status || !errorForm.MatchString(got) || !strings.Contains(got, `"name":"`+name+`"`) || !strings.Contains(got, text),
		"%.200s: %d %s, not %d %s with %q", command, code, got, status, name, text)
}

// call calls a method of the actor.
func (s *store) call(method, input string) string {
	s.t.Helper()
	typ, key, _ := strings.Cut(s.actor, "/")
	r, err := s.node.Call(context.Background(), &host.Request{
		Address: host.Address{Type: typ, Key: []string{key}}, Method: method, Codec: host.JSON, Input: []byte(input),
	})
	errorIf(s.t, err != nil, "%v %v %v", method, input, err)
	return string(r.Output)
}

// methods are the calls that something makes.
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

var numbers = regexp.MustCompile(`"(version|timestamp|started_at|Version)":\d+`)

// masked puts words for the versions and times of an answer.
func masked(answer string) string { return numbers.ReplaceAllString(answer, `"$1":N`) }

// tok returns the store with a new token.
func (s *store) tok(input string) *store {
	s.t.Helper()
	var out struct{ Token string }
	must(s.t, json.Unmarshal([]byte(s.call("token.create", input)), &out))
	other := *s
	other.token = out.Token
	return &other
}

// bodies wants some bodies to be refused with a status and the name of an error: bodies and texts of the errors by turns.
func (s *store) bodies(status int, name string, bodies ...string) {
	s.t.Helper()
	for i := 0; i < len(bodies); i += 2 {
		code, got := s.send(bodies[i])
		s.failed(code, got, status, name, bodies[i+1], bodies[i])
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
