// Package hosttest has a recorder of requests to a node, and an actor type, for tests of gateways
// and clients.
package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
)

// A Served is the node behind a gateway.
type Served interface {
	host.Node
	host.EventSource
	host.Inspector
	host.Connector
	kv.Watcher
	token.Checker
}

// A Recorder records the operations of a node and passes them on.
type Recorder struct {
	// Node handles the operations. It may be nil if Before fails each of them.
	Node Served
	// Before, if set, is called before each operation and may wait. Its error is the answer. op is
	// "call", "lookup", "list", "destroy", "inspect", "subscribe", "unsubscribe", "watch", "token",
	// "connect", "close" or "disconnect"; r is nil except for calls.
	Before func(ctx context.Context, op string, r *host.Request) error

	mu       sync.Mutex
	told     []string
	requests []host.Request
}

// Told returns the operations since its last call, one line each: the operation, the actor and the
// rest.
func (n *Recorder) Told() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.told
	n.told = nil
	return told
}

// Requests returns all calls so far. A call with a token has it as its connection.
func (n *Recorder) Requests() []host.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests)
}

// begin records an operation and calls Before.
func (n *Recorder) begin(ctx context.Context, op string, a host.Address, format string, args ...any) error {
	n.note(op, a, format, args...)
	if n.Before == nil {
		return nil
	}
	return n.Before(ctx, op, nil)
}

func (n *Recorder) note(op string, a host.Address, format string, args ...any) {
	name := strings.TrimSuffix(a.Type+"/"+strings.Join(a.Key, "/"), "/")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = append(n.told, strings.TrimSpace(op+" "+name+" "+fmt.Sprintf(format, args...)))
}

// call records a call over a connection, or over none, and calls Before.
func (n *Recorder) call(ctx context.Context, r *host.Request, at host.Address, connection string) error {
	c := *r
	c.Address, c.Connection, c.Input, c.Order = at, connection, bytes.Clone(r.Input), nil
	n.note("call", at, "%s %s", r.Method, r.Input)
	n.mu.Lock()
	n.requests = append(n.requests, c)
	n.mu.Unlock()
	if n.Before == nil {
		return nil
	}
	return n.Before(ctx, "call", r)
}

// Call implements host.Node.
func (n *Recorder) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if err := n.call(ctx, r, r.Address, r.Connection); err != nil {
		return host.Reply{}, err
	}
	return n.Node.Call(ctx, r)
}

// Lookup implements host.Node.
func (n *Recorder) Lookup(ctx context.Context, at host.Address) (host.Status, error) {
	if err := n.begin(ctx, "lookup", at, ""); err != nil {
		return host.Status{}, err
	}
	return n.Node.Lookup(ctx, at)
}

// List implements host.Node.
func (n *Recorder) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	if err := n.begin(ctx, "list", host.Address{}, "%+v", q); err != nil {
		return host.ListPage{}, err
	}
	return n.Node.List(ctx, q)
}

// Destroy implements host.Node.
func (n *Recorder) Destroy(ctx context.Context, at host.Address) error {
	if err := n.begin(ctx, "destroy", at, ""); err != nil {
		return err
	}
	return n.Node.Destroy(ctx, at)
}

// Inspect implements host.Inspector.
func (n *Recorder) Inspect(ctx context.Context, at host.Address, q host.InspectQuery) (host.InspectPage, error) {
	if err := n.begin(ctx, "inspect", at, "%+v", q); err != nil {
		return host.InspectPage{}, err
	}
	return n.Node.Inspect(ctx, at, q)
}

// Subscribe implements host.EventSource.
func (n *Recorder) Subscribe(ctx context.Context, at host.Address, s host.Subscription) (host.EventStream, error) {
	if err := n.begin(ctx, "subscribe", at, "%+v", s); err != nil {
		return nil, err
	}
	return n.Node.Subscribe(ctx, at, s)
}

// WatchKV implements kv.Watcher.
func (n *Recorder) WatchKV(ctx context.Context, at host.Address, w kv.Watching) (kv.Watch, error) {
	if err := n.begin(ctx, "watch", at, "%+v", w); err != nil {
		return nil, err
	}
	return n.Node.WatchKV(ctx, at, w)
}

// CheckToken implements token.Checker. The record leaves out the token.
func (n *Recorder) CheckToken(ctx context.Context, at host.Address, text string) (*token.Grant, error) {
	if err := n.begin(ctx, "token", at, ""); err != nil {
		return nil, err
	}
	return n.Node.CheckToken(ctx, at, text)
}

// Connect implements host.Connector.
func (n *Recorder) Connect(ctx context.Context, at host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	after := "-"
	if r.HasAfter {
		after = host.Position{Sequence: r.After, Life: r.Life}.String()
	}
	if err := n.begin(ctx, "connect", at, "%s params=%s events=%q token=%q after=%s existing=%t trace=%q",
		r.Transport, r.Params, r.Events, r.Token, after, r.Existing, r.Traceparent); err != nil {
		return nil, err
	}
	l, err := n.Node.Connect(ctx, at, r)
	if err != nil {
		return nil, err
	}
	return &live{l, n, at}, nil
}

// CallOver implements host.Connector.
func (n *Recorder) CallOver(ctx context.Context, token string, r *host.Request) (host.Reply, error) {
	if err := n.call(ctx, r, r.Address, token); err != nil {
		return host.Reply{}, err
	}
	return n.Node.CallOver(ctx, token, r)
}

// Disconnect implements host.Connector.
func (n *Recorder) Disconnect(ctx context.Context, at host.Address, token string) error {
	if err := n.begin(ctx, "disconnect", at, "%s", token); err != nil {
		return err
	}
	return n.Node.Disconnect(ctx, at, token)
}

// live is a connection of the node behind a recorder.
type live struct {
	host.LiveConnection
	n  *Recorder
	at host.Address
}

func (l *live) Subscribe(ctx context.Context, events ...string) error {
	if err := l.n.begin(ctx, "subscribe", l.at, "%q", events); err != nil {
		return err
	}
	return l.LiveConnection.Subscribe(ctx, events...)
}

func (l *live) Unsubscribe(ctx context.Context, events ...string) error {
	if err := l.n.begin(ctx, "unsubscribe", l.at, "%q", events); err != nil {
		return err
	}
	return l.LiveConnection.Unsubscribe(ctx, events...)
}

func (l *live) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if err := l.n.call(ctx, r, l.at, l.Welcome().Connection); err != nil {
		return host.Reply{}, err
	}
	return l.LiveConnection.Call(ctx, r)
}

func (l *live) Close(ctx context.Context, lost bool) error {
	if err := l.n.begin(ctx, "close", l.at, "%s lost=%t", l.Welcome().Connection, lost); err != nil {
		return err
	}
	return l.LiveConnection.Close(ctx, lost)
}
