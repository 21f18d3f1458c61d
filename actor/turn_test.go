package actor_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

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
		if _, err := r.do.Call(ctx, r.ref, actor.None{}); err != nil {
			hasCode(r, "call", err, actor.Canceled)
		}
		check(r, r.act(&stub{}, func(ctx *actor.Context) error {
			errorIf(r, ctx.Value("the turn's own") != "the turn's own", "the turn's value is missing")
			return nil
		}))
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
			want := cmp.Or[error](returned, full)
			errorIf(t, err != want, "%s: %v, want %v", name, err, want)
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
		"bad queue":     {"a letter, then", func(ctx in) error { return second(d.any.Named("a b").Put(ctx, "x")) }},
		"own queue": {`queue "jobs", which is declared by itself`,
			func(ctx in) error { return second(d.any.Named("jobs").Put(ctx, "x")) }},
		"bad name": {"a letter, then", func(ctx in) error { return d.rest.Named("a.b").Set(ctx, hourly, "x") }},
		"own name": {"declared by itself", func(ctx in) error { return d.rest.Named("nightly").Set(ctx, hourly, "x") }},
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

func TestAlarmsReplaceCancelAndTellTheirInstance(t *testing.T) {
	onNode(t, func(r *rig) {
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			r.bell.After(ctx, time.Hour, form{Name: "late"})
			r.bell.After(ctx, time.Minute, form{Name: "soon"})
			r.bell.Named("x").At(ctx, ctx.Now().Add(time.Minute), form{Name: "named"})
			armed, err := r.bell.List(ctx)
			errorIf(r, len(armed) != 2 || armed[0].Payload.Name != "soon" || armed[1].Instance != "x", "%v", armed)
			was, err2 := r.bell.Named("y").Cancel(ctx)
			_, ok, err3 := r.bell.Named("y").Get(ctx)
			errorIf(r, was || ok, "there is an alarm that was not set: %t, %t", was, ok)
			return errors.Join(err, err2, err3)
		})
		time.Sleep(2 * time.Hour)
		r.logged(`bell "" soon`, `bell "x" named`)
	})
}

// pages is a node whose list has two pages, each of which leaves the same actors out.
type pages struct{ actor.Node }

func (pages) List(_ context.Context, q host.ListQuery) (host.ListPage, error) {
	page := host.ListPage{Actors: []host.Status{{Key: []string{"page" + q.Cursor}}}}
	for i := range 12 {
		page.Uncertain = append(page.Uncertain, host.Address{Type: "desk", Key: []string{fmt.Sprint(i)}})
	}
	if q.Cursor == "" {
		page.Cursor = "2"
	}
	return page, nil
}

func TestAllActorsAreListed(t *testing.T) {
	d := newDesks("desk")
	var keys []string
	var errs [2]error
	list, found := d.typ.List(t.Context(), pages{}), d.typ.Find(t.Context(), pages{}, handle.FindQuery{})
	for range 2 { // each loop has them all
		for s, err := range list {
			keys, errs[0] = append(keys, s.Key...), err
		}
		for ref, err := range found {
			if errs[1] = err; err == nil {
				keys = append(keys, ref.Key()...)
			}
		}
	}
	errorIf(t, !slices.Equal(keys, slices.Repeat([]string{"page", "page2"}, 4)), "%q", keys)
	for _, err := range errs {
		hasCode(t, "the end", err, actor.Unavailable, `: 12 with the keys ["0"]`)
	}
}

func TestOptionsOfACallReachTheNode(t *testing.T) {
	onNode(t, func(r *rig) {
		ctx := r.Context()
		key, trace, existing := actor.IdempotencyKey("k"), actor.Traceparent("tp"), actor.Existing()
		check(r, r.ref.Create(ctx, key, trace), r.open.Call(ctx, r.typ.Ref(r.node, "b"), "it", key, trace),
			second(r.note.Call(ctx, r.ref, "x", actor.IdempotencyKey("l"), trace, existing)),
			second(r.log.Call(ctx, r.ref, actor.None{}, trace, existing)))
		for _, q := range r.node.Requests() {
			creates := q.Method == "" || q.Method == "create"
			wrong := q.Create != creates || q.Existing == creates || (q.IdempotencyKey == "") != (q.Method == "log") ||
				q.Traceparent != "tp"
			errorIf(r, wrong, "%+v", q)
		}
		for s, err := range r.typ.List(ctx, r.node, "a") {
			errorIf(r, err != nil || s.Type != "desk" || s.Key[0] != "a", "%+v, %v", s, err)
		}
	})
}

func TestRefWithoutANodeIsAnErrorNotAPanic(t *testing.T) {
	ctx := t.Context()
	d := newDesks("desk")
	var zero actor.Ref[desk]
	for _, ref := range []actor.Ref[desk]{zero, d.typ.Ref(nil, "a")} {
		for _, err := range []error{
			second(d.note.Call(ctx, ref, "")), second(d.log.Call(ctx, ref,
				actor.None{})), second(ref.Lookup(ctx)), ref.Create(ctx), ref.Destroy(ctx),
			d.open.Call(ctx, ref, ""), second(d.mail.Of(ref).Receive(ctx, handle.ReceiveConfig{})), first(d.clients.Of(ref).List(ctx)),
			first(d.typ.List(ctx, nil)),
		} {
			hasCode(t, "without a node", err, actor.InvalidArgument)
		}
	}
	errorIf(t, zero.Type() != "" || zero.Key() != nil, "a zero Ref names something")
}

func TestFailedEntryLeavesNothing(t *testing.T) {
	onNode(t, func(r *rig) {
		client, _ := r.client("x", "said")
		other := newDesks("other")
		own := actor.Errorf(actor.NotFound, "not after all")
		r.mustTurn(func(_ *desk, ctx *actor.Context) error {
			return ctx.Go("t", func(task *actor.Task) error {
				lost := func(s *desk, _ *actor.Context) error { s.logf("lost"); return own }
				hasCode(r, "its own error", actor.Enter(task, lost), actor.NotFound)
				hasCode(r, "a mistake", actor.Enter(task, func(s *desk, ctx *actor.Context) error {
					s.logf("lost")
					r.said.Emit(ctx, "lost")
					r.said.EmitTo(ctx, "", "x")
					return nil
				}), actor.InvalidArgument)
				hasCode(r, "another state", actor.Enter(task, func(*counter, *actor.Context) error { return nil }), actor.Internal)
				hasCode(r, "no function", actor.Enter[desk](task, nil), actor.InvalidArgument)
				hasCode(r, "another type", second(other.tokens.Append(task, "x")), actor.Internal)
				hasCode(r, "without a name", second(r.lines.Append(task, job{})), actor.InvalidArgument)
				return nil
			})
		})
		r.logged()
		r.mustTurn(func(_ *desk, ctx *actor.Context) error { return r.said.Emit(ctx, "first") })
		r.gets(client, `said "first"`)
	})
}
