package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	front "github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A fakeNode is a node with actors that were written down, behind the real gateway.
type fakeNode struct {
	mu     sync.Mutex
	actors []host.Status
	calls  []host.Request
	keys   []host.StoredKey
	events []host.EmittedEvent
	// wait, if set, may keep a call waiting; answer, if set, answers calls.
	wait   func(context.Context, host.Request)
	answer func(host.Request) (host.Reply, error)
	// subscriptions counts the streams; each ends with Unavailable after cutAfter events, if that is not 0.
	subscriptions int
	cutAfter      int
	// connect, if set, answers clients that connect.
	connect func(host.ConnectRequest) (host.LiveConnection, error)
	// gone ends every stream that has delivered everything.
	gone bool
	// database is what the SQLite file of every actor holds; imported says which actor was given it, and why.
	database []byte
	imported string
	// runs are the workflow runs that are listed; runQueries what was asked for.
	runs       []host.ListedRun
	runQueries []host.RunQuery
	// uncertain are the actors that every page leaves out.
	uncertain []host.Address
}

// Runs pages with the index of the next run as the cursor.
func (n *fakeNode) Runs(_ context.Context, q host.RunQuery) (host.RunPage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runQueries = append(n.runQueries, q)
	start := 0
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "at-%d", &start); err != nil {
			return host.RunPage{}, host.Errorf(host.InvalidArgument, "bad cursor")
		}
	}
	end := min(start+min(q.Limit, 2), len(n.runs)) // pages are short
	page := host.RunPage{Runs: n.runs[start:end], Uncertain: n.uncertain}
	if end < len(n.runs) {
		page.Cursor = fmt.Sprintf("at-%d", end)
	}
	return page, nil
}

// CountRuns counts what is listed as one group.
func (n *fakeNode) CountRuns(context.Context) (host.RunCounts, error) {
	counts := []host.RunCount{{Type: "cell", State: "paused", Reason: "diverged", Count: int64(len(n.runs))}}
	return host.RunCounts{Counts: counts, Uncertain: n.uncertain}, nil
}

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newFakeNode() *fakeNode {
	n := &fakeNode{}
	for i, key := range [][]string{{"acme"}, {"acme", "eu"}, {"acme", "us"}, {"a/b", ""}, {"zoo"}} {
		n.actors = append(n.actors, host.Status{
			ID: fmt.Sprintf("0000000%d-0000-8000-8000-000000000000", i), Type: "cell", Key: key, State: host.Asleep,
			Version: uint64(i * 700), Generation: 1, Keys: int64(i), Bytes: int64(i * 1000), Created: epoch, Updated: epoch.Add(time.Duration(i) * time.Hour),
		})
	}
	n.actors[1].State = host.Awake
	n.actors[1].Mailbox = 3
	n.actors[4].State = host.Failed
	n.actors[4].Failure = &host.Failure{Reason: "state does not decode:\nbad byte", Since: epoch, Attempts: 4, RetryAt: epoch.Add(time.Minute)}
	n.actors[4].Alarms = 2
	n.actors[4].NextAlarm = &epoch
	n.actors = append(n.actors, host.Status{ID: "00000009-0000-8000-8000-000000000000", Type: "room", Key: []string{"lobby"}, State: host.Asleep, Created: epoch, Updated: epoch})
	for i := range 5 {
		n.events = append(n.events, host.EmittedEvent{
			Sequence: uint64(i + 1), Version: uint64(i + 1), Name: []string{"changed", "other"}[i%2], Time: epoch, Data: fmt.Appendf(nil, `{"n":%d}`, i+1),
		})
	}
	n.keys = []host.StoredKey{
		{Key: []byte{1}, Text: "persisted", Size: 5, Version: 2, Created: epoch, Updated: epoch, Value: []byte{3, 0xa1, 0x61, 'n', 7}},
		{Key: []byte{4, 2, 'a', 0}, Text: `kv("a")`, Size: 13, Version: 1, Created: epoch, Updated: epoch, Value: []byte(`{"big": 1e40}`)},
		{Key: []byte{4, 2, 'b', 0}, Text: `kv("b")`, Size: 4, Version: 1, Created: epoch, Updated: epoch, Value: []byte{0xff, 0xfe, 0, 1}},
		{Key: []byte{4, 2, 'c', 0}, Text: `kv("c")`, Size: 0, Version: 1, Created: epoch, Updated: epoch},
	}
	return n
}

