package kvrows

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

func TestEncoding255(t *testing.T) {
	r := newRig(t)
	r.turn()
	must(t, r.s.Put(keyspace.UserKV.Append(nil, pack("k")), nil, engine.PutOptions{Encoding: 255}))
	r.fork("b", "")
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("panic: %v", p)
		}
	}()
	t.Log(r.get("b", "k"))
}

func TestHistoryOffBesideATag(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepFor: 1000})
	must(t, err)
	r.put("", "k", "0")
	r.fork("tag", "")
	for i := range 50 {
		r.put("", "k", fmt.Sprint(i))
	}
	r.turn()
	_, err = r.s.SetScope(nil, Policy{})
	must(t, err)
	r.purge()
	r.now += 1_000_000
	r.purge()
	if n := r.count(&keyspace.KVVersion); n > 1 {
		t.Errorf("%d versions are left after the history was turned off; the tag needs 1", n)
	}
}

func TestHistoryOffOfLargeValuesBesideATag(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepFor: 1 << 40})
	must(t, err)
	r.put("", "k", "0")
	r.fork("tag", "")
	big := string(bytes.Repeat([]byte("x"), 1<<20))
	for range 20 {
		r.put("", "k", big)
	}
	r.turn()
	if _, err := r.s.SetScope(nil, Policy{}); err != nil {
		t.Errorf("the history of a scope cannot be turned off: %v", err)
	}
}

func TestDeleteInReadOnlyScope(t *testing.T) {
	r := newRig(t)
	r.fork("b", "")
	r.turn()
	_, err := r.s.SetScope(nil, Policy{ReadOnly: true})
	must(t, err)
	r.turn()
	key := keyspace.UserKV.Append(nil, pack("absent"))
	_, of := r.s.Delete(key)
	w, err := r.s.Writer("b")
	must(t, err)
	_, on := w.Delete(key)
	if (of == nil) != (on == nil) {
		t.Errorf("delete of an absent entry: store %v, branch %v", of, on)
	}
}

type pinned struct {
	version engine.Version
	until   int64
	was     map[string]state
}

// mess does something to the store that the model does not have, and undoes it.
func (g *gardener) mess() {
	before := g.s.Savepoint()
	version := g.s.Version()
	g.s.Advance(g.now + 1)
	for range 1 + g.rnd.IntN(3) {
		name := g.name()
		if g.branches[name].fixed {
			continue
		}
		n := g.rnd.IntN(6)
		switch n {
		case 0:
			g.s.Fork(fmt.Sprint("mess", g.rnd.IntN(100)), name, false)
		case 1:
			g.s.RemoveBranch(name)
		case 2:
			g.s.Purge(3)
		case 3:
			g.s.SetScope(nil, Policy{KeepVersions: 1})
		default:
			w, err := g.s.Writer(name)
			if err != nil {
				continue
			}
			if g.rnd.IntN(2) == 0 {
				w.Put(g.key(), []byte("mess"), engine.PutOptions{ExpireAt: g.now + 2})
			} else {
				w.Delete(g.key())
			}
		}
	}
	g.s.Rollback(before)
	g.s.TakePurged()
	g.s.scopes.Forget(version)
	if g.rnd.IntN(2) == 0 {
		g.s.scopes.Reset()
	}
}

