package kv

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A watch follows some entries of an actor, as kv.Watch.
//
// It has no goroutine. Commits only mark keys as dirty; Next reads the dirty keys from one durable
// snapshot, and returns the values that differ from those it returned before. So a slow reader
// skips states, delays no commit, and ends with the last state.
type watch struct {
	k        *kernel.Kernel
	hub      *hub
	addr     host.Address
	actor    string
	codec    host.Codec
	stored   bool
	initial  bool
	keys     []string // packed, in order, without prefixes' keys twice
	prefixes []string // packed, in order, none within another
	signal   chan struct{}

	mu     sync.Mutex
	dirty  dirt
	handed []*touched // changes that are not marked yet
	names  int        // keys and ranges of it
	ending *host.Error

	// These are of the goroutine that reads.
	begun   bool
	found   bool             // the life is known
	life    keyspace.ActorID // that is read; zero for no actor
	version engine.Version   // that was read last
	since   string           // the life of the versions that the watcher came with; "" is any
	known   map[string]seen  // the entries that the watcher has
	bytes   int              // of their keys
	counted int64            // bytes of the memory of the watch, as the hub counts them
	expires expiries         // of the entries
	rest    []string         // keys that the last changes had no room for
	left    int              // bytes of these
	last    string           // the key before them; "" for none
	more    bool             // the last changes said that more follows
	absent  map[string]bool  // named keys that the watcher has as absent, until begun
	given   int64            // bytes of the last changes
}

// seen is an entry in its state for a watcher.
type seen struct {
	version engine.Version
	expire  int64
}

// watchOf returns a watch that has not joined the hub yet.
func watchOf(k *kernel.Kernel, addr host.Address, codec host.Codec, c *kv.Watching) (*watch, error) {
	if n := len(c.Keys); n > kv.MaxWatchedKeys {
		return nil, host.OverLimit("keys", kv.MaxWatchedKeys, int64(n)).With("field", "keys")
	}
	if n := len(c.Prefixes); n > kv.MaxWatchedPrefixes {
		return nil, host.OverLimit("prefixes", kv.MaxWatchedPrefixes, int64(n)).With("field", "prefixes")
	}
	if len(c.Keys)+len(c.Prefixes) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "a watcher names a key or a prefix at least").
			With("field", "keys")
	}
	w := &watch{
		k: k, hub: hubOf(k), addr: addr, actor: string(address.Append(nil,
			addr)), codec: codec, stored: c.Stored, initial: c.Initial,
		signal: make(chan struct{}, 1), known: make(map[string]seen), dirty: dirt{all: true},
	}
	for i, key := range c.Keys {
		b, err := packed(key)
		if err != nil {
			return nil, at("keys", i, err)
		}
		w.keys = append(w.keys, string(b))
	}
	for i, prefix := range c.Prefixes {
		start, err := prefixOf(prefix)
		if err != nil {
			return nil, at("prefixes", i, err)
		}
		w.prefixes = append(w.prefixes, string(start))
	}
	slices.Sort(w.prefixes)
	outer := w.prefixes[:0]
	for _, p := range w.prefixes {
		if len(outer) == 0 || !within(outer[len(outer)-1], p) {
			outer = append(outer, p)
		}
	}
	w.prefixes = outer
	slices.Sort(w.keys)
	w.keys = slices.Compact(w.keys)
	return w, nil
}

// prefixOf returns the packed form of a prefix that a reader names.
func prefixOf(prefix kv.Key) ([]byte, error) {
	switch {
	case prefix == nil:
		return nil, host.Errorf(host.InvalidArgument, "the prefix is missing; [] is that of the whole store")
	case len(prefix) == 0:
		return nil, nil
	}
	return packed(prefix)
}

// within reports whether a key is the prefix, or begins with its parts.
func within(prefix, key string) bool {
	return strings.HasPrefix(key, prefix) && (len(key) == len(prefix) || key[len(prefix)] != 0xFF)
}

// WatchKV follows entries of an actor: see kv.Watcher.
func WatchKV(ctx context.Context, k *kernel.Kernel, addr host.Address, c kv.Watching) (kv.Watch, error) {
	if from := kernel.CallerOf(ctx); from != nil && from.Kind == kernel.FromTurn {
		return nil, host.Errorf(host.InvalidArgument, "nothing can be watched inside a turn")
	}
	if _, err := k.TypeOf(addr); err != nil {
		return nil, err
	}
	if k.Draining.Load() {
		return nil, fault.Unavailable("the node is shutting down")
	}
	g := token.Of(ctx)
	if g != nil {
		if err := mayFollow(g, &c); err != nil {
			return nil, err
		}
	}
	w, err := watchOf(k, addr, host.JSON, &c)
	if err == nil {
		err = w.hub.join(w)
	}
	if err != nil {
		return nil, err
	}
	if !c.Initial {
		if _, _, err := w.read(ctx); err != nil { // commits after this are changes
			w.Close()
			return nil, err
		}
	}
	if g != nil {
		return grantedWatch{w, g}, nil
	}
	return w, nil
}

