package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
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

// A shown is the state that a watcher has been told.
type shown struct {
	entries map[string]kv.Entry
	version uint64
	life    string
	nulls   int
}

// keyText is a key as the tests name it.
func keyText(k kv.Key) string {
	text, _ := json.Marshal(k)
	return string(text)
}

// take takes changes up to the first that are of one commit.
func (s *shown) take(t testing.TB, w kv.Watch) error {
	t.Helper()
	if s.entries == nil {
		s.entries = make(map[string]kv.Entry)
	}
	for {
		out, err := w.Next(t.Context())
		if err != nil {
			return err
		}
		if out.Version < s.version {
			t.Errorf("version %d after %d", out.Version, s.version)
		}
		s.version, s.life = out.Version, out.Life
		for i, c := range out.Changes {
			key := keyText(c.Key)
			if i > 0 && keyText(out.Changes[i-1].Key) == key {
				t.Errorf("%s twice in one answer", key)
			}
			before, known := s.entries[key]
			switch {
			case c.Entry == nil:
				s.nulls++
				delete(s.entries, key)
			case known && before.Version == c.Entry.Version:
				t.Errorf("%s is told again", key)
			default:
				s.entries[key] = *c.Entry
			}
		}
		if !out.More {
			return nil
		}
	}
}

// text is the state in one line.
func (s *shown) text() string {
	var b []string
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		b = append(b, key+"="+string(s.entries[key].Value))
	}
	return strings.Join(b, " ")
}

// watch begins to watch actor a.
func (g *stage) watch(w kv.Watching) kv.Watch {
	g.t.Helper()
	watch, err := g.WatchKV(context.Background(), pAddr("a"), w)
	if err != nil {
		g.t.Fatal(err)
	}
	return watch
}

// kv commits mutations to actor a: KEY=VALUE puts, -KEY deletes, -KEY/ deletes the range of a prefix, KEY=VALUE@MS puts for a while.
// Keys have parts with dots between them.
func (g *stage) kv(mutations ...string) (out kv.CommitOutput) {
	g.t.Helper()
	var in kv.CommitInput
	for _, m := range mutations {
		in.Mutations = append(in.Mutations, mutation(m))
	}
	err := g.verb("a", host.KVCommit, in, &out)
	if host.CodeOf(err) == host.NotFound {
		g.must("a", add(1))
		err = g.verb("a", host.KVCommit, in, &out)
	}
	if err != nil {
		g.t.Error(err)
	}
	return out
}

func dotted(name string) kv.Key {
	var k kv.Key
	for part := range strings.SplitSeq(name, ".") {
		k = append(k, part)
	}
	return k
}

func mutation(text string) kv.Mutation {
	key, value, _ := strings.Cut(text, "=")
	if name, ok := strings.CutPrefix(key, "-"); ok {
		if prefix, ok := strings.CutSuffix(name, "/"); ok {
			return kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: dotted(prefix)}}
		}
		return kv.Mutation{Op: "delete", Key: dotted(name)}
	}
	m := kv.Mutation{Op: "put", Key: dotted(key)}
	value, ttl, ok := strings.Cut(value, "@")
	if ok {
		m.TTLMS = new(int64)
		fmt.Sscan(ttl, m.TTLMS)
	}
	m.Value = host.Raw(value)
	return m
}

// told waits for changes and compares the state then.
func (s *shown) told(t *testing.T, w kv.Watch, want string) {
	t.Helper()
	if err := s.take(t, w); err != nil {
		t.Fatal(err)
	}
	if got := s.text(); got != want {
		t.Errorf("told %s, not %s", got, want)
	}
}

// quiet checks that a watcher has nothing to be told.
func quiet(t *testing.T, w kv.Watch) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if out, err := w.Next(ctx); host.CodeOf(err) != host.DeadlineExceeded {
		t.Errorf("told %+v, %v", out, err)
	}
}

