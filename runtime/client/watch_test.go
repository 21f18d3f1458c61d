package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
)

var rooms = actor.NewType[struct{}]("room")

// A follower is a loop over changes, and what it has been told.
type follower struct {
	mu    sync.Mutex
	state map[string]kv.Entry
	told  []string // since this was last asked for
	err   error
	over  sync.WaitGroup
	stop  context.CancelFunc
}

func followStore(t *testing.T, store kv.Store, c kv.WatchConfig) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{state: make(map[string]kv.Entry), stop: cancel}
	f.over.Go(func() {
		for changes, err := range store.Watch(ctx, c) {
			f.mu.Lock()
			f.err = err
			for _, c := range changes.Changes {
				key := fmt.Sprint(c.Key)
				before, known := f.state[key]
				switch {
				case c.Entry == nil:
					delete(f.state, key)
					f.told = append(f.told, key+" gone")
				case known && before.Version == c.Entry.Version:
					t.Errorf("%s is told again", key)
				default:
					f.state[key] = *c.Entry
					f.told = append(f.told, key+"="+string(c.Entry.Value.Data))
				}
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		f.over.Wait()
	})
	return f
}

// news is what was told since the last call.
func (f *follower) news() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	told := strings.Join(f.told, ", ")
	f.told = nil
	return told
}

// Whether on a node or over a client whose connections break, a watcher is told each state that lasts once, and what has gone meanwhile.
func TestAStoreIsWatchedOverConnectionsThatBreak(t *testing.T) {
	onStage(t, client.Options{Token: "secret"}, func(t *testing.T, s *stage, c *client.Client) {
		s.call("none", "")
		direct := rooms.Ref(s.node, "a").KV()
		commit := func(m ...kv.Mutation) {
			t.Helper()
			must(t, errOf(direct.Commit(t.Context(), kv.Commit{Mutations: m})))
		}
		put := func(key string, v string) kv.Mutation { return kv.Put(kv.Key{"k", key}, kv.Text(v)) }
		commit(put("a", "1"), put("b", "1"), kv.Put(kv.Key{"other"}, kv.Text("")))
		all := kv.WatchConfig{Keys: []kv.Key{{"no"}}, Prefixes: []kv.Key{{"k"}}, Initial: true}
		later := all
		later.Initial = false
		followers := []*follower{
			followStore(t, direct, all), followStore(t, rooms.Ref(c, "a").KV(), all), followStore(t, rooms.Ref(c, "a").KV(), later),
		}
		expect := func(first, rest string) {
			t.Helper()
			for i, f := range followers {
				want := first
				if i == 2 {
					want = rest
				}
				got := f.news()
				errorIf(t, got != want, "follower %d is told %q, not %q", i, got, want)
			}
		}
		same := func(news string) {
			t.Helper()
			expect(news, news)
		}
		expect("[k a]=1, [k b]=1, [no] gone", "")
		commit(put("a", "2"), kv.Put(kv.Key{"k", 1.5, []byte{0, 1}}, kv.Bytes([]byte{0, 0xFF})))
		same("[k a]=2, [k 1.5 [0 1]]=\x00\xff")
		s.away(func() {
			commit(kv.Delete(kv.Key{"k", "b"}), put("c", "3").For(time.Minute))
			synctest.Wait()
			followers[0].news()
		})
		time.Sleep(5 * time.Second)
		for _, f := range followers[1:] {
			got := f.news()
			errorIf(t, got != "[k c]=3, [k b] gone", "after an outage: %q", got)
		}
		s.restart(0) // of the gateway, which says so
		time.Sleep(5 * time.Second)
		same("")
		time.Sleep(time.Minute)
		same("[k c] gone")
		for range 5 {
			s.cut()
			time.Sleep(5 * time.Second)
		}
		same("")
		must(t, rooms.Ref(s.node, "a").Destroy(t.Context()))
		for i, f := range followers {
			f.over.Wait()
			wantCode(t, f.err, host.Destroyed, i)
			errorIf(t, len(f.state) != 2, "follower %d knows %v", i, f.state)
		}
	})
}

func TestWatchingEndsWithItsErrorAndItsContext(t *testing.T) {
	onStage(t, client.Options{Attempts: 2}, func(t *testing.T, s *stage, c *client.Client) {
		for _, node := range []actor.Node{s.node, c} {
			for _, w := range []struct {
				ref  actor.Ref[struct{}]
				c    kv.WatchConfig
				code host.Code
			}{
				{rooms.Ref(node, "a"), kv.WatchConfig{}, host.InvalidArgument},
				{rooms.Ref(node, "a"), kv.WatchConfig{Prefixes: make([]kv.Key, 17)}, host.TooLarge},
				{actor.NewType[struct{}]("unknown").Ref(node, "a"), kv.WatchConfig{Prefixes: []kv.Key{{}}}, host.UnknownType},
				{rooms.Ref(nil, "a"), kv.WatchConfig{Prefixes: []kv.Key{{}}}, host.InvalidArgument},
			} {
				n := 0
				for _, err := range w.ref.KV().Watch(t.Context(), w.c) {
					n++
					wantCode(t, err, w.code)
				}
				errorIf(t, n != 1, "%d errors", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var last error
			for _, err := range rooms.Ref(node, "a").KV().Watch(ctx, kv.WatchConfig{Keys: []kv.Key{{"a"}}}) {
				last = err
			}
			cancel()
			wantCode(t, last, host.DeadlineExceeded)
			for changes, err := range rooms.Ref(node, "a").KV().Watch(t.Context(), kv.WatchConfig{Keys: []kv.Key{{"a"}}, Initial: true}) {
				errorIf(t, err != nil || len(changes.Changes) != 1 || changes.Changes[0].Entry != nil || changes.Life != "", "%+v, %v", changes, err)
				break
			}
		}
	})
}
