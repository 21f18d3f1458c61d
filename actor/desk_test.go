package actor_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// A desk is the actor of these tests. It has contracts of every kind.
type desk struct{ Log []string }

func (d *desk) logf(format string, args ...any) { d.Log = append(d.Log, fmt.Sprintf(format, args...)) }

type job struct {
	Name string `json:"name"`
	N    int    `json:"n,omitempty"`
}

type member struct{ Nick string }

type desks struct {
	typ     *actor.Type[desk]
	do      *actor.Action[desk, actor.None, string]
	log     *actor.Query[desk, actor.None, []string]
	note    *actor.Action[desk, string, actor.None]
	open    *actor.Create[desk, string]
	bell    *actor.Alarm[desk, form]
	jobs    *actor.Queue[desk, job, actor.None]
	price   *actor.Queue[desk, string, int]
	mail    *actor.Queue[desk, job, actor.None]
	quotes  *actor.Queue[desk, string, int]
	any     *actor.Queue[desk, string, actor.None]
	nightly *actor.Schedule[desk, int]
	rest    *actor.Schedule[desk, string]
	tokens  *actor.Stream[desk, string]
	lines   *actor.Stream[desk, job]
	clients *actor.Connections[desk, job, member]
	said    *actor.Event[string]
	nothing *actor.Event[actor.None]

	// The code of the action, the query and the hooks, which a test may set.
	script    func(*desk, *actor.Context) error
	read      func(*actor.ReadContext) error
	handle    func(*desk, *actor.Context, job) error
	join      func(*actor.Context, *actor.Connection[member], job) error
	leave     func(*desk, *actor.Context, *actor.Connection[member]) error
	subscribe func(*actor.Context, handle.ConnectionInfo) error
}

func newDesks(name string) *desks {
	d := &desks{typ: actor.NewType[desk](name)}
	d.do = actor.NewAction[actor.None, string](d.typ, "do")
	d.log = actor.NewQuery[actor.None, []string](d.typ, "log")
	d.note = actor.NewAction[string, actor.None](d.typ, "note")
	d.open = actor.NewCreate[string](d.typ)
	d.bell = actor.NewAlarm[form](d.typ, "bell")
	d.jobs = actor.NewQueue[job](d.typ, "jobs", actor.QueueConfig{MaxMessageBytes: 1000})
	d.price = actor.NewRequestQueue[string, int](d.typ, "price", actor.QueueConfig{Backoff: []time.Duration{0}})
	d.mail = actor.NewQueue[job](d.typ, "mail", actor.QueueConfig{Workers: true, Lock: 10 * time.Second, Backoff: []time.Duration{0, 0}})
	d.quotes = actor.NewRequestQueue[string, int](d.typ, "quotes", actor.QueueConfig{Workers: true, Backoff: []time.Duration{}})
	d.any = actor.NewQueue[string](d.typ, "*", actor.QueueConfig{})
	d.nightly = actor.NewSchedule[int](d.typ, "nightly")
	d.rest = actor.NewSchedule[string](d.typ, "*")
	d.tokens = actor.NewStream[string](d.typ, "tokens", actor.StreamConfig{})
	d.lines = actor.NewStream[job](d.typ, "*", actor.StreamConfig{External: true, MaxItems: 30})
	d.clients = actor.NewConnections[job, member](d.typ)
	d.said = actor.NewEvent[string](d.typ, "said", actor.EventConfig{Durable: true})
	d.nothing = actor.NewEvent[actor.None](d.typ, "nothing", actor.EventConfig{Durable: true})
	d.handle = func(s *desk, ctx *actor.Context, j job) error {
		s.logf("%s %s", ctx.Message().Queue, j.Name)
		return nil
	}
	d.join = func(_ *actor.Context, c *actor.Connection[member], p job) error { c.State.Nick = p.Name; return nil }
	d.leave = func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error {
		s.logf("leave %s %v", c.State.Nick, ctx.DisconnectCause())
		return nil
	}
	return d
}

