package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvpart "github.com/cairn-run/cairn/runtime/internal/part/kv"
)

// Writers change pairs of entries at random, each pair together, while actors sleep and watchers
// read now and then. A watcher never has half of a commit, and in the end it has the stored
// entries.
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

// Reads of a sleeping actor do not wake it, regardless of other work on it.
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

// Writers change entries at random while the actor sleeps, the node restarts and the power fails.
// Each follower reads every event once, and the events give the stored entries.
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

// Queries read entries from memory as they are in their commit, regardless of the changes: puts,
// deletes, ranges, expiry, rollbacks, waking up again and an actor of the same name.
func TestEntriesThatAreReadFromMemoryAreThoseOfTheCommit(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	random := rand.New(rand.NewPCG(1, 2))
	past := time.Now().Add(-time.Hour)
	model := make(map[string]string)
	commit := func(m ...kv.Mutation) {
		t.Helper()
		g.mustVerb("a", host.KVCommit, kv.CommitInput{Mutations: m}, new(kv.CommitOutput))
	}
	for step := range 4000 {
		name := fmt.Sprint(random.IntN(30))
		switch key := (kv.Key{"k", name}); random.IntN(400) {
		case 0:
			clear(model)
			commit(kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: kv.Key{"k"}}})
		case 1:
			g.crash()
		case 2:
			clear(model)
			g.destroy("a")
			g.must("a", add(1))
		case 3, 4, 5, 6, 7, 8, 9, 10:
			delete(model, name)
			commit(kv.Mutation{Op: "delete", Key: key})
		case 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30:
			model[name] = fmt.Sprint(step)
			commit(kv.Mutation{Op: "put", Key: key, Value: host.Raw(model[name])})
		case 31, 32, 33, 34:
			delete(model, name)
			commit(kv.Mutation{Op: "put", Key: key, Value: host.Raw("1"), Expires: &past})
		case 35, 36, 37, 38:
			for _, d := range undone(mustPack(t, key)) {
				_ = g.do("a", d)
			}
		default:
			var out kv.GetOutput
			g.mustVerb("a", host.KVGet, kv.GetInput{Key: key}, &out)
			got := ""
			if out.Entry != nil {
				got = string(out.Entry.Value)
			}
			fatalIf(t, got != model[name], "step %d: %s is %q and not %q", step, name, got, model[name])
		}
	}
}

// undone are turns that change an entry, and whose change is undone.
func undone(key []byte) map[string]deed {
	no := errors.New("no")
	put := func(h host.Turn) error { return h.KVPut(key, []byte("never"), host.EncodedText, time.Time{}) }
	return map[string]deed{
		"a put": func(_ *puppet, h host.Turn) error { return errors.Join(put(h), no) },
		"a range": func(_ *puppet, h host.Turn) error {
			_, err := h.KVDeleteRange(nil, nil)
			return errors.Join(put(h), err, no)
		},
		"an update": func(_ *puppet, h host.Turn) error {
			end, err := h.(kv.Committer).KVUpdate()
			if err != nil {
				return err
			}
			if undone, err := end(errors.Join(put(h), no)); !undone {
				return err
			}
			return nil
		},
	}
}

// A turn that was undone leaves memory as useful as before: the next read of its keys is cached.
func TestATurnThatWasUndoneKeepsNothingFromBeingRemembered(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	key := kv.Key{"k"}
	commit := kv.CommitInput{Mutations: []kv.Mutation{{Op: "put", Key: key, Value: host.Raw("1")}}}
	g.mustVerb("a", host.KVCommit, commit, new(kv.CommitOutput))
	remembered := &kernel.PartOf[*kvpart.Part](g.Kernel).Remembered
	read := func() int64 {
		g.mustVerb("a", host.KVGet, kv.GetInput{Key: key}, new(kv.GetOutput))
		return remembered.Load()
	}
	want := read()
	for name, d := range undone(mustPack(t, key)) {
		_ = g.do("a", d)
		errorIf(t, remembered.Load() >= want, "%s: the entry is remembered though the turn may change it", name)
		same(t, read(), want, name, "bytes are remembered after it")
	}
}

