package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The bounds of scopes.
const (
	MaxScopes  = 10_000   // of an actor
	MaxGranted = 100      // of them, below the prefix of a token that makes one
	MaxPrefix  = 1024     // packed bytes of a scope's prefix
	MaxNesting = 8        // scopes around each other
	MaxInfo    = 64 << 10 // bytes of ScopePolicy.Info
)

// A ScopePolicy is what holds for the entries of a scope. The zero value demands nothing, and only
// counts.
type ScopePolicy struct {
	// These bound what the scope has: entries, bytes of keys and values, and groups. A group is the
	// entries with the same next part behind the prefix, if more parts follow it. 0 is no bound. A
	// bound that is lower than what is there removes nothing, and lets nothing grow.
	MaxKeys   int64 `json:"max_keys,omitempty" range:"0,9007199254740991"`
	MaxBytes  int64 `json:"max_bytes,omitempty" range:"0,9007199254740991"`
	MaxGroups int64 `json:"max_groups,omitempty" range:"0,9007199254740991"`
	// CountGroups counts the groups without a bound, for kv.groups.
	CountGroups bool `json:"count_groups,omitempty"`
	// DefaultTTLMS is how long entries live that are put without a time to live, up to 100 years; 0
	// is for ever.
	DefaultTTLMS int64 `json:"default_ttl_ms,omitempty" range:"0,3153600000000"`
	// KeepVersions is how many versions of an entry are kept besides the last, and KeepForMS for
	// how long from when the next one replaced it. 0 is no bound if the other is one. If both are
	// 0, none are kept.
	KeepVersions int64 `json:"keep_versions,omitempty" range:"0,100"`
	KeepForMS    int64 `json:"keep_for_ms,omitempty" range:"0,3153600000000"`
	// Log keeps the changes of entries for kv.feed, in one log of the actor. The log keeps up to
	// LogEvents changes, 100,000 if absent, of up to LogBytes, 64 MiB if absent, for up to
	// LogForMS, without end if absent. Of several scopes the most generous bounds hold. When no
	// scope has Log any longer, the changes go.
	Log       bool  `json:"log,omitempty"`
	LogEvents int64 `json:"log_events,omitempty" range:"0,1000000000"`
	LogBytes  int64 `json:"log_bytes,omitempty" range:"0,9007199254740991"`
	LogForMS  int64 `json:"log_for_ms,omitempty" range:"0,3153600000000"`
	// ReadOnly refuses all changes. Entries expire all the same.
	ReadOnly bool `json:"read_only,omitempty"`
	// Info is any document.
	Info host.Raw `json:"info,omitempty"`
}

// SetScopeInput makes a scope, or replaces the policy of one.
type SetScopeInput struct {
	// Prefix is what the keys of the scope begin with; [] is of the whole store.
	Prefix Key `json:"prefix"`
	// Extend changes only the members of a policy that are given here, and neither 0 nor false. The
	// others stay as they are.
	Extend bool `json:"extend,omitempty"`
	ScopePolicy
}

// A Scope is the entries whose keys begin with a prefix, with a policy, and what it has now.
type Scope struct {
	Prefix Key `json:"prefix"`
	ScopePolicy
	Keys    int64     `json:"keys"`
	Bytes   int64     `json:"bytes"`
	Groups  int64     `json:"groups"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Declared: a map of the actor's type has the scope, which only the type's code changes.
	Declared bool `json:"declared,omitempty"`
}

// RemoveScopeInput names a scope.
type RemoveScopeInput struct {
	Prefix Key `json:"prefix"`
	// Entries removes its entries, too.
	Entries bool `json:"entries,omitempty"`
}

// RemoveScopeOutput says what was removed.
type RemoveScopeOutput struct {
	Removed bool `json:"removed"`
	// Deleted counts the entries that were removed.
	Deleted int64 `json:"deleted"`
}

// ScopesInput asks for a page of scopes, in the order of their prefixes.
type ScopesInput struct {
	// Prefix selects the scopes whose prefix begins with these parts.
	Prefix Key    `json:"prefix,omitempty"`
	Limit  int    `json:"limit,omitempty" range:"1,1000"`
	Cursor string `json:"cursor,omitempty"`
}

// ScopesOutput is a page of scopes. Cursor is absent at the end.
type ScopesOutput struct {
	Scopes []Scope `json:"scopes"`
	Cursor string  `json:"cursor,omitempty"`
}

// GroupsInput asks for a page of the groups of a scope, in the order of their parts.
type GroupsInput struct {
	Prefix Key    `json:"prefix"`
	Limit  int    `json:"limit,omitempty" range:"1,1000"`
	Cursor string `json:"cursor,omitempty"`
}

// A Group is a group of a scope: the entries whose keys have the same part behind the prefix, and
// more parts after it.
type Group struct {
	// Part is a key of one part.
	Part  Key   `json:"part"`
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
}

// GroupsOutput is a page of groups. Cursor is absent at the end.
type GroupsOutput struct {
	Groups []Group `json:"groups"`
	Cursor string  `json:"cursor,omitempty"`
}
