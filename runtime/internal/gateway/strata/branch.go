package strata

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// branch returns the branch of a command. The first branch is the store itself. A command of a
// transaction uses the transaction's branch.
func (c *call) branch(given *text) (kv.Branch, error) {
	name, err := given.name("branch")
	switch {
	case err != nil:
	case c.lapsed != nil:
		err = errLapsed()
	case c.session != nil && given != nil && name != c.session.branch:
		err = invalid("branch", "is %.80q; the transaction is on %.80q", name, c.session.branch)
	case c.session != nil:
		name = c.session.branch
	}
	return c.store.Branch(stored(name)), err
}

// stored returns the name of a branch in the store, and shownBranch the reverse.
func stored(name string) string {
	if name == defaultName {
		return ""
	}
	return name
}

func shownBranch(name string) string {
	if name == "" {
		return defaultName
	}
	return name
}

// A branchInfo describes a branch.
type branchInfo struct {
	ID      string  `json:"id"`
	Parent  *string `json:"parent"`     // null for the first
	Version uint64  `json:"version"`    // version at which it began
	Created int64   `json:"created_at"` // microseconds since 1970; 0 for the first
	Tag     bool    `json:"read_only,omitempty"`
}

// branches lists the branches, beginning with the first.
func (c *call) branches() ([]branchInfo, error) {
	found, err := c.store.Branches(c.ctx)
	list := []branchInfo{{ID: defaultName}}
	for _, b := range found {
		parent := shownBranch(b.From)
		list = append(list, branchInfo{b.Name, &parent, b.Version, b.Created.UnixMicro(), b.ReadOnly})
	}
	return list, err
}

// find returns a branch; nil if there is none.
func (c *call) find(name string) (*branchInfo, error) {
	list, err := c.branches()
	for i := range list {
		if list[i].ID == name {
			return &list[i], err
		}
	}
	return nil, err
}

// there returns an error if there is no branch with the name.
func (c *call) there(name string) error {
	if name == defaultName {
		return nil
	}
	info, err := c.find(name)
	if err == nil && info == nil {
		err = noBranch(name)
	}
	return err
}

func noBranch(name string) error {
	return named("BranchNotFound", host.NotFound, "there is no branch %.80q", name)
}

// apart refuses a command that cannot be part of a transaction, inside one.
func (c *call) apart(command string) error {
	switch {
	case c.lapsed != nil:
		return errLapsed()
	case c.session != nil:
		return invalid("command", "%s is no part of a transaction", command)
	}
	return nil
}

// required returns the name of a required branch.
func (s text) required(member string) (string, error) {
	if s == "" {
		return "", invalid(member, "is missing or empty")
	}
	return (&s).name(member)
}

// branchCreate makes a branch that begins as a copy of the first.
type branchCreate struct {
	Branch text `json:"branch_id"`
}

func (in *branchCreate) run(c *call) (any, error) {
	if err := c.apart("BranchCreate"); err != nil {
		return nil, err
	}
	name, err := in.Branch.required("branch_id")
	if err != nil {
		return nil, err
	}
	return c.fork(defaultName, name)
}

// branchFork makes a branch that begins as a copy of another one.
type branchFork struct {
	Source      text `json:"source"`
	Destination text `json:"destination"`
}

func (in *branchFork) run(c *call) (any, error) {
	if err := c.apart("BranchFork"); err != nil {
		return nil, err
	}
	source, err := in.Source.required("source")
	if err != nil {
		return nil, err
	}
	destination, err := in.Destination.required("destination")
	if err != nil {
		return nil, err
	}
	return c.fork(source, destination)
}

func (c *call) fork(source, name string) (any, error) {
	if name == defaultName {
		return nil, named("BranchExists", host.AlreadyExists, "the branch %q is there from the beginning", name)
	}
	if _, err := c.store.Branch(stored(source)).Fork(c.ctx, name); err != nil {
		if missing(err) && source != defaultName { // there is no actor
			err = noBranch(source)
		}
		return nil, err
	}
	info, err := c.find(name)
	return map[string]any{"Branch": info}, err
}

// branchList lists the branches.
type branchList struct{}

func (*branchList) run(c *call) (any, error) {
	if err := c.apart("BranchList"); err != nil {
		return nil, err
	}
	list, err := c.branches()
	return map[string]any{"Branches": list}, err
}

// branchName names a branch.
type branchName struct {
	Branch text `json:"branch"`
}

// branchGet describes a branch; null if there is none.
type branchGet struct{ branchName }

func (in *branchGet) run(c *call) (any, error) {
	if err := c.apart("BranchGet"); err != nil {
		return nil, err
	}
	name, err := in.Branch.required("branch")
	if err != nil {
		return nil, err
	}
	info, err := c.find(name)
	return map[string]any{"Branch": info}, err
}

// branchExists says whether there is a branch.
type branchExists struct{ branchName }

func (in *branchExists) run(c *call) (any, error) {
	if err := c.apart("BranchExists"); err != nil {
		return nil, err
	}
	name, err := in.Branch.required("branch")
	if err != nil {
		return nil, err
	}
	info, err := c.find(name)
	return map[string]any{"Bool": info != nil}, err
}

// branchDelete removes a branch with all its own entries.
type branchDelete struct{ branchName }

