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

// A ScopePolicy sets the rules for the entries of a scope. The zero value only counts.
type ScopePolicy struct {
	// These bound the entries, the bytes of their keys and values, and the groups. A group is the
	// entries with the same next part behind the prefix, if more parts follow it. 0 is no bound. A
	// bound below the present count removes nothing, but allows no growth.
	MaxKeys   int64 `json:"max_keys,omitempty" range:"0,9007199254740991"`
	MaxBytes  int64 `json:"max_bytes,omitempty" range:"0,9007199254740991"`
	MaxGroups int64 `json:"max_groups,omitempty" range:"0,9007199254740991"`
	// CountGroups counts the groups without a bound, for kv.groups.
	CountGroups bool `json:"count_groups,omitempty"`
	// DefaultTTLMS is the time to live of entries that are put without one, up to 100 years; 0 is
	// for ever.
	DefaultTTLMS int64 `json:"default_ttl_ms,omitempty" range:"0,3153600000000"`
	// KeepVersions is how many versions of an entry are kept besides the last. KeepForMS is how
	// long a version is kept after the next one replaced it. 0 is no bound if the other is set. If
	// both are 0, none are kept.
	KeepVersions int64 `json:"keep_versions,omitempty" range:"0,100"`
	KeepForMS    int64 `json:"keep_for_ms,omitempty" range:"0,3153600000000"`
	// Log keeps the changes of entries for kv.feed, in one log of the actor. LogEvents bounds their
	// number, 100,000 if absent; LogBytes their size, 64 MiB if absent; LogForMS their age, without
	// end if absent. If several scopes have Log, the most generous bounds hold. If none has it any
	// longer, the changes are removed.
	Log       bool  `json:"log,omitempty"`
	LogEvents int64 `json:"log_events,omitempty" range:"0,1000000000"`
	LogBytes  int64 `json:"log_bytes,omitempty" range:"0,9007199254740991"`
	LogForMS  int64 `json:"log_for_ms,omitempty" range:"0,3153600000000"`
	// ReadOnly refuses all changes. Entries still expire.
	ReadOnly bool `json:"read_only,omitempty"`
	// Info is any document.
	Info host.Raw `json:"info,omitempty"`
}

// SetScopeInput makes a scope, or replaces the policy of one.
type SetScopeInput struct {
	// Prefix is the prefix of the scope's keys; [] is the whole store.
	Prefix Key `json:"prefix"`
	// Extend changes only the members of the policy that are given here, and neither 0 nor false.
	// The others do not change.
	Extend bool `json:"extend,omitempty"`
	ScopePolicy
}

// A Scope is the entries whose keys begin with a prefix, with a policy and the present counts.
type Scope struct {
	Prefix Key `json:"prefix"`
	ScopePolicy
	Keys    int64     `json:"keys"`
	Bytes   int64     `json:"bytes"`
	Groups  int64     `json:"groups"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// Declared is set if a map of the actor's type has the scope. Only the type's code changes it.
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

// A Group is the entries of a scope whose keys have the same part behind the prefix, and more parts
// after it.
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
