package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/store"
)

var ctx = context.Background()

var tenants = actor.NewType[struct{}]("tenant")

// A rig is a store on an actor of a node, in virtual time.
type rig struct {
	*store.Store
	t  testing.TB
	h  *actortest.Harness
	kv kv.Store
}

func inStore(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		of := tenants.Ref(h, "a").KV()
		r := &rig{store.Of(of), t, h, of}
		defer r.Close()
		f(t, r)
	}, actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
}

// is fails the test unless err is want.
func is(t testing.TB, err, want error) {
	t.Helper()
	errorIf(t, !errors.Is(err, want) || want == nil && err != nil, "error %v, want %v", err, want)
}

// same fails the test unless a result is want, without an error.
func same[T any](t testing.TB, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func ok(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// refusedAs fails the test unless the error of a call has a code.
func refusedAs(t testing.TB, code actor.Code, errs ...error) {
	t.Helper()
	for i, err := range errs {
		errorIf(t, actor.CodeOf(err) != code, "call %d: %v, want %v", i, err, code)
	}
}

// list returns the values of a loop as text.
func list[T any](seq func(func(T, error) bool)) string {
	var all []string
	for v, err := range seq {
		if err != nil {
			return err.Error()
		}
		all = append(all, fmt.Sprint(v))
	}
	return strings.Join(all, " ")
}

func TestVerbs(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		is(t, second(r.Get("g", "k")), store.ErrNotFound)
		same(t, false)(r.Exists("g", "k"))
		same(t, false)(r.GroupExists("g"))
		same(t, map[string]string{})(r.GetAll("g"))
		same(t, []string{})(r.Groups(""))
		ok(t, r.Delete("g", "k"), r.DeleteGroup("g"), r.DeletePrefix(""))

		ok(t, r.Set("g", "b", "2"), r.Set("g", "a", "one  two\tthree"), r.Set("g", "", ""), r.Set("", "k", "v"),
			r.Set("g2", "a,b", "x,y,,z"))
		same(t, "2")(r.Get("g", "b"))
		same(t, "")(r.Get("g", ""))
		same(t, "v")(r.Get("", "k"))
		same(t, true)(r.Exists("g", ""))
		same(t, true)(r.GroupExists(""))
		same(t, 3)(r.Count("g"))
		same(t, 5)(r.CountAll(""))
		same(t, 4)(r.CountAll("g"))
		same(t, []string{"", "g", "g2"})(r.Groups(""))
		same(t, []string{"g2"})(r.Groups("g2"))
		same(t, map[string]string{"": "", "a": "one  two\tthree", "b": "2"})(r.GetAll("g"))
		got := list(r.All("g"))
		errorIf(t, got != "{ } {a one  two\tthree} {b 2}", "%v", got)
		if got := list(r.AllSeq("g")); got != list(r.All("g")) {
			t.Error(got)
		}
		if got := list(r.GroupsSeq("")); got != " g g2" {
			t.Error(got)
		}
		fields, err := r.GetFields("g", "a")
		same(t, []string{"one", "two", "three"})(slices.Collect(fields), err)
		parts, err := r.GetSplit("g2", "a,b", ",")
		same(t, []string{"x", "y", "", "z"})(slices.Collect(parts), err)
		is(t, second(r.GetSplit("g", "none", ",")), store.ErrNotFound)
		is(t, second(r.GetFields("g", "none")), store.ErrNotFound)

		// An upsert never makes a second key.
		ok(t, r.Set("g", "b", "3"), r.SetWithTTL("g", "b", "4", time.Hour), r.Set("g", "b", "5"))
		same(t, 3)(r.Count("g"))
		time.Sleep(2 * time.Hour) // Set has cleared the time to live
		same(t, "5")(r.Get("g", "b"))

		ok(t, r.Delete("g", "b"), r.Delete("g", "b"))
		same(t, false)(r.Exists("g", "b"))
		ok(t, r.DeleteGroup("g"))
		same(t, []string{"", "g2"})(r.Groups(""))
		ok(t, r.DeletePrefix(""))
		same(t, 0)(r.CountAll(""))
	})
}