func TestModelWithPolicies(t *testing.T) {
	for seed := range seeds(2, 40) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			space, rows := openRows(t)
			g := &gardener{t: t, rnd: rand.New(rand.NewPCG(seed, 77)), space: space, s: Of(rows, new(Scopes)), now: 1000, ttl: seed%2 == 0}
			g.branches = map[string]*modelBranch{"": {state: state{}, merge: map[string]base{}, parts: map[string][]basePart{}, was: map[engine.Version]state{}}}
			g.s.Advance(g.now)
			var pins []*pinned
			policy := func() Policy {
				return []Policy{{}, {KeepVersions: 1}, {KeepVersions: 2}, {KeepFor: 20}, {KeepVersions: 2, KeepFor: 30}, {MaxKeys: 1000}}[g.rnd.IntN(6)]
			}
			for range 150 {
				if g.rnd.IntN(10) == 0 {
					g.mess()
				}
				g.points("after the mess")
				g.turn()
				g.points("after the turn")
				g.s.Advance(g.now)
				for _, b := range g.branches {
					b.was[g.s.Version()] = maps.Clone(b.state)
				}
				g.check()
				switch g.rnd.IntN(25) {
				case 0:
					g.now++
					g.s.Advance(g.now)
					_, err := g.s.SetScope([][]byte{nil, pack("a"), pack("b")}[g.rnd.IntN(3)], policy())
					must(t, err)
				case 1:
					g.now++
					g.s.Advance(g.now)
					must(t, g.s.RemoveScope([][]byte{nil, pack("a"), pack("b")}[g.rnd.IntN(3)]))
				case 2:
					g.now++
					g.s.Advance(g.now)
					d := int64(1 + g.rnd.IntN(60))
					v, err := g.s.Pin(time.Duration(d) * time.Millisecond)
					must(t, err)
					p := &pinned{v, g.now + d, map[string]state{}}
					for name, b := range g.branches {
						p.was[name] = b.living(g.now)
					}
					pins = append(pins, p)
				}
				for _, b := range g.branches {
					b.was[g.s.Version()] = maps.Clone(b.state)
				}
				if len(pins) > 0 {
					p := pins[g.rnd.IntN(len(pins))]
					name := g.name()
					want, had := p.was[name]
					if had && g.now < p.until {
						v, err := Look(g.s, name, p.version, g.s.Version(), g.now)
						must(t, err)
						from, to := keyspace.UserKV.Range()
						got := state{}
						for f, err := range v.All(from, to, false) {
							must(t, err)
							got[string(f.Key)] = held{string(f.Value), f.Expire}
						}
						if !maps.Equal(got, want) {
							t.Fatalf("pin %d of %q is %v, want %v", p.version, name, got, want)
						}
					}
				}
			}
			// Forks as they began are there, or trimmed.
			for name, b := range g.branches {
				if name == "" {
					continue
				}
				v, err := Look(g.s, name, b.at, g.s.Version(), g.now)
				must(t, err)
				from, to := keyspace.UserKV.Range()
				for _, err := range v.All(from, to, false) {
					if _, is := errors.AsType[*TrimmedError](err); is {
						return
					}
					must(t, err)
				}
			}
		})
		if !ok {
			return
		}
	}
}

// points checks what each branch was when another was forked from it.
func (g *gardener) points(when string) {
	g.t.Helper()
	known, err := survey(g.s)
	must(g.t, err)
	for name, b := range g.branches {
		if name == "" {
			continue
		}
		of, err := known.named(b.from)
		must(g.t, err)
		want := g.branches[b.from].was[b.at].living(g.now)
		got := state{}
		from, to := keyspace.UserKV.Range()
		for f, err := range look(g.s, known, of, b.at, g.s.Version(), g.now).Without(g.now).All(from, to, false) {
			must(g.t, err)
			got[string(f.Key)] = held{string(f.Value), f.Expire}
		}
		if !maps.Equal(got, want) {
			g.t.Fatalf("%s: %q (%d) at %d, where %q was forked, is %v, want %v; version %d", when, b.from, of.ID, b.at, name, got, want, g.s.Version())
		}
	}
}

func TestPurgeLosesWhatATagHas(t *testing.T) {
	for _, by := range []string{"tag", "pin"} {
		r := newRig(t)
		_, err := r.s.SetScope(nil, Policy{KeepVersions: 1, KeepFor: 20})
		must(t, err)
		r.put("", "k", "v1")
		at := engine.Version(0)
		if by == "tag" {
			r.fork("tag", "")
		} else {
			r.turn()
			at, err = r.s.Pin(time.Hour)
			must(t, err)
		}
		read := func() string {
			t.Helper()
			name := ""
			if by == "tag" {
				name = "tag"
			}
			v, err := Look(r.s, name, at, r.s.Version(), r.now)
			must(t, err)
			e, there, err := v.Entry(keyspace.UserKV.Append(nil, pack("k")))
			if err != nil || !there {
				return "-"
			}
			return string(e.Value)
		}
		r.put("", "k", "v2")
		for range 3 {
			r.turn()
			must(t, r.s.Put(keyspace.UserKV.Append(nil, pack("k")), []byte("short"), engine.PutOptions{ExpireAt: r.now + 5}))
		}
		if got := read(); got != "v1" {
			t.Fatal(got)
		}
		r.now += 1000
		r.purge()
		if got := read(); got != "v1" {
			t.Errorf("after a purge the %s has %q, want v1", by, got)
		}
	}
}

