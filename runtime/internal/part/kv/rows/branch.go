package kvrows

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// mainBranch is the store itself. It has a row only for merges from it, and while its versions are
// swept.
const mainBranch = 1

// A Branch has the entries of another branch at a version, and its own changes of them.
type Branch struct {
	ID uint64
	branchRecord
}

type branchRecord struct {
	_    struct{} `cbor:",toarray"`
	Name string
	// From is the branch that it was forked from, with its state at Version.
	From, Version uint64
	// Created is when, in Unix milliseconds.
	Created  int64
	ReadOnly bool
	// Removed: its entries are being removed.
	Removed bool
	// Sweeping: its versions are searched, from Swept on, for versions that no reader may read.
	Sweeping bool
	Swept    []byte
	// Merged has the last merge of everything into each other branch.
	Merged []merged
	// Again: versions behind the search may have become unneeded.
	Again bool
	// Parts has later merges of some of its keys into other branches, from the oldest to the
	// newest.
	Parts []mergedPart
	// SweepAt is when a search begins, in Unix milliseconds.
	SweepAt int64
	// Contained has merges into the branch by versions that are not kept, because of later merges.
	Contained []mergedPart
	// Unknown has, for each other branch, which merges into it are forgotten.
	Unknown []forgotten
}

// merged records that everything in the branch at a version is in another branch.
type merged struct {
	_       struct{} `cbor:",toarray"`
	Into    uint64
	Version uint64
	Time    int64
}

// mergedPart records the same for the packed keys from Start to End; an empty End is the end of the
// store.
type mergedPart struct {
	_          struct{} `cbor:",toarray"`
	Into       uint64
	Version    uint64
	Time       int64
	Start, End []byte
}

// forgotten records that merges into a branch are forgotten. All of them were made from First on
// and overtaken by Until.
type forgotten struct {
	_                  struct{} `cbor:",toarray"`
	Into, First, Until uint64
}

// within reports whether a range has all of the part.
func (m *mergedPart) within(r Range) bool {
	return bytes.Compare(r.Start, m.Start) <= 0 &&
		(len(r.End) == 0 || len(m.End) > 0 && bytes.Compare(m.End, r.End) <= 0)
}

// whole reports whether the part is everything.
func (m *mergedPart) whole() bool { return len(m.Start)+len(m.End) == 0 }

// A BranchError is about a name that no branch has.
type BranchError struct{ Name string }

// Error has the name.
func (e *BranchError) Error() string { return fmt.Sprintf("there is no branch %.80q", e.Name) }

// first is the version at which the branch begins.
func (b *Branch) first() engine.Version { return engine.Version(b.Version) }

// branchOf returns the branch of an entry's key.
func branchOf(key []byte) uint64 {
	if keyspace.UserKV.Has(key) {
		return mainBranch
	}
	id, _, _ := keyspace.KVBranchEntry.Parse(key)
	return id
}

// userKey returns the packed key of an entry's row, in any branch.
func userKey(row []byte) []byte {
	if keyspace.UserKV.Has(row) {
		return row[1:]
	}
	_, packed, _ := keyspace.KVBranchEntry.Parse(row)
	return packed
}

// rowOf returns the key of an entry of a branch.
func rowOf(branch uint64, packed []byte) []byte {
	if branch == mainBranch {
		return keyspace.UserKV.Append(nil, packed)
	}
	return keyspace.KVBranchEntry.Append(nil, branch, packed)
}

// rowsOf returns the bounds of the rows of a branch for bounds of user keys.
func rowsOf(branch uint64, start, end []byte) (from, to []byte) {
	if branch == mainBranch {
		return start, end
	}
	from = rowOf(branch, start[1:])
	if keyspace.UserKV.Has(end) {
		return from, rowOf(branch, end[1:])
	}
	return from, keyspace.TupleEnd(rowOf(branch, nil))
}

