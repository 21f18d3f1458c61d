package kv

import "time"

// The bounds of branches.
const (
	MaxBranches   = 100       // of an actor
	MaxBranchName = 255       // bytes
	MaxForks      = 8         // branches of branches, one inside of the other
	MaxMerged     = 10_000    // entries that one kv.merge compares, and that one mutation of a branch removes
	MaxMergeReads = 1_000_000 // unchanged entries that one kv.merge reads to find those
	MaxParts      = 100       // merges of parts of a branch that later ones compare with; a key of a list is a part
	MaxKept       = 100_000   // entries that one mutation removes while versions of them are kept
)

// A Branch is a store that began as a copy of another one. It has no counts of scopes, search, log
// or watchers of its own; changes that are merged into the store itself reach them.
type Branch struct {
	Branch string `json:"branch"`
	// From is the branch from which it was forked, as of Version; absent for the store itself.
	From    string    `json:"from,omitempty"`
	Version uint64    `json:"version"`
	Created time.Time `json:"created"`
	// ReadOnly is set if it does not change. Such a branch is a tag.
	ReadOnly bool `json:"read_only,omitempty"`
}

// ForkInput makes a branch.
type ForkInput struct {
	// Branch is its name, 1 to 255 bytes of UTF-8, which no other branch has.
	Branch string `json:"branch"`
	// From is the branch to begin with; absent means the store itself.
	From     string `json:"from,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// BranchesInput asks for the branches of a store.
type BranchesInput struct{}

// BranchesOutput has the branches in the order of their names.
type BranchesOutput struct {
	Branches []Branch `json:"branches"`
}

// RemoveBranchInput names a branch from which no other one was forked.
type RemoveBranchInput struct {
	Branch string `json:"branch"`
}

// RemoveBranchOutput reports whether there was such a branch.
type RemoveBranchOutput struct {
	Removed bool `json:"removed"`
}

// DiffInput asks which entries differ between two branches, or two versions of one. A version that
// is no longer known is an error with the reason history_trimmed.
type DiffInput struct {
	From Moment `json:"from"`
	To   Moment `json:"to"`
	Selection
	// Limit bounds the entries; absent means DefaultPage.
	Limit int `json:"limit,omitempty" range:"1,1000"`
	// Cursor continues after an earlier answer for the same members. Any other cursor is refused.
	Cursor string `json:"cursor,omitempty"`
}

// A Difference is an entry that differs between two stores. It is absent from one that has none.
type Difference struct {
	Key  Key    `json:"key"`
	From *Entry `json:"from,omitempty"`
	To   *Entry `json:"to,omitempty"`
}

// DiffOutput has the entries that differ, in the order of their keys. Cursor is absent at the end.
// A page may be short, or empty, because a diff of two versions of a store reads all its entries.
type DiffOutput struct {
	Changes []Difference `json:"changes"`
	Cursor  string       `json:"cursor,omitempty"`
}

// MergeInput merges the changes of Source into Target: all entries in which Source differs from
// Base. If Target differs from Base there too, Strategy decides. With Keys, or a Selection, only
// those entries are merged. A merge compares up to MaxMerged entries, and reads up to MaxMergeReads
// that have not changed.
//
//   - To merge a branch into the store, or the store into a branch: Source and Target.
//   - To take some entries: Keys.
//   - To undo the commits of a branch after version 5 up to version 9: Source at 5, Base at 9, and
//     Target.
type MergeInput struct {
	Source Moment `json:"source"`
	// Target is a branch; absent means the store itself.
	Target string `json:"target,omitempty"`
	// Base is their common origin. Absent means the point where one was forked from the other, or
	// both from a third, or the last merge between them: of all, and of the last MaxParts parts
	// since.
	Base *Moment `json:"base,omitempty"`
	// Strategy decides conflicts: strict merges nothing if there are any, theirs takes the entries
	// of Source, ours keeps those of Target. Absent means strict.
	Strategy string `json:"strategy,omitempty"`
	// Keys selects up to MaxKeys entries.
	Keys []Key `json:"keys,omitempty" max:"1000"`
	Selection
	// DryRun merges nothing, and returns the result that the merge would have.
	DryRun bool `json:"dry_run,omitempty"`
}

// A Conflict is an entry that differs in both stores from their base. It is absent from one that
// has none.
type Conflict struct {
	Key    Key    `json:"key"`
	Base   *Entry `json:"base,omitempty"`
	Source *Entry `json:"source,omitempty"`
	Target *Entry `json:"target,omitempty"`
}

// MergeOutput is the result of a merge. A conflict is no error.
type MergeOutput struct {
	// OK is false if there are conflicts that Strategy does not decide. Then nothing was done.
	OK bool `json:"ok"`
	// Version is the version of the commit.
	Version uint64 `json:"version,omitempty"`
	// Put and Deleted count the entries of Target that the merge put and removed.
	Put     int64 `json:"put,omitempty"`
	Deleted int64 `json:"deleted,omitempty"`
	// Conflicts are up to DefaultPage of the conflicts, in the order of their keys, even if the
	// strategy decided them. Conflicted counts all.
	Conflicts  []Conflict `json:"conflicts,omitempty"`
	Conflicted int64      `json:"conflicted,omitempty"`
}
