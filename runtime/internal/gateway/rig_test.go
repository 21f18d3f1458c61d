package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A setup holds the options of a gateway and of its front.
type setup struct {
	Node           Node
	Databases      host.Databases
	Runs           host.RunLister
	Health         func() error
	Behaviors      []*host.Behavior
	Authorize      func(context.Context, serve.AuthRequest) error
	Token          string
	AllowedOrigins []string
	LoopbackOnly   bool
	Limits         serve.Limits
	Registerer     prometheus.Registerer
	Logger         *slog.Logger
}

// newGateway makes a gateway and its front. Without a node in the setup, tests must not use one.
func newGateway(t testing.TB, s setup) *Gateway {
	t.Helper()
	if s.Behaviors == nil {
		s.Behaviors = []*host.Behavior{hosttest.Room()}
	}
	if s.Node == nil {
		s.Node = failing(nil)
	}
	f, err := serve.New(serve.Options{
		Behaviors: s.Behaviors, Authorize: s.Authorize, Token: s.Token, AllowedOrigins: s.AllowedOrigins,
		LoopbackOnly: s.LoopbackOnly, Limits: s.Limits, Registerer: s.Registerer, Logger: s.Logger,
	})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return New(f, Options{Node: s.Node, Databases: s.Databases, Runs: s.Runs, Health: s.Health})
}

// failing is a node whose operations fail, or panic if err is nil.
func failing(err error) *hosttest.Recorder {
	return &hosttest.Recorder{Before: func(context.Context, string, *host.Request) error {
		if err == nil {
			panic("the node was asked")
		}
		return err
	}}
}

// ask sends one request directly to the handler. Headers are "Name: value".
func ask(g http.Handler, method, url, body string, headers ...string) *httptest.ResponseRecorder {
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, url, r)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, req)
	return w
}

func errorOf(t testing.TB, w *httptest.ResponseRecorder) *host.Error {
	t.Helper()
	e := new(host.Error)
	same(t, json.Unmarshal(w.Body.Bytes(), e), nil, w.Body)
	return e
}

// A pipeListener accepts connections that exist only in memory, so that servers run in a synctest
// bubble. A pipe has no buffer: a write blocks until the other side reads.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipe() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6420} }

func (l *pipeListener) dial() net.Conn {
	client, server := net.Pipe()
	l.conns <- server
	return client
}

// launch runs the gateway's server in the bubble.
func launch(t *testing.T, g *Gateway) *pipeListener {
	l := newPipe()
	s := g.front.Server(g)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		g.front.Close()
		same(t, <-served, http.ErrServerClosed)
	})
	return l
}

// fakeDatabases reports its requests. The key of the actor decides its behavior.
type fakeDatabases struct{ heard func(string) }

func (*fakeDatabases) QueryMany(_ context.Context, in *host.QueryManyInput) (host.QueryManyOutput, error) {
	if in.SQL == "" {
		return host.QueryManyOutput{}, host.Errorf(host.InvalidArgument, "there is no SQL").With("field", "sql")
	}
	return host.QueryManyOutput{Columns: []host.SQLColumn{{Name: in.SQL}},
		Actors: []host.ActorRows{{Key: in.Prefix, Rows: [][]any{{in.Sort, in.Limit, in.Where}}}}, Read: 1, Cursor: in.Cursor}, nil
}

func (d *fakeDatabases) ExportSQL(_ context.Context, a host.Address, w io.Writer) error {
	name, page := fmt.Sprintf("%s %q", a.Type, a.Key), make([]byte, 4096)
	for n := 0; name == `room ["half"]` && n < 1<<20 || name == `room ["endless"]`; n += len(page) {
		if _, err := w.Write(page); err != nil {
			d.heard(err.Error())
			return err
		}
	}
	switch name {
	case `room ["half"]`:
		return errors.New("a page is missing")
	case `room ["none"]`:
		w.Write(page) // less than the export buffer
		return host.Errorf(host.NotFound, "there is no database")
	}
	_, err := io.WriteString(w, name)
	return err
}

func (d *fakeDatabases) ImportSQL(_ context.Context, a host.Address, file io.Reader, reason string) (host.SQLStatusOutput, error) {
	if a.Key[0] == "large" {
		return host.SQLStatusOutput{}, host.Errorf(host.TooLarge, "%d bytes", file.(interface{ Len() int }).Len())
	}
	b, err := io.ReadAll(file)
	if err != nil {
		return host.SQLStatusOutput{}, host.Errorf(host.Internal, "the import's own words")
	}
	d.heard(fmt.Sprintf("imported %s %q %q: %s", a.Type, a.Key, reason, b))
	return host.SQLStatusOutput{Exists: true, Bytes: int64(len(b)), Sequence: 1}, nil
}

// fakeRuns answers with its request.
type fakeRuns struct{}

func (fakeRuns) Runs(_ context.Context, q host.RunQuery) (host.RunPage, error) {
	return host.RunPage{Runs: []host.ListedRun{{Type: q.Type, Key: []string{}, State: q.State, Reason: q.Reason,
		Since: q.Before, Text: fmt.Sprint(q.Limit)}}, Cursor: q.Cursor}, nil
}

func (fakeRuns) CountRuns(context.Context) (host.RunCounts, error) {
	return host.RunCounts{Counts: []host.RunCount{{Type: "shop", State: wfhost.StateFailed, Count: 3}},
		Uncertain: []host.Address{{Type: "shop", Key: []string{"a"}}}}, nil
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}
