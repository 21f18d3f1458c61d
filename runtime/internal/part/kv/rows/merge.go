package kvrows

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// A State is the entry of a key in a branch; nil is none.
type State = *engine.Entry

// Same reports whether two states have the same value that expires at the same time.
func Same(a, b State) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Encoding == b.Encoding && a.Expire == b.Expire && bytes.Equal(a.Value, b.Value)
}

// StateOf returns the state of a packed key.
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

// A Merge is the result of a merge that was not done yet.
type Merge struct {
	Mutations []Mutation
	Conflicts []Conflict // up to hostkv.DefaultPage
	// Conflicted counts all of them.
	Conflicted int64
}

// A Strategy decides the state of an entry that two branches have changed.
type Strategy uint8

// The strategies: neither, that of the source, that of the target.
const (
	Strict Strategy = iota
	Theirs
	Ours
)

// Plan compares keys of three states, and returns the mutations that bring the changes from base to
// source into target. base has the packed key.
func Plan(base func(key []byte) engine.Reader, source, target engine.Reader,
	keys iter.Seq2[[]byte, error], strategy Strategy) (m Merge, err error) {
	var done work
	compared := 0
	for key, err := range keys {
		if err != nil {
			return m, err
		}
		if compared++; compared > hostkv.MaxMerged {
			return m, host.OverLimit("entries that one merge compares", hostkv.MaxMerged,
				int64(compared)).With("field", "prefix")
		}
		var states [3]State
		for i, r := range []engine.Reader{base(key), source, target} {
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
		m.Mutations = append(m.Mutations,
			Mutation{Op: Put, Key: key,
				Value: value.Value{Encoding: encoding(theirs),
					Data: theirs.Value}, Expiry: Expiry{At: theirs.Expire, Set: true}})
	}
	if strategy == Strict && m.Conflicted > 0 {
		m.Mutations = nil
	}
	return m, nil
}

// A Common is the common base of two branches, which is not the same for all keys.
type Common struct {
	*View
	parts []commonPart // a later one holds before those before it
}

// commonPart is the base of the keys from start to end.
type commonPart struct {
	*View
	start, end []byte
}

// Base returns the common base of two views: where one was forked from the other, or both from a
// third, or the state of the last merge between them, of everything or of a part.
func Base(rows engine.Reader, source, target *View, now engine.Version, nowMS int64) (*Common, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	i, j := common(source, target)
	from, at := known.branch(source.lines[i].branch), min(source.lines[i].version, target.lines[j].version)
	between := func(visit func(b *Branch, p, q *Past)) {
		// The source comes last: of two states of one version, its state is used.
		for _, pair := range [][2]*View{{target, source}, {source, target}} {
			for _, p := range pair[0].lines {
				for _, q := range pair[1].lines {
					visit(known.branch(p.branch), p, q)
				}
			}
		}
	}
	// In q, p is as it was when it was merged into q last, or all of p, if p is older.
	has := func(m *mergedPart, p, q *Past) (engine.Version, bool) {
		v := min(engine.Version(m.Version), p.version)
		return v, m.Into == q.branch && engine.Version(m.Version) <= q.version && v >= at
	}
	between(func(b *Branch, p, q *Past) {
		for m := range b.mergesFor(p.version) {
			if v, is := has(m, p, q); is && m.whole() {
				from, at = b, v
			}
		}
	})
	then := source.lines[0]
	between(func(b *Branch, p, q *Past) {
		for _, f := range b.Unknown {
			if f.Into == q.branch && (p == then || q == then) &&
				f.First <= uint64(q.version) && uint64(then.version) < f.Until && then.version > at {
				err = &TrimmedError{Requested: then.version, Earliest: engine.Version(f.Until)}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	c := &Common{View: look(rows, known, from, at, now, nowMS).Without(nowMS)}
	between(func(b *Branch, p, q *Past) {
		for m := range b.mergesFor(p.version) {
			if v, is := has(m, p, q); is && !m.whole() {
				part := commonPart{View: look(rows, known, b, v, now, nowMS).Without(nowMS)}
				part.start, part.end = Bounds(m.Start, m.End)
				c.parts = append(c.parts, part)
			}
		}
	})
	slices.SortStableFunc(c.parts, func(a, b commonPart) int { return cmp.Compare(a.Moment(), b.Moment()) })
	return c, nil
}

// Of returns the view with the base of a packed key.
func (c *Common) Of(packed []byte) *View {
	key := keyspace.UserKV.Append(nil, packed)
	for _, part := range slices.Backward(c.parts) {
		if bytes.Compare(part.start, key) <= 0 && bytes.Compare(key, part.end) < 0 {
			return part.View
		}
	}
	return c.View
}

// Differing is Differing of a base and a view. It fails if it passes more than a number of entries
// that both share.
func (c *Common) Differing(v *View, start, end []byte, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		n := 0
		c.differing(len(c.parts), v, start, end, func() (bool, error) {
			if n++; n > most {
				return false,
					host.OverLimit("unchanged entries that one merge reads", int64(most), int64(n)).
						With("field", "prefix")
			}
			return false, nil
		}, yield)
	}
}

// differing is Differing with only so many of the parts. It reports whether yield wants to go on.
func (c *Common) differing(parts int, v *View, start, end []byte, pass func() (bool, error),
	yield func([]byte, error) bool) bool {
	if bytes.Compare(start, end) >= 0 {
		return true
	}
	if parts == 0 {
		return handOn(Differing(c.View, v, start, end, pass), yield)
	}
	part := &c.parts[parts-1]
	first, last := part.start, part.end
	if bytes.Compare(first, start) < 0 {
		first = start
	}
	if bytes.Compare(last, end) > 0 {
		last = end
	}
	if bytes.Compare(first, last) >= 0 {
		return c.differing(parts-1, v, start, end, pass, yield)
	}
	return c.differing(parts-1, v, start, first, pass, yield) &&
		handOn(Differing(part.View, v, first, last, pass), yield) &&
		c.differing(parts-1, v, last, end, pass, yield)
}

func handOn(keys iter.Seq2[[]byte, error], yield func([]byte, error) bool) bool {
	for key, err := range keys {
		if !yield(key, err) {
			return false
		}
	}
	return true
}

// Without returns the view without entries that have expired by a time.
func (v *View) Without(ms int64) *View {
	for _, p := range v.lines {
		p.time, p.vague = ms, 0
	}
	return v
}

// A Range is of packed keys; a nil End is the end of the store.
type Range struct{ Start, End []byte }

// NoteMerge records that the state of one branch at a version is in another one: all of it, if
// parts is nil, or the keys in parts. Parts before the last hostkv.MaxParts count as not merged.
func (s *Store) NoteMerge(source, target string, version engine.Version, parts []Range) error {
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
	from, to := *a, *b
	if parts == nil {
		from.Merged = append(slices.Clone(a.Merged), merged{Into: b.ID, Version: uint64(version), Time: s.Now()})
	}
	from.Parts = slices.Clone(a.Parts)
	cut := max(0, len(parts)-hostkv.MaxParts)
	for _, r := range parts[cut:] {
		from.Parts = append(from.Parts,
			mergedPart{Into: b.ID, Version: uint64(version), Time: s.Now(), Start: r.Start, End: r.End})
	}
	known := s.scopes.with(&from, &to)
	replaced, back := known.forgetMerges(&from), known.forgetMerges(&to)
	if cut > 0 {
		from.forget(&mergedPart{Into: b.ID, Version: uint64(version)}, uint64(version))
	}
	if n := len(from.Parts) - hostkv.MaxParts; n > 0 {
		for i := range n {
			from.forget(&from.Parts[i], uint64(version))
		}
		from.Parts, replaced = from.Parts[n:], true
	}
	if back {
		if err := s.sweepFrom(&to, mergesRest); err != nil {
			return err
		}
	}
	if replaced {
		return s.sweepFrom(&from, mergesRest)
	}
	return s.writeBranch(&from)
}

// with returns the scopes with branches in place of those with their numbers.
func (s *Scopes) with(branches ...*Branch) *Scopes {
	known := &Scopes{branches: slices.Clone(branches)}
	for _, b := range s.branches {
		if !slices.ContainsFunc(branches, func(c *Branch) bool { return c.ID == b.ID }) {
			known.branches = append(known.branches, b)
		}
	}
	return known
}

// merges ranges over the merges of a branch into others whose versions are kept.
func (b *Branch) merges(yield func(*mergedPart) bool) {
	for _, m := range b.Merged {
		if !yield(&mergedPart{Into: m.Into, Version: m.Version}) {
			return
		}
	}
	for i := range b.Parts {
		if !yield(&b.Parts[i]) {
			return
		}
	}
}

// mergesFor ranges over the merges that count for a version of the branch. A merge whose own
// version is not kept counts for an older one, all of which was merged.
func (b *Branch) mergesFor(version engine.Version) iter.Seq[*mergedPart] {
	return func(yield func(*mergedPart) bool) {
		for i := range b.Contained {
			if m := &b.Contained[i]; engine.Version(m.Version) >= version && !yield(m) {
				return
			}
		}
		b.merges(yield)
	}
}

// forgetMerges drops the merges of a branch that nothing compares with any longer. It reports
// whether there were some.
func (s *Scopes) forgetMerges(b *Branch) bool {
	was := *b
	b.Contained, b.Unknown = slices.Clone(was.Contained), slices.Clone(was.Unknown)
	b.Merged = slices.DeleteFunc(slices.Clone(was.Merged), func(m merged) bool {
		return s.overtaken(&was, b, &mergedPart{Into: m.Into, Version: m.Version, Time: m.Time})
	})
	b.Parts = slices.DeleteFunc(slices.Clone(was.Parts), func(m mergedPart) bool { return s.overtaken(&was, b, &m) })
	s.thin(b)
	return len(b.Merged)+len(b.Parts) < len(was.Merged)+len(was.Parts) ||
		len(b.Contained) < len(was.Contained) || len(b.Unknown) < len(was.Unknown)
}

// overtaken reports whether a later merge between the same branches covers all of a part, and no
// branch was forked from one of them in between, which has only the earlier one. It records in left
// what still counts of the part.
func (s *Scopes) overtaken(b, left *Branch, m *mergedPart) bool {
	into, until := s.branch(m.Into), uint64(0)
	if into.Removed {
		return true
	}
	for _, pair := range [][2]*Branch{{b, into}, {into, b}} {
		for l := range pair[0].merges {
			if l.Into == pair[1].ID && l.Version > m.Version && (until == 0 || l.Version < until) && m.within(Range{l.Start, l.End}) {
				until = l.Version
			}
		}
	}
	if until == 0 || s.forkedFrom(b.ID, m.Version, until) || s.forkedFrom(into.ID, m.Version, until) {
		return false
	}
	left.Contained = append(left.Contained, *m)
	left.forget(m, until)
	return true
}

// forkedFrom reports whether a branch was forked from one with a number between two versions.
func (s *Scopes) forkedFrom(id, from, until uint64) bool {
	return slices.ContainsFunc(s.branches, func(f *Branch) bool {
		return f.ID != mainBranch && !f.Removed && f.From == id && from <= f.Version && f.Version < until
	})
}

// forget records that the version of a merge is no longer known, although versions before until may
// need it.
func (b *Branch) forget(m *mergedPart, until uint64) {
	i := slices.IndexFunc(b.Unknown, func(f forgotten) bool { return f.Into == m.Into })
	if i < 0 {
		i, b.Unknown = len(b.Unknown), append(b.Unknown, forgotten{Into: m.Into, First: m.Version})
	}
	f := &b.Unknown[i]
	f.First, f.Until = min(f.First, m.Version), max(f.Until, until)
}

// thin drops parts of Contained that a later merge covers too, for every branch that was forked
// from them; and the oldest parts, if there are too many.
func (s *Scopes) thin(b *Branch) {
	gone := func(id uint64) bool { return s.branch(id).Removed }
	b.Unknown = slices.DeleteFunc(b.Unknown, func(f forgotten) bool { return gone(f.Into) })
	all := slices.Clone(b.Contained)
	for m := range b.merges {
		all = append(all, *m)
	}
	parts := 0
	b.Contained = slices.DeleteFunc(b.Contained, func(c mergedPart) bool {
		return gone(c.Into) || slices.ContainsFunc(all, func(l mergedPart) bool {
			return l.Into == c.Into && l.Version > c.Version && c.within(Range{l.Start, l.End}) &&
				!s.forkedFrom(c.Into, c.Version, l.Version)
		})
	})
	slices.SortStableFunc(b.Contained, func(a, b mergedPart) int { return cmp.Compare(b.Version, a.Version) })
	b.Contained = slices.DeleteFunc(b.Contained, func(c mergedPart) bool {
		if !c.whole() {
			parts++
		}
		return !c.whole() && parts > hostkv.MaxParts
	})
}

// Moment is the version of the view.
func (v *View) Moment() engine.Version { return v.lines[0].version }
