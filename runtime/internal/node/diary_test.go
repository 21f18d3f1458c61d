package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/change"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// A diary is an actor whose behavior is made by hand: what its handlers do is up to each test, and its state is a list of
// what they noted.
type diary struct {
	Notes []string
	hooks *diaryHooks
}

// diaryHooks are what the handlers of a test do.
type diaryHooks struct {
	mu       sync.Mutex
	schedule func(d *diary, t host.Turn, tick *host.Tick, payload []byte) error
}

// onSchedule sets what the handler of schedules does, also while it may be running.
func (h *diaryHooks) onSchedule(f func(d *diary, t host.Turn, tick *host.Tick, payload []byte) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schedule = f
}

func (h *diaryHooks) scheduled() func(d *diary, t host.Turn, tick *host.Tick, payload []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.schedule
}

func (d *diary) note(s string) { d.Notes = append(d.Notes, s) }

func (d *diary) Load(_ uint64, blob []byte) error {
	d.Notes = nil
	if blob == nil {
		return nil
	}
	return json.Unmarshal(blob, &d.Notes)
}

func (d *diary) Save(dst []byte) ([]byte, error) {
	b, err := json.Marshal(d.Notes)
	return append(dst, b...), err
}

func (d *diary) Act(host.Turn, int, host.Codec, []byte, []byte) ([]byte, error) {
	return nil, errors.New("no action")
}

func (d *diary) Schedule(t host.Turn, _ int, tick *host.Tick, payload []byte) error {
	return d.hooks.scheduled()(d, t, tick, payload)
}

func (d *diary) Alarm(host.Turn, int, string, []byte) error { return errors.New("no alarm") }
func (d *diary) Message(host.Turn, int, *host.Received, []byte) ([]byte, error) {
	return nil, errors.New("no queue")
}
func (d *diary) Connect(host.Turn, *host.ConnectionState, []byte) error         { return nil }
func (d *diary) Disconnect(host.Turn, *host.ConnectionState, *host.Error) error { return nil }
func (d *diary) Subscribe(host.Turn, int, *host.ConnectionState) error          { return nil }
func (d *diary) State() any                                                     { return d }
func (d *diary) Create(host.Turn) error                                         { return nil }
func (d *diary) Wake(host.Turn) error                                           { return nil }
func (d *diary) Sleep(host.Turn) error                                          { return nil }
func (d *diary) Destroy(host.Turn) error                                        { return nil }

// diaryBehavior has schedules of any name, and the stream "log", which clients may append to.
func diaryBehavior(hooks *diaryHooks) *host.Behavior {
	return &host.Behavior{
		Type: "diary", StateVersion: 1,
		Methods:   []host.Method{{Name: "notes", Kind: host.Query, Handler: "diary.notes"}},
		Schedules: []host.ScheduleMethod{{Name: host.AnyName, Handler: "diary.schedule"}},
		Streams:   []host.Stream{{Name: "log", External: true, Items: 100}},
		New:       func() host.Instance { return &diary{hooks: hooks} },
		Decode: func(_ uint64, blob []byte) (any, error) {
			d := &diary{}
			return d, d.Load(0, blob)
		},
		Query: func(_ host.Reader, _ int, state any, _ host.Codec, input, out []byte) ([]byte, error) {
			b, err := json.Marshal(state.(*diary).Notes)
			return append(out, b...), err
		},
		Convert: convertAny,
	}
}

// convertAny converts any value but the string "bad".
func convertAny(_ host.ValueKind, _ int, from host.Codec, value []byte, to host.Codec, out []byte) ([]byte, error) {
	var v any
	var err error
	if from == host.JSON {
		err = json.Unmarshal(value, &v)
	} else {
		mode, _ := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
		err = mode.Unmarshal(value, &v)
	}
	if err == nil && v == "bad" {
		err = errors.New("it is bad")
	}
	if err != nil {
		return nil, err
	}
	var b []byte
	if to == host.JSON {
		b, err = json.Marshal(v)
	} else {
		b, err = cbor.Marshal(v)
	}
	return append(out, b...), err
}

// A diaryNode is a node that hosts diaries, on a disk in memory, in virtual time.
type diaryNode struct {
	*Node
	t     *testing.T
	hooks diaryHooks
	disk  *engine.Disk
	sink  change.Sink
}

// long reports whether the tests run in their long form, as in `make soak`.
func long() bool { return os.Getenv("CAIRN_LONG") != "" }

func withDiaries(t *testing.T, f func(t *testing.T, n *diaryNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &diaryNode{t: t, disk: engine.NewDisk()}
		n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error {
			d.note(tick.Due.UTC().Format("15:04:05"))
			return nil
		})
		n.open()
		f(t, n)
		n.stop()
	})
}

func (n *diaryNode) open() {
	n.t.Helper()
	store, err := engine.Open(context.Background(), engine.Options{Dir: "store", Disk: n.disk, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.t.Fatal(err)
	}
	n.Node, err = New(Options{Options: options.Options{
		Store: store, Behaviors: []*host.Behavior{diaryBehavior(&n.hooks)}, Logger: slog.New(slog.DiscardHandler), Changes: n.sink,
		IdleTimeout: time.Minute,
	}})
	if err != nil {
		n.t.Fatal(err)
	}
	n.Start()
}

func (n *diaryNode) stop() {
	n.t.Helper()
	if err := errors.Join(n.Close(context.Background()), n.Store.Close()); err != nil {
		n.t.Error(err)
	}
}

// call calls a method in JSON.
func (n *diaryNode) call(method string, in, out any) error {
	n.t.Helper()
	input, ok := in.(string)
	if !ok {
		b, err := json.Marshal(in)
		if err != nil {
			n.t.Fatal(err)
		}
		input = string(b)
	}
	reply, err := n.Call(context.Background(), &host.Request{Address: diaryAddress, Method: method, Codec: host.JSON, Input: []byte(input)})
	if err == nil && out != nil {
		if err := json.Unmarshal(reply.Output, out); err != nil {
			n.t.Fatalf("%s answered %s: %v", method, reply.Output, err)
		}
	}
	return err
}

func (n *diaryNode) must(method string, in, out any) {
	n.t.Helper()
	if err := n.call(method, in, out); err != nil {
		n.t.Fatalf("%s: %v", method, err)
	}
}

func (n *diaryNode) notes() (notes []string) {
	n.t.Helper()
	n.must("notes", "", &notes)
	return notes
}

var diaryAddress = host.Address{Type: "diary", Key: []string{"a"}}

// get returns a schedule as clients see it.
func (n *diaryNode) get(name string) (s host.Schedule) {
	n.t.Helper()
	var out host.ScheduleListOutput
	n.must(host.ScheduleList, host.ScheduleListInput{Name: name}, &out)
	if len(out.Schedules) > 1 {
		n.t.Fatalf("%+v", out)
	}
	for _, s = range out.Schedules {
	}
	return s
}

func (n *diaryNode) runs(name string) []host.ScheduleRun {
	n.t.Helper()
	var out host.ScheduleRunsOutput
	n.must(host.ScheduleRuns, host.ScheduleInput{Name: name}, &out)
	return out.Runs
}

// newBenchNode hosts diaries in real time, on a disk in memory.
func newBenchNode(b *testing.B, hooks *diaryHooks) *Node {
	b.Helper()
	store, err := engine.Open(context.Background(), engine.Options{Dir: "store", Disk: engine.NewDisk(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	s, err := New(Options{Options: options.Options{Store: store, Behaviors: []*host.Behavior{diaryBehavior(hooks)}, Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), store.Close()); err != nil {
			b.Error(err)
		}
	})
	return s
}
