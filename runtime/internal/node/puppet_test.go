package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/fxamacker/cbor/v2"
)

// A puppet is an actor that a test controls: its methods run closures, which the input names.
type puppet struct {
	typ *puppetType
	s   puppetState
	about
}

// about is the subject of a hook's call.
type about struct {
	tick   *host.Tick
	cause  *host.Error
	msg    *host.Received
	change *host.KVChange
	rang   string // the instance of the alarm
	conn   *host.ConnectionState
	given  []byte // the parameters of the connection
}

type puppetState struct {
	N   int
	Log []string
}

func (s *puppetState) decode(blob []byte) error {
	if blob == nil {
		return nil
	}
	return json.Unmarshal(blob, s)
}

type (
	deed   func(p *puppet, t host.Turn) error
	glance func(s *puppetState, r host.Reader) error
)

// puppetType makes the behavior of puppets.
type puppetType struct {
	name                   string
	wake, sleep, onDestroy deed
	create                 deed
	alarm                  deed
	message, tick          deed // handlers of queues and of the schedule "tick"

	maps   []host.Map
	change deed // handles changes of maps

	connect, disconnect, subscribe deed // the last is for the event "private"

	limits           host.Limits
	idle             time.Duration
	events           []host.Event
	queues           []host.Queue
	migrations       []host.Migration
	openSQL, decimal bool
	outside          bool // takes values from outside, and has a stream for them
}

var (
	deeds    sync.Map
	deedName atomic.Int64
)

// remember gives a closure a name for an input. No name is valid CBOR, so none is shown as an
// input.
func remember(f any) []byte {
	name := "#" + strconv.FormatInt(deedName.Add(1), 10)
	deeds.Store(name, f)
	return []byte(name)
}

func (d *puppetType) behavior() *host.Behavior {
	b := &host.Behavior{
		Type: d.name, StateVersion: 1, IdleTimeout: d.idle, Limits: d.limits, HasSleep: d.sleep != nil, HasWake: d.wake != nil, Events: d.events, Queues: d.queues,
		Methods: []host.Method{{Name: "do", Kind: host.Action, Handler: "puppet.do"},
			{Name: "look", Kind: host.Query, Handler: "puppet.look"}},
		Schedules:  []host.ScheduleMethod{{Name: "tick", Handler: "puppet.tick"}},
		Alarms:     []host.AlarmMethod{{Name: "ring", Handler: "puppet.ring"}},
		Maps:       d.maps,
		Migrations: d.migrations, OpenSQL: d.openSQL, SQLDecimal: d.decimal,
		New: func() host.Instance { return &puppet{typ: d} },
		Decode: func(_ uint64, blob []byte) (any, error) {
			s := new(puppetState)
			return s, s.decode(blob)
		},
		Query: func(r host.Reader, _ int, state any, _ host.Codec, input, out []byte) ([]byte, error) {
			f, ok := deeds.Load(string(input))
			if !ok {
				return out, nil
			}
			return out, f.(glance)(state.(*puppetState), r)
		},
	}
	if d.outside {
		b.Convert = convertAny
		b.Streams = []host.Stream{{Name: "log", External: true, Items: 100}, {Name: "short", Age: time.Minute}, {Name: host.AnyName}}
	}
	if d.connect != nil {
		b.Connections.Connect = "puppet.connect"
	}
	if d.disconnect != nil {
		b.Connections.Disconnect = "puppet.disconnect"
	}
	if d.subscribe != nil {
		b.Events = append([]host.Event(nil), b.Events...)
		b.Events[1].Subscribe = "puppet.subscribe"
	}
	return b
}

// convertAny converts any value but the string "bad".
func convertAny(_ host.ValueKind, _ int, from host.Codec, value []byte, to host.Codec, out []byte) ([]byte, error) {
	var v any
	decode, encode := json.Unmarshal, json.Marshal
	if from != host.JSON {
		mode, _ := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
		decode = mode.Unmarshal
	}
	if to != host.JSON {
		encode = cbor.Marshal
	}
	err := decode(value, &v)
	if err == nil && v == "bad" {
		err = errors.New("it is bad")
	}
	if err != nil {
		return nil, err
	}
	b, err := encode(v)
	return append(out, b...), err
}

func (p *puppet) Load(_ uint64, blob []byte) error {
	p.s = puppetState{}
	return p.s.decode(blob)
}

func (p *puppet) Save(dst []byte) ([]byte, error) {
	b, err := json.Marshal(&p.s)
	return append(dst, b...), err
}

func (p *puppet) Act(t host.Turn, _ int, _ host.Codec, input, out []byte) ([]byte, error) {
	f, ok := deeds.Load(string(input))
	if !ok {
		return nil, errors.New("no such deed")
	}
	return out, f.(deed)(p, t)
}

func (p *puppet) hook(f deed, t host.Turn, of about) error {
	if f == nil {
		return nil
	}
	p.about = of
	defer func() { p.about = about{} }()
	return f(p, t)
}

