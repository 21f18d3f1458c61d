package client_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
)

// Whether on a node or over a client whose connections break, a feed has each change once and in order.
func TestChangesAreFollowedOverConnectionsThatBreak(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		direct := rooms.Ref(s.node, "a").KV()
		commit := func(m ...kv.Mutation) {
			t.Helper()
			must(t, errOf(direct.Commit(t.Context(), kv.Commit{Mutations: m})))
		}
		for _, err := range direct.Feed(t.Context(), kv.FeedConfig{}) {
			wantCode(t, err, host.FailedPrecondition)
		}
		sc, err := direct.SetScope(t.Context(), kv.Key{}, kv.Policy{Log: true, LogEvents: 20, LogBytes: 1 << 20, LogFor: time.Hour})
		errorIf(t, err != nil || !sc.Log || sc.LogEvents != 20 || sc.LogBytes != 1<<20 || sc.LogFor != time.Hour, "%+v %v", sc, err)
		commit(kv.Put(kv.Key{"early"}, kv.Text("x")))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var over sync.WaitGroup
		var mu sync.Mutex
		told := make([][]string, 3)
		for i, f := range []struct {
			store kv.Store
			c     kv.FeedConfig
		}{
			{direct, kv.FeedConfig{New: true}}, {rooms.Ref(c, "a").KV(), kv.FeedConfig{Prefixes: []kv.Key{{"n"}}}},
			{rooms.Ref(c, "a").KV(), kv.FeedConfig{New: true}},
		} {
			over.Go(func() {
				for e, err := range f.store.Feed(ctx, f.c) {
					text := fmt.Sprint(e.Sequence, e.Cause, e.Key, string(e.Value.Data))
					if err != nil {
						text = string(host.CodeOf(err))
					}
					mu.Lock()
					told[i] = append(told[i], text)
					mu.Unlock()
				}
			})
		}
		synctest.Wait()
		for i := range 30 {
			if i%7 == 0 {
				s.cut()
			}
			commit(kv.Put(kv.Key{"n", i}, kv.JSON(fmt.Append(nil, i))))
			time.Sleep(time.Duration(i%4) * 300 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		must(t, s.node.Destroy(t.Context(), room))
		time.Sleep(time.Minute)
		cancel()
		over.Wait()
		var want []string
		for i := range 30 {
			want = append(want, fmt.Sprint(i+2, "set", kv.Key{"n", int64(i)}, fmt.Sprint(i)))
		}
		want = append(want, string(host.Destroyed))
		for i, got := range told {
			errorIf(t, !slices.Equal(got, want), "reader %d was told %q", i, got)
		}
	})
}
