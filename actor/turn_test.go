package actor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

func TestTurnsQueriesAndTasksSeeTheirActor(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	onNode(t, func(r *rig) {
		var seen []string
		see := func(c interface {
			Type() string
			Key() []string
			ID() string
			Log() *slog.Logger
		}) {
			seen = append(seen, fmt.Sprintf("%s %q %s %t", c.Type(), c.Key(), c.ID(), c.Log() != nil))
		}
		ref := r.typ.Ref(r.node, "a", "b")
		r.script = func(s *desk, ctx *actor.Context) error {
			s.logf("written")
			if see(ctx); !ctx.Now().Equal(time.Now()) || !strings.HasPrefix(ctx.Traceparent(), trace[:36]) || ctx.Version() != 2 {
				t.Errorf("now %s, trace %s, version %d", ctx.Now(), ctx.Traceparent(), ctx.Version())
			}
			return ctx.Go("t", func(task *actor.Task) error { see(task); return nil })
		}
		if out, err := r.do.Call(r.Context(), ref, actor.None{}, actor.Traceparent(trace)); err != nil || out != "out" {
			t.Errorf("%q, %v", out, err)
		}
		r.h.Settle()
		r.read = func(ctx *actor.ReadContext) error {
			if see(ctx); !strings.HasPrefix(ctx.Traceparent(), trace[:36]) || ctx.Version() != 2 {
				t.Errorf("trace %s, version %d", ctx.Traceparent(), ctx.Version())
			}
			return nil
		}
		if _, err := r.log.Call(r.Context(), ref, actor.None{}, actor.Traceparent(trace)); err != nil {
			t.Error(err)
		}
		want := `desk ["a" "b"] ` + r.h.Status("desk", "a", "b").ID + " true"
		if !slices.Equal(seen, []string{want, want, want}) {
			t.Errorf("%q, want %s", seen, want)
		}
	})
}

