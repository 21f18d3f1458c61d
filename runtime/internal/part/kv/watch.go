package kv

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// A watch follows some entries of an actor, as kv.Watch.
//
// It has no goroutine. Commits only mark keys as dirty; Next reads the dirty keys from one durable snapshot, and returns those
// that are different from what it has returned before. So a reader that is slow skips states, holds nobody up, and ends with
// the last state.
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
	handed []*touched // what is not marked yet
	ending *host.Error

	// Of the goroutine that reads.
	begun   bool
	found   bool             // the life is known
	life    keyspace.ActorID // that is read; zero for no actor
	version engine.Version   // that was read last
	since   string           // the life of the versions that the watcher came with; "" is any
	known   map[string]seen  // the entries as the watcher knows them
	bytes   int              // of their keys
	expires expiries         // of them
	rest    []string         // keys that the last changes had no room for
	given   int64            // bytes of the last changes
}

// dirt is what may be different from what a watcher knows, with the versions that have made it so.
type dirt struct {
	all    bool
	keys   map[string]engine.Version
	ranges map[span]engine.Version
	last   engine.Version // of all of it
}

func (d *dirt) none() bool { return !d.all && len(d.keys)+len(d.ranges) == 0 }

// mark marks a key or a range, or all if there are too many.
func mark[K comparable](d *dirt, marked *map[K]engine.Version, k K, version engine.Version, most int) {
	if d.last = max(d.last, version); d.all {
		return
	}
	if *marked == nil {
		*marked = make(map[K]engine.Version)
	}
	if (*marked)[k] = version; len(*marked) > most {
		*d = dirt{all: true, last: d.last}
	}
}

// after returns what was marked after a version.
func (d *dirt) after(version engine.Version) dirt {
	if d.last <= version {
		return dirt{}
	}
	earlier := func(v engine.Version) bool { return v <= version }
	left := dirt{all: d.all, last: d.last, keys: maps.Clone(d.keys), ranges: maps.Clone(d.ranges)}
	maps.DeleteFunc(left.keys, func(_ string, v engine.Version) bool { return earlier(v) })
	maps.DeleteFunc(left.ranges, func(_ span, v engine.Version) bool { return earlier(v) })
	return left
}

// seen is an entry as a watcher knows it.
type seen struct {
	version engine.Version
	expire  int64
}

