package actor_test

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

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

// ordered declares a map. Its result checks that the map returns keys in this order, regardless of
// the order of the puts, and each with its value.
func ordered[K any](t *testing.T, typ *actor.Type[counter], name string, keys ...K) func(*actor.Context) {
	m := actor.NewMap[K, int](typ, name, actor.MapConfig{})
	return func(ctx *actor.Context) {
		for i := range keys {
			j := (i*7 + 3) % len(keys)
			check(t, m.Put(ctx, keys[j], j))
		}
		entries := all(t, m.All(ctx))
		errorIf(t, len(entries) != len(keys), "%T: %d entries", keys, len(entries))
		for i, e := range entries {
			errorIf(t, fmt.Sprint(e.Key) != fmt.Sprint(keys[i]) || e.Value != i, "%T: entry %d is %v = %d", keys, i, e.Key, e.Value)
			v, ok, err := m.Get(ctx, keys[i])
			errorIf(t, !ok || err != nil || v != i, "%T: get %v: %d, %t, %v", keys, keys[i], v, ok, err)
		}
		was, err := m.Delete(ctx, keys[0])
		errorIf(t, !was || err != nil, "%T: delete: %t, %v", keys, was, err)
		_, ok, err := m.Get(ctx, keys[0])
		errorIf(t, ok || err != nil, "%T: deleted and still there: %v", keys, err)
	}
}

