package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A desk is the bench of the tests of queues, schedules, streams, connections and tasks.
type desk struct {
	Log []string
}

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
	quiet   *actor.Event[int]

	script    func(*desk, *actor.Context) (string, error)
	read      func(*actor.ReadContext) error
	handle    func(*desk, *actor.Context, job) error
	join      func(*desk, *actor.Context, *actor.Connection[member], job) error
	leave     func(*desk, *actor.Context, *actor.Connection[member]) error
	subscribe func(*desk, *actor.Context, handle.ConnectionInfo) error
}

func newDesks(name string) *desks {
	d := &desks{typ: actor.NewType[desk](name)}
	d.do = actor.NewAction[actor.None, string](d.typ, "do")
	d.log = actor.NewQuery[actor.None, []string](d.typ, "log")
	d.jobs = actor.NewQueue[job](d.typ, "jobs", actor.QueueConfig{})
	d.price = actor.NewRequestQueue[string, int](d.typ, "price", actor.QueueConfig{Backoff: []time.Duration{0}})
	d.mail = actor.NewQueue[job](d.typ, "mail", actor.QueueConfig{Workers: true, Lock: 10 * time.Second, Backoff: []time.Duration{0, 0}})
	d.quotes = actor.NewRequestQueue[string, int](d.typ, "quotes", actor.QueueConfig{Workers: true, Backoff: []time.Duration{}})
	d.any = actor.NewQueue[string](d.typ, "*", actor.QueueConfig{})
	d.nightly = actor.NewSchedule[int](d.typ, "nightly")
	d.rest = actor.NewSchedule[string](d.typ, "*")
	d.tokens = actor.NewStream[string](d.typ, "tokens", actor.StreamConfig{})
	d.lines = actor.NewStream[job](d.typ, "*", actor.StreamConfig{External: true})
	d.clients = actor.NewConnections[job, member](d.typ)
	d.said = actor.NewEvent[string](d.typ, "said", actor.EventConfig{})
	d.quiet = actor.NewEvent[int](d.typ, "quiet", actor.EventConfig{})
	return d
}

func (d *desks) definition() actor.Definition {
	return actor.Define(d.typ, actor.Spec[desk]{},
		actor.On(d.do, func(s *desk, ctx *actor.Context, _ actor.None) (string, error) { return d.script(s, ctx) }),
		actor.OnQuery(d.log, func(s desk, ctx *actor.ReadContext, _ actor.None) ([]string, error) {
			if d.read != nil {
				return nil, d.read(ctx)
			}
			return s.Log, nil
		}),
		actor.OnMessage(d.jobs, func(s *desk, ctx *actor.Context, j job) error {
			if d.handle != nil {
				return d.handle(s, ctx, j)
			}
			s.logf("%s %s", ctx.Message().Queue, j.Name)
			return nil
		}),
		actor.OnRequest(d.price, func(s *desk, ctx *actor.Context, item string) (int, error) {
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
		actor.OnConnect(d.clients, func(s *desk, ctx *actor.Context, c *actor.Connection[member], p job) error {
			return d.join(s, ctx, c, p)
		}),
		actor.OnDisconnect(d.clients, func(s *desk, ctx *actor.Context, c *actor.Connection[member]) error {
			return d.leave(s, ctx, c)
		}),
		actor.OnSubscribe(d.said, func(s *desk, ctx *actor.Context, c handle.ConnectionInfo) error {
			return d.subscribe(s, ctx, c)
		}))
}

// run runs f in a turn of the actor "a".
func (d *desks) run(t testing.TB, n *fakeNode, f func(*desk, *actor.Context) error) error {
	t.Helper()
	d.script = func(s *desk, ctx *actor.Context) (string, error) { return "", f(s, ctx) }
	_, err := d.do.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{})
	return err
}

func (d *desks) mustRun(t testing.TB, n *fakeNode, f func(*desk, *actor.Context) error) {
	t.Helper()
	if err := d.run(t, n, f); err != nil {
		t.Fatal(err)
	}
}

// logged checks what the actor "a" has logged.
func (d *desks) logged(t testing.TB, n *fakeNode, want ...string) {
	t.Helper()
	got, err := d.log.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("logged %q, %v; want %q", got, err, want)
	}
}

// bubble runs f in a bubble with a node whose time flows.
func bubble(t *testing.T, f func(t *testing.T, d *desks, n *fakeNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesks("desk")
		n := mustNode(t, d.definition())
		n.flowing = true
		f(t, d, n)
	})
}