func TestContextOfATurnIsAContext(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		r.script = func(_ *desk, ctx *actor.Context) error {
			inner, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			cancel()
			<-inner.Done() // as the caller is gone
			return nil
		}
		if _, err := r.do.Call(ctx, r.ref, actor.None{}); err != nil && actor.CodeOf(err) != actor.Canceled {
			t.Error(err)
		}
		if err := r.act(&stub{}, func(ctx *actor.Context) error {
			if v := ctx.Value("the turn's own"); v != "the turn's own" {
				t.Errorf("value %v", v)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func third[T any](_ T, _ bool, err error) error { return err }

// first returns the error of the first pair.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		return err
	}
	return nil
}

func TestRefusedWriteFailsTheTurnEvenIfIgnored(t *testing.T) {
	d := newDesks("desk")
	full, own := actor.Errorf(actor.Unavailable, "the outbox is full").Retry(), actor.Errorf(actor.NotFound, "mine")
	for name, write := range map[string]func(*actor.Context){
		"emit":         func(ctx *actor.Context) { d.said.Emit(ctx, "x") },
		"emit to":      func(ctx *actor.Context) { d.said.EmitTo(ctx, "one", "x") },
		"emit except":  func(ctx *actor.Context) { d.said.EmitExcept(ctx, "x") },
		"send":         func(ctx *actor.Context) { d.note.Send(ctx, d.typ.Ref(ctx, "a"), "x") },
		"alarm":        func(ctx *actor.Context) { d.bell.After(ctx, time.Second, form{}) },
		"no alarm":     func(ctx *actor.Context) { d.bell.Cancel(ctx) },
		"put":          func(ctx *actor.Context) { d.jobs.Put(ctx, job{}) },
		"cron":         func(ctx *actor.Context) { d.nightly.Set(ctx, actor.Rule{Cron: "@daily"}, 1) },
		"no schedule":  func(ctx *actor.Context) { d.nightly.Cancel(ctx) },
		"append":       func(ctx *actor.Context) { d.tokens.Append(ctx, "x") },
		"close":        func(ctx *actor.Context) { d.tokens.Close(ctx) },
		"go":           func(ctx *actor.Context) { ctx.Go("t", func(*actor.Task) error { return nil }) },
		"save":         func(ctx *actor.Context) { c, _, _ := d.clients.Get(ctx, "one"); c.Save(ctx) },
		"close client": func(ctx *actor.Context) { c, _, _ := d.clients.Get(ctx, "one"); c.Close(ctx, nil) },
	} {
		turn := &stub{err: full, connections: make([]host.ConnectionState, 1)}
		for _, returned := range []error{nil, own} {
			err := d.act(turn, func(ctx *actor.Context) error { write(ctx); return returned })
			if want := cmp.Or[error](returned, full); err != want {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
	}
}

func TestMistakesAreErrorsAndFailTheTurnEvenIfIgnored(t *testing.T) {
	d, other := newDesks("desk"), newDesks("other")
	m := actor.NewMap[string, int](other.typ, "m", actor.MapConfig{})
	type in = *actor.Context
	hourly, badKey := actor.Rule{Every: time.Hour}, actor.KeysIfUndelivered(tuple.Tuple{"x", struct{}{}})
	foreign := func(ctx in) actor.Ref[desk] { return other.typ.Ref(ctx) }
	for name, c := range map[string]struct {
		want string // a part of the error
		use  func(in) error
	}{
		"emit":          {`"other"`, func(ctx in) error { return other.said.Emit(ctx, "x") }},
		"emit to":       {`"other"`, func(ctx in) error { return other.said.EmitTo(ctx, "one", "x") }},
		"emit except":   {`"other"`, func(ctx in) error { return other.said.EmitExcept(ctx, "x") }},
		"alarm":         {`"other"`, func(ctx in) error { return other.bell.At(ctx, ctx.Now(), form{}) }},
		"no alarm":      {`"other"`, func(ctx in) error { return second(other.bell.Cancel(ctx)) }},
		"get alarm":     {`"other"`, func(ctx in) error { return third(other.bell.Get(ctx)) }},
		"list alarms":   {`"other"`, func(ctx in) error { return second(other.bell.List(ctx)) }},
		"map put":       {`"other"`, func(ctx in) error { return m.Put(ctx, "k", 1) }},
		"map delete":    {`"other"`, func(ctx in) error { return second(m.Delete(ctx, "k")) }},
		"map clear":     {`"other"`, func(ctx in) error { return second(m.Clear(ctx)) }},
		"map get":       {`"other"`, func(ctx in) error { return third(m.Get(ctx, "k")) }},
		"send":          {`"other"`, func(ctx in) error { return d.note.Send(ctx, foreign(ctx), "x") }},
		"put":           {`"other"`, func(ctx in) error { return second(other.jobs.Put(ctx, job{})) }},
		"post":          {`"other"`, func(ctx in) error { return d.jobs.Post(ctx, foreign(ctx), job{}) }},
		"stats":         {`"other"`, func(ctx in) error { return second(other.jobs.Stats(ctx)) }},
		"set":           {`"other"`, func(ctx in) error { return other.nightly.Set(ctx, hourly, 1) }},
		"no schedule":   {`"other"`, func(ctx in) error { return second(other.nightly.Cancel(ctx)) }},
		"append":        {`"other"`, func(ctx in) error { return second(other.tokens.Append(ctx, "x")) }},
		"close":         {`"other"`, func(ctx in) error { return other.tokens.Close(ctx) }},
		"to nobody":     {"the id of a connection", func(ctx in) error { return d.said.EmitTo(ctx, "", "x") }},
		"bad key":       {"key part 2", func(ctx in) error { return second(d.jobs.Put(ctx, job{}, badKey)) }},
		"no name":       {"Named", func(ctx in) error { return second(d.any.Put(ctx, "x")) }},
		"sent":          {"use Put", func(ctx in) error { return second(d.jobs.Of(d.typ.Ref(ctx)).Send(ctx, job{})) }},
		"no task":       {"function", func(ctx in) error { return ctx.Go("t", nil) }},
		"too often":     {"at least 1s", func(ctx in) error { return d.nightly.Set(ctx, actor.Rule{Every: time.Millisecond}, 1) }},
		"negative":      {"interval -1s", func(ctx in) error { return d.nightly.Set(ctx, actor.Rule{Every: -time.Second}, 1) }},
		"no rule":       {"not 0", func(ctx in) error { return d.nightly.Set(ctx, actor.Rule{}, 1) }},
		"zone":          {"time zone", func(ctx in) error { return d.nightly.Set(ctx, actor.Rule{Every: 1, Zone: "UTC"}, 1) }},
		"no schedule's": {"with Named", func(ctx in) error { return d.rest.Set(ctx, hourly, "x") }},
		"bad name":      {"a letter, then", func(ctx in) error { return d.rest.Named("a.b").Set(ctx, hourly, "x") }},
		"own name":      {"declared by itself", func(ctx in) error { return d.rest.Named("nightly").Set(ctx, hourly, "x") }},
		// Reading and calling does not fail the turn.
		"read call":        {`"other"`, func(ctx in) error { return second(d.note.Call(ctx, foreign(ctx), "x")) }},
		"read send":        {`"other"`, func(ctx in) error { return second(d.jobs.Of(foreign(ctx)).Send(ctx, job{})) }},
		"read ask":         {`"other"`, func(ctx in) error { return second(d.price.Of(foreign(ctx)).Ask(ctx, "x")) }},
		"read set":         {`"other"`, func(ctx in) error { return second(d.nightly.Of(foreign(ctx)).Set(ctx, hourly, 1)) }},
		"read stream":      {`"other"`, func(ctx in) error { return second(d.tokens.Of(foreign(ctx)).Info(ctx)) }},
		"read client":      {`"other"`, func(ctx in) error { return second(d.clients.Of(foreign(ctx)).Close(ctx, "one", "")) }},
		"read info":        {`"other"`, func(ctx in) error { return second(other.tokens.Info(ctx)) }},
		"read schedules":   {`"other"`, func(ctx in) error { return second(other.nightly.List(ctx)) }},
		"read schedule":    {`"other"`, func(ctx in) error { return third(other.nightly.Get(ctx)) }},
		"read connection":  {`"other"`, func(ctx in) error { return third(other.clients.Get(ctx, "one")) }},
		"read caller":      {`"other"`, func(ctx in) error { return third(other.clients.Caller(ctx)) }},
		"read connections": {`"other"`, func(ctx in) error { return first(other.clients.All(ctx)) }},
		"read items":       {`"other"`, func(ctx in) error { return first(other.tokens.Range(ctx, 0)) }},
		"read map":         {`"other"`, func(ctx in) error { return first(m.All(ctx)) }},
	} {
		var direct error
		err := d.act(&stub{}, func(ctx *actor.Context) error { direct = c.use(ctx); return nil })
		if direct == nil || !strings.Contains(direct.Error(), c.want) || err != direct && !strings.HasPrefix(name, "read ") {
			t.Errorf("%s: %v, and the turn: %v", name, direct, err)
		}
	}
}

func TestMessagesOfATurnAreSentIfItSucceeds(t *testing.T) {
	onNode(t, func(r *rig) {
		b := r.typ.Ref(r.node, "b")
		after := errors.New("after all")
		for _, err := range []error{after, nil} {
			if got := r.turn(func(_ *desk, ctx *actor.Context) error {
				r.note.Send(ctx, r.typ.Ref(ctx, "b"), "hello")
				r.jobs.Put(ctx, job{Name: "own"})
				r.jobs.Post(ctx, r.typ.Ref(ctx, "b"), job{Name: "posted"})
				return err
			}); err != nil && !errors.Is(got, err) || err == nil && got != nil {
				t.Error(got)
			}
			r.h.Settle()
			if _, err2 := b.Lookup(r.Context()); (err2 == nil) != (err == nil) {
				t.Errorf("after %v: %v", err, err2)
			}
		}
		r.logged("jobs own")
		r.ref = b
		r.logged("hello", "jobs posted")
	})
}

func TestAlarmsReplaceCancelAndTellTheirInstance(t *testing.T) {
	onNode(t, func(r *rig) {
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.bell.After(ctx, time.Hour, form{Name: "late"})
			r.bell.After(ctx, time.Minute, form{Name: "soon"})
			r.bell.Named("x").At(ctx, ctx.Now().Add(time.Minute), form{Name: "named"})
			r.bell.Named("y").At(ctx, ctx.Now(), form{Name: "never"})
			armed, err := r.bell.List(ctx)
			if err != nil || len(armed) != 3 || armed[0].Payload.Name != "soon" || armed[1].Instance != "x" {
				t.Errorf("armed: %v, %v", armed, err)
			}
			was, err := r.bell.Named("y").Cancel(ctx)
			again, err2 := r.bell.Named("y").Cancel(ctx)
			if !was || again || err != nil || err2 != nil {
				t.Errorf("cancel: %t %t %v %v", was, again, err, err2)
			}
			if _, ok, err := r.bell.Named("y").Get(ctx); ok || err != nil {
				t.Errorf("get of a cancelled alarm: %t, %v", ok, err)
			}
			one, ok, err := r.bell.Get(ctx)
			if !ok || err != nil || one.Payload.Name != "soon" || !one.Due.Equal(ctx.Now().Add(time.Minute)) {
				t.Errorf("get: %v, %v", one, err)
			}
			return nil
		})
		time.Sleep(2 * time.Hour)
		r.logged(`bell "" soon`, `bell "x" named`)
	})
}

func TestEventsAreJSON(t *testing.T) {
	onNode(t, func(r *rig) {
		client, _ := r.client("x", "said", "nothing")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.said.Emit(ctx, "<one>")
			r.nothing.Emit(ctx, actor.None{})
			return nil
		})
		r.gets(client, `said "<one>"`, `nothing null`)
		if v, err := r.said.Decode([]byte(`"<one>"`)); err != nil || v != "<one>" {
			t.Errorf("%q, %v", v, err)
		}
		if _, err := r.said.Decode([]byte(`1`)); actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
	})
}

