package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	kvpart "github.com/cairn-run/cairn/runtime/internal/part/kv"
)

// smaller is by what the bounds of watchers are smaller, where tests divide them: what reads JSON takes its time under the race
// detector.
const smaller = 64

// divided makes the bounds of watchers smaller. An event has room for 16 values of large.
func (g *stage) divided() { kernel.PartOf[*kvpart.Part](g.Kernel).Divide(smaller) }

// large puts a JSON value of nearly 16 KiB, as a handler does.
func (g *stage) large(name string, n int) {
	g.t.Helper()
	g.must("a", func(_ *puppet, h host.Turn) error {
		return h.KVPut(mustPack(g.t, dotted(name)), []byte(`"`+strings.Repeat("x", (1<<20)/smaller-200)+fmt.Sprint(n)+`"`), host.EncodedJSON, time.Time{})
	})
}

// longKeys puts entries whose keys are a text so many times and a number.
func (g *stage) longKeys(entries int, text string, times int) {
	g.t.Helper()
	long := strings.Repeat(text, times)
	g.must("a", func(_ *puppet, h host.Turn) error {
		for i := range entries {
			if err := h.KVPut(mustPack(g.t, kv.Key{fmt.Sprintf("%s%05d", long, i)}), []byte("1"), host.EncodedJSON, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestKeysThatChangeAllTheTimeKeepNoWatcherFromTheKeysAfterThem(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true, Stored: true})
		defer w.Close()
		g.kv("z=1")
		told := -1
		for n := 0; told < 0 && n < 3; n++ {
			for i := range 17 {
				g.large(fmt.Sprintf("a.%02d", i), n)
			}
			out, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.IsSortedFunc(out.Changes, func(a, b kv.Change) int { return strings.Compare(keyText(a.Key), keyText(b.Key)) }) {
				t.Error("not in order")
			}
			if slices.ContainsFunc(out.Changes, func(c kv.Change) bool { return keyText(c.Key) == `["z"]` }) {
				told = n
			}
		}
		if told != 1 {
			t.Errorf("z is told in part %d", told)
		}
		var s shown
		if err := s.take(t, w); err != nil {
			t.Error(err)
		}
		quiet(t, w)
	})
}

// "more" is always followed, also if the entries that were to follow are gone.
func TestWatchersAreToldThatNothingFollows(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		for i := range 20 {
			g.large(fmt.Sprintf("k.%02d", i), 0)
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true, Stored: true})
		defer w.Close()
		out, err := w.Next(t.Context())
		if err != nil || !out.More {
			t.Fatal(out.More, err)
		}
		var gone []string
		for i := len(out.Changes); i < 20; i++ {
			gone = append(gone, fmt.Sprintf("-k.%02d", i))
		}
		g.kv(gone...)
		if out, err = w.Next(t.Context()); err != nil || out.More || out.Changes == nil || len(out.Changes) != 0 {
			t.Errorf("%d changes, more %v, %v", len(out.Changes), out.More, err)
		}
		quiet(t, w)
	})
}

func TestAKeyWithoutAnEntryIsToldAbsentOnce(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		for i := range 40 {
			g.large(fmt.Sprintf("k.%02d", i), 0)
		}
		w := g.watch(kv.Watching{Keys: []kv.Key{{"a"}}, Prefixes: []kv.Key{{"k"}}, Initial: true, Stored: true})
		defer w.Close()
		nulls := 0
		for more := true; more; {
			out, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if more = out.More; nulls == 0 {
				var many []string // none is watched; so many ranges mark everything
				for i := range 17 {
					many = append(many, fmt.Sprintf("-other%d/", i), fmt.Sprintf("other%d.1=1", i), fmt.Sprintf("-other%d/", i))
				}
				g.kv(many...)
			}
			for _, c := range out.Changes {
				if c.Entry == nil {
					nulls++
				}
			}
		}
		if nulls != 1 {
			t.Errorf("told absent %d times", nulls)
		}
		g.kv("a=1", "-a")
		g.kv("a=1")
		var s shown
		s.told(t, w, `["a"]={"$bytes":"MQ=="}`)
		g.kv("-a")
		if s.told(t, w, ""); s.nulls != 1 {
			t.Errorf("told absent %d times when it was removed", s.nulls)
		}
	})
}

