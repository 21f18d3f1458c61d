package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/internal/testutil"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/v8"
)

func document(t testing.TB, text string) Value {
	t.Helper()
	v, err := JSON([]byte(text))
	must(t, err)
	return v
}

func v8JSON(t testing.TB, text string) Value {
	t.Helper()
	b, err := v8.FromJSON([]byte(text))
	must(t, err)
	return Value{host.EncodedV8, b}
}

func bigint(n int64) Value { return Value{host.EncodedV8, v8.FromInteger(big.NewInt(n))} }

func cborOf(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	must(t, err)
	return b
}

func TestEveryEncodingHasAFormInJSON(t *testing.T) {
	for _, c := range []struct {
		value Value
		want  string
	}{
		{document(t, ` { "a" : 1.50 , "b":[ 1e2 ] } `), `{"a":1.50,"b":[1e2]}`},
		{Value{host.EncodedText, []byte(`"é`)}, `"\"é"`},
		{U64(1<<64 - 1), "18446744073709551615"},
		{Integer(big.NewInt(0)), "0"},
		{Integer(big.NewInt(-256)), "-256"},
		{Value{host.EncodedBytes, []byte{0, 255}}, `{"$bytes":"AP8="}`},
		{v8JSON(t, `{"a":[1]}`), `{"a":[1]}`},
		{Value{host.EncodedV8, []byte("\xff\x0f^\x00")}, `{"$v8":"/w9eAA=="}`},
		{Value{host.EncodedCBOR, cborOf(t, map[string]any{"b": []byte("x"), "a": []any{1.5, nil, uint64(1) << 63}})}, `{"a":[1.5,null,9223372036854775808],"b":{"$bytes":"eA=="}}`},
		{Value{host.EncodedTyped, cborOf(t, map[int]any{1: true, -2: "x"})}, `{"-2":"x","1":true}`},
		{Value{host.EncodedCBOR, cborOf(t, new(big.Int).Lsh(big.NewInt(-1), 70))}, "-1180591620717411303424"},
		{Value{host.EncodedCBOR, []byte("\xc1\x00")}, `"1970-01-01T00:00:00Z"`},
		{Value{host.EncodedCBOR, []byte("\xf9\x7e\x00")}, "null"},
		{Value{host.EncodedCBOR, cborOf(t, cbor.Tag{Number: 4000, Content: "x"})}, `"x"`},
		{Value{host.Unencoded, []byte(`{"a":1}`)}, `{"a":1}`},
		{Value{host.Unencoded, cborOf(t, []byte(`{"a":1}`))}, `{"a":1}`},
		{Value{host.Unencoded, cborOf(t, struct{ A []byte }{[]byte("x")})}, `{"A":{"$bytes":"eA=="}}`},
		{Value{host.Unencoded, []byte{0xFF}}, `{"$bytes":"/w=="}`},
		{Value{200, []byte{1}}, `{"$bytes":"AQ=="}`},
	} {
		got, err := c.value.AppendJSON([]byte("x"))
		errorIf(t, err != nil || string(got) != "x"+c.want || !json.Valid(got[1:]),
			"%v %x: %s %v, want %s", c.value.Encoding, c.value.Data, got, err, c.want)
	}
	for _, damaged := range []Value{{host.EncodedU64, nil}, {host.EncodedInteger, nil}, {host.EncodedInteger, []byte{1}}, {host.EncodedInteger, []byte{0, 0, 1}},
		{host.EncodedInteger, []byte{2, 1}}, {host.EncodedCBOR, []byte{0xFF}}} {
		got, err := damaged.AppendJSON(nil)
		errorIf(t, err == nil, "%v %x: %s", damaged.Encoding, damaged.Data, got)
	}
}

func TestDocumentsAreCheckedAndCompact(t *testing.T) {
	for text, want := range map[string]host.Code{
		"": host.InvalidArgument, "{": host.InvalidArgument, "\"\xff\"": host.InvalidArgument, "1 2": host.InvalidArgument,
		strings.Repeat("[", 501) + strings.Repeat("]", 501): host.TooLarge, `["[[["]`: "", strings.Repeat("[", 500) + strings.Repeat("]", 500): "",
	} {
		_, err := JSON([]byte(text))
		errorIf(t, host.CodeOf(err) != want, "%.20s: %v", text, err)
	}
}

