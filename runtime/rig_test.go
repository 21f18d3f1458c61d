package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime"
)

// A bot is an actor whose handlers are closures of the test, found by a name.
type bot struct {
	N     int
	Log   []string
	Notes map[string][]int // what other bots sent, by the sender's name
}

// A note is a message from one bot to another, or in a queue.
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
	ask     = actor.NewQuery[string, string](bots, "ask")
	ring    = actor.NewAlarm[string](bots, "ring")
	said    = actor.NewEvent[string](bots, "said", actor.EventConfig{})
	things  = actor.NewMap[string, string](bots, "things", actor.MapConfig{})
	latest  = actor.NewAttribute[string](bots, "latest")
	rank    = actor.NewAttribute[int64](bots, "rank")
	since   = actor.NewAttribute[time.Time](bots, "since")
	onAir   = actor.NewAttribute[bool](bots, "live")
	work    = actor.NewQueue[note](bots, "work", actor.QueueConfig{})
	carry   = actor.NewQueue[string](bots, "carry", actor.QueueConfig{Workers: true})
	weigh   = actor.NewRequestQueue[string, int](bots, "weigh", actor.QueueConfig{})
	entries = actor.NewStream[string](bots, "entries", actor.StreamConfig{MaxItems: 10_000})

	closures sync.Map
	names    atomic.Int64

	botA       = botAt("a")
	errRefused = actor.Errorf(actor.FailedPrecondition, "refused")
)

func botAt(key string) host.Address { return host.Address{Type: "bot", Key: []string{key}} }

// named stores a closure under a new name, which contracts can carry.
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
	return actor.None{}, b.work(ctx, n)
}

func (b *bot) work(ctx *actor.Context, n note) error {
	if n.Run != "" {
		if _, err := b.run(ctx, n.Run); err != nil {
			return err
		}
	}
	if b.Notes == nil {
		b.Notes = make(map[string][]int)
	}
	b.Notes[n.From] = append(b.Notes[n.From], n.N)
	return nil
}

func (b *bot) weigh(_ *actor.Context, s string) (int, error) {
	if s == "" {
		return 0, actor.Errorf(actor.FailedPrecondition, "the scales are broken")
	}
	return len(s), nil
}

func (b *bot) ring(ctx *actor.Context, text string) error {
	if _, ok := closures.Load(text); ok {
		_, err := b.run(ctx, text)
		return err
	}
	b.Log = append(b.Log, "ring "+text)
	return nil
}

func (b bot) ask(ctx *actor.ReadContext, name string) (string, error) {
	f, _ := closures.Load(name)
	return f.(query)(b, ctx)
}

func botDefinition(spec actor.Spec[bot]) actor.Definition {
	return actor.Define(bots, spec, actor.On(run, (*bot).run), actor.On(deliver, (*bot).deliver), actor.OnQuery(ask, bot.ask),
		actor.OnAlarm(ring, (*bot).ring), actor.OnMessage(work, (*bot).work), actor.OnRequest(weigh, (*bot).weigh))
}

// with runs a test on a node that hosts bots. Options change those of the node.
func with(t *testing.T, spec actor.Spec[bot], f func(t *testing.T, h *actortest.Harness), options ...func(*runtime.Options)) {
	t.Helper()
	actortest.Config{Options: func(o *runtime.Options) {
		for _, option := range options {
			option(o)
		}
	}}.Run(t, f, botDefinition(spec))
}

// do runs a closure as an action of a bot.
func do(n actor.Node, key string, f action) (string, error) {
	return run.Call(context.Background(), bots.Ref(n, key), named(f))
}

// mustDo is do for closures that succeed.
func mustDo(t *testing.T, n actor.Node, key string, f action) string {
	t.Helper()
	out, err := do(n, key, f)
	must(t, err)
	return out
}

// add is an action that counts.
func add(n int) action {
	return func(b *bot, _ *actor.Context) (string, error) {
		b.N += n
		return strconv.Itoa(b.N), nil
	}
}

// block is an action that waits until a channel is closed, regardless of its context.
func block(release chan struct{}) action {
	return func(*bot, *actor.Context) (string, error) { <-release; return "", nil }
}

// look reads a bot's state through a query.
func look(t *testing.T, n actor.Node, key string) (got bot) {
	t.Helper()
	_, err := peek(n, key, func(b bot, _ *actor.ReadContext) (string, error) { got = b; return "", nil })
	must(t, err)
	return got
}

// peek runs a closure as a query of a bot.
func peek(n actor.Node, key string, f query) (string, error) {
	return ask.Call(context.Background(), bots.Ref(n, key), named(f))
}

// wantCode fails the test unless err has the code.
func wantCode(t *testing.T, err error, code actor.Code) *actor.Error {
	t.Helper()
	fatalIf(t, actor.CodeOf(err) != code, "error %v, want code %s", err, code)
	e, _ := errors.AsType[*actor.Error](err)
	return e
}

// exists reports whether a bot is in the directory.
func exists(t *testing.T, n actor.Node, key string) bool {
	t.Helper()
	_, err := bots.Ref(n, key).Lookup(context.Background())
	fatalIf(t, err != nil && actor.CodeOf(err) != actor.NotFound, "%v", err)
	return err == nil
}

// within fails the test if f takes longer than d of virtual time.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	took := time.Since(start)
	fatalIf(t, took > d, "took %s, want at most %s", took, d)
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// A node opens runtimes that host bots without a harness.
type node struct{ disk *engine.Disk }

func newNode() *node { return &node{engine.NewDisk()} }

// open opens a runtime on the node's disk.
func (n *node) open(t *testing.T, options func(*runtime.Options)) *runtime.Runtime {
	t.Helper()
	o := runtime.Options{
		Dir: "data", Disk: n.disk, Actors: []actor.Definition{botDefinition(actor.Spec[bot]{})},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if options != nil {
		options(&o)
	}
	rt, err := runtime.Open(context.Background(), o)
	must(t, err)
	return rt
}

// openDir opens a runtime on a directory of the real disk.
func openDir(t testing.TB, dir string, definitions ...actor.Definition) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(t.Context(), dirOptions(dir, definitions...))
	must(t, err)
	return rt
}

func dirOptions(dir string, definitions ...actor.Definition) runtime.Options {
	return runtime.Options{Dir: dir, Actors: definitions, Logger: slog.New(slog.DiscardHandler)}
}

func deskOptions(dir string) runtime.Options { return dirOptions(dir, office.definition()) }

// invoke calls a method of an actor by its name, in JSON, and decodes the output into out unless
// that is nil.
func invoke(t *testing.T, n actor.Node, r host.Request, in, out any) (host.Reply, error) {
	t.Helper()
	r.Codec = host.JSON
	if in != nil {
		var err error
		r.Input, err = json.Marshal(in)
		must(t, err)
	}
	reply, err := n.Call(context.Background(), &r)
	if err == nil && out != nil {
		if err := json.Unmarshal(reply.Output, out); err != nil {
			t.Fatalf("%s answered %s: %v", r.Method, reply.Output, err)
		}
	}
	return reply, err
}
