package kvrows

import (
	"errors"
	"fmt"
	"maps"
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
						fatalIf(t, !maps.Equal(got, want), "pin %d of %q is %v, want %v", p.version, name, got, want)
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