type rig struct {
	t   *testing.T
	s   *Store
	now int64
}

// newRig returns a rig with turns that may write 16 MiB.
func newRig(t *testing.T) *rig {
	space, rows := openRows(t)
	must(t, space.SetLimits(&engine.Limits{MaxWriteSet: 16 << 20}))
	r := &rig{t: t, s: Of(rows, new(Scopes)), now: 1_000_000}
	r.turn()
	return r
}

func (r *rig) turn() engine.Version { r.now++; return r.s.Advance(r.now) }

func (r *rig) put(branch, key, value string) engine.Version {
	r.t.Helper()
	r.turn()
	w, err := r.s.Writer(branch)
	must(r.t, err)
	must(r.t, w.Put(keyspace.UserKV.Append(nil, pack(key)), []byte(value), engine.PutOptions{}))
	return r.s.Version()
}

func (r *rig) del(branch, key string) engine.Version {
	r.t.Helper()
	r.turn()
	w, err := r.s.Writer(branch)
	must(r.t, err)
	_, err = w.Delete(keyspace.UserKV.Append(nil, pack(key)))
	must(r.t, err)
	return r.s.Version()
}

func (r *rig) fork(name, from string) engine.Version {
	r.t.Helper()
	r.turn()
	_, err := r.s.Fork(name, from, false)
	must(r.t, err)
	return r.s.Version()
}

func (r *rig) remove(name string) {
	r.t.Helper()
	r.turn()
	must(r.t, r.s.RemoveBranch(name))
}

func (r *rig) purge() {
	r.t.Helper()
	for more := true; more; {
		r.turn()
		var err error
		more, err = r.s.Purge(250)
		must(r.t, err)
	}
}

func (r *rig) get(branch, key string) string {
	r.t.Helper()
	v, err := Look(r.s, branch, 0, r.s.Version(), r.now)
	must(r.t, err)
	e, there, err := v.Entry(keyspace.UserKV.Append(nil, pack(key)))
	must(r.t, err)
	if !there {
		return "-"
	}
	return string(e.Value)
}

func (r *rig) merge(source string, at engine.Version, target string, strategy Strategy) Merge {
	r.t.Helper()
	return r.mergeOf(source, at, target, strategy, nil)
}

// mergeIn merges parts.
func (r *rig) mergeIn(source, target string, strategy Strategy, parts []Range) Merge {
	r.t.Helper()
	return r.mergeOf(source, 0, target, strategy, parts)
}

func (r *rig) mergeOf(source string, at engine.Version, target string, strategy Strategy, parts []Range) Merge {
	r.t.Helper()
	r.turn()
	writer, err := r.s.Writer(target)
	must(r.t, err)
	v, err := Look(r.s, source, at, r.s.Version(), r.now)
	must(r.t, err)
	v.Without(r.now)
	w, err := Look(r.s, target, 0, r.s.Version(), r.now)
	must(r.t, err)
	common, err := Base(r.s, v, w, r.s.Version(), r.now)
	must(r.t, err)
	ranges := parts
	if parts == nil {
		ranges = []Range{{}}
	}
	plan, err := Plan(common.rows, rowsIn{v}, writer, func(yield func([]byte, error) bool) {
		for _, part := range ranges {
			first, last := Bounds(part.Start, part.End)
			if !handOn(common.Differing(v, first, last, hostkv.MaxMergeReads), yield) {
				return
			}
		}
	}, strategy)
	must(r.t, err)
	if strategy == Strict && plan.Conflicted > 0 {
		return plan
	}
	r.s.Mark()
	_, err = Apply(writer, &Commit{Mutations: plan.Mutations})
	must(r.t, err)
	if at == 0 {
		must(r.t, r.s.NoteMerge(source, target, r.s.Version(), parts))
	}
	return plan
}

