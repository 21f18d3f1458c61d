package store_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/store"
)

// Each test here is named after a defect of go-store.

// C2, G2: go-store has one connection. Writing while ranging over All never returns, nor does a
// call of the store inside its own transaction.
func TestC2G2LoopsAndTransactionsMayUseTheStore(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		const many = 2_500 // more than two pages
		ok(t, r.Transaction(func(tx *store.Store) error {
			for i := range many {
				ok(t, tx.Set("g", fmt.Sprintf("%05d", i), "v"))
			}
			return nil
		}))
		n := 0
		for e, err := range r.All("g") {
			ok(t, err)
			if n++; n%100 == 1 {
				ok(t, r.Delete("g", e.Key), r.Set("g", e.Key+"x", "new"), r.Delete("g", "02499"), r.Set("g", "02498", "new"))
			}
			if e.Value != "v" { // the loop sees the old group
				t.Fatal(e)
			}
		}
		errorIf(t, n != many, "the loop has seen %d", n)
		for range r.GroupsSeq("") {
			ok(t, r.Set("h", "k", "v"))
		}
		ok(t, r.Transaction(func(tx *store.Store) error {
			ok(t, tx.Set("h", "k", "inside"), r.Set("i", "k", "outside"),
				r.Transaction(func(tx *store.Store) error { return tx.Set("j", "k", "nested") }))
			same(t, "v")(r.Get("h", "k"))
			for e, err := range tx.All("h") {
				ok(t, err, tx.Set("h", e.Key+"2", e.Value))
			}
			return nil
		}))
		same(t, map[string]string{"k": "inside", "k2": "inside"})(r.GetAll("h"))
	})
}

// C2: pages by offset skip or repeat keys when others change.
func TestC2PagesAfterAKeyNeitherSkipNorRepeat(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		for i := range 40 {
			ok(t, r.Set("g", fmt.Sprintf("%02d", i), "v"), r.Set("g2", "k", "v"))
		}
		var got []string
		for after := ""; ; {
			page, err := r.GetPageAfter("g", after, 7)
			ok(t, err)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				got = append(got, e.Key)
			}
			after = page[len(page)-1].Key
			ok(t, r.Delete("g", got[0]), r.Delete("g", after), r.Set("g", "00"+after, "v")) // before the next page
		}
		errorIf(t, len(got) != 40 || got[39] != "39", "%v", got)
		ok(t, r.DeleteGroup("g"))
		for i := range 5 {
			ok(t, r.Set("g", strconv.Itoa(i), "v"))
		}
		same(t, []store.KeyValue{{"3", "v"}, {"4", "v"}})(r.GetPage("g", 3, 10))
		same(t, []store.KeyValue{{"0", "v"}})(r.GetPage("g", 0, 1))
		same(t, []store.KeyValue{})(r.GetPage("g", 5, 10))
		same(t, []store.KeyValue{})(r.GetPage("g", 0, 0))
		refusedAs(t, actor.InvalidArgument, second(r.GetPage("g", -1, 1)), second(r.GetPage("g", 0, -1)),
			second(r.GetPageAfter("g", "", -1)))
		refusedAs(t, actor.TooLarge, second(r.GetPage("g", store.MaxOffset+1, 1)))
	})
}

// C4, G3: reading an expired key deletes a value written between the read and the delete. Expired
// keys can be removed at once, and are counted.
func TestC4G3OnlyWhatHasExpiredIsRemoved(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		same(t, int64(0))(r.PurgeExpired()) // of nothing
		for range 20 {
			ok(t, r.SetWithTTL("g", "k", "old", 10*time.Millisecond))
			time.Sleep(10 * time.Millisecond)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if v, err := r.Get("g", "k"); v != "new" && !errors.Is(err, store.ErrNotFound) {
						t.Error(v, err)
					}
				})
			}
			all.Go(func() { ok(t, r.Set("g", "k", "new")) })
			all.Wait()
			same(t, "new")(r.Get("g", "k"))
			time.Sleep(2 * time.Second) // a purge does not remove it either
			same(t, "new")(r.Get("g", "k"))
		}
		for i := range 700 {
			ok(t, r.SetWithTTL("g", strconv.Itoa(i), "v", time.Second))
		}
		same(t, int64(0))(r.PurgeExpired())
		time.Sleep(time.Second)
		same(t, int64(700))(r.PurgeExpired())
		same(t, int64(0))(r.PurgeExpired())
		ok(t, r.SetWithTTL("g", "other", "v", time.Second))
		time.Sleep(3 * time.Hour) // expiry happens anyway
		same(t, int64(0))(r.PurgeExpired())
		same(t, map[string]string{"k": "new"})(r.GetAll("g"))
	})
}

