package actortest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// Config changes how the node of a test runs. Run uses the zero value.
type Config struct {
	// Options, if not nil, changes the node's options before each start. Dir, Disk, Actors and
	// Logger are set already.
	Options func(*runtime.Options)
	// Seed makes crashes reproducible: it decides which unsynced blocks survive. 0 means 1.
	Seed uint64
	// UnsyncedPercent is the chance of each unsynced block to survive a crash, from 0 to 100.
	UnsyncedPercent int
}

// Run runs f with a fresh node that hosts the definitions, in a synctest bubble, and stops the node
// at the end. The test fails if the node does not start or does not stop cleanly.
func Run(t *testing.T, f func(t *testing.T, h *Harness), definitions ...actor.Definition) {
	t.Helper()
	Config{}.Run(t, f, definitions...)
}

// Run is the function Run with this configuration.
func (c Config) Run(t *testing.T, f func(t *testing.T, h *Harness), definitions ...actor.Definition) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &Harness{t: t, config: c, definitions: definitions, turn: make(chan struct{}, 1)}
		seed := c.Seed
		if seed == 0 {
			seed = 1
		}
		h.random = rand.New(rand.NewPCG(seed, seed))
		h.start(engine.NewDisk())
		defer h.stop()
		f(t, h)
	})
}

// A Harness is a node under test. It implements actor.Node. Its methods may be called from any
// goroutine of the bubble, but Crash and Restart from one at a time.
type Harness struct {
	t           *testing.T
	config      Config
	definitions []actor.Definition
	random      *rand.Rand

	// turn is held by Crash and Restart. It is a channel because virtual time must pass while they
	// run, and a goroutine that waits for a mutex would stop it.
	turn chan struct{}
	node atomic.Pointer[node]
}

// A node is the runtime of a Harness and its disk.
type node struct {
	disk *engine.Disk
	rt   *runtime.Runtime
}

// start opens a node on a disk.
func (h *Harness) start(disk *engine.Disk) {
	h.t.Helper()
	o := runtime.Options{
		Dir: "data", Disk: disk, Actors: h.definitions,
		Usage:  runtime.UsageOptions{Off: true}, // so that an actor stores what the test has made it store
		Logger: slog.New(slog.NewTextHandler(h.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if h.config.Options != nil {
		h.config.Options(&o)
	}
	rt, err := runtime.Open(context.Background(), o)
	if err != nil {
		h.t.Fatalf("actortest: start the node: %v", err)
	}
	h.node.Store(&node{disk: disk, rt: rt})
}

func (h *Harness) stop() {
	if h.node.Load() == nil {
		return
	}
	if err := h.Runtime().Close(); err != nil {
		h.t.Errorf("actortest: stop the node: %v", err)
	}
}

// Runtime returns the node that runs now. A crash or restart replaces it.
func (h *Harness) Runtime() *runtime.Runtime { return h.node.Load().rt }

// Crash cuts the power and starts a new node on what is left: everything in memory is lost, and so
// is every write that was not synced. Calls in flight fail with code Unavailable. Definitions, if
// given, replace those of the node, as a deploy does.
func (h *Harness) Crash(definitions ...actor.Definition) {
	h.t.Helper()
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	left, err := h.Runtime().Crash(h.random.Uint64(), h.config.UnsyncedPercent)
	if err != nil {
		h.t.Fatalf("actortest: crash: %v", err)
	}
	h.deploy(left, definitions)
}

// Restart stops the node cleanly and starts a new one on its data. Definitions, if given, replace
// those of the node, as a deploy does.
func (h *Harness) Restart(definitions ...actor.Definition) {
	h.t.Helper()
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if err := h.Runtime().Close(); err != nil {
		h.t.Fatalf("actortest: stop the node: %v", err)
	}
	h.deploy(h.Disk(), definitions)
}

func (h *Harness) deploy(disk *engine.Disk, definitions []actor.Definition) {
	h.t.Helper()
	if len(definitions) > 0 {
		h.definitions = definitions
	}
	h.start(disk)
}

// Disk returns the memory disk of the node that runs now, to make it fail or fill up.
func (h *Harness) Disk() *engine.Disk { return h.node.Load().disk }

// Settle waits until the node only waits for time to pass: messages are handled, and due alarms
// have rung.
func (h *Harness) Settle() { synctest.Wait() }

// Call implements actor.Node.
func (h *Harness) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return h.Runtime().Call(ctx, r)
}

// Lookup implements actor.Node.
func (h *Harness) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return h.Runtime().Lookup(ctx, a)
}

// List implements actor.Node.
func (h *Harness) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return h.Runtime().List(ctx, q)
}

// Destroy implements actor.Node.
func (h *Harness) Destroy(ctx context.Context, a host.Address) error {
	return h.Runtime().Destroy(ctx, a)
}

// Status describes an actor without waking it. The test fails if there is none.
func (h *Harness) Status(typ string, key ...string) host.Status {
	h.t.Helper()
	st, err := h.Lookup(context.Background(), host.Address{Type: typ, Key: key})
	if err != nil {
		h.t.Fatalf("actortest: status of %s %q: %v", typ, key, err)
	}
	return st
}

// Inspect returns an actor's raw keyspace without its traces and usage, with values, in the order
// of the keys. A missing actor has none.
func (h *Harness) Inspect(typ string, key ...string) []host.StoredKey {
	h.t.Helper()
	var all []host.StoredKey
	q := host.InspectQuery{Limit: 1000, ValueBytes: 16 << 20}
	for {
		page, err := h.Runtime().Inspect(context.Background(), host.Address{Type: typ, Key: key}, q)
		if host.CodeOf(err) == host.NotFound {
			return nil
		}
		if err != nil {
			h.t.Fatalf("actortest: inspect %s %q: %v", typ, key, err)
		}
		all = append(all, slices.DeleteFunc(page.Keys, func(k host.StoredKey) bool {
			return strings.HasPrefix(k.Text, "trace/") || strings.HasPrefix(k.Text, "usage/")
		})...)
		if q.After = page.Next; q.After == nil {
			return all
		}
	}
}

// Events returns the durable events of an actor that are kept, from the first.
func (h *Harness) Events(typ string, key ...string) []host.EmittedEvent {
	h.t.Helper()
	s, err := h.Runtime().
		Subscribe(context.Background(), host.Address{Type: typ, Key: key}, host.Subscription{Resume: true})
	if err != nil {
		h.t.Fatalf("actortest: subscribe to %s %q: %v", typ, key, err)
	}
	defer s.Close()
	h.Settle()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all []host.EmittedEvent
	for {
		read := make(chan host.Delivery, 1)
		go func() {
			d, err := s.Next(ctx)
			if err == nil {
				read <- d
			}
			close(read)
		}()
		synctest.Wait()
		select {
		case d, ok := <-read:
			if !ok {
				return all
			}
			all = append(all, d.Events...)
		default:
			cancel()
			<-read
			return all
		}
	}
}
