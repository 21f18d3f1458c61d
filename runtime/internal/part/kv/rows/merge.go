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

// Plan compares keys of three states, and returns what brings the changes from base to source into
// target. base has the packed key.
func Plan(base func(key []byte) engine.Reader, source, target engine.Reader, keys iter.Seq2[[]byte, error], strategy Strategy) (m Merge, err error) {
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
		m.Mutations = append(m.Mutations, Mutation{Op: Put, Key: key, Value: value.Value{Encoding: encoding(theirs), Data: theirs.Value}, Expiry: Expiry{At: theirs.Expire, Set: true}})
	}
	if strategy == Strict && m.Conflicted > 0 {
		m.Mutations = nil
	}
	return m, nil
}

// A Common is what two branches began as, which is not the same for all keys.
type Common struct {
	*View
	parts []commonPart // a later one holds before those before it
}

// commonPart is what they began as of the keys from start to end.
type commonPart struct {
	*View
	start, end []byte
}

// Base returns what two views began as: where one was forked from the other, or both from a third,
// or what the last merge between them had, of everything or of a part.
func Base(rows engine.Reader, source, target *View, now engine.Version, nowMS int64) (*Common, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	i, j := common(source, target)
	from, at := known.branch(source.lines[i].branch), min(source.lines[i].version, target.lines[j].version)
	between := func(visit func(b *Branch, p, q *Past)) {
		for _, pair := range [][2]*View{{source, target}, {target, source}} {
			for _, p := range pair[0].lines {
				for _, q := range pair[1].lines {
					visit(known.branch(p.branch), p, q)
				}
			}
		}
	}
	// What q has of p is what p was when it was merged into q last, or all, if p is older.
	has := func(p, q *Past, into, version uint64) (engine.Version, bool) {
		v := min(engine.Version(version), p.version)
		return v, into == q.branch && engine.Version(version) <= q.version && v >= at
	}
	between(func(b *Branch, p, q *Past) {
		for _, m := range b.Merged {
			if v, is := has(p, q, m.Into, m.Version); is {
				from, at = b, v
			}
		}
		for _, o := range b.Overtaken {
			if v, is := has(p, q, o.Into, o.Whole); is && uint64(p.version) <= o.Whole {
				from, at = b, v
			}
		}
	})
	then := source.lines[0]
	between(func(b *Branch, p, q *Past) {
		for _, o := range b.Overtaken {
			if o.Into == q.branch && (p == then || q == then) && o.First <= uint64(q.version) && uint64(then.version) < o.Until && then.version > at {
				err = &TrimmedError{Requested: then.version, Earliest: engine.Version(o.Until)}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	c := &Common{View: look(rows, known, from, at, now, nowMS).Without(nowMS)}
	between(func(b *Branch, p, q *Past) {
		for _, m := range b.Parts {
			if v, is := has(p, q, m.Into, m.Version); is && (p == then || uint64(v) == m.Version) {
				part := commonPart{View: look(rows, known, b, v, now, nowMS).Without(nowMS)}
				part.start, part.end = Bounds(m.Start, m.End)
				c.parts = append(c.parts, part)
			}
		}
	})
	slices.SortStableFunc(c.parts, func(a, b commonPart) int { return cmp.Compare(a.Moment(), b.Moment()) })
	return c, nil
}

// Of returns the view that has what a packed key began as.
func (c *Common) Of(packed []byte) *View {
	key := keyspace.UserKV.Append(nil, packed)
	for _, part := range slices.Backward(c.parts) {
		if bytes.Compare(part.start, key) <= 0 && bytes.Compare(key, part.end) < 0 {
			return part.View
		}
	}
	return c.View
}

// Differing is Differing of what a view began as, and the view. It fails if it passes more than a
// number of entries that both share.
func (c *Common) Differing(v *View, start, end []byte, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		n := 0
		c.differing(len(c.parts), v, start, end, func() (bool, error) {
			if n++; n > most {
				return false, host.OverLimit("unchanged entries that one merge reads", int64(most), int64(n)).With("field", "prefix")
			}
			return false, nil
		}, yield)
	}
}

// differing is Differing with only so many of the parts. It reports whether yield wants to go on.
func (c *Common) differing(parts int, v *View, start, end []byte, pass func() (bool, error), yield func([]byte, error) bool) bool {
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
	return c.differing(parts-1, v, start, first, pass, yield) && handOn(Differing(part.View, v, first, last, pass), yield) &&
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

// Without returns the view without what has expired by a time.
func (v *View) Without(ms int64) *View {
	for _, p := range v.lines {
		p.time = ms
	}
	return v
}

// A Range is of packed keys; a nil End is that of the store.
type Range struct{ Start, End []byte }

// NoteMerge notes that what one branch had at a version is in another one: all of it, if parts is
// nil, or the keys in parts. Of parts before the last hostkv.MaxParts it is as if they had not been
// merged.
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
	for _, r := range parts[max(0, len(parts)-hostkv.MaxParts):] {
		from.Parts = append(from.Parts, mergedPart{Into: b.ID, Version: uint64(version), Time: s.Now(), Start: r.Start, End: r.End})
	}
	known := s.scopes.with(&from, &to)
	replaced, back := known.forgetMerges(&from), known.forgetMerges(&to)
	if n := len(from.Parts) - hostkv.MaxParts; n > 0 {
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

// forgetMerges drops the merges of a branch that none compares with any longer. It reports whether
// there were some.
func (s *Scopes) forgetMerges(b *Branch) bool {
	was := *b
	b.Overtaken = slices.DeleteFunc(slices.Clone(was.Overtaken), func(o overtaken) bool { return s.branch(o.Into).Removed })
	b.Merged = slices.DeleteFunc(slices.Clone(was.Merged), func(m merged) bool {
		part := mergedPart{Into: m.Into, Version: m.Version}
		until, is := s.overtaken(&was, &part)
		if is {
			b.overtake(&part, until, m.Version)
		}
		return is
	})
	b.Parts = slices.DeleteFunc(slices.Clone(was.Parts), func(m mergedPart) bool {
		until, is := s.overtaken(&was, &m)
		if is {
			b.overtake(&m, until, 0)
		}
		return is
	})
	return len(b.Merged)+len(b.Parts) < len(was.Merged)+len(was.Parts) || len(b.Overtaken) < len(was.Overtaken)
}

// overtake notes a merge that is dropped for a later one; no later one: the other branch is
// removed.
func (b *Branch) overtake(m *mergedPart, until, whole uint64) {
	if until == 0 {
		return
	}
	i := slices.IndexFunc(b.Overtaken, func(o overtaken) bool { return o.Into == m.Into })
	if i < 0 {
		i, b.Overtaken = len(b.Overtaken), append(b.Overtaken, overtaken{Into: m.Into, First: m.Version})
	}
	o := &b.Overtaken[i]
	o.First, o.Until, o.Whole = min(o.First, m.Version), max(o.Until, until), max(o.Whole, whole)
}

// overtaken reports whether a later merge between the same branches has all of a part, and no
// branch was forked from one of them in between, which knows only the earlier one. It returns the
// version of the later one.
func (s *Scopes) overtaken(b *Branch, m *mergedPart) (until uint64, is bool) {
	into := s.branch(m.Into)
	if into.Removed {
		return 0, true
	}
	see := func(version uint64, r Range) {
		if version > m.Version && (until == 0 || version < until) && m.within(r) {
			until = version
		}
	}
	for _, pair := range [][2]*Branch{{b, into}, {into, b}} {
		for _, l := range pair[0].Merged {
			if l.Into == pair[1].ID {
				see(l.Version, Range{})
			}
		}
		for _, l := range pair[0].Parts {
			if l.Into == pair[1].ID {
				see(l.Version, Range{l.Start, l.End})
			}
		}
	}
	return until, until != 0 && !slices.ContainsFunc(s.branches, func(f *Branch) bool {
		return f.ID != mainBranch && !f.Removed && (f.From == b.ID || f.From == into.ID) && m.Version <= f.Version && f.Version < until
	})
}

// Moment is the version of the view.
func (v *View) Moment() engine.Version { return v.lines[0].version }
