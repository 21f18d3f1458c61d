package actor_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

type (
	label string
	small int8
	tiny  uint16
	ident [16]byte
	blob  []byte
	flag  bool
	ratio float32
)

// inTurn runs f in a turn of a new actor whose type declare has put contracts on.
func inTurn(t *testing.T, declare func(*actor.Type[probe]), f func(*actor.Context)) *fakeNode {
	t.Helper()
	p := newProbes("probe")
	declare(p.typ)
	n := mustNode(t, p.definition())
	n.pageSize = 2
	p.script = func(_ *probe, ctx *actor.Context) (string, error) { f(ctx); return "", nil }
	if _, err := p.do.Call(t.Context(), p.typ.Ref(n, "a"), 1); err != nil {
		t.Error(err)
	}
	return n
}

// ordered checks that a map returns keys that were put in any order in this order, and each to its value.
func ordered[K any](t *testing.T, keys ...K) {
	t.Helper()
	var m *actor.Map[K, int]
	inTurn(t, func(typ *actor.Type[probe]) { m = actor.NewMap[K, int](typ, "m") }, func(ctx *actor.Context) {
		for i := range keys {
			j := (i*7 + 3) % len(keys)
			if err := m.Put(ctx, keys[j], j); err != nil {
				t.Error(err)
			}
		}
		next := 0
		for e, err := range m.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if next >= len(keys) || fmt.Sprint(e.Key) != fmt.Sprint(keys[next]) || e.Value != next {
				t.Errorf("%T: entry %d is %v = %d", keys, next, e.Key, e.Value)
			}
			next++
		}
		if next != len(keys) {
			t.Errorf("%T: %d entries", keys, next)
		}
		for i, k := range keys {
			if v, ok, err := m.Get(ctx, k); !ok || err != nil || v != i {
				t.Errorf("%T: get %v: %d, %t, %v", keys, k, v, ok, err)
			}
		}
		if was, err := m.Delete(ctx, keys[0]); !was || err != nil {
			t.Error(err)
		}
		if _, ok, err := m.Get(ctx, keys[0]); ok || err != nil {
			t.Errorf("%T: deleted and still there: %v", keys, err)
		}
	})
}

func TestMapKeysKeepTheirOrder(t *testing.T) {
	ordered(t, "", "\x00", "\x00\x01", "a", "a\x00", "ab", "b", "\xff")
	ordered[label](t, "", "a", "b")
	ordered(t, math.MinInt64, -256, -255, -1, 0, 1, 255, 256, math.MaxInt64)
	ordered[int64](t, -1, 0, 1)
	ordered[small](t, -128, 0, 127)
	ordered[uint64](t, 0, 1, 255, 256, math.MaxUint64)
	ordered[tiny](t, 0, 1, 65535)
	ordered(t, math.Inf(-1), -1.5, 0, 1e-9, 2, math.Inf(1))
	ordered[ratio](t, -1, 0, 0.5)
	ordered(t, false, true)
	ordered[flag](t, false, true)
	ordered(t, []byte{}, []byte{0}, []byte{0, 0}, []byte{1}, []byte{255, 255})
	ordered(t, blob{1}, blob{2})
	ordered(t, [16]byte{1}, [16]byte{1, 1}, [16]byte{2})
	ordered(t, ident{1}, ident{2})
	ordered(t, tuple.UUID{1}, tuple.UUID{2})
	ordered(t, tuple.Tuple{"a"}, tuple.Tuple{"a", 1}, tuple.Tuple{"a", 2}, tuple.Tuple{"b"}, tuple.Tuple{7})
}

func keysOf[K, V any](t *testing.T, seq func(func(actor.MapEntry[K, V], error) bool)) string {
	t.Helper()
	var keys []string
	for e, err := range seq {
		if err != nil {
			return string(actor.CodeOf(err))
		}
		keys = append(keys, fmt.Sprint(e.Key))
	}
	return strings.Join(keys, " ")
}

