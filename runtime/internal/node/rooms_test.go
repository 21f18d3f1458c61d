package node

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// rooms are actors that do what a test says, as a hand-made behavior with the events said, private, which has a subscribe
// hook, and kept. The state of a room is a list of strings.
type rooms struct {
	mu      sync.Mutex
	scripts []script

	connect    func(h host.Turn, r *room, c *host.ConnectionState, params []byte) error
	disconnect func(h host.Turn, r *room, c *host.ConnectionState, cause *host.Error) error
	subscribe  func(h host.Turn, event int, c *host.ConnectionState) error
}

// A script is what an action of a room does.
type script func(h host.Turn, r *room) error

const (
	evSaid = iota
	evPrivate
	evKept
)

type room struct {
	rooms *rooms
	Log   []string
}

var roomA = host.Address{Type: "room", Key: []string{"a"}}

// behavior returns the rooms' behavior. Hooks that are not set are not there.
func (rs *rooms) behavior() *host.Behavior {
	b := &host.Behavior{
		Type: "room",
		Methods: []host.Method{
			{Name: "run", Kind: host.Action, Handler: "run"}, {Name: "who", Kind: host.Query, Handler: "who"},
		},
		Events: []host.Event{{Name: "said"}, {Name: "private"}, {Name: "kept"}},
		New:    func() host.Instance { return &room{rooms: rs} },
		Decode: func(_ uint64, blob []byte) (any, error) {
			r := &room{rooms: rs}
			return r, r.Load(0, blob)
		},
		Query: func(r host.Reader, _ int, _ any, _ host.Codec, _, out []byte) ([]byte, error) {
			return append(out, r.Caller()...), nil
		},
	}
	if rs.connect != nil {
		b.Connections.Connect = "join"
	}
	if rs.disconnect != nil {
		b.Connections.Disconnect = "leave"
	}
	if rs.subscribe != nil {
		b.Events[evPrivate].Subscribe = "may"
	}
	return b
}

// request makes a request for a script.
func (rs *rooms) request(f script) *host.Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.scripts = append(rs.scripts, f)
	n := strconv.Itoa(len(rs.scripts) - 1)
	return &host.Request{Address: roomA, Method: "run", Codec: host.JSON, Input: []byte(n)}
}

func (r *room) Load(_ uint64, blob []byte) error {
	r.Log = nil
	if len(blob) == 0 {
		return nil
	}
	return json.Unmarshal(blob, &r.Log)
}

func (r *room) Save(dst []byte) ([]byte, error) {
	b, err := json.Marshal(r.Log)
	return append(dst, b...), err
}

func (r *room) Act(h host.Turn, _ int, _ host.Codec, input, out []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(input))
	if err != nil {
		return nil, err
	}
	r.rooms.mu.Lock()
	f := r.rooms.scripts[n]
	r.rooms.mu.Unlock()
	return out, f(h, r)
}

func (r *room) Connect(h host.Turn, c *host.ConnectionState, params []byte) error {
	return r.rooms.connect(h, r, c, params)
}

func (r *room) Disconnect(h host.Turn, c *host.ConnectionState, cause *host.Error) error {
	return r.rooms.disconnect(h, r, c, cause)
}

func (r *room) Subscribe(h host.Turn, event int, c *host.ConnectionState) error {
	return r.rooms.subscribe(h, event, c)
}

func (r *room) Alarm(host.Turn, int, string, []byte) error { return nil }
func (r *room) Message(_ host.Turn, _ int, _ *host.Received, out []byte) ([]byte, error) {
	return out, nil
}
func (r *room) Schedule(host.Turn, int, *host.Tick, []byte) error { return nil }
func (r *room) State() any                                        { return r }
func (r *room) Create(host.Turn) error                            { return nil }
func (r *room) Wake(host.Turn) error                              { return nil }
func (r *room) Sleep(host.Turn) error                             { return nil }
func (r *room) Destroy(host.Turn) error                           { return nil }

// A hotel is a node with rooms, on a disk that can crash.
type hotel struct {
	t      testing.TB
	rooms  *rooms
	limits host.Limits
	disk   *engine.Disk
	store  *engine.Store
	s      *Node
}

func newHotel(t testing.TB, rs *rooms, limits host.Limits) *hotel {
	t.Helper()
	h := &hotel{t: t, rooms: rs, limits: limits, disk: engine.NewDisk()}
	h.open()
	t.Cleanup(h.stop)
	return h
}