func TestMutationsCalculateExactlyAndRefuseOtherTypes(t *testing.T) {
	j := func(text string) Value { return document(t, text) }
	text := func(s string) Value { return Value{host.EncodedText, []byte(s)} }
	most := strings.Repeat("9", MaxDigits)
	none := Value{}
	double := func(f float64) Value { return Value{host.EncodedV8, v8.FromDouble(f)} }
	bounds := func(least, most Value, clamp bool) Bounds {
		b := Bounds{Clamp: clamp}
		if least.Data != nil {
			b.Min = &least
		}
		if most.Data != nil {
			b.Max = &most
		}
		return b
	}
	for _, c := range []struct {
		op           Op
		old, operand Value
		bounds       Bounds
		want         string // in JSON
		as           host.Encoding
		err          error
	}{
		{Sum, none, j("-0"), Bounds{}, "0", host.EncodedJSON, nil},
		{Sum, j("9007199254740993"), j("9007199254740993"), Bounds{}, "18014398509481986", host.EncodedJSON, nil},
		{Sum, none, j("1" + most), Bounds{}, "", 0, ErrMismatch},
		{Sum, j("1.5"), j("2"), Bounds{}, "3.5", host.EncodedJSON, nil},
		{Sum, j("1"), j("2.0"), Bounds{}, "3.0", host.EncodedJSON, nil},
		{Sum, j("1e308"), j("1e308"), Bounds{}, "", 0, ErrRange},
		{Sum, j(most), j("0"), Bounds{}, most, host.EncodedJSON, nil},
		{Sum, j("-" + most), j("0"), Bounds{}, "-" + most, host.EncodedJSON, nil},
		{Sum, j(most), j("1"), Bounds{}, "", 0, ErrRange},
		{Sum, j(`"abc"`), j("1"), Bounds{}, "", 0, ErrMismatch},
		{Sum, j("null"), j("1"), Bounds{}, "", 0, ErrMismatch},
		{Sum, text("1"), j("1"), Bounds{}, "", 0, ErrMismatch},
		{Sum, j("1"), j(`"1"`), Bounds{}, "", 0, ErrMismatch},
		{Sum, U64(1<<64 - 1), U64(2), Bounds{}, "1", host.EncodedU64, nil},
		{Sum, U64(1<<64 - 1), U64(2), bounds(none, U64(1<<64-1), false), "", 0, ErrRange},
		{Sum, U64(1<<64 - 1), U64(2), bounds(none, U64(7), true), "7", host.EncodedU64, nil},
		{Sum, U64(5), j("-3"), Bounds{}, "2", host.EncodedU64, nil},
		{Sum, U64(1<<64 - 1), bigint(3), Bounds{}, "2", host.EncodedU64, nil},
		{Sum, U64(5), bigint(-3), Bounds{}, "", 0, ErrMismatch}, // as in Deno KV
		{Sum, U64(5), bigint(3), bounds(none, bigint(9), false), "", 0, ErrMismatch},
		{Sum, U64(5), j("1.5"), Bounds{}, "", 0, ErrMismatch},
		{Sum, bigint(5), U64(3), Bounds{}, "", 0, ErrMismatch},
		{Sum, bigint(1 << 62), bigint(1 << 62), Bounds{}, "9223372036854775808", host.EncodedV8, nil},
		{Sum, v8JSON(t, "1.5"), v8JSON(t, "2"), Bounds{}, "3.5", host.EncodedV8, nil},
		{Sum, bigint(5), v8JSON(t, "2"), Bounds{}, "", 0, ErrMismatch},
		{Sum, v8JSON(t, `"x"`), bigint(1), Bounds{}, "", 0, ErrMismatch},
		{Max, Integer(new(big.Int).Exp(big.NewInt(10), big.NewInt(MaxDigits), nil)), j("0"), Bounds{}, "", 0, ErrRange},
		{Sum, Integer(big.NewInt(-1)), j("-255"), Bounds{}, "-256", host.EncodedInteger, nil},
		{Sum, j("5"), j("6"), bounds(j("0"), j("10"), false), "", 0, ErrRange},
		{Sum, j("5"), j("6"), bounds(j("0"), j("10"), true), "10", host.EncodedJSON, nil},
		{Sum, j("5"), j("-6"), bounds(j("0"), j("10"), true), "0", host.EncodedJSON, nil},
		{Sum, none, j("11"), bounds(none, j("10"), true), "10", host.EncodedJSON, nil}, // the first write too
		{Sum, none, j("11"), bounds(none, j("10"), false), "", 0, ErrRange},
		{Sum, j("1.5"), j("0.5"), bounds(none, j("10"), false), "", 0, ErrMismatch},
		{Sum, double(math.Inf(1)), double(math.Inf(-1)), bounds(v8JSON(t, "0.5"), none, true), "", 0, ErrRange},
		{Sum, double(math.Inf(1)), v8JSON(t, "1.5"), bounds(none, v8JSON(t, "2.5"), true), "2.5", host.EncodedV8, nil},
		{Min, j("3"), j("-4"), Bounds{}, "-4", host.EncodedJSON, nil},
		{Max, j("3"), j("-4"), Bounds{}, "3", host.EncodedJSON, nil},
		{Max, j("3"), j("3.5"), Bounds{}, "3.5", host.EncodedJSON, nil},
		{Min, U64(1), U64(1 << 63), Bounds{}, "1", host.EncodedU64, nil},
		{Max, none, U64(7), Bounds{}, "7", host.EncodedU64, nil},
		{Min, Value{host.EncodedV8, v8.FromDouble(nan())}, v8JSON(t, "1"), Bounds{}, "", 0, ErrMismatch},
		{Min, v8JSON(t, "1"), Value{host.EncodedV8, v8.FromDouble(nan())}, Bounds{}, "", 0, ErrMismatch},
		{Append, j(`[{"x":1},true]`), j(`[[1], null]`), Bounds{}, `[{"x":1},true,[1],null]`, host.EncodedJSON, nil},
		{Prepend, j(`[1]`), j(`[2,3]`), Bounds{}, `[2,3,1]`, host.EncodedJSON, nil},
		{Append, j(`[]`), j(`[1]`), Bounds{}, `[1]`, host.EncodedJSON, nil},
		{Append, j(`[1]`), j(`[ ]`), Bounds{}, `[1]`, host.EncodedJSON, nil},
		{Append, none, j(`[1]`), Bounds{}, `[1]`, host.EncodedJSON, nil},
		{Append, j(`"a"`), j(`["b"]`), Bounds{}, "", 0, ErrMismatch},
		{Append, j(`["a"]`), j(`"b"`), Bounds{}, "", 0, ErrMismatch},
	} {
		var old *Value
		before := bytes.Clone(c.old.Data)
		if c.old.Data != nil {
			old = &c.old
		}
		got, err := c.op.Combine(old, c.operand, c.bounds)
		var shown []byte
		if err == nil {
			shown, err = got.AppendJSON(nil)
		}
		errorIf(t, !errors.Is(err, c.err) || err == nil && (string(shown) != c.want || got.Encoding != c.as) || !bytes.Equal(before, c.old.Data),
			"%s of %.40q and %.40q: %.60s %v %v, want %.60s", c.op, c.old.Data, c.operand.Data, shown, got.Encoding, err, c.want)
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// What combines two documents makes a document in the form in which it is stored, whatever they are, and an array of all elements.
func FuzzCombinationsMakeDocuments(f *testing.F) {
	for _, pair := range [][2]string{{`1`, `-0`}, {`[]`, `[1]`}, {`[[],{}]`, `[ ]`}, {`"a"`, `1`}, {`1.5`, `2`}, {`["]"]`, `[","]`}, {`1e1`, `0.0`}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		old, err := JSON([]byte(a))
		if err != nil {
			return
		}
		operand, err := JSON([]byte(b))
		if err != nil {
			return
		}
		var first, second []json.RawMessage
		arrays := json.Unmarshal(old.Data, &first) == nil && json.Unmarshal(operand.Data, &second) == nil && first != nil && second != nil
		for _, op := range []Op{Sum, Min, Max, Append, Prepend} {
			for _, stored := range []*Value{&old, nil} {
				was := bytes.Clone(old.Data)
				result, err := op.Combine(stored, operand, Bounds{})
				fatalIf(t, !bytes.Equal(was, old.Data), "%s changed its argument", op)
				if err != nil {
					continue
				}
				if again, err := JSON(result.Data); err != nil || !bytes.Equal(again.Data, result.Data) || result.Encoding != host.EncodedJSON {
					t.Fatalf("%s of %s and %s is %s", op, old.Data, operand.Data, result.Data)
				}
				var joined []json.RawMessage
				fatalIf(t, stored != nil && arrays && (json.Unmarshal(result.Data, &joined) != nil || len(joined) != len(first)+len(second)),
					"%s of %s and %s is %s", op, old.Data, operand.Data, result.Data)
			}
		}
	})
}

// Nothing that is stored makes the reader fail in another way than with an error.
func FuzzStoredValuesAreShown(f *testing.F) {
	f.Add(uint8(8), []byte("\xa1\x01\x02"))
	f.Add(uint8(5), []byte{1, 2})
	f.Add(uint8(0), []byte("\x44true"))
	f.Fuzz(func(t *testing.T, encoding uint8, data []byte) {
		if encoding == uint8(host.EncodedJSON) {
			return // was checked when it was stored
		}
		got, err := Value{host.Encoding(encoding), data}.AppendJSON(nil)
		fatalIf(t, err == nil && !json.Valid(got), "%s", got)
	})
}

func TestTrimKeepsTheEndThatGrows(t *testing.T) {
	for _, c := range []struct {
		text            string
		most            int
		append, prepend string
	}{
		{`[]`, 1, `[]`, `[]`},
		{`[1]`, 1, `[1]`, `[1]`},
		{`[1,2,3]`, 3, `[1,2,3]`, `[1,2,3]`},
		{`[1,2,3]`, 2, `[2,3]`, `[1,2]`},
		{`["a,\"],[",[1,[2,3]],{"x":[4,5]}]`, 2, `[[1,[2,3]],{"x":[4,5]}]`, `["a,\"],[",[1,[2,3]]]`},
		{`["\\\\",","]`, 1, `[","]`, `["\\\\"]`},
		{`{"a":[1,2]}`, 1, `{"a":[1,2]}`, `{"a":[1,2]}`},
	} {
		for op, want := range map[Op]string{Append: c.append, Prepend: c.prepend} {
			got := op.Trim(Value{host.EncodedJSON, []byte(c.text)}, c.most)
			errorIf(t, string(got.Data) != want, "%s of %s to %d: %s, not %s", op, c.text, c.most, got.Data, want)
		}
	}
}

// Numbers of two types give one that has all their digits, or none.
func TestNumbersOfTwoTypesLoseNothing(t *testing.T) {
	doc := func(text string) Value { return Value{host.EncodedJSON, []byte(text)} }
	v8Double := Value{host.EncodedV8, v8.FromDouble(1.5)}
	v8Integer := func(n int64) Value { return Value{host.EncodedV8, v8.FromInteger(big.NewInt(n))} }
	huge := new(big.Int).Lsh(big.NewInt(1), 64)
	for _, c := range []struct {
		op           Op
		old, operand Value
		want         string // "" is a mismatch
	}{
		{Sum, v8Double, doc("2"), "3.5"},
		{Sum, v8Double, doc("9007199254740992"), "9007199254740994"},
		{Sum, v8Double, doc("9007199254740993"), ""},
		{Max, v8Double, doc("2"), "2"},
		{Max, v8Double, doc("9007199254740993"), ""},
		{Sum, v8Double, v8Integer(2), ""},
		{Sum, v8Integer(2), doc("1.5"), ""},
		{Sum, v8Integer(2), doc("2"), "4"},
		{Sum, doc("1.5"), doc("2"), "3.5"},
		{Sum, doc("2"), doc("1.5"), "3.5"},
		{Sum, doc("1.5"), doc("9007199254740993"), ""},
		{Sum, doc("9007199254740993"), doc("1.5"), ""},
		{Max, doc("9007199254740993"), doc("1.5"), "9007199254740993"},
		{Sum, doc("1.5"), U64(2), ""},
		{Sum, U64(2), doc("1.5"), ""},
		{Sum, U64(2), doc("3"), "5"},
		{Sum, U64(2), doc("-1"), "1"},
		{Sum, U64(2), doc("-3"), ""},
		{Sum, U64(2), v8Integer(-1), ""},
		{Sum, U64(2), v8Integer(-3), ""},
		{Sum, U64(2), v8Integer(3), "5"},
		{Sum, U64(2), Integer(huge), ""},
		{Sum, U64(2), doc("18446744073709551616"), ""},
		{Sum, U64(math.MaxUint64), doc("2"), "1"},
		{Sum, U64(math.MaxUint64), U64(2), "1"},
	} {
		got, err := c.op.Combine(&c.old, c.operand, Bounds{})
		var bad *MismatchError
		switch {
		case c.want == "":
			errorIf(t, !errors.As(err, &bad) || bad.Operand, "%s of %s and %s: %s, %v", c.op, c.old.Data, c.operand.Data, got.Data, err)
		case err != nil:
			t.Errorf("%s of %s and %s: %v", c.op, c.old.Data, c.operand.Data, err)
		default:
			if text, err := got.AppendJSON(nil); err != nil || string(text) != c.want || got.Encoding != c.old.Encoding {
				t.Errorf("%s of %s and %s: %s %s, %v", c.op, c.old.Data, c.operand.Data, got.Encoding, text, err)
			}
		}
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
