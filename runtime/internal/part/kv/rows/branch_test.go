package kvrows

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A held is an entry of the model of a branch.
type held struct {
	value  string
	expire int64
}

type state map[string]held

// living returns the entries that have not expired by a time.
func (s state) living(now int64) state {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(_ string, h held) bool { return h.expire != 0 && h.expire <= now })
	return out
}

// A line of the model is a branch.
type modelBranch struct {
	state
	from  string
	at    engine.Version
	forks int
	fixed bool
	merge map[string][]base // all of them, by the branch that it was merged into
	parts map[string][]basePart
	was   map[engine.Version]state
}

type base struct {
	state
	version engine.Version
}

// basePart is the base of some keys.
type basePart struct {
	base
	noted engine.Version
	has   func(key string) bool
}

// A gardener grows branches, and has a model of each.
type gardener struct {
	t        *testing.T
	rnd      *rand.Rand
	space    *engine.Space
	s        *Store
	now      int64
	branches map[string]*modelBranch
	ttl      bool // some entries expire
	conflict int
	merges   int
	past     int
	merged   int // of what a branch had earlier
	unknown  int // and how many were refused
	next     int
	pins     []pinned
	seed     uint64
}

func newGardener(t *testing.T, seed, stream uint64) *gardener {
	space, rows := openRows(t)
	g := &gardener{t: t, rnd: rand.New(rand.NewPCG(seed, stream)), space: space, s: Of(rows, new(Scopes)), now: 1000, ttl: seed%2 == 0}
	g.branches = map[string]*modelBranch{"": newModelBranch(state{})}
	g.s.Advance(g.now)
	return g
}

func newModelBranch(has state) *modelBranch {
	return &modelBranch{state: has, merge: map[string][]base{}, parts: map[string][]basePart{}, was: map[engine.Version]state{}}
}

func (g *gardener) key() []byte {
	return keyspace.UserKV.Append(nil,
		[][]byte{pack("a"), pack("a", 1), pack("a\x00", 1), pack("b", "c", 1), pack("b", 1), nil, pack([]byte{0xFF})}[g.rnd.IntN(7)])
}

func (g *gardener) name() string {
	names := slices.Sorted(maps.Keys(g.branches))
	return names[g.rnd.IntN(len(names))]
}

func (g *gardener) turn() {
	g.step()
	if g.rnd.IntN(3) == 0 {
		must(g.t, errOf(g.space.Commit(nil)))
	}
}

func (g *gardener) step() {
	g.now += int64(g.rnd.IntN(4))
	g.s.Advance(g.now)
	if g.rnd.IntN(8) == 0 {
		g.operate()
	} else {
		g.write()
	}
	g.remember()
}

func (g *gardener) remember() {
	for _, b := range g.branches {
		b.was[g.s.Version()] = maps.Clone(b.state)
	}
}

// write changes entries of one branch.
func (g *gardener) write() {
	name := g.name()
	b := g.branches[name]
	w, err := g.s.Writer(name)
	if b.fixed {
		g.refused(err)
		return
	}
	must(g.t, err)
	for range 1 + g.rnd.IntN(3) {
		key := g.key()
		before := b.living(g.now)
		switch g.rnd.IntN(8) {
		case 0, 1, 2:
			_, there := before[string(key)]
			gone, err := w.Delete(key)
			must(g.t, err)
			fatalIf(g.t, gone != there, "Delete reports %v of an entry of %q, want %v", gone, name, there)
			delete(b.state, string(key))
		case 3:
			from, to := g.bounds()
			in := before
			maps.DeleteFunc(in, func(k string, _ held) bool { return k < string(from) || k >= string(to) })
			n, err := w.DeleteRange(from, to)
			must(g.t, err)
			fatalIf(g.t, int(n) != len(in), "DeleteRange reports %d entries of %q, want %d", n, name, len(in))
			maps.DeleteFunc(b.state, func(k string, _ held) bool { return k >= string(from) && k < string(to) })
		default:
			h := held{value: fmt.Sprint(g.rnd.IntN(4))}
			if g.ttl && g.rnd.IntN(3) == 0 {
				h.expire = g.now + 1 + int64(g.rnd.IntN(30))
			}
			err := w.Put(key, []byte(h.value), engine.PutOptions{ExpireAt: h.expire})
			must(g.t, err)
			b.state[string(key)] = h
		}
	}
}