// An expired key is gone for every method, and stays if it is set again.
func TestExpiredKeysAreGoneForEveryVerb(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		ok(t, r.SetWithTTL("g", "k", "v", 50*time.Millisecond), r.SetWithTTL("h", "k", "v", time.Hour))
		same(t, "v")(r.Get("g", "k"))
		time.Sleep(49 * time.Millisecond)
		same(t, "v")(r.Get("g", "k"))
		time.Sleep(time.Millisecond)
		is(t, second(r.Get("g", "k")), store.ErrNotFound)
		same(t, false)(r.Exists("g", "k"))
		same(t, false)(r.GroupExists("g"))
		same(t, 0)(r.Count("g"))
		same(t, 1)(r.CountAll(""))
		same(t, []string{"h"})(r.Groups(""))
		same(t, map[string]string{})(r.GetAll("g"))
		same(t, []store.KeyValue{})(r.GetPage("g", 0, 10))
		same(t, "<no value>")(r.Render("{{.k}}", "g"))
		for _, ttl := range []time.Duration{0, -1, time.Millisecond - 1} {
			refusedAs(t, actor.InvalidArgument, r.SetWithTTL("g", "k", "v", ttl))
		}
		same(t, false)(r.Exists("g", "k"))
	})
}

func TestScopes(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		for _, name := range []string{"", "a b", "a:b", "a_b", "ä", "a\n", "."} {
			sc, err := store.NewScoped(r.Store, name)
			errorIf(t, sc != nil || actor.CodeOf(err) != actor.InvalidArgument, "%q: %v", name, err)
		}
		a, err := store.NewScoped(r.Store, "tenant-42")
		ok(t, err)
		b, err := store.NewScoped(r.Store, "B")
		ok(t, err)
		ok(t, a.Set("config", "theme", "dark"), b.Set("config", "theme", "light"), a.Set("", "k", "v"),
			a.SetWithTTL("a:b", "k", "v", time.Hour), r.Set("config", "theme", "none"))
		same(t, "dark")(r.Get("tenant-42:config", "theme"))
		same(t, "v")(r.Get("tenant-42:default", "k"))
		same(t, "v")(r.Get("tenant-42:a:b", "k"))
		same(t, "light")(b.Get("config", "theme"))
		same(t, []string{"a:b", "config", "default"})(a.Groups(""))
		same(t, []string{"config"})(a.Groups("c"))
		same(t, 3)(a.CountAll(""))
		same(t, 1)(a.Count("config"))
		same(t, []string{"B:config", "config", "tenant-42:a:b", "tenant-42:config", "tenant-42:default"})(r.Groups(""))
		same(t, 3)(r.CountAll("tenant-42:"))
		same(t, 3)(r.CountAll("ten"))
		same(t, "dark")(a.Render("{{.theme}}", "config"))
		e, found, err := r.kv.Get(ctx, kv.Key{"tenant-42", "config", "theme"})
		errorIf(t, !found || err != nil || string(e.Value.Data) != "dark", "%v %v %v", e, found, err)
		ok(t, a.DeletePrefix(""))
		same(t, []string{"B:config", "config"})(r.Groups(""))
		inner, err := store.NewScoped(b, "x")
		ok(t, err, inner.Set("g", "k", "v"), inner.Close())
		same(t, "v")(r.Get("B:x:g", "k"))
		refusedAs(t, actor.FailedPrecondition, second(store.NewScopedWithQuota(b, "x", store.QuotaConfig{})))
		refusedAs(t, actor.InvalidArgument, second(store.NewScopedWithQuota(r.Store, "x", store.QuotaConfig{MaxKeys: -1})),
			second(store.NewScopedWithQuota(r.Store, "x y", store.QuotaConfig{})))
	})
}

