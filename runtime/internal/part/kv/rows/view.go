package kvrows

import (
	"bytes"
	"iter"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A View reads the entries of a branch: its own, and those from the branches that it was forked
// from.
type View struct {
	Branch *Branch
	// lines begins with the branch itself. Each of the others is as it was when the one before was
	// forked from it.
	lines []*Past
}

// Look returns a branch as it was when a version was committed; 0 is the present, and the name of
// the store itself is empty. now is the version of the rows, and nowMS the time. The error may be a
// *BranchError or a *TrimmedError.
func Look(rows engine.Reader, name string, version, now engine.Version, nowMS int64) (*View, error) {
	known, err := survey(rows)
	if err != nil {
		return nil, err
	}
	b, err := known.named(name)
	if err != nil {
		return nil, err
	}
	if version != 0 && version < b.first() {
		return nil, &TrimmedError{Requested: version, Earliest: b.first()}
	}
	if version == 0 {
		version = now
	}
	return look(rows, known, b, version, now, nowMS), nil
}

// LookBack is Look for the commits up to a time, in Unix milliseconds.
func LookBack(rows engine.Reader, name string, ms int64, now engine.Version, nowMS int64) (*View, error) {
	v, err := Look(rows, name, 0, now, nowMS)
	if err != nil || ms >= nowMS {
		return v, err
	}
	if b := v.Branch; b.ID != mainBranch && ms < b.Created {
		return nil, &TrimmedError{Time: ms, Earliest: b.first()}
	}
	v.lines[0].when(ms)
	for _, p := range v.lines[1:] { // as they were before
		p.time, p.vague = ms, 0
	}
	return v, nil
}

func look(rows engine.Reader, known *Scopes, b *Branch, version, now engine.Version, nowMS int64) *View {
	v := &View{Branch: b}
	for {
		p := newPast(rows, known, b.ID, version, now, nowMS)
		if len(v.lines) > 0 { // a fork keeps it, and nothing purges it
			p.sure, p.time = true, v.lines[0].time
			if p.time == 0 {
				p.time, p.vague = v.Branch.Created, v.Moment()
			}
		}
		v.lines = append(v.lines, p)
		if b.ID == mainBranch {
			return v
		}
		version, b = engine.Version(b.Version), known.branch(b.From)
	}
}

// Get returns the value of a user key in the branch; false if it is absent. The error may be a
// *TrimmedError.
func (v *View) Get(key []byte) (Version, bool, error) {
	for _, p := range v.lines {
		got, there, err := p.Get(rowOf(p.branch, key[1:]))
		if err != nil || got.Kind != 0 {
			return got, there, err
		}
	}
	return Version{}, false, nil
}

// All ranges over the entries of the branch in the order of their keys, from start to end. The
// error may be a *TrimmedError.
func (v *View) All(start, end []byte, reverse bool) iter.Seq2[Found, error] {
	return v.each(start, end, reverse, false)
}

// each is All. keys: values may be left out.
func (v *View) each(start, end []byte, reverse, keys bool) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		type source struct {
			next func() (Found, error, bool)
			Found
			more bool
		}
		sources := make([]source, len(v.lines))
		var err error
		for i, p := range v.lines {
			s := &sources[i]
			next, stop := iter.Pull2(p.all(start, end, reverse, keys))
			defer stop()
			s.next = next
			if s.Found, err, s.more = next(); err != nil {
				yield(Found{}, err)
				return
			}
		}
		for {
			first := -1
			for i := range sources {
				if !sources[i].more {
					continue
				}
				if first < 0 {
					first = i
				} else if c := bytes.Compare(sources[i].Key, sources[first].Key); c != 0 && c < 0 != reverse {
					first = i
				}
			}
			if first < 0 {
				return
			}
			f := sources[first].Found
			if !f.gone && !yield(f, nil) {
				return
			}
			for i := range sources {
				s := &sources[i]
				if !s.more || !bytes.Equal(s.Key, f.Key) {
					continue
				}
				if s.Found, err, s.more = s.next(); err != nil {
					yield(Found{}, err)
					return
				}
			}
		}
	}
}