func (r *rig) count(l interface{ Range() (a, b []byte) }) int {
	r.t.Helper()
	a, b := l.Range()
	n := 0
	each(r.s, engine.ListQuery{Start: a, End: b, Expired: true, KeysOnly: true}, func(e *engine.Entry, err error) bool {
		must(r.t, err)
		n++
		return true
	})
	return n
}

func TestMergeOfAnOlderSource(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepFor: 1 << 40})
	must(t, err)
	r.put("", "k", "old")
	r.fork("b", "")
	old := r.put("b", "x", "1")
	r.put("", "k", "new")
	r.merge("", 0, "b", Strict) // b has k=new from now on
	r.put("b", "y", "1")
	r.merge("b", old, "", Strict) // merges x=1 and nothing else
	if got := r.get("", "k"); got != "new" {
		t.Errorf("k of the store is %q: the merge of b as it was reverts what only the store has changed", got)
	}
}

func TestMergeOfAGrandchild(t *testing.T) {
	r := newRig(t)
	r.fork("a", "")
	r.put("a", "k", "1")
	r.merge("a", 0, "", Strict) // the store has k=1
	r.fork("g", "a")
	r.put("g", "x", "1")
	r.del("", "k")
	m := r.merge("g", 0, "", Strict)
	if got := r.get("", "k"); got != "-" {
		t.Errorf("k is back: %q (%d conflicts); g has never changed it", got, m.Conflicted)
	}
}

func TestMergeIntoALaterFork(t *testing.T) {
	r := newRig(t)
	r.fork("a", "")
	r.put("a", "k", "1")
	r.merge("a", 0, "", Strict)
	r.fork("c", "") // has k=1
	r.del("c", "k")
	r.merge("a", 0, "c", Strict)
	if got := r.get("c", "k"); got != "-" {
		t.Errorf("k is back in c: %q", got)
	}
}

func TestRollingTagsKeepFor(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepFor: 10})
	must(t, err)
	r.put("", "k", "0")
	r.fork("t0", "")
	for i := 1; i <= 50; i++ {
		r.put("", "k", fmt.Sprint(i))
		r.fork(fmt.Sprint("t", i), "")
		r.remove(fmt.Sprint("t", i-1))
		r.now += 1000
		r.purge()
	}
	r.now += 100_000
	r.purge()
	if n := r.count(&keyspace.KVVersion); n > 3 {
		t.Errorf("%d versions of one entry are left, of which one tag needs 1", n)
	}
}

func TestRollingTagsBesideAnOldOne(t *testing.T) {
	r := newRig(t)
	r.put("", "k", "0")
	r.fork("v1", "")
	r.put("", "k", "x")
	r.fork("t0", "")
	for i := 1; i <= 50; i++ {
		r.put("", "k", fmt.Sprint(i))
		r.fork(fmt.Sprint("t", i), "")
		r.remove(fmt.Sprint("t", i-1))
		r.purge()
	}
	if n := r.count(&keyspace.KVVersion); n > 3 {
		t.Errorf("%d versions of one entry are left; two tags need 2", n)
	}
}

func TestRepeatedUpdatesOfABranch(t *testing.T) {
	r := newRig(t)
	r.put("", "k", "0")
	r.fork("b", "")
	for i := 1; i <= 50; i++ {
		r.put("", "k", fmt.Sprint(i))
		r.merge("", 0, "b", Strict)
		r.purge()
	}
	if n := r.count(&keyspace.KVVersion); n < 50 {
		t.Errorf("%d versions are left: merges that follow each other have each searched for versions to remove", n)
	}
	r.now += time.Hour.Milliseconds()
	r.purge()
	if n := r.count(&keyspace.KVVersion); n > 5 {
		t.Errorf("%d versions of one entry are left; the fork and the last merge need 2", n)
	}
}

func TestMarkersOfRemovals(t *testing.T) {
	r := newRig(t)
	r.put("", "lock", "0")
	r.fork("tag", "")
	for i := 1; i <= 100; i++ {
		r.del("", "lock")
		r.put("", "lock", fmt.Sprint(i))
	}
	r.purge()
	if n := r.count(&keyspace.KVVersion); n > 3 {
		t.Errorf("%d versions of one entry are left; the tag needs 1", n)
	}
}

