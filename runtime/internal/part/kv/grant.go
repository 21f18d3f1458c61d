package kv

import (
	"bytes"
	"context"
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// A method refuses what a token does not allow by its input, before anything is read. So a method
// needs no other check, if its input names its keys. A few methods leave out parts of their
// answers: kv.indexes, kv.feed, and kv.commit without the right read. kv.set_scope and
// kv.remove_scope also look at the stored scope.

// selected returns an error for a selection that has keys outside of a grant.
func selected(g *token.Grant, s *kv.Selection) error {
	if err := g.Allow(token.Read); err != nil {
		return err
	}
	return chosen(g, s)
}

func chosen(g *token.Grant, s *kv.Selection) error {
	start, end, err := bounds(s)
	if err != nil || g.Range(start, end) {
		return err
	}
	member := "prefix"
	if s.Start != nil || s.End != nil {
		member = "start"
	}
	return token.Denied("the selection: it has keys that do not begin with the token's prefix").With("field", member)
}

func mayGet(g *token.Grant, in *kv.GetInput) error {
	if err := g.Allow(token.Read); err != nil {
		return err
	}
	return of("key", g.Key(in.Key))
}

func mayGetMany(g *token.Grant, in *kv.GetManyInput) error {
	if err := g.Allow(token.Read); err != nil {
		return err
	}
	for i, key := range in.Keys {
		if err := g.Key(key); err != nil {
			return at("keys", i, err)
		}
	}
	return nil
}

func mayList(g *token.Grant, in *kv.ListInput) error { return selected(g, &in.Selection) }

func mayListMany(g *token.Grant, in *kv.ListManyInput) error {
	for i := range in.Lists {
		if err := mayList(g, &in.Lists[i]); err != nil {
			return at("lists", i, err)
		}
	}
	return g.Allow(token.Read)
}

func mayCount(g *token.Grant, in *kv.CountInput) error   { return selected(g, &in.Selection) }
func maySample(g *token.Grant, in *kv.SampleInput) error { return selected(g, &in.Selection) }

func mayHistory(g *token.Grant, in *kv.HistoryInput) error {
	return mayGet(g, &kv.GetInput{Key: in.Key})
}

// under returns an error unless a grant has rights, and all keys with a prefix.
func under(g *token.Grant, need token.Rights, prefix kv.Key) error {
	if err := g.Allow(need); err != nil {
		return err
	}
	return of("prefix", g.Below(prefix))
}

func mayScopes(g *token.Grant, in *kv.ScopesInput) error { return under(g, token.Read, in.Prefix) }
func mayGroups(g *token.Grant, in *kv.GroupsInput) error { return under(g, token.Read, in.Prefix) }
func maySearch(g *token.Grant, in *kv.SearchInput) error { return under(g, token.Read, in.Prefix) }

func mayRender(g *token.Grant, in *kv.RenderInput) error { return under(g, token.Read, in.Prefix) }

// mayPurge: it is for the whole store, and its result shows how much has expired.
func mayPurge(g *token.Grant, _ *method.None) error { return mayKeep(g, "to purge the store") }

func mayIndexes(g *token.Grant, _ *kv.IndexesInput) error { return g.Allow(token.Read) }

// maySetIndex: an actor has few indexes, so only tokens of the whole store may make them.
func maySetIndex(g *token.Grant, _ *kv.SetIndexInput) error { return mayKeep(g, "to make indexes") }
func mayRemoveIndex(g *token.Grant, _ *kv.RemoveIndexInput) error {
	return mayKeep(g, "to remove indexes")
}

// inner is under for a change of a scope's policy. The scope of all keys of the token is refused,
// because it would bound the token itself.
func inner(g *token.Grant, prefix kv.Key) error {
	if err := under(g, token.Read|token.Write, prefix); err != nil {
		return err
	}
	b, err := prefix.Pack()
	if err != nil || len(b) > len(g.Prefix) {
		return of("prefix", err)
	}
	return token.Denied("to change the scope of all its keys, only scopes within").With("field", "prefix")
}

func maySetScope(g *token.Grant, in *kv.SetScopeInput) error       { return inner(g, in.Prefix) }
func mayRemoveScope(g *token.Grant, in *kv.RemoveScopeInput) error { return inner(g, in.Prefix) }

// mayKeep: pins and branches are for the whole store, which keeps versions for them.
func mayKeep(g *token.Grant, what string) error {
	if err := g.Allow(token.Read | token.Write); err != nil {
		return err
	}
	return g.Whole(what)
}

func mayPin(g *token.Grant, _ *kv.PinInput) error     { return mayKeep(g, "pins") }
func mayUnpin(g *token.Grant, _ *kv.UnpinInput) error { return mayKeep(g, "pins") }

func mayFork(g *token.Grant, _ *kv.ForkInput) error { return mayKeep(g, "to make branches") }

func mayRemoveBranch(g *token.Grant, _ *kv.RemoveBranchInput) error {
	return mayKeep(g, "to remove branches")
}

func mayBranches(g *token.Grant, _ *kv.BranchesInput) error {
	if err := g.Allow(token.Read); err != nil {
		return err
	}
	return g.Whole("to list branches")
}

func mayDiff(g *token.Grant, in *kv.DiffInput) error { return selected(g, &in.Selection) }

func mayMerge(g *token.Grant, in *kv.MergeInput) error {
	if err := g.Allow(token.Read | token.Write); err != nil {
		return err
	}
	if in.Keys == nil {
		if err := chosen(g, &in.Selection); err != nil {
			return err
		}
	}
	for i, key := range in.Keys {
		if err := g.Key(key); err != nil {
			return at("keys", i, err)
		}
	}
	if len(g.Prefix) == 0 || in.DryRun || in.Base != nil || in.Source.At != 0 {
		return nil
	}
	// The next merge uses the record of this one, and of few parts: merges of one token must not
	// displace the records of others.
	from, to := g.Bounds()
	if start, end, err := bounds(&in.Selection); err != nil ||
		in.Keys == nil && bytes.Equal(start, from) && bytes.Equal(end, to) {
		return err
	}
	return token.Denied("to merge a part of its keys, unless the base is named").With("field", "base")
}

func mayWatch(g *token.Grant, in *kv.WatchInput) error {
	c := kv.Watching{Keys: make([]kv.Key, len(in.Keys))}
	for i := range in.Keys {
		c.Keys[i] = in.Keys[i].Key
	}
	return mayFollow(g, &c)
}

func mayFollow(g *token.Grant, c *kv.Watching) error {
	if err := g.Allow(token.Read | token.Watch); err != nil {
		return err
	}
	for i, key := range c.Keys {
		if err := g.Key(key); err != nil {
			return at("keys", i, err)
		}
	}
	for i, prefix := range c.Prefixes {
		if err := g.Below(prefix); err != nil {
			return at("prefixes", i, err)
		}
	}
	return nil
}

func mayFeed(g *token.Grant, in *kv.FeedInput) error {
	if len(in.Prefixes) == 0 {
		if err := g.Whole("the feed of the whole store"); err != nil {
			return of("prefixes", err)
		}
	}
	return mayFollow(g, &kv.Watching{Prefixes: in.Prefixes})
}

// mayCommit also refuses messages to queues, which are not of the store. To a token that may not
// read it refuses whatever reveals stored data: checks, filters, and operations whose result
// depends on it.
func mayCommit(g *token.Grant, in *kv.CommitInput) error {
	if err := g.Allow(token.Write); err != nil {
		return err
	}
	if len(in.Sends) > 0 {
		return token.Denied("messages to queues").With("field", "sends")
	}
	if len(in.Checks) > 0 && g.Allow(token.Read) != nil {
		return token.Denied("checks: it lacks the right read").With("field", "checks")
	}
	for i := range in.Checks {
		if err := mayCheck(g, &in.Checks[i]); err != nil {
			return at("checks", i, err)
		}
	}
	for i := range in.Mutations {
		if err := mayMutate(g, &in.Mutations[i]); err != nil {
			return at("mutations", i, err)
		}
	}
	return nil
}

func mayCheck(g *token.Grant, c *kv.Check) error {
	if c.Digest != "" {
		d, err := parseDigest(c.Digest)
		if err != nil || g.Range(d.Key, d.End) {
			return err
		}
		return token.Denied("the digest: it is of keys that do not begin with the token's prefix").
			With("field", "digest")
	}
	return of("key", g.Key(c.Key))
}

func mayMutate(g *token.Grant, m *kv.Mutation) error {
	if g.Allow(token.Read) != nil {
		switch m.Op {
		case "put", "delete", "delete_range":
		default:
			return token.Denied("the operation %.40q: it lacks the right read", m.Op).With("field", "op")
		}
		if len(given(host.CBOR, m.Where)) > 0 { // the byte of a null there is no JSON
			return token.Denied("filters: it lacks the right read").With("field", "where")
		}
	}
	if m.Op == "delete_range" {
		return chosen(g, &m.Selection)
	}
	return of("key", g.Key(m.Key))
}

// blind removes from the results of a commit what its caller may not read.
func blind(ctx context.Context, out *kv.CommitOutput) {
	if g := token.Of(ctx); g != nil && g.Allow(token.Read) != nil {
		out.Blind = true
		for i := range out.Results {
			out.Results[i].Deleted = 0
		}
	}
}

// hide removes from an error how full a scope or the actor is, if its caller may not read that:
// they may have keys of others.
func hide(ctx context.Context, err error) error {
	g := token.Of(ctx)
	if g == nil {
		return err
	}
	blind := g.Allow(token.Read) != nil
	if full, is := errors.AsType[*kvrows.QuotaError](err); is {
		full.Hidden = blind || !g.Packed(full.Scope.Prefix)
	}
	if full, is := errors.AsType[*engine.QuotaError](err); is && (blind || len(g.Prefix) > 0) {
		hidden := host.Errorf(host.QuotaExceeded, "the actor's storage quota of %d bytes is used up", full.Limit)
		if m, is := errors.AsType[*kvrows.MutationError](err); is {
			m.Err = hidden
			return err
		}
		return hidden
	}
	return err
}

// mayBound returns an error if a grant with a prefix may not change what a scope keeps of its past,
// by replacing the policy was with to. The kept past takes room that no scope bounds, and there is
// one log for the actor.
func mayBound(g *token.Grant, was, to *kvrows.Policy) error {
	if was.Log != to.Log || was.LogEvents != to.LogEvents || was.LogBytes != to.LogBytes || was.LogFor != to.LogFor {
		if err := g.Whole("to log changes, or no longer"); err != nil {
			return of("log", err)
		}
	}
	if was.KeepVersions != to.KeepVersions || was.KeepFor != to.KeepFor {
		if err := g.Whole("to change what is kept of the past"); err != nil {
			return of("keep_versions", err)
		}
	}
	return nil
}

// clip returns the part of a range of deleted entries that is within a grant. An event has the
// whole range, which may be wider.
func clip(g *token.Grant, s *kv.Selection) *kv.Selection {
	if start, end, err := bounds(s); err == nil && g.Range(start, end) {
		return s
	}
	return &kv.Selection{Prefix: boundOf(g.Prefix)}
}

// A grantedWatch is a watch that ends with its token.
type grantedWatch struct {
	kv.Watch
	grant *token.Grant
}

// Next implements kv.Watch.
func (w grantedWatch) Next(ctx context.Context) (c kv.Changes, err error) {
	err = w.grant.While(ctx, func(ctx context.Context) (err error) {
		c, err = w.Watch.Next(ctx)
		return err
	})
	if err != nil {
		return kv.Changes{}, err
	}
	return c, nil
}