// The keys of a group with the name of a namespace are between the keys of the namespace. There are
// also keys of other interfaces.
func TestGroupsAreApartFromNamespacesAndOtherKeys(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		ok(t, r.Set("a", "k", "1"), r.Set("a", "z", "2"), r.Set("a:m", "k", "3"), r.Set("a:m", "k2", "4"), r.Set("a.b:c", "k", "5"))
		_, err := r.kv.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
			kv.Put(kv.Key{"a"}, kv.Text("foreign")), kv.Put(kv.Key{"a", 7},
				kv.Text("foreign")), kv.Put(kv.Key{"a", "m", "k", "x"}, kv.Text("foreign")), kv.Put(kv.Key{"a", "m"}, kv.Text("6")),
			kv.Put(kv.Key{"a:b", "k"}, kv.Text("foreign")), kv.Put(kv.Key{7, "k"}, kv.Text("foreign")),
		}})
		ok(t, err)
		same(t, map[string]string{"k": "1", "z": "2", "m": "6"})(r.GetAll("a"))
		same(t, 3)(r.Count("a"))
		same(t, 2)(r.Count("a:m"))
		same(t, 6)(r.CountAll(""))
		same(t, []string{"a", "a.b:c", "a:m"})(r.Groups(""))
		got := list(r.GroupsSeq(""))
		errorIf(t, got != "a a:m a.b:c", "%v", got)
		same(t, []store.KeyValue{{"m", "6"}, {"z", "2"}})(r.GetPageAfter("a", "k", 10))
		ok(t, r.DeleteGroup("a"))
		same(t, []string{"a.b:c", "a:m"})(r.Groups(""))
		ok(t, r.DeletePrefix("a"))
		same(t, 0)(r.CountAll(""))
		n, err := r.kv.Count(ctx, kv.Selection{})
		same(t, int64(5))(n, err) // the keys of the others
	})
}

// The store reads values of other interfaces as text, and they read the values of the store.
func TestValuesOfOtherInterfaces(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		_, err := r.kv.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
			kv.Put(kv.Key{"g", "object"}, kv.JSON([]byte(`{"n":1.50}`))), kv.Put(kv.Key{"g", "string"}, kv.JSON([]byte(`"a\nb"`))),
			kv.Put(kv.Key{"g", "bytes"}, kv.Bytes([]byte{0xFF, 0})), kv.Sum(kv.Key{"g", "sum"}, kv.JSON([]byte("7"))),
		}})
		ok(t, err)
		same(t, map[string]string{"object": `{"n":1.50}`, "string": "a\nb", "bytes": "\xff\x00", "sum": "7"})(r.GetAll("g"))
		ok(t, r.Set("g", "text", "é"), r.Set("g", "raw", "\xff"))
		entries, err := r.kv.GetMany(ctx, kv.Key{"g", "text"}, kv.Key{"g", "raw"})
		errorIf(t, err != nil || entries[0].Value.Encoding != host.EncodedText || entries[1].Value.Encoding != host.EncodedBytes,
			"%v %v", entries, err)
		same(t, "\xff")(r.Get("g", "raw"))
		refusedAs(t, actor.InvalidArgument, r.Set("\xff", "k", "v"), r.Set("g", "\xff", "v"))
		refusedAs(t, actor.TooLarge, r.Set("g", "k", strings.Repeat("v", 1<<20+1)), r.Set("g", strings.Repeat("k", 2048), "v"))
	})
}

