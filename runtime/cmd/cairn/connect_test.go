package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// A fakeConnection brings what was written down and answers calls with their input.
type fakeConnection struct {
	mu     sync.Mutex
	events []host.Delivery
	end    *host.Error
	calls  []host.Request
	closed chan struct{}
	once   sync.Once
}

func (n *fakeNode) accept(f *fakeConnection) (asked *host.ConnectRequest) {
	asked = new(host.ConnectRequest)
	f.closed = make(chan struct{})
	n.connect = func(r host.ConnectRequest) (host.LiveConnection, error) {
		*asked = r
		return f, nil
	}
	return asked
}

func (f *fakeConnection) Welcome() host.Welcome {
	return host.Welcome{Connection: "c1", Token: "secret", Events: []string{"said"}}
}

func (f *fakeConnection) Next(ctx context.Context) (host.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.events) > 0 {
		d := f.events[0]
		f.events = f.events[1:]
		return d, nil
	}
	if f.end != nil {
		return host.Delivery{}, f.end
	}
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-ctx.Done():
	case <-f.closed:
	}
	return host.Delivery{}, host.Errorf(host.Canceled, "closed")
}

func (f *fakeConnection) Subscribe(context.Context, ...string) error   { return nil }
func (f *fakeConnection) Unsubscribe(context.Context, ...string) error { return nil }

func (f *fakeConnection) Call(_ context.Context, r *host.Request) (host.Reply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, *r)
	if r.Method == "fail" {
		return host.Reply{}, host.Errorf(host.FailedPrecondition, "not now")
	}
	return host.Reply{Output: r.Input, Version: 7}, nil
}

func (f *fakeConnection) Close(context.Context, bool) error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func TestConnectPrintsEventsAndReplies(t *testing.T) {
	n := newFakeNode()
	asked := n.accept(&fakeConnection{})
	url := n.serve(t, "")
	r := runCommand(t, "say {\"text\": \"<hi>\"}\n\nsize\n", nil, "connect", "--url", url, "room/lobby", "--event=said", "--event=left", "--params", `{"name":"Ada"}`, "--existing")
	out := strings.Split(strings.TrimSpace(r.stdout), "\n")
	slices.Sort(out)
	if r.status != 0 || !slices.Equal(out, []string{"= say {\"text\":\"<hi>\"}", "= size"}) || r.stderr != "connected as c1\n" {
		t.Errorf("%+v", r)
	}
	if string(asked.Params) != `{"name":"Ada"}` || !slices.Equal(asked.Events, []string{"said", "left"}) || !asked.Existing {
		t.Errorf("%+v", asked)
	}

	f := &fakeConnection{events: []host.Delivery{{Missed: 2, Events: []host.EmittedEvent{{Sequence: 3, Version: 4, Name: "said", Time: epoch, Data: []byte(`{"n":1}`)}}}},
		end: host.Errorf(host.FailedPrecondition, "kicked")}
	n.accept(f)
	// Standard input that never ends does not keep it.
	in, _ := io.Pipe()
	var stdout, stderr strings.Builder
	c := &cli{stdin: in, stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	status := c.run(t.Context(), []string{"connect", "room/lobby", "--json", "--url", url})
	same(t, result{status, stdout.String(), stderr.String()}, 1, `{"connection":"c1","resumed":false,"events":["said"]}`+"\n"+
		`{"missed":2}`+"\n"+`{"sequence":3,"version":4,"name":"said","time":"2026-11-21T12:00:00Z","data":{"n":1}}`+"\n",
		`{"error":{"code":"failed_precondition","message":"kicked","page":"docs/errors/failed_precondition.md"}}`+"\n")
}

func TestConnectSaysWhichCallsFailed(t *testing.T) {
	n := newFakeNode()
	n.accept(&fakeConnection{})
	url := n.serve(t, "")
	same(t, runCommand(t, "fail 1\n", nil, "connect", "--url", url, "room/lobby"), 1, "",
		"connected as c1\nfail: failed_precondition: not now\nerror: 1 call failed\n")
	n.accept(&fakeConnection{})
	same(t, runCommand(t, "fail 1\n", nil, "connect", "--url", url, "room/lobby", "--json"), 1,
		`{"connection":"c1","resumed":false,"events":["said"]}`+"\n"+
			`{"call":"fail","error":{"code":"failed_precondition","message":"not now"}}`+"\n",
		`{"error":{"code":"local","message":"1 call failed"}}`+"\n")
	n.accept(&fakeConnection{})
	if r := runCommand(t, "say {\n", nil, "connect", "--url", url, "room/lobby"); r.status != 1 || !strings.Contains(r.stderr, "say: invalid_argument") {
		t.Errorf("%+v", r)
	}
	n.connect = nil
	same(t, at(t, url, "connect", "room/lobby"), 1, "", "error: permission_denied: nobody may connect\n  see docs/errors/permission_denied.md\n")
}

func TestConnectListensUntilInterrupted(t *testing.T) {
	n := newFakeNode()
	f := &fakeConnection{events: []host.Delivery{{Events: []host.EmittedEvent{{Sequence: 1, Name: "said", Time: epoch, Data: []byte(`1`)}}}}}
	n.accept(f)
	url := n.serve(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr := &interrupter{cancel: cancel}, new(strings.Builder)
	c := &cli{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, getenv: func(string) string { return "" }}
	if status := c.run(ctx, []string{"connect", "room/lobby", "--listen", "--url", url}); status != 0 || stderr.String() != "connected as c1\n" {
		t.Errorf("status %d, %s", status, stderr)
	}
}

func TestConnections(t *testing.T) {
	n := newFakeNode()
	n.respond(map[string]any{
		host.ConnectionList: func(r host.Request) (any, error) {
			if strings.Contains(string(r.Input), "after") {
				return host.ConnectionListOutput{Connections: []host.ConnectionInfo{{ID: "c2", Transport: "sse", Connected: epoch, Lost: &epoch}}}, nil
			}
			return host.ConnectionListOutput{Connections: []host.ConnectionInfo{{ID: "c1", Events: []string{"said", "left"}, Transport: "websocket", Connected: epoch}}, More: true}, nil
		},
		host.ConnectionClose: host.CountOutput{Count: 1},
	})
	url := n.serve(t, "")
	if all := documents[host.ConnectionInfo](t, at(t, url, "connections", "list", "room/lobby", "--json").stdout); len(all) != 2 || all[1].Lost == nil {
		t.Errorf("%+v", all)
	}
	r := at(t, url, "connections", "list", "room/lobby")
	if r.status != 0 || !strings.Contains(r.stdout, "c1          websocket  2026-11-21T12:00:00Z  -     said,left\n") || !strings.Contains(r.stdout, "c2") {
		t.Errorf("%+v", r)
	}
	same(t, at(t, url, "connections", "close", "room/lobby", "c1", "--reason=be nice"), 0, "closed c1 of room/lobby\n", "")
	if got := n.asked(host.ConnectionClose)[0]; got != `room/lobby {"connection":"c1","reason":"be nice"}` {
		t.Error(got)
	}
	n.respond(map[string]any{host.ConnectionClose: host.CountOutput{}, host.ConnectionList: host.ConnectionListOutput{}})
	same(t, at(t, url, "connections", "close", "room/lobby", "c9"), 1, "", "error: not_found: room/lobby has no connection c9\n  see docs/errors/not_found.md\n")
	same(t, at(t, url, "connections", "list", "room/lobby"), 0, "", "no connections\n")
}