func TestMapSelections(t *testing.T) {
	var (
		names *actor.Map[string, int]
		nums  *actor.Map[int, int]
		parts *actor.Map[tuple.Tuple, int]
		bytez *actor.Map[[]byte, actor.None]
	)
	inTurn(t, func(typ *actor.Type[probe]) {
		names, nums = actor.NewMap[string, int](typ, "names"), actor.NewMap[int, int](typ, "nums")
		parts, bytez = actor.NewMap[tuple.Tuple, int](typ, "parts"), actor.NewMap[[]byte, actor.None](typ, "bytez")
	}, func(ctx *actor.Context) {
		for i, k := range []string{"a", "ab", "abc", "ac", "b", "\xff", "\xff\xff"} {
			names.Put(ctx, k, i)
			bytez.Put(ctx, []byte(k), actor.None{})
		}
		for i := range 6 {
			nums.Put(ctx, i-2, i)
			parts.Put(ctx, tuple.Tuple{i / 3, "x", i}, i)
		}
		for _, c := range []struct{ got, want string }{
			{keysOf(t, names.Prefix(ctx, "ab")), "ab abc"},
			{keysOf(t, names.Prefix(ctx, "")), "a ab abc ac b \xff \xff\xff"},
			{keysOf(t, names.Prefix(ctx, "\xff")), "\xff \xff\xff"},
			{keysOf(t, names.Range(ctx, "ab", "b")), "ab abc ac"},
			{keysOf(t, names.Range(ctx, "b", "ab")), ""},
			{keysOf(t, names.From(ctx, "ac")), "ac b \xff \xff\xff"},
			{keysOf(t, names.All(ctx, actor.Reverse(), actor.Limit(3))), "\xff\xff \xff b"},
			{keysOf(t, names.All(ctx, actor.Limit(4))), "a ab abc ac"},
			{keysOf(t, bytez.Prefix(ctx, []byte("ac"))), "[97 99]"},
			{keysOf(t, nums.All(ctx)), "-2 -1 0 1 2 3"},
			{keysOf(t, nums.Range(ctx, -1, 2, actor.Reverse())), "1 0 -1"},
			{keysOf(t, nums.Prefix(ctx, 1)), "invalid_argument"},
			{keysOf(t, parts.Prefix(ctx, tuple.Tuple{1})), `(1, "x", 3) (1, "x", 4) (1, "x", 5)`},
			{keysOf(t, parts.Prefix(ctx, tuple.Tuple{0, "x", 2})), `(0, "x", 2)`},
			{keysOf(t, parts.From(ctx, tuple.Tuple{1, "x", 4})), `(1, "x", 4) (1, "x", 5)`},
		} {
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		}
		for e, err := range names.All(ctx, actor.KeysOnly()) {
			if err != nil || e.Value != 0 || e.Version == 0 || e.Updated.IsZero() {
				t.Errorf("%+v, %v", e, err)
			}
		}
		if n, err := nums.DeleteRange(ctx, 0, 2); n != 2 || err != nil {
			t.Error(n, err)
		}
		if n, err := nums.DeleteRange(ctx, 2, 0); n != 0 || err != nil {
			t.Error(n, err)
		}
		if n, err := names.Clear(ctx); n != 7 || err != nil {
			t.Error(n, err)
		}
		if got := keysOf(t, nums.All(ctx)); got != "-2 -1 2 3" {
			t.Errorf("after the other map was cleared: %s", got)
		}
	})
}

func TestMapsNeverOverlap(t *testing.T) {
	var a, ab *actor.Map[string, int]
	inTurn(t, func(typ *actor.Type[probe]) {
		a, ab = actor.NewMap[string, int](typ, "a"), actor.NewMap[string, int](typ, "ab")
	}, func(ctx *actor.Context) {
		a.Put(ctx, "1", 1)
		ab.Put(ctx, "2", 2)
		// A raw key whose first element continues the map's name past a zero byte packs to bytes that begin like the map's.
		if err := ctx.KV().Put(tuple.Tuple{"a\x00x"}, []byte("raw")); err != nil {
			t.Error(err)
		}
		if got := keysOf(t, a.All(ctx)); got != "1" {
			t.Errorf("%q", got)
		}
		if n, err := a.Clear(ctx); n != 1 || err != nil {
			t.Errorf("cleared %d, %v", n, err)
		}
		if _, ok, _ := ctx.KV().Get(tuple.Tuple{"a\x00x"}); !ok {
			t.Error("clearing a map removed another key")
		}
	})
}