func TestTransactions(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		sc, err := store.NewScoped(r.Store, "ns")
		ok(t, err, r.Set("g", "old", "1"), r.Set("h", "k", "1"), sc.Set("g", "k", "1"))
		boom := errors.New("boom")
		change := func(tx *store.Store) error {
			ok(t, tx.Set("g", "new", "2"), tx.SetWithTTL("g", "short", "3", time.Minute), tx.Delete("g", "old"),
				tx.DeleteGroup("h"), tx.Set("i", "k", "v"))
			same(t, map[string]string{"new": "2", "short": "3"})(tx.GetAll("g"))
			same(t, "2")(tx.Get("g", "new"))
			is(t, second(tx.Get("g", "old")), store.ErrNotFound)
			same(t, 2)(tx.Count("g"))
			same(t, []string{"g", "i", "ns:g"})(tx.Groups(""))
			same(t, []string{"i"})(tx.Groups("i"))
			same(t, false)(tx.GroupExists("h"))
			same(t, []store.KeyValue{{"short", "3"}})(tx.GetPage("g", 1, 1))
			same(t, []store.KeyValue{{"short", "3"}})(tx.GetPageAfter("g", "new", 1))
			inner, err := store.NewScoped(tx, "ns")
			ok(t, err, inner.Set("g", "k", "2"), inner.DeletePrefix("none"))
			same(t, 1)(inner.CountAll(""))
			refusedAs(t, actor.FailedPrecondition, second(tx.Render("", "g")), second(tx.Begin()),
				tx.Transaction(func(*store.Store) error { return nil }))
			return nil
		}
		is(t, r.Transaction(func(tx *store.Store) error { ok(t, change(tx)); return boom }), boom)
		same(t, []string{"g", "h", "ns:g"})(r.Groups(""))
		same(t, map[string]string{"old": "1"})(r.GetAll("g"))

		// A Tx does the same.
		tx, err := r.Begin()
		ok(t, err, change(tx.Store))
		tx.Rollback()
		is(t, tx.Commit(), kv.ErrEnded)
		same(t, map[string]string{"old": "1"})(r.GetAll("g"))
		tx, err = r.Begin()
		ok(t, err, change(tx.Store), tx.Commit())
		tx.Rollback()
		is(t, tx.Set("g", "k", "v"), kv.ErrEnded)
		same(t, map[string]string{"new": "2", "short": "3"})(r.GetAll("g"))
		same(t, "2")(sc.Get("g", "k"))
		time.Sleep(time.Minute)
		same(t, map[string]string{"new": "2"})(r.GetAll("g"))

		// A Tx whose reads have changed does nothing, and a Transaction runs again.
		tx, err = sc.Begin()
		ok(t, err)
		same(t, "2")(tx.Get("g", "k"))
		ok(t, sc.Set("g", "k", "3"), tx.Set("g", "k", "lost"))
		conflict, is := errors.AsType[*kv.ConflictError](tx.Commit())
		errorIf(t, !is || fmt.Sprint(conflict.Keys) != "[[ns g k]]", "%v", conflict)
		calls := 0
		ok(t, sc.Transaction(func(tx *store.Store) error {
			calls++
			v, err := tx.Get("g", "k")
			if calls == 1 {
				err = errors.Join(err, sc.Set("g", "k", "4"))
			}
			return errors.Join(err, tx.Set("g", "k", v+"!"))
		}))
		same(t, "4!")(sc.Get("g", "k"))
	})
}

func TestRender(t *testing.T) {
	inStore(t, func(t *testing.T, r *rig) {
		ok(t, r.Set("miner", "pool", "pool.lthn.io:3333"), r.Set("miner", "wallet", "iz..."), r.Set("miner", "a-b", "1"))
		same(t, `{"pool":"pool.lthn.io:3333","wallet":"iz..."}`)(r.Render(`{"pool":"{{ .pool }}","wallet":"{{ .wallet }}"}`, "miner"))
		same(t, "<no value> 1")(r.Render(`{{.none}} {{get "a-b"}}`, "miner"))
		for _, c := range []struct{ template, text string }{
			{"{{", "store.Render: parse: "}, {"{{.pool.x}}", "store.Render: exec: "}, {"{{range 1000000000000}}{{end}}",
				"store.Render: exec: "},
		} {
			if _, err := r.Render(c.template, "miner"); err == nil || !strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("%s: %v", c.template, err)
			}
		}
		if _, err := r.RenderStrict("{{.none}}", "miner"); err == nil || !strings.Contains(err.Error(), `"none"`) {
			t.Error(err)
		}
	})
}