func TestWatchersGetWhatIsThereAndThenEachChange(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		early := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true}) // there is no actor yet
		defer early.Close()
		var first shown
		first.told(t, early, "")
		g.kv("user=1", "user.a=2", "users=3", "use=4")
		first.told(t, early, `["use"]=4 ["user","a"]=2 ["user"]=1 ["users"]=3`)

		w := g.watch(kv.Watching{Keys: []kv.Key{{"no"}, {"use"}}, Prefixes: []kv.Key{{"user"}, {"user", "a"}}, Initial: true})
		defer w.Close()
		var s shown
		if s.told(t, w, `["use"]=4 ["user","a"]=2 ["user"]=1`); s.nulls != 1 {
			t.Errorf("%d keys are told absent, not the one that is named", s.nulls)
		}
		later := g.watch(kv.Watching{Keys: []kv.Key{{"use"}}})
		defer later.Close()
		quiet(t, w)
		g.kv("users=5", "us=6", "other=7") // none of it is watched
		quiet(t, w)
		g.kv("use=8", "-user.a", "no=9")
		s.told(t, w, `["no"]=9 ["use"]=8 ["user"]=1`)
		var one shown
		one.told(t, later, `["use"]=8`)
		g.kv("-user/")
		s.told(t, w, `["no"]=9 ["use"]=8`)
		quiet(t, later)
		g.must("a", func(_ *puppet, h host.Turn) error { // what a handler does is told as well
			return h.KVPut(mustPack(t, kv.Key{"use"}), []byte("10"), host.EncodedJSON, time.Time{})
		})
		s.told(t, w, `["no"]=9 ["use"]=10`)
		// A turn that fails has changed nothing, and says nothing.
		if err := g.do("a", func(_ *puppet, h host.Turn) error {
			if err := h.KVPut(mustPack(t, kv.Key{"use"}), []byte("11"), host.EncodedJSON, time.Time{}); err != nil {
				t.Error(err)
			}
			return host.Errorf("no", "no")
		}); err == nil {
			t.Error("the turn did not fail")
		}
		quiet(t, w)
	})
}

func mustPack(t testing.TB, k kv.Key) []byte {
	t.Helper()
	b, err := k.Entry()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := b.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// Defect K21 of KeyVal: a watch of more keys than its limit reports live keys as deleted, as its window shifts. Here there is no window.
func TestK21LiveKeysAreNeverReportedDeleted(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		var all []string
		for i := range 3_000 {
			all = append(all, fmt.Sprintf("k.%05d=0", 2*i))
		}
		g.kv(all...)
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{"k"}}, Initial: true})
		defer w.Close()
		var s shown
		if err := s.take(t, w); err != nil || len(s.entries) != 3_000 {
			t.Fatal(len(s.entries), err)
		}
		for i := range 50 {
			g.kv(fmt.Sprintf("k.%05d=1", 2*i*50+1), fmt.Sprintf("k.%05d=2", 2*i*60))
			if err := s.take(t, w); err != nil || len(s.entries) != 3_001+i || s.nulls != 0 {
				t.Fatal(i, len(s.entries), s.nulls, err)
			}
		}
	})
}

// Defects K21, B20 and L4 of KeyVal: it polls every 100 ms for each key, and the smallest change takes a statement. Here nobody polls: in
// a day of a thousand watchers nothing happens, and the actor sleeps.
func TestL4IdleWatchersDoNothing(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k.0=0")
		ctx, stop := context.WithCancel(t.Context())
		var woken atomic.Int64
		var readers sync.WaitGroup
		for i := range 1_000 {
			w := g.watch(kv.Watching{Keys: []kv.Key{{"k", fmt.Sprint(i)}}})
			readers.Go(func() {
				defer w.Close()
				for {
					if _, err := w.Next(ctx); err != nil {
						return
					}
					woken.Add(1)
				}
			})
		}
		synctest.Wait()
		time.Sleep(24 * time.Hour)
		if st := g.status("a"); st.State != host.Asleep || woken.Load() != 0 {
			t.Errorf("the actor is %s, %d watchers were woken", st.State, woken.Load())
		}
		g.kv("k.7=1", "other=1") // one of the thousand is woken
		synctest.Wait()
		if n := woken.Load(); n != 1 {
			t.Errorf("%d watchers were woken", n)
		}
		stop()
		readers.Wait()
	})
}

// Defect C6 of go-store: a watcher has a buffer of 16 events, and loses what comes when it is full.
func TestC6SlowWatchersEndInTheLastState(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{"k"}}, Initial: true})
		defer w.Close()
		var s shown
		s.told(t, w, "")
		for i := range 100 {
			g.kv(fmt.Sprintf("k.a=%d", i), fmt.Sprintf("k.b%d=%d", i, i))
		}
		g.kv("-k.b3", "-k.b4")
		if err := s.take(t, w); err != nil || len(s.entries) != 99 || string(s.entries[`["k","a"]`].Value) != "99" {
			t.Error(len(s.entries), err)
		}
		quiet(t, w)
		for range 2*1_000 + 1 { // more than it remembers
			g.kv(fmt.Sprintf("k.c%d=0", rand.N(5_000)))
		}
		g.kv("-k/", "k.z=1")
		s.told(t, w, `["k","z"]=1`)
		quiet(t, w)
	})
}

