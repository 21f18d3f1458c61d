package actor_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// fakeNode hosts behaviors in memory, for one goroutine: turns commit or leave no trace, messages go out after the
// commit, alarms ring when ring is called. pageSize makes listings come in pages.
type fakeNode struct {
	behaviors map[string]*host.Behavior
	actors    map[string]*fakeActor
	now       time.Time
	emitted   []string
	pageSize  int
	requests  []host.Request
	tasks     []fakeTask
	mu        sync.Mutex // guards requests and intercept, and what actors hold while a built-in method is called
	// intercept, if set, may answer a call, or do something before it.
	intercept func(ctx context.Context, r *host.Request) (reply host.Reply, err error, answered bool)
	flowing   bool // time is the bubble's
	prompt    bool // a request for a result handles the messages
}

type fakeActor struct {
	host.Identity
	behavior *host.Behavior
	instance host.Instance
	saved    []byte
	stored   uint64 // state version of saved
	version  uint64
	kv       map[string]host.KVEntry
	alarms   []host.Alarm
	holding  fakeHolding
}

func newNode(definitions ...actor.Definition) (*fakeNode, error) {
	n := &fakeNode{
		behaviors: map[string]*host.Behavior{}, actors: map[string]*fakeActor{},
		now: time.Date(2001, 1, 2, 3, 4, 5, 6, time.UTC), pageSize: 1000,
	}
	for _, d := range definitions {
		if err := d.Validate(); err != nil {
			return nil, err
		}
		n.behaviors[d.Type()] = d.Behavior()
	}
	return n, nil
}