// serve puts the node behind a gateway and returns its address.
func (n *fakeNode) serve(t *testing.T, token string) string {
	t.Helper()
	f, err := front.New(front.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gateway.New(f, gateway.Options{Node: n}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

var _ http.Handler = (*gateway.Gateway)(nil)

func (n *fakeNode) find(a host.Address) (int, error) {
	if a.Type != "cell" && a.Type != "room" {
		return 0, host.Errorf(host.UnknownType, "the node hosts no actor type %q", a.Type)
	}
	i := slices.IndexFunc(n.actors, func(s host.Status) bool { return s.Type == a.Type && slices.Equal(s.Key, a.Key) })
	if i < 0 {
		return 0, host.Errorf(host.NotFound, "there is no actor %s", formatAddress(a.Type, a.Key))
	}
	return i, nil
}

func (n *fakeNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if n.wait != nil {
		n.wait(ctx, *r)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, *r)
	_, err := n.find(r.Address)
	switch {
	case host.CodeOf(err) == host.UnknownType:
		return host.Reply{}, err
	case r.Existing && err != nil:
		return host.Reply{}, err
	case r.Create && err == nil:
		return host.Reply{}, host.Errorf(host.AlreadyExists, "the key is taken")
	case n.answer != nil:
		return n.answer(*r)
	}
	output, err := json.Marshal(map[string]string{"method": r.Method, "input": string(r.Input)})
	return host.Reply{Output: output, Version: 7, Replayed: r.IdempotencyKey == "used"}, err
}

func (n *fakeNode) Lookup(_ context.Context, a host.Address) (host.Status, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := n.find(a)
	if err != nil {
		return host.Status{}, err
	}
	return n.actors[i], nil
}

// List pages with the index of the next actor as the cursor.
func (n *fakeNode) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	start := 0
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "at-%d", &start); err != nil {
			return host.ListPage{}, host.Errorf(host.InvalidArgument, "bad cursor")
		}
	}
	page := host.ListPage{Uncertain: n.uncertain}
	for i := start; i < len(n.actors); i++ {
		s := n.actors[i]
		if q.Type != "" && s.Type != q.Type || len(s.Key) < len(q.Prefix) || !slices.Equal(s.Key[:len(q.Prefix)], q.Prefix) {
			continue
		}
		if len(page.Actors) == cmp.Or(q.Limit, 100) {
			page.Cursor = fmt.Sprintf("at-%d", i)
			break
		}
		page.Actors = append(page.Actors, s)
	}
	return page, nil
}

func (n *fakeNode) Destroy(_ context.Context, a host.Address) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, err := n.find(a)
	if err == nil {
		n.actors = slices.Delete(n.actors, i, i+1)
	}
	return err
}

func (n *fakeNode) Inspect(_ context.Context, a host.Address, q host.InspectQuery) (host.InspectPage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.find(a); err != nil {
		return host.InspectPage{}, err
	}
	var page host.InspectPage
	for _, k := range n.keys {
		if string(k.Key) <= string(q.After) {
			continue
		}
		if len(page.Keys) == cmp.Or(q.Limit, 100) {
			page.Next = page.Keys[len(page.Keys)-1].Key
			break
		}
		k.Value = k.Value[:min(len(k.Value), q.ValueBytes)]
		page.Keys = append(page.Keys, k)
	}
	return page, nil
}

func (n *fakeNode) Subscribe(_ context.Context, a host.Address, s host.Subscription) (host.EventStream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.find(a); err != nil {
		return nil, err
	}
	n.subscriptions++
	stream := &fakeStream{cut: n.cutAfter, gone: n.gone}
	for _, e := range n.events {
		if s.Resume && e.Sequence > s.After && (len(s.Names) == 0 || slices.Contains(s.Names, e.Name)) {
			stream.events = append(stream.events, e)
		}
	}
	// The first event is no longer kept.
	if s.Resume && s.After == 0 && len(stream.events) > 0 {
		stream.missed, stream.events = 1, stream.events[1:]
	}
	return stream, nil
}

// Connect answers with the connection that was written down.
func (n *fakeNode) Connect(_ context.Context, a host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.find(a); err != nil {
		return nil, err
	}
	if n.connect == nil {
		return nil, host.Errorf(host.PermissionDenied, "nobody may connect")
	}
	return n.connect(r)
}

func (n *fakeNode) CallOver(ctx context.Context, _ string, r *host.Request) (host.Reply, error) {
	return n.Call(ctx, r)
}

func (n *fakeNode) Disconnect(context.Context, host.Address, string) error {
	return host.Errorf(host.Unauthenticated, "no such connection")
}

type fakeStream struct {
	missed uint64
	events []host.EmittedEvent
	cut    int
	gone   bool
	sent   int
}

func (s *fakeStream) Next(ctx context.Context) (host.Delivery, error) {
	switch {
	case s.cut > 0 && s.sent == s.cut:
		return host.Delivery{}, host.Errorf(host.Unavailable, "the node is shutting down").Retry()
	case len(s.events) > 0:
		d := host.Delivery{Missed: s.missed, Events: s.events[:1:1]}
		s.missed, s.events = 0, s.events[1:]
		s.sent++
		return d, nil
	case s.gone:
		return host.Delivery{}, host.Errorf(host.Destroyed, "the actor was destroyed")
	}
	<-ctx.Done()
	return host.Delivery{}, host.Errorf(host.Canceled, "canceled")
}

func (s *fakeStream) Close() {}

// A result is what a run of the command left behind.
type result struct {
	status         int
	stdout, stderr string
}

// runCommand runs the command in this process.
func runCommand(t *testing.T, stdin string, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	c := &cli{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}
	status := c.run(t.Context(), args)
	return result{status, stdout.String(), stderr.String()}
}

// at runs the command against the node at url.
func at(t *testing.T, url string, args ...string) result {
	t.Helper()
	return runCommand(t, "", map[string]string{"CAIRN_URL": url}, args...)
}
