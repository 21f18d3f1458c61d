package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/store"
)

// line writes an event.
func line(e store.Event) string {
	return strings.TrimRight(fmt.Sprint(e.Type, " ", e.Group, "/", e.Key, "=", e.Value, " ", e.Cause), " ")
}

// waiting returns the events in a watcher's channel and log.
func waiting(w *store.Watcher) string {
	var all []string
	for {
		synctest.Wait()
		select {
		case e, open := <-w.Ch:
			if !open {
				return strings.Join(append(all, "closed"), "; ")
			}
			all = append(all, line(e))
		default:
			return strings.Join(all, "; ")
		}
	}
}

// TestWatchersGetWhatTheySelect is the table of filters and the table of events of go-store.
func TestWatchersGetWhatTheySelect(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		sc, err := store.NewScoped(r.Store, "ns")
		ok(t, err, r.Set("mygroup", "before", "v"))
		type watched struct {
			w    *store.Watcher
			want string
		}
		var callback []string
		stop := r.OnChange(func(e store.Event) { callback = append(callback, line(e)) })
		var local []string
		sc.OnChange(func(e store.Event) { local = append(local, line(e)) })
		const own = "set mygroup/mykey=1; set mygroup/other=2; delete mygroup/mykey= delete; set mygroup/mykey=3; "
		const scoped = "set ns:mygroup/mykey=s; delete_group ns:mygroup/="
		for name, c := range map[string]watched{
			"a key": {r.Watch("mygroup", "mykey"),
				"set mygroup/mykey=1; delete mygroup/mykey= delete; set mygroup/mykey=3; delete mygroup/mykey= delete_group"},
			"a group":              {r.Watch("mygroup", "*"), own + "delete_group mygroup/="},
			"all":                  {r.Watch("*", "*"), own + "delete_group mygroup/=; set Mygroup/mykey=4; " + scoped},
			"a key of each group":  {r.Watch("*", "other"), "set mygroup/other=2; delete mygroup/other= delete_group"},
			"nothing":              {r.Watch("none", "*"), ""},
			"a group of the scope": {r.Watch("ns:mygroup", "*"), scoped},
			"all of the scope":     {sc.Watch("*", "*"), scoped},
			"a group in the scope": {sc.Watch("mygroup", "*"), scoped},
			"a key in the scope":   {sc.Watch("mygroup", "mykey"), "set ns:mygroup/mykey=s; delete ns:mygroup/mykey= delete_group"},
		} {
			defer func() {
				got := waiting(c.w)
				errorIf(t, got != c.want, "%s gets\n%s\nand not\n%s", name, got, c.want)
				r.Unwatch(c.w)
				if got := waiting(c.w); got != "closed" || c.w.Err() != nil {
					t.Errorf("%s: %s, %v", name, got, c.w.Err())
				}
				r.Unwatch(c.w)
			}()
		}
		r.OnChange(func(store.Event) { t.Error("it was stopped") })()
		ok(t, r.Set("mygroup", "mykey", "1"), r.Set("mygroup", "other", "2"), r.Delete("mygroup", "mykey"),
			r.Delete("mygroup", "mykey"), r.Delete("none", "k"), r.DeleteGroup("none"),
			r.DeletePrefix("none"), r.Set("mygroup", "mykey",
				"3"), r.DeleteGroup("mygroup"), r.DeleteGroup("mygroup"), r.Set("Mygroup", "mykey", "4"),
			sc.Set("mygroup", "mykey", "s"), sc.DeleteGroup("mygroup"))
		ok(t, r.Sync(ctx))
		stop()
		stop()
		ok(t, r.Sync(ctx))
		if got, want := strings.Join(callback, "; "), own+"delete_group mygroup/=; set Mygroup/mykey=4; "+scoped; got != want {
			t.Errorf("a callback gets\n%s\nand not\n%s", got, want)
		}
		if got := strings.Join(local, "; "); got != scoped {
			t.Errorf("a callback of the scope gets %s", got)
		}
		r.Unwatch(nil)
		r.Unwatch(new(store.Watcher))
	})
}