// Random calls return the same as on a map, even after restarts, sleep and crashes.
func TestRandomCallsAreThoseOfAMap(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			inStore(t, func(t *testing.T, r *rig) { randomCalls(t, r, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

type place struct{ group, key string }

type kept struct {
	value   string
	expires time.Time
}

func randomCalls(t *testing.T, r *rig, random *rand.Rand) {
	model := make(map[place]kept)
	groups := []string{"a", "A", "a:a", "a:b", "ab", "b", "b:a:b", "", "x.y:z", "%", "_"}
	keys := []string{"k", "K", "a", "", "k\x00", "é"}
	prefixes := []string{"", "a", "a:", "a:a", "A", "b:", "x.", "%", "a:b:"}
	some := func(of []string) string { return of[random.IntN(len(of))] }
	live := func(prefix string) map[place]kept {
		all := make(map[place]kept)
		for p, v := range model {
			if strings.HasPrefix(p.group, prefix) && (v.expires.IsZero() || time.Now().Before(v.expires)) {
				all[p] = v
			}
		}
		return all
	}
	drop := func(match func(string) bool) {
		maps.DeleteFunc(model, func(p place, _ kept) bool { return match(p.group) })
	}
	for range 300 {
		p, v := place{some(groups), some(keys)}, strconv.Itoa(random.IntN(1000))
		prefix := some(prefixes)
		switch random.IntN(12) {
		default:
			ok(t, r.Set(p.group, p.key, v))
			model[p] = kept{value: v}
		case 0, 1:
			ttl := time.Duration(1+random.IntN(5000)) * time.Millisecond
			ok(t, r.SetWithTTL(p.group, p.key, v, ttl))
			model[p] = kept{v, time.Now().Add(ttl)}
		case 2:
			ok(t, r.Delete(p.group, p.key))
			delete(model, p)
		case 3:
			ok(t, r.DeleteGroup(p.group))
			drop(func(g string) bool { return g == p.group })
		case 4:
			if random.IntN(3) > 0 {
				continue
			}
			ok(t, r.DeletePrefix(prefix))
			drop(func(g string) bool { return strings.HasPrefix(g, prefix) })
		case 5:
			time.Sleep(time.Duration(random.IntN(3000)) * time.Millisecond)
		case 6:
			switch random.IntN(6) {
			case 0:
				r.h.Crash()
			case 1:
				r.h.Restart()
			case 2:
				time.Sleep(time.Hour) // the actor sleeps
			}
		case 7:
			failed := random.IntN(2) == 0
			err := r.Transaction(func(tx *store.Store) error {
				ok(t, tx.Set(p.group, p.key, v), tx.DeleteGroup("b"), tx.Set("ab", "k", v))
				if failed {
					return context.Canceled
				}
				return nil
			})
			if failed {
				is(t, err, context.Canceled)
				continue
			}
			ok(t, err)
			model[p] = kept{value: v}
			drop(func(g string) bool { return g == "b" })
			model[place{"ab", "k"}] = kept{value: v}
		}
		now := live(prefix)
		names := make(map[string]bool)
		for p := range now {
			names[p.group] = true
		}
		same(t, len(now))(r.CountAll(prefix))
		same(t, append([]string{}, slices.Sorted(maps.Keys(names))...))(r.Groups(prefix))
		group := make(map[string]string)
		for at, v := range live("") {
			if at.group == p.group {
				group[at.key] = v.value
			}
		}
		same(t, group)(r.GetAll(p.group))
		same(t, len(group))(r.Count(p.group))
		fatalIf(t, t.Failed(), "after a change of %+v and %q", p, prefix)
	}
}

// A power cut loses no acknowledged Set, and no part of one.
func TestACrashKeepsWhatWasAcknowledged(t *testing.T) {
	for seed := range uint64(4) {
		actortest.Config{Seed: seed + 1, UnsyncedPercent: 50}.Run(t, func(t *testing.T, h *actortest.Harness) {
			r := store.Of(tenants.Ref(h, "a").KV())
			defer r.Close()
			const writers, each = 4, 60
			var acked sync.Map
			var all sync.WaitGroup
			progress := make(chan struct{}, writers*each)
			for w := range writers {
				all.Go(func() {
					for n := range each {
						key := fmt.Sprint(w, "/", n)
						err := r.Transaction(func(tx *store.Store) error { return errors.Join(tx.Set("x", key, key), tx.Set("y", key, key)) })
						if err == nil { // the call during the power cut has failed
							acked.Store(key, key)
							progress <- struct{}{}
						}
					}
				})
			}
			for range 5 + 7*seed {
				<-progress
			}
			h.Crash()
			all.Wait()
			x, err := r.GetAll("x")
			ok(t, err)
			same(t, x)(r.GetAll("y"))
			for key := range acked.Range {
				errorIf(t, x[key.(string)] != key, "%s is lost", key)
			}
		}, actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	}
}
