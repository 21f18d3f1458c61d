package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cairn-run/cairn/actor/host"
)

// seat and booking have a field of everything that has a form.
type seat struct {
	Row    uint8
	Letter string `json:"letter,omitempty"`
	//lint:ignore U1000 encoding/json must skip it
	hidden int
}

type booking struct {
	Flight string  `json:"flight"`
	Price  float64 `json:"price,omitempty"`
	Weight float32
	Seats  []seat  `json:"seats"`
	Note   *string `json:"note,omitempty"`
	Paid   bool    `json:"paid,omitempty"`
	Small  int8    `json:"small,omitempty"`
	Count  uint64
	Left   int64
	Deep   [][]int `json:"deep,omitempty"`
	To     **seat  `json:"to"`
	Secret string  `json:"-"`
	//lint:ignore SA5008 the field is named "-"
	Dash string   `json:"-,"`
	Tags []string `json:"tags,omitempty"`
}

// checkJSONForm compares the results of a type's form with the results of encoding/json: the value
// of data, and the JSON of that value.
func checkJSONForm[T any](t *testing.T, data []byte) (taken bool) {
	t.Helper()
	form := make(jsonForms).of(reflect.TypeFor[T]())
	if form == nil {
		t.Fatalf("%T has no form", *new(T))
	}
	c := New()
	var got, want T
	err := c.decodeJSON(data, &want)
	if taken = form.decode(data, unsafe.Pointer(&got)); taken && (err != nil || !reflect.DeepEqual(got, want)) {
		t.Fatalf("%T of %q: %+v, the library says %+v (%v)", got, data, got, want, err)
	}
	if err != nil {
		return taken
	}
	text, err := c.appendJSON(nil, &want)
	must(t, err)
	own, ok := form.append([]byte("before"), unsafe.Pointer(&want))
	fatalIf(t, ok && string(own) != "before"+string(text), "%+v is %q, the library says %q", want, own, text)
	return taken
}

func FuzzJSONForm(f *testing.F) {
	for _, seed := range []string{
		`{"flight":"AA1","price":12.5,"Weight":1,"seats":[{"Row":12,"letter":"A"},{"Row":0}],"note":"é","paid":true,"Count":7,"Left":-9,"deep":[[1],[],null],"to":{"Row":1},"-":"x","tags":["a","b"]}`,
		`{"Left":1,"flight":"a"}`, `{"flight":"a","flight":"b"}`, `{"FLIGHT":"a"}`, `{"flight":null}`, `{"seats":null}`, `{"seats":[]}`, `{"seats":[ ]}`, `{"seats":[,]}`,
		`{"flight":"a\n\r\t\"\\\/\b\f\u0001"}`, `{"flight":"\ud83d\ude00\ud800"}`, `{"fl\u0069ght":"a"}`, `{"flight":"a","fl\u0069ght":"b"}`, `{"flight":"\x"}`, `{"flight":"\`, `{"flight":"\"}`, `{"flight":"\u2028"}`, "{\"flight\":\"\u2028\"}", "{\"flight\":\"\xff\"}", `{"price":1e3}`, `{"price":-0}`, `{"price":1e-7}`, `{"price":0.0000001}`, `{"price":1.}`, `{"price":.5}`, `{"price":01}`, `{"price":1.5.5}`,
		`{"Weight":16777217}`, `{"Weight":3.5e38}`, `{"Weight":400000000000000000000000000000000000000}`, `{"price":1-2}`, `{"small":128}`, `{"small":-128}`, `{"Count":-1}`, `{"Count":18446744073709551615}`, `{"paid":truey}`, `{"paid":true,}`,
		`{"other":1}`, `{}`, ` { } `, `{} {}`, `{"to":null}`, `{"deep":[[1,2],[3]]}`, `[1,2,3]`, `[]`, `null`, `1`, `-1`, `-0`, `-`, `1.5`, `true`, `false`, `"a"`, `""`, `"a`, `"a"b`, ``, `nul`, `nullx`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		checkJSONForm[booking](t, data)
		checkJSONForm[[]*int](t, data)
		checkJSONForm[[]float32](t, data)
		checkJSONForm[int](t, data)
		checkJSONForm[int16](t, data)
		checkJSONForm[uint64](t, data)
		checkJSONForm[float64](t, data)
		checkJSONForm[bool](t, data)
		checkJSONForm[string](t, data)
		checkJSONForm[struct{}](t, data)
	})
}

func TestUsualJSONIsReadAndWrittenByItsForm(t *testing.T) {
	for _, data := range []string{
		`{"flight":"Zürich","price":12.5,"Weight":1,"seats":[{"Row":12,"letter":"A"},{"Row":0}],"note":"a","paid":true,"small":-1,"Count":7,"Left":-9,"deep":[[1],[]],"to":{"Row":1},"-":"x","tags":["a"]}`,
		`{"fl\u0069ght":"Z\u00fcrich \"ZRH\"\n"}`,
		" {\n\t\"Left\" : 1 , \"flight\":\"a\",\r\"seats\" : [ ] }\n", `{}`,
	} {
		errorIf(t, !checkJSONForm[booking](t, []byte(data)), "%s is not taken", data)
	}
	for _, n := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-6, 9.99e-7, 1e20, 1e21, 0.1, math.MaxFloat64,
		math.SmallestNonzeroFloat64, 1 << 53} {
		data, err := json.Marshal(n)
		must(t, err)
		checkJSONForm[float64](t, data)
		checkJSONForm[[]float32](t, append(append([]byte("["), data...), ']'))
	}
	for _, b := range []booking{{}, {Seats: []seat{}, Deep: [][]int{nil}, Tags: []string{"<&>\x7f"}},
		{Price: 1, Weight: -1.25, Small: math.MinInt8, Count: math.MaxUint64, Left: math.MinInt64}} {
		form, c := make(jsonForms).of(reflect.TypeFor[booking]()), New()
		got, ok := form.append(nil, unsafe.Pointer(&b))
		want, err := c.appendJSON(nil, &b)
		errorIf(t, !ok || err != nil || !bytes.Equal(got, want), "%+v: %s (%v), the library says %s (%v)", b, got, ok, want, err)
	}
	for _, s := range []string{"", "\"", "a\\", "\na\r\tb\"c", "<&>\x7f", "Zürich\n"} {
		got, ok := textForm.append(nil, unsafe.Pointer(&s))
		want, err := New().appendJSON(nil, &s)
		errorIf(t, !ok || err != nil || !bytes.Equal(got, want), "%q: %s (%v), the library says %s (%v)", s, got, ok, want, err)
	}
	for _, s := range []string{"\x00", "\b", "\x1f", "\xff", "\n\xff", "\u2028", "\u2029"} {
		got, ok := textForm.append(nil, unsafe.Pointer(&s))
		errorIf(t, ok, "%q is written as %s", s, got)
	}
	for _, n := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e21, 1e-7} {
		got, ok := floatForm[float64](64).append(nil, unsafe.Pointer(&n))
		errorIf(t, ok, "%v is written as %s", n, got)
	}
}