func (g *gardener) refused(err error) {
	g.t.Helper()
	fatalIf(g.t, host.CodeOf(err) != host.FailedPrecondition, "a change of a branch that is read-only: %v", err)
}

func (g *gardener) bounds() (from, to []byte) {
	if g.rnd.IntN(2) == 0 {
		return keyspace.UserKV.Range()
	}
	from, to = g.key(), g.key()
	if bytes.Compare(from, to) > 0 {
		from, to = to, from
	}
	return from, to
}

// operate forks, removes, merges or purges.
func (g *gardener) operate() {
	name := g.name()
	b := g.branches[name]
	switch g.rnd.IntN(5) {
	case 0, 1:
		if len(g.branches) > 6 {
			return
		}
		g.next++
		fork := fmt.Sprint("branch ", g.next)
		fixed := g.rnd.IntN(5) == 0
		made, err := g.s.Fork(fork, name, fixed)
		must(g.t, err)
		b.forks++
		g.branches[fork] = newModelBranch(maps.Clone(b.state))
		g.branches[fork].from, g.branches[fork].at, g.branches[fork].fixed = name, engine.Version(made.Version), fixed
	case 2:
		if name == "" {
			return
		}
		err := g.s.RemoveBranch(name)
		if b.forks > 0 {
			g.refused(err)
			return
		}
		must(g.t, err)
		g.branches[b.from].forks--
		delete(g.branches, name)
		for _, other := range g.branches {
			delete(other.merge, name)
			delete(other.parts, name)
		}
	case 3:
		target := g.name()
		if target == name || g.branches[target].fixed {
			return
		}
		at := engine.Version(0)
		if versions := slices.Sorted(maps.Keys(b.was)); !g.ttl && len(versions) > 0 && g.rnd.IntN(2) == 0 {
			at = versions[g.rnd.IntN(len(versions))]
		}
		g.merge(name, at, target, Strategy(g.rnd.IntN(3)))
	default:
		must(g.t, errOf(g.s.Purge(1+g.rnd.IntN(5))))
	}
}

// began returns the newest state that two branches share. The source is as it was at a version.
func (g *gardener) began(source string, then engine.Version, target string) state {
	type point struct {
		name string
		at   engine.Version
	}
	path := func(name string, at engine.Version) (list []point) {
		for {
			list = append(list, point{name, at})
			if name == "" {
				return list
			}
			b := g.branches[name]
			name, at = b.from, b.at
		}
	}
	var best base
search:
	for _, p := range path(source, then) {
		for _, q := range path(target, g.s.Version()) {
			if p.name == q.name {
				best.version = min(p.at, q.at)
				best.state = g.branches[p.name].was[best.version]
				break search
			}
		}
	}
	merges := func(visit func(from *modelBranch, p, q point)) {
		for _, p := range path(source, then) {
			for _, q := range path(target, g.s.Version()) {
				visit(g.branches[q.name], q, p)
			}
		}
		for _, p := range path(source, then) {
			for _, q := range path(target, g.s.Version()) {
				visit(g.branches[p.name], p, q)
			}
		}
	}
	merges(func(from *modelBranch, p, q point) {
		for _, m := range from.merge[q.name] {
			if m.version > q.at {
				continue
			}
			if m.version > p.at { // all that p has
				m = base{from.was[p.at], p.at}
			}
			if m.version >= best.version {
				best = m
			}
		}
	})
	var parts []basePart
	merges(func(from *modelBranch, p, q point) {
		for _, m := range from.parts[q.name] {
			if m.version > p.at {
				m.base = base{from.was[p.at], p.at}
			}
			if m.version >= best.version && m.noted <= q.at && m.version <= p.at {
				parts = append(parts, m)
			}
		}
	})
	slices.SortStableFunc(parts, func(a, b basePart) int { return cmp.Compare(a.version, b.version) })
	began := maps.Clone(best.state)
	for _, m := range parts {
		for _, s := range []state{began, m.state} {
			for key := range s {
				if !m.has(key) {
					continue
				}
				if delete(began, key); m.state[key] != (held{}) {
					began[key] = m.state[key]
				}
			}
		}
	}
	return began
}

