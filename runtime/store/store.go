package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
)

// A Store is a key-value store, or a namespace or transaction of one.
type Store struct {
	*core
	namespace string // with its colon; "" for the whole store
	tx        *kv.Tx // nil outside of transactions
}

// A core is the part of a store that its namespaces and transactions share.
type core struct {
	kv     kv.Store
	ctx    context.Context // ends when the store is closed
	cancel context.CancelFunc
	node   *runtime.Runtime // nil if the store does not own it

	closing sync.Once
	err     error // of closing

	mu        sync.Mutex
	logged    bool // the changes are logged
	followers sync.WaitGroup
	callbacks map[*follower]struct{}
}

// The actor type of a store that owns its node.
var stores = actor.NewType[struct{}]("store")

// memory bounds the memory of a store's node. storage bounds its data, so that only the disk does.
const (
	memory  = 256 << 20
	storage = 1 << 60
)

// Open opens the store in a directory and creates it if missing. One process at a time can open it.
func Open(dir string) (*Store, error) { return open(runtime.Options{Dir: dir}) }

// New is Open, except that the path ":memory:" opens a store in memory.
func New(path string) (*Store, error) {
	if path == ":memory:" {
		return open(runtime.Options{Disk: engine.NewDisk()})
	}
	return Open(path)
}

func open(o runtime.Options) (*Store, error) {
	o.Actors = []actor.Definition{actor.Define(stores,
		actor.Spec[struct{}]{OpenKV: true, Limits: actor.Limits{StorageBytes: storage}})}
	o.Memory = memory
	o.Logger = slog.New(warnings{slog.Default().Handler()})
	node, err := runtime.Open(context.Background(), o)
	if err != nil {
		return nil, fmt.Errorf("store.Open: %w", err)
	}
	s := Of(stores.Ref(node).KV())
	s.node = node
	return s, nil
}

// Of returns the store of an actor: Of(ref.KV()). Closing it ends its watchers and callbacks, but
// not the node.
func Of(of kv.Store) *Store {
	c := &core{kv: of, callbacks: make(map[*follower]struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return &Store{core: c}
}

// Close ends the watchers and callbacks, waits for running callbacks, and closes the node of Open.
// Later calls return the same error. It must not be called in a callback. The Close of a namespace
// or a transaction does nothing.
func (s *Store) Close() error {
	if s == nil || s.core == nil || s.namespace != "" || s.tx != nil {
		return nil
	}
	s.closing.Do(func() {
		s.mu.Lock()
		s.cancel()
		s.mu.Unlock()
		s.followers.Wait()
		if s.node != nil {
			s.err = s.node.Close()
		}
	})
	return s.err
}

// closed reports whether the store refuses calls.
func (s *Store) closed() bool { return s == nil || s.core == nil || s.ctx.Err() != nil }

// warnings is the log of a node, with only warnings and errors.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
