package kv_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// inStore runs a test with the store of one actor, in virtual time.
func inStore(t *testing.T, f func(t *testing.T, store kv.Store)) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) { f(t, tenants.Ref(h, "a").KV()) },
		actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
}

func document(n int) kv.Value { return kv.JSON(strconv.AppendInt(nil, int64(n), 10)) }

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// check ends the test if there is an error.
func check(t testing.TB, errs ...error) {
	if err := errors.Join(errs...); err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// commits does mutations in one commit.
func commits(t testing.TB, store kv.Store, m ...kv.Mutation) kv.Result {
	t.Helper()
	return must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: m}))
}

// all returns the entries of a listing.
func all(t testing.TB, listing iter.Seq2[kv.Entry, error]) (entries []kv.Entry) {
	t.Helper()
	for e, err := range listing {
		check(t, err)
		entries = append(entries, e)
	}
	return entries
}

// holds checks the value of a key. "" is no entry.
func holds(t testing.TB, store kv.Store, key kv.Key, want string) {
	t.Helper()
	e, found, err := store.Get(t.Context(), key)
	if err != nil || found != (want != "") || string(e.Value.Data) != want {
		t.Errorf("%v is %q, %v, want %q: %v", key, e.Value.Data, found, want, err)
	}
}

// A bound of a listing need not be a key. The entries that a listing and Get return are not the
// ones that the transaction will write.
func TestATransactionListsBetweenBytes(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		commits(t, store, kv.Put(kv.Key{"a", "xy"}, document(1)), kv.Put(kv.Key{"a", "y"}, document(1)))
		tx := store.Begin()
		check(t, tx.Do(kv.Put(kv.Key{"a", "x"}, kv.Text("abc")), kv.Put(kv.Key{"a", "z"}, document(2))))
		between := kv.Selection{Start: kv.Key{"a", hostkv.Raw("\x02x")}, End: kv.Key{"a", hostkv.Raw("\x02x\xFF")}}
		got := all(t, tx.All(t.Context(), kv.ListConfig{Selection: between}))
		errorIf(t, len(got) != 2 || got[0].Key[1] != "x" || got[1].Key[1] != "xy", "%v", got)
		e, _, err := tx.Get(t.Context(), kv.Key{"a", "x"})
		check(t, err)
		e.Value.Data[0] = 'X'
		seen := must[[]*kv.Entry](t)(tx.GetMany(t.Context(), kv.Key{"a", "xy"}))
		seen[0].Version = 0
		must[kv.Result](t)(tx.Commit(t.Context()))
		holds(t, store, kv.Key{"a", "x"}, "abc")
	})
}

// A loop over a transaction's entries has each as it was when the loop began, regardless of the
// loop's own changes. A loop that ends early does not move the beginning of the next one.
func TestALoopOfATransactionIsNotChangedByItself(t *testing.T) {
	for name, do := range map[string]kv.Mutation{
		"put": kv.Put(kv.Key{"b"}, document(9)), "sum": kv.Sum(kv.Key{"b"}, document(9)), "delete": kv.Delete(kv.Key{"b"}),
		"range": kv.DeleteRange(kv.Selection{Prefix: kv.Key{}}),
	} {
		inStore(t, func(t *testing.T, store kv.Store) {
			commits(t, store, kv.Put(kv.Key{"a"}, document(1)), kv.Put(kv.Key{"b"}, document(2)), kv.Put(kv.Key{"d"}, document(4)))
			tx := store.Begin()
			check(t, tx.Do(kv.Put(kv.Key{"c"}, document(3)), kv.Delete(kv.Key{"d"})))
			pages := tx.All(t.Context(), kv.ListConfig{Limit: 2})
			n := 0
			for range pages {
				if n++; n == 3 { // of the second page
					break
				}
			}
			got := ""
			for e, err := range pages {
				check(t, err)
				if got += string(e.Value.Data); got == "1" {
					check(t, tx.Do(do))
				}
			}
			errorIf(t, got != "123", "%s: %s", name, got)
		})
	}
}

// An empty filter never means that all entries meet it.
func TestAnEmptyFilterDeletesNothing(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		commits(t, store, kv.Put(kv.Key{"a"}, document(1)))
		for _, filter := range [][]byte{nil, {}} {
			where := kv.DeleteWhere(kv.Selection{Prefix: kv.Key{}}, filter)
			_, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{where}})
			e, is := errors.AsType[*actor.Error](err)
			errorIf(t, !is || e.Code != actor.InvalidArgument || e.Metadata["field"] != "mutations[0].where", "%q: %v", filter, err)
		}
		holds(t, store, kv.Key{"a"}, "1")
	})
}