func TestAllActorsAreListed(t *testing.T) {
	onNode(t, func(r *rig) {
		for i := range 102 { // more than a page
			if err := r.typ.Ref(r.node, "eu", fmt.Sprintf("%03d", i)).Create(r.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.typ.Ref(r.node, "us").Create(r.Context()); err != nil {
			t.Error(err)
		}
		listed := 0
		for s, err := range r.typ.List(r.Context(), r.node, "eu") {
			if err != nil || s.Type != "desk" || s.Key[1] != fmt.Sprintf("%03d", listed) {
				t.Fatalf("%+v, %v", s, err)
			}
			listed++
		}
		if listed != 102 {
			t.Errorf("%d actors are listed", listed)
		}
	})
}

func TestOptionsOfACallReachTheNode(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		key, trace, existing := actor.IdempotencyKey("k"), actor.Traceparent("tp"), actor.Existing()
		for name, err := range map[string]error{
			"create": r.ref.Create(ctx, key, trace), "open": r.open.Call(ctx, r.typ.Ref(r.node, "b"), "it", key, trace),
			"action": second(r.note.Call(ctx, r.ref, "x", actor.IdempotencyKey("l"), trace, existing)),
			"query":  second(r.log.Call(ctx, r.ref, actor.None{}, trace, existing)),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, q := range r.node.Requests() {
			creates := q.Method == "" || q.Method == "create"
			if q.Create != creates || q.Existing == creates || (q.IdempotencyKey == "") != (q.Method == "log") || q.Traceparent != "tp" {
				t.Errorf("%+v", q)
			}
		}
	})
}

func TestRefWithoutANodeIsAnErrorNotAPanic(t *testing.T) {
	ctx := t.Context()
	d := newDesks("desk")
	var zero actor.Ref[desk]
	for _, ref := range []actor.Ref[desk]{zero, d.typ.Ref(nil, "a")} {
		for i, err := range []error{
			second(d.note.Call(ctx, ref, "")), second(d.log.Call(ctx, ref, actor.None{})), second(ref.Lookup(ctx)), ref.Create(ctx), ref.Destroy(ctx),
			d.open.Call(ctx, ref, ""), second(d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{})), first(d.clients.Of(ref).List(ctx)),
			first(d.typ.List(ctx, nil)),
		} {
			if actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("%d: %v", i, err)
			}
		}
	}
	if zero.Type() != "" || zero.Key() != nil {
		t.Error("a zero Ref names something")
	}
}

