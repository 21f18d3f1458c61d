package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/testutil"
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
		{Value{host.EncodedCBOR, cborOf(t, map[string]any{"b": []byte("x"), "a": []any{1.5, nil, uint64(1) << 63}})},
			`{"a":[1.5,null,9223372036854775808],"b":{"$bytes":"eA=="}}`},
		{Value{host.EncodedTyped, cborOf(t, map[int]any{1: true, -2: "x"})}, `{"-2":"x","1":true}`},
		{Value{host.EncodedCBOR, cborOf(t, new(big.Int).Lsh(big.NewInt(-1), 70))}, "-1180591620717411303424"},
		{Value{host.EncodedCBOR, []byte("\xc1\x00")}, `"1970-01-01T00:00:00Z"`},
		{Value{host.EncodedCBOR, []byte("\xf9\x7e\x00")}, "null"},
		{Value{host.EncodedCBOR, cborOf(t, cbor.Tag{Number: 4000, Content: "x"})}, `"x"`},
		{Value{host.Unencoded, []byte(`{"a":1}`)}, `{"a":1}`},
		{Value{host.Unencoded, cborOf(t, []byte(`{"a":1}`))}, `{"a":1}`},
		{Value{host.Unencoded, cborOf(t, struct{ A []byte }{[]byte("x")})}, `{"A":{"$bytes":"eA=="}}`},
		{Value{host.Unencoded, []byte{0xFF}}, `{"$bytes":"/w=="}`},
		{Value{host.Unencoded, []byte("\"\xff\"")}, `{"$bytes":"Iv8i"}`},
		{Value{200, []byte{1}}, `{"$bytes":"AQ=="}`},
	} {
		got, err := c.value.AppendJSON([]byte("x"))
		errorIf(t, err != nil || string(got) != "x"+c.want || !json.Valid(got[1:]),
			"%v %x: %s %v, want %s", c.value.Encoding, c.value.Data, got, err, c.want)
	}
	for _, damaged := range []Value{{host.EncodedU64, nil}, {host.EncodedInteger, nil},
		{host.EncodedInteger, []byte{1}}, {host.EncodedInteger, []byte{0, 0, 1}},
		{host.EncodedInteger, []byte{2, 1}}, {host.EncodedCBOR, []byte{0xFF}}} {
		got, err := damaged.AppendJSON(nil)
		errorIf(t, err == nil, "%v %x: %s", damaged.Encoding, damaged.Data, got)
	}
}