// B16, D8: reads of a transaction see its own writes. They must agree with a map, in any order.
func TestB16ATransactionReadsItsOwnWrites(t *testing.T) {
	for seed := range uint64(30) {
		inStore(t, func(t *testing.T, store kv.Store) {
			ctx, rnd := t.Context(), rand.New(rand.NewPCG(seed, 2))
			model := make(map[string]string)
			key := func() kv.Key { return kv.Key{[]string{"a", "a\x00", "b"}[rnd.IntN(3)], int64(rnd.IntN(4))} }
			put := func() kv.Mutation {
				k, v := key(), document(rnd.IntN(100))
				model[fmt.Sprint(k)] = string(v.Data)
				return kv.Put(k, v)
			}
			var before []kv.Mutation
			for range rnd.IntN(8) {
				before = append(before, put())
			}
			commits(t, store, before...)
			must[kv.Result](t)(store.Update(ctx, func(tx *kv.Tx) error {
				for range 30 {
					switch k := key(); rnd.IntN(6) {
					case 0, 1:
						check(t, tx.Do(put()))
					case 2:
						delete(model, fmt.Sprint(k))
						check(t, tx.Do(kv.Delete(k)))
					case 3:
						maps.DeleteFunc(model, func(name, _ string) bool { return strings.HasPrefix(name, fmt.Sprintf("[%s ", k[0])) })
						check(t, tx.Do(kv.DeleteRange(kv.Selection{Prefix: k[:1]})))
					case 4:
						e, found, err := tx.Get(ctx, k)
						if want, there := model[fmt.Sprint(k)]; err != nil || found != there || found && string(e.Value.Data) != want {
							t.Errorf("%v is %s, %v, want %s, %v: %v", k, e.Value.Data, found, want, there, err)
						}
					case 5:
						c := kv.ListConfig{Limit: 1 + rnd.IntN(3), Reverse: rnd.IntN(2) == 0, KeysOnly: rnd.IntN(2) == 0}
						if rnd.IntN(2) == 0 {
							c.Prefix = k[:1]
						}
						compare(t, all(t, tx.All(ctx, c)), c, model)
					}
				}
				return nil
			}))
			compare(t, all(t, store.All(ctx, kv.ListConfig{})), kv.ListConfig{}, model)
		})
	}
}

// compare checks that a listing has the entries of a model, in the order of their keys.
func compare(t *testing.T, got []kv.Entry, c kv.ListConfig, model map[string]string) {
	t.Helper()
	left := maps.Clone(model)
	maps.DeleteFunc(left, func(name, _ string) bool {
		return c.Prefix != nil && !strings.HasPrefix(name, fmt.Sprintf("[%s ", c.Prefix[0]))
	})
	for _, e := range got {
		name := fmt.Sprint(e.Key)
		want, there := left[name]
		if delete(left, name); c.KeysOnly {
			want = ""
		}
		errorIf(t, !there || string(e.Value.Data) != want, "%+v: %v is %q, want %q, %v", c, e.Key, e.Value.Data, want, there)
	}
	if c.Reverse {
		slices.Reverse(got)
	}
	ordered := slices.IsSortedFunc(got, func(a, b kv.Entry) int {
		return cmp.Or(strings.Compare(a.Key[0].(string), b.Key[0].(string)), cmp.Compare(a.Key[1].(int64), b.Key[1].(int64)))
	})
	errorIf(t, !ordered || len(left) > 0, "%+v: the order is %v, and %v are missing", c, got, left)
}

// D7: an entry that a scan did not find counts as read. Each transaction adds an entry only while
// there are fewer than five.
func TestPhantomsConflict(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		var group sync.WaitGroup
		seats := kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"seat"}}, KeysOnly: true}
		for i := range 8 {
			group.Go(func() {
				for j := range 3 {
					_, err := store.Update(t.Context(), func(tx *kv.Tx) error {
						n := 0
						for _, err := range tx.All(t.Context(), seats) {
							if n++; err != nil {
								return err
							}
						}
						if n >= 5 {
							return nil
						}
						return tx.Do(kv.Put(kv.Key{"seat", i, j}, document(1)))
					})
					_, conflict := errors.AsType[*kv.ConflictError](err)
					errorIf(t, err != nil && !conflict, "%v", err)
				}
			})
		}
		group.Wait()
		if n := must[int64](t)(store.Count(t.Context(), kv.Selection{})); n != 5 {
			t.Errorf("%d entries", n)
		}
	})
}

