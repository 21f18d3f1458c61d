package kv_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
)

// inStore runs a test with the store of one actor, in virtual time.
func inStore(t *testing.T, f func(t *testing.T, store kv.Store)) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) { f(t, tenants.Ref(h, "a").KV()) },
		actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
}

func document(n int) kv.Value { return kv.JSON(strconv.AppendInt(nil, int64(n), 10)) }

func number(t testing.TB, v kv.Value) int {
	n, err := strconv.Atoi(string(v.Data))
	if err != nil {
		t.Error(err)
	}
	return n
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A bound of a listing need not be a key.
func TestATransactionListsBetweenBytes(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"a", "xy"}, document(1)), kv.Put(kv.Key{"a", "y"}, document(1))}}))
		tx := store.Begin()
		if err := tx.Do(kv.Put(kv.Key{"a", "x"}, document(2)), kv.Put(kv.Key{"a", "z"}, document(2))); err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range tx.All(t.Context(), kv.ListConfig{Selection: kv.Selection{Start: kv.Key{"a", hostkv.Raw("\x02x")}, End: kv.Key{"a", hostkv.Raw("\x02x\xFF")}}}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(e.Key[1]))
		}
		if !slices.Equal(got, []string{"x", "xy"}) {
			t.Error(got)
		}
	})
}

// What a transaction gives out is not what it is going to write.
func TestAnEntryOfATransactionMayBeChanged(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"seen"}, document(1))}}))
		tx := store.Begin()
		if err := tx.Do(kv.Put(kv.Key{"k"}, kv.Text("abc"))); err != nil {
			t.Fatal(err)
		}
		e, _, err := tx.Get(t.Context(), kv.Key{"k"})
		if err != nil {
			t.Fatal(err)
		}
		e.Value.Data[0] = 'X'
		seen := must[[]*kv.Entry](t)(tx.GetMany(t.Context(), kv.Key{"seen"}))
		seen[0].Version = 0
		must[kv.Result](t)(tx.Commit(t.Context()))
		if e, _, err := store.Get(t.Context(), kv.Key{"k"}); err != nil || string(e.Value.Data) != "abc" {
			t.Errorf("stored %q %v", e.Value.Data, err)
		}
	})
}

// A loop over a transaction's entries has each as it was when the loop began, whatever the loop does to the next ones.
func TestALoopOfATransactionIsNotChangedByItself(t *testing.T) {
	for name, do := range map[string]kv.Mutation{
		"put": kv.Put(kv.Key{"b"}, document(9)), "sum": kv.Sum(kv.Key{"b"}, document(9)), "delete": kv.Delete(kv.Key{"b"}), "range": kv.DeleteRange(kv.Selection{Prefix: kv.Key{}}),
	} {
		t.Run(name, func(t *testing.T) {
			inStore(t, func(t *testing.T, store kv.Store) {
				must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"a"}, document(1)), kv.Put(kv.Key{"b"}, document(2)), kv.Put(kv.Key{"d"}, document(4))}}))
				tx := store.Begin()
				if err := tx.Do(kv.Put(kv.Key{"c"}, document(3)), kv.Delete(kv.Key{"d"})); err != nil {
					t.Fatal(err)
				}
				var got []int
				for e, err := range tx.All(t.Context(), kv.ListConfig{}) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, number(t, e.Value)); len(got) == 1 {
						if err := tx.Do(do); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !slices.Equal(got, []int{1, 2, 3}) {
					t.Error(got)
				}
			})
		})
	}
}

// An empty filter never means that all entries meet it.
func TestAnEmptyFilterDeletesNothing(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"a"}, document(1))}}))
		for _, filter := range [][]byte{nil, {}} {
			_, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.DeleteWhere(kv.Selection{Prefix: kv.Key{}}, filter)}})
			if e, is := errors.AsType[*actor.Error](err); !is || e.Code != actor.InvalidArgument || e.Metadata["field"] != "mutations[0].where" {
				t.Errorf("%q: %v", filter, err)
			}
		}
		if n := must[int64](t)(store.Count(t.Context(), kv.Selection{Prefix: kv.Key{}})); n != 1 {
			t.Errorf("%d entries are left", n)
		}
	})
}

