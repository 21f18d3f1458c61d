package kv

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// reasonNoBranch is in the metadata of the error about a missing branch.
const reasonNoBranch = "branch_not_found"

// branched makes an error about a branch one for callers.
func branched(err error) error {
	if b, ok := errors.AsType[*kvrows.BranchError](err); ok {
		return host.Errorf(host.NotFound, "%s", b).With("reason", reasonNoBranch).With("field", "branch")
	}
	return err
}

// withField changes the member that an error about a branch names.
func withField(err error, member string) error {
	if e, ok := errors.AsType[*host.Error](err); ok && e.Metadata["field"] == "branch" {
		return e.With("field", member)
	}
	return err
}

// branchOf returns a branch for callers; all are the branches.
func branchOf(b *kvrows.Branch, all []*kvrows.Branch) kv.Branch {
	return kv.Branch{Branch: b.Name, From: kvrows.NameOf(all, b.From), Version: b.Version,
		Created: clock.TimeMS(b.Created).UTC(), ReadOnly: b.ReadOnly}
}

// fork implements kv.fork.
func fork(_ *kernel.Core, t *kernel.Turn, _ host.Codec, in *kv.ForkInput) (kv.Branch, error) {
	b, err := storeOf(t.Core).Fork(in.Branch, in.From, in.ReadOnly)
	if _, missing := errors.AsType[*kvrows.BranchError](err); missing {
		return kv.Branch{}, withField(branched(err), "from")
	}
	if err != nil {
		return kv.Branch{}, fault.Limit(err)
	}
	out := branchOf(b, nil)
	out.From = in.From
	return out, nil
}

// branches implements kv.branches.
func branches(r *reader, _ *kv.BranchesInput) (kv.BranchesOutput, error) {
	list, err := kvrows.Branches(r.rows)
	out := kv.BranchesOutput{Branches: make([]kv.Branch, len(list))}
	for i, b := range list {
		out.Branches[i] = branchOf(b, list)
	}
	return out, err
}

// removeBranch implements kv.remove_branch.
func removeBranch(_ *kernel.Core, t *kernel.Turn, _ host.Codec,
	in *kv.RemoveBranchInput) (kv.RemoveBranchOutput, error) {
	if in.Branch == "" {
		return kv.RemoveBranchOutput{},
			host.Errorf(host.InvalidArgument,
				"the branch is missing; the store itself is not removed").With("field", "branch")
	}
	err := storeOf(t.Core).RemoveBranch(in.Branch)
	if _, missing := errors.AsType[*kvrows.BranchError](err); missing {
		return kv.RemoveBranchOutput{}, nil
	}
	return kv.RemoveBranchOutput{Removed: err == nil}, fault.Limit(err)
}

// stateOf returns a state for callers; nil if there is none.
func stateOf(codec host.Codec, key kv.Key, s kvrows.State) (*kv.Entry, error) {
	if s == nil {
		return nil, nil
	}
	e, err := entryOf(codec, key, s, true)
	return &e, err
}

// diffStep is how many entries that have not changed a diff passes between two looks at the clock.
const diffStep = 256

