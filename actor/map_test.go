package actor_test

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
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
func inTurn(t *testing.T, declare func(*actor.Type[counter]), f func(*actor.Context)) {
	t.Helper()
	typ := actor.NewType[counter]("counter")
	declare(typ)
	do := actor.NewAction[actor.None, actor.None](typ, "do")
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		if _, err := do.Call(t.Context(), typ.Ref(h, "a"), actor.None{}); err != nil {
			t.Error(err)
		}
	}, actor.Define(typ, actor.Spec[counter]{}, actor.On(do, func(_ *counter, ctx *actor.Context, _ actor.None) (none actor.None, err error) {
		f(ctx)
		return none, nil
	})))
}

// ordered declares a map. The function that it returns checks that the map returns keys that were
// put in any order in this order, and each to its value.
func ordered[K any](t *testing.T, typ *actor.Type[counter], name string, keys ...K) func(*actor.Context) {
	m := actor.NewMap[K, int](typ, name, actor.MapConfig{})
	return func(ctx *actor.Context) {
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
	}
}

func TestMapKeysKeepTheirOrder(t *testing.T) {
	var checks []func(*actor.Context)
	inTurn(t, func(typ *actor.Type[counter]) {
		checks = []func(*actor.Context){
			ordered(t, typ, "string", "", "\x00", "\x00\x01", "a", "a\x00", "ab", "b", "\xff"),
			ordered[label](t, typ, "label", "", "a", "b"),
			ordered(t, typ, "int", math.MinInt64, -256, -255, -1, 0, 1, 255, 256, math.MaxInt64),
			ordered[int64](t, typ, "int64", -1, 0, 1),
			ordered[small](t, typ, "small", -128, 0, 127),
			ordered[uint64](t, typ, "uint64", 0, 1, 255, 256, math.MaxUint64),
			ordered[tiny](t, typ, "tiny", 0, 1, 65535),
			ordered(t, typ, "float64", math.Inf(-1), -1.5, 0, 1e-9, 2, math.Inf(1)),
			ordered[ratio](t, typ, "ratio", -1, 0, 0.5),
			ordered(t, typ, "bool", false, true),
			ordered[flag](t, typ, "flag", false, true),
			ordered(t, typ, "bytes", []byte{}, []byte{0}, []byte{0, 0}, []byte{1}, []byte{255, 255}),
			ordered(t, typ, "blob", blob{1}, blob{2}),
			ordered(t, typ, "array", [16]byte{1}, [16]byte{1, 1}, [16]byte{2}),
			ordered(t, typ, "ident", ident{1}, ident{2}),
			ordered(t, typ, "uuid", tuple.UUID{1}, tuple.UUID{2}),
			ordered(t, typ, "tuple", tuple.Tuple{"a"}, tuple.Tuple{"a", 1}, tuple.Tuple{"a", 2}, tuple.Tuple{"b"}, tuple.Tuple{7}),
		}
	}, func(ctx *actor.Context) {
		for _, check := range checks {
			check(ctx)
		}
	})
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

// kept declares a map. The function that it returns checks that entries of a listing of many pages stay as they are when it goes on.
func kept[K any](t *testing.T, typ *actor.Type[counter], name string, key func(i int) K) func(*actor.Context) {
	type value struct {
		Text  string
		Bytes []byte
		Any   any
	}
	m := actor.NewMap[K, value](typ, name, actor.MapConfig{})
	return func(ctx *actor.Context) {
		want := func(i int) string {
			text := fmt.Sprintf("%0100d", i)
			return fmt.Sprint(key(i), value{text, []byte(text), []any{[]byte(text)}})
		}
		for i := range 1000 {
			text := fmt.Sprintf("%0100d", i)
			if err := m.Put(ctx, key(i), value{text, []byte(text), []any{[]byte(text)}}); err != nil {
				t.Fatal(err)
			}
		}
		var all []actor.MapEntry[K, value]
		for e, err := range m.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		for i, e := range all {
			if got := fmt.Sprint(e.Key, e.Value); got != want(i) {
				t.Fatalf("%s: entry %d has become %s", name, i, got)
			}
		}
		if len(all) != 1000 {
			t.Errorf("%s: %d entries", name, len(all))
		}
	}
}

func TestEntriesOfAMapStayWhenTheListingGoesOn(t *testing.T) {
	var checks []func(*actor.Context)
	inTurn(t, func(typ *actor.Type[counter]) {
		text := func(i int) string { return fmt.Sprintf("key %05d", i) }
		checks = []func(*actor.Context){
			kept(t, typ, "string", text),
			kept(t, typ, "bytes", func(i int) []byte { return []byte(text(i)) }),
			kept(t, typ, "tuple", func(i int) tuple.Tuple { return tuple.Tuple{[]byte(text(i)), text(i)} }),
		}
	}, func(ctx *actor.Context) {
		for _, check := range checks {
			check(ctx)
		}
	})
}

// A grasping is decoded by its own method: it keeps what it is given, and points into itself.
type grasping struct {
	given, inside []byte
	room          [100]byte
}

func (g grasping) MarshalBinary() ([]byte, error) { return g.given, nil }

func (g *grasping) UnmarshalBinary(b []byte) error {
	g.given, g.inside = b, append(g.room[:0], b...)
	return nil
}

func TestValuesThatDecodeThemselvesStayWhenTheListingGoesOn(t *testing.T) {
	var m *actor.Map[int, struct{ In grasping }]
	inTurn(t, func(typ *actor.Type[counter]) {
		m = actor.NewMap[int, struct{ In grasping }](typ, "grasping", actor.MapConfig{})
	}, func(ctx *actor.Context) {
		text := func(i int) string { return fmt.Sprintf("%0100d", i) }
		for i := range 1000 {
			if err := m.Put(ctx, i, struct{ In grasping }{grasping{given: []byte(text(i))}}); err != nil {
				t.Fatal(err)
			}
		}
		var all []actor.MapEntry[int, struct{ In grasping }]
		for e, err := range m.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		for i, e := range all {
			if string(e.Value.In.given) != text(i) || string(e.Value.In.inside) != text(i) {
				t.Fatalf("entry %d has become %s, %s", i, e.Value.In.given, e.Value.In.inside)
			}
		}
	})
}

func TestMapSelections(t *testing.T) {
	var (
		names *actor.Map[string, int]
		nums  *actor.Map[int, int]
		parts *actor.Map[tuple.Tuple, int]
		bytez *actor.Map[[]byte, actor.None]
	)
	inTurn(t, func(typ *actor.Type[counter]) {
		names, nums = actor.NewMap[string, int](typ, "names", actor.MapConfig{}), actor.NewMap[int, int](typ, "nums", actor.MapConfig{})
		parts, bytez = actor.NewMap[tuple.Tuple, int](typ, "parts", actor.MapConfig{}), actor.NewMap[[]byte, actor.None](typ, "bytez", actor.MapConfig{})
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
	inTurn(t, func(typ *actor.Type[counter]) {
		a, ab = actor.NewMap[string, int](typ, "a", actor.MapConfig{}), actor.NewMap[string, int](typ, "ab", actor.MapConfig{})
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
	inTurn(t, func(typ *actor.Type[counter]) { m = actor.NewMap[string, int](typ, "m", actor.MapConfig{}) }, func(ctx *actor.Context) {
		if err := m.Put(ctx, "a", 1, actor.TTL(time.Minute)); err != nil {
			t.Error(err)
		}
		if err := m.Put(ctx, "b", 1, actor.ExpireAt(ctx.Now().Add(time.Hour))); err != nil {
			t.Error(err)
		}
		if err := m.Put(ctx, "c", 1, actor.TTL(0)); actor.CodeOf(err) != actor.InvalidArgument {
			t.Error(err)
		}
		for key, after := range map[string]time.Duration{"a": time.Minute, "b": time.Hour} {
			if e, ok, err := m.Entry(ctx, key); !ok || err != nil || !e.Expire.Equal(ctx.Now().Add(after)) {
				t.Errorf("%s: %+v, %v", key, e, err)
			}
		}
	})
}

func TestRawStore(t *testing.T) {
	inTurn(t, func(*actor.Type[counter]) {}, func(ctx *actor.Context) {
		kv := ctx.KV()
		for i := range 300 {
			if err := kv.Put(tuple.Tuple{"u", i}, []byte{byte(i)}); err != nil {
				t.Error(err)
			}
		}
		if err := kv.Put(tuple.Tuple{"v"}, nil); err != nil {
			t.Error(err)
		}
		for name, c := range map[string]struct {
			list iter.Seq2[actor.Entry, error]
			want int
		}{
			"all": {kv.List(nil), 301}, "prefix": {kv.List(tuple.Tuple{"u"}), 300}, "one": {kv.List(tuple.Tuple{"u", 3}), 1},
			"range": {kv.Range(tuple.Tuple{"u", 1}, tuple.Tuple{"u", 3}), 2}, "reverse": {kv.Range(nil, tuple.Tuple{"u", 298}, actor.Reverse()), 298},
			"open": {kv.Range(tuple.Tuple{"u", 299}, nil), 2}, "none": {kv.Range(nil, tuple.Tuple{}), 0},
		} {
			seen := make(map[string]bool)
			for e, err := range c.list {
				key, kerr := e.Key.Unpack()
				if seen[key.String()] = true; err != nil || kerr != nil {
					t.Error(name, err, kerr)
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s: %d entries, want %d", name, len(seen), c.want)
			}
		}
		if n, err := kv.DeleteRange(tuple.Tuple{"u", 299}, nil); n != 2 || err != nil {
			t.Error(n, err)
		}
		_, _, err := kv.Get(tuple.Tuple{"u", struct{}{}})
		if actor.CodeOf(err) != actor.InvalidArgument || !strings.Contains(err.Error(), "key part 2: type has no tuple encoding") {
			t.Error(err)
		}
	})
}

// The type says what bounds a map has, also for actors that had entries before.
func TestMapsAreBoundedAsTheirTypeDeclares(t *testing.T) {
	dir := t.TempDir()
	var counted []int64
	// life runs f in a turn of the same actor, of a type whose map has a config.
	life := func(cfg actor.MapConfig, f func(m *actor.Map[string, string], ctx *actor.Context) error) {
		t.Helper()
		typ := actor.NewType[counter]("counter")
		m := actor.NewMap[string, string](typ, "m", cfg)
		other := actor.NewMap[string, string](typ, "mm", actor.MapConfig{})
		do := actor.NewAction[actor.None, int64](typ, "do")
		node, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Logger: slog.New(slog.DiscardHandler), Actors: []actor.Definition{actor.Define(typ, actor.Spec[counter]{}, actor.On(do, func(_ *counter, ctx *actor.Context, _ actor.None) (int64, error) {
			if err := errors.Join(f(m, ctx), other.Put(ctx, "x", "y")); err != nil {
				return 0, err
			}
			return m.Len(ctx)
		}))}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		n, err := do.Call(t.Context(), typ.Ref(node, "a"), actor.None{})
		if err != nil {
			t.Error(err)
		}
		counted = append(counted, n)
	}
	put := func(m *actor.Map[string, string], ctx *actor.Context, keys ...string) error {
		for _, k := range keys {
			if err := m.Put(ctx, k, k); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
		return nil
	}
	full := func(err error) error {
		if actor.CodeOf(err) != actor.QuotaExceeded {
			return fmt.Errorf("the map is not full: %v", err)
		}
		return nil
	}
	life(actor.MapConfig{}, func(m *actor.Map[string, string], ctx *actor.Context) error { return put(m, ctx, "a", "b") })
	life(actor.MapConfig{MaxKeys: 3}, func(m *actor.Map[string, string], ctx *actor.Context) error {
		return errors.Join(put(m, ctx, "c"), full(put(m, ctx, "d")))
	})
	life(actor.MapConfig{Counted: true}, func(m *actor.Map[string, string], ctx *actor.Context) error { return put(m, ctx, "d") })
	life(actor.MapConfig{MaxBytes: 1}, func(m *actor.Map[string, string], ctx *actor.Context) error { return full(put(m, ctx, "e")) })
	life(actor.MapConfig{}, func(m *actor.Map[string, string], ctx *actor.Context) error { return put(m, ctx, "e") })
	life(actor.MapConfig{DefaultTTL: time.Hour}, func(m *actor.Map[string, string], ctx *actor.Context) error {
		e, _, err := m.Entry(ctx, "e")
		if err == nil && !e.Expire.IsZero() {
			err = errors.New("an entry of before expires")
		}
		if err = errors.Join(err, put(m, ctx, "f")); err != nil {
			return err
		}
		if e, _, err = m.Entry(ctx, "f"); err == nil && e.Expire.Sub(e.Updated) != time.Hour {
			err = fmt.Errorf("it expires at %v", e.Expire)
		}
		return err
	})
	if fmt.Sprint(counted) != "[2 3 4 4 5 6]" {
		t.Error(counted)
	}
}