// The events of a transaction come together. DeletePrefix has an event for each group.
func TestEventsOfOneCommit(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		w := r.Watch("*", "*")
		var versions []uint64
		r.OnChange(func(e store.Event) { versions = append(versions, e.Version) })
		ok(t, r.Transaction(func(tx *store.Store) error {
			return errors.Join(tx.Set("a", "k", "1"), tx.Set("a", "l", "2"), tx.Set("a:b", "k", "3"),
				tx.Set("c", "k", "4"), tx.Set("c", "l", "5"), tx.Delete("a", "k"))
		}))
		is(t, r.Transaction(func(tx *store.Store) error { return errors.Join(tx.Set("a", "never", "1"), context.Canceled) }), context.Canceled)
		ok(t, r.DeletePrefix(""))
		if got, want := waiting(w),
			"set a/k=1; set a/l=2; set a:b/k=3; set c/k=4; set c/l=5; delete a/k= delete; delete_group a:b/=; delete a/l= delete; delete_group c/="; got != want {
			t.Errorf("it gets\n%s\nand not\n%s", got, want)
		}
		ok(t, r.Sync(ctx))
		n := len(slices.Compact(versions))
		errorIf(t, n != 2, "two commits have %d versions", n)
		_, err := r.kv.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
			kv.Put(kv.Key{"a", "b", "k"}, kv.Text("1")), kv.Put(kv.Key{"a", "k"},
				kv.JSON([]byte(`{"n":1}`))), kv.Put(kv.Key{"a", "z"}, kv.Text("2")), kv.Put(kv.Key{"other"}, kv.Text("")),
			kv.DeleteRange(kv.Selection{Prefix: kv.Key{"a"}}), kv.Put(kv.Key{"a", "k"},
				kv.Text("3")), kv.DeleteRange(kv.Selection{Prefix: kv.Key{}}),
			kv.Put(kv.Key{"d", "k"}, kv.Text("4")), kv.DeleteRange(kv.Selection{Start: kv.Key{"d"}}),
		}})
		ok(t, err)
		if got, want := waiting(w),
			"set a:b/k=1; set a/k={\"n\":1}; set a/z=2; delete_group a:b/=; delete_group a/=; set a/k=3; delete_group a/=; set d/k=4; delete d/k= delete"; got != want {
			t.Errorf("it gets\n%s\nand not\n%s", got, want)
		}
	})
}

// A watcher that is behind gets all events in the log, and a gap for the rest.
func TestWatchersThatAreFarBehindAreToldOfTheGap(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		w := r.Watch("*", "*")
		must(t, second(r.kv.SetScope(ctx, kv.Key{}, kv.Policy{Log: true, LogEvents: 10})))
		for i := range 500 {
			ok(t, r.Set("g", "k", strconv.Itoa(i)))
		}
		got, missed, last := 0, uint64(0), ""
		for done := false; !done; {
			synctest.Wait()
			select {
			case e := <-w.Ch:
				if got++; e.Type == store.EventGap {
					got, missed = got-1, missed+e.Missed
				}
				last = e.Value
			default:
				done = true
			}
		}
		errorIf(t, missed == 0 || uint64(got)+missed != 500 || last != "499", "%d events, %d missed, the last is %s", got, missed, last)
	})
}

// A store on an actor that was destroyed ends its watchers, and can be watched again.
func TestWatchersEndWithTheActor(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		w := r.Watch("g", "*")
		r.OnChange(func(store.Event) {})
		ok(t, r.Set("g", "k", "1"))
		synctest.Wait()
		ok(t, tenants.Ref(r.h, "a").Destroy(ctx))
		if got := waiting(w); got != "set g/k=1; closed" || actor.CodeOf(w.Err()) != actor.Destroyed {
			t.Error(got, w.Err())
		}
		same(t, 0)(r.CountAll(""))
		again := r.Watch("g", "*")
		ok(t, again.Err(), r.Set("g", "k", "2"))
		if got := waiting(again); got != "set g/k=2" {
			t.Error(got, again.Err())
		}
		if err := r.Sync(ctx); actor.CodeOf(err) != actor.Destroyed {
			t.Error(err)
		}
	})
}