// watchFor implements kv.watch: a watch for as long as its caller waits.
func watchFor(k *kernel.Kernel, ctx context.Context, on kernel.Target, in *kv.WatchInput) (kv.Changes, error) {
	if n := len(in.Keys); n > kv.MaxWatchedKeys {
		return kv.Changes{}, host.OverLimit("keys", kv.MaxWatchedKeys, int64(n)).With("field", "keys")
	}
	c, known := kv.Watching{Keys: make([]kv.Key, len(in.Keys))}, make(map[string]seen)
	for i, key := range in.Keys {
		b, err := packed(key.Key)
		if err != nil {
			return kv.Changes{}, at("keys", i, of("key", err))
		}
		if c.Keys[i] = key.Key; key.Version != 0 {
			known[string(b)] = seen{version: engine.Version(key.Version)}
		}
	}
	if err := host.CheckLife(in.Life); err != nil {
		return kv.Changes{}, err
	}
	if in.WaitMS > 0 && on.From != nil && on.From.Kind == kernel.FromTurn {
		return kv.Changes{}, host.Errorf(host.InvalidArgument, "%q cannot wait inside a turn", host.KVWatch)
	}
	w, err := watchOf(k, on.Addr, on.Codec, &c)
	switch {
	case err != nil:
	case in.WaitMS == 0: // a read like any other; a limit of watchers does not refuse it
		w.hub = &hub{watchBounds: w.hub.watchBounds}
	default:
		err = w.hub.join(w)
	}
	if err != nil {
		return kv.Changes{}, err
	}
	defer w.Close()
	w.known, w.since, w.begun = known, in.Life, true
	for key := range known {
		w.bytes += len(key)
	}
	out, ok, err := w.read(ctx)
	if ok || err != nil || in.WaitMS == 0 {
		return out, err
	}
	if on.Order != nil {
		on.Order.Waits()
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(in.WaitMS)*time.Millisecond)
	defer cancel()
	if out, err = w.Next(waiting); err != nil && ctx.Err() == nil && waiting.Err() != nil {
		return w.nothing(), nil
	}
	return out, err
}

// touch marks a key that a version has changed.
func (w *watch) touch(key string, version engine.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark(&w.dirty, &w.dirty.keys, key, version, maxTouched)
	w.wake()
}

// hand leaves the marking of a turn's changes to the reader.
func (w *watch) hand(what *touched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handed = append(w.handed, what)
	if w.names += len(what.keys) + len(what.ranges); w.names > maxHanded {
		w.handed, w.names, w.dirty = nil, 0, dirt{all: true, last: max(w.dirty.last, what.version)}
	}
	w.wake()
}

// maxHanded bounds the keys and ranges that a reader marks. Beyond, it reads everything again.
const maxHanded = 2 * maxTouched

// markHanded marks the changes that were left to the reader. It compares without the lock, because
// publish waits for the lock.
func (w *watch) markHanded() {
	w.mu.Lock()
	handed := w.handed
	w.handed, w.names = nil, 0
	w.mu.Unlock()
	var found dirt
	for _, what := range handed {
		for _, key := range what.keys {
			if w.named(key) || slices.ContainsFunc(w.prefixes, func(p string) bool { return within(p, key) }) {
				mark(&found, &found.keys, key, what.version, maxTouched)
			}
		}
		for _, r := range what.ranges {
			if w.meets(r) {
				mark(&found, &found.ranges, r, what.version, maxRanges)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty.add(&found)
}

// meets reports whether watched entries can be in a range.
func (w *watch) meets(r span) bool {
	if slices.ContainsFunc(w.prefixes,
		func(p string) bool { return (r.end == "" || p < r.end) && (r.start < p || within(p, r.start)) }) {
		return true
	}
	i, _ := slices.BinarySearch(w.keys, r.start)
	return i < len(w.keys) && r.has(w.keys[i])
}

// touchRange marks a range.
func (w *watch) touchRange(r span, version engine.Version) {
	if !w.meets(r) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	mark(&w.dirty, &w.dirty.ranges, r, version, maxRanges)
	w.wake()
}

// touchAll marks everything.
func (w *watch) touchAll(version engine.Version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty = dirt{all: true, last: max(w.dirty.last, version)}
	w.wake()
}

// finish ends the watch.
func (w *watch) finish(err *host.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ending = cmp.Or(w.ending, err)
	w.wake()
}

func (w *watch) wake() {
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// Close implements kv.Watch.
func (w *watch) Close() {
	w.hub.leave(w)
	w.letGo()
	w.hub.known.Add(-w.counted)
	w.counted = 0
}

// letGo counts off the changes that the reader held.
func (w *watch) letGo() {
	w.hub.held.Add(-w.given)
	w.given = 0
}

// Next implements kv.Watch.
func (w *watch) Next(ctx context.Context) (kv.Changes, error) {
	w.letGo()
	for {
		if ctx.Err() != nil { // even while there is always something to return
			return kv.Changes{}, fault.Ended(ctx)
		}
		out, ok, err := w.read(ctx)
		if ok || err != nil {
			return out, err
		}
		if err := w.wait(ctx); err != nil {
			return kv.Changes{}, err
		}
	}
}

// wait waits until something may be different.
func (w *watch) wait(ctx context.Context) error {
	var due <-chan time.Time
	if len(w.expires) > 0 {
		timer := time.NewTimer(max(time.Until(time.UnixMilli(w.expires[0].at)), time.Millisecond))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-w.signal:
	case <-due:
	case <-ctx.Done():
		return fault.Ended(ctx)
	case <-w.k.NoWaits():
		return fault.Unavailable("the node is shutting down")
	}
	return nil
}

// idle reports whether nothing may be different. The error says why the watch has ended, if it has.
func (w *watch) idle() (bool, error) {
	w.markHanded()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending != nil {
		return false, w.ending
	}
	return w.dirty.none() && len(w.rest) == 0, nil
}

// take returns what may be different as of a version, and leaves what became so later.
func (w *watch) take(version engine.Version) dirt {
	w.markHanded()
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.dirty
	w.dirty = d.after(version)
	return d
}