func (d *desks) definition() actor.Definition {
	logs := func(line string) func(*desk, *actor.Context) error {
		return func(s *desk, _ *actor.Context) error { s.logf("%s", line); return nil }
	}
	return actor.Define(d.typ, actor.Spec[desk]{OnCreate: logs("create"), OnDestroy: logs("destroy")},
		actor.On(d.do, func(s *desk, ctx *actor.Context, _ actor.None) (string, error) { return "out", d.script(s, ctx) }),
		actor.OnQuery(d.log, func(s desk, ctx *actor.ReadContext, _ actor.None) ([]string, error) {
			if d.read != nil {
				return nil, d.read(ctx)
			}
			return s.Log, nil
		}),
		actor.On(d.note, func(s *desk, _ *actor.Context, line string) (none actor.None, err error) { s.logf("%s", line); return }),
		actor.OnCreate(d.open, func(s *desk, _ *actor.Context, line string) error {
			if line == "" {
				return actor.Errorf(actor.FailedPrecondition, "nothing to open")
			}
			s.logf("open %s", line)
			return nil
		}),
		actor.OnAlarm(d.bell, func(s *desk, ctx *actor.Context, f form) error {
			s.logf("bell %q %s", ctx.AlarmInstance(), f.Name)
			return nil
		}),
		actor.OnMessage(d.jobs, func(s *desk, ctx *actor.Context, j job) error { return d.handle(s, ctx, j) }),
		actor.OnRequest(d.price, func(_ *desk, _ *actor.Context, item string) (int, error) {
			if item == "" {
				return 0, actor.Errorf(actor.FailedPrecondition, "nothing has no price")
			}
			return len(item), nil
		}),
		actor.OnMessage(d.any, func(s *desk, ctx *actor.Context, body string) error {
			s.logf("%s %s", ctx.Message().Queue, body)
			return nil
		}),
		actor.OnSchedule(d.nightly, func(s *desk, ctx *actor.Context, n int) error {
			s.logf("tick %q %q %d %d", ctx.Tick().Name, ctx.Tick().Instance, ctx.Tick().Run, n)
			return nil
		}),
		actor.OnSchedule(d.rest, func(s *desk, ctx *actor.Context, text string) error {
			s.logf("tick %q %s", ctx.Tick().Name, text)
			return nil
		}),
		actor.OnConnect(d.clients,
			func(_ *desk, ctx *actor.Context, c *actor.Connection[member], p job) error { return d.join(ctx, c, p) }),
		actor.OnDisconnect(d.clients, func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error { return d.leave(s, ctx, c) }),
		actor.OnSubscribe(d.said, func(_ *desk, ctx *actor.Context, c handle.ConnectionInfo) error {
			if d.subscribe == nil {
				return nil
			}
			return d.subscribe(ctx, c)
		}))
}

// act runs f in a turn of a desk that is not on a node.
func (d *desks) act(t host.Turn, f func(*actor.Context) error) error {
	d.script = func(_ *desk, ctx *actor.Context) error { return f(ctx) }
	_, err := d.definition().Behavior().New().Act(t, 0, host.CBOR, nil, nil)
	return err
}

// A rig is a desk "a" on a real node, in virtual time.
type rig struct {
	*testing.T
	*desks
	h    *actortest.Harness
	node *hosttest.Recorder // records the operations, and may refuse them
	ref  actor.Ref[desk]
}

func onNode(t *testing.T, f func(r *rig)) {
	t.Helper()
	d := newDesks("desk")
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		node := &hosttest.Recorder{Node: h.Runtime()}
		f(&rig{t, d, h, node, d.typ.Ref(node, "a")})
	}, d.definition())
}

// turn runs f in a turn of the desk and returns its error, or else the reason why the turn failed.
func (r *rig) turn(f func(*desk, *actor.Context) error) error {
	r.Helper()
	var own error
	r.script = func(s *desk, ctx *actor.Context) error { own = f(s, ctx); return own }
	_, err := r.do.Call(r.Context(), r.ref, actor.None{})
	errorIf(r, own != nil && err == nil, "the turn returned %v and the caller got nothing", own)
	return errors.Join(own, err)
}

func (r *rig) mustTurn(f func(*desk, *actor.Context) error) {
	r.Helper()
	ensure(r, r.turn(f))
}

// look runs f in a turn and in a query of the desk.
func (r *rig) look(f func(actor.Reader) error) {
	r.Helper()
	r.mustTurn(func(_ *desk, ctx *actor.Context) error { return f(ctx) })
	var own error
	r.read = func(ctx *actor.ReadContext) error { own = f(ctx); return own }
	defer func() { r.read = nil }()
	_, err := r.log.Call(r.Context(), r.ref, actor.None{})
	fatalIf(r, err != nil, "query: %v, %v", own, err)
}