// Writes that exceed the node's memory wait, as for a busy database.
func TestManyLargeWritesWait(t *testing.T) {
	st, err := store.New(":memory:")
	ok(t, err)
	defer st.Close()
	large := strings.Repeat("v", 1<<20)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { check(t, st.Set("g", strconv.Itoa(i%4), large)) })
	}
	all.Wait()
	same(t, 4)(st.Count("g"))
}

// Many writers with watchers and callbacks: each reader gets every change once, in the order of the
// commits.
func TestManyWritersAndReaders(t *testing.T) {
	st, err := store.New(":memory:")
	ok(t, err)
	const writers, each, groups = 16, 40, 3
	watchers := make([]*store.Watcher, groups)
	orders := make([][]store.Event, groups+1)
	var readers, all sync.WaitGroup
	for g := range watchers {
		watchers[g] = st.Watch(strconv.Itoa(g), "*")
		readers.Go(func() {
			for e := range watchers[g].Ch {
				if orders[g] = append(orders[g], e); e.Key == "end" {
					return
				}
			}
		})
	}
	st.OnChange(func(e store.Event) {
		orders[groups] = append(orders[groups], e)
		if rand.IntN(10) == 0 {
			check(t, second(st.Get(e.Group, e.Key)))
		}
	})
	for w := range writers {
		all.Go(func() {
			for n := range each {
				group, key, v := strconv.Itoa(n%groups), strconv.Itoa(w), strconv.Itoa(n)
				set := func(tx *store.Store) error { return tx.Set(group, key, v) }
				if n%5 == 3 {
					check(t, st.Transaction(set))
				} else {
					check(t, set(st))
				}
			}
		})
	}
	all.Wait()
	for g := range groups {
		ok(t, st.Set(strconv.Itoa(g), "end", ""))
	}
	readers.Wait()
	ok(t, st.Sync(ctx), st.Close())
	for g, events := range orders {
		last := make(map[string]int)
		for i, e := range events {
			n, _ := strconv.Atoi(e.Value)
			if i > 0 && e.Version <= events[i-1].Version {
				t.Fatalf("reader %d: version %d after %d", g, e.Version, events[i-1].Version)
			}
			if before, seen := last[e.Group+"/"+e.Key]; e.Key != "end" && seen && n <= before {
				t.Fatalf("reader %d: %s after %d", g, line(e), before)
			}
			last[e.Group+"/"+e.Key] = n
		}
	}
	if n := len(orders[groups]); n != writers*each+groups || len(slices.Concat(orders[:groups]...)) != n {
		t.Errorf("the callback has got %d changes, and the watchers %d", n, len(slices.Concat(orders[:groups]...)))
	}
}

// A watch that begins while the store is closed either ends with it or does not begin.
func TestWatchesMayBeginWhileTheStoreIsClosed(t *testing.T) {
	for range 20 {
		st, err := store.New(":memory:")
		ok(t, err)
		var wg sync.WaitGroup
		watching := make(chan struct{}, 4)
		for range 4 {
			wg.Go(func() {
				for {
					w := st.Watch("*", "*")
					if w.Err() != nil {
						return
					}
					st.Unwatch(w)
					select {
					case watching <- struct{}{}:
					default:
					}
				}
			})
		}
		<-watching
		check(t, st.Close())
		wg.Wait()
	}
}

// A namespace may have the name of a group, which is deleted meanwhile.
func TestDeleteGroupTakesNothingOfANamespace(t *testing.T) {
	st, err := store.New(":memory:")
	ok(t, err)
	defer st.Close()
	scoped, err := store.NewScoped(st, "a")
	ok(t, err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = st.Set("a", "k", "v")
			_ = st.DeleteGroup("a") // may conflict too often
		}
	})
	for range 300 {
		ok(t, scoped.Set("g", "k", "v"))
		for range 3 {
			same(t, true)(scoped.Exists("g", "k"))
		}
		ok(t, scoped.Delete("g", "k"))
	}
	close(stop)
	wg.Wait()
}