// B16, D8: reads of a transaction see its own writes. They must agree with a map, whatever the order.
func TestB16ATransactionReadsItsOwnWrites(t *testing.T) {
	for seed := range uint64(30) {
		inStore(t, func(t *testing.T, store kv.Store) {
			ctx, rnd := t.Context(), rand.New(rand.NewPCG(seed, 2))
			key := func() kv.Key { return kv.Key{[]string{"a", "a\x00", "b"}[rnd.IntN(3)], int64(rnd.IntN(4))} }
			model := make(map[string]string)
			var before []kv.Mutation
			for range rnd.IntN(8) {
				k, n := key(), rnd.IntN(100)
				before = append(before, kv.Put(k, document(n)))
				model[fmt.Sprint(k)] = strconv.Itoa(n)
			}
			must[kv.Result](t)(store.Commit(ctx, kv.Commit{Mutations: before}))
			_, err := store.Update(ctx, func(tx *kv.Tx) error {
				for range 30 {
					switch k := key(); rnd.IntN(6) {
					case 0, 1:
						n := rnd.IntN(100)
						model[fmt.Sprint(k)] = strconv.Itoa(n)
						if err := tx.Do(kv.Put(k, document(n))); err != nil {
							return err
						}
					case 2:
						delete(model, fmt.Sprint(k))
						if err := tx.Do(kv.Delete(k)); err != nil {
							return err
						}
					case 3:
						maps.DeleteFunc(model, func(name, _ string) bool { return strings.HasPrefix(name, fmt.Sprintf("[%s ", k[0])) })
						if err := tx.Do(kv.DeleteRange(kv.Selection{Prefix: k[:1]})); err != nil {
							return err
						}
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
						compare(t, tx, c, model)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for e, err := range store.All(ctx, kv.ListConfig{}) {
				if name := fmt.Sprint(e.Key); err != nil || model[name] != string(e.Value.Data) {
					t.Errorf("%s is %s, want %q: %v", name, e.Value.Data, model[name], err)
				}
			}
			if n, err := store.Count(ctx, kv.Selection{}); err != nil || n != int64(len(model)) {
				t.Errorf("%d entries, want %d: %v", n, len(model), err)
			}
		})
	}
}

func compare(t *testing.T, tx *kv.Tx, c kv.ListConfig, model map[string]string) {
	var got, want []string
	var keys []kv.Key
	for e, err := range tx.All(t.Context(), c) {
		if err != nil {
			t.Error(err)
		}
		got, keys = append(got, fmt.Sprint(e.Key)), append(keys, e.Key)
		if data := string(e.Value.Data); c.KeysOnly && data != "" || !c.KeysOnly && data != model[fmt.Sprint(e.Key)] {
			t.Errorf("%v is %q, want %q", e.Key, data, model[fmt.Sprint(e.Key)])
		}
	}
	for name := range model {
		if c.Prefix == nil || strings.HasPrefix(name, fmt.Sprintf("[%s ", c.Prefix[0])) {
			want = append(want, name)
		}
	}
	if !slices.IsSortedFunc(keys, func(a, b kv.Key) int {
		if c.Reverse {
			a, b = b, a
		}
		return cmp.Or(strings.Compare(a[0].(string), b[0].(string)), cmp.Compare(a[1].(int64), b[1].(int64)))
	}) {
		t.Errorf("%+v: the order is %v", c, keys)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%+v: %q, want %q", c, got, want)
	}
}

// D7: what a scan did not find counts as read. Each transaction adds an entry only while there are fewer than five.
func TestPhantomsConflict(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				for j := range 3 {
					_, err := store.Update(t.Context(), func(tx *kv.Tx) error {
						n := 0
						for _, err := range tx.All(t.Context(), kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"seat"}}, KeysOnly: true}) {
							if err != nil {
								return err
							}
							n++
						}
						if n >= 5 {
							return nil
						}
						return tx.Do(kv.Put(kv.Key{"seat", i, j}, document(1)))
					})
					if conflict := (*kv.ConflictError)(nil); err != nil && !errors.As(err, &conflict) {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		if n, err := store.Count(t.Context(), kv.Selection{}); err != nil || n != 5 {
			t.Errorf("%d entries: %v", n, err)
		}
	})
}

// D10: a conflict is tried again, 8 times in all.
// A loop that ended early does not move where the next one begins.
func TestAListingOfATransactionIsRangedOverTwice(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		var puts []kv.Mutation
		for i := range 5 {
			puts = append(puts, kv.Put(kv.Key{i}, document(i)))
		}
		must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: puts}))
		tx := store.Begin()
		defer tx.Rollback()
		all := tx.All(t.Context(), kv.ListConfig{Limit: 2})
		for _, most := range []int{3, 5} {
			n := 0
			for _, err := range all {
				if err != nil {
					t.Fatal(err)
				}
				if n++; n == most {
					break
				}
			}
			if n != most {
				t.Errorf("%d entries, not %d", n, most)
			}
		}
	})
}