func TestEntriesExpireInTheFutureOnly(t *testing.T) {
	var m *actor.Map[string, int]
	n := inTurn(t, func(typ *actor.Type[probe]) { m = actor.NewMap[string, int](typ, "m") }, func(ctx *actor.Context) {
		if err := m.Put(ctx, "a", 1, actor.TTL(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := m.Put(ctx, "b", 1, actor.ExpireAt(ctx.Now().Add(time.Hour))); err != nil {
			t.Error(err)
		}
		if err := m.Put(ctx, "c", 1, actor.TTL(0)); actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
		e, ok, err := m.Entry(ctx, "a")
		if !ok || err != nil || !e.Expire.Equal(ctx.Now().Add(time.Minute)) {
			t.Errorf("%+v, %v", e, err)
		}
	})
	if len(n.actors["probe/a"].kv) != 2 {
		t.Error("entries were not committed")
	}
}

func TestRawStore(t *testing.T) {
	inTurn(t, func(*actor.Type[probe]) {}, func(ctx *actor.Context) {
		kv := ctx.KV()
		for i := range 5 {
			if err := kv.Put(tuple.Tuple{"u", i}, []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		}
		if err := kv.Put(tuple.Tuple{"v"}, nil); err != nil {
			t.Error(err)
		}
		count := func(seq func(func(actor.Entry, error) bool)) (keys []string) {
			for e, err := range seq {
				if err != nil {
					t.Error(err)
				}
				keys = append(keys, e.Key.String())
			}
			return keys
		}
		for _, c := range []struct {
			got  []string
			want int
		}{
			{count(kv.List(nil)), 6},
			{count(kv.List(tuple.Tuple{"u"})), 5},
			{count(kv.List(tuple.Tuple{"u", 3})), 1},
			{count(kv.Range(tuple.Tuple{"u", 1}, tuple.Tuple{"u", 3})), 2},
			{count(kv.Range(nil, tuple.Tuple{"u", 3}, actor.Reverse())), 3},
			{count(kv.Range(tuple.Tuple{"u", 4}, nil)), 2},
			{count(kv.Range(nil, tuple.Tuple{})), 0},
		} {
			if len(c.got) != c.want {
				t.Errorf("%q, want %d", c.got, c.want)
			}
		}
		if v, ok, err := kv.Get(tuple.Tuple{"u", 2}); !ok || err != nil || !bytes.Equal(v, []byte{2}) {
			t.Error(v, ok, err)
		}
		if e, ok, err := kv.Entry(tuple.Tuple{"u", 2}); !ok || err != nil || e.Version == 0 {
			t.Error(e, ok, err)
		}
		if was, err := kv.Delete(tuple.Tuple{"u", 2}); !was || err != nil {
			t.Error(err)
		}
		if n, err := kv.DeleteRange(tuple.Tuple{"u", 4}, nil); n != 2 || err != nil {
			t.Error(n, err)
		}
		if n, err := kv.DeletePrefix(tuple.Tuple{"u"}); n != 3 || err != nil {
			t.Error(n, err)
		}
		_, _, err := kv.Get(tuple.Tuple{"u", struct{}{}})
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), "key part 2: type has no tuple encoding") {
			t.Error(err)
		}
	})
}

func TestMapOfAQuerySeesTheCommittedState(t *testing.T) {
	p := newProbes("probe")
	m := actor.NewMap[string, int](p.typ, "m")
	n := mustNode(t, p.definition())
	ref := p.typ.Ref(n, "a")
	p.script = func(_ *probe, ctx *actor.Context) (string, error) { return "", m.Put(ctx, "k", 7) }
	if _, err := p.do.Call(t.Context(), ref, 1); err != nil {
		t.Fatal(err)
	}
	var got []int
	p.read = func(ctx *actor.ReadContext) error {
		v, _, err := m.Get(ctx, "k")
		got = append(got, v)
		for e, err := range m.All(ctx) {
			if err != nil {
				return err
			}
			got = append(got, e.Value)
		}
		for range ctx.KV().List(nil) {
			got = append(got, 1)
		}
		return err
	}
	if _, err := p.log.Call(t.Context(), ref, actor.None{}); err != nil || !slices.Equal(got, []int{7, 7, 1}) {
		t.Errorf("%v, %v", got, err)
	}
}