// Defect B19 of KeyVal: its client watches prefixes under a name that the server does not know, and never gets a change. Here an
// input that says nothing is refused.
func TestB19WatchersThatNameNothingAreRefused(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		many := make([]kv.Key, kv.MaxWatchedKeys+1)
		for i := range many {
			many[i] = kv.Key{int64(i)}
		}
		for _, c := range []struct {
			w     kv.Watching
			code  host.Code
			field string
		}{
			{kv.Watching{}, host.InvalidArgument, "keys"},
			{kv.Watching{Keys: []kv.Key{{"a"}, {}}}, host.InvalidArgument, "keys[1]"},
			{kv.Watching{Prefixes: []kv.Key{{"a"}, {1.5, struct{}{}}}}, host.InvalidArgument, "prefixes[1]"},
			{kv.Watching{Prefixes: []kv.Key{nil}}, host.InvalidArgument, "prefixes[0]"},
			{kv.Watching{Keys: many}, host.TooLarge, "keys"},
			{kv.Watching{Prefixes: many[:kv.MaxWatchedPrefixes+1]}, host.TooLarge, "prefixes"},
		} {
			_, err := g.WatchKV(t.Context(), pAddr("a"), c.w)
			if e := wantCode(t, err, c.code); e.Metadata["field"] != c.field {
				t.Errorf("%v names the field %q, not %q", e, e.Metadata["field"], c.field)
			}
		}
		_, err := g.WatchKV(t.Context(), host.Address{Type: "unknown"}, kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.UnknownType)
		watches := make([]kv.Watch, kv.MaxWatchers)
		for i := range watches {
			watches[i] = g.watch(kv.Watching{Keys: []kv.Key{{int64(i)}}})
		}
		_, err = g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.Overloaded)
		for _, w := range watches {
			w.Close()
			w.Close()
		}
		g.watch(kv.Watching{Prefixes: []kv.Key{{}}}).Close()
	})
}

func TestExpiryIsReportedWhenItHappens(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=1@5000", "b=2@3600000", "c=3@5000", "e=5@90000000")
		silent := g.watch(kv.Watching{Prefixes: []kv.Key{{}}}) // it has seen nothing, and still is told what ends
		defer silent.Close()
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		defer w.Close()
		var s, other shown
		s.told(t, w, `["a"]=1 ["b"]=2 ["c"]=3 ["e"]=5`)
		g.kv("c=4@7000")
		s.told(t, w, `["a"]=1 ["b"]=2 ["c"]=4 ["e"]=5`)
		g.mustVerb("a", host.ActorSleep, nil, nil)
		begin := time.Now()
		for _, c := range []struct {
			after time.Duration
			want  string
		}{{5 * time.Second, `["b"]=2 ["c"]=4 ["e"]=5`}, {7 * time.Second, `["b"]=2 ["e"]=5`}, {time.Hour, `["e"]=5`}} {
			if s.told(t, w, c.want); time.Since(begin) != c.after {
				t.Errorf("told %s after %v, not %v", c.want, time.Since(begin), c.after)
			}
			if st := g.status("a"); st.State != host.Asleep && c.after < time.Hour { // then it is purged
				t.Errorf("the actor is %s", st.State)
			}
		}
		if other.told(t, silent, ""); other.nulls != 3 {
			t.Errorf("%d keys are told absent", other.nulls)
		}
		g.kv("-e", "a=6")
		s.told(t, w, `["a"]=6`)
		time.Sleep(48 * time.Hour) // the purge has nothing to tell
		quiet(t, w)
		var in kv.WatchInput
		in.Keys, in.WaitMS = []kv.WatchedKey{{Key: kv.Key{"t"}, Version: g.kv("t=1@2000").Version}}, 60_000
		var out kv.Changes
		begin = time.Now()
		if g.mustVerb("a", host.KVWatch, in, &out); len(out.Changes) != 1 || out.Changes[0].Entry != nil || time.Since(begin) != 2*time.Second {
			t.Errorf("%+v after %v", out, time.Since(begin))
		}
	})
}

func TestWatchersOutliveSleepAndEndWithTheLifeOfTheActor(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=1")
		w := g.watch(kv.Watching{Keys: []kv.Key{{"a"}}, Initial: true})
		var s shown
		s.told(t, w, `["a"]=1`)
		for i := range 3 {
			g.mustVerb("a", host.ActorSleep, nil, nil)
			quiet(t, w)
			g.kv(fmt.Sprintf("a=%d", i+2))
			s.told(t, w, fmt.Sprintf(`["a"]=%d`, i+2))
		}
		if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		g.kv("a=7") // of another life, as which it must not be told
		_, err := w.Next(t.Context())
		wantCode(t, err, host.Destroyed)
		w.Close()
		w = g.watch(kv.Watching{Keys: []kv.Key{{"a"}}, Initial: true})
		var next shown
		if next.told(t, w, `["a"]=7`); next.life == s.life {
			t.Error("two lives have one id")
		}
		g.crash()
		_, err = w.Next(t.Context())
		wantCode(t, err, host.Unavailable)
		w.Close()
		w = g.watch(kv.Watching{Keys: []kv.Key{{"a"}}, Initial: true})
		defer w.Close()
		var after shown
		after.told(t, w, `["a"]=7`)
	})
}