// Differing ranges over the packed user keys from start to end whose entries may differ between two
// views, in order and without repeats. It reads all entries that both share, if the views are of
// different versions. It calls pass for each unchanged one: true hands out its key too, so that the
// caller can look at the clock, and an error ends it.
func Differing(a, b *View, start, end []byte, pass func() (bool, error)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for _, v := range []*View{a, b} {
			if err := v.lines[0].covers(start, end); err != nil { // a removed entry leaves no row
				yield(nil, err)
				return
			}
		}
		var streams []*stream
		i, j := common(a, b)
		for _, p := range append(a.lines[:i:i], b.lines[:j]...) {
			from, to := rowsOf(p.branch, start, end)
			streams = append(streams, &stream{
				puller: newPuller(p.rows,
					engine.ListQuery{Start: from, End: to, KeysOnly: true, Expired: true, Limit: 1000}),
				key: func(e *engine.Entry) ([]byte, error) { return userKey(e.Key), nil },
			}, &stream{
				puller: newPuller(p.rows,
					engine.ListQuery{Start: versionStart(from), End: versionStart(to),
						KeysOnly: true, Expired: true, Limit: 1000}),
				key: func(e *engine.Entry) ([]byte, error) {
					key, _, err := keyspace.KVVersion.Parse(e.Key)
					return userKey(key), err
				},
			})
		}
		if x, y := a.lines[i], b.lines[j]; x.version != y.version {
			since := min(x.version, y.version)
			passed := func(key []byte, err error) ([]byte, error) {
				if err != nil {
					return nil, err
				}
				if shown, err := pass(); err != nil || !shown {
					return nil, err
				}
				return key, nil
			}
			from, to := rowsOf(x.branch, start, end)
			streams = append(streams, &stream{
				puller: newPuller(x.rows,
					engine.ListQuery{Start: from, End: to, KeysOnly: true, Expired: true, Limit: 1000}),
				key: func(e *engine.Entry) ([]byte, error) {
					if e.Version <= since {
						return passed(userKey(e.Key), nil)
					}
					return userKey(e.Key), nil
				},
			}, &stream{
				puller: newPuller(x.rows,
					engine.ListQuery{Start: versionStart(from), End: versionStart(to),
						Expired: true, Limit: 1000, MaxBytes: 4 << 20}),
				key: func(e *engine.Entry) ([]byte, error) {
					v, err := parseVersion(e)
					if err != nil {
						return nil, err
					}
					key, _, err := keyspace.KVVersion.Parse(e.Key)
					if v.Version <= since && v.Ended <= since {
						return passed(userKey(key), err)
					}
					return userKey(key), err
				},
			})
		}
		for {
			var first []byte
			for _, s := range streams {
				key, err := s.head()
				if err != nil {
					yield(nil, err)
					return
				}
				if key != nil && (first == nil || bytes.Compare(key, first) < 0) {
					first = key
				}
			}
			if first == nil || !yield(first, nil) {
				return
			}
			for _, s := range streams {
				if bytes.Equal(s.at, first) {
					s.at = nil
				}
			}
		}
	}
}

// common returns the positions of the first branch that two views share.
func common(a, b *View) (int, int) {
	for i, p := range a.lines {
		for j, q := range b.lines {
			if p.branch == q.branch {
				return i, j
			}
		}
	}
	return len(a.lines) - 1, len(b.lines) - 1 // the store itself
}

// A stream hands out user keys in order.
type stream struct {
	*puller
	key  func(*engine.Entry) ([]byte, error) // nil: not this one
	at   []byte
	last []byte
}

// head returns the next key; nil at the end. The caller takes it by setting at to nil.
func (s *stream) head() ([]byte, error) {
	for s.at == nil {
		e, err := s.peek()
		if err != nil || e == nil {
			return nil, err
		}
		key, err := s.key(e)
		if err != nil {
			return nil, err
		}
		s.take()
		if key != nil && (s.last == nil || !bytes.Equal(key, s.last)) {
			s.at, s.last = key, key
		}
	}
	return s.at, nil
}
