package kv

import (
	"context"
	"iter"
	"time"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Policy sets the rules of a scope: the entries whose keys begin with the parts of a prefix.
// Scopes nest, and an entry counts in each scope around it. The zero value only counts.
type Policy struct {
	// MaxKeys and MaxBytes bound the entries, and the bytes of their keys and values; 0 is no
	// bound. A change beyond them has the error code QuotaExceeded. Expired entries do not count. A
	// bound below the present count removes nothing, but the scope cannot grow.
	MaxKeys, MaxBytes int64
	// MaxGroups bounds the groups. A group is the entries that have the same part behind the
	// prefix, and more parts after it.
	MaxGroups int64
	// CountGroups counts the groups without a bound, for [Store.Groups].
	CountGroups bool
	// DefaultTTL is the time to live of entries that are put without one, 1 ms to 100 years; 0 is
	// for ever.
	DefaultTTL time.Duration
	// KeepVersions is how many versions of an entry are kept besides the last, up to 100. KeepFor
	// is how long a version is kept after the next one replaced it. 0 is no bound if the other is
	// set. If both are 0, none are kept. See [Store.At] and [Store.History].
	KeepVersions int64
	KeepFor      time.Duration
	// Log keeps the changes of entries for [Store.Feed], in one log of the actor. LogEvents bounds
	// their number, 0 is 100,000; LogBytes their size, 0 is 64 MiB; LogFor their age, 0 is without
	// end. If several scopes have Log, the most generous bounds hold. If none has it any longer,
	// the changes are removed.
	Log                 bool
	LogEvents, LogBytes int64
	LogFor              time.Duration
	// ReadOnly refuses all changes, with the error code FailedPrecondition. Entries still expire.
	ReadOnly bool
	// Info is any document in JSON, up to 64 KiB; nil is none.
	Info []byte
}

// A Scope is a prefix with a policy and the counts of its entries.
type Scope struct {
	Prefix Key
	Policy
	// Keys counts the entries, Bytes the bytes of keys and values, and Groups the groups.
	Keys, Bytes, Groups int64
	Created, Updated    time.Time
	// Declared is set if a map of the actor's type declares the scope. It cannot be set or removed.
	Declared bool
}

// SetScope makes a scope, or replaces the policy of one. It creates a missing actor. A new scope
// counts the present entries, which takes about a second per million. An actor has up to 10,000
// scopes, with prefixes of up to 1,024 bytes.
func (s Store) SetScope(ctx context.Context, prefix Key, p Policy) (Scope, error) {
	return s.setScope(ctx, prefix, p, false)
}

// ExtendScope is SetScope for the fields of the policy that are not zero. The others do not change.
func (s Store) ExtendScope(ctx context.Context, prefix Key, p Policy) (Scope, error) {
	return s.setScope(ctx, prefix, p, true)
}

func (s Store) setScope(ctx context.Context, prefix Key, p Policy, extend bool) (Scope, error) {
	if prefix == nil {
		prefix = Key{}
	}
	in := hostkv.SetScopeInput{Prefix: prefix, Extend: extend, ScopePolicy: hostkv.ScopePolicy{
		MaxKeys: p.MaxKeys, MaxBytes: p.MaxBytes, MaxGroups: p.MaxGroups, CountGroups: p.CountGroups, DefaultTTLMS: site.Millis(p.DefaultTTL), ReadOnly: p.ReadOnly,
		KeepVersions: p.KeepVersions, KeepForMS: site.Millis(p.KeepFor),
		Log: p.Log, LogEvents: p.LogEvents, LogBytes: p.LogBytes, LogForMS: site.Millis(p.LogFor),
	}}
	if p.Info != nil {
		in.Info, _ = JSON(p.Info).raw()
	}
	out, err := site.Ask(ctx, &s.site, method.KVSetScope, &in)
	if err != nil {
		return Scope{}, err
	}
	return scopeOf(&out)
}

// RemoveScope removes a scope, and its entries if entries is set. It reports whether there was one,
// and how many entries were removed.
func (s Store) RemoveScope(ctx context.Context, prefix Key, entries bool) (removed bool, deleted int64, err error) {
	if prefix == nil {
		prefix = Key{}
	}
	out, err := site.Ask(ctx, &s.site, method.KVRemoveScope, &hostkv.RemoveScopeInput{Prefix: prefix, Entries: entries})
	return out.Removed, out.Deleted, err
}

// Scopes ranges over the scopes whose prefixes begin with the parts of prefix, in order. An error
// ends the loop.
func (s Store) Scopes(ctx context.Context, prefix Key) iter.Seq2[Scope, error] {
	return func(yield func(Scope, error) bool) {
		for in := (hostkv.ScopesInput{Prefix: prefix}); ; {
			out, err := site.Ask(ctx, &s.site, method.KVScopes, &in)
			if err != nil {
				yield(Scope{}, err)
				return
			}
			for i := range out.Scopes {
				sc, err := scopeOf(&out.Scopes[i])
				if !yield(sc, err) || err != nil {
					return
				}
			}
			if in.Cursor = out.Cursor; in.Cursor == "" {
				return
			}
		}
	}
}

// A Group is the entries of a scope with the same part behind the prefix, and more parts after it.
type Group struct {
	// Part is a key of that part alone.
	Part        Key
	Keys, Bytes int64
}

// Groups ranges over the groups of a scope, in the order of their parts. An error ends the loop;
// its code is NotFound if there is no such scope, and FailedPrecondition if it does not count them.
func (s Store) Groups(ctx context.Context, prefix Key) iter.Seq2[Group, error] {
	if prefix == nil {
		prefix = Key{}
	}
	return func(yield func(Group, error) bool) {
		for in := (hostkv.GroupsInput{Prefix: prefix}); ; {
			out, err := site.Ask(ctx, &s.site, method.KVGroups, &in)
			if err != nil {
				yield(Group{}, err)
				return
			}
			for _, g := range out.Groups {
				if !yield(Group(g), nil) {
					return
				}
			}
			if in.Cursor = out.Cursor; in.Cursor == "" {
				return
			}
		}
	}
}

func scopeOf(sc *hostkv.Scope) (Scope, error) {
	out := Scope{
		Prefix: sc.Prefix, Keys: sc.Keys, Bytes: sc.Bytes, Groups: sc.Groups, Created: sc.Created, Updated: sc.Updated, Declared: sc.Declared,
		Policy: Policy{
			MaxKeys: sc.MaxKeys, MaxBytes: sc.MaxBytes, MaxGroups: sc.MaxGroups, CountGroups: sc.CountGroups, ReadOnly: sc.ReadOnly,
			DefaultTTL: time.Duration(sc.DefaultTTLMS) * time.Millisecond, KeepVersions: sc.KeepVersions, KeepFor: time.Duration(sc.KeepForMS) * time.Millisecond,
			Log: sc.Log, LogEvents: sc.LogEvents, LogBytes: sc.LogBytes, LogFor: time.Duration(sc.LogForMS) * time.Millisecond,
		},
	}
	if len(sc.Info) == 0 || string(sc.Info) == "\xf6" { // null
		return out, nil
	}
	info, err := valueOf(sc.Info, "json")
	out.Info = info.Data
	return out, err
}