// A tree contains itself, and trunk and branch contain each other.
type (
	tree struct {
		Name  string
		Nodes []tree
	}
	trunk  struct{ To *branch }
	branch struct{ From []trunk }
)

// A code has its own form, from a method of its pointer.
type code int

func (c *code) UnmarshalJSON([]byte) error { *c = 1; return nil }

func TestTypesThatHaveNoJSONForm(t *testing.T) {
	var fields []reflect.StructField
	for i := range 65 {
		fields = append(fields, reflect.StructField{Name: fmt.Sprint("F", i), Type: reflect.TypeFor[int]()})
	}
	many := reflect.New(reflect.StructOf(fields)).Elem()
	for _, v := range []any{
		tree{}, trunk{}, branch{}, []code(nil), struct{ C code }{}, struct{ C *code }{}, struct{ T time.Time }{}, many.Interface(), struct{ booking }{}, map[string]int(nil), []byte(nil), json.Number(""), json.RawMessage(nil), [2]int{}, struct{ V any }{},
		struct {
			N int `json:",string"`
		}{},
		struct {
			N int `json:"a b"`
		}{},
		struct {
			N int `json:",omitzero"`
		}{},
		struct {
			A int `json:"b"`
			B int
		}{},
		struct {
			A int `json:"K"`
			B int `json:"\u212a"`
		}{},
	} {
		form := make(jsonForms).of(reflect.TypeOf(v))
		errorIf(t, form != nil, "%T has a form", v)
	}
}

func TestWhatTheFormLeavesIsDecodedFromTheBeginning(t *testing.T) {
	w := Of[booking](New(), CBOR|JSON)
	var b booking
	err := w.Decode(host.JSON, []byte(`{"seats":[{"Row":1}],"tags":["a"],"flight":"a\tb"}`), &b)
	errorIf(t, err != nil || b.Flight != "a\tb" || len(b.Seats) != 1 || len(b.Tags) != 1, "%+v, %v", b, err)
}

func TestTextThatTheFormLeavesIsWrittenOrRefused(t *testing.T) {
	w := Of[booking](New(), CBOR|JSON)
	out, err := w.Append(host.JSON, []byte("x"), &booking{Flight: "a\u2028b\x01"})
	want := `x{"flight":"a\u2028b\u0001",`
	errorIf(t, err != nil || !strings.HasPrefix(string(out), want), "%s, %v", out, err)
	if out, err := w.Append(host.JSON, []byte("x"), &booking{Flight: "\xff"}); err == nil || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
}

func BenchmarkJSONOfAStruct(b *testing.B) {
	data := []byte(`{"flight":"AA100","price":129.5,"Weight":20.5,"seats":[{"Row":12,"letter":"A"}],"paid":true,"Count":7,"Left":-9}`)
	c := New()
	form := make(jsonForms).of(reflect.TypeFor[booking]())
	var out []byte
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				must(b, f())
			}
		})
	}
	var v booking
	must(b, c.decodeJSON(data, &v))
	run("read by its form", func() error {
		v := new(booking)
		fatalIf(b, !form.decode(data, unsafe.Pointer(v)), "not taken")
		return nil
	})
	run("read by encoding/json", func() error { return c.decodeJSON(data, new(booking)) })
	run("written by its form", func() error { out, _ = form.append(out[:0], unsafe.Pointer(&v)); return nil })
	run("written by encoding/json", func() (err error) { out, err = c.appendJSON(out[:0], &v); return err })
}
