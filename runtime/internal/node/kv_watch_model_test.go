package node

import (
	"context"
	"errors"
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
	"github.com/cairn-run/cairn/engine"
)

// Writers change pairs of entries at random, each pair together, while actors sleep and watchers read now and then. What a watcher
// knows is never half of a commit, and in the end it is what is stored.
func TestWatchersEndWithWhatIsStored(t *testing.T) {
	for seed := range uint64(3) {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			random := rand.New(rand.NewPCG(seed, 14))
			var writers sync.WaitGroup
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
			type follower struct {
				at kv.Watching
				shown
			}
			var followers []*follower
			var readers sync.WaitGroup
			for i := range 12 {
				f := &follower{at: kv.Watching{Initial: true}}
				switch i % 4 {
				case 0:
					f.at.Prefixes = []kv.Key{{}}
				case 1:
					f.at.Prefixes = []kv.Key{{"x", "g1"}, {"y", "g1"}}
				case 2:
					for n := range 12 {
						f.at.Keys = append(f.at.Keys, kv.Key{"x", "g0", fmt.Sprint("n", n)}, kv.Key{"y", "g0", fmt.Sprint("n", n)})
					}
				case 3:
					f.at.Keys, f.at.Prefixes = []kv.Key{{"x", "g2", "n1"}, {"y", "g2", "n1"}}, []kv.Key{{"x", "g0"}, {"y", "g0"}}
				}
				followers = append(followers, f)
				r := rand.New(rand.NewPCG(seed, random.Uint64()))
				readers.Go(func() {
					time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
					w := g.watch(f.at)
					defer w.Close()
					for {
						out, err := w.Next(ctx)
						if err != nil {
							return
						}
						if f.entries == nil {
							f.entries = make(map[string]kv.Entry)
						}
						for _, c := range out.Changes {
							if delete(f.entries, keyText(c.Key)); c.Entry != nil {
								f.entries[keyText(c.Key)] = *c.Entry
							}
						}
						for key, e := range f.entries {
							twin := strings.NewReplacer(`["x"`, `["y"`, `["y"`, `["x"`).Replace(key)
							if o, there := f.entries[twin]; !there || o.Version != e.Version {
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
			for i, f := range followers {
				want := make(map[string]uint64)
				for _, key := range f.at.Keys {
					var out kv.GetOutput
					if g.mustVerb("a", host.KVGet, kv.GetInput{Key: key}, &out); out.Entry != nil {
						want[keyText(key)] = out.Entry.Version
					}
				}
				for _, prefix := range f.at.Prefixes {
					var out kv.ListOutput
					g.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: prefix}, Limit: 1000}, &out)
					for _, e := range out.Entries {
						want[keyText(e.Key)] = e.Version
					}
				}
				got := make(map[string]uint64)
				for key, e := range f.entries {
					got[key] = e.Version
				}
				if !maps.Equal(got, want) {
					t.Errorf("seed %d, watcher %d knows %v, and %v is stored", seed, i, got, want)
				}
			}
		})
	}
}

// A large commit leaves it to its many watchers to find out whether it concerns them.
func TestManyWatchersOfALargeCommit(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k.0=0", "k.1=1")
		watches, states := make([]kv.Watch, 300), make([]shown, 300)
		for i := range watches {
			at := kv.Watching{Keys: []kv.Key{{"k", fmt.Sprint(i)}}}
			if i%3 == 0 {
				at = kv.Watching{Prefixes: []kv.Key{{"k", fmt.Sprint(i)}}}
			}
			watches[i] = g.watch(at)
			defer watches[i].Close()
		}
		var in []string
		for i := range 200 {
			in = append(in, fmt.Sprintf("k.%d=x", i+100))
		}
		for i := range in {
			in[i] = strings.Replace(in[i], "x", fmt.Sprint(i), 1)
		}
		g.kv(append(in, "-k.1/")...)
		for i, w := range watches {
			switch {
			case i >= 100:
				states[i].told(t, w, fmt.Sprintf(`["k","%d"]=%d`, i, i-100))
			case i == 1:
				if states[i].told(t, w, ""); states[i].nulls != 1 {
					t.Error("the key that was deleted is not told")
				}
			default:
				quiet(t, w)
			}
		}
		for range 2 * 17 { // more than a watch holds
			g.kv(in...)
		}
		if err := states[150].take(t, watches[150]); err != nil || states[150].text() != `["k","150"]=50` {
			t.Error(states[150].text(), err)
		}
		quiet(t, watches[5])
	})
}

