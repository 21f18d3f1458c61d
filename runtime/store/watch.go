package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// An EventType is the kind of an event.
type EventType int

// The types of events.
const (
	// EventSet means that a value was stored.
	EventSet EventType = iota
	// EventDelete means that a key was removed, or has expired; see Event.Cause.
	EventDelete
	// EventDeleteGroup means that all keys of a group were removed. The watcher of one key gets an
	// EventDelete instead.
	EventDeleteGroup
	// EventGap means that the reader was so slow that events are no longer in the log. It has no
	// group and no key.
	EventGap
)

// String returns "set", "delete", "delete_group" or "gap".
func (t EventType) String() string {
	switch t {
	case EventSet:
		return "set"
	case EventDelete:
		return "delete"
	case EventDeleteGroup:
		return "delete_group"
	case EventGap:
		return "gap"
	}
	return fmt.Sprintf("EventType(%d)", int(t))
}

// An Event is a change of the store.
type Event struct {
	Type EventType
	// Group is the full name of the group, with the namespace.
	Group string
	// Key is the key of an EventSet and an EventDelete.
	Key string
	// Value is the value of an EventSet.
	Value string
	// Timestamp is the time of the commit, and Version counts commits: later ones have greater
	// versions.
	Timestamp time.Time
	Version   uint64
	// Cause of an EventDelete is "delete", "delete_group" or "expired".
	Cause string
	// Missed is the number of lost events of an EventGap.
	Missed uint64
}

// A Watcher sends events to Ch, which holds 16 events. A slow reader delays nobody and loses
// nothing: later events wait in the log of the store, which keeps the last 100,000 of up to 64 MiB.
type Watcher struct {
	// Ch is closed after Unwatch or the store's Close, or when Err has an error.
	Ch <-chan Event

	follower *follower
}

// Err returns the error that ended the events; nil if Ch is open, or was closed by Unwatch or the
// store's Close.
func (w *Watcher) Err() error {
	if w == nil || w.follower == nil {
		return nil
	}
	w.follower.mu.Lock()
	defer w.follower.mu.Unlock()
	return w.follower.err
}

// watchBuffer is how many events the channel of a watcher holds.
const watchBuffer = 16

// Watch returns a watcher of later changes to one key, to a group with the key "*", or to all
// groups of the store or namespace with the group "*". Call Unwatch when it is no longer read.
//
// The first Watch or OnChange of a store turns on its log of changes, which stays on. That takes
// about a second for a million keys.
func (s *Store) Watch(group, key string) *Watcher {
	ch := make(chan Event, watchBuffer)
	f := s.follow("Watch", s.selects(group, key), func(ctx context.Context, e Event) {
		select {
		case ch <- e:
		case <-ctx.Done():
		}
	}, func() { close(ch) })
	return &Watcher{ch, f}
}

// Unwatch ends a watcher and closes its channel. It may be called again.
func (s *Store) Unwatch(w *Watcher) {
	if w != nil && w.follower != nil {
		w.follower.cancel()
		<-w.follower.done
	}
}