func mustNode(t testing.TB, definitions ...actor.Definition) *fakeNode {
	t.Helper()
	n, err := newNode(definitions...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// intercepting sets what may answer calls before the node.
func (n *fakeNode) intercepting(f func(ctx context.Context, r *host.Request) (host.Reply, error, bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.intercept = f
}

// asked returns the calls so far.
func (n *fakeNode) asked() []host.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.requests)
}

func place(a host.Address) string { return a.Type + "/" + strings.Join(a.Key, "/") }

func (n *fakeNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	n.mu.Lock()
	n.requests = append(n.requests, *r)
	intercept := n.intercept
	n.mu.Unlock()
	if intercept != nil {
		if reply, err, answered := intercept(ctx, r); answered {
			return reply, err
		}
	}
	if strings.Contains(r.Method, ".") {
		return n.builtin(ctx, r)
	}
	b := n.behaviors[r.Type]
	if b == nil {
		return host.Reply{}, host.Errorf(host.UnknownType, "no type %q", r.Type)
	}
	method := slices.IndexFunc(b.Methods, func(m host.Method) bool { return m.Name == r.Method })
	if method < 0 && r.Method != "" {
		return host.Reply{}, host.Errorf(host.UnknownMethod, "no method %q", r.Method)
	}
	a := n.actors[place(r.Address)]
	switch {
	case a == nil && r.Existing:
		return host.Reply{}, host.Errorf(host.NotFound, "no actor")
	case a != nil && r.Create:
		return host.Reply{}, host.Errorf(host.AlreadyExists, "taken")
	}
	if a == nil {
		a = &fakeActor{
			Identity: host.Identity{Type: r.Type, Key: r.Key, ID: fmt.Sprintf("id-%d", len(n.actors)+1)},
			behavior: b, kv: map[string]host.KVEntry{},
		}
		if err := n.turn(ctx, a, func(t *fakeTurn) error {
			if err := a.instance.Create(t); err != nil {
				return err
			}
			return a.instance.Wake(t)
		}); err != nil {
			return host.Reply{}, err
		}
	}
	var out []byte
	var err error
	switch {
	case r.Method == "":
	case b.Methods[method].Kind == host.Query:
		t := &fakeTurn{Context: ctx, Node: n, node: n, actor: a, kv: a.kv, alarms: a.alarms, holding: a.holding, caller: r.Connection}
		var state any
		if state, err = b.Decode(a.stored, a.saved); err == nil {
			out, err = b.Query(t, method, state, r.Codec, r.Input, nil)
		}
	default:
		err = n.turn(ctx, a, func(t *fakeTurn) (err error) {
			t.caller = r.Connection
			out, err = a.instance.Act(t, method, r.Codec, r.Input, nil)
			return err
		})
	}
	if err != nil {
		return host.Reply{}, err
	}
	if _, live := n.behaviors[r.Type]; live && n.actors[place(r.Address)] == nil && a.version > 0 {
		n.actors[place(r.Address)] = a
	}
	return host.Reply{Output: out, Version: a.version}, nil
}

// turn runs f as one turn of a.
func (n *fakeNode) turn(ctx context.Context, a *fakeActor, f func(*fakeTurn) error) error {
	if a.instance == nil {
		a.instance = a.behavior.New()
		if err := a.instance.Load(a.stored, a.saved); err != nil {
			return err
		}
	}
	t := &fakeTurn{
		Context: ctx, Node: n, node: n, actor: a, kv: maps.Clone(a.kv), alarms: slices.Clone(a.alarms), holding: a.holding.clone(),
	}
	err := f(t)
	var saved []byte
	if err == nil {
		saved, err = a.instance.Save(nil)
	}
	if err != nil {
		if err := a.instance.Load(a.stored, a.saved); err != nil {
			return err
		}
		return err
	}
	a.saved, a.stored, a.kv, a.alarms, a.holding = saved, a.behavior.StateVersion, t.kv, t.alarms, t.holding
	n.tasks = append(n.tasks, t.tasks...)
	a.version++
	n.emitted = append(n.emitted, t.emitted...)
	if t.destroyed {
		delete(n.actors, place(host.Address{Type: a.Type, Key: a.Key}))
		a.version = 0
	}
	for _, m := range t.sent {
		if _, err := n.Call(ctx, &host.Request{
			Address: host.Address{Type: m.Type, Key: m.Key}, Method: m.Method, Codec: host.CBOR, Input: m.Input,
		}); err != nil {
			return err
		}
	}
	return nil
}

// sleep forgets the actors' memory.
func (n *fakeNode) sleep() {
	for _, a := range n.actors {
		a.instance = nil
	}
}

// ring advances the clock and runs the alarms that are due.
func (n *fakeNode) ring(ctx context.Context, d time.Duration) error {
	n.now = n.now.Add(d)
	for _, a := range n.actors {
		for _, due := range slices.Clone(a.alarms) {
			if due.Due.After(n.now) {
				continue
			}
			index := slices.IndexFunc(a.behavior.Alarms, func(m host.AlarmMethod) bool { return m.Name == due.Name })
			if err := n.turn(ctx, a, func(t *fakeTurn) error {
				if _, err := t.CancelAlarm(due.Name, due.Instance); err != nil {
					return err
				}
				return a.instance.Alarm(t, index, due.Instance, due.Payload)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *fakeNode) Lookup(_ context.Context, a host.Address) (host.Status, error) {
	found := n.actors[place(a)]
	if found == nil {
		return host.Status{}, host.Errorf(host.NotFound, "no actor")
	}
	return host.Status{ID: found.ID, Type: found.Type, Key: found.Key, Version: found.version}, nil
}

func (n *fakeNode) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	var page host.ListPage
	for _, at := range slices.Sorted(maps.Keys(n.actors)) {
		a := n.actors[at]
		if a.Type != q.Type || at <= q.Cursor || len(a.Key) < len(q.Prefix) || !slices.Equal(a.Key[:len(q.Prefix)], q.Prefix) {
			continue
		}
		if len(page.Actors) == 2 { // a small page, so that tests turn it
			page.Cursor = place(host.Address{Type: page.Actors[1].Type, Key: page.Actors[1].Key})
			return page, nil
		}
		page.Actors = append(page.Actors, host.Status{ID: a.ID, Type: a.Type, Key: a.Key})
	}
	return page, nil
}

func (n *fakeNode) Destroy(ctx context.Context, at host.Address) error {
	a := n.actors[place(at)]
	if a == nil {
		return host.Errorf(host.NotFound, "no actor")
	}
	return n.turn(ctx, a, func(t *fakeTurn) error {
		t.destroyed = true
		return a.instance.Destroy(t)
	})
}

// fakeTurn is a turn, or a query if the behavior hands it out as a Reader.
type fakeTurn struct {
	context.Context
	host.Node
	node      *fakeNode
	actor     *fakeActor
	kv        map[string]host.KVEntry
	alarms    []host.Alarm
	emitted   []string
	sent      []host.Message
	destroyed bool
	refuse    error // of every write
	holding   fakeHolding
	tasks     []fakeTask
	caller    string
	db        *sql.DB
	runs      []host.RunStart
	controls  []host.RunControl
}

var _ host.Turn = (*fakeTurn)(nil)

func (t *fakeTurn) Self() host.Identity  { return t.actor.Identity }
func (t *fakeTurn) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (t *fakeTurn) Version() uint64      { return t.actor.version + 1 }
func (t *fakeTurn) Traceparent() string  { return "00-trace" }
func (t *fakeTurn) Now() time.Time       { return t.node.now }
func (t *fakeTurn) DestroySelf()         { t.destroyed = true }
func (t *fakeTurn) SQL() *sql.DB         { return t.db }

func (t *fakeTurn) KVGet(key []byte) (host.KVEntry, bool, error) {
	e, ok := t.kv[string(key)]
	return e, ok, nil
}

func (t *fakeTurn) KVList(q host.KVQuery) (host.KVPage, error) {
	keys := slices.Sorted(maps.Keys(t.kv))
	if q.Reverse {
		slices.Reverse(keys)
	}
	var page host.KVPage
	for _, k := range keys {
		after := q.After == nil || cmp.Compare(k, string(q.After)) > 0
		if q.Reverse {
			after = q.After == nil || cmp.Compare(k, string(q.After)) < 0
		}
		if !after || k < string(q.Start) || q.End != nil && k >= string(q.End) {
			continue
		}
		if len(page.Entries) == min(q.Limit, t.node.pageSize) {
			page.Next = page.Entries[len(page.Entries)-1].Key
			return page, nil
		}
		e := t.kv[k]
		if q.KeysOnly {
			e.Value = nil
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

func (t *fakeTurn) KVPut(key, value []byte, expire time.Time) error {
	if t.refuse != nil {
		return t.refuse
	}
	t.kv[string(key)] = host.KVEntry{
		Key: bytes.Clone(key), Value: bytes.Clone(value), Version: t.Version(),
		Created: t.node.now, Updated: t.node.now, Expire: expire,
	}
	return nil
}

func (t *fakeTurn) KVDelete(key []byte) (bool, error) {
	_, ok := t.kv[string(key)]
	delete(t.kv, string(key))
	return ok, t.refuse
}

func (t *fakeTurn) KVDeleteRange(start, end []byte) (int64, error) {
	before := len(t.kv)
	maps.DeleteFunc(t.kv, func(k string, _ host.KVEntry) bool {
		return k >= string(start) && (end == nil || k < string(end))
	})
	return int64(before - len(t.kv)), t.refuse
}

func (t *fakeTurn) Emit(event int, data []byte) error {
	if t.refuse != nil {
		return t.refuse
	}
	if !json.Valid(data) {
		return host.Errorf(host.Internal, "event data is not JSON: %q", data)
	}
	t.emitted = append(t.emitted, t.actor.behavior.Events[event].Name+" "+string(data))
	return nil
}

func (t *fakeTurn) Send(m *host.Message) error {
	if t.refuse != nil {
		return t.refuse
	}
	t.sent = append(t.sent, *m)
	return nil
}

func (t *fakeTurn) SetAlarm(a host.Alarm) error {
	if t.refuse != nil {
		return t.refuse
	}
	if _, err := t.CancelAlarm(a.Name, a.Instance); err != nil {
		return err
	}
	t.alarms = append(t.alarms, a)
	return nil
}

func (t *fakeTurn) CancelAlarm(name, instance string) (bool, error) {
	before := len(t.alarms)
	t.alarms = slices.DeleteFunc(t.alarms, func(a host.Alarm) bool { return a.Name == name && a.Instance == instance })
	return len(t.alarms) < before, t.refuse
}

func (t *fakeTurn) Alarms(name string) ([]host.Alarm, error) {
	var out []host.Alarm
	for _, a := range t.alarms {
		if name == "" || a.Name == name {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b host.Alarm) int { return cmp.Compare(a.Instance, b.Instance) })
	return out, nil
}

func (t *fakeTurn) StartRun(s host.RunStart) (host.RunStarted, error) {
	if t.refuse != nil {
		return host.RunStarted{}, t.refuse
	}
	t.runs = append(t.runs, s)
	return host.RunStarted{Run: "01", Started: true}, nil
}

func (t *fakeTurn) ControlRun(c host.RunControl) error {
	t.controls = append(t.controls, c)
	return t.refuse
}