// What a watcher is told is on the disk: whenever the power fails, the store has it, or what came after.
func TestWatchersAreToldWhatIsDurable(t *testing.T) {
	puppets := &puppetType{name: "p"}
	type clone struct {
		disk *engine.Disk
		told uint64
	}
	bubble(t, nil, []*puppetType{puppets}, func(t *testing.T, g *stage) {
		g.kv("n=0")
		w := g.watch(kv.Watching{Keys: []kv.Key{{"n"}}, Initial: true})
		var told atomic.Uint64
		var clones []clone
		g.cuts(func(left *engine.Disk) { clones = append(clones, clone{left, told.Load()}) }, func() {
			var reader sync.WaitGroup
			reader.Go(func() {
				for {
					out, err := w.Next(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if told.Store(out.Changes[0].Entry.Version); string(out.Changes[0].Entry.Value) == "20" {
						return
					}
				}
			})
			for i := range 20 {
				g.kv(fmt.Sprintf("n=%d", i+1))
			}
			reader.Wait()
		})
		w.Close()
		for i, c := range clones {
			m := stageOn(t, c.disk, nil, puppets)
			var out kv.GetOutput
			if m.mustVerb("a", host.KVGet, kv.GetInput{Key: kv.Key{"n"}}, &out); out.Entry == nil || out.Entry.Version < c.told {
				t.Errorf("crash %d: %+v is stored, and a watcher was told %d", i, out.Entry, c.told)
			}
			m.stop()
		}
	})
}

// While the disk is slow nothing of a commit is told, and when it fails nothing of it ever is.
func TestWatchersOfADiskThatFailsAreToldNothing(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("n=0")
		w, poll := g.watch(kv.Watching{Keys: []kv.Key{{"n"}}, Initial: true}), make(chan error, 1)
		defer w.Close()
		var s shown
		s.told(t, w, `["n"]=0`)
		synced := make(chan error)
		g.disk.Fail(func(op, _ string) error {
			if op == "sync" {
				return <-synced
			}
			return nil
		})
		put := func() error {
			return g.verb("a", host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{mutation("n=1")}}, nil)
		}
		done := make(chan error, 1)
		go func() { done <- put() }()
		synctest.Wait()
		quiet(t, w)
		go func() {
			poll <- g.verb("a", host.KVWatch, kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"n"}}}}, nil)
		}()
		synctest.Wait()
		close(synced)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := <-poll; err != nil {
			t.Error(err)
		}
		s.told(t, w, `["n"]=1`)
		g.disk.Fail(func(op, _ string) error {
			if op == "sync" {
				return errors.New("the disk is gone")
			}
			return nil
		})
		wantCode(t, put(), host.Unavailable)
		quiet(t, w)
		other := g.watch(kv.Watching{Keys: []kv.Key{{"n"}}, Initial: true})
		defer other.Close()
		_, err := other.Next(t.Context())
		wantCode(t, err, host.Unavailable)
		g.disk.Fail(nil)
		g.crash()
	})
}

// Reads of an actor that sleeps do not wake it, whatever else goes on with it.
func TestReadsBesideSleepAndDestructionAreWhole(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		var writers sync.WaitGroup
		var over atomic.Bool
		writers.Go(func() {
			defer over.Store(true)
			for i := range 40 {
				g.kv(fmt.Sprintf("a=%d", i), fmt.Sprintf("b=%d", i))
				switch i % 5 {
				case 1, 2:
					_ = g.verb("a", host.ActorSleep, nil, nil)
				case 4:
					if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Millisecond)
			}
		})
		for range 4 {
			writers.Go(func() {
				for !over.Load() {
					var out kv.GetManyOutput
					g.mustVerb("a", host.KVGetMany, kv.GetManyInput{Keys: []kv.Key{{"a"}, {"b"}}}, &out)
					if a, b := out.Entries[0], out.Entries[1]; (a == nil) != (b == nil) || a != nil && string(a.Value) != string(b.Value) {
						t.Errorf("%+v and %+v", a, b)
					}
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		writers.Wait()
	})
}