// OnChange calls f for each later change, in the order of the commits, one at a time, once the
// change is durable. f delays no writer and may use the store, except Close and Sync. If f panics,
// the panic is logged, and f is called for the next change. The function that OnChange returns ends
// the calls, except one that is running.
func (s *Store) OnChange(f func(Event)) (stop func()) {
	follower := s.follow("OnChange", selected{all: true, each: true}, func(_ context.Context, e Event) {
		defer func() {
			if p := recover(); p != nil {
				slog.Error("store: a callback has panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		f(e)
	}, func() {})
	if s.closed() {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callbacks[follower] = struct{}{}
	return func() {
		follower.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callbacks, follower)
	}
}

// Sync waits until all callbacks have returned for the changes so far. It fails if ctx ends, or if
// a callback no longer receives changes. It must not be called in a callback.
func (s *Store) Sync(ctx context.Context) error {
	if s.closed() {
		return s.fault("Sync", ErrClosed)
	}
	s.mu.Lock()
	var all []*follower
	for f := range s.callbacks {
		all = append(all, f)
	}
	s.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	last, err := s.kv.LastPosition(ctx)
	for _, f := range all {
		if err == nil {
			err = f.wait(ctx, last.After)
		}
	}
	if err == nil && s.closed() {
		err = ErrClosed
	}
	return s.fault("Sync", err)
}

// A selected says which events a follower delivers.
type selected struct {
	prefixes []kv.Key
	group    string // "" for each
	key      string
	each     bool // key
	all      bool // groups
}

func (s *Store) selects(group, key string) (of selected) {
	of.all, of.each, of.key = group == "*", key == "*", key
	switch {
	case s == nil:
	case !of.all:
		of.group = s.full(group)
		prefix := prefixOf(of.group)
		if !of.each {
			prefix = append(prefix, key)
		}
		of.prefixes = []kv.Key{prefix}
	case s.namespace != "":
		of.prefixes = []kv.Key{prefixOf(s.namespace)[:1]}
	}
	return of
}

// has reports whether an entry is selected.
func (of *selected) has(group, key string) bool {
	return (of.all || group == of.group) && (of.each || key == of.key)
}

// A follower reads the log in its own goroutine, from its own position. Nothing waits for it.
type follower struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	moved  *sync.Cond
	passed uint64 // the sequence of the last event that was delivered
	ended  bool
	err    error
}

// follow starts a follower. It calls end when the follower has ended, even if it could not begin.
func (s *Store) follow(op string, of selected, deliver func(context.Context, Event), end func()) *follower {
	f := &follower{done: make(chan struct{})}
	f.moved = sync.NewCond(&f.mu)
	parent := context.Background()
	if !s.closed() {
		parent = s.ctx
	}
	f.ctx, f.cancel = context.WithCancel(parent)
	from, err := s.begin(f.ctx)
	if err != nil {
		f.stop(s.fault(op, err), end)
		return f
	}
	f.passed = from.After
	namespace := s.namespace
	go func() {
		defer s.followers.Done()
		var err error
		defer func() {
			if err == nil && f.ctx.Err() == nil {
				err = errors.New("the callback has ended its goroutine")
			}
			f.stop(s.fault(op, err), end)
		}()
		var groups removed
		for e, fault := range s.kv.Feed(f.ctx, kv.FeedConfig{From: from, Prefixes: of.prefixes}) {
			gap, missing := errors.AsType[*kv.GapError](fault)
			switch {
			case f.ctx.Err() != nil:
				return
			case missing:
				deliver(f.ctx, Event{Type: EventGap, Missed: gap.Missed})
				f.pass(gap.First - 1)
				continue
			case fault != nil:
				err = fault
				return
			}
			if shown, ok := groups.event(&e, &of, namespace); ok {
				deliver(f.ctx, shown)
			}
			f.pass(e.Sequence)
		}
	}()
	return f
}

// begin turns on the log of the store, and returns the end of the log. After success the caller
// must call followers.Done.
func (s *Store) begin(ctx context.Context) (kv.Position, error) {
	if s.closed() {
		return kv.Position{}, ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() { // Close waits for the followers
		return kv.Position{}, ErrClosed
	}
	from, err := s.kv.LastPosition(ctx)
	// The actor may have been destroyed and created again.
	if code := host.CodeOf(err); !s.logged || code == host.NotFound || code == host.FailedPrecondition {
		if err := s.log(ctx); err != nil {
			return kv.Position{}, err
		}
		s.logged = true
		from, err = s.kv.LastPosition(ctx)
	}
	if err == nil {
		s.followers.Add(1)
	}
	return from, err
}

// log turns on the log of the store.
func (s *Store) log(ctx context.Context) error {
	policy, err := s.scope(ctx, nil)
	if err != nil || policy != nil && policy.Log {
		return err
	}
	_, err = s.kv.ExtendScope(ctx, kv.Key{}, kv.Policy{Log: true})
	return err
}

// stop ends a follower with an error, or with nil.
func (f *follower) stop(err error, end func()) {
	f.mu.Lock()
	if f.ended = true; f.ctx.Err() == nil || errors.Is(err, ErrClosed) {
		f.err = err
	}
	f.moved.Broadcast()
	f.mu.Unlock()
	f.cancel()
	end()
	close(f.done)
}

func (f *follower) pass(sequence uint64) {
	f.mu.Lock()
	f.passed = sequence
	f.moved.Broadcast()
	f.mu.Unlock()
}

// wait waits until an event was delivered.
func (f *follower) wait(ctx context.Context, sequence uint64) error {
	stop := context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.moved.Broadcast()
	})
	defer stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.passed < sequence && !f.ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.moved.Wait()
	}
	return f.err
}

// removed holds the groups that one commit removed as a whole and that were already reported.
type removed struct {
	version uint64
	groups  map[string]bool
}

// event returns an event of the log as an event of the store; false if it is not selected, or was
// reported with its group.
func (r *removed) event(e *kv.Event, of *selected, namespace string) (Event, bool) {
	group, key, ok := split(e.Key)
	if !ok || !of.has(group, key) || len(group) < len(namespace) || group[:len(namespace)] != namespace {
		return Event{}, false
	}
	out := Event{Type: EventDelete, Group: group, Key: key, Timestamp: e.Time, Version: e.Version,
		Cause: hostkv.CauseDelete}
	if e.Cause != hostkv.CauseDeleteRange {
		r.version = 0
	}
	switch {
	case e.Op == hostkv.OpPut:
		out.Type, out.Cause = EventSet, ""
		text, err := textOf(e.Value)
		if out.Value = text; err != nil {
			out.Value = string(e.Value.Data)
		}
	case e.Cause == hostkv.CauseExpired:
		out.Cause = "expired"
	case e.Cause == hostkv.CauseDeleteRange && whole(e.Range, prefixOf(group)):
		if out.Cause = "delete_group"; !of.each {
			break
		}
		if r.version != e.Version {
			r.version, r.groups = e.Version, make(map[string]bool)
		}
		if r.groups[group] {
			return Event{}, false
		}
		r.groups[group] = true
		out.Type, out.Key, out.Cause = EventDeleteGroup, "", ""
	}
	return out, true
}

// whole reports whether a removed selection has all keys of a group.
func whole(of *kv.Selection, group kv.Key) bool {
	if of == nil || of.Start != nil || of.End != nil || len(of.Prefix) > len(group) {
		return false
	}
	for i, part := range of.Prefix {
		if part != group[i] {
			return false
		}
	}
	return true
}
