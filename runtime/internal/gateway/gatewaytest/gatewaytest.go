// Package gatewaytest opens nodes behind gateways for tests of the interfaces of a store.
package gatewaytest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// A Store is the store of an actor, behind a gateway.
type Store struct {
	T       testing.TB
	Node    *hosttest.Recorder
	Front   *serve.Front
	Gateway http.Handler
	Actor   string // type and key as in a path, "room/a" at first
	Path    string // of the interface, after the path of the actor
}

// Open opens a node until the test ends. Its types are rooms and cells, whose stores are open to
// all callers, and closed rooms. path is the path of an interface.
func Open(t testing.TB, path string, o serve.Options) *Store {
	t.Helper()
	room, cell, closed := hosttest.Room(), hosttest.Room(), hosttest.Room()
	cell.Type, closed.Type = "cell", "closed"
	room.OpenKV, cell.OpenKV, room.Queues = true, true, []host.Queue{{Name: "kv"}}
	o.Behaviors = []*host.Behavior{room, cell, closed}
	node := nodetest.Open(t, o.Behaviors...)
	f, err := serve.New(o)
	testutil.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return &Store{t, node, f, gateway.New(f, gateway.Options{Node: node}), "room/a", path}
}

// Request makes a request to the interface. Headers are "Name: value".
func (s *Store) Request(verb, path, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(verb, "/actors/"+s.Actor+"/-/"+s.Path+path, strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	return r
}

// Send sends a request as in Request, and returns the answer.
func (s *Store) Send(verb, path, body string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Gateway.ServeHTTP(w, s.Request(verb, path, body, headers...))
	return w
}

// Call calls a method of the actor in JSON.
func (s *Store) Call(method, input string) string {
	s.T.Helper()
	typ, key, _ := strings.Cut(s.Actor, "/")
	r, err := s.Node.Call(context.Background(), &host.Request{
		Address: host.Address{Type: typ, Key: []string{key}}, Method: method, Codec: host.JSON, Input: []byte(input),
	})
	testutil.Must(s.T, err, method, input)
	return string(r.Output)
}

// Methods returns the methods that do calls, separated by spaces.
func (s *Store) Methods(do func()) string {
	s.T.Helper()
	before := len(s.Node.Requests())
	do()
	var names []string
	for _, r := range s.Node.Requests()[before:] {
		names = append(names, r.Method)
	}
	return strings.Join(names, " ")
}