func TestUnknownNumbersAndForeignValuesAreRefused(t *testing.T) {
	d := newDesks("desk")
	b := d.definition().Behavior()
	i, turn := b.New(), &stub{}
	state, err := b.Decode(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	const query, workers = 1, 2
	for _, number := range []int{-1, 99} {
		for name, err := range map[string]error{
			"action":   second(i.Act(turn, number, host.CBOR, nil, nil)),
			"query":    second(b.Query(turn, number, state, host.CBOR, nil, nil)),
			"alarm":    i.Alarm(turn, number, "", nil),
			"queue":    second(i.Message(turn, number, &host.Received{}, nil)),
			"schedule": i.Schedule(turn, number, &host.Tick{}, nil),
			"event":    i.Subscribe(turn, number, &host.ConnectionState{}),
			"no act":   second(i.Act(turn, query, host.CBOR, nil, nil)),
			"no query": second(b.Query(turn, 0, state, host.CBOR, nil, nil)),
			"workers":  second(i.Message(turn, workers, &host.Received{}, nil)),
		} {
			if actor.CodeOf(err) != actor.UnknownMethod {
				t.Errorf("%s %d: %v", name, number, err)
			}
		}
	}
	out, err := i.Message(turn, 0, &host.Received{Body: []byte("\x01")}, []byte("kept"))
	if string(out) != "kept" {
		t.Errorf("%q", out)
	}
	for name, err := range map[string]error{
		"state": second(b.Query(turn, query, 1, host.CBOR, nil, nil)), "body": err,
		"alarm": i.Alarm(turn, 0, "", []byte("\x61x")), "payload": i.Schedule(turn, 0, &host.Tick{}, []byte("\x61x")),
	} {
		if actor.CodeOf(err) != actor.Internal {
			t.Errorf("%s of another type: %v", name, err)
		}
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
		if out, err := b.Query(&stub{}, 0, state, host.JSON, nil, nil); err != nil || string(out) != "1" {
			t.Errorf("%s, %v", out, err)
		}
	}
}

func TestTasksEnterTurnsAppendAndCall(t *testing.T) {
	onNode(t, func(r *rig) {
		done := make(chan struct{})
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			return ctx.Go("import", func(task *actor.Task) error {
				defer close(done)
				if _, ok := task.Deadline(); ok || task.Err() != nil || task.Done() == nil || task.Value("k") != nil {
					t.Error("the task is another context")
				}
				if last, err := r.tokens.Append(task, "a", "b"); err != nil || last != 2 {
					t.Errorf("append: %d, %v", last, err)
				}
				if _, err := r.jobs.Of(r.typ.Ref(task, "b")).Send(task, job{Name: "x"}); err != nil {
					t.Error(err)
				}
				for s, err := range r.typ.List(task, task) {
					if err != nil || s.Type != "desk" {
						t.Errorf("list: %v, %v", s, err)
					}
				}
				if s, err := r.typ.Ref(task, "b").Lookup(task); err != nil || s.Type != "desk" {
					t.Errorf("lookup: %v, %v", s, err)
				}
				if err := r.typ.Ref(task, "nobody").Destroy(task); actor.CodeOf(err) != actor.NotFound {
					t.Error(err)
				}
				return actor.Enter(task, func(s *desk, ctx *actor.Context) error {
					s.logf("entered")
					return second(r.jobs.Put(ctx, job{Name: "from the task"}))
				})
			})
		})
		<-done
		r.logged("entered", "jobs from the task")
	})
}

