package actor_test

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A listing has each entry once, in order, also of many pages and with values that are larger than one. Entries stay as they
// are when the listing goes on.
func TestListingsOfManyPages(t *testing.T) {
	const all = 2000
	value := func(i int) []byte {
		switch {
		case i%7 == 0:
			return []byte{}
		case i == 500:
			return bytes.Repeat([]byte("x"), 100_000)
		case i%100 == 0:
			return bytes.Repeat([]byte{byte(i)}, 20_000)
		default:
			return fmt.Append(nil, "value ", i)
		}
	}
	walk := func(kv actor.ReadKV) {
		check := func(what string, e *actor.Entry, i int, keys bool) {
			key, err := e.Key.Unpack()
			want := tuple.Tuple{"u", int64(i), []byte{0, 1}}
			if err != nil || tuple.Compare(key, want) != 0 || keys != (e.Value == nil) || !keys && !bytes.Equal(e.Value, value(i)) || e.Size != len(value(i)) ||
				e.Version == 0 || e.Created().IsZero() || !e.Updated().Equal(e.Created()) || e.Expire().IsZero() != (i%3 != 0) {
				t.Errorf("%s: entry %d is %s, %d bytes, %+v, %v", what, i, key, len(e.Value), e.Expire(), err)
			}
		}
		for _, c := range []struct {
			list                 iter.Seq2[actor.Entry, error]
			from, n              int
			down, keys, borrowed bool
		}{
			{list: kv.List(nil), n: all},
			{list: kv.List(tuple.Tuple{"u"}), n: all},
			{list: kv.List(nil, actor.KeysOnly()), n: all, keys: true},
			{list: kv.List(nil, actor.Reverse()), from: all - 1, n: all, down: true},
			{list: kv.List(nil, actor.Reverse(), actor.Limit(1500)), from: all - 1, n: 1500, down: true},
			{list: kv.Range(tuple.Tuple{"u", 300}, tuple.Tuple{"u", 1700}), from: 300, n: 1400},
			{list: kv.List(nil, actor.Borrowed()), n: all, borrowed: true},
			{list: kv.List(nil, actor.Borrowed(), actor.KeysOnly()), n: all, keys: true, borrowed: true},
			{list: kv.List(nil, actor.Limit(1)), n: 1},
			{list: kv.List(nil, actor.Limit(513)), n: 513},
			{list: kv.List(nil, actor.Limit(all)), n: all},
			{list: kv.List(nil, actor.Limit(all+1)), n: all},
		} {
			for range 2 { // a listing can be ranged over again
				var kept []actor.Entry
				step := func(n int) int {
					if c.down {
						return c.from - n
					}
					return c.from + n
				}
				for e, err := range c.list {
					if err != nil {
						t.Error(err)
					}
					check("the listing", &e, step(len(kept)), c.keys)
					kept = append(kept, e)
				}
				if len(kept) != c.n {
					t.Errorf("%+v: %d entries", c, len(kept))
				}
				if c.borrowed {
					different := map[string]bool{}
					for _, e := range kept {
						different[string(e.Key)] = true
					}
					if len(different) == len(kept) {
						t.Error("no memory was used again")
					}
					continue
				}
				for n := range kept {
					check("what is kept", &kept[n], step(n), c.keys)
				}
			}
		}
	}
	inTurns(t, func(ctx *actor.Context) {
		for i := range all {
			var opts []actor.PutOption
			if i%3 == 0 {
				opts = append(opts, actor.TTL(time.Hour))
			}
			if err := ctx.KV().Put(tuple.Tuple{"u", i, []byte{0, 1}}, value(i), opts...); err != nil {
				t.Error(err)
			}
		}
		walk(ctx.KV().ReadKV)
	}, func(ctx *actor.Context) { walk(ctx.KV().ReadKV) }, func(ctx *actor.Context) {
		kv := ctx.KV()
		// What the loop removes behind it and before it: each entry is seen at most once.
		var seen []int64
		for e, err := range kv.List(nil) {
			key, kerr := e.Key.Unpack()
			if err != nil || kerr != nil {
				t.Error(err, kerr)
			}
			seen = append(seen, key[1].(int64))
			for _, i := range []int64{key[1].(int64), 1999 - key[1].(int64)} {
				if _, err := kv.Delete(tuple.Tuple{"u", i, []byte{0, 1}}); err != nil {
					t.Error(err)
				}
			}
		}
		if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) || len(seen) < all/2 {
			t.Errorf("%d entries were seen", len(seen))
		}
	})
}

// inTurns runs functions in turns of one actor, one after the other.
func inTurns(t *testing.T, turns ...func(*actor.Context)) {
	typ := actor.NewType[counter]("counter")
	do := actor.NewAction[int, actor.None](typ, "do")
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for i := range turns {
			if _, err := do.Call(t.Context(), typ.Ref(h, "a"), i); err != nil {
				t.Error(err)
			}
		}
	}, actor.Define(typ, actor.Spec[counter]{}, actor.On(do, func(_ *counter, ctx *actor.Context, i int) (none actor.None, err error) {
		turns[i](ctx)
		return none, nil
	})))
}
