package kvrows

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

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
			g := newGardener(t, seed, 77)
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
				g.remember()
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
					pins = append(pins, g.pin())
				}
				g.remember()
				if len(pins) > 0 {
					g.reads(pins[g.rnd.IntN(len(pins))], g.name())
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

// remember notes what the branches are at this version.
func (g *gardener) remember() {
	for _, b := range g.branches {
		b.was[g.s.Version()] = maps.Clone(b.state)
	}
}

// pin pins the present for a while.
func (g *gardener) pin() *pinned {
	g.now++
	g.s.Advance(g.now)
	d := int64(1 + g.rnd.IntN(60))
	v, err := g.s.Pin(time.Duration(d) * time.Millisecond)
	must(g.t, err)
	p := &pinned{v, g.now + d, map[string]state{}}
	for name, b := range g.branches {
		p.was[name] = b.living(g.now)
	}
	return p
}

// reads checks what a pin shows of a branch.
func (g *gardener) reads(p *pinned, name string) {
	g.t.Helper()
	want, had := p.was[name]
	if !had || g.now >= p.until {
		return
	}
	v, err := Look(g.s, name, p.version, g.s.Version(), g.now)
	must(g.t, err)
	from, to := keyspace.UserKV.Range()
	got := state{}
	for f, err := range v.All(from, to, false) {
		must(g.t, err)
		got[string(f.Key)] = held{string(f.Value), f.Expire}
	}
	if !maps.Equal(got, want) {
		g.t.Fatalf("pin %d of %q is %v, want %v", p.version, name, got, want)
	}
}

// Beside tags and pins a history of a time or a number of versions leaves what these may read, and once it is over nothing else.
func TestReadersKeepWhatTheyMayReadAndNoMore(t *testing.T) {
	for seed := range seeds(6, 150) {
		g := newGardener(t, seed, 991)
		must(t, g.space.SetLimits(&engine.Limits{ListEntries: 12}))
		for _, scope := range [][]byte{nil, pack("a")}[:1+seed%2] {
			must(t, errOf(g.s.SetScope(scope, Policy{KeepVersions: int64(g.rnd.IntN(3)), KeepFor: int64(1 + g.rnd.IntN(60))})))
		}
		for range 3 {
			var pins []*pinned
			for range 60 {
				if g.rnd.IntN(12) == 0 {
					g.mess()
				}
				g.turn()
				g.s.Advance(g.now)
				g.remember()
				g.points("after the turn")
				g.check()
				if len(pins) < 9 && g.rnd.IntN(12) == 0 {
					pins = append(pins, g.pin())
					g.remember()
				}
				if n := len(pins); n > 0 && g.rnd.IntN(40) == 0 {
					g.now++
					g.s.Advance(g.now)
					must(t, errOf(g.s.Unpin(pins[n-1].version)))
					pins = pins[:n-1]
					g.remember()
				}
				for _, p := range pins {
					for name := range g.branches {
						g.reads(p, name)
					}
				}
			}
			g.rest()
			g.points("at rest")
			g.idle()
		}
		g.clear(true)
		g.rest()
		if g.clear(false); t.Failed() {
			t.Fatal("seed", seed)
		}
	}
}

// rest lets the purges happen as they are armed, until there is none.
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

// A purge of more than a turn may write ends, also after a turn that was undone.
func TestLongHistoriesArePurgedInSteps(t *testing.T) {
	space, rows := openRows(t)
	must(t, space.SetLimits(&engine.Limits{MaxWriteSet: 10 << 20}))
	for _, branch := range []string{"b", ""} {
		r := &rig{t: t, s: Of(rows, new(Scopes)), now: 1_000_000}
		r.turn()
		must(t, errOf(r.s.SetScope(nil, Policy{KeepFor: 1 << 40})))
		if branch != "" {
			r.fork(branch, "")
		}
		long := strings.Repeat("k", 2000)
		for i := range 2800 {
			r.put(branch, long, "v")
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
			t.Errorf("%d versions of %q are left", n, branch)
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

// A tag reads what the turn writes that makes it, and needs nothing older.
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
