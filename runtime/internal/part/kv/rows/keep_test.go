package kvrows

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// pinned is a version that is kept until a time, and what the branches had.
type pinned struct {
	version engine.Version
	until   int64
	was     map[string]state
}

// wild undoes turns, changes what is kept, and looks for what has to be kept.
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
		want, had := p.was[name]
		if !had || g.now >= p.until {
			continue
		}
		v, err := Look(g.s, name, p.version, g.s.Version(), g.now)
		must(g.t, err)
		got := g.all(v)
		fatalIf(g.t, !maps.Equal(got, want), "pin %d of %q is %v, want %v", p.version, name, got, want)
	}
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

// rule changes what is kept of some keys, or pins what there is.
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
		d := int64(1 + g.rnd.IntN(60))
		v, err := g.s.Pin(time.Duration(d) * time.Millisecond)
		must(g.t, err)
		p := pinned{v, g.now + d, map[string]state{}}
		for name, b := range g.branches {
			p.was[name] = b.living(g.now)
		}
		g.pins = append(g.pins, p)
	}
	g.remember()
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

// points checks what each branch was when another was forked from it.
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
		n := r.s.Bytes() - before
		fatalIf(t, n > 16<<20 || err != nil, "a purge writes %d bytes: %v", n, err)
	}
	e, err := raw(r.s, short)
	errorIf(t, err != nil || e != nil, "an entry that has expired is not purged (%v)", err)
}