func TestConflictsAreTriedAgain(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"n"}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				_, err := store.Update(ctx, func(tx *kv.Tx) error {
					e, found, err := tx.Get(ctx, key)
					n := 0
					if found {
						n = number(t, e.Value)
					}
					return errors.Join(err, tx.Do(kv.Put(key, document(n+1))))
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if e, _, err := store.Get(ctx, key); err != nil || string(e.Value.Data) != "4" {
			t.Errorf("%s, %v", e.Value.Data, err)
		}
		tries := 0
		_, err := store.Update(ctx, func(tx *kv.Tx) error {
			tries++
			_, _, err := tx.Get(ctx, key)
			for _, err := range tx.All(ctx, kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"p"}}}) {
				if err != nil {
					return err
				}
			}
			_, other := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Sum(key, document(1)), kv.Put(kv.Key{"p", tries}, document(1))}})
			return errors.Join(err, other, tx.Do(kv.Put(kv.Key{"mine"}, document(1))))
		})
		conflict, ok := errors.AsType[*kv.ConflictError](err)
		if !ok || tries != 8 || actor.CodeOf(err) != actor.FailedPrecondition || fmt.Sprint(conflict.Keys, conflict.Selections[0].Prefix) != "[[n]] [p]" {
			t.Errorf("%d tries: %v", tries, err)
		}
		if _, found, err := store.Get(ctx, kv.Key{"mine"}); found || err != nil {
			t.Errorf("the transaction that failed wrote something: %v", err)
		}
		canceled, cancel := context.WithCancel(ctx)
		tries = 0
		_, err = store.Update(canceled, func(tx *kv.Tx) error {
			tries++
			_, _, err := tx.Get(ctx, key)
			_, other := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Sum(key, document(1))}})
			if tries == 2 {
				cancel()
			}
			return errors.Join(err, other, tx.Do(kv.Delete(key)))
		})
		if tries != 2 || err == nil {
			t.Errorf("%d tries: %v", tries, err)
		}
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
			if err := tx.Do(kv.Sum(key, document(1))); err != nil {
				t.Fatal(err)
			}
		}
		if r := must[kv.Result](t)(tx.Commit(ctx)); string(r.Results[2].Value.Data) != "3" {
			t.Errorf("%+v", r)
		}
		ended(tx, "committed or rolled back")
		tx.Rollback()
		tx = store.Begin()
		if err := tx.Do(kv.Put(key, document(9))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30*time.Second + 1)
		ended(tx, "rested for more than 30s")
		tx = store.Begin()
		if err := tx.Do(kv.Put(key, document(9))); err != nil {
			t.Fatal(err)
		}
		tx.Rollback()
		ended(tx, "committed or rolled back")
		if e, _, err := store.Get(ctx, key); err != nil || string(e.Value.Data) != "3" {
			t.Errorf("%s, %v", e.Value.Data, err)
		}
	})
}

func TestATransactionTellsWhatItCannotKnow(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"n"}
		must[kv.Result](t)(store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(key, document(1))}}))
		for _, m := range []kv.Mutation{kv.Sum(key, document(1)), kv.Append(key, kv.JSON([]byte("[]"))), kv.Touch(key, time.Second), kv.DeleteWhere(kv.Selection{Prefix: kv.Key{}}, []byte(`{"a":1}`))} {
			tx := store.Begin()
			if err := tx.Do(m); err != nil {
				t.Fatal(err)
			}
			_, _, err := tx.Get(ctx, key)
			for _, err2 := range tx.All(ctx, kv.ListConfig{}) {
				err = errors.Join(err, err2)
			}
			if actor.CodeOf(err) != actor.FailedPrecondition || strings.Count(err.Error(), "known after the commit") != 2 {
				t.Errorf("%v", err)
			}
		}
		tx := store.Begin()
		if err := tx.Do(kv.Put(key, document(1))); err != nil {
			t.Fatal(err)
		}
		for _, c := range []kv.ListConfig{{Where: []byte(`{"a":1}`)}, {Cursor: "x"}, {Selection: kv.Selection{Prefix: kv.Key{nil}}}} {
			for _, err := range tx.All(ctx, c) {
				if err == nil {
					t.Errorf("%+v is listed", c)
				}
			}
		}
		if _, _, err := tx.Get(ctx, kv.Key{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
		if err := tx.Do(kv.Put(kv.Key{}, document(1))); err != nil {
			t.Error(err)
		}
		if _, err := tx.Commit(ctx); actor.CodeOf(err) != actor.InvalidArgument { // the node says what is wrong
			t.Error(err)
		}
	})
}