// merge merges everything, or a part, of what a branch has, or had at a version.
func (g *gardener) merge(source string, at engine.Version, target string, strategy Strategy) {
	from, to := g.branches[source], g.branches[target]
	first, last := g.bounds()
	if bytes.Equal(first, last) { // an empty end would be that of the store; callers refuse it
		return
	}
	within := func(key string) bool { return key >= string(first) && key < string(last) }
	among := func(s state) state {
		s = s.living(g.now)
		maps.DeleteFunc(s, func(key string, _ held) bool { return !within(key) })
		return s
	}
	then, was := g.s.Version(), from.state
	if at != 0 {
		then, was = at, from.was[at]
	}
	began, theirs, ours := among(g.began(source, then, target)), among(was), among(to.state)
	want, conflicts := maps.Clone(to.state), 0
	for key := range merge3(began, theirs, ours) {
		was, inBase := began[key]
		new, inSource := theirs[key]
		old, inTarget := ours[key]
		switch {
		case inBase == inSource && was == new, inSource == inTarget && new == old:
			continue
		case inBase != inTarget || was != old:
			if conflicts++; strategy != Theirs {
				continue
			}
		}
		if delete(want, key); inSource {
			want[key] = new
		}
	}
	writer, err := g.s.Writer(target)
	must(g.t, err)
	v, err := Look(g.s, source, at, g.s.Version(), g.now)
	must(g.t, err)
	v.Without(g.now)
	w, err := Look(g.s, target, 0, g.s.Version(), g.now)
	must(g.t, err)
	common, err := Base(g.s, v, w, g.s.Version(), g.now)
	if g.forgot(at, err) {
		return
	}
	plan, err := Plan(common.rows, rowsIn{v}, writer, common.Differing(v, first, last, hostkv.MaxMergeReads), strategy)
	if g.forgot(at, err) {
		return
	}
	fatalIf(g.t, int(plan.Conflicted) != conflicts,
		"seed "+fmt.Sprint(g.seed)+
			": merge of %q at %d into %q has %d conflicts, want %d: %+v", source, at, target, plan.Conflicted, conflicts, plan)
	g.conflict += conflicts
	if strategy == Strict && conflicts > 0 {
		return
	}
	must(g.t, errOf(Apply(writer, &Commit{Mutations: plan.Mutations})))
	to.state = want
	if at != 0 {
		g.merged++
		return
	}
	g.merges++
	done := base{maps.Clone(from.state), g.s.Version()}
	all, end := keyspace.UserKV.Range()
	if bytes.Equal(first, all) && bytes.Equal(last, end) {
		must(g.t, g.s.NoteMerge(source, target, g.s.Version(), nil))
		from.merge[target] = append(from.merge[target], done)
		return
	}
	must(g.t, g.s.NoteMerge(source, target, g.s.Version(), []Range{{first[1:], last[1:]}}))
	from.parts[target] = append(from.parts[target], basePart{done, done.version, within})
}

// forgot reports whether a merge of a version was refused because a merge was forgotten.
func (g *gardener) forgot(at engine.Version, err error) bool {
	g.t.Helper()
	_, unknown := errors.AsType[*TrimmedError](err)
	if unknown && at != 0 {
		g.unknown++
		return true
	}
	must(g.t, err)
	return false
}

