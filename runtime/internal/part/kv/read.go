package kv

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// read reads the entries that may differ, and returns the ones that do. ok is false if none do, and
// the watcher has got the first state, and the news that nothing more follows.
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
			w.known[key] = seen{version: ^engine.Version(0)} // the version of no entry
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
	owed := !w.begun && w.initial || w.more
	if w.more = out.More; !w.more {
		w.begun, w.absent = true, nil
	}
	return out, owed || len(out.Changes) > 0, nil
}

// candidates returns the keys whose entries may differ: in order, but first the keys behind the
// last one that the watcher got.
func (w *watch) candidates(rows engine.Reader, d *dirt, due []string) ([]string, error) {
	keys := append(due, w.rest...)
	w.rest, w.left = nil, 0
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
	keys = slices.Compact(keys)
	if at, ok := slices.BinarySearch(keys, w.last); ok || at > 0 {
		if ok {
			at++
		}
		keys = slices.Concat(keys[at:], keys[:at])
	}
	return keys, nil
}

// all returns the keys of all entries that differ from the watcher's. If the watcher does not use
// the first state, all records that state as known.
func (w *watch) all(rows engine.Reader) (keys []string, err error) {
	size, gone := 0, make(map[string]bool, len(w.known))
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
			size += len(key)
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
			if err := w.room(len(keys)-len(w.keys), size); err != nil { // named keys may have no entry
				return nil, err
			}
			if list.After = page.Next; page.Next == nil {
				break
			}
		}
	}
	return slices.AppendSeq(keys, maps.Keys(gone)), nil
}

// knownBytes is the memory of a watcher for an entry besides its key.
const knownBytes = 128

// room counts the memory of the watcher, and of new entries with keys of so many bytes. Too much of
// it ends the watch.
func (w *watch) room(entries, bytes int) error {
	remembered := int64(w.bytes + w.left + bytes + knownBytes*(len(w.known)+max(entries, 0)))
	all := w.hub.known.Add(remembered - w.counted)
	w.counted = remembered
	var err *host.Error
	switch n, size, most := max(len(w.known), entries), max(w.bytes, bytes), w.k.Options.MaxEventBytes; {
	case n > w.hub.watchedEntries:
		err = host.OverLimit("entries that one watcher follows", int64(w.hub.watchedEntries),
			int64(n)).With("field", "prefixes")
	case size > w.hub.watchedBytes:
		err = host.OverLimit("bytes of the keys that one watcher follows",
			int64(w.hub.watchedBytes), int64(size)).With("field", "prefixes")
	case all > most && remembered > fewBytes:
		err = host.Errorf(host.Overloaded, "the watchers of the node remember too many entries").
			With("limit", strconv.FormatInt(most, 10))
	default:
		return nil
	}
	w.finish(err)
	return err
}

// watchBounds bound each watcher. Changes end after the entry whose keys and values reach
// changesBytes, which is more than one commit has, or fewBytes while watchers hold much. They also
// end after the entry whose JSON reaches eventBytes, because a client does not read events of any
// size.
type watchBounds struct{ changesBytes, eventBytes, watchedEntries, watchedBytes int }

const (
	changesBytes = kv.MaxValues
	eventBytes   = 32 << 20
	fewBytes     = 64 << 10
	entryBytes   = 256 // of an entry besides
)

func watchBoundsBy(divisor int) watchBounds {
	return watchBounds{changesBytes / divisor, eventBytes / divisor, kv.MaxWatchedEntries / divisor,
		kv.MaxWatchedBytes / divisor}
}

// differences returns the entries that differ from what the watcher has, and records them as known.
func (w *watch) differences(rows engine.Reader, keys []string) (kv.Changes, error) {
	out, size, encoded, most, read := w.nothing(), 0, 0, w.hub.changesBytes, make([]reading, 0, len(keys))
	if w.hub.held.Load() > w.k.Options.MaxEventBytes {
		most = fewBytes
	}
	behind := 0 // changes of keys behind the last that was told, before those from the first key on
	last := w.last
	w.last = ""
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
		case !there && !known && (w.begun || !w.named(key) || w.absent[key]):
			continue
		case !there && !known:
			if w.absent == nil {
				w.absent = make(map[string]bool)
			}
			w.absent[key] = true
		}
		change, err := w.change(key, &e, there)
		if err != nil {
			return out, err
		}
		if out.Changes = append(out.Changes, change); key > last {
			behind++
		}
		size += entryBytes + len(key) + len(e.Value)
		encoded += encodedBytes(&change)
		if (size >= most || encoded >= w.hub.eventBytes) && i+1 < len(keys) {
			w.rest, w.last, out.More = slices.Clone(keys[i+1:]), key, true
			break
		}
	}
	if behind < len(out.Changes) {
		out.Changes = slices.Concat(out.Changes[behind:], out.Changes[:behind]) // in order
	}
	for _, r := range read {
		w.note(r)
	}
	for _, key := range w.rest {
		w.left += len(key)
	}
	w.given = int64(max(size, encoded))
	w.hub.held.Add(w.given)
	return out, w.room(0, 0)
}

// encodedBytes returns about how many bytes the JSON of a change has.
func encodedBytes(c *kv.Change) int {
	key, _ := json.Marshal(c.Key) // json.Marshal of the change finds the fault
	n := entryBytes + 2*len(key)
	if c.Entry == nil {
		return n
	}
	n += len(c.Entry.Value)
	for _, escaped := range []string{"<", ">", "&", "\u2028", "\u2029"} { // as in \u003c
		n += 5 * bytes.Count(c.Entry.Value, []byte(escaped))
	}
	return n
}

// A reading is an entry as it was read.
type reading struct {
	key string
	seen
	there bool
}

// nothing returns changes without entries.
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

// note records the watcher's present entry.
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

// change returns an entry in the form for the watcher.
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
