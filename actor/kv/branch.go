package kv

import (
	"context"
	"iter"
	"time"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Branch is a store that began as a copy of another one, and has changed independently since.
// Made by [Store.Branch] and Fork. Scopes apply to its changes, but do not count them. It has no
// search, log or watchers; they get changes that [Store.Merge] makes in the store.
//
// The error code is NotFound, with the metadata "reason" branch_not_found, if there is no such
// branch.
type Branch struct {
	Reader
	line
}

func branchAt(at site.Site, name string) Branch {
	r := Reader{site: at, moment: hostkv.Moment{Branch: name}}
	return Branch{r, line{r}}
}

// Branch returns the branch with a name. It sends no request.
func (s Store) Branch(name string) Branch {
	return branchAt(s.site, name)
}

// Name returns the name of the branch.
func (b Branch) Name() string { return b.moment.Branch }

// Fork makes a branch with the present entries of the store or branch. That takes as long for one
// entry as for a million. The name has 1 to 255 bytes of UTF-8; the error code is AlreadyExists if
// another branch has it. A store has up to 100 branches, forked up to 8 deep.
func (l line) Fork(ctx context.Context, name string) (Branch, error) { return l.fork(ctx, name, false) }

// Tag forks a branch that does not change: a version with a name, which stays readable.
func (l line) Tag(ctx context.Context, name string) (Branch, error) { return l.fork(ctx, name, true) }

func (l line) fork(ctx context.Context, name string, readOnly bool) (Branch, error) {
	_, err := site.Ask(ctx, &l.of.site, method.KVFork,
		&hostkv.ForkInput{Branch: name, From: l.of.moment.Branch, ReadOnly: readOnly})
	return branchAt(l.of.site, name), err
}

// Remove removes the branch. It reports whether there was one. The error code is
// FailedPrecondition, with the metadata "reason" branch_has_forks, if another branch was forked
// from it.
func (b Branch) Remove(ctx context.Context) (bool, error) {
	out, err := site.Ask(ctx, &b.site, method.KVRemoveBranch, &hostkv.RemoveBranchInput{Branch: b.moment.Branch})
	return out.Removed, err
}

// A BranchInfo describes a branch.
type BranchInfo struct {
	Name string
	// From is the branch from which it was forked, as of Version; "" is the store itself.
	From    string
	Version uint64
	Created time.Time
	// ReadOnly is set for a [Store.Tag].
	ReadOnly bool
}

// Branches lists the branches of the store in the order of their names.
func (s Store) Branches(ctx context.Context) ([]BranchInfo, error) {
	out, err := site.Ask(ctx, &s.site, method.KVBranches, &hostkv.BranchesInput{})
	list := make([]BranchInfo, len(out.Branches))
	for i, b := range out.Branches {
		list[i] = BranchInfo{Name: b.Branch, From: b.From, Version: b.Version, Created: b.Created, ReadOnly: b.ReadOnly}
	}
	return list, err
}

// A Point is a branch at a version. The zero value is the present store itself.
type Point struct {
	Branch string
	// Version is the version of a commit; 0 is the present.
	Version uint64
}

func (p Point) wire() hostkv.Moment { return hostkv.Moment{Branch: p.Branch, At: p.Version} }

// A Difference is a key whose entry differs between two points. From or To is nil if it has none.
type Difference struct {
	Key      Key
	From, To *Entry
}

// Diff ranges over the entries of a selection that differ between two points, in the order of their
// keys. An error ends the loop; its code is FailedPrecondition, with the metadata "reason"
// history_trimmed, if a point is no longer known.
func (s Store) Diff(ctx context.Context, from, to Point, of Selection) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		for in := (hostkv.DiffInput{From: from.wire(), To: to.wire(), Selection: of}); ; {
			out, err := site.Ask(ctx, &s.site, method.KVDiff, &in)
			if err != nil {
				yield(Difference{}, err)
				return
			}
			for _, c := range out.Changes {
				d := Difference{Key: c.Key}
				if d.From, err = entryIf(c.From); err == nil {
					d.To, err = entryIf(c.To)
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
			if in.Cursor = out.Cursor; in.Cursor == "" {
				return
			}
		}
	}
}

// entryIf is entryOf for an entry that may be missing.
func entryIf(e *hostkv.Entry) (*Entry, error) {
	if e == nil {
		return nil, nil
	}
	out, err := entryOf(e, true)
	return &out, err
}

// A Strategy decides which entry a merge keeps if both branches have changed it.
type Strategy string

// The strategies.
const (
	// Strict merges nothing if both have changed an entry. It is the zero value.
	Strict Strategy = ""
	// Theirs takes the entry of the source, Ours keeps that of the target.
	Theirs Strategy = "theirs"
	Ours   Strategy = "ours"
)

// A MergeConfig selects the branches and the entries of a merge.
//
//   - To merge a branch into the store: Source.Branch. To bring the branch up to date: Target.
//   - To take some entries only: Keys, up to 1,000, or Selection.
//   - To undo the commits of the store after version 5 up to version 9: Source.Version 5, and Base
//     with Version 9.
type MergeConfig struct {
	Source Point
	// Target is a branch; "" is the store itself.
	Target string
	// Base is their common origin. nil means the point where one was forked from the other, or both
	// from a third, or the last merge between them.
	Base      *Point
	Strategy  Strategy
	Keys      []Key
	Selection Selection
	// DryRun merges nothing, and returns the result that the merge would have.
	DryRun bool
}

// A Merged is the result of a merge.
type Merged struct {
	// OK is false if there are conflicts and the strategy is Strict. Then nothing was done.
	OK bool
	// Version is the version of the commit.
	Version uint64
	// Put and Deleted count the entries of the target that were put and removed.
	Put, Deleted int64
	// Conflicts are up to 100 of the entries that both have changed, even if the strategy decided;
	// Conflicted counts all.
	Conflicts  []Conflict
	Conflicted int64
}

// A Conflict is a key whose entry two branches have changed in different ways. An entry is nil
// where there is none.
type Conflict struct {
	Key                  Key
	Base, Source, Target *Entry
}

// Merge applies the changes of the source since the base to the target, in one commit. One merge
// compares up to 10,000 entries that differ. To find those of the store itself, it reads up to
// 1,000,000 that do not. The error code is TooLarge if there are more; Selection can divide them.
func (s Store) Merge(ctx context.Context, c MergeConfig) (Merged, error) {
	in := hostkv.MergeInput{Source: c.Source.wire(), Target: c.Target, Strategy: string(c.Strategy),
		Keys: c.Keys, Selection: c.Selection, DryRun: c.DryRun}
	if c.Base != nil {
		in.Base = new(c.Base.wire())
	}
	out, err := site.Ask(ctx, &s.site, method.KVMerge, &in)
	m := Merged{OK: out.OK, Version: out.Version, Put: out.Put, Deleted: out.Deleted, Conflicted: out.Conflicted}
	for i := range out.Conflicts {
		if err != nil {
			break
		}
		from, to := &out.Conflicts[i], Conflict{Key: out.Conflicts[i].Key}
		for _, pair := range []struct {
			from *hostkv.Entry
			to   **Entry
		}{{from.Base, &to.Base}, {from.Source, &to.Source}, {from.Target, &to.Target}} {
			if err == nil {
				*pair.to, err = entryIf(pair.from)
			}
		}
		m.Conflicts = append(m.Conflicts, to)
	}
	return m, err
}