func TestQueuesAreLaidOutAsDeclared(t *testing.T) {
	typ := actor.NewType[desk]("desk")
	jobs := actor.NewQueue[job](typ, "jobs", actor.QueueConfig{MaxMessages: 1, MaxBytes: 2, MaxMessageBytes: 3, Backoff: []time.Duration{4, 5}, Lock: 6, DedupWindow: 7, DeadLetterRetention: 8, MaxDeadLetters: 9, ReplyRetention: 10})
	actor.NewRequestQueue[job, int](typ, "once", actor.QueueConfig{Workers: true, Backoff: []time.Duration{}})
	actor.NewStream[job](typ, "s", actor.StreamConfig{MaxItems: 1, MaxBytes: 2, MaxAge: 3, MaxItemBytes: 4, External: true})
	def := actor.Define(typ, actor.Spec[desk]{}, actor.OnMessage(jobs, func(*desk, *actor.Context, job) error { return nil }))
	if err := def.Validate(); err != nil {
		t.Fatal(err)
	}
	b := def.Behavior()
	handler := b.Queues[0].Handler
	if want := fmt.Sprintf("%+v", []host.Queue{
		{
			Name: "jobs", Handler: handler, Backoff: []time.Duration{4, 5}, Lock: 6, Messages: 1, Bytes: 2, MessageBytes: 3,
			DedupWindow: 7, DeadFor: 8, Dead: 9, ReplyFor: 10,
		},
		{Name: "once", Backoff: []time.Duration{}},
	}); fmt.Sprintf("%+v", b.Queues) != want || handler == "" || b.Queues[1].Backoff == nil {
		t.Errorf("%+v\nwant %s", b.Queues, want)
	}
	if want := []host.Stream{{Name: "s", Items: 1, Bytes: 2, Age: 3, ItemBytes: 4, External: true}}; !slices.Equal(b.Streams, want) {
		t.Errorf("%+v", b.Streams)
	}
}

func TestPutIsPartOfTheCommitAndTheHandlerSeesItsMessage(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	after := errors.New("after all")
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error {
		d.jobs.Put(ctx, job{Name: "lost"})
		return after
	})
	if !errors.Is(err, after) || len(n.actors) > 0 && len(n.actors["desk/a"].holding.messages) > 0 {
		t.Errorf("a failed turn sent: %v", err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		first, err := d.jobs.Put(ctx, job{Name: "low"}, actor.DedupID("x"))
		again, err2 := d.jobs.Put(ctx, job{Name: "twice"}, actor.DedupID("x"))
		if err != nil || err2 != nil || first.ID == 0 || again != (handle.Sent{ID: first.ID, Duplicate: true}) {
			return fmt.Errorf("put: %v %v %v %v", first, again, err, err2)
		}
		sent, err := d.jobs.PutAll(ctx, []job{{Name: "b"}, {Name: "c"}}, actor.Priority(5))
		if err != nil || len(sent) != 2 {
			return fmt.Errorf("put all: %v %w", sent, err)
		}
		if none, err := d.jobs.PutAll(ctx, nil); none != nil || err != nil {
			return fmt.Errorf("put none: %v %w", none, err)
		}
		stats, err := d.jobs.Stats(ctx)
		if err != nil || stats.Pending != 3 {
			return fmt.Errorf("stats: %+v %w", stats, err)
		}
		if m := ctx.Message(); m != (actor.Message{}) {
			return fmt.Errorf("an action handles %v", m)
		}
		return nil
	})
	d.handle = func(s *desk, ctx *actor.Context, j job) error {
		m := ctx.Message()
		if m.ID == 0 || m.Queue != "jobs" || m.Attempt != 1 || !m.Sent.Equal(n.now) || m.WantReply {
			return fmt.Errorf("message: %+v", m)
		}
		s.logf("%s %d %s", j.Name, m.Priority, m.DedupID)
		return nil
	}
	if err := n.deliver(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.logged(t, n, "b 5 ", "c 5 ", "low 0 x")
}