func TestDocumentsAreCheckedAndCompact(t *testing.T) {
	for text, want := range map[string]host.Code{
		"": host.InvalidArgument, "{": host.InvalidArgument, "\"\xff\"": host.InvalidArgument, "1 2": host.InvalidArgument,
		strings.Repeat("[", 501) + strings.Repeat("]", 501): host.TooLarge, `["[[["]`: "", strings.Repeat("[",
			500) + strings.Repeat("]", 500): "",
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
		want         string // the encoding and JSON of the result, or the error: "operand" is a mismatch of the operand alone
	}{
		{Sum, none, j("-0"), Bounds{}, "json 0"},
		{Sum, j("9007199254740993"), j("9007199254740993"), Bounds{}, "json 18014398509481986"},
		{Sum, none, j("1" + most), Bounds{}, "operand"},
		{Sum, j("1.5"), j("2"), Bounds{}, "json 3.5"},
		{Sum, j("1"), j("2.0"), Bounds{}, "json 3.0"},
		{Sum, j("1e308"), j("1e308"), Bounds{}, "range"},
		{Sum, j(most), j("0"), Bounds{}, "json " + most},
		{Sum, j("-" + most), j("0"), Bounds{}, "json " + "-" + most},
		{Sum, j(most), j("1"), Bounds{}, "range"},
		{Sum, j(`"abc"`), j("1"), Bounds{}, "mismatch"},
		{Sum, j("null"), j("1"), Bounds{}, "mismatch"},
		{Sum, text("1"), j("1"), Bounds{}, "mismatch"},
		{Sum, j("1"), j(`"1"`), Bounds{}, "operand"},
		{Sum, U64(1<<64 - 1), U64(2), Bounds{}, "u64 1"},
		{Sum, U64(1<<64 - 1), U64(2), bounds(none, U64(1<<64-1), false), "range"},
		{Sum, U64(1<<64 - 1), U64(2), bounds(none, U64(7), true), "u64 7"},
		{Sum, U64(5), j("-3"), Bounds{}, "u64 2"},
		{Sum, U64(1<<64 - 1), bigint(3), Bounds{}, "u64 2"},
		{Sum, U64(5), bigint(-3), Bounds{}, "mismatch"}, // as in Deno KV
		{Sum, U64(5), bigint(3), bounds(none, bigint(9), false), "mismatch"},
		{Sum, U64(5), j("1.5"), Bounds{}, "mismatch"},
		{Sum, bigint(5), U64(3), Bounds{}, "mismatch"},
		{Sum, bigint(1 << 62), bigint(1 << 62), Bounds{}, "v8 9223372036854775808"},
		{Sum, v8JSON(t, "1.5"), v8JSON(t, "2"), Bounds{}, "v8 3.5"},
		{Sum, bigint(5), v8JSON(t, "2"), Bounds{}, "mismatch"},
		{Sum, v8JSON(t, `"x"`), bigint(1), Bounds{}, "mismatch"},
		{Max, Integer(new(big.Int).Exp(big.NewInt(10), big.NewInt(MaxDigits), nil)), j("0"), Bounds{}, "range"},
		{Sum, Integer(big.NewInt(-1)), j("-255"), Bounds{}, "integer -256"},
		{Sum, j("5"), j("6"), bounds(j("0"), j("10"), false), "range"},
		{Sum, j("5"), j("6"), bounds(j("0"), j("10"), true), "json 10"},
		{Sum, j("5"), j("-6"), bounds(j("0"), j("10"), true), "json 0"},
		{Sum, none, j("11"), bounds(none, j("10"), true), "json 10"}, // the first write too
		{Sum, none, j("11"), bounds(none, j("10"), false), "range"},
		{Sum, j("1.5"), j("0.5"), bounds(none, j("10"), false), "operand"},
		{Sum, double(math.Inf(1)), double(math.Inf(-1)), bounds(v8JSON(t, "0.5"), none, true), "range"},
		{Sum, double(math.Inf(1)), v8JSON(t, "1.5"), bounds(none, v8JSON(t, "2.5"), true), "v8 2.5"},
		{Min, j("3"), j("-4"), Bounds{}, "json -4"},
		{Max, j("3"), j("-4"), Bounds{}, "json 3"},
		{Max, j("3"), j("3.5"), Bounds{}, "json 3.5"},
		{Min, U64(1), U64(1 << 63), Bounds{}, "u64 1"},
		{Max, none, U64(7), Bounds{}, "u64 7"},
		{Min, double(math.NaN()), v8JSON(t, "1"), Bounds{}, "mismatch"},
		{Min, v8JSON(t, "1"), double(math.NaN()), Bounds{}, "operand"},
		{Append, j(`[{"x":1},true]`), j(`[[1], null]`), Bounds{}, `json [{"x":1},true,[1],null]`},
		{Prepend, j(`[1]`), j(`[2,3]`), Bounds{}, `json [2,3,1]`},
		{Append, j(`[]`), j(`[1]`), Bounds{}, `json [1]`},
		{Append, j(`[1]`), j(`[ ]`), Bounds{}, `json [1]`},
		{Append, none, j(`[1]`), Bounds{}, `json [1]`},
		{Append, j(`"a"`), j(`["b"]`), Bounds{}, "mismatch"},
		{Append, j(`["a"]`), j(`"b"`), Bounds{}, "operand"},
		{Sum, Integer(big.NewInt(1)), j("1.5"), Bounds{}, "mismatch"}, // an integer of its encoding stays one
		{Max, Integer(big.NewInt(1)), j("1.5"), Bounds{}, "mismatch"},
		{Sum, Integer(big.NewInt(1)), v8JSON(t, "1.5"), Bounds{}, "mismatch"},
		{Max, j("9007199254740993"), j("0.5"), Bounds{}, "json 9007199254740993"}, // exactly one of the two
		{Min, j("0.5"), j("-9007199254740993"), Bounds{}, "json -9007199254740993"},
		{Max, j("9007199254740993"), j("9007199254740992.0"), Bounds{}, "json 9007199254740993"},
		{Max, j("1" + strings.Repeat("0", 400)), j("1e300"), Bounds{}, "json " + "1" + strings.Repeat("0", 400)},
		{Max, j("3"), j("3.0"), Bounds{}, "json 3"},
		{Append, Value{host.Unencoded, []byte(`[ ]`)}, j("[1]"), Bounds{}, "json [1]"},
		{Append, Value{host.Unencoded, []byte("[1, 2]\n")}, j("[3]"), Bounds{}, "json [1,2,3]"},
		{Append, Value{host.Unencoded, []byte("[abc]")}, j("[1]"), Bounds{}, "mismatch"},
		{Append, Value{host.Unencoded, []byte("[\"\xff\"]")}, j("[1]"), Bounds{}, "mismatch"},
		{Sum, Value{host.Unencoded, []byte(" 5\n")}, j("1"), Bounds{}, "json 6"},
		{Sum, Value{host.Unencoded, []byte("0x1.8p1")}, j("1"), Bounds{}, "mismatch"},
		{Sum, double(1.5), j("2"), Bounds{}, "v8 3.5"},
		{Sum, double(1.5), j("9007199254740992"), Bounds{}, "v8 9007199254740994"},
		{Sum, double(1.5), j("9007199254740993"), Bounds{}, "mismatch"},
		{Max, double(1.5), j("2"), Bounds{}, "v8 2"},
		{Max, double(1.5), j("9007199254740993"), Bounds{}, "mismatch"},
		{Sum, double(1.5), bigint(2), Bounds{}, "mismatch"},
		{Sum, bigint(2), j("1.5"), Bounds{}, "mismatch"},
		{Sum, bigint(2), j("2"), Bounds{}, "v8 4"},
		{Sum, j("2"), j("1.5"), Bounds{}, "json 3.5"},
		{Sum, j("1.5"), j("9007199254740993"), Bounds{}, "mismatch"},
		{Sum, j("9007199254740993"), j("1.5"), Bounds{}, "mismatch"},
		{Max, j("9007199254740993"), j("1.5"), Bounds{}, "json 9007199254740993"},
		{Sum, j("1.5"), U64(2), Bounds{}, "mismatch"},
		{Sum, U64(2), j("3"), Bounds{}, "u64 5"},
		{Sum, U64(2), j("-3"), Bounds{}, "range"},
		{Sum, U64(2), bigint(-3), Bounds{}, "mismatch"},
		{Sum, U64(2), bigint(3), Bounds{}, "u64 5"},
		{Sum, U64(2), Integer(new(big.Int).Lsh(big.NewInt(1), 64)), Bounds{}, "mismatch"},
		{Sum, U64(2), j("18446744073709551616"), Bounds{}, "mismatch"},
		{Sum, U64(1<<64 - 1), j("2"), Bounds{}, "u64 1"},
	} {
		var old *Value
		before := bytes.Clone(c.old.Data)
		if c.old.Data != nil {
			old = &c.old
		}
		result, err := c.op.Combine(old, c.operand, c.bounds)
		got := ""
		var bad *MismatchError
		switch {
		case errors.As(err, &bad) && bad.Operand:
			got = "operand"
		case errors.Is(err, ErrMismatch):
			got = "mismatch"
		case errors.Is(err, ErrRange):
			got = "range"
		case err == nil:
			shown, err := result.AppendJSON(nil)
			must(t, err)
			got = fmt.Sprintf("%s %s", result.Encoding, shown)
		}
		errorIf(t, got != c.want || !bytes.Equal(before, c.old.Data),
			"%s of %.40q and %.40q: %.60s %v, want %.60s", c.op, c.old.Data, c.operand.Data, got, err, c.want)
	}
}

// A combination of two documents is a document in its stored form, regardless of the documents, and
// an array of all elements.
func FuzzCombinationsMakeDocuments(f *testing.F) {
	for _, pair := range [][2]string{{`1`, `-0`}, {`[]`, `[1]`}, {`[[],{}]`, `[ ]`}, {`"a"`, `1`}, {`1.5`, `2`},
		{`["]"]`, `[","]`}, {`1e1`, `0.0`}} {
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
				if again, err := JSON(result.Data); err != nil || !bytes.Equal(again.Data, result.Data) ||
					result.Encoding != host.EncodedJSON {
					t.Fatalf("%s of %s and %s is %s", op, old.Data, operand.Data, result.Data)
				}
				var joined []json.RawMessage
				fatalIf(t, stored != nil && arrays &&
					(json.Unmarshal(result.Data, &joined) != nil || len(joined) != len(first)+len(second)),
					"%s of %s and %s is %s", op, old.Data, operand.Data, result.Data)
			}
		}
	})
}

// No stored value makes the reader fail in another way than with an error.
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

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
