package kv

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"reflect"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// scopePrefix returns the packed prefix that names a scope.
func scopePrefix(k kv.Key) ([]byte, error) {
	if k == nil {
		return nil, host.Errorf(host.InvalidArgument,
			"the prefix is missing; [] is that of the whole store").With("field", "prefix")
	}
	if len(k) == 0 {
		return nil, nil
	}
	b, err := k.Entry()
	if err != nil {
		return nil, of("prefix", err)
	}
	packed, err := b.Pack()
	if err != nil {
		return nil, of("prefix", err)
	}
	if len(packed) > kv.MaxPrefix {
		return nil, host.OverLimit("prefix", kv.MaxPrefix, int64(len(packed))).With("field", "prefix")
	}
	return packed, nil
}

// setScope implements kv.set_scope.
func setScope(_ *kernel.Core, t *kernel.Turn, codec host.Codec, in *kv.SetScopeInput) (kv.Scope, error) {
	prefix, err := scopePrefix(in.Prefix)
	if err != nil {
		return kv.Scope{}, err
	}
	p := kvrows.Policy{MaxKeys: in.MaxKeys, MaxBytes: in.MaxBytes, MaxGroups: in.MaxGroups,
		CountGroups: in.CountGroups, DefaultTTL: in.DefaultTTLMS, ReadOnly: in.ReadOnly,
		KeepVersions: in.KeepVersions, KeepFor: in.KeepForMS, Log: in.Log, LogEvents: in.LogEvents, LogBytes: in.LogBytes, LogFor: in.LogForMS}
	if raw := given(codec, in.Info); len(raw) > 0 {
		info, err := read(codec, raw, host.EncodedJSON)
		if err != nil {
			return kv.Scope{}, of("info", err)
		}
		if p.Info = info.Data; len(p.Info) > kv.MaxInfo {
			return kv.Scope{}, host.OverLimit("info", kv.MaxInfo, int64(len(p.Info))).With("field", "info")
		}
	}
	store, r := storeOf(t.Core), reader{rows: storeOf(t.Core), codec: codec, now: t.Start}
	if _, err := store.Has(prefix); err != nil { // it also removes what maps have left that the type no longer has
		return kv.Scope{}, err
	}
	if in.Extend {
		was, there, err := kvrows.Find(store, prefix)
		if err != nil {
			return kv.Scope{}, err
		}
		if there {
			if p = was.Policy.Extended(&p); reflect.DeepEqual(p, was.Policy) {
				return r.counted(was)
			}
		}
	}
	if !p.Log {
		for _, bound := range []struct {
			name string
			n    int64
		}{{"log_events", p.LogEvents}, {"log_bytes", p.LogBytes}, {"log_for_ms", p.LogFor}} {
			if bound.n != 0 {
				return kv.Scope{},
					host.Errorf(host.InvalidArgument,
						"%s bounds a log, which the scope does not have", bound.name).With("field", bound.name)
			}
		}
	}
	if err := mayPlace(token.Of(t.Work.Ctx), store, prefix, &p); err != nil {
		return kv.Scope{}, err
	}
	sc, err := store.SetScope(prefix, p)
	if err != nil {
		return kv.Scope{}, refused(err)
	}
	return r.counted(sc)
}

// counted returns a scope with its present counts.
func (r *reader) counted(sc *kvrows.Scope) (kv.Scope, error) {
	counts, err := kvrows.CountAll(r.rows, []*kvrows.Scope{sc}, r.now.UnixMilli())
	if err != nil {
		return kv.Scope{}, err
	}
	return r.scope(sc, &counts[0])
}

// mayPlace returns an error if a token with a prefix may not give a scope a policy, or has enough
// scopes. The number of scopes of an actor is bounded, and others need some too.
func mayPlace(g *token.Grant, store *kvrows.Store, prefix []byte, p *kvrows.Policy) error {
	if g == nil || len(g.Prefix) == 0 {
		return nil
	}
	was, there, err := kvrows.Find(store, prefix)
	switch {
	case err != nil:
		return err
	case there:
		return mayBound(g, &was.Policy, p)
	}
	if err := mayBound(g, new(kvrows.Policy), p); err != nil {
		return err
	}
	n, err := store.Scopes(g.Bounds())
	if err == nil && n >= kv.MaxGranted {
		return host.OverLimit("scopes below the prefix of a token", kv.MaxGranted, int64(n+1)).With("field", "prefix")
	}
	return err
}

// removeScope implements kv.remove_scope.
func removeScope(_ *kernel.Core, t *kernel.Turn, _ host.Codec,
	in *kv.RemoveScopeInput) (out kv.RemoveScopeOutput, err error) {
	prefix, err := scopePrefix(in.Prefix)
	if err != nil {
		return out, err
	}
	store := storeOf(t.Core)
	if out.Removed, err = store.Has(prefix); err != nil || !out.Removed {
		return out, err
	}
	if g := token.Of(t.Work.Ctx); g != nil {
		was, _, err := kvrows.Find(store, prefix)
		if err == nil {
			err = mayBound(g, &was.Policy, new(kvrows.Policy))
		}
		if err != nil {
			return out, err
		}
	}
	if in.Entries {
		var end []byte
		if len(prefix) > 0 {
			end = keyspace.TupleEnd(prefix)
		}
		if out.Deleted, err = store.DeleteRange(kvrows.Bounds(prefix, end)); err != nil {
			return out, refused(err)
		}
		if out.Deleted > 0 {
			TurnOf(t).rangeChange(prefix, end, out.Deleted)
		} else {
			TurnOf(t).indexRange(prefix, end) // expired entries of it may be gone
		}
		TurnOf(t).logged(store)
	}
	return out, refused(store.RemoveScope(prefix))
}