func TestMessageOptionsReachTheQueueFromBothSides(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	opts := []actor.MessageOption{
		actor.Delay(time.Minute), actor.Priority(-3), actor.DedupID("id"), actor.MessageTTL(1500 * time.Microsecond),
		actor.Backoff(time.Second, 2*time.Second), actor.KeysIfUndelivered(tuple.Tuple{"lost", int64(1), true, 2.5}),
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		_, err := d.jobs.Put(ctx, job{Name: "in"}, opts...)
		return err
	})
	inside := n.actors["desk/a"].holding.messages[0]
	packed, err := tuple.Append(nil, tuple.Tuple{"lost", int64(1), true, 2.5})
	if err != nil || inside.Delay != time.Minute || inside.Priority != -3 || inside.DedupID != "id" ||
		inside.TTL != 1500*time.Microsecond ||
		!slices.Equal(inside.Backoff, []time.Duration{time.Second, 2 * time.Second}) || string(inside.KeysIfUndelivered[0]) != string(packed) {
		t.Errorf("%+v", inside)
	}
	send := []handle.SendOption{actor.IdempotencyKey("k"), actor.Traceparent("tp")}
	for _, o := range opts {
		send = append(send, o)
	}
	if _, err := d.jobs.Of(d.typ.Ref(n, "b")).Send(t.Context(), job{Name: "out"}, send...); err != nil {
		t.Fatal(err)
	}
	outside := n.actors["desk/b"].holding.messages[0]
	if outside.Delay != time.Minute || outside.Priority != -3 || outside.DedupID != "id" || outside.TTL != 2*time.Millisecond ||
		!slices.Equal(outside.Backoff, inside.Backoff) || string(outside.KeysIfUndelivered[0]) != "[lost 1 true 2.5]" {
		t.Errorf("%+v", outside)
	}
	if r := n.asked()[len(n.asked())-1]; r.IdempotencyKey != "k" || r.Traceparent != "tp" || r.Existing {
		t.Errorf("%+v", r)
	}
	if _, err := d.jobs.Of(d.typ.Ref(n, "c")).Send(t.Context(), job{}, actor.Existing()); actor.CodeOf(err) != actor.NotFound {
		t.Errorf("Existing: %v", err)
	}
	if _, err := d.jobs.Of(d.typ.Ref(n, "d")).Send(t.Context(), job{}, actor.Backoff()); err != nil ||
		n.actors["desk/d"].holding.messages[0].Backoff == nil {
		t.Errorf("one attempt became the default: %v", err)
	}
	bad := actor.KeysIfUndelivered(tuple.Tuple{"k", []byte("b")})
	_, err = d.jobs.Of(d.typ.Ref(n, "e")).Send(t.Context(), job{}, bad)
	if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), "key part 2 ") || n.actors["desk/e"] != nil {
		t.Errorf("a key that requests cannot carry: %v", err)
	}
	err = d.run(t, n, func(_ *desk, ctx *actor.Context) error {
		d.jobs.Put(ctx, job{}, actor.KeysIfUndelivered(tuple.Tuple{struct{}{}}))
		return nil
	})
	if actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("a key that does not pack: %v", err)
	}
}

func TestSendAllIsOneCall(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ref := d.typ.Ref(n, "a")
	sent, err := d.jobs.Of(ref).SendAll(t.Context(), []job{{Name: "x"}, {Name: "y"}})
	if err != nil || len(sent) != 2 || sent[0].ID == sent[1].ID || len(n.asked()) != 1 {
		t.Errorf("%v %v, %d calls", sent, err, len(n.asked()))
	}
	if sent, err := d.jobs.Of(ref).SendAll(t.Context(), nil); sent != nil || err != nil || len(n.asked()) != 1 {
		t.Errorf("none: %v %v", sent, err)
	}
	stats, err := d.jobs.Of(ref).Stats(t.Context())
	if err != nil || stats.Pending != 2 || stats.Queue != "jobs" {
		t.Errorf("%+v, %v", stats, err)
	}
	if _, err := d.jobs.Of(ref).Send(t.Context(), job{Name: strings.Repeat("x", 2000)}); actor.CodeOf(err) != actor.TooLarge {
		t.Error(err)
	}
	n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) {
		return host.Reply{Output: []byte("\xa1\x68messages\x80")}, nil, true
	})
	if _, err := d.jobs.Of(ref).Send(t.Context(), job{}); actor.CodeOf(err) != actor.Internal {
		t.Errorf("an answer about no message: %v", err)
	}
	n.intercepting(func(context.Context, *host.Request) (host.Reply, error, bool) { return host.Reply{}, nil, true })
	if _, err := d.jobs.Of(ref).Send(t.Context(), job{}); actor.CodeOf(err) != actor.Internal {
		t.Errorf("an answer that does not decode: %v", err)
	}
}

