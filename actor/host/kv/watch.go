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

// WatchInput names entries that the caller has seen, and waits until one is different.
type WatchInput struct {
	// Keys are up to MaxWatchedKeys entries.
	Keys []WatchedKey `json:"keys" max:"1000"`
	// Life is that of the answer that the versions are from. If the actor has another life by now,
	// all entries are different. Absent means the present one.
	Life string `json:"life,omitempty"`
	// WaitMS is how long to wait for a change, up to one minute; absent does not wait.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// A WatchedKey is an entry as a caller has seen it.
type WatchedKey struct {
	Key Key `json:"key"`
	// Version is that of the entry; absent or 0 for none.
	Version uint64 `json:"version,omitempty"`
}

// Changes are the entries that are different from what the watcher was last told, in the order of
// their keys. All are of one commit. States between two answers are skipped.
type Changes struct {
	Changes []Change `json:"changes"`
	// Version is that of the commit, and Life the id of the actor's life that it counts in; absent
	// if there is no actor.
	Version uint64 `json:"version"`
	Life    string `json:"life,omitempty"`
	// More: not all fit in. The next changes follow at once, and are of this commit or a later one.
	// Behind the first changes without More the watcher knows the state of one commit.
	More bool `json:"more,omitempty"`
}

// A Change is the state of an entry.
type Change struct {
	Key Key `json:"key"`
	// Entry is null if there is none, or it has expired.
	Entry *Entry `json:"entry"`
}

// A Watching says what a watcher watches.
type Watching struct {
	// Keys are up to MaxWatchedKeys keys, and Prefixes up to MaxWatchedPrefixes: the entries whose
	// keys begin with their parts. There must be one at least; [] is the prefix of all.
	Keys     []Key `json:"keys,omitempty"`
	Prefixes []Key `json:"prefixes,omitempty"`
	// Initial asks for what is there: the first changes have all that is watched, and for a key
	// without an entry null. Otherwise they are the first to follow.
	Initial bool `json:"initial,omitempty"`
	// Stored makes each value the bytes that are stored, as {"$bytes":base64}, and names each
	// encoding. Otherwise values are as in the JSON of the methods kv.*.
	Stored bool `json:"stored,omitempty"`
}

// A Watch is what one watcher follows. It is used by one goroutine at a time.
type Watch interface {
	// Next waits for changes. The error is an *host.Error: code Canceled or DeadlineExceeded when
	// ctx ends, after which Next may be called again, Unavailable when the node shuts down or
	// cannot read, Destroyed when the actor was destroyed, TooLarge when there is too much to
	// follow, Overloaded when all watchers of the node remember too much.
	Next(ctx context.Context) (Changes, error)
	// Close ends the watch.
	Close()
}

// A Watcher follows the entries of actors. Watching neither wakes an actor nor creates one, nor
// keeps it awake.
type Watcher interface {
	WatchKV(ctx context.Context, a host.Address, w Watching) (Watch, error)
}
