package node

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// Writers change pairs of entries at random, each pair together, while actors sleep and watchers read now and then. What a watcher
// knows is never half of a commit, and in the end it is what is stored.
func TestWatchersEndWithWhatIsStored(t *testing.T) {
	var named kv.Watching
	for n := range 12 {
		named.Keys = append(named.Keys, kv.Key{"x", "g0", fmt.Sprint("n", n)}, kv.Key{"y", "g0", fmt.Sprint("n", n)})
	}
	watched := []kv.Watching{
		{Prefixes: []kv.Key{{}}},
		{Prefixes: []kv.Key{{"x", "g1"}, {"y", "g1"}}},
		named,
		{Keys: []kv.Key{{"x", "g2", "n1"}, {"y", "g2", "n1"}}, Prefixes: []kv.Key{{"x", "g0"}, {"y", "g0"}}},
	}
	for seed := range uint64(3) {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			random := rand.New(rand.NewPCG(seed, 14))
			var writers, readers sync.WaitGroup
			for range 3 {
				r := rand.New(rand.NewPCG(seed, random.Uint64()))
				writers.Go(func() {
					for range 100 {
						time.Sleep(time.Duration(r.IntN(3)) * 10 * time.Millisecond)
						group, name := fmt.Sprintf("g%d", r.IntN(3)), fmt.Sprintf("n%d", r.IntN(12))
						x, y := "x."+group+"."+name, "y."+group+"."+name
						switch n := r.IntN(10); {
						case n < 6:
							g.kv(x+"="+fmt.Sprint(n), y+"="+fmt.Sprint(n))
						case n < 7:
							ttl := fmt.Sprint("@", 1+r.IntN(300))
							g.kv(x+"=1"+ttl, y+"=1"+ttl)
						case n < 8:
							g.kv("-"+x, "-"+y)
						case n < 9:
							g.kv("-x."+group+"/", "-y."+group+"/")
						default:
							_ = g.verb("a", host.ActorSleep, nil, nil)
						}
					}
				})
			}
			ctx, stop := context.WithCancel(t.Context())
			watchers := make([]*watcher, 12)
			for i := range watchers {
				r := rand.New(rand.NewPCG(seed, random.Uint64()))
				readers.Go(func() {
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
					at := watched[i%4]
					at.Initial = true
					w := g.watch(at)
					watchers[i] = w
					defer w.Close()
					for {
						if _, err := w.next(ctx); err != nil {
							return
						}
						for key, e := range w.known {
							twin := strings.NewReplacer("x.", "y.", "y.", "x.").Replace(key)
							if o, there := w.known[twin]; !there || o.Version != e.Version {
								t.Errorf("%s is of version %d, %s of %d", key, e.Version, twin, o.Version)
							}
						}
						time.Sleep(time.Duration(r.IntN(4)) * 50 * time.Millisecond)
					}
				})
			}
			writers.Wait()
			time.Sleep(time.Minute) // everything that expires has, and the readers have read
			synctest.Wait()
			stop()
			readers.Wait()
			for i, w := range watchers {
				want := make(map[string]uint64)
				for _, prefix := range append(watched[i%4].Keys, watched[i%4].Prefixes...) {
					for key, e := range g.stored(prefix...) {
						want[key] = e.Version
					}
				}
				got := make(map[string]uint64)
				for key, e := range w.known {
					got[key] = e.Version
				}
				errorIf(t, !maps.Equal(got, want), "seed %d, watcher %d knows %v, and %v is stored", seed, i, got, want)
			}
		})
	}
}

// Reads of an actor that sleeps do not wake it, whatever else goes on with it.
func TestReadsBesideSleepAndDestructionAreWhole(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		var all sync.WaitGroup
		var over atomic.Bool
		all.Go(func() {
			defer over.Store(true)
			for i := range 40 {
				g.kv(fmt.Sprintf("a=%d", i), fmt.Sprintf("b=%d", i))
				switch i % 5 {
				case 1, 2:
					_ = g.verb("a", host.ActorSleep, nil, nil)
				case 4:
					check(t, g.Destroy(context.Background(), pAddr("a")))
				}
				time.Sleep(time.Millisecond)
			}
		})
		for range 4 {
			all.Go(func() {
				for ; !over.Load(); time.Sleep(100 * time.Microsecond) {
					var out kv.GetManyOutput
					g.mustVerb("a", host.KVGetMany, kv.GetManyInput{Keys: []kv.Key{{"a"}, {"b"}}}, &out)
					if a, b := out.Entries[0], out.Entries[1]; (a == nil) != (b == nil) || a != nil && string(a.Value) != string(b.Value) {
						t.Errorf("%+v and %+v", a, b)
					}
				}
			})
		}
		all.Wait()
	})
}

// Writers change entries at random while the actor sleeps, the node restarts and the power fails. Each follower reads every event
// once, and the events make what is stored.
func TestFollowersKnowWhatIsStored(t *testing.T) {
	steps := 150
	if long() {
		steps = 1000
	}
	for seed := range uint64(2) {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			r := rand.New(rand.NewPCG(seed, 15))
			g.kv("start=1", "-start")
			g.logs(kv.ScopePolicy{})
			followers := []*follower{followerFrom(0), followerFrom(0, kv.Key{"x", "n1"}, kv.Key{"y"}), followerFrom(0, kv.Key{"x"})}
			for i := range steps {
				key := fmt.Sprintf("%s.n%d.m%d", []string{"x", "y"}[r.IntN(2)], r.IntN(4), r.IntN(3))
				switch n := r.IntN(20); {
				case n < 8:
					g.kv(key+"="+fmt.Sprint(i), key+".z="+fmt.Sprint(i))
				case n < 11:
					g.kv(key + fmt.Sprintf("=1@%d", 1+r.IntN(3000)))
				case n < 13:
					g.kv("-" + key)
				case n < 15:
					g.kv("-" + key[:4] + "/")
				case n < 16:
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				case n < 17:
					_ = g.verb("a", host.ActorSleep, nil, nil)
				case n < 18:
					g.restart()
				case n < 19:
					g.cut(seed, r.IntN(100))
				default:
					check(t, followers[r.IntN(len(followers))].read(g, 0))
				}
			}
			time.Sleep(time.Hour) // everything that expires has
			for i, f := range followers {
				f.readAll(g)
				want := make(map[string]kv.Entry)
				for _, prefix := range f.in.Prefixes {
					maps.Copy(want, g.stored(prefix...))
				}
				if f.in.Prefixes == nil {
					want = g.stored()
				}
				if !maps.Equal(f.made, values(want)) || len(f.gaps) > 0 {
					t.Errorf("the events of follower %d make %v of %v, with gaps %v", i, f.made, values(want), f.gaps)
				}
			}
		})
	}
}