// A query that begins after a commit was acknowledged never reads older entries from memory.
func TestEntriesThatAreReadFromMemoryAreNotBehindTheCommit(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	const commits = 60
	var done atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for at := int64(0); at < commits; {
				at = done.Load()
				var out kv.GetOutput
				if err := g.verb("a", host.KVGet, kv.GetInput{Key: kv.Key{"n"}}, &out); err != nil {
					t.Error(err)
					return
				}
				n := int64(0)
				if out.Entry != nil {
					n, _ = strconv.ParseInt(string(out.Entry.Value), 10, 64)
				}
				errorIf(t, n < at, "read %d after the commit of %d", n, at)
			}
		})
	}
	for n := range int64(commits) {
		add := kv.Mutation{Op: "sum", Key: kv.Key{"n"}, Value: host.Raw("1")}
		g.mustVerb("a", host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{add}}, new(kv.CommitOutput))
		done.Store(n + 1)
	}
	wg.Wait()
}

// A query goes on reading the commit that it began with, even if it has read nothing when the next
// one is made.
func TestAQueryReadsTheCommitThatItBeganWith(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	keys := []string{"changed", "deleted", "added", "long", "kept"}
	set := func(values ...string) {
		t.Helper()
		g.must("a", func(_ *puppet, h host.Turn) error {
			for i, v := range values {
				key := tuple.AppendString(nil, keys[i])
				if v == "" {
					if _, err := h.KVDelete(key); err != nil {
						return err
					}
				} else if err := h.KVPut(key, []byte(v), host.EncodedText, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	long := strings.Repeat("x", 100_000)
	set("one", "one", "", long, "one")
	if err := g.look("a", func(_ *puppetState, r host.Reader) error {
		set("two", "", "two", long[1:])
		for i, want := range []string{"one", "one", "", long, "one"} {
			e, ok, err := r.KVGet(tuple.AppendString(nil, keys[i]))
			if string(e.Value) != want || ok != (want != "") || err != nil {
				t.Errorf("%s is %.10q, %v and not %.10q", keys[i], e.Value, err, want)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// Queries that run at once share a snapshot. Entries that have expired since the first of them took
// it are absent for the others.
func TestAnExpiredEntryIsAbsentBesideAnOlderQuery(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		soon := time.Now().Add(time.Second)
		g.mustVerb("a", host.KVCommit,
			kv.CommitInput{Mutations: []kv.Mutation{{Op: "put", Key: kv.Key{"k"}, Value: host.Raw("1"), Expires: &soon}}}, nil)
		list := func() (n int) {
			var out kv.ListOutput
			g.mustVerb("a", host.KVList, kv.ListInput{}, &out)
			return len(out.Entries)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // nothing is purged in the meantime
			g.must("a", func(*puppet, host.Turn) error { time.Sleep(3 * time.Second); return nil })
		})
		synctest.Wait()
		wg.Go(func() {
			if err := g.look("a", func(_ *puppetState, r host.Reader) error {
				defer time.Sleep(2 * time.Second)
				return r.KVList(host.KVQuery{}, new(host.KVPage))
			}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		same(t, list(), 1, "entries before one expires")
		time.Sleep(time.Second)
		same(t, list(), 0, "entries after it has expired")
		wg.Wait()
	})
}

// The listing of a query that has ended does not keep files that the store has replaced, even if
// another query reads the same commit.
func TestAListingThatHasEndedKeepsNoFiles(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", func(_ *puppet, h host.Turn) error {
			for i := range 100 {
				random := rand.New(rand.NewPCG(uint64(i), 0))
				value := make([]byte, 1000)
				for i := range value {
					value[i] = byte(random.Uint32())
				}
				if err := h.KVPut(packed("k", i), value, host.EncodedBytes, time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		files := func() uint64 {
			must(t, g.store.Compact(t.Context()))
			time.Sleep(time.Second) // replaced files are removed in that time
			return g.store.Metrics().DiskBytes
		}
		before := files()
		other, end := make(chan error), make(chan struct{})
		go func() {
			other <- g.look("a", func(_ *puppetState, r host.Reader) error {
				_, _, err := r.KVGet(packed("no", 0))
				<-end
				return err
			})
		}()
		synctest.Wait()
		if err := g.look("a", func(_ *puppetState, r host.Reader) error {
			var page host.KVPage
			for range 3 {
				if err := r.KVList(host.KVQuery{After: page.Next, Limit: 10}, &page); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		g.must("a", func(_ *puppet, h host.Turn) error {
			return h.KVPut(packed("k", 0), []byte("x"), host.EncodedBytes, time.Time{})
		})
		if after := files(); after > before+50_000 { // the values have 100,000
			t.Errorf("%d bytes of files, %d before", after, before)
		}
		close(end)
		check(t, <-other)
	})
}
