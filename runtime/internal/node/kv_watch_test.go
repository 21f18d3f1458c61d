package node

import (
	"context"
	"encoding/json"
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
		for range 21 { // more than it remembers
			var all []string
			for range 100 {
				all = append(all, fmt.Sprintf("k.c%d=0", rand.N(5_000)))
			}
			g.kv(all...)
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
		g.divided()
		for i := range 40 {
			g.large(fmt.Sprintf("k.%02d", i), 0)
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

func TestWatchersOfTooMuchAreToldSo(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		many := make([]string, kv.MaxWatchedEntries/smaller+1)
		for n := range many {
			many[n] = fmt.Sprintf("k.%06d=1", n)
		}
		g.kv(many...)
		_, err := g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{"k"}}})
		wantCode(t, err, host.TooLarge)
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{"k"}}, Initial: true})
		defer w.Close()
		for {
			out, err := w.Next(t.Context())
			if err != nil {
				wantCode(t, err, host.TooLarge)
				break
			}
			if !out.More {
				t.Fatal("told all")
			}
		}
		g.kv("-k.000000")
		_, err = w.Next(t.Context())
		wantCode(t, err, host.TooLarge)
		_, err = g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{"k"}}})
		if err != nil {
			t.Error(err)
		}
	})
}