// diff implements kv.diff.
func diff(r *reader, in *kv.DiffInput) (out kv.DiffOutput, err error) {
	var views [2]viewRows
	for i, m := range []*kv.Moment{&in.From, &in.To} {
		v, err := r.versioned(m)
		if err != nil {
			return out, of([]string{"from", "to"}[i], err)
		}
		views[i] = viewRows{v}
	}
	start, end, err := bounds(&in.Selection)
	if err != nil {
		return out, err
	}
	listing := listingOf(start, end, []byte(in.From.Branch), []byte(in.To.Branch),
		strconv.AppendUint(nil, in.From.At, 10), strconv.AppendUint(nil, in.To.At, 10))
	if in.Cursor != "" {
		last, err := after(in.Cursor, listing, start, end)
		if err != nil {
			return out, err
		}
		start = append(last, 0)
	}
	limit, size, compared, began := cmp.Or(in.Limit, kv.DefaultPage), 0, 0, time.Now()
	var last []byte
	from, to := kvrows.Bounds(start, end)
	out.Changes = []kv.Difference{}
	unchanged := 0
	look := func() (bool, error) {
		unchanged++
		return unchanged%diffStep == 0, nil
	}
	for key, err := range kvrows.Differing(views[0].View, views[1].View, from, to, look) {
		if err != nil {
			return out, trimmed(err)
		}
		if compared++; len(out.Changes) == limit || size >= pageBytes || compared > scanEntries ||
			compared > 1 && time.Since(began) > scanTime {
			out.Cursor = cursorOf(listing, last)
			break
		}
		last = key
		a, err := kvrows.StateOf(views[0], key)
		if err != nil {
			return out, err
		}
		b, err := kvrows.StateOf(views[1], key)
		if err != nil {
			return out, err
		}
		if kvrows.Same(a, b) {
			continue
		}
		d := kv.Difference{}
		if d.Key, err = keyOf(key); err != nil {
			return out, err
		}
		if d.From, err = stateOf(r.codec, d.Key, a); err != nil {
			return out, err
		}
		if d.To, err = stateOf(r.codec, d.Key, b); err != nil {
			return out, err
		}
		out.Changes = append(out.Changes, d)
		for _, s := range []kvrows.State{a, b} {
			if s != nil {
				size += len(s.Value)
			}
		}
	}
	return out, nil
}

// keyOf returns a packed key for callers.
func keyOf(packed []byte) (kv.Key, error) {
	parts, err := tuple.Unpack(packed)
	return kv.Key(parts), err
}

var strategies = map[string]kvrows.Strategy{"": kvrows.Strict, "strict": kvrows.Strict,
	"theirs": kvrows.Theirs, "ours": kvrows.Ours}

// merge implements kv.merge.
func merge(_ *kernel.Core, t *kernel.Turn, codec host.Codec, in *kv.MergeInput) (out kv.MergeOutput, err error) {
	if in.DryRun {
		audit.Of(t.Work.Ctx).Drop()
	}
	strategy, known := strategies[in.Strategy]
	if !known {
		return out, host.Errorf(host.InvalidArgument,
			"the strategy is %.40q; it must be strict, theirs or ours", in.Strategy).With("field", "strategy")
	}
	if in.Base == nil && in.Source.Branch == in.Target {
		return out, host.Errorf(host.InvalidArgument,
			"a branch is merged into itself only with another base").With("field", "base")
	}
	store := storeOf(t.Core)
	r := &reader{rows: store.WriteSet, codec: codec, now: t.Start, version: store.Version() - 1}
	writer, err := store.Writer(in.Target)
	if err != nil {
		return out, withField(branched(err), "target")
	}
	source, err := r.versioned(&in.Source)
	if err != nil {
		return out, of("source", err)
	}
	source.Without(r.now.UnixMilli())
	base, err := r.base(in, source)
	if err != nil {
		return out, err
	}
	keys, parts, err := merging(in, base, source)
	if err != nil {
		return out, err
	}
	plan, err := kvrows.Plan(func(key []byte) engine.Reader { return viewRows{base.Of(key)} },
		viewRows{source}, writer, keys, strategy)
	if err != nil {
		return out, trimmed(err)
	}
	if out, err = merged(codec, &plan); err != nil {
		return out, err
	}
	if out.OK = plan.Conflicted == 0 || strategy != kvrows.Strict; !out.OK {
		return out, nil
	}
	for i := range plan.Mutations {
		if plan.Mutations[i].Op == kvrows.Delete {
			out.Deleted++
		} else {
			out.Put++
		}
	}
	if in.DryRun {
		return out, nil
	}
	store.Mark()
	out.Version = uint64(store.Version())
	if _, err := kvrows.Apply(writer, &kvrows.Commit{Mutations: plan.Mutations}); err != nil {
		store.TakePurged() // the keys that it purged are there again
		return kv.MergeOutput{}, unplaced(hide(t.Work.Ctx, err))
	}
	if h := TurnOf(t); in.Target == "" {
		h.expired(store)
		for i := range plan.Mutations {
			h.changed(&plan.Mutations[i])
		}
		h.logged(store)
	}
	if in.Source.At == 0 && in.Base == nil {
		err = store.NoteMerge(in.Source.Branch, in.Target, store.Version(), parts)
	}
	return out, fault.Limit(err)
}

