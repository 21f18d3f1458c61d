package kvrows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// pinned is a version that is kept until a time, with the states of the branches.
type pinned struct {
	version engine.Version
	until   int64
	was     map[string]state
}

// wild undoes turns, changes what is kept, and checks that the needed versions are there.
func (g *gardener) wild() {
	g.s.Advance(g.now) // after a commit, reads would use the machine's clock
	g.remember()
	if g.rnd.IntN(10) == 0 {
		g.undone()
	}
	g.points()
	if g.rnd.IntN(8) == 0 {
		g.rule()
	}
	name := g.name()
	for _, p := range g.pins {
		g.reads(p, name)
	}
}

// reads checks the entries of a branch at a pin.
func (g *gardener) reads(p pinned, name string) {
	g.t.Helper()
	want, had := p.was[name]
	if !had || g.now >= p.until {
		return
	}
	v, err := Look(g.s, name, p.version, g.s.Version(), g.now)
	must(g.t, err)
	got := g.all(v)
	fatalIf(g.t, !maps.Equal(got, want), "pin %d of %q is %v, want %v", p.version, name, got, want)
}

// undone does some turns, and rolls them back.
func (g *gardener) undone() {
	before, version, pins, branches := g.s.Savepoint(), g.s.Version(), g.pins, g.branches
	g.branches, g.pins = map[string]*modelBranch{}, slices.Clone(pins)
	for name, b := range branches {
		c := *b
		c.state, c.merge, c.parts, c.was = maps.Clone(b.state), maps.Clone(b.merge), maps.Clone(b.parts), maps.Clone(b.was)
		g.branches[name] = &c
	}
	for range 1 + g.rnd.IntN(3) {
		switch g.rnd.IntN(4) {
		case 0:
			g.rule()
		case 1:
			g.now++
			g.s.Advance(g.now)
			g.operate()
			g.remember()
		default:
			g.step()
		}
	}
	g.pins, g.branches = pins, branches // the clock stays
	g.s.Rollback(before)
	g.s.TakePurged()
	g.s.scopes.Forget(version)
	if g.rnd.IntN(2) == 0 {
		g.s.scopes.Reset()
	}
}

// rule changes what is kept of some keys, or pins the present.
func (g *gardener) rule() {
	g.now++
	g.s.Advance(g.now)
	prefix := [][]byte{nil, pack("a"), pack("b")}[g.rnd.IntN(3)]
	switch g.rnd.IntN(3) {
	case 0:
		policies := []Policy{{}, {KeepVersions: 1}, {KeepVersions: 2}, {KeepFor: 20}, {KeepVersions: 2, KeepFor: 30}, {MaxKeys: 1000}}
		must(g.t, errOf(g.s.SetScope(prefix, policies[g.rnd.IntN(len(policies))])))
	case 1:
		must(g.t, g.s.RemoveScope(prefix))
	default:
		g.pin()
	}
	g.remember()
}

// pin pins the present for a while.
func (g *gardener) pin() {
	d := int64(1 + g.rnd.IntN(60))
	v, err := g.s.Pin(time.Duration(d) * time.Millisecond)
	must(g.t, err)
	p := pinned{v, g.now + d, map[string]state{}}
	for name, b := range g.branches {
		p.was[name] = b.living(g.now)
	}
	g.pins = append(g.pins, p)
}

// all reads a view.
func (g *gardener) all(v *View) state {
	g.t.Helper()
	got := state{}
	from, to := keyspace.UserKV.Range()
	for f, err := range v.All(from, to, false) {
		must(g.t, err)
		got[string(f.Key)] = held{string(f.Value), f.Expire}
	}
	return got
}

