package v8

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// The vectors are what Node 20 writes with v8.Serializer.
var vectors = []struct {
	value, hex, json string
	back             bool // FromJSON writes these bytes
}{
	{"undefined", "5f", "null", false},
	{"null", "30", "null", true},
	{"true", "54", "true", true},
	{"false", "46", "false", true},
	{"1", "4902", "1", true},
	{"-5", "4909", "-5", true},
	{"2**31", "4e000000000000e041", "2147483648", true},
	{"2**32", "4e000000000000f041", "4294967296", true},
	{"1.5", "4e000000000000f83f", "1.5", true},
	{"-0", "4e0000000000000080", "0", false},
	{"NaN", "4e000000000000f87f", "null", false},
	{"1e21", "4e50efe2d6e41a4b44", "1e+21", true},
	{"10n", "5a100a00000000000000", "10", false},
	{"-(2n**70n)", "5a2100000000000000004000000000000000", "-1180591620717411303424", false},
	{"2n**70n+1n", "5a2001000000000000004000000000000000", "1180591620717411303425", true},
	{`"a"`, "220161", `"a"`, true},
	{`"é"`, "2201e9", `"é"`, true},
	{`"日本"`, "6304e5652c67", `"日本"`, true},
	{`"😀"`, "63043dd800de", `"😀"`, true},
	{`"\ud800"`, "630200d8", `"�"`, false},
	{`"\n\""`, "22020a22", `"\n\""`, true},
	{"[1,[]]", "41024902410024000024" + "0002", "[1,[]]", true},
	{"[1,,3]", "61034900490249044906400203", "[1,null,3]", false},
	{"[undefined]", "41015f240001", "[null]", false},
	{"{a:1,b:undefined,2:'x',4000000000:1}", "6f49042201784e0000000065cded41490222016149022201625f7b04",
		`{"2":"x","4000000000":1,"a":1}`, false},
	{"{2:'x',4000000000:1,a:1}", "6f49042201784e0000000065cded41490222016149027b03", `{"2":"x","4000000000":1,"a":1}`, true},
	{"{}", "6f7b00", "{}", true},
	{"new Date(0)", "440000000000000000", `"1970-01-01T00:00:00.000Z"`, false},
	{"new Date(NaN)", "44000000000000f87f", "null", false},
	{"new Date(8.64e15)", "440000dcc208b23e43", `"+275760-09-13T00:00:00.000Z"`, false},
	{"new Date(-8.64e15)", "440000dcc208b23ec3", `"-271821-04-20T00:00:00.000Z"`, false},
	{"new Map([['a',1]])", "3b22016149023a02", `[["a",1]]`, false},
	{"new Set([1])", "2749022c01", "[1]", false},
	{"new Number(3)", "6e0000000000000840", "3", false},
	{"new String('q')", "73220171", `"q"`, false},
	{"new Boolean(true)", "79", "true", false},
	{"Object(3n)", "7a100300000000000000", "3", false},
	{"new Uint8Array([1,2])", "420201025642000200", `{"$bytes":"AQI="}`, true},
	{"new Uint8Array([1,2]).buffer", "42020102", `{"$bytes":"AQI="}`, false},
	{"a view of the last of two bytes", "420201025642010100", `{"$bytes":"Ag=="}`, false},
}

func TestValuesHaveTheFormThatV8Gives(t *testing.T) {
	for _, v := range vectors {
		data := unhex(t, "ff0f"+v.hex)
		got, err := AppendJSON([]byte("x"), data)
		errorIf(t, err != nil || string(got) != "x"+v.json, "%s: %s %v, want %s", v.value, got, err, v.json)
		if v.back {
			back, err := FromJSON([]byte(v.json))
			errorIf(t, err != nil || !bytes.Equal(back, data), "%s: written as %x %v, want %x", v.json, back, err, data)
		}
		for n := range data { // cut short anywhere
			// which is a value without its view
			if got, err := AppendJSON(nil, data[:n]); (err == nil || got != nil) && data[2] != tagBuffer {
				t.Errorf("%s: the first %d bytes are %s %v", v.value, n, got, err)
			}
		}
		_, err = AppendJSON(nil, append(data, '0'))
		errorIf(t, !errors.Is(err, ErrMalformed), "%s and more: %v", v.value, err)
	}
}

