package kv

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

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
	first := !w.begun && w.initial
	w.begun = w.begun || !out.More
	return out, first || len(out.Changes) > 0, nil
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
		more, err := w.all(rows)
		if err != nil {
			return nil, err
		}
		keys = append(keys, more...)
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// all returns the keys of all entries that are different from what the watcher knows. A watcher that has no use for the first state
// knows it then.
func (w *watch) all(rows engine.Reader) (keys []string, err error) {
	gone := make(map[string]bool, len(w.known))
	for key := range w.known {
		gone[key] = true
	}
	found := func(key string, e *engine.Entry) {
		delete(gone, key)
		r := reading{key, seen{e.Version, e.Expire}, true}
		switch s, known := w.known[key]; {
		case known && s == r.seen:
		case known && s.version == r.version, !w.begun && !w.initial:
			w.note(r)
		default:
			keys = append(keys, key)
		}
	}
	for _, key := range w.keys {
		e, there, err := kvrows.Stat(rows, keyspace.UserKV.Append(nil, []byte(key)))
		switch {
		case err != nil:
			return nil, err
		case there:
			found(key, &e)
		case !w.begun && w.initial:
			keys = append(keys, key)
		}
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
				found(string(e.Key[1:]), e)
			}
			if max(len(keys), len(w.known)) > kv.MaxWatchedEntries+kv.MaxWatchedKeys {
				return nil, w.tooMany()
			}
			if list.After = page.Next; page.Next == nil {
				break
			}
		}
	}
	return slices.AppendSeq(keys, maps.Keys(gone)), nil
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
		case there && known && before.version == e.Version:
			continue
		case !there && !known && (w.begun || !w.named(key)):
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

// named reports whether a key is one that the watcher has named.
func (w *watch) named(key string) bool {
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