// watchOf returns a watch that has joined the hub.
func watchOf(k *kernel.Kernel, addr host.Address, codec host.Codec, c *kv.Watching) (*watch, error) {
	if n := len(c.Keys); n > kv.MaxWatchedKeys {
		return nil, host.OverLimit("keys", kv.MaxWatchedKeys, int64(n)).With("field", "keys")
	}
	if n := len(c.Prefixes); n > kv.MaxWatchedPrefixes {
		return nil, host.OverLimit("prefixes", kv.MaxWatchedPrefixes, int64(n)).With("field", "prefixes")
	}
	if len(c.Keys)+len(c.Prefixes) == 0 {
		return nil, host.Errorf(host.InvalidArgument, "a watcher names a key or a prefix at least").With("field", "keys")
	}
	w := &watch{
		k: k, hub: hubOf(k), addr: addr, actor: string(address.Append(nil, addr)), codec: codec, stored: c.Stored, initial: c.Initial,
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
		var start []byte
		var err error
		switch {
		case prefix == nil:
			err = host.Errorf(host.InvalidArgument, "the prefix is missing; [] is that of the whole store")
		case len(prefix) > 0:
			start, err = packed(prefix)
		}
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
	if err := w.hub.join(w); err != nil {
		return nil, err
	}
	return w, nil
}

// within reports whether a key is that of a prefix, or begins with its parts.
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
	w, err := watchOf(k, addr, host.JSON, &c)
	if err != nil {
		return nil, err
	}
	if !c.Initial {
		if _, _, err := w.read(ctx); err != nil { // what comes after this is a change
			w.Close()
			return nil, err
		}
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
	if err != nil {
		return kv.Changes{}, err
	}
	defer w.Close()
	w.known, w.since, w.begun = known, in.Life, true
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

// hand leaves it to the reader to mark what a turn has changed.
func (w *watch) hand(what *touched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.handed = append(w.handed, what); len(w.handed) > maxRanges {
		w.handed, w.dirty = nil, dirt{all: true, last: max(w.dirty.last, what.version)}
	}
	w.wake()
}

// markHanded marks what was left to the reader.
//
// REQUIRES: w.mu
func (w *watch) markHanded() {
	for _, what := range w.handed {
		for _, key := range what.keys {
			if w.names(key) || slices.ContainsFunc(w.prefixes, func(p string) bool { return within(p, key) }) {
				mark(&w.dirty, &w.dirty.keys, key, what.version, maxTouched)
			}
		}
		for _, r := range what.ranges {
			if w.meets(r) {
				mark(&w.dirty, &w.dirty.ranges, r, what.version, maxRanges)
			}
		}
	}
	w.handed = nil
}

// meets reports whether entries that are watched can be in a range.
func (w *watch) meets(r span) bool {
	if slices.ContainsFunc(w.prefixes, func(p string) bool { return (r.end == "" || p < r.end) && p+"\xff" > r.start }) {
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
}

// letGo counts off what the reader had in hand.
func (w *watch) letGo() {
	w.hub.held.Add(-w.given)
	w.given = 0
}

// Next implements kv.Watch.
func (w *watch) Next(ctx context.Context) (kv.Changes, error) {
	w.letGo()
	for {
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending != nil {
		return false, w.ending
	}
	w.markHanded()
	return w.dirty.none() && len(w.rest) == 0, nil
}

// take returns what may be different as of a version, and leaves what became so later.
func (w *watch) take(version engine.Version) dirt {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.markHanded()
	d := w.dirty
	w.dirty = d.after(version)
	return d
}

// read reads what may be different, and returns what is. ok is false if nothing is, and the watcher has been told the
// beginning.
func (w *watch) read(ctx context.Context) (out kv.Changes, ok bool, err error) {
	due := w.expires.due(time.Now().UnixMilli(), w.known)
	if idle, err := w.idle(); err != nil || idle && len(due) == 0 {
		return out, false, err
	}
	defer func() {
		if err != nil {
			w.touchAll(0) // it is read again
		}
	}()
	snap, id, err := w.k.Durable(ctx, w.addr)
	var rows engine.Reader = nothing{}
	switch {
	case host.CodeOf(err) == host.NotFound:
		id, w.version = keyspace.ActorID{}, 0
	case err != nil:
		return out, false, err
	default:
		defer snap.Close()
		head, err := snap.Head()
		if err != nil {
			return out, false, w.k.StoreError(err)
		}
		rows, w.version = snap, head.Version
	}
	if _, err := w.idle(); err != nil {
		return out, false, err
	}
	d := w.take(w.version)
	if w.found && id != w.life && !w.life.IsZero() {
		w.finish(fault.Destroyed())
		return out, false, fault.Destroyed()
	}
	if !w.found && w.since != "" && w.since != id.String() {
		for key := range w.known {
			w.known[key] = seen{version: ^engine.Version(0)} // that of no entry
		}
	}
	w.life, w.found = id, true
	keys, err := w.candidates(rows, &d, due)
	if err == nil {
		out, err = w.differences(rows, keys)
	}
	if err != nil {
		return kv.Changes{}, false, w.k.StoreError(err)
	}
	first := !w.begun
	if first && !w.initial {
		out.Changes = []kv.Change{}
	}
	w.begun = w.begun || !out.More
	return out, len(out.Changes) > 0 || first && w.initial, nil
}

// candidates returns the keys whose entries may be different, in order.
func (w *watch) candidates(rows engine.Reader, d *dirt, due []string) ([]string, error) {
	keys := append(due, w.rest...)
	w.rest = nil
	for key := range d.keys {
		keys = append(keys, key)
	}
	for r := range d.ranges {
		for key := range w.known {
			if r.has(key) {
				keys = append(keys, key)
			}
		}
	}
	if d.all {
		keys = append(keys, w.keys...)
		gone := make(map[string]bool, len(w.known))
		for key := range w.known {
			gone[key] = true
		}
		for _, prefix := range w.prefixes {
			list := engine.ListQuery{KeysOnly: true}
			list.Start, list.End = kvrows.Bounds([]byte(prefix), []byte(prefix+"\xff"))
			for {
				page, err := rows.List(list)
				if err != nil {
					return nil, err
				}
				for i := range page.Entries {
					e := &page.Entries[i]
					key := string(e.Key[1:])
					delete(gone, key)
					if s, there := w.known[key]; !there || s != (seen{e.Version, e.Expire}) {
						keys = append(keys, key)
					}
				}
				if len(keys) > kv.MaxWatchedEntries+kv.MaxWatchedKeys {
					return nil, w.tooMany()
				}
				if list.After = page.Next; page.Next == nil {
					break
				}
			}
		}
		for key := range gone {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// tooMany ends a watch that has too much to remember.
func (w *watch) tooMany() *host.Error {
	err := host.OverLimit("entries that one watcher follows", kv.MaxWatchedEntries, kv.MaxWatchedEntries+1).With("field", "prefixes")
	w.finish(err)
	return err
}

// Changes end after the entry with which keys and values reach so many bytes: 16 MiB, which is more than one commit has, or less
// while watchers have much in hand.
const (
	changesBytes = kv.MaxValues
	fewBytes     = 64 << 10
	entryBytes   = 128 // of an entry besides
)

// differences returns the entries that are different from what the watcher knows, which it knows then.
func (w *watch) differences(rows engine.Reader, keys []string) (kv.Changes, error) {
	out, size, most, read := w.nothing(), 0, changesBytes, make([]reading, 0, len(keys))
	if w.hub.held.Load() > w.k.Options.MaxEventBytes {
		most = fewBytes
	}
	for i, key := range keys {
		e, there, err := rows.Get(keyspace.UserKV.Append(nil, []byte(key)))
		if err != nil {
			return out, err
		}
		before, known := w.known[key]
		if there || known {
			read = append(read, reading{key, seen{e.Version, e.Expire}, there})
		}
		switch {
		case !w.begun && !w.initial, there && known && before.version == e.Version:
			continue
		case !there && !known && (w.begun || !w.names(key)):
			continue
		}
		change, err := w.change(key, &e, there)
		if err != nil {
			return out, err
		}
		out.Changes = append(out.Changes, change)
		if size += entryBytes + len(key) + len(e.Value); size >= most && i+1 < len(keys) {
			w.rest, out.More = keys[i+1:], true
			break
		}
	}
	for _, r := range read {
		w.note(r)
	}
	if len(w.known) > kv.MaxWatchedEntries || w.bytes > kv.MaxWatchedBytes {
		return out, w.tooMany()
	}
	w.given = int64(size)
	w.hub.held.Add(w.given)
	return out, nil
}

// A reading is what an entry was found to be.
type reading struct {
	key string
	seen
	there bool
}

// nothing is changes without any.
func (w *watch) nothing() kv.Changes {
	out := kv.Changes{Changes: []kv.Change{}, Version: uint64(w.version)}
	if !w.life.IsZero() {
		out.Life = w.life.String()
	}
	return out
}

// names reports whether a key is one that the watcher has named.
func (w *watch) names(key string) bool {
	_, ok := slices.BinarySearch(w.keys, key)
	return ok
}

// note records what the watcher knows now.
func (w *watch) note(r reading) {
	before, known := w.known[r.key]
	if known {
		w.bytes -= len(r.key)
	}
	if !r.there {
		delete(w.known, r.key)
		return
	}
	w.bytes += len(r.key)
	if w.known[r.key] = r.seen; r.expire != 0 && r.expire != before.expire {
		w.expires.add(expiry{r.expire, r.key}, w.known)
	}
}

// change is an entry as the watcher gets it.
func (w *watch) change(packed string, e *engine.Entry, there bool) (kv.Change, error) {
	parts, err := tuple.Unpack([]byte(packed))
	if err != nil {
		return kv.Change{}, err
	}
	out := kv.Change{Key: kv.Key(parts)}
	if !there {
		return out, nil
	}
	entry, err := entryOf(w.codec, out.Key, e, !w.stored)
	if w.stored {
		entry.Encoding = host.Encoding(e.Encoding).String()
		entry.Value, _ = json.Marshal(map[string][]byte{"$bytes": append([]byte{}, e.Value...)})
	}
	out.Entry = &entry
	return out, err
}

// An expiry is when an entry expires, in Unix milliseconds.
type expiry struct {
	at  int64
	key string
}

// expiries is a heap of when entries expire. One that is out of date is skipped.
type expiries []expiry

// Len implements heap.Interface, with Less, Swap, Push and Pop.
func (x expiries) Len() int           { return len(x) }
func (x expiries) Less(i, j int) bool { return x[i].at < x[j].at }
func (x expiries) Swap(i, j int)      { x[i], x[j] = x[j], x[i] }
func (x *expiries) Push(v any)        { *x = append(*x, v.(expiry)) }
func (x *expiries) Pop() any {
	last := len(*x) - 1
	v := (*x)[last]
	*x = (*x)[:last]
	return v
}

// add adds one. When most are out of date, these are dropped.
func (x *expiries) add(e expiry, known map[string]seen) {
	if len(*x) > 2*len(known)+64 {
		*x = slices.DeleteFunc(*x, func(e expiry) bool { return known[e.key].expire != e.at })
		heap.Init(x)
	}
	heap.Push(x, e)
}

// due takes out all whose time has come, and returns the keys of entries that expire then.
func (x *expiries) due(now int64, known map[string]seen) (keys []string) {
	for len(*x) > 0 && (*x)[0].at <= now {
		e := heap.Pop(x).(expiry)
		if s := known[e.key]; s.expire == e.at {
			s.expire = 0 // if it is still there, because the clock was set back, it is added again
			known[e.key] = s
			keys = append(keys, e.key)
		}
	}
	return keys
}
