package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
)

// The bench of these tests: an actor type with one action that runs whatever function the test gives it.
type probe struct {
	Log []string
}

type probes struct {
	typ    *actor.Type[probe]
	do     *actor.Action[probe, int, string]
	note   *actor.Action[probe, string, actor.None]
	log    *actor.Query[probe, actor.None, []string]
	open   *actor.Create[probe, string]
	bell   *actor.Alarm[probe, string]
	rang   *actor.Event[string]
	nobody *actor.Event[actor.None]
	script func(*probe, *actor.Context) (string, error)
	read   func(*actor.ReadContext) error
}

func newProbes(name string) *probes {
	p := &probes{typ: actor.NewType[probe](name)}
	p.do = actor.NewAction[int, string](p.typ, "do")
	p.note = actor.NewAction[string, actor.None](p.typ, "note")
	p.log = actor.NewQuery[actor.None, []string](p.typ, "log")
	p.open = actor.NewCreate[string](p.typ)
	p.bell = actor.NewAlarm[string](p.typ, "bell")
	p.rang = actor.NewEvent[string](p.typ, "rang", actor.EventConfig{})
	p.nobody = actor.NewEvent[actor.None](p.typ, "nobody", actor.EventConfig{})
	return p
}

func (p *probes) definition() actor.Definition {
	logs := func(line string) func(*probe, *actor.Context) error {
		return func(s *probe, _ *actor.Context) error { s.Log = append(s.Log, line); return nil }
	}
	return actor.Define(p.typ, actor.Spec[probe]{
		OnCreate: logs("create"), OnWake: logs("wake"), OnSleep: logs("sleep"), OnDestroy: logs("destroy"),
	},
		actor.On(p.do, func(s *probe, ctx *actor.Context, _ int) (string, error) { return p.script(s, ctx) }),
		actor.On(p.note, func(s *probe, _ *actor.Context, line string) (actor.None, error) {
			s.Log = append(s.Log, line)
			return actor.None{}, nil
		}),
		actor.OnQuery(p.log, func(s probe, ctx *actor.ReadContext, _ actor.None) ([]string, error) {
			if p.read != nil {
				if err := p.read(ctx); err != nil {
					return nil, err
				}
			}
			return s.Log, nil
		}),
		actor.OnCreate(p.open, func(s *probe, _ *actor.Context, line string) error {
			if line == "" {
				return actor.Errorf(actor.FailedPrecondition, "nothing to open")
			}
			s.Log = append(s.Log, "open "+line)
			return nil
		}),
		actor.OnAlarm(p.bell, func(s *probe, ctx *actor.Context, payload string) error {
			s.Log = append(s.Log, fmt.Sprintf("bell %q %s", ctx.AlarmInstance(), payload))
			return nil
		}))
}

func TestTurnSeesItsActor(t *testing.T) {
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	ref := p.typ.Ref(n, "a", "b")
	p.script = func(_ *probe, ctx *actor.Context) (string, error) {
		return fmt.Sprintf("%s %q %s %d %s %t %t", ctx.Type(), ctx.Key(), ctx.ID(), ctx.Version(), ctx.Traceparent(),
			ctx.Now().Equal(n.now), ctx.Log() != nil), nil
	}
	if out, err := p.do.Call(t.Context(), ref, 1); err != nil || out != `probe ["a" "b"] id-1 2 00-trace true true` {
		t.Errorf("%q, %v", out, err)
	}
	p.read = func(ctx *actor.ReadContext) error {
		if ctx.Type() != "probe" || !slices.Equal(ctx.Key(), []string{"a", "b"}) || ctx.ID() != "id-1" || ctx.Log() == nil ||
			ctx.Version() == 0 || ctx.Traceparent() == "" {
			return errors.New("the query does not see its actor")
		}
		return nil
	}
	if log, err := p.log.Call(t.Context(), ref, actor.None{}); err != nil || !slices.Equal(log, []string{"create", "wake"}) {
		t.Errorf("%q, %v", log, err)
	}
}

