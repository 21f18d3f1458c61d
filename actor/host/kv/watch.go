package kv

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of watching.
const (
	MaxWatchedKeys     = 1_000    // named by one watcher
	MaxWatchedPrefixes = 16       // named by one watcher
	MaxWatchers        = 1_024    // of one actor
	MaxWatchedEntries  = 100_000  // that one watcher has seen
	MaxWatchedBytes    = 16 << 20 // of their keys
)

// WatchInput names entries that the caller has seen, and waits until one differs.
type WatchInput struct {
	// Keys are up to MaxWatchedKeys entries.
	Keys []WatchedKey `json:"keys" max:"1000"`
	// Life is the Life of the answer with these versions. If the actor has another life by now, all
	// entries differ. Absent means the present one.
	Life string `json:"life,omitempty"`
	// WaitMS is how long to wait for a change, up to one minute; absent does not wait.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// A WatchedKey is an entry as a caller has seen it.
type WatchedKey struct {
	Key Key `json:"key"`
	// Version is the version of the entry; absent or 0 for none.
	Version uint64 `json:"version,omitempty"`
}

// Changes are the entries that differ from the watcher's last answer, in the order of their keys.
// All are of one commit. States between two answers are skipped.
type Changes struct {
	Changes []Change `json:"changes"`
	// Version is the version of the commit, and Life the id of the actor's life that it counts in;
	// absent if there is no actor.
	Version uint64 `json:"version"`
	Life    string `json:"life,omitempty"`
	// More is set if not all fit. The next changes follow at once, and are of this commit or a
	// later one. After the first changes without More the watcher has the state of one commit.
	More bool `json:"more,omitempty"`
}

// A Change is the state of an entry.
type Change struct {
	Key Key `json:"key"`
	// Entry is null if there is none, or it has expired.
	Entry *Entry `json:"entry"`
}

// A Watching selects the entries that a watcher watches.
type Watching struct {
	// Keys are up to MaxWatchedKeys keys. Prefixes, up to MaxWatchedPrefixes, select the entries
	// whose keys begin with their parts; [] selects all. At least one is required.
	Keys     []Key `json:"keys,omitempty"`
	Prefixes []Key `json:"prefixes,omitempty"`
	// Initial asks for the present entries: the first changes have all watched entries, and null
	// for a key without one. Otherwise they are the next to follow.
	Initial bool `json:"initial,omitempty"`
	// Stored returns each value as its stored bytes, {"$bytes":base64}, with its encoding.
	// Otherwise values are as in the JSON of the methods kv.*.
	Stored bool `json:"stored,omitempty"`
}

// A Watch delivers the changes for one watcher. It is used by one goroutine at a time.
type Watch interface {
	// Next waits for changes. The error is an *host.Error: code Canceled or DeadlineExceeded when
	// ctx ends, after which Next may be called again, Unavailable when the node shuts down or
	// cannot read, Destroyed when the actor was destroyed, TooLarge when there is too much to
	// follow, Overloaded when the watchers of the node use too much memory.
	Next(ctx context.Context) (Changes, error)
	// Close ends the watch.
	Close()
}

// A Watcher follows the entries of actors. Watching neither wakes an actor nor creates one, nor
// keeps it awake.
type Watcher interface {
	WatchKV(ctx context.Context, a host.Address, w Watching) (Watch, error)
}