// D10: a conflict is tried again, 8 times in all.
func TestConflictsAreTriedAgain(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"n"}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				_, err := store.Update(ctx, func(tx *kv.Tx) error {
					e, _, err := tx.Get(ctx, key)
					n, _ := strconv.Atoi(string(e.Value.Data))
					return errors.Join(err, tx.Do(kv.Put(key, document(n+1))))
				})
				errorIf(t, err != nil, "%v", err)
			})
		}
		group.Wait()
		holds(t, store, key, "4")
		tries := 0
		try := func(ctx context.Context, f func()) error {
			tries = 0
			_, err := store.Update(ctx, func(tx *kv.Tx) error {
				tries++
				_, _, err := tx.Get(ctx, key)
				for _, listed := range tx.All(ctx, kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"p"}}}) {
					err = errors.Join(err, listed)
				}
				commits(t, store, kv.Sum(key, document(1)), kv.Put(kv.Key{"p", tries}, document(1)))
				f()
				return errors.Join(err, tx.Do(kv.Put(kv.Key{"mine"}, document(1))))
			})
			return err
		}
		err := try(ctx, func() {})
		conflict, ok := errors.AsType[*kv.ConflictError](err)
		if !ok || tries != 8 || actor.CodeOf(err) != actor.FailedPrecondition ||
			fmt.Sprint(conflict.Keys, conflict.Selections[0].Prefix) != "[[n]] [p]" {
			t.Errorf("%d tries: %v", tries, err)
		}
		canceled, cancel := context.WithCancel(ctx)
		if err := try(canceled, func() {
			if tries == 2 {
				cancel()
			}
		}); tries != 2 || err == nil {
			t.Errorf("%d tries: %v", tries, err)
		}
		holds(t, store, kv.Key{"mine"}, "") // as both transactions failed
	})
}

func TestATransactionEnds(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"n"}
		ended := func(tx *kv.Tx, why string) {
			t.Helper()
			_, _, err := tx.Get(ctx, key)
			_, err2 := tx.Commit(ctx)
			var err3 error
			for _, err3 = range tx.All(ctx, kv.ListConfig{}) {
			}
			for _, err := range []error{err, err2, err3, tx.Do(kv.Delete(key))} {
				if !errors.Is(err, kv.ErrEnded) || actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), why) {
					t.Errorf("%v", err)
				}
			}
		}
		tx := store.Begin()
		for range 3 {
			time.Sleep(30 * time.Second) // in virtual time
			check(t, tx.Do(kv.Sum(key, document(1))))
		}
		r := must[kv.Result](t)(tx.Commit(ctx))
		errorIf(t, string(r.Results[2].Value.Data) != "3", "%+v", r)
		ended(tx, "committed or rolled back")
		tx.Rollback()
		for why, end := range map[string]func(tx *kv.Tx){
			"rested for more than 30s": func(*kv.Tx) { time.Sleep(30*time.Second + 1) }, "committed or rolled back": (*kv.Tx).Rollback,
		} {
			tx = store.Begin()
			check(t, tx.Do(kv.Put(key, document(9))))
			end(tx)
			ended(tx, why)
		}
		holds(t, store, key, "3")
	})
}

func TestATransactionTellsWhatItCannotKnow(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"n"}
		commits(t, store, kv.Put(key, document(1)))
		for _, m := range []kv.Mutation{
			kv.Sum(key, document(1)), kv.Append(key, kv.JSON([]byte("[]"))), kv.Touch(key, time.Second),
			kv.DeleteWhere(kv.Selection{Prefix: kv.Key{}}, []byte(`{"a":1}`)),
		} {
			tx := store.Begin()
			check(t, tx.Do(m))
			_, _, err := tx.Get(ctx, key)
			for _, err2 := range tx.All(ctx, kv.ListConfig{}) {
				err = errors.Join(err, err2)
			}
			if actor.CodeOf(err) != actor.FailedPrecondition || strings.Count(err.Error(), "known after the commit") != 2 {
				t.Errorf("%v", err)
			}
		}
		tx := store.Begin()
		check(t, tx.Do(kv.Put(key, document(1))))
		for _, c := range []kv.ListConfig{{Where: []byte(`{"a":1}`)}, {Cursor: "x"}, {Selection: kv.Selection{Prefix: kv.Key{nil}}}} {
			for _, err := range tx.All(ctx, c) {
				errorIf(t, err == nil, "%+v is listed", c)
			}
		}
		_, _, err := tx.Get(ctx, kv.Key{})
		check(t, tx.Do(kv.Put(kv.Key{}, document(1))))
		_, err2 := tx.Commit(ctx) // the node says what is wrong
		errorIf(t, actor.CodeOf(err) != actor.InvalidArgument || actor.CodeOf(err2) != actor.InvalidArgument, "%v, %v", err, err2)
	})
}