func TestMapKeysKeepTheirOrder(t *testing.T) {
	var checks []func(*actor.Context)
	inTurns(t, func(typ *actor.Type[counter]) {
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

// A grasping is decoded by its own method: it keeps its input, and points into itself.
type grasping struct {
	given, inside []byte
	room          [100]byte
}

func (g grasping) MarshalBinary() ([]byte, error) { return g.given, nil }

func (g *grasping) UnmarshalBinary(b []byte) error {
	g.given, g.inside = b, append(g.room[:0], b...)
	return nil
}

func keysOf[K, V any](t *testing.T, seq iter.Seq2[actor.MapEntry[K, V], error]) string {
	t.Helper()
	if err := first(seq); err != nil {
		return string(actor.CodeOf(err))
	}
	var keys []string
	for _, e := range all(t, seq) {
		keys = append(keys, fmt.Sprint(e.Key))
	}
	return strings.Join(keys, " ")
}

func (g grasping) String() string { return fmt.Sprintf("%s, in it %s", g.given, g.inside) }

// kept declares a map. Its result checks that entries of a listing of many pages do not change when
// it goes on. String makes text of the value that was put.
func kept[K, V any](
	t *testing.T, typ *actor.Type[counter], name string, key func(text string) K, value func(text string) V, read func(text string) V,
) func(*actor.Context) {
	m := actor.NewMap[K, V](typ, name, actor.MapConfig{})
	return func(ctx *actor.Context) {
		text := func(i int) string { return fmt.Sprintf("%0100d", i) }
		for i := range 1000 {
			check(t, m.Put(ctx, key(text(i)), value(text(i))))
		}
		entries := all(t, m.All(ctx))
		errorIf(t, len(entries) != 1000, "%s: %d entries", name, len(entries))
		for i, e := range entries {
			got, want := fmt.Sprint(e.Key, e.Value), fmt.Sprint(key(text(i)), read(text(i)))
			fatalIf(t, got != want, "%s: entry %d has become %s", name, i, got)
		}
	}
}

func TestEntriesOfAMapStayWhenTheListingGoesOn(t *testing.T) {
	type plain struct {
		Text  string
		Bytes []byte
		Any   any
	}
	type own struct{ In grasping }
	text := func(s string) string { return s }
	value := func(s string) plain { return plain{s, []byte(s), []any{[]byte(s)}} }
	var checks []func(*actor.Context)
	inTurns(t, func(typ *actor.Type[counter]) {
		checks = []func(*actor.Context){
			kept(t, typ, "string", text, value, value),
			kept(t, typ, "bytes", func(s string) []byte { return []byte(s) }, value, value),
			kept(t, typ, "tuple", func(s string) tuple.Tuple { return tuple.Tuple{[]byte(s), s} }, value, value),
			kept(t, typ, "grasping", text, func(s string) own { return own{grasping{given: []byte(s)}} },
				func(s string) own { return own{grasping{given: []byte(s), inside: []byte(s)}} }),
		}
	}, func(ctx *actor.Context) {
		for _, check := range checks {
			check(ctx)
		}
	})
}

func TestAValueThatDoesNotDecodeIsZero(t *testing.T) {
	type old struct{ A, B any }
	type now struct{ A, B string }
	var values *actor.Map[string, now]
	inTurns(t, func(typ *actor.Type[counter]) {
		values = actor.NewMap[string, now](typ, "values", actor.MapConfig{})
	}, func(ctx *actor.Context) {
		data, err := cbor.Marshal(old{"left over", 7})
		check(t, err, ctx.KV().Put(tuple.Tuple{"values", "x"}, data))
		got, ok, err := values.Get(ctx, "x")
		e, there, _ := values.Entry(ctx, "x")
		hasCode(t, "get", err, actor.Internal)
		errorIf(t, ok || there || got != now{} || e.Value != now{}, "%+v, %+v", got, e)
	})
}

func TestMapSelections(t *testing.T) {
	var (
		names *actor.Map[string, int]
		nums  *actor.Map[int, int]
		parts *actor.Map[tuple.Tuple, int]
		bytez *actor.Map[[]byte, actor.None]
	)
	inTurns(t, func(typ *actor.Type[counter]) {
		names, nums = actor.NewMap[string, int](typ, "names", actor.MapConfig{}), actor.NewMap[int, int](typ, "nums", actor.MapConfig{})
		parts, bytez = actor.NewMap[tuple.Tuple, int](typ, "parts", actor.MapConfig{}),
			actor.NewMap[[]byte, actor.None](typ, "bytez", actor.MapConfig{})
	}, func(ctx *actor.Context) {
		for i, k := range []string{"a", "ab", "abc", "ac", "b", "\xff", "\xff\xff"} {
			names.Put(ctx, k, i)
			bytez.Put(ctx, []byte(k), actor.None{})
		}
		// A raw key whose first element continues the map's name past a zero byte packs to bytes
		// that begin like the map's.
		raw := tuple.Tuple{"names\x00x"}
		check(t, ctx.KV().Put(raw, []byte("raw")))
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
			errorIf(t, c.got != c.want, "got %q, want %q", c.got, c.want)
		}
		for _, e := range all(t, names.All(ctx, actor.KeysOnly())) {
			errorIf(t, e.Value != 0 || e.Version == 0 || e.Updated.IsZero(), "%+v", e)
		}
		removes := func(want int64) func(int64, error) {
			return func(n int64, err error) { errorIf(t, n != want || err != nil, "removed %d, want %d: %v", n, want, err) }
		}
		removes(2)(nums.DeleteRange(ctx, 0, 2))
		removes(0)(nums.DeleteRange(ctx, 2, 0))
		removes(7)(names.Clear(ctx))
		_, ok, err := ctx.KV().Get(raw)
		left := keysOf(t, nums.All(ctx))
		hasCode(t, "a key", third(ctx.KV().Get(tuple.Tuple{"u", struct{}{}})), actor.InvalidArgument,
			"key part 2: type has no tuple encoding")
		errorIf(t, !ok || err != nil || left != "-2 -1 2 3", "a map that was cleared took more: %t, %v, %s", ok, err, left)

		check(t, names.Put(ctx, "a", 1, actor.TTL(time.Minute)), names.Put(ctx, "b", 1, actor.ExpireAt(ctx.Now().Add(time.Hour))))
		hasCode(t, "no time", names.Put(ctx, "c", 1, actor.TTL(0)), actor.InvalidArgument)
		for key, after := range map[string]time.Duration{"a": time.Minute, "b": time.Hour} {
			e, ok, err := names.Entry(ctx, key)
			errorIf(t, !ok || err != nil || !e.Expire.Equal(ctx.Now().Add(after)), "%s: %+v, %v", key, e, err)
		}
	})
}