func merge3(states ...state) map[string]bool {
	keys := map[string]bool{}
	for _, s := range states {
		for key := range s {
			keys[key] = true
		}
	}
	return keys
}

// rowsIn is a View for code that reads rows.
type rowsIn struct{ *View }

func (r rowsIn) Get(key []byte) (engine.Entry, bool, error) { return r.Entry(key) }

// rows is Common.Of for Plan.
func (c *Common) rows(key []byte) engine.Reader { return rowsIn{c.Of(key)} }

// check compares a branch with the model, as it is or was.
func (g *gardener) check() {
	name := g.name()
	b := g.branches[name]
	version, want := engine.Version(0), b.living(g.now)
	if !g.ttl && g.rnd.IntN(2) == 0 {
		versions := slices.Sorted(maps.Keys(b.was))
		version = versions[g.rnd.IntN(len(versions))]
		want = maps.Clone(b.was[version])
	}
	v, err := Look(g.s, name, version, g.s.Version(), g.now)
	must(g.t, err)
	from, to := g.bounds()
	maps.DeleteFunc(want, func(k string, _ held) bool { return k < string(from) || k >= string(to) })
	keys := slices.Sorted(maps.Keys(want))
	reverse := g.rnd.IntN(2) == 0
	if reverse {
		slices.Reverse(keys)
	}
	i := 0
	for f, err := range v.All(from, to, reverse) {
		if _, unknown := errors.AsType[*TrimmedError](err); unknown && version != 0 {
			return
		}
		must(g.t, err)
		if i == len(keys) || keys[i] != string(f.Key) || want[keys[i]] != (held{string(f.Value), f.Expire}) {
			g.t.Fatalf("entry %d of %q at version %d is %s: %+v; want %q of %v", i, name, version,
				keyspace.Format(f.Key), f.Version, keys[i:], want)
		}
		i++
	}
	fatalIf(g.t, i != len(keys), "%d entries of %q at version %d, want %q", i, name, version, keys)
	key := g.key()
	if string(key) < string(from) || string(key) >= string(to) {
		return
	}
	got, there, err := v.Get(key)
	must(g.t, err)
	if h, is := want[string(key)]; is != there || there && h != (held{string(got.Value), got.Expire}) {
		g.t.Fatalf("%s of %q at version %d is %+v %v, want %+v", keyspace.Format(key), name, version, got, there, h)
	}
	if version != 0 {
		g.past++
	}
}

// Some gardens have no policy, some keep everything, and in wild ones policies, scopes and pins
// come and go and turns are undone.
func TestBranchesHaveWhatWasWrittenToThem(t *testing.T) {
	conflicts, merges, past := 0, 0, 0
	for seed := range seeds(8, 200) {
		g := newGardener(t, seed, 3)
		g.seed = seed
		turns, wild, kept := 300, seed%8 >= 6, Policy{}
		if wild {
			turns = 150
		} else if seed%4 == 1 {
			kept.KeepFor = 1 << 40
		}
		must(t, errOf(g.s.SetScope(nil, kept)))
		for range turns {
			if wild {
				g.wild()
			}
			g.turn()
			g.check()
			if seed%4 == 1 || seed%4 == 2 { // more forks and merges than writes
				g.now++
				g.s.Advance(g.now)
				g.operate()
				g.remember()
			}
		}
		conflicts, merges, past = conflicts+g.conflict, merges+g.merges, past+g.past
		t.Log(seed, g.merges, g.merged, g.unknown)
		g.clear(wild || kept.KeepFor != 0)
	}
	errorIf(t, conflicts < 15 || merges < 20 ||
		past < 150, "%d conflicts, %d merges and %d answers about the past are too few", conflicts, merges, past)
}