func TestQueueDeclaredAsAnyIsUsedByName(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	ctx, ref := t.Context(), d.typ.Ref(n, "a")
	for name, want := range map[string]string{
		"":                      "1 to 64 characters",
		"9":                     "a letter, then",
		"a b":                   "a letter, then",
		"cairn.x":               "a letter, then",
		"*":                     "a letter, then",
		strings.Repeat("x", 65): "1 to 64 characters",
		"jobs":                  `which is declared by itself`,
		"price":                 `queue "price", which is declared by itself`,
	} {
		_, err := d.any.Named(name).Of(ref).Send(ctx, "x")
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := d.any.Of(ref).Send(ctx, "x"); actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), "Named") {
		t.Errorf("without a name: %v", err)
	}
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error { d.any.Put(ctx, "x"); return nil })
	if actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("put without a name: %v", err)
	}
	if _, err := d.jobs.Named("other").Of(ref).Send(ctx, job{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Errorf("a declared queue under another name: %v", err)
	}
	if _, err := d.jobs.Named("jobs").Of(ref).Send(ctx, job{Name: "own"}); err != nil {
		t.Errorf("a declared queue under its own name: %v", err)
	}
	if _, err := d.any.Named("inbox").Of(ref).Send(ctx, "hello"); err != nil {
		t.Fatal(err)
	}
	d.mustRun(t, n, func(_ *desk, ctx *actor.Context) error {
		_, err := d.any.Named("outbox").Put(ctx, "world")
		return err
	})
	if err := n.deliver(ctx); err != nil {
		t.Fatal(err)
	}
	d.logged(t, n, "jobs own", "inbox hello", "outbox world")
}

func TestAskReturnsTheReplyOrTheHandlersError(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, ref := t.Context(), d.typ.Ref(n, "a")
		handling := time.AfterFunc(time.Minute+time.Second, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if err := n.deliver(ctx); err != nil {
				t.Error(err)
			}
		})
		defer handling.Stop()
		if got, err := d.price.Of(ref).Ask(ctx, "table"); err != nil || got != 5 {
			t.Errorf("%d, %v", got, err)
		}
		handling.Reset(time.Second)
		_, err := d.price.Of(ref).Ask(ctx, "")
		var e *actor.Error
		if !errors.As(err, &e) || e.Code != actor.FailedPrecondition || e.Message != "nothing has no price" {
			t.Errorf("the handler's error came as %v", err)
		}
	})
}

func TestAskSurvivesErrorsThatPass(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ref := d.typ.Ref(n, "a")
		fail, sends := 3, 0
		n.intercepting(func(ctx context.Context, r *host.Request) (host.Reply, error, bool) {
			if r.Method == host.QueueSend {
				sends++
				return host.Reply{}, nil, false
			}
			if fail--; fail >= 0 {
				return host.Reply{}, host.Errorf(host.Unavailable, "the node restarts"), true
			}
			n.mu.Lock()
			defer n.mu.Unlock()
			return host.Reply{}, n.deliver(ctx), false
		})
		if got, err := d.price.Of(ref).Ask(t.Context(), "chair"); err != nil || got != 5 || sends != 1 {
			t.Errorf("%d, %v, %d sends", got, err, sends)
		}
		n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
			return host.Reply{}, host.Errorf(host.NotFound, "no reply is kept"), r.Method == host.QueueResult
		})
		if _, err := d.price.Of(ref).Ask(t.Context(), "chair"); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
		n.intercepting(func(_ context.Context, r *host.Request) (host.Reply, error, bool) {
			return host.Reply{Output: []byte("\xa1\x64done\xf5")}, nil, r.Method == host.QueueResult
		})
		if _, err := d.price.Of(ref).Ask(t.Context(), "chair"); actor.CodeOf(err) != actor.Internal {
			t.Errorf("a reply of another type: %v", err)
		}
	})
}

func TestAskThatTimesOutLeavesItsMessageInTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, d *desks, n *fakeNode) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		start := time.Now()
		_, err := d.price.Of(d.typ.Ref(n, "a")).Ask(ctx, "table")
		var e *actor.Error
		if !errors.As(err, &e) || e.Code != actor.DeadlineExceeded || e.Metadata["message"] != "1" || time.Since(start) != 90*time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		if stats, err := d.price.Of(d.typ.Ref(n, "a")).Stats(t.Context()); err != nil || stats.Pending != 1 {
			t.Errorf("%+v, %v", stats, err)
		}
	})
}

func TestAskInATurnIsRefusedBeforeItSends(t *testing.T) {
	d := newDesks("desk")
	n := mustNode(t, d.definition())
	err := d.run(t, n, func(_ *desk, ctx *actor.Context) error {
		_, err := d.price.Of(d.typ.Ref(n, "b")).Ask(ctx, "x")
		_, err2 := d.price.Of(d.typ.Ref(ctx, "b")).Ask(t.Context(), "x")
		if actor.CodeOf(err2) != actor.InvalidArgument {
			t.Errorf("through the turn's node: %v", err2)
		}
		return err
	})
	if actor.CodeOf(err) != actor.InvalidArgument || n.actors["desk/b"] != nil {
		t.Error(err)
	}
	d.read = func(ctx *actor.ReadContext) error { _, err := d.price.Of(d.typ.Ref(n, "b")).Ask(ctx, "x"); return err }
	d.mustRun(t, n, func(*desk, *actor.Context) error { return nil })
	if _, err := d.log.Call(t.Context(), d.typ.Ref(n, "a"), actor.None{}); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
}