// Beside tags and pins, a history of a time or a number of versions leaves only versions that these
// may read, once it is over.
func TestReadersKeepWhatTheyMayReadAndNoMore(t *testing.T) {
	for seed := range seeds(3, 150) {
		g := newGardener(t, seed, 991)
		must(t, g.space.SetLimits(&engine.Limits{ListEntries: 12}))
		for _, scope := range [][]byte{nil, pack("a")}[:1+seed%2] {
			must(t, errOf(g.s.SetScope(scope, Policy{KeepVersions: int64(g.rnd.IntN(3)), KeepFor: int64(1 + g.rnd.IntN(60))})))
		}
		for range 3 {
			for range 60 {
				if g.rnd.IntN(6) == 0 {
					g.now++
					g.s.Advance(g.now)
					if n := len(g.pins); n < 9 && g.rnd.IntN(3) > 0 {
						g.pin()
					} else if n > 0 {
						must(t, errOf(g.s.Unpin(g.pins[n-1].version)))
						g.pins = g.pins[:n-1]
					}
					g.remember()
				}
				g.turn()
				g.s.Advance(g.now)
				g.remember()
				g.points()
				g.check()
				for _, p := range g.pins {
					for name := range g.branches {
						g.reads(p, name)
					}
				}
			}
			g.pins = nil
			g.rest()
			g.points()
			g.idle()
		}
		g.clear(true)
		g.rest()
		if g.clear(false); t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

// rest runs the purges at their times, until none is armed.
func (g *gardener) rest() {
	for range 20_000 {
		g.s.scopes.Reset()
		must(g.t, g.s.loadPurge())
		at := g.s.scopes.purge
		if at == 0 {
			return
		}
		g.now = max(g.now, at)
		g.s.Advance(g.now)
		must(g.t, errOf(g.s.Purge(1+g.rnd.IntN(20))))
		g.remember()
	}
	g.t.Fatal("the purge never ends")
}

// idle looks for versions that no reader may read.
func (g *gardener) idle() {
	g.t.Helper()
	must(g.t, g.s.load())
	start, end := keyspace.KVVersion.Range()
	each(g.s, engine.ListQuery{Start: start, End: end, Expired: true}, func(e *engine.Entry, err error) bool {
		must(g.t, err)
		v, err := parseVersion(e)
		must(g.t, err)
		key, _, _ := keyspace.KVVersion.Parse(e.Key)
		if v.Ended == 0 || g.s.readUntil(key, v.Version, v.Ended) == notKept {
			g.t.Errorf("%s is left: %+v", keyspace.Format(e.Key), v)
		}
		return true
	})
}

// A purge of more than a turn may write ends, even after a turn that was undone.
func TestLongHistoriesArePurgedInSteps(t *testing.T) {
	space, rows := openRows(t)
	must(t, space.SetLimits(&engine.Limits{MaxWriteSet: 10 << 20}))
	r := &rig{t: t, s: Of(rows, new(Scopes)), now: 1_000_000}
	r.turn()
	must(t, errOf(r.s.SetScope(nil, Policy{KeepFor: 1 << 40})))
	long := strings.Repeat("k", 2000)
	for i := range 2800 {
		r.put("", long, "v")
		if i%1000 == 0 {
			must(t, errOf(space.Commit(nil)))
		}
	}
	must(t, errOf(space.Commit(nil)))
	r.turn()
	must(t, errOf(r.s.SetScope(nil, Policy{})))
	for more := true; more; {
		must(t, errOf(space.Commit(nil)))
		r.now += 100_000
		before, version := r.s.Savepoint(), r.s.Version()
		r.turn()
		must(t, errOf(r.s.Purge(1)))
		r.s.Rollback(before)
		r.s.scopes.Forget(version)
		r.turn()
		var err error
		more, err = r.s.Purge(64)
		must(t, err)
	}
	if n := r.count(&keyspace.KVVersion); n > 0 {
		t.Errorf("%d versions are left", n)
	}
}

// points checks the state of each branch when another was forked from it.
func (g *gardener) points() {
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
		got := g.all(look(g.s, known, of, b.at, g.s.Version(), g.now).Without(g.now))
		fatalIf(g.t, !maps.Equal(got, want),
			"%q (%d) at %d, where %q was forked, is %v, want %v; version %d", b.from, of.ID, b.at, name, got, want, g.s.Version())
	}
}

// A tag reads the writes of the turn that makes it, and needs nothing older.
func TestATagHasWhatItsTurnWrites(t *testing.T) {
	r := newRig(t)
	r.put("", "k", "before")
	r.fork("tag", "")
	must(t, r.s.Put(keyspace.UserKV.Append(nil, pack("k")), []byte("after"), engine.PutOptions{}))
	if n := r.count(&keyspace.KVVersion); n > 0 {
		t.Errorf("%d versions are kept that the tag does not have", n)
	}
	r.put("", "k", "later")
	if got := r.get("tag", "k"); got != "after" {
		t.Errorf("the tag has %q", got)
	}
}

// A sweep writes so much at once and nothing more, and entries that expire meanwhile are purged.
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
		n := r.s.Bytes() - before
		fatalIf(t, n > 16<<20 || err != nil, "a purge writes %d bytes: %v", n, err)
	}
	e, err := raw(r.s, short)
	errorIf(t, err != nil || e != nil, "an entry that has expired is not purged (%v)", err)
}

func TestABranchThatGoesInSlicesTakesNoHistory(t *testing.T) {
	r := newRig(t)
	must(t, errOf(r.s.SetScope(nil, Policy{KeepFor: 1000})))
	r.put("", "j", "old")
	r.fork("b", "")
	for i := range 40 {
		r.put("b", fmt.Sprintf("%02d", i), "v")
	}
	r.turn()
	w, err := r.s.Writer("b")
	must(t, err)
	must(t, errOf(w.DeleteRange(keyspace.UserKV.Range())))
	r.put("", "j", "new")
	then := r.now
	r.remove("b")
	for n := r.count(&keyspace.KVVersion); r.count(&keyspace.KVVersion) == n; {
		r.turn()
		must(t, errOf(r.s.Purge(5)))
	} // a slice; the next one comes when the time of some of the others is over
	r.now = then + 998
	r.turn()
	must(t, errOf(r.s.Purge(200)))
	r.turn()
	v, err := LookBack(r.s, "", then+100, r.s.Version(), r.now)
	must(t, err)
	e, there, err := v.Entry(keyspace.UserKV.Append(nil, pack("j")))
	errorIf(t, err != nil || !there || string(e.Value) != "new", "%q, %v, %v", e.Value, there, err)
}

func TestAMergeOfWhatIsNotKnownIsRefused(t *testing.T) {
	r := newRig(t)
	five := r.put("", "k", "1")
	r.turn()
	must(t, errOf(r.s.Delete(keyspace.UserKV.Append(nil, pack("k")))))
	nine := r.s.Version()
	r.turn()
	now := r.s.Version() - 1
	source, err := Look(r.s, "", five, now, r.now)
	must(t, err)
	base, err := Look(r.s, "", nine, now, r.now)
	must(t, err)
	c := &Common{View: base.Without(r.now)}
	from, to := keyspace.UserKV.Range()
	_, err = Plan(c.rows, rowsIn{source.Without(r.now)}, r.s, c.Differing(source, from, to, 1000), Strict)
	_, is := errors.AsType[*TrimmedError](err)
	errorIf(t, !is, "%v", err)
}