// logged checks what the desk has logged since its creation.
func (r *rig) logged(want ...string) {
	r.Helper()
	r.h.Settle()
	got, err := r.log.Call(r.Context(), r.ref, actor.None{})
	errorIf(r, err != nil || !slices.Equal(got, append([]string{"create"}, want...)), "logged %q, %v; want %q", got, err, want)
}

// refusing refuses the calls of these methods.
func (r *rig) refusing(err error, methods ...string) {
	r.node.Before = func(_ context.Context, _ string, q *host.Request) error {
		if q != nil && slices.Contains(methods, q.Method) {
			return err
		}
		return nil
	}
}

var ensure, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// check fails the test, which goes on, if there is an error.
func check(t testing.TB, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		t.Helper()
		t.Error(err)
	}
}

// hasCode checks the code of an error, and that its text has a part.
func hasCode(t testing.TB, what string, err error, code actor.Code, part ...string) {
	if actor.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), strings.Join(part, "")) {
		t.Helper()
		t.Errorf("%s: %v, want %s %q", what, err, code, part)
	}
}

// all returns the items of a listing.
func all[T any](t testing.TB, listing iter.Seq2[T, error]) (list []T) {
	t.Helper()
	for v, err := range listing {
		check(t, err)
		list = append(list, v)
	}
	return list
}

// called returns the inputs of the calls of a method.
func called[In any](r *rig, method string) (all []In) {
	r.Helper()
	for _, q := range r.node.Requests() {
		if q.Method == method {
			all = append(all, decoded[In](r, q.Input))
		}
	}
	return all
}

func decoded[T any](t testing.TB, data []byte) (v T) {
	t.Helper()
	ensure(t, cbor.Unmarshal(data, &v))
	return v
}

// A replies is a node that gives one reply to every call.
type replies struct {
	host.Node
	host.Reply
	calls int
}

func (n *replies) Call(context.Context, *host.Request) (host.Reply, error) {
	n.calls++
	return n.Reply, nil
}

// A stub is a turn without a node: writes fail with err or are kept.
type stub struct {
	host.Turn
	err         error
	enqueued    []host.Enqueue
	sent        []*host.Message
	connections []host.ConnectionState
	items       []host.StreamItem
}

func (s *stub) Self() host.Identity                                     { return host.Identity{} }
func (s *stub) Value(key any) any                                       { return key }
func (s *stub) Caller() string                                          { return "" }
func (s *stub) Emit(int, []byte) error                                  { return s.err }
func (s *stub) EmitTo(int, []byte, string, []string) error              { return s.err }
func (s *stub) Send(m *host.Message) error                              { s.sent = append(s.sent, m); return s.err }
func (s *stub) Now() time.Time                                          { return time.Time{} }
func (s *stub) SetAlarm(host.Alarm) error                               { return s.err }
func (s *stub) CancelAlarm(_, _ string) (bool, error)                   { return false, s.err }
func (s *stub) SetSchedule(c host.Schedule) (host.Schedule, error)      { return c, s.err }
func (s *stub) CancelSchedule(_, _ string) (bool, error)                { return false, s.err }
func (s *stub) StreamAppend(string, [][]byte) (uint64, error)           { return 0, s.err }
func (s *stub) StreamClose(string) error                                { return s.err }
func (s *stub) SetConnectionState(string, []byte) error                 { return s.err }
func (s *stub) CloseConnection(string, *host.Error) (bool, error)       { return false, s.err }
func (s *stub) Go(string, func(host.Task) error) error                  { return s.err }
func (s *stub) Connections(string, int) ([]host.ConnectionState, error) { return s.connections, nil }

func (s *stub) Connection(string) (host.ConnectionState, bool, error) {
	return s.connections[0], true, nil
}

func (s *stub) StreamRead(string, uint64, int) (host.StreamPage, error) {
	return host.StreamPage{Items: s.items, Next: 99}, nil
}

func (s *stub) Enqueue(_ string, m []host.Enqueue) ([]host.Sent, error) {
	s.enqueued = append(s.enqueued, m...)
	return make([]host.Sent, len(m)), s.err
}