func TestWatchersAreToldLargeStatesInParts(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		value := `"` + strings.Repeat("x", 1<<20-100) + `"`
		for i := range 40 {
			g.kv(fmt.Sprintf("k.%02d=%s", i, value))
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true, Stored: true})
		defer w.Close()
		parts := 0
		for more := true; more; parts++ {
			out, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if parts == 0 {
				g.kv("-k.01", "l=1") // while it reads
			}
			more = out.More
			for _, c := range out.Changes {
				if parts > 0 && keyText(c.Key) == `["k","01"]` && c.Entry != nil {
					t.Error("a key is told again that is gone")
				}
			}
		}
		if parts != 3 {
			t.Errorf("%d parts", parts)
		}
		quiet(t, w)
		other := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		defer other.Close()
		var s shown
		if err := s.take(t, other); err != nil || len(s.entries) != 40 {
			t.Error(len(s.entries), err)
		}
	})
}

func TestLongPollAnswersWithWhatTheCallerHasNotSeen(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		watch := func(wait int64, life string, keys ...kv.WatchedKey) (text string, out kv.Changes) {
			t.Helper()
			g.mustVerb("a", host.KVWatch, kv.WatchInput{Keys: keys, WaitMS: wait, Life: life}, &out)
			for _, c := range out.Changes {
				value := "null"
				if c.Entry != nil {
					value = string(c.Entry.Value)
				}
				text += keyText(c.Key) + "=" + value + " "
			}
			return strings.TrimSpace(text), out
		}
		key := func(name string, version uint64) kv.WatchedKey {
			return kv.WatchedKey{Key: dotted(name), Version: version}
		}
		if got, out := watch(0, "", key("a", 0), key("b", 7)); got != `["b"]=null` || out.Life != "" {
			t.Error(got, out)
		}
		v := g.kv("a=1", "b=2").Version
		got, out := watch(60_000, "", key("a", v), key("b", 0), key("c", 0))
		if got != `["b"]=2` || out.Version != v {
			t.Error(got, out)
		}
		g.mustVerb("a", host.ActorSleep, nil, nil)
		begin := time.Now()
		if got, out = watch(60_000, out.Life, key("a", v), key("b", v)); got != "" || out.Changes == nil || out.Version != v || time.Since(begin) != time.Minute {
			t.Error(got, out, time.Since(begin))
		}
		if st := g.status("a"); st.State != host.Asleep {
			t.Errorf("the actor is %s", st.State)
		}
		time.AfterFunc(3*time.Second, func() { g.kv("b=3", "d=4") })
		begin = time.Now()
		if got, out = watch(60_000, out.Life, key("a", v), key("b", v)); got != `["b"]=3` || time.Since(begin) != 3*time.Second {
			t.Error(got, out, time.Since(begin))
		}
		if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		// The next life has the same version: the life tells them apart.
		for last := uint64(0); last < v; {
			last = g.kv("a=9").Version
		}
		if got, _ = watch(0, "", key("a", v)); got != "" {
			t.Error(got)
		}
		if got, _ = watch(0, out.Life, key("a", v), key("b", 0)); got != `["a"]=9` {
			t.Error(got)
		}
		time.AfterFunc(time.Second, func() { g.Destroy(context.Background(), pAddr("a")) })
		err := g.verb("a", host.KVWatch, kv.WatchInput{Keys: []kv.WatchedKey{key("a", v)}, WaitMS: 60_000}, nil)
		wantCode(t, err, host.Destroyed)
		g.must("b", func(_ *puppet, h host.Turn) error {
			_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.KVWatch, Codec: host.JSON, Input: []byte(`{"keys":[{"key":["x"]}],"wait_ms":5}`)})
			wantCode(t, err, host.InvalidArgument)
			return nil
		})
		time.AfterFunc(time.Second, g.EndWaits)
		err = g.verb("a", host.KVWatch, kv.WatchInput{Keys: []kv.WatchedKey{key("a", 0)}, WaitMS: 60_000}, nil)
		wantCode(t, err, host.Unavailable)
	})
}

// Writers change pairs of entries at random, each pair together, while actors sleep and watchers read now and then. What a watcher
// knows is never half of a commit, and in the end it is what is stored.
func TestWatchersEndWithWhatIsStored(t *testing.T) {
	for seed := range uint64(6) {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			random := rand.New(rand.NewPCG(seed, 14))
			var writers sync.WaitGroup
			for range 3 {
				r := rand.New(rand.NewPCG(seed, random.Uint64()))
				writers.Go(func() {
					for range 150 {
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
			for i := range 100 {
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