func (h *hotel) open() {
	h.t.Helper()
	var err error
	if h.store, err = engine.Open(context.Background(), engine.Options{Dir: "store", Disk: h.disk}); err != nil {
		h.t.Fatal(err)
	}
	b := h.rooms.behavior()
	b.Limits, b.IdleTimeout = h.limits, 10*time.Second
	o := Options{Options: options.Options{Store: h.store, Behaviors: []*host.Behavior{b}, Logger: slog.New(slog.DiscardHandler)}}
	if h.s, err = New(o); err != nil {
		h.t.Fatal(err)
	}
	h.s.Start()
}

func (h *hotel) stop() {
	if err := h.s.Close(context.Background()); err != nil {
		h.t.Error(err)
	}
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// restart closes the node and opens it again.
func (h *hotel) restart() {
	h.t.Helper()
	h.stop()
	h.open()
}

// crash cuts the power: of what was not synced, some survives.
func (h *hotel) crash(seed uint64, unsynced int) {
	h.t.Helper()
	h.s.Halt()
	left := h.disk.Crash(seed, unsynced)
	h.s.Kill()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
	h.disk = left
	h.open()
}

func (h *hotel) try(f script) error {
	_, err := h.s.Call(context.Background(), h.rooms.request(f))
	return err
}

func (h *hotel) run(f script) {
	h.t.Helper()
	if err := h.try(f); err != nil {
		h.t.Fatal(err)
	}
}

// say emits the event said once for each text.
func (h *hotel) say(texts ...string) {
	h.t.Helper()
	h.run(says(texts...))
}

func says(texts ...string) script {
	return func(h host.Turn, _ *room) error {
		for _, text := range texts {
			if err := h.Emit(evSaid, []byte(strconv.Quote(text))); err != nil {
				return err
			}
		}
		return nil
	}
}

func (h *hotel) connect(r host.ConnectRequest) host.LiveConnection {
	h.t.Helper()
	l, err := h.s.Connect(context.Background(), roomA, r)
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// back resumes a connection after an event.
func (h *hotel) back(w host.Welcome, after uint64) host.LiveConnection {
	h.t.Helper()
	l := h.connect(host.ConnectRequest{Token: w.Token, After: after, HasAfter: true, Events: []string{"said"}})
	if got := l.Welcome(); !got.Resumed || got.Connection != w.Connection {
		h.t.Fatalf("resumed %q: %+v", w.Connection, got)
	}
	return l
}

// log returns the state of the room.
func (h *hotel) log() []string {
	h.t.Helper()
	var log []string
	h.run(func(_ host.Turn, r *room) error {
		log = slices.Clone(r.Log)
		return nil
	})
	return log
}

// records returns the connections of the room.
func (h *hotel) records() []host.ConnectionState {
	h.t.Helper()
	var list []host.ConnectionState
	h.run(func(t host.Turn, _ *room) (err error) {
		list, err = t.Connections("", 0)
		return err
	})
	return list
}

// wakes returns how many rows the wake index has.
func (h *hotel) wakes() int {
	h.t.Helper()
	rows, err := h.store.Wakes(nil, 1<<60, 1<<20)
	if err != nil {
		h.t.Fatal(err)
	}
	return len(rows)
}

// heard reads what comes within a second: texts of events, and the events missed. It ends early when the connection does.
func heard(l host.LiveConnection) (texts []string, last, missed uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		d, err := l.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return texts, last, missed, err
		}
		missed += d.Missed
		for _, e := range d.Events {
			var text string
			if err := json.Unmarshal(e.Data, &text); err != nil {
				return texts, last, missed, err
			}
			texts, last = append(texts, text), e.Sequence
		}
	}
}

// expect reads what comes within a second and compares it.
func expect(t testing.TB, l host.LiveConnection, want ...string) {
	t.Helper()
	got, _, missed, err := heard(l)
	if !slices.Equal(got, want) || missed != 0 || err != nil {
		t.Errorf("heard %q, missed %d, %v; want %q", got, missed, err, want)
	}
}

// ending reads to the end of the connection and returns why it ended.
func ending(t testing.TB, l host.LiveConnection) *host.Error {
	t.Helper()
	_, _, _, err := heard(l)
	e, ok := errors.AsType[*host.Error](err)
	if !ok {
		t.Fatalf("the connection did not end: %v", err)
	}
	return e
}