// C4: expiry has no event. C6: an event is lost when the 16 slots of a channel are full. C8: an
// event has no number. Here a watcher continues after a restart of the node, and misses nothing.
func TestC4C6C8WatchersMissNothing(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		w := r.Watch("g", "*")
		errorIf(t, cap(w.Ch) != 16, "the channel has %d slots", cap(w.Ch))
		const many = 1000
		for i := range many {
			ok(t, r.Set("g", "k", strconv.Itoa(i)))
		}
		time.Sleep(time.Second)
		ok(t, r.Set("g", "k", strconv.Itoa(many)))
		var before store.Event
		for i := range many + 1 {
			e := <-w.Ch
			if e.Value != strconv.Itoa(i) || e.Version <= before.Version {
				t.Fatalf("event %d is %s of version %d, after %d", i, line(e), e.Version, before.Version)
			}
			took := e.Timestamp.Sub(before.Timestamp)
			errorIf(t, i == many && took != time.Second, "%s between two events", took)
			before = e
		}
		ok(t, r.SetWithTTL("g", "k", "v", 10*time.Millisecond), r.SetWithTTL("h", "k", "v", time.Millisecond))
		time.Sleep(2 * time.Second)
		r.h.Restart()
		ok(t, r.Set("g", "b", "2"))
		r.h.Crash()
		ok(t, r.Set("g", "c", "3"))
		time.Sleep(time.Minute)
		got := waiting(w)
		errorIf(t, got != "set g/k=v; delete g/k= expired; set g/b=2; set g/c=3", "%v", got)
	})
}

// C7: callbacks that use the store never return, and the events of two writers may arrive out of
// order.
func TestC7CallbacksUseTheStoreInTheOrderOfTheCommits(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		var order []uint64
		var stop func()
		stop = r.OnChange(func(e store.Event) {
			order = append(order, e.Version)
			if e.Group != "g" {
				return
			}
			ok(t, r.Set("copy", e.Key, e.Value), r.Transaction(func(tx *store.Store) error { return tx.Set("copy2", e.Key, e.Value) }))
			w := r.Watch("*", "*")
			r.Unwatch(w)
			r.OnChange(func(store.Event) {})()
			if e.Key == "end" {
				stop()
			}
		})
		r.OnChange(func(e store.Event) {
			if e.Key == "1" {
				panic("hurts nobody else")
			}
			if e.Key == "2" {
				runtime.Goexit()
			}
		})
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() { ok(t, r.Set("g", strconv.Itoa(i), "v")) })
		}
		all.Wait()
		synctest.Wait()
		ok(t, r.Set("g", "end", "v"))
		synctest.Wait()
		same(t, 17)(r.Count("copy"))
		same(t, 17)(r.Count("copy2"))
		for i := 1; i < len(order); i++ {
			fatalIf(t, order[i] < order[i-1], "%v", order)
		}
		errorIf(t, len(order) < 3*16+1, "%v", len(order))
	})
}

func TestSyncWaitsForTheLastCallback(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		var done atomic.Int64
		r.OnChange(func(store.Event) {
			time.Sleep(time.Second)
			done.Add(1)
		})
		for i := range int64(3) {
			ok(t, r.Set("g", "k", "v"), r.Sync(t.Context()))
			n := done.Load()
			errorIf(t, n != i+1, "%d callbacks of %d have returned", n, i+1)
		}
	})
}

// C10: two writers exceed a quota between the check and the write, writes to the parent exceed it,
// and each write counts all keys.
func TestC10QuotasHoldForAllWriters(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		sc, err := store.NewScopedWithQuota(r.Store, "ns", store.QuotaConfig{MaxKeys: 10, MaxGroups: 2})
		ok(t, err)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				if err := sc.Set("g", strconv.Itoa(i), "v"); err != nil && !errors.Is(err, store.ErrQuotaExceeded) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		same(t, 10)(sc.CountAll(""))
		is(t, r.Set("ns:g", "more", "v"), store.ErrQuotaExceeded)
		is(t, sc.SetWithTTL("g", "more", "v", time.Hour), store.ErrQuotaExceeded)
		is(t, r.Transaction(func(tx *store.Store) error { return errors.Join(tx.Set("h", "k", "v"), tx.Set("ns:g", "more", "v")) }), store.ErrQuotaExceeded)
		same(t, false)(r.Exists("h", "k"))
		same(t, []string{"ns:g"})(r.Groups(""))
		var there string
		for e, err := range sc.All("g") {
			ok(t, err)
			there = e.Key
		}
		ok(t, sc.Set("g", there, "overwritten"), r.Set("other", "k", "v"))

		// Expired keys do not count.
		ok(t, sc.SetWithTTL("g", there, "v", time.Millisecond))
		time.Sleep(time.Millisecond)
		ok(t, sc.Set("h", "k", "v"))
		is(t, sc.Set("g", "more", "v"), store.ErrQuotaExceeded)
		ok(t, sc.Delete("h", "k"), sc.DeleteGroup("g"), sc.Set("a", "k", "v"), sc.Set("b", "k", "v"))
		is(t, sc.Set("c", "k", "v"), store.ErrQuotaExceeded) // a third group
		ok(t, sc.Set("b", "k2", "v"), sc.DeleteGroup("a"), sc.Set("c", "k", "v"))

		// The quota is stored, beside other settings of an operator. A lower one removes nothing,
		// and 0 means none.
		same, err := store.NewScoped(store.Of(r.kv), "ns")
		ok(t, err)
		is(t, same.Set("d", "k", "v"), store.ErrQuotaExceeded)
		_, err = r.kv.SetScope(ctx, kv.Key{"ns"}, kv.Policy{MaxBytes: 1000, Info: []byte(`{"a":1}`)})
		ok(t, err)
		_, err = r.kv.SetScope(ctx, kv.Key{}, kv.Policy{MaxKeys: 70})
		ok(t, err)
		sc, err = store.NewScopedWithQuota(r.Store, "ns", store.QuotaConfig{MaxKeys: 1})
		ok(t, err)
		is(t, sc.Set("b", "k3", "v"), store.ErrQuotaExceeded)
		ok(t, sc.Set("b", "k2", "again"))
		r.Unwatch(r.Watch("*", "*"))
		for sc, err := range r.kv.Scopes(ctx, nil) {
			ok(t, err)
			all := len(sc.Prefix) == 0
			errorIf(t, all && (sc.MaxKeys != 70 || !sc.Log) ||
				!all && (sc.MaxKeys != 1 || sc.MaxBytes != 1000 || string(sc.Info) != `{"a":1}`),
				"%+v", sc)
		}
		sc, err = store.NewScopedWithQuota(r.Store, "ns", store.QuotaConfig{})
		ok(t, err, sc.Set("d", "k", "v"))
	})
}

