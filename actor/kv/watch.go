package kv

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A WatchConfig selects the entries that [Store.Watch] watches: at least one key or prefix.
type WatchConfig struct {
	// Keys are up to 1,000 keys.
	Keys []Key
	// Prefixes, up to 16, select the entries whose keys begin with their parts. Key{} selects all.
	Prefixes []Key
	// Initial begins with the present entries, and a Change without an entry for each of Keys that
	// has none.
	Initial bool
}

// Changes are the entries that differ from the Changes before, in the order of their keys. All are
// of one commit.
type Changes struct {
	Changes []Change
	// Version is the version of the commit, and Life the id of the actor's life that it counts in;
	// "" if there is no actor.
	Version uint64
	Life    string
	// More is set if not all fit. The rest follows at once, of this commit or a later one. After
	// the first Changes without More, all entries so far are of one commit.
	More bool
}

// A Change is the state of an entry.
type Change struct {
	Key Key
	// Entry is nil if there is none: it was removed, or has expired.
	Entry *Entry
}

// Watch ranges over the changes of entries. If an entry changes faster than the loop runs, only its
// last state is returned, and no writer waits. All changes are durable. Watch neither wakes nor
// creates the actor nor keeps it awake, and costs nothing while nothing changes.
//
// Watch continues after temporary errors, such as a restart of the node, until ctx ends. Any error
// is an [*host.Error] and ends the loop: Destroyed when the actor is destroyed, TooLarge if there
// are more than 100,000 entries to watch or their keys have more than 16 MiB, Overloaded if the
// watchers of the node use too much memory, Canceled or DeadlineExceeded when ctx ends,
// FailedPrecondition inside a turn or a query.
func (s Store) Watch(ctx context.Context, c WatchConfig) iter.Seq2[Changes, error] {
	return func(yield func(Changes, error) bool) {
		err := s.watch(ctx, &c, func(out Changes) bool { return yield(out, nil) })
		if err != nil {
			yield(Changes{}, err)
		}
	}
}

// watch yields changes until the loop ends or an error does.
func (s Store) watch(ctx context.Context, c *WatchConfig, yield func(Changes) bool) error {
	if s.site.Fault != nil {
		return s.site.Fault
	}
	watcher, ok := s.site.Node.(hostkv.Watcher)
	if !ok || s.site.InsideOf(ctx) != nil {
		return host.Errorf(host.FailedPrecondition,
			"entries can be watched on a node or over a client, outside of turns and queries")
	}
	var w hostkv.Watch
	defer func() {
		if w != nil {
			w.Close()
		}
	}()
	var pause site.Pacer
	for {
		var out hostkv.Changes
		var err error
		if w == nil {
			w, err = watcher.WatchKV(ctx, s.site.At,
				hostkv.Watching{Keys: c.Keys, Prefixes: c.Prefixes, Initial: c.Initial, Stored: true})
		} else {
			out, err = w.Next(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return site.ContextError(ctx, "watching a key-value store")
		case err != nil && site.Again(err):
			pause.Pause(ctx)
			continue
		case err != nil:
			return err
		case out.Changes == nil:
			continue // it has been opened
		}
		pause = site.Pacer{}
		told := Changes{Changes: make([]Change, len(out.Changes)), Version: out.Version, Life: out.Life, More: out.More}
		for i := range out.Changes {
			if told.Changes[i], err = changeOf(&out.Changes[i]); err != nil {
				return err
			}
		}
		if !yield(told) {
			return nil
		}
	}
}

func changeOf(c *hostkv.Change) (Change, error) {
	out := Change{Key: c.Key}
	if c.Entry == nil {
		return out, nil
	}
	var stored struct {
		Bytes []byte `json:"$bytes"`
	}
	if err := json.Unmarshal(c.Entry.Value, &stored); err != nil {
		return out, host.Errorf(host.Internal, "a value of the node is not the bytes that are stored")
	}
	e, err := entryOf(c.Entry, false)
	e.Value.Data = stored.Bytes
	e.Value.Encoding, _ = host.ParseEncoding(c.Entry.Encoding)
	out.Entry = &e
	return out, err
}