// clear removes all branches, and checks that they leave nothing behind.
func (g *gardener) clear(keeps bool) {
	for len(g.branches) > 1 {
		for name, b := range g.branches {
			if name != "" && b.forks == 0 {
				g.now++
				g.s.Advance(g.now)
				must(g.t, g.s.RemoveBranch(name))
				g.branches[b.from].forks--
				delete(g.branches, name)
			}
		}
	}
	for more := true; more; {
		g.now++
		g.s.Advance(g.now)
		var err error
		more, err = g.s.Purge(20)
		must(g.t, err)
	}
	for _, l := range []interface{ Range() (start, end []byte) }{&keyspace.KVBranch, &keyspace.KVBranchEntry, &keyspace.KVVersion} {
		start, end := l.Range()
		if keeps && keyspace.Kind(start[0]) == keyspace.KVVersion.Kind {
			continue
		}
		page, err := g.s.List(engine.ListQuery{Start: start, End: end, Expired: true, Limit: 10})
		must(g.t, err)
		for _, e := range page.Entries {
			g.t.Errorf("%s is left: %+v", keyspace.Format(e.Key), e)
		}
	}
}

func TestForkNamesItsLimits(t *testing.T) {
	_, rows := openRows(t)
	rows.Advance(1000)
	s := Of(rows, new(Scopes))
	fork := func(name, from string) error { _, err := s.Fork(name, from, false); return err }
	for _, name := range []string{"", "\xff", string(bytes.Repeat([]byte("x"), 256))} {
		err := fork(name, "")
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "the name %q: %v", name, err)
	}
	from := ""
	for i := range 8 {
		must(t, fork(fmt.Sprint(i), from))
		from = fmt.Sprint(i)
	}
	err := fork("deep", from)
	errorIf(t, host.CodeOf(err) != host.TooLarge, "a ninth branch of branches: %v", err)
	err = fork("0", "")
	errorIf(t, host.CodeOf(err) != host.AlreadyExists, "a name that is taken: %v", err)
	_, is := errors.AsType[*BranchError](fork("x", "none"))
	errorIf(t, !is, "a fork of a branch that is not there")
	for i := range 92 {
		must(t, fork(fmt.Sprint("more ", i), ""))
	}
	err = fork("x", "")
	errorIf(t, host.CodeOf(err) != host.TooLarge, "the 101st branch: %v", err)
	must(t, s.RemoveBranch("more 0"))
	must(t, fork("x", ""))
}

// The removal of a branch, which is done in slices, goes on when a first scope is set meanwhile, or
// declared by a new release.
func TestAFirstScopeKeepsTheSlicesOfARemovedBranch(t *testing.T) {
	for name, scope := range map[string]func(r *rig) error{
		"set": func(r *rig) error { return errOf(r.s.SetScope(pack("x"), Policy{MaxKeys: 3})) },
		"declared": func(r *rig) error {
			r.s.scopes = &Scopes{Declared: []Scope{{Prefix: pack("m"), Policy: Policy{KeepVersions: 1}}}}
			r.turn()
			return r.s.Put(keyspace.UserKV.Append(nil, pack("x")), []byte("v"), engine.PutOptions{})
		},
	} {
		r := newRig(t)
		r.turn()
		must(t, errOf(r.s.Fork("b", "", false)))
		for i := range 60 {
			r.put("b", fmt.Sprint("k", i), "v")
		}
		r.turn()
		must(t, r.s.RemoveBranch("b"))
		must(t, r.s.loadPurge())
		r.now = max(r.now, r.s.scopes.purge)
		r.turn()
		more, err := r.s.Purge(20)
		must(t, err)
		before := r.s.scopes.purge
		must(t, scope(r))
		must(t, r.s.loadPurge())
		errorIf(t, !more || before == 0 || r.s.scopes.purge != before,
			"%s: more %v, the purge was armed for %d and is for %d", name, more, before, r.s.scopes.purge)
	}
}

func errOf[T any](_ T, err error) error { return err }