func (p *puppet) Alarm(t host.Turn, _ int, instance string, _ []byte) error {
	return p.hook(p.typ.alarm, t, about{rang: instance})
}

func (p *puppet) Message(t host.Turn, _ int, m *host.Received, _ []byte) ([]byte, error) {
	return nil, p.hook(p.typ.message, t, about{msg: m})
}

func (p *puppet) Change(t host.Turn, _ int, c *host.KVChange) error {
	return p.hook(p.typ.change, t, about{change: c})
}

func (p *puppet) Schedule(t host.Turn, _ int, tick *host.Tick, _ []byte) error {
	return p.hook(p.typ.tick, t, about{tick: tick})
}

func (p *puppet) Connect(t host.Turn, c *host.ConnectionState, params []byte) error {
	return p.hook(p.typ.connect, t, about{conn: c, given: params})
}

func (p *puppet) Disconnect(t host.Turn, _ *host.ConnectionState, cause *host.Error) error {
	return p.hook(p.typ.disconnect, t, about{cause: cause})
}

func (p *puppet) Subscribe(t host.Turn, _ int, _ *host.ConnectionState) error {
	return p.hook(p.typ.subscribe, t, about{})
}

func (p *puppet) State() any                { return &p.s }
func (p *puppet) Create(t host.Turn) error  { return p.hook(p.typ.create, t, about{}) }
func (p *puppet) Wake(t host.Turn) error    { return p.hook(p.typ.wake, t, about{}) }
func (p *puppet) Sleep(t host.Turn) error   { return p.hook(p.typ.sleep, t, about{}) }
func (p *puppet) Destroy(t host.Turn) error { return p.hook(p.typ.onDestroy, t, about{}) }

// A stage is a node of puppets under test.
type stage struct {
	*Node
	t       testing.TB
	store   *engine.Store
	disk    *engine.Disk
	types   []*puppetType
	options func(*Options)

	// Of the store, from the next start on.
	writeBytes int64  // for write sets; 0 is its default
	dir        string // where its files are, instead of on disk; its log and the node's are kept then
	log        bytes.Buffer
}

// newStage starts a node. The types default to one called "p".
func newStage(t testing.TB, options func(*Options), types ...*puppetType) *stage {
	t.Helper()
	if len(types) == 0 {
		types = []*puppetType{{name: "p"}}
	}
	return stageOn(t, engine.NewDisk(), options, types...)
}

// stageOn starts a node on the data of a disk.
func stageOn(t testing.TB, disk *engine.Disk, options func(*Options), types ...*puppetType) *stage {
	t.Helper()
	g := &stage{t: t, disk: disk, types: types, options: options}
	g.start()
	t.Cleanup(g.stop)
	return g
}

func (g *stage) start() {
	g.t.Helper()
	eo := engine.Options{Dir: "store", Disk: g.disk, WriteBytes: g.writeBytes, Logger: slog.New(slog.DiscardHandler)}
	if g.dir != "" {
		eo.Dir, eo.Disk, eo.Logger = g.dir, nil, slog.New(slog.NewTextHandler(&g.log, nil))
		eo.AcceptDataLoss = true // or a compaction that first reads the damage decides whether it opens
	}
	store, err := engine.Open(g.t.Context(), eo)
	g.ok(err)
	o := Options{Options: options.Options{Store: store, Logger: eo.Logger, IdleTimeout: time.Minute},
		Traces: trace.Options{Off: true}, UsageOff: true}
	for _, d := range g.types {
		o.Behaviors = append(o.Behaviors, d.behavior())
	}
	if g.options != nil {
		g.options(&o)
	}
	g.store = store
	g.Node, err = New(o)
	g.ok(err)
	g.Start()
}

func (g *stage) stop() {
	g.t.Helper()
	if g.Node == nil {
		return
	}
	g.ok(errors.Join(g.Close(context.Background()), g.store.Close()))
	g.Node = nil
}

// restart stops the node and starts it again on the same data.
func (g *stage) restart() {
	g.t.Helper()
	g.stop()
	g.start()
}

func pAddr(key string) host.Address { return host.Address{Type: "p", Key: []string{key}} }

// do runs a closure as a turn.
func (g *stage) do(key string, f deed) error { return g.doAt(pAddr(key), f) }

func (g *stage) doAt(a host.Address, f deed) error {
	r := request(f)
	r.Address = a
	_, err := g.Call(context.Background(), r)
	return err
}

// request is a request to the puppet "a" to run a closure as a turn.
func request(f deed) *host.Request {
	return &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Input: remember(f)}
}

