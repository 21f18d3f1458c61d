package kvrows

import (
	"bytes"
	"iter"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// A State is what a branch has of a key; nil is nothing.
type State = *engine.Entry

// Same reports whether two states are the same value that expires at the same time.
func Same(a, b State) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Encoding == b.Encoding && a.Expire == b.Expire && bytes.Equal(a.Value, b.Value)
}

// StateOf returns what a branch has of a packed key.
func StateOf(r engine.Reader, key []byte) (State, error) {
	e, there, err := r.Get(keyspace.UserKV.Append(nil, key))
	if err != nil || !there {
		return nil, err
	}
	return &e, nil
}

// A Conflict is a key that two branches have changed in different ways.
type Conflict struct {
	Key                  []byte // packed
	Base, Source, Target State
}

// A Merge is what a merge would do.
type Merge struct {
	Mutations []Mutation
	Conflicts []Conflict // up to hostkv.DefaultPage
	// Conflicted counts all of them.
	Conflicted int64
}

// A Strategy decides which state an entry has that two branches have changed.
type Strategy uint8

// The strategies: neither, that of the source, that of the target.
const (
	Strict Strategy = iota
	Theirs
	Ours
)

// Plan compares keys of three states, and returns what brings the changes from base to source into target.
func Plan(base, source, target engine.Reader, keys iter.Seq2[[]byte, error], strategy Strategy) (m Merge, err error) {
	var done work
	compared := 0
	for key, err := range keys {
		if err != nil {
			return m, err
		}
		if compared++; compared > hostkv.MaxMerged {
			return m, host.OverLimit("entries that one merge compares", hostkv.MaxMerged, int64(compared)).With("field", "prefix")
		}
		var states [3]State
		for i, r := range []engine.Reader{base, source, target} {
			if states[i], err = StateOf(r, key); err != nil {
				return m, err
			}
			if states[i] != nil {
				if err := done.read(states[i]); err != nil {
					return m, err
				}
			}
		}
		was, theirs, ours := states[0], states[1], states[2]
		if Same(was, theirs) || Same(theirs, ours) {
			continue
		}
		if !Same(was, ours) {
			if m.Conflicted++; len(m.Conflicts) < hostkv.DefaultPage {
				m.Conflicts = append(m.Conflicts, Conflict{key, was, theirs, ours})
			}
			if strategy != Theirs {
				continue
			}
		}
		if theirs == nil {
			m.Mutations = append(m.Mutations, Mutation{Op: Delete, Key: key})
			continue
		}
		m.Mutations = append(m.Mutations, Mutation{Op: Put, Key: key, Value: value.Value{Encoding: encoding(theirs), Data: theirs.Value}, Expiry: Expiry{At: theirs.Expire, Set: true}})
	}
	if strategy == Strict && m.Conflicted > 0 {
		m.Mutations = nil
	}
	return m, nil
}

// Base returns what two views began as: where one was forked from the other, or both from a third, or what the last merge
// between them had.
func Base(rows engine.Reader, source, target *View, now engine.Version, nowMS int64) (*View, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	i, j := common(source, target)
	from, at := known.branch(source.lines[i].branch), min(source.lines[i].version, target.lines[j].version)
	for _, pair := range [][2]*View{{source, target}, {target, source}} {
		for _, p := range pair[0].lines {
			for _, q := range pair[1].lines {
				b := known.branch(p.branch)
				for _, m := range b.Merged {
					if v := engine.Version(m.Version); m.Into == q.branch && v >= at && v <= p.version && v <= q.version {
						from, at = b, v
					}
				}
			}
		}
	}
	return look(rows, known, from, at, now, nowMS).Without(nowMS), nil
}

// Without returns the view without what has expired by a time.
func (v *View) Without(ms int64) *View {
	for _, p := range v.lines {
		p.time = ms
	}
	return v
}

// NoteMerge notes that all that one branch had at a version is in another one.
func (s *Store) NoteMerge(source, target string, version engine.Version) error {
	if err := s.load(); err != nil {
		return err
	}
	a, err := s.scopes.named(source)
	if err != nil {
		return err
	}
	b, err := s.scopes.named(target)
	if err != nil {
		return err
	}
	into := func(id uint64) func(merged) bool { return func(m merged) bool { return m.Into == id } }
	from, to := *a, *b
	from.Merged = append(slices.DeleteFunc(slices.Clone(a.Merged), into(b.ID)), merged{Into: b.ID, Version: uint64(version), Time: s.Now()})
	to.Merged = slices.DeleteFunc(slices.Clone(b.Merged), into(a.ID))
	if len(to.Merged) < len(b.Merged) {
		if err := s.sweepFrom(&to); err != nil {
			return err
		}
	}
	if len(from.Merged) == len(a.Merged) {
		return s.sweepFrom(&from)
	}
	return s.writeBranch(&from)
}

// Moment is the version of the view.
func (v *View) Moment() engine.Version { return v.lines[0].version }