func TestFailedEntryLeavesNothing(t *testing.T) {
	onNode(t, func(r *rig) {
		client, _ := r.client("x", "said")
		other := newDesks("other")
		own := actor.Errorf(actor.NotFound, "not after all")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			return ctx.Go("t", func(task *actor.Task) error {
				for name, c := range map[string]struct {
					err  error
					code actor.Code
				}{
					"its own error": {actor.Enter(task, func(s *desk, _ *actor.Context) error { s.logf("lost"); return own }), actor.NotFound},
					"a mistake": {actor.Enter(task, func(s *desk, ctx *actor.Context) error {
						s.logf("lost")
						r.said.Emit(ctx, "lost")
						r.said.EmitTo(ctx, "", "x")
						return nil
					}), actor.InvalidArgument},
					"another state":  {actor.Enter(task, func(*counter, *actor.Context) error { return nil }), actor.Internal},
					"no function":    {actor.Enter[desk](task, nil), actor.InvalidArgument},
					"another type":   {second(other.tokens.Append(task, "x")), actor.Internal},
					"without a name": {second(r.lines.Append(task, job{})), actor.InvalidArgument},
				} {
					if actor.CodeOf(c.err) != c.code {
						t.Errorf("%s: %v", name, c.err)
					}
				}
				return nil
			})
		})
		r.logged()
		r.mustTurn(func(_ *desk, ctx *actor.Context) error { return r.said.Emit(ctx, "first") })
		r.gets(client, `said "first"`)
	})
}
