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

// A listing has each entry once, in order, even with many pages and values larger than a page.
// Entries do not change when the listing goes on.
func TestListingsOfManyPages(t *testing.T) {
	const n = 2000
	key := func(i int64) tuple.Tuple { return tuple.Tuple{"u", i, []byte{0, 1}} }
	value := func(i int64) []byte {
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
	same := func(what string, e *actor.Entry, i int64, keys bool) {
		got, err := e.Key.Unpack()
		wrong := err != nil || tuple.Compare(got, key(i)) != 0 || keys != (e.Value == nil) || !keys && !bytes.Equal(e.Value, value(i))
		wrong = wrong || e.Size != len(value(i)) || e.Version == 0 || e.Created().IsZero() || !e.Updated().Equal(e.Created())
		errorIf(t, wrong ||
			e.Expire().IsZero() != (i%3 != 0), "%s: entry %d is %s, %d bytes, %+v, %v", what, i, got, len(e.Value), e.KVInfo, err)
	}
	walk := func(ctx *actor.Context) {
		kv := ctx.KV()
		for _, c := range []struct {
			list           iter.Seq2[actor.Entry, error]
			first, last    int64
			keys, borrowed bool
		}{
			{list: kv.List(nil), last: n - 1},
			{list: kv.List(tuple.Tuple{"u"}, actor.KeysOnly()), last: n - 1, keys: true},
			{list: kv.List(nil, actor.Reverse()), first: n - 1},
			{list: kv.List(nil, actor.Reverse(), actor.Limit(1500)), first: n - 1, last: n - 1500},
			{list: kv.Range(tuple.Tuple{"u", 300}, tuple.Tuple{"u", 1700}), first: 300, last: 1699},
			{list: kv.List(nil, actor.Borrowed()), last: n - 1, borrowed: true},
			{list: kv.List(nil, actor.Borrowed(), actor.KeysOnly()), last: n - 1, keys: true, borrowed: true},
			{list: kv.List(nil, actor.Limit(1))},
			{list: kv.List(nil, actor.Limit(513)), last: 512},
			{list: kv.List(nil, actor.Limit(n)), last: n - 1},
			{list: kv.List(nil, actor.Limit(n+1)), last: n - 1},
		} {
			step := int64(1)
			if c.last < c.first {
				step = -1
			}
			for range 2 { // a listing can be ranged over again
				var kept []actor.Entry
				different := map[string]bool{}
				for e, err := range c.list {
					check(t, err)
					same("the listing", &e, c.first+step*int64(len(kept)), c.keys)
					kept = append(kept, e)
				}
				for i := range kept {
					if different[string(kept[i].Key)] = true; !c.borrowed {
						same("what is kept", &kept[i], c.first+step*int64(i), c.keys)
					}
				}
				errorIf(t, int64(len(kept)-1) != step*(c.last-c.first), "%+v: %d entries", c, len(kept))
				errorIf(t, c.borrowed && len(different) == len(kept), "no memory was used again")
			}
		}
	}
	inTurns(t, nil, func(ctx *actor.Context) {
		for i := range int64(n) {
			var opts []actor.PutOption
			if i%3 == 0 {
				opts = append(opts, actor.TTL(time.Hour))
			}
			check(t, ctx.KV().Put(key(i), value(i), opts...))
		}
		walk(ctx)
	}, walk, func(ctx *actor.Context) {
		// The loop removes entries behind it and before it: each entry is seen at most once.
		var seen []int64
		for e, err := range ctx.KV().List(nil) {
			parts, kerr := e.Key.Unpack()
			i := parts[1].(int64)
			seen = append(seen, i)
			check(t, err, kerr, second(ctx.KV().Delete(key(i))), second(ctx.KV().Delete(key(n-1-i))))
		}
		once := slices.IsSorted(seen) && len(slices.Compact(slices.Clone(seen))) == len(seen)
		errorIf(t, !once || len(seen) < n/2, "%d entries were seen", len(seen))
	})
}

// inTurns runs functions in turns of one actor, one after the other. declare declares contracts on
// its type.
func inTurns(t *testing.T, declare func(*actor.Type[counter]), turns ...func(*actor.Context)) {
	t.Helper()
	typ := actor.NewType[counter]("counter")
	if declare != nil {
		declare(typ)
	}
	do := actor.NewAction[int, actor.None](typ, "do")
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for i := range turns {
			check(t, second(do.Call(t.Context(), typ.Ref(h, "a"), i)))
		}
	}, actor.Define(typ, actor.Spec[counter]{}, actor.On(do, func(_ *counter, ctx *actor.Context, i int) (none actor.None, err error) {
		turns[i](ctx)
		return none, nil
	})))
}