// Branches lists the branches in the order of their names.
func Branches(rows engine.Reader) ([]*Branch, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(known.branches, func(b *Branch) bool { return b.ID == mainBranch || b.Removed })
	slices.SortFunc(list, func(a, b *Branch) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// survey reads the scopes, pins and branches of an actor.
func survey(rows engine.Reader) (known *Scopes, err error) {
	known = new(Scopes)
	if known.list, err = briefScopes(rows); err != nil {
		return nil, err
	}
	known.pins, known.branches, err = readPins(rows)
	return known, err
}

// readPins returns pins and branches, for which versions are kept, in the order of their numbers.
func readPins(rows engine.Reader) (pins []pin, list []*Branch, err error) {
	if pins, err = timedPins(rows); err != nil {
		return nil, nil, err
	}
	var q engine.ListQuery
	q.Start, q.End = keyspace.KVBranch.Range()
	each(rows, q, func(e *engine.Entry, eerr error) bool {
		b := new(Branch)
		if err = eerr; err == nil {
			b.ID, err = keyspace.KVBranch.Parse(e.Key)
		}
		if err == nil {
			err = record.Decode(e.Value, &b.branchRecord)
		}
		list = append(list, b)
		return err == nil
	})
	if err != nil {
		return nil, nil, err
	}
	lives := func(id uint64) bool {
		return id == mainBranch || slices.ContainsFunc(list, func(b *Branch) bool { return b.ID == id && !b.Removed })
	}
	for _, b := range list {
		if b.Removed {
			continue
		}
		if b.ID != mainBranch {
			pins = append(pins,
				pin{version: b.first(), branch: b.From, forever: true, pinRecord: pinRecord{Time: b.Created}})
		}
		for _, m := range b.Merged {
			if lives(m.Into) {
				pins = append(pins,
					pin{version: engine.Version(m.Version), branch: b.ID, forever: true,
						pinRecord: pinRecord{Time: m.Time}})
			}
		}
		for i, m := range b.Parts { // the parts of one merge follow each other
			if lives(m.Into) && (i == 0 || b.Parts[i-1].Version != m.Version || b.Parts[i-1].Into != m.Into) {
				pins = append(pins,
					pin{version: engine.Version(m.Version), branch: b.ID, forever: true,
						pinRecord: pinRecord{Time: m.Time}})
			}
		}
	}
	return pins, list, nil
}

// pinned reports whether versions of a branch are kept for readers.
func (s *Scopes) pinned(branch uint64) bool {
	return slices.ContainsFunc(s.pins, func(p pin) bool { return p.branch == 0 || p.branch == branch })
}

// branch returns a branch by its number. The store itself needs no row.
func (s *Scopes) branch(id uint64) *Branch {
	for _, b := range s.branches {
		if b.ID == id {
			return b
		}
	}
	return &Branch{ID: id}
}

// named returns a branch by its name; "" is the store itself.
func (s *Scopes) named(name string) (*Branch, error) {
	if name == "" {
		return s.branch(mainBranch), nil
	}
	for _, b := range s.branches {
		if b.Name == name && !b.Removed && b.ID != mainBranch {
			return b, nil
		}
	}
	return nil, &BranchError{name}
}

// RowIn returns the key of an entry of a branch. The error may be a *BranchError.
func RowIn(rows engine.Reader, branch string, packed []byte) ([]byte, error) {
	if branch == "" {
		return rowOf(mainBranch, packed), nil
	}
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	b, err := known.named(branch)
	if err != nil {
		return nil, err
	}
	return rowOf(b.ID, packed), nil
}

// NameOf returns the name of the branch with a number.
func NameOf(list []*Branch, id uint64) string { return (&Scopes{branches: list}).branch(id).Name }

// writeBranch stores the record of a branch.
func (s *Store) writeBranch(b *Branch) error {
	data, err := record.Encode(&b.branchRecord)
	if err != nil {
		return err
	}
	s.scopes.forget(s.Version())
	return s.WriteSet.Put(keyspace.KVBranch.Append(nil, b.ID), data, engine.PutOptions{Exempt: true})
}

// Fork makes a branch from the state of another one. The error may be a *BranchError.
func (s *Store) Fork(name, from string, readOnly bool) (*Branch, error) {
	if n := len(name); n == 0 || n > hostkv.MaxBranchName || !utf8.ValidString(name) {
		return nil, host.Errorf(host.InvalidArgument,
			"the name of a branch is UTF-8 of 1 to %d bytes", hostkv.MaxBranchName).With("field", "branch")
	}
	if err := s.load(); err != nil {
		return nil, err
	}
	origin, err := s.scopes.named(from)
	if err != nil {
		return nil, err
	}
	if _, err := s.scopes.named(name); err == nil {
		return nil, host.Errorf(host.AlreadyExists, "there is a branch %.80q already", name).With("field", "branch")
	}
	b := &Branch{ID: mainBranch + 1, branchRecord: branchRecord{
		Name: name, From: origin.ID, Version: uint64(s.Version()), Created: s.Time(), ReadOnly: readOnly,
	}}
	living := 1
	for _, other := range s.scopes.branches {
		b.ID = max(b.ID, other.ID+1)
		if !other.Removed && other.ID != mainBranch {
			living++
		}
	}
	if living > hostkv.MaxBranches {
		return nil, host.OverLimit("branches", hostkv.MaxBranches, int64(living))
	}
	depth := 1
	for at := origin; at.ID != mainBranch; at = s.scopes.branch(at.From) {
		depth++
	}
	if depth > hostkv.MaxForks {
		return nil, host.OverLimit("branches of branches", hostkv.MaxForks, int64(depth)).With("field", "from")
	}
	s.Mark()
	return b, s.writeBranch(b)
}

// RemoveBranch removes a branch that no other one was forked from. Its entries are removed in
// slices, with the next purges. The error may be a *BranchError.
func (s *Store) RemoveBranch(name string) error {
	if err := s.load(); err != nil {
		return err
	}
	b, err := s.scopes.named(name)
	if err != nil {
		return err
	}
	for _, other := range s.scopes.branches {
		if other.From == b.ID && !other.Removed && other.ID != mainBranch {
			return host.Errorf(host.FailedPrecondition, "the branch %.80q was forked from it",
				other.Name).With("reason", "branch_has_forks").With("branch", other.Name)
		}
	}
	gone := *b
	gone.Removed, gone.Sweeping, gone.Swept = true, false, nil
	known := s.scopes.with(&gone)
	if origin := known.branch(b.From); !slices.Contains(known.branches, origin) {
		known.branches = append(known.branches, origin)
	}
	if err := s.writeBranch(&gone); err != nil {
		return err
	}
	for _, other := range known.branches { // which may have kept something for it
		left := *other
		if forgot := known.forgetMerges(&left); forgot || other.ID == b.From {
			if err := s.sweepFrom(&left, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergesRest is how long versions that merges no longer need are left alone: one search serves all
// merges of that time.
const mergesRest = time.Hour

// sweepFrom schedules a search of a branch, within a time, for versions that no reader may read any
// longer.
func (s *Store) sweepFrom(b *Branch, within time.Duration) error {
	if b.Removed {
		return nil
	}
	from, at := *b, s.Now()+within.Milliseconds()
	switch {
	case !b.Sweeping:
		from.Sweeping, from.SweepAt = true, at
	case b.SweepAt > s.Now(): // it has not begun
		from.SweepAt = min(b.SweepAt, at)
	default:
		from.Again = true
	}
	if err := s.writeBranch(&from); err != nil {
		return err
	}
	return s.arm(max(from.SweepAt, s.Now()), promptly)
}