// ok checks that there is no error.
func (g *stage) ok(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// must is do for a closure that must succeed.
func (g *stage) must(key string, f deed) {
	g.t.Helper()
	g.ok(g.do(key, f))
}

// add is a deed.
func add(n int) deed {
	return func(p *puppet, _ host.Turn) error { p.s.N += n; return nil }
}

// n reads a puppet's number by a query.
func (g *stage) n(key string) (n int) {
	g.t.Helper()
	g.ok(g.look(key, func(s *puppetState, _ host.Reader) error { n = s.N; return nil }))
	return n
}

func (g *stage) status(key string) host.Status {
	g.t.Helper()
	st, err := g.Lookup(context.Background(), pAddr(key))
	g.ok(err)
	return st
}

// verb calls a built-in method of an actor.
func (g *stage) verb(key, name string, in, out any) error {
	g.t.Helper()
	return g.verbAt(pAddr(key), name, in, out)
}

// verbAt is verb for an actor of any type.
func (g *stage) verbAt(a host.Address, name string, in, out any) error {
	g.t.Helper()
	var input []byte
	if in != nil {
		var err error
		input, err = json.Marshal(in)
		g.ok(err)
	}
	reply, err := g.Call(context.Background(), &host.Request{Address: a, Method: name, Codec: host.JSON, Input: input})
	if err == nil && out != nil {
		if err := json.Unmarshal(reply.Output, out); err != nil {
			g.t.Fatalf("%s answered %q: %v", name, reply.Output, err)
		}
	}
	return err
}

// mustVerb is verb for a call that must succeed.
func (g *stage) mustVerb(key, name string, in, out any) {
	g.t.Helper()
	g.ok(g.verb(key, name, in, out))
}

func (g *stage) destroy(key string) {
	g.t.Helper()
	must(g.t, g.Destroy(context.Background(), pAddr(key)))
}

func (g *stage) whyOf(key string) (x host.Explanation) {
	g.t.Helper()
	g.mustVerb(key, host.ActorWhy, nil, &x)
	return x
}

func wantCode(t testing.TB, err error, code host.Code) *host.Error {
	t.Helper()
	var e *host.Error
	fatalIf(t, !errors.As(err, &e) || e.Code != code, "the error is %v, not of code %q", err, code)
	return e
}

// crash cuts the power and starts the node on the remaining data.
func (g *stage) crash() { g.cut(1, 0) }

// cut is crash, after which some percent of the data that was not synced may remain.
func (g *stage) cut(seed uint64, unsynced int) {
	g.t.Helper()
	g.Halt()
	left := g.disk.Crash(seed, unsynced)
	g.Kill()
	g.store.Close()
	g.disk = left
	g.start()
}

// cuts runs f, and cuts the power at each third write and sync meanwhile, in the long form at each.
// seen is called with the disk's remaining data, when all else is blocked.
func (g *stage) cuts(seen func(left *engine.Disk), f func()) {
	each, first := 1, 0
	if !long() {
		each, first = 3, rand.IntN(3) // drawn, so that all are tried in time
	}
	moment, done := make(chan struct{}), make(chan struct{})
	g.disk.Fail(func(op, _ string) error {
		if op == "sync" || op == "write" {
			select {
			case moment <- struct{}{}:
				<-moment
			case <-done: // background work of the store goes on
			}
		}
		return nil
	})
	go func() {
		f()
		close(done)
	}()
	for n := 0; ; n++ {
		select {
		case <-moment:
			if synctest.Wait(); n%each == first {
				seen(g.disk.Crash(uint64(n), 35*(n%4)))
			}
			moment <- struct{}{}
		case <-done:
			g.disk.Fail(nil)
			g.t.Logf("%d writes and syncs", n)
			return
		}
	}
}

// afterCuts runs f, with cuts of the power. Then it calls check on a node with the remaining data
// of each cut, and with the result of note, if any, at the cut.
func afterCuts[T any](g *stage, note func() T, f func(), check func(m *stage, noted T)) {
	var disks []*engine.Disk
	var notes []T
	g.cuts(func(left *engine.Disk) {
		disks, notes = append(disks, left), append(notes, *new(T))
		if note != nil {
			notes[len(notes)-1] = note()
		}
	}, f)
	for i, disk := range disks {
		m := stageOn(g.t, disk, nil, g.types...)
		if check(m, notes[i]); g.t.Failed() {
			g.t.Fatalf("after cut %d of %d", i, len(disks))
		}
		m.stop()
	}
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// same makes the test fail unless got is want. where names the place.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Error(append(where, fmt.Sprintf("got %v, want %v", got, want))...)
	}
}

// gives is same for the result of a call that must succeed.
func gives[T comparable](t testing.TB, want T, where ...any) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		check(t, err, where...)
		same(t, got, want, where...)
	}
}

// kernelTurn returns the kernel's own view of a handler's turn.
func kernelTurn(h host.Turn) *kernel.Turn { return &h.(*handlerTurn).Turn }

// long reports whether the tests run in their long form, as in `make soak`.
func long() bool { return os.Getenv("CAIRN_LONG") != "" }