// unplaced is refusal without the place in a list, because no caller gave a list.
func unplaced(err error) error {
	if m, ok := errors.AsType[*kvrows.MutationError](err); ok {
		return refused(m.Err)
	}
	return refused(err)
}

// base returns the state that a merge compares with.
func (r *reader) base(in *kv.MergeInput, source *kvrows.View) (*kvrows.Common, error) {
	if in.Base != nil {
		v, err := r.versioned(in.Base)
		if err != nil {
			return nil, of("base", err)
		}
		return &kvrows.Common{View: v.Without(r.now.UnixMilli())}, nil
	}
	target, err := r.view(&kv.Moment{Branch: in.Target})
	if err != nil {
		return nil, of("target", err)
	}
	return kvrows.Base(r.rows, source, target, r.version, r.now.UnixMilli())
}

// merging returns the packed keys that a merge compares, and the parts that they belong to; nil
// parts mean everything.
func merging(in *kv.MergeInput, base *kvrows.Common,
	source *kvrows.View) (keys iter.Seq2[[]byte, error], parts []kvrows.Range, err error) {
	if in.Keys == nil {
		start, end, err := bounds(&in.Selection)
		if err != nil {
			return nil, nil, err
		}
		if start != nil || end != nil {
			parts = []kvrows.Range{{Start: start, End: end}}
		}
		from, to := kvrows.Bounds(start, end)
		return base.Differing(source, from, to, kv.MaxMergeReads), parts, nil
	}
	if in.Prefix != nil || in.Start != nil || in.End != nil {
		return nil, nil,
			host.Errorf(host.InvalidArgument, "a merge has either keys or a selection").With("field", "keys")
	}
	if n := len(in.Keys); n > kv.MaxKeys {
		return nil, nil, host.OverLimit("keys", kv.MaxKeys, int64(n)).With("field", "keys")
	}
	list := make([][]byte, len(in.Keys))
	for i, key := range in.Keys {
		if list[i], err = packed(key); err != nil {
			return nil, nil, at("keys", i, err)
		}
	}
	slices.SortFunc(list, bytes.Compare)
	list = slices.CompactFunc(list, bytes.Equal)
	parts = []kvrows.Range{} // not everything, if there are no keys
	for _, key := range list {
		parts = append(parts, kvrows.Range{Start: key, End: append(key[:len(key):len(key)], 0)})
	}
	return func(yield func([]byte, error) bool) {
		for _, key := range list {
			if !yield(key, nil) {
				return
			}
		}
	}, parts, nil
}

// merged returns the result of a merge for callers, without its puts and removals.
func merged(codec host.Codec, plan *kvrows.Merge) (out kv.MergeOutput, err error) {
	out.Conflicted = plan.Conflicted
	size := 0
	for i := range plan.Conflicts {
		c := &plan.Conflicts[i]
		if size >= pageBytes {
			break
		}
		key, err := keyOf(c.Key)
		if err != nil {
			return out, err
		}
		shownAs := kv.Conflict{Key: key}
		for _, s := range []struct {
			state kvrows.State
			to    **kv.Entry
		}{{c.Base, &shownAs.Base}, {c.Source, &shownAs.Source}, {c.Target, &shownAs.Target}} {
			if *s.to, err = stateOf(codec, key, s.state); err != nil {
				return out, err
			}
			if s.state != nil {
				size += len(s.state.Value)
			}
		}
		out.Conflicts = append(out.Conflicts, shownAs)
	}
	return out, nil
}