// scope returns a scope in its form for callers.
func (r *reader) scope(sc *kvrows.Scope, c *kvrows.Count) (kv.Scope, error) {
	parts, err := tuple.Unpack(sc.Prefix)
	if err != nil {
		return kv.Scope{}, err
	}
	out := kv.Scope{
		Prefix: kv.Key(parts), Keys: c.Keys, Bytes: c.Bytes, Groups: c.Groups, Declared: sc.Declared,
		Created: clock.TimeMS(sc.Created).UTC(), Updated: clock.TimeMS(sc.Updated).UTC(),
		ScopePolicy: kv.ScopePolicy{
			MaxKeys: sc.MaxKeys, MaxBytes: sc.MaxBytes, MaxGroups: sc.MaxGroups, CountGroups: sc.CountGroups, DefaultTTLMS: sc.DefaultTTL, ReadOnly: sc.ReadOnly,
			KeepVersions: sc.KeepVersions, KeepForMS: sc.KeepFor, Log: sc.Log, LogEvents: sc.LogEvents, LogBytes: sc.LogBytes, LogForMS: sc.LogFor,
		},
	}
	if len(sc.Info) > 0 && err == nil {
		out.Info, _, err = show(r.codec, value.Value{Encoding: host.EncodedJSON, Data: sc.Info})
	}
	return out, err
}

// pageOf returns the limit of a page, the packed key after which it begins, and the mark of its
// cursors.
func pageOf(what string, limit int, cursor string, start, end []byte) (int, []byte, uint64, error) {
	h := fnv.New64a()
	h.Write([]byte(what))
	h.Write(start)
	mark := h.Sum64()
	limit = cmp.Or(limit, kv.DefaultPage)
	if cursor == "" {
		return limit, nil, mark, nil
	}
	from, to := kvrows.Bounds(start, end)
	last, err := after(cursor, mark, from, to)
	if err != nil {
		return 0, nil, 0, err
	}
	return limit, last[1:], mark, nil // without the kind; the empty key needs it
}

// scopes implements kv.scopes.
func scopes(r *reader, in *kv.ScopesInput) (kv.ScopesOutput, error) {
	start, end, err := bounds(&kv.Selection{Prefix: in.Prefix})
	if err != nil {
		return kv.ScopesOutput{}, err
	}
	limit, last, mark, err := pageOf("scopes", in.Limit, in.Cursor, start, end)
	if err != nil {
		return kv.ScopesOutput{}, err
	}
	list, more, err := kvrows.ListScopes(r.rows, start, end, last, limit)
	if err != nil {
		return kv.ScopesOutput{}, err
	}
	size := 0
	for i, sc := range list {
		if size += len(sc.Info); size > pageBytes && i > 0 {
			list, more = list[:i], true
			break
		}
	}
	counts, err := kvrows.CountAll(r.rows, list, r.now.UnixMilli())
	out := kv.ScopesOutput{Scopes: make([]kv.Scope, len(list))}
	for i, sc := range list {
		if err != nil {
			break
		}
		out.Scopes[i], err = r.scope(sc, &counts[i])
	}
	if more {
		out.Cursor = cursorOf(mark, keyspace.UserKV.Append(nil, list[len(list)-1].Prefix))
	}
	return out, err
}

// groups implements kv.groups.
func groups(r *reader, in *kv.GroupsInput) (kv.GroupsOutput, error) {
	prefix, err := scopePrefix(in.Prefix)
	if err != nil {
		return kv.GroupsOutput{}, err
	}
	limit, last, mark, err := pageOf("groups", in.Limit, in.Cursor, prefix, keyspace.TupleEnd(prefix))
	if err != nil {
		return kv.GroupsOutput{}, err
	}
	if last != nil {
		var of bool
		if last, of = bytes.CutPrefix(last, prefix); !of || len(last) == 0 {
			return kv.GroupsOutput{}, errCursor
		}
	}
	sc, there, err := kvrows.Find(r.rows, prefix)
	switch {
	case err != nil:
		return kv.GroupsOutput{}, err
	case !there:
		return kv.GroupsOutput{},
			host.Errorf(host.NotFound, "there is no scope with this prefix").With("field", "prefix")
	case !sc.CountGroups && sc.MaxGroups == 0:
		return kv.GroupsOutput{},
			host.Errorf(host.FailedPrecondition, "the scope counts no groups; count_groups of its policy makes it")
	}
	list, more, err := kvrows.Groups(r.rows, prefix, last, limit, r.now.UnixMilli())
	out := kv.GroupsOutput{Groups: make([]kv.Group, len(list))}
	for i := range list {
		if err != nil {
			break
		}
		g := &list[i]
		var part tuple.Tuple
		part, err = tuple.Unpack(g.Part)
		out.Groups[i] = kv.Group{Part: kv.Key(part), Keys: g.Keys, Bytes: g.Bytes}
	}
	if more {
		out.Cursor = cursorOf(mark, append(keyspace.UserKV.Append(nil, prefix), list[len(list)-1].Part...))
	}
	return out, err
}