func TestTombstonesOfABranch(t *testing.T) {
	r := newRig(t)
	r.fork("b", "")
	for i := range 100 {
		r.put("b", fmt.Sprint("job", i), "x")
		r.del("b", fmt.Sprint("job", i))
	}
	r.purge()
	if n := r.count(&keyspace.KVBranchEntry); n > 0 {
		t.Errorf("%d rows of a branch are left that has no entries and hides none", n)
	}
}

func TestSetScopeForgetsSweep(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepVersions: 100})
	must(t, err)
	r.fork("b", "")
	for i := range 20 {
		r.put("b", "k", fmt.Sprint(i))
	}
	r.turn()
	_, err = r.s.SetScope(nil, Policy{MaxKeys: 5})
	must(t, err)
	r.purge() // the one that was armed
	at := r.s.scopes.purge
	if n := r.count(&keyspace.KVVersion); n > 0 {
		t.Errorf("%d versions of a branch are left that nothing keeps; the next purge is armed for %d", n, at)
	}
}

func TestKeepForBesideKeepVersions(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepVersions: 10, KeepFor: 100})
	must(t, err)
	r.put("", "k", "secret")
	r.fork("tag", "")
	r.put("", "k", "2")
	r.remove("tag")
	r.purge()
	r.now += 1_000_000
	r.purge()
	if n := r.count(&keyspace.KVVersion); n > 0 {
		t.Errorf("%d versions are left long after keep_for", n)
	}
}

// A sweep writes so much at once and nothing more, and what expires meanwhile is purged.
func TestSweepsOfLargeValuesAreBounded(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepFor: 1 << 40})
	must(t, err)
	big := string(make([]byte, 1<<20))
	for _, value := range []string{big, "small"} {
		for i := range 24 {
			r.put("", fmt.Sprintf("%03d", i), value)
		}
		if value == big {
			r.fork("tag", "")
		}
	}
	r.turn()
	short := keyspace.UserKV.Append(nil, pack("short"))
	must(t, r.s.Put(short, []byte("1"), engine.PutOptions{ExpireAt: r.now + 1}))
	r.remove("tag")
	for more, tries := true, 0; more && tries < 20; tries++ {
		r.now += 1000
		r.turn()
		before := r.s.Bytes()
		more, err = r.s.Purge(250)
		if n := r.s.Bytes() - before; n > 16<<20 || err != nil {
			t.Fatalf("a purge writes %d bytes: %v", n, err)
		}
	}
	if e, err := raw(r.s, short); err != nil || e != nil {
		t.Errorf("an entry that has expired is not purged (%v)", err)
	}
}

func TestLargeValueOnABranch(t *testing.T) {
	r := newRig(t)
	r.fork("b", "")
	r.turn()
	w, err := r.s.Writer("b")
	must(t, err)
	if err := w.Put(keyspace.UserKV.Append(nil, pack("k")), make([]byte, 10<<20), engine.PutOptions{}); err == nil {
		t.Error("a branch takes a value of 10 MiB")
	}
}

// A scope within another begins with what that has kept, and leaves it what it knows when it is removed.
func TestAHistoryWithinAnotherLosesNothing(t *testing.T) {
	r := newRig(t)
	_, err := r.s.SetScope(nil, Policy{KeepVersions: 100})
	must(t, err)
	first := r.put("", "in", "1")
	r.put("", "out", "1")
	second := r.put("", "in", "2")
	r.put("", "out", "2")
	was := func(at engine.Version, key, want string) {
		t.Helper()
		v, err := Look(r.s, "", at, r.s.Version(), r.now)
		must(t, err)
		if e, _, err := v.Entry(keyspace.UserKV.Append(nil, pack(key))); err != nil || string(e.Value) != want {
			t.Errorf("%s was %q (%v), not %s", key, e.Value, err, want)
		}
	}
	r.turn()
	_, err = r.s.SetScope(pack("in"), Policy{KeepVersions: 50})
	must(t, err)
	was(first, "in", "1")
	r.put("", "in", "3")
	was(second, "in", "2")
	r.turn()
	must(t, r.s.RemoveScope(pack("in")))
	was(first, "in", "1")
	was(second, "out", "1")
}