func TestWhatIsNoPlainDataIsOpaque(t *testing.T) {
	for value, h := range map[string]string{
		"an object that holds itself": "ff0f6f22016f5e007b01", "a host object": "ff0f5c0103010203", "a regular expression": "ff0f5222016100",
		"an error": "ff0f72452e", "an array with a property": "ff0f41014902220161490424010" +
			"1", "a later version": "ff1030", "an earlier version": "ff0c30",
		"floats": "ff0f42080000000000000000" + "5666000800", "an array of 2000 gaps": "ff0f61d00f4000d00f",
		"501 arrays": "ff0f" + strings.Repeat("4101", 501) + "30" + strings.Repeat("240001", 501),
	} {
		got, err := AppendJSON(nil, unhex(t, h))
		errorIf(t, !errors.Is(err, ErrOpaque), "%s: %s %v", value, got, err)
	}
	deep := "ff0f" + strings.Repeat("4101", 499) + "30" + strings.Repeat("240001", 499)
	if _, err := AppendJSON(nil, unhex(t, deep)); err != nil {
		t.Error(err)
	}
	for value, h := range map[string]string{
		"no header": "4902", "half a character": "ff0f630161", "a count that is wrong": "ff0f6f22016149027b02", "too many elements": "ff0f41ffffffff0f30",
		"33 bits": "ff0f55ffffffff7f", "elements out of order": "ff0f6102" + "4902" + "30" + "4900" + "30" +
			"400202", "a view outside": "ff0f420201025642010200",
		"a name that is a list": "ff0f6f4100240000" + "307b01",
	} {
		got, err := AppendJSON(nil, unhex(t, h))
		errorIf(t, !errors.Is(err, ErrMalformed), "%s: %s %v", value, got, err)
	}
}

func TestNumbersAreIntegersOrDoubles(t *testing.T) {
	for _, c := range []struct {
		data    []byte
		integer string
		double  float64
		err     error
	}{
		{FromInteger(big.NewInt(-300)), "-300", 0, nil},
		{FromInteger(new(big.Int).Lsh(big.NewInt(1), 200)), new(big.Int).Lsh(big.NewInt(1), 200).String(), 0, nil},
		{FromDouble(1.5), "", 1.5, nil},
		{unhex(t, "ff0f4909"), "", -5, nil},
		{unhex(t, "ff0f5505"), "", 5, nil},
		{FromText("1"), "", 0, ErrOpaque},
		{append(FromDouble(1), 0), "", 0, ErrMalformed},
	} {
		integer, double, err := Number(c.data)
		text := ""
		if integer != nil {
			text = integer.String()
		}
		errorIf(t, !errors.Is(err, c.err) ||
			err == nil && (text != c.integer || double != c.double), "%x: %s %v %v", c.data, text, double, err)
	}
}

func TestJSONThatCannotBeSerialized(t *testing.T) {
	for _, text := range []string{"", "[1", "1 2", "1e400", strings.Repeat("[", 501) + strings.Repeat("]", 501),
		"1" + strings.Repeat("0", 100_000)} {
		got, err := FromJSON([]byte(text))
		errorIf(t, err == nil, "%.20s: %x", text, got)
	}
	got, err := FromJSON([]byte(`{"b":1,"a":2,"b":3,"10":0,"9":0}`))
	must(t, err)
	if text, err := AppendJSON(nil, got); err != nil || string(text) != `{"9":0,"10":0,"b":3,"a":2}` {
		t.Errorf("%s %v", text, err)
	}
}

// Values with a form in JSON can be written again, at the limits too.
func TestLimitsOfTheReaderAreThoseOfTheWriter(t *testing.T) {
	digits := func(n int) string { return strings.Repeat("9", n) }
	for _, text := range []string{
		strings.Repeat("[", 500) + "1" + strings.Repeat("]", 500), digits(MaxDigits), "-" +
			digits(MaxDigits), "9007199254740991", "9007199254740992",
	} {
		data, err := FromJSON([]byte(text))
		if err != nil {
			t.Errorf("%.20s: %v", text, err)
			continue
		}
		got, err := AppendJSON(nil, data)
		errorIf(t, err != nil || string(got) != text, "%.20s becomes %.20s %v", text, got, err)
	}
	long, _ := new(big.Int).SetString(digits(MaxDigits+1), 10)
	maps := func(n int) []byte {
		return unhex(t, "ff0f"+strings.Repeat("3b30", n)+"30"+strings.Repeat("3a02", n)) // the first is the key null
	}
	for name, data := range map[string][]byte{
		"too many digits": FromInteger(long), "251 Maps": maps(251), "many counts": append([]byte{0xFF, 15},
			strings.Repeat("?\x01", 1<<20)...),
	} {
		got, err := AppendJSON(nil, data)
		errorIf(t, !errors.Is(err, ErrOpaque), "%s: %.40s %v", name, got, err)
	}
	_, err := AppendJSON(nil, maps(250))
	errorIf(t, err != nil, "%v", err)
}

// No input of a client makes the reader fail in another way than with its errors, and JSON comes
// back unchanged.
func FuzzReader(f *testing.F) {
	for _, v := range vectors {
		f.Add(unhex(f, "ff0f"+v.hex))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := AppendJSON(nil, data)
		if err != nil {
			errorIf(t, !errors.Is(err, ErrOpaque) && !errors.Is(err, ErrMalformed), "%v", err)
			return
		}
		fatalIf(t, !json.Valid(text), "not JSON: %s", text)
		again, err := FromJSON(text)
		if err != nil {
			return // deeper, or an integer with too many digits
		}
		back, err := AppendJSON(nil, again)
		fatalIf(t, err != nil, "%s: %v", text, err)
		twice, err := FromJSON(back)
		fatalIf(t, err != nil || !bytes.Equal(twice, again), "%s becomes %s", text, back)
	})
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
