package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime"
)

// A bot is an actor that runs what the test tells it to: its actions, queries and alarms are closures, found by a name.
type bot struct {
	N     int
	Log   []string
	Notes map[string][]int // what other bots sent, by the sender's name
}

// A note is a message from one bot to another.
type note struct {
	From string
	N    int
	Run  string // a closure to run, or ""
}

type (
	action func(*bot, *actor.Context) (string, error)
	query  func(bot, *actor.ReadContext) (string, error)
)

var (
	bots    = actor.NewType[bot]("bot")
	run     = actor.NewAction[string, string](bots, "run")
	deliver = actor.NewAction[note, actor.None](bots, "deliver")
	open    = actor.NewCreate[string](bots)
	ask     = actor.NewQuery[string, string](bots, "ask")
	ring    = actor.NewAlarm[string](bots, "ring")
	said    = actor.NewEvent[string](bots, "said", actor.EventConfig{})
	things  = actor.NewMap[string, string](bots, "things")

	closures sync.Map
	names    atomic.Int64
)

// named gives a closure a name for contracts to carry.
func named(f any) string {
	name := strconv.FormatInt(names.Add(1), 10)
	closures.Store(name, f)
	return name
}

func (b *bot) run(ctx *actor.Context, name string) (string, error) {
	f, ok := closures.Load(name)
	if !ok {
		return "", fmt.Errorf("no closure %q", name)
	}
	return f.(action)(b, ctx)
}

func (b *bot) deliver(ctx *actor.Context, n note) (actor.None, error) {
	if n.Run != "" {
		if _, err := b.run(ctx, n.Run); err != nil {
			return actor.None{}, err
		}
	}
	if b.Notes == nil {
		b.Notes = make(map[string][]int)
	}
	b.Notes[n.From] = append(b.Notes[n.From], n.N)
	return actor.None{}, nil
}

func (b *bot) open(ctx *actor.Context, text string) error {
	if text == "refuse" {
		return errRefused
	}
	b.Log = append(b.Log, "open "+text)
	return nil
}

func (b *bot) ring(ctx *actor.Context, text string) error {
	if f, ok := closures.Load(text); ok {
		_, err := f.(action)(b, ctx)
		return err
	}
	b.Log = append(b.Log, "ring "+text)
	return nil
}

func (b bot) ask(ctx *actor.ReadContext, name string) (string, error) {
	f, _ := closures.Load(name)
	return f.(query)(b, ctx)
}

var errRefused = actor.Errorf(actor.FailedPrecondition, "refused")

func botDefinition(spec actor.Spec[bot]) actor.Definition {
	return actor.Define(bots, spec, actor.On(run, (*bot).run), actor.On(deliver, (*bot).deliver), actor.OnCreate(open, (*bot).open),
		actor.OnQuery(ask, bot.ask), actor.OnAlarm(ring, (*bot).ring))
}

// with runs a test on a node that hosts bots.
func with(t *testing.T, spec actor.Spec[bot], f func(t *testing.T, h *actortest.Harness)) {
	t.Helper()
	actortest.Run(t, f, botDefinition(spec))
}

// withOptions is with for a node with options of its own.
func withOptions(t *testing.T, spec actor.Spec[bot], options func(*runtime.Options), f func(t *testing.T, h *actortest.Harness)) {
	t.Helper()
	actortest.Config{Options: options}.Run(t, f, botDefinition(spec))
}

// do runs a closure as an action of a bot.
func do(h *actortest.Harness, key string, f action) (string, error) {
	return run.Call(context.Background(), bots.Ref(h, key), named(f))
}

// mustDo is do for closures that succeed.
func mustDo(t *testing.T, h *actortest.Harness, key string, f action) string {
	t.Helper()
	out, err := do(h, key, f)
	if err != nil {
		t.Fatalf("bot %s: %v", key, err)
	}
	return out
}

// add is an action that counts.
func add(n int) action {
	return func(b *bot, _ *actor.Context) (string, error) {
		b.N += n
		return strconv.Itoa(b.N), nil
	}
}

// look reads a bot's state through a query.
func look(t *testing.T, h *actortest.Harness, key string) bot {
	t.Helper()
	var got bot
	_, err := ask.Call(context.Background(), bots.Ref(h, key), named(query(func(b bot, _ *actor.ReadContext) (string, error) {
		got = b
		return "", nil
	})))
	if err != nil {
		t.Fatalf("query bot %s: %v", key, err)
	}
	return got
}

// wantCode fails the test unless err has the code.
func wantCode(t *testing.T, err error, code actor.Code) *actor.Error {
	t.Helper()
	if actor.CodeOf(err) != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	var e *actor.Error
	errors.As(err, &e)
	return e
}

// exists reports whether a bot is in the directory.
func exists(t *testing.T, h *actortest.Harness, key string) bool {
	t.Helper()
	_, err := bots.Ref(h, key).Lookup(context.Background())
	if err != nil && actor.CodeOf(err) != actor.NotFound {
		t.Fatal(err)
	}
	return err == nil
}

// within fails the test if f takes longer than d of virtual time.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Fatalf("took %s, want at most %s", took, d)
	}
}