// A stream of an actor that is always busy ends when its gateway drains.
func TestWatchersEndWithTheirContextAlsoWhileThereAreChanges(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}})
		defer w.Close()
		g.kv("k=1")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.Next(ctx)
		wantCode(t, err, host.Canceled)
		var s shown
		s.told(t, w, `["k"]=1`)
	})
}

func TestReadsThatDoNotWaitAreNoWatchers(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k=1")
		for range kv.MaxWatchers {
			defer g.watch(kv.Watching{Keys: []kv.Key{{"k"}}}).Close()
		}
		in := kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}}
		var out kv.Changes
		if g.mustVerb("a", host.KVWatch, in, &out); len(out.Changes) != 1 {
			t.Errorf("%+v", out)
		}
		in.WaitMS = 1000
		wantCode(t, g.verb("a", host.KVWatch, in, &out), host.Overloaded)
	})
}

func TestWhatAllWatchersRememberIsBounded(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxEventBytes = 10 << 18 }, nil, func(t *testing.T, g *stage) {
		g.longKeys(500, "k", 1500) // 750 kB
		var all []kv.Watch
		for {
			w, err := g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}})
			if err != nil {
				wantCode(t, err, host.Overloaded)
				break
			}
			all = append(all, w)
		}
		if len(all) != 3 {
			t.Errorf("%d watchers", len(all))
		}
		few := g.watch(kv.Watching{Keys: []kv.Key{{"k"}}, Initial: true}) // not refused for what others remember
		defer few.Close()
		var s shown
		s.told(t, few, "")
		var in kv.WatchInput // a read that does not wait is not refused either
		for i := range 500 {
			in.Keys = append(in.Keys, kv.WatchedKey{Key: kv.Key{fmt.Sprintf("%s%05d", strings.Repeat("k", 1500), i)}})
		}
		var out kv.Changes
		if g.mustVerb("a", host.KVWatch, in, &out); len(out.Changes) != 500 {
			t.Errorf("%d changes", len(out.Changes))
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		wantCode(t, s.take(t, w), host.Overloaded)
		w.Close()
		for _, w := range all {
			w.Close()
		}
		g.watch(kv.Watching{Prefixes: []kv.Key{{}}}).Close()
		_, err := w.Next(t.Context())
		wantCode(t, err, host.Overloaded)
	})
}

func TestTheBytesOfTheKeysOfAWatcherAreBounded(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		g.longKeys(kv.MaxWatchedBytes/smaller/1900+1, "k", 1900)
		for _, initial := range []bool{false, true} {
			w, err := g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}, Initial: initial})
			if err == nil {
				_, err = w.Next(t.Context()) // before it has told any
				w.Close()
			}
			if e := wantCode(t, err, host.TooLarge); e.Metadata["what"] != "bytes of the keys that one watcher follows" || e.Metadata["limit"] != fmt.Sprint(kv.MaxWatchedBytes/smaller) {
				t.Errorf("initial %v: %v %v", initial, e, e.Metadata)
			}
		}
	})
}

// A client does not read events of any size, so their JSON is bounded.
func TestEventsOfWatchersAreBoundedAsJSON(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		g.longKeys(3000/smaller, "<", 1900)
		for i := range 7 {
			g.must("a", func(_ *puppet, h host.Turn) error {
				return h.KVPut(mustPack(t, kv.Key{"v", int64(i)}), []byte(`"`+strings.Repeat("&", 1_000_000/smaller)+`"`), host.EncodedJSON, time.Time{})
			})
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		defer w.Close()
		total := 0
		for more := true; more; {
			out, err := w.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(out)
			if more = out.More; err != nil || len(text) > 40<<20/smaller || more && len(text) < 30<<20/smaller {
				t.Errorf("an event of %d bytes, %v", len(text), err)
			}
			total += len(out.Changes)
		}
		if total != 3000/smaller+7 {
			t.Errorf("%d changes", total)
		}
	})
}