// An Update that panics is undone, even if the handler goes on.
func TestAnUpdateThatPanicsIsUndone(t *testing.T) {
	triers := actor.NewType[shop]("trier")
	try := actor.NewAction[actor.None, actor.None](triers, "try")
	put := func(store actor.KV, key string) error {
		_, err := store.Commit(kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{key}, document(1))}})
		return err
	}
	definition := actor.Define(triers, actor.Spec[shop]{},
		actor.On(try, func(_ *shop, ctx *actor.Context, _ actor.None) (none actor.None, err error) {
			func() {
				defer func() { err = errors.Join(err, fmt.Errorf("%v", recover())) }()
				err = ctx.KV().Update(func(tx actor.KV) error {
					if err := put(tx, "a"); err != nil {
						return err
					}
					panic("no")
				})
			}()
			if err.Error() != "no" {
				return none, err
			}
			return none, put(ctx.KV(), "b")
		}))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		_, err := try.Call(t.Context(), triers.Ref(h, "a"), actor.None{})
		fatalIf(t, err != nil, "%v", err)
		var keys []string
		for _, k := range h.Inspect("trier", "a") {
			if strings.HasPrefix(k.Text, "kv") {
				keys = append(keys, k.Text)
			}
		}
		errorIf(t, fmt.Sprint(keys) != `[kv("b")]`, "%v", keys)
	}, definition)
}

// A turn whose Update cannot be undone alone fails, even if its handler ignores the error: an
// effect that is not written yet, such as an event, must not survive the undone writes. Effects
// before the Update do not count.
func TestAnUpdateThatDidMoreFailsTheTurn(t *testing.T) {
	triers := actor.NewType[shop]("trier")
	said := actor.NewEvent[string](triers, "said", actor.EventConfig{})
	rings := actor.NewAlarm[actor.None](triers, "ring")
	try := actor.NewAction[string, actor.None](triers, "try")
	hear := actor.NewAction[actor.None, actor.None](triers, "hear")
	refused := errors.New("refused")
	begun, end, ended := make(chan error), make(chan error), make(chan error)
	do := func(ctx *actor.Context, what string) error {
		other := triers.Ref(ctx, "other")
		switch what {
		case "alarm":
			return rings.At(ctx, ctx.Now().Add(time.Hour), actor.None{})
		case "event":
			return said.Emit(ctx, "a is put")
		case "message":
			return hear.Send(ctx, other, actor.None{})
		case "call":
			_, err := hear.Call(ctx, other, actor.None{})
			return err
		case "task":
			return ctx.Go("rest", func(*actor.Task) error { return nil })
		case "sql":
			_, err := ctx.SQL().Exec(`CREATE TABLE IF NOT EXISTS a (b)`)
			return err
		case "read sql":
			var n int
			return ctx.SQL().QueryRow(`SELECT count(*) FROM sqlite_schema`).Scan(&n)
		case "destroy":
			ctx.DestroySelf()
		case "part of": // begins another update, which ends well, but after it was undone
			go func() {
				ended <- ctx.KV().Update(func(actor.KV) error { begun <- nil; return <-end })
			}()
			return <-begun
		}
		return nil
	}
	put := func(store actor.KV, key string) error {
		_, err := store.Commit(kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{key}, document(1))}})
		return err
	}
	definition := actor.Define(triers, actor.Spec[shop]{},
		actor.OnAlarm(rings, func(*shop, *actor.Context, actor.None) error { return nil }),
		actor.On(hear, func(*shop, *actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }),
		actor.On(try, func(_ *shop, ctx *actor.Context, what string) (none actor.None, err error) {
			if err := errors.Join(do(ctx, "event"), do(ctx, "message"), do(ctx, "sql")); err != nil {
				return none, err
			}
			err = ctx.KV().Update(func(tx actor.KV) error {
				return errors.Join(put(tx, "a"), do(ctx, what), put(tx, "c"), refused)
			})
			if what == "part of" {
				end <- nil
				<-ended
			}
			if !errors.Is(err, refused) {
				return none, err
			}
			return none, put(ctx.KV(), "b")
		}))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := triers.Ref(h, "a")
		undone := func(what string, want bool) {
			t.Helper()
			_, err := try.Call(t.Context(), ref, what)
			errorIf(t, (err == nil) != want, "%q: %v", what, err)
		}
		for _, what := range []string{"alarm", "event", "message", "task", "sql", "destroy", "part of"} {
			undone(what, false)
		}
		for _, what := range []string{"", "read sql", "call"} {
			undone(what, true)
		}
		for range 10 { // with the turns that send the messages of the turn before
			undone("call", true)
		}
		var keys []string
		for _, k := range h.Inspect("trier", "a") {
			if strings.HasPrefix(k.Text, "kv") || strings.HasPrefix(k.Text, "alarm") {
				keys = append(keys, k.Text)
			}
		}
		n := len(h.Events("trier", "a"))
		errorIf(t, n != 13 || fmt.Sprint(keys) != `[kv("b")]`, "%d events, %v", n, keys)
	}, definition)
}

var fatalIf, errorIf = testutil.FatalIf, testutil.ErrorIf
