package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

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
