package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

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
		same(t, woken.Load(), 1, "watchers were woken")
		stop()
		readers.Wait()
	})
}

// Defect B19 of KeyVal: its client watches prefixes under a name that the server does not know, and never gets a change. Here an
// input that says nothing is refused, as are too many names and too many watchers.
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
			e := wantCode(t, err, c.code)
			errorIf(t, e.Metadata["field"] != c.field, "%v names the field %q, not %q", e, e.Metadata["field"], c.field)
		}
		_, err := g.WatchKV(t.Context(), host.Address{Type: "unknown"}, kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.UnknownType)

		g.kv("k=1")
		var watches []*watcher
		for i := range kv.MaxWatchers {
			watches = append(watches, g.watch(kv.Watching{Keys: []kv.Key{{int64(i)}}}))
		}
		_, err = g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.Overloaded)
		in := kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}}
		g.mustVerb("a", host.KVWatch, in, nil) // does not wait, so it is no watcher
		in.WaitMS = 1000
		wantCode(t, g.verb("a", host.KVWatch, in, nil), host.Overloaded)
		for _, w := range watches {
			w.Close()
			w.Close()
		}
		g.watch(kv.Watching{Prefixes: []kv.Key{{}}}).Close()

		g.must("b", func(_ *puppet, h host.Turn) error { // which must not wait
			for method, input := range map[string]string{host.KVWatch: `{"keys":[{"key":["x"]}],"wait_ms":5}`, host.KVFeed: `{"after":4,"wait_ms":5}`} {
				_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: method, Codec: host.JSON, Input: []byte(input)})
				wantCode(t, err, host.InvalidArgument)
			}
			return nil
		})
	})
}

// A client does not read events of any size, so their JSON is bounded.
func TestEventsOfWatchersAreBoundedAsJSON(t *testing.T) {
	const keys, values = 3000 / smaller, 7
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		for i := range keys + values {
			key, value := kv.Key{fmt.Sprint(strings.Repeat("<", 1900), i)}, "1"
			if i >= keys {
				key, value = kv.Key{"v", int64(i)}, `"`+strings.Repeat("&", 1_000_000/smaller)+`"`
			}
			g.must("a", func(_ *puppet, h host.Turn) error {
				return h.KVPut(mustPack(t, key), []byte(value), host.EncodedJSON, time.Time{})
			})
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		defer w.Close()
		for more := true; more; {
			out, err := w.next(t.Context())
			must(t, err)
			text, err := json.Marshal(out)
			if more = out.More; err != nil || len(text) > 40<<20/smaller || more && len(text) < 30<<20/smaller {
				t.Errorf("an event of %d bytes, %v", len(text), err)
			}
		}
		errorIf(t, len(w.known) != keys+values, "%d entries", len(w.known))
	})
}

// A large commit leaves it to its many watchers to find out whether it concerns them.
func TestManyWatchersOfALargeCommit(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k.0=0", "k.1=1")
		var watches []*watcher
		for i := range 300 {
			key := []kv.Key{{"k", fmt.Sprint(i)}}
			at := kv.Watching{Keys: key}
			if i%3 == 0 {
				at = kv.Watching{Prefixes: key}
			}
			watches = append(watches, g.watch(at))
			defer watches[i].Close()
		}
		told := func(i int, want string) {
			same(t, watches[i].told(time.Millisecond), want, "watcher", i, "is told")
		}
		in := []string{"-k.1/"}
		for i := range 200 {
			in = append(in, fmt.Sprintf("k.%d=%d", i+100, i))
		}
		g.kv(in...)
		told(0, "nothing")
		told(1, "-k.1")
		for i := range 200 {
			told(i+100, fmt.Sprintf("k.%d=%d", i+100, i))
		}
		for range 2 * 17 { // more than a watch holds
			g.kv(in...)
		}
		told(150, "k.150=50")
		told(5, "nothing")
	})
}