func TestTurnContextIsTheCallersContext(t *testing.T) {
	type key struct{}
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
	p.script = func(_ *probe, ctx *actor.Context) (string, error) {
		inner, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		v, _ := inner.Value(key{}).(string)
		if _, ok := inner.Deadline(); !ok {
			return "", errors.New("no deadline")
		}
		cancel()
		<-ctx.Done()
		return v, nil
	}
	if out, err := p.do.Call(ctx, p.typ.Ref(n), 1); err != nil || out != "v" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestRefusedWriteFailsTheTurnEvenIfIgnored(t *testing.T) {
	full := actor.Errorf(actor.Unavailable, "the outbox is full").Retry()
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	self := p.typ.Ref(n, "a")
	for name, write := range map[string]func(*actor.Context){
		"emit":   func(ctx *actor.Context) { p.rang.Emit(ctx, "x") },
		"send":   func(ctx *actor.Context) { p.note.Send(ctx, self, "x") },
		"alarm":  func(ctx *actor.Context) { p.bell.After(ctx, time.Second, "x") },
		"cancel": func(ctx *actor.Context) { p.bell.Cancel(ctx) },
	} {
		b := p.definition().Behavior()
		p.script = func(_ *probe, ctx *actor.Context) (string, error) { write(ctx); return "fine", nil }
		turn := &fakeTurn{Context: t.Context(), Node: n, node: n, actor: &fakeActor{behavior: b}, refuse: full}
		if _, err := b.New().Act(turn, 0, host.JSON, []byte("1"), nil); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		own := actor.Errorf(actor.NotFound, "mine")
		p.script = func(_ *probe, ctx *actor.Context) (string, error) { write(ctx); return "", own }
		if _, err := b.New().Act(turn, 0, host.JSON, []byte("1"), nil); err != own {
			t.Errorf("%s: the handler's error was replaced by %v", name, err)
		}
	}
}

func TestContractsOfAnotherTypeAreRefused(t *testing.T) {
	p, other := newProbes("probe"), newProbes("other")
	m := actor.NewMap[string, int](other.typ, "m")
	n := mustNode(t, p.definition(), other.definition())
	for name, use := range map[string]func(*actor.Context) error{
		"emit":   func(ctx *actor.Context) error { return other.rang.Emit(ctx, "x") },
		"alarm":  func(ctx *actor.Context) error { return other.bell.At(ctx, n.now, "x") },
		"cancel": func(ctx *actor.Context) error { _, err := other.bell.Cancel(ctx); return err },
		"get":    func(ctx *actor.Context) error { _, _, err := other.bell.Get(ctx); return err },
		"list":   func(ctx *actor.Context) error { _, err := other.bell.List(ctx); return err },
		"put":    func(ctx *actor.Context) error { return m.Put(ctx, "k", 1) },
		"clear":  func(ctx *actor.Context) error { _, err := m.Clear(ctx); return err },
		"all": func(ctx *actor.Context) error {
			for _, err := range m.All(ctx) {
				return err
			}
			return nil
		},
		"send": func(ctx *actor.Context) error { return p.note.Send(ctx, other.typ.Ref(ctx), "x") },
		"call": func(ctx *actor.Context) error {
			_, err := p.note.Call(ctx, other.typ.Ref(ctx), "x")
			return err
		},
	} {
		p.script = func(_ *probe, ctx *actor.Context) (string, error) { return "", use(ctx) }
		if _, err := p.do.Call(t.Context(), p.typ.Ref(n), 1); err == nil || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAContractOfAnotherTypeFailsTheTurnEvenIfTheErrorIsIgnored(t *testing.T) {
	p, other := newProbes("probe"), newProbes("other")
	m := actor.NewMap[string, int](other.typ, "m")
	queue := actor.NewQueue[string](other.typ, "q", actor.QueueConfig{})
	stream := actor.NewStream[string](other.typ, "s", actor.StreamConfig{})
	schedule := actor.NewSchedule[string](other.typ, "c")
	n := mustNode(t, p.definition())
	for name, use := range map[string]func(*actor.Context){
		"event":        func(ctx *actor.Context) { other.rang.Emit(ctx, "x") },
		"alarm":        func(ctx *actor.Context) { other.bell.After(ctx, time.Second, "x") },
		"alarm read":   func(ctx *actor.Context) { other.bell.Get(ctx) },
		"map put":      func(ctx *actor.Context) { m.Put(ctx, "k", 1) },
		"map delete":   func(ctx *actor.Context) { m.Delete(ctx, "k") },
		"map clear":    func(ctx *actor.Context) { m.Clear(ctx) },
		"map get":      func(ctx *actor.Context) { m.Get(ctx, "k") },
		"queue":        func(ctx *actor.Context) { queue.Put(ctx, "x") },
		"queue stats":  func(ctx *actor.Context) { queue.Stats(ctx) },
		"stream":       func(ctx *actor.Context) { stream.Append(ctx, "x") },
		"stream close": func(ctx *actor.Context) { stream.Close(ctx) },
		"schedule":     func(ctx *actor.Context) { schedule.Set(ctx, actor.Rule{Every: time.Hour}, "x") },
		"no schedule":  func(ctx *actor.Context) { schedule.Cancel(ctx) },
	} {
		p.script = func(_ *probe, ctx *actor.Context) (string, error) { use(ctx); return "fine", nil }
		out, err := p.do.Call(t.Context(), p.typ.Ref(n), 1)
		if err == nil || !strings.Contains(err.Error(), `"other"`) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

func TestSendIsPartOfTheCommit(t *testing.T) {
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	fail := true
	p.script = func(_ *probe, ctx *actor.Context) (string, error) {
		if err := p.note.Send(ctx, p.typ.Ref(ctx, "b"), "hello"); err != nil {
			return "", err
		}
		if fail {
			return "", errors.New("after all")
		}
		return "", nil
	}
	call := func() error { _, err := p.do.Call(t.Context(), p.typ.Ref(n, "a"), 1); return err }
	if err := call(); err == nil || n.actors["probe/b"] != nil {
		t.Errorf("a failed turn sent: %v", err)
	}
	fail = false
	if err := call(); err != nil {
		t.Fatal(err)
	}
	if log, err := p.log.Call(t.Context(), p.typ.Ref(n, "b"), actor.None{}); err != nil || !slices.Contains(log, "hello") {
		t.Errorf("%q, %v", log, err)
	}
}

func TestAlarmsReplaceCancelAndTellTheirInstance(t *testing.T) {
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	ref := p.typ.Ref(n, "a")
	p.script = func(_ *probe, ctx *actor.Context) (string, error) {
		p.bell.After(ctx, time.Hour, "late")
		p.bell.After(ctx, time.Minute, "soon")
		p.bell.Named("x").At(ctx, ctx.Now().Add(time.Minute), "named")
		p.bell.Named("y").At(ctx, ctx.Now(), "never")
		armed, err := p.bell.List(ctx)
		if err != nil || len(armed) != 3 || armed[0].Payload != "soon" || armed[1].Instance != "x" {
			return "", fmt.Errorf("armed: %v, %w", armed, err)
		}
		was, err := p.bell.Named("y").Cancel(ctx)
		again, err2 := p.bell.Named("y").Cancel(ctx)
		if !was || again || err != nil || err2 != nil {
			return "", errors.New("cancel")
		}
		if _, ok, err := p.bell.Named("y").Get(ctx); ok || err != nil {
			return "", errors.New("get of a cancelled alarm")
		}
		one, ok, err := p.bell.Get(ctx)
		if !ok || err != nil || one.Payload != "soon" || !one.Due.Equal(ctx.Now().Add(time.Minute)) {
			return "", fmt.Errorf("get: %v", one)
		}
		return "", nil
	}
	if _, err := p.do.Call(t.Context(), ref, 1); err != nil {
		t.Fatal(err)
	}
	n.sleep()
	if err := n.ring(t.Context(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	log, err := p.log.Call(t.Context(), ref, actor.None{})
	if want := []string{"create", "wake", `bell "" soon`, `bell "x" named`}; err != nil || !slices.Equal(log, want) {
		t.Errorf("%q, %v", log, err)
	}
}

func TestEventsReachSubscribersAsJSON(t *testing.T) {
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	p.script = func(_ *probe, ctx *actor.Context) (string, error) {
		p.rang.Emit(ctx, "<one>")
		p.nobody.Emit(ctx, actor.None{})
		return "", nil
	}
	if _, err := p.do.Call(t.Context(), p.typ.Ref(n), 1); err != nil {
		t.Fatal(err)
	}
	if want := []string{`rang "<one>"`, `nobody null`}; !slices.Equal(n.emitted, want) {
		t.Errorf("%q", n.emitted)
	}
	if v, err := p.rang.Decode([]byte(`"<one>"`)); err != nil || v != "<one>" {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := p.rang.Decode([]byte(`1`)); actor.CodeOf(err) != actor.InvalidArgument {
		t.Error(err)
	}
}

func TestExplicitCreationRunsItsMethodOnce(t *testing.T) {
	ctx := t.Context()
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	ref := p.typ.Ref(n, "a")
	if _, err := p.note.Call(ctx, ref, "x", actor.Existing()); actor.CodeOf(err) != actor.NotFound {
		t.Errorf("Existing: %v", err)
	}
	if err := p.open.Call(ctx, ref, ""); actor.CodeOf(err) != actor.FailedPrecondition {
		t.Error(err)
	}
	if err := p.open.Call(ctx, ref, "it", actor.IdempotencyKey("k"), actor.Traceparent("tp")); err != nil {
		t.Fatal(err)
	}
	if r := n.requests[len(n.requests)-1]; !r.Create || r.Method != "create" || r.IdempotencyKey != "k" || r.Traceparent != "tp" {
		t.Errorf("%+v", r)
	}
	if err := p.open.Call(ctx, ref, "it"); actor.CodeOf(err) != actor.AlreadyExists {
		t.Error(err)
	}
	if err := ref.Create(ctx); actor.CodeOf(err) != actor.AlreadyExists {
		t.Error(err)
	}
	if err := p.typ.Ref(n, "b").Create(ctx); err != nil {
		t.Error(err)
	}
	log, err := p.log.Call(ctx, ref, actor.None{}, actor.Existing())
	if want := []string{"create", "wake", "open it"}; err != nil || !slices.Equal(log, want) {
		t.Errorf("%q, %v", log, err)
	}
}

func TestListTurnsPagesAndStopsWhenAsked(t *testing.T) {
	ctx := t.Context()
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	for i := range 5 {
		if err := p.typ.Ref(n, "eu", fmt.Sprint(i)).Create(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.typ.Ref(n, "us", "1").Create(ctx); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for s, err := range p.typ.List(ctx, n, "eu") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, s.Key[1])
	}
	if !slices.Equal(keys, []string{"0", "1", "2", "3", "4"}) {
		t.Errorf("%q", keys)
	}
	for range p.typ.List(ctx, n) {
		break
	}
}

func TestLookupAndDestroy(t *testing.T) {
	ctx := t.Context()
	p := newProbes("probe")
	n := mustNode(t, p.definition())
	if _, err := p.typ.Ref(n, "a").Lookup(ctx); actor.CodeOf(err) != actor.NotFound {
		t.Error(err)
	}
	if err := p.typ.Ref(n, "a").Create(ctx); err != nil {
		t.Fatal(err)
	}
	if s, err := p.typ.Ref(n, "a").Lookup(ctx); err != nil || s.Type != "probe" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := p.typ.Ref(n, "a").Destroy(ctx); err != nil {
		t.Error(err)
	}
	if err := p.typ.Ref(n, "a").Destroy(ctx); actor.CodeOf(err) != actor.NotFound {
		t.Error(err)
	}
	p.script = func(_ *probe, ctx *actor.Context) (string, error) { ctx.DestroySelf(); return "bye", nil }
	if out, err := p.do.Call(ctx, p.typ.Ref(n, "b"), 1); err != nil || out != "bye" || n.actors["probe/b"] != nil {
		t.Errorf("%q, %v", out, err)
	}
}

func TestRefWithoutANodeIsAnErrorNotAPanic(t *testing.T) {
	ctx := t.Context()
	p := newProbes("probe")
	var zero actor.Ref[probe]
	for _, ref := range []actor.Ref[probe]{zero, p.typ.Ref(nil, "a")} {
		_, errCall := p.do.Call(ctx, ref, 1)
		_, errQuery := p.log.Call(ctx, ref, actor.None{})
		_, errLookup := ref.Lookup(ctx)
		for i, err := range []error{
			errCall, errQuery, errLookup, ref.Create(ctx), ref.Destroy(ctx), p.open.Call(ctx, ref, ""), ref.Create(ctx),
		} {
			if actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	if zero.Type() != "" || zero.Key() != nil {
		t.Error("a zero Ref names something")
	}
	for _, err := range p.typ.List(ctx, nil) {
		if actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
	}
}

func TestUnknownMethodNumbersAreRefused(t *testing.T) {
	p := newProbes("probe")
	b := p.definition().Behavior()
	i := b.New()
	query := slices.IndexFunc(b.Methods, func(m host.Method) bool { return m.Kind == host.Query })
	for _, method := range []int{-1, 99, query} {
		if _, err := i.Act(&fakeTurn{}, method, host.CBOR, nil, nil); actor.CodeOf(err) != actor.UnknownMethod {
			t.Errorf("action %d: %v", method, err)
		}
	}
	state, err := b.Decode(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []int{-1, 99, 0} {
		if _, err := b.Query(&fakeTurn{}, method, state, host.CBOR, nil, nil); actor.CodeOf(err) != actor.UnknownMethod {
			t.Errorf("query %d: %v", method, err)
		}
	}
	if _, err := b.Query(&fakeTurn{}, query, 1, host.CBOR, nil, nil); actor.CodeOf(err) != actor.Internal {
		t.Errorf("foreign state: %v", err)
	}
	if err := i.Alarm(&fakeTurn{}, 5, "", nil); actor.CodeOf(err) != actor.UnknownMethod {
		t.Error(err)
	}
}

func TestQueryCannotChangeTheState(t *testing.T) {
	typ := actor.NewType[counter]("counter")
	grab := actor.NewQuery[actor.None, int](typ, "grab")
	b := actor.Define(typ, actor.Spec[counter]{}, actor.OnQuery(grab, func(s counter, _ *actor.ReadContext, _ actor.None) (int, error) {
		s.N++
		return s.N, nil
	})).Behavior()
	state, err := b.Decode(0, nil)
	if err != nil || !b.SharedState {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := b.Query(&fakeTurn{}, 0, state, host.JSON, nil, nil); err != nil || string(out) != "1" {
			t.Errorf("%s, %v", out, err)
		}
	}
}