// C12: the life of a store: Close twice, calls after it, nil, and the files on the disk.
func TestC12TheLifeOfAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	st, err := store.Open(dir)
	ok(t, err)
	if _, err := store.Open(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	sc, err := store.NewScoped(st, "ns")
	ok(t, err, st.Set("g", "k", "v"), sc.Set("g", "k", "s"), sc.Close())
	w, all := st.Watch("*", "*"), sc.Watch("*", "*")
	st.OnChange(func(store.Event) {})
	tx, err := st.Begin()
	ok(t, err, tx.Set("g", "never", "v"), tx.Close())
	ok(t, st.Close(), st.Close(), st.Close())
	for _, w := range []*store.Watcher{w, all} {
		if e, open := <-w.Ch; open || w.Err() != nil {
			t.Error(e, w.Err())
		}
		st.Unwatch(w)
	}
	is(t, tx.Commit(), store.ErrClosed)
	for name, st := range map[string]*store.Store{"closed": st, "a closed scope": sc, "nil": nil,
		"zero": new(store.Store), "a transaction": tx.Store, "no transaction": store.Tx{}.Store} {
		t.Run(name, func(t *testing.T) { refuses(t, st) })
	}
	is(t, store.Tx{}.Commit(), store.ErrClosed)
	store.Tx{}.Rollback()

	st, err = store.New(dir)
	ok(t, err)
	defer st.Close()
	same(t, "v")(st.Get("g", "k"))
	same(t, "s")(st.Get("ns:g", "k"))
	same(t, 2)(st.CountAll(""))
	if _, err := store.New(""); err == nil {
		t.Error("a store without a directory")
	}
}

// refuses calls every method of a closed store.
func refuses(t *testing.T, st *store.Store) {
	for i, err := range []error{
		st.Set("g", "k", "v"), st.SetWithTTL("g", "k", "v", time.Hour), st.Delete("g", "k"), st.DeleteGroup("g"), st.DeletePrefix(""),
		second(st.Count("g")), second(st.CountAll("")), st.Sync(context.Background()), st.Transaction(func(*store.Store) error { return nil }),
		second(st.Get("g", "k")), second(st.Exists("g", "k")), second(st.GroupExists("g")), second(st.GetAll("g")), second(st.Groups("")),
		second(st.GetPage("g", 0, 0)), second(st.GetPageAfter("g", "", 1)), second(st.GetSplit("g", "k",
			",")), second(st.GetFields("g", "k")),
		second(st.Render("", "g")), second(st.RenderStrict("", "g")), second(st.Begin()), second(store.NewScoped(st, "a")),
		second(store.NewScopedWithQuota(st, "a", store.QuotaConfig{})), st.Watch("*", "*").Err(), st.Watch("g", "k").
			Err(), second(st.PurgeExpired()),
	} {
		errorIf(t, !errors.Is(err, store.ErrClosed), "call %d: %v", i, err)
	}
	for _, text := range []string{list(st.All("g")), list(st.AllSeq("g")), list(st.GroupsSeq(""))} {
		errorIf(t, !strings.Contains(text, "closed"), "%v", text)
	}
	w := st.Watch("*", "*")
	if _, open := <-w.Ch; open {
		t.Error("an event")
	}
	st.Unwatch(w)
	st.OnChange(func(store.Event) {})()
	check(t, st.Close())
}

func second[T any](_ T, err error) error { return err }