// A turn whose Update cannot be undone alone fails, though its handler ignores the error.
func TestAnUpdateThatDidMoreFailsTheTurn(t *testing.T) {
	triers := actor.NewType[shop]("trier")
	rings := actor.NewAlarm[actor.None](triers, "ring")
	try := actor.NewAction[bool, actor.None](triers, "try")
	refused := errors.New("refused")
	definition := actor.Define(triers, actor.Spec[shop]{},
		actor.OnAlarm(rings, func(*shop, *actor.Context, actor.None) error { return nil }),
		actor.On(try, func(_ *shop, ctx *actor.Context, more bool) (actor.None, error) {
			err := ctx.KV().Update(func(tx actor.KV) error {
				if more {
					if err := rings.At(ctx, ctx.Now().Add(time.Hour), actor.None{}); err != nil {
						return err
					}
				}
				_, err := tx.Commit(kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"a"}, document(1))}})
				return errors.Join(err, refused)
			})
			if !errors.Is(err, refused) {
				return actor.None{}, err
			}
			_, err = ctx.KV().Commit(kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"b"}, document(1))}})
			return actor.None{}, err
		}))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := triers.Ref(h, "a")
		must[actor.None](t)(try.Call(t.Context(), ref, false))
		if _, err := try.Call(t.Context(), ref, true); err == nil {
			t.Error("the turn goes on")
		}
		var keys []string
		for _, k := range h.Inspect("trier", "a") {
			if strings.HasPrefix(k.Text, "kv") || strings.HasPrefix(k.Text, "alarm") {
				keys = append(keys, k.Text)
			}
		}
		if fmt.Sprint(keys) != `[kv("b")]` {
			t.Error(keys)
		}
	}, definition)
}

// What a turn has collected, and not written yet, counts as much: an event, say, must not be published for what was undone.
// What it had collected before does not.
func TestAnUpdateThatCollectedMoreFailsTheTurn(t *testing.T) {
	triers := actor.NewType[shop]("trier")
	said := actor.NewEvent[string](triers, "said", actor.EventConfig{})
	try := actor.NewAction[string, actor.None](triers, "try")
	hear := actor.NewAction[actor.None, actor.None](triers, "hear")
	refused := errors.New("refused")
	do := func(ctx *actor.Context, what string) error {
		other := triers.Ref(ctx, "other")
		switch what {
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
		}
		return nil
	}
	definition := actor.Define(triers, actor.Spec[shop]{},
		actor.On(hear, func(*shop, *actor.Context, actor.None) (actor.None, error) { return actor.None{}, nil }),
		actor.On(try, func(_ *shop, ctx *actor.Context, what string) (actor.None, error) {
			for _, before := range []string{"event", "message", "sql"} {
				if err := do(ctx, before); err != nil {
					return actor.None{}, err
				}
			}
			err := ctx.KV().Update(func(tx actor.KV) error {
				_, err := tx.Commit(kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"a"}, document(1))}})
				return errors.Join(err, do(ctx, what), refused)
			})
			if !errors.Is(err, refused) {
				return actor.None{}, err
			}
			return actor.None{}, nil
		}))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := triers.Ref(h, "a")
		for what, undone := range map[string]bool{
			"": true, "read sql": true, "event": false, "message": false, "call": true, "task": false, "sql": false, "destroy": false,
		} {
			if _, err := try.Call(t.Context(), ref, what); (err == nil) != undone {
				t.Errorf("%q: %v", what, err)
			}
		}
		if n := len(h.Events("trier", "a")); n != 3 {
			t.Errorf("%d events", n)
		}
	}, definition)
}