func (in *branchDelete) run(c *call) (any, error) {
	if err := c.apart("BranchDelete"); err != nil {
		return nil, err
	}
	name, err := in.Branch.required("branch")
	switch {
	case err != nil:
		return nil, err
	case name == defaultName:
		return nil, invalid("branch", "is %q, which cannot be deleted", name)
	}
	removed, err := c.store.Branch(name).Remove(c.ctx)
	if missing(err) || err == nil && !removed {
		err = noBranch(name)
	}
	return map[string]any{"Unit": nil}, err
}

// branchDiff compares two branches.
type branchDiff struct {
	A text `json:"branch_a"`
	B text `json:"branch_b"`
	// Cursor is a space and a key after which the comparison continues.
	Cursor *[2]text `json:"cursor"`
	Limit  *uint64  `json:"limit"`
}

// A changedKey is a key with different values in two branches.
type changedKey struct {
	Space string `json:"space"`
	Key   string `json:"key"`
	A     *shown `json:"value_a,omitempty"`
	B     *shown `json:"value_b,omitempty"`
}

func (in *branchDiff) run(c *call) (any, error) {
	if err := c.apart("BranchDiff"); err != nil {
		return nil, err
	}
	a, err := in.A.required("branch_a")
	if err != nil {
		return nil, err
	}
	b, err := in.B.required("branch_b")
	if err != nil {
		return nil, err
	}
	limit, err := bounded("limit", in.Limit, defaultPage, maxPage)
	if err != nil {
		return nil, err
	}
	out := struct {
		A        string       `json:"branch_a"`
		B        string       `json:"branch_b"`
		Added    []changedKey `json:"added"` // only in the second
		Removed  []changedKey `json:"removed"`
		Modified []changedKey `json:"modified"`
		Cursor   *[2]string   `json:"cursor,omitempty"`
	}{a, b, []changedKey{}, []changedKey{}, []changedKey{}, nil}
	var of kv.Selection
	if in.Cursor != nil {
		of.Start = kv.Key{string(in.Cursor[0]), string(in.Cursor[1]), after}
	}
	n, size, last := 0, 0, [2]string{}
	for d, err := range c.store.Diff(c.ctx, kv.Point{Branch: stored(a)}, kv.Point{Branch: stored(b)}, of) {
		if err != nil {
			return nil, err
		}
		space, key, is := names(d.Key)
		if !is {
			continue
		}
		if n == limit || size > pageBytes {
			out.Cursor = &last
			break
		}
		n, last = n+1, [2]string{space, key}
		k := changedKey{space, key, shownOf(d.From), shownOf(d.To)}
		size += bytesOf(d.From) + bytesOf(d.To)
		switch {
		case k.A == nil:
			out.Added = append(out.Added, k)
		case k.B == nil:
			out.Removed = append(out.Removed, k)
		default:
			out.Modified = append(out.Modified, k)
		}
	}
	return map[string]any{"BranchDiff": out}, nil
}

func shownOf(e *kv.Entry) *shown {
	if e == nil {
		return nil
	}
	return (*shown)(&e.Value)
}

func bytesOf(e *kv.Entry) int {
	if e == nil {
		return 0
	}
	return len(e.Value.Data)
}

// branchMerge applies the changes of one branch to another.
type branchMerge struct {
	Source   text `json:"source"`
	Target   text `json:"target"`
	Strategy text `json:"strategy"`
}

var strategies = map[text]kv.Strategy{"Strict": kv.Strict, "LastWriterWins": kv.Theirs, "Ours": kv.Ours}

func (in *branchMerge) run(c *call) (any, error) {
	if err := c.apart("BranchMerge"); err != nil {
		return nil, err
	}
	source, err := in.Source.required("source")
	if err != nil {
		return nil, err
	}
	target, err := in.Target.required("target")
	if err != nil {
		return nil, err
	}
	strategy, known := strategies[in.Strategy]
	if !known {
		return nil, invalid("strategy", "is %.40q; it is Strict, LastWriterWins or Ours", in.Strategy)
	}
	merged, err := c.store.Merge(c.ctx,
		kv.MergeConfig{Source: kv.Point{Branch: stored(source)}, Target: stored(target), Strategy: strategy})
	if err != nil {
		if missing(err) { // there is no actor
			err = noBranch(source)
		}
		return nil, err
	}
	type conflict struct {
		Space  string `json:"space"`
		Key    string `json:"key"`
		Base   *shown `json:"base_value,omitempty"`
		Source *shown `json:"source_value,omitempty"`
		Target *shown `json:"target_value,omitempty"`
	}
	out := struct {
		Source    string     `json:"source"`
		Target    string     `json:"target"`
		Applied   int64      `json:"keys_applied"`
		Deleted   int64      `json:"keys_deleted"`
		Version   *uint64    `json:"merge_version"` // null if nothing was merged
		Conflicts []conflict `json:"conflicts"`
		Total     int64      `json:"total_conflicts"`
	}{source, target, merged.Put, merged.Deleted, nil, []conflict{}, merged.Conflicted}
	if merged.OK && merged.Version != 0 {
		out.Version = &merged.Version
	}
	for _, at := range merged.Conflicts {
		if space, key, is := names(at.Key); is {
			out.Conflicts = append(out.Conflicts,
				conflict{space, key, shownOf(at.Base), shownOf(at.Source), shownOf(at.Target)})
		}
	}
	return map[string]any{"BranchMerged": out}, nil
}
