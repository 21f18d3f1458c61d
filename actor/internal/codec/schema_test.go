package codec

import (
	"bytes"
	"encoding/json"
	"math/big"
	"math/rand"
	"net/netip"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The types of these tests have fields that encoding/json treats in its own way.
type (
	schemaNote struct {
		Body string `json:"body"`
		Size int8   `json:"size,omitempty"`
	}
	schemaTree struct {
		Name     string
		Children []schemaTree
		Parent   *schemaTree `json:"parent,omitempty"`
	}
	schemaForest map[string]schemaForest
	schemaBase   struct {
		ID     uint16 `json:"id"`
		Shared string
		Hidden string
	}
	schemaOther struct {
		Shared string
		Hidden string
	}
	schemaDeep struct {
		schemaBase
		*schemaOther
		Hidden bool // hides the embedded ones
	}
	schemaBox[T any] struct{ Value T }
	schemaRange      [2]float64
	schemaKey        []any
	schemaZoo        struct {
		Bool      bool
		Int       int
		Int64     int64
		Uint64    uint64
		Uint8     uint8
		Float     float64
		Small     float32
		Text      string
		Bytes     []byte
		Fixed     [3]byte
		Note      schemaNote
		Notes     []*schemaNote
		NotePtr   *schemaNote
		Named     map[string]schemaNote
		Counted   map[int16]bool
		Addresses map[netip.Addr]uint8
		Any       any `json:"any,omitempty"`
		Address   netip.Addr
		Number    *big.Int
		Box       schemaBox[[]schemaBox[int32]]
		Range     schemaRange
		Span      time.Duration
		Hundred   int    `json:"hundred,string"`
		Maybe     *bool  `json:"maybe,string"`
		Said      string `json:",string"`
		Left      string `json:"-"`
		//lint:ignore SA5008 the field is named "-"
		Dash string `json:"-,"`
		Odd  string `json:"<odd/name>,omitzero"`
		//lint:ignore SA5008 an invalid name is the case under test
		Invalid string          `json:"a\"b"`
		Raw     json.RawMessage `json:"raw,omitempty"`
		//lint:ignore U1000 schemas must skip it
		unseen int
		schemaDeep
	}
)

func (schemaKey) JSONSchema() []byte { return []byte(`{"type":"array", "items":{"type":"integer"}}`) }
func (schemaNote) JSONExample() any  { return schemaNote{Body: "renew", Size: 3} }

// schemaZooTypes are the types for the tests of properties below.
var schemaZooTypes = []reflect.Type{
	reflect.TypeFor[schemaZoo](), reflect.TypeFor[schemaNote](), reflect.TypeFor[schemaDeep](), reflect.TypeFor[schemaBase](),
	reflect.TypeFor[*schemaNote](), reflect.TypeFor[[]schemaNote](), reflect.TypeFor[map[uint16][]byte](), reflect.TypeFor[string](),
	reflect.TypeFor[bool](), reflect.TypeFor[int32](), reflect.TypeFor[uint64](), reflect.TypeFor[schemaBox[map[string]*int]](),
	reflect.TypeFor[schemaRange](), reflect.TypeFor[any](), reflect.TypeFor[struct{}](), reflect.TypeFor[[][]string](),
}

func TestSchemasSayWhatEachKindOfTypeAllows(t *testing.T) {
	for _, test := range []struct {
		typ           reflect.Type
		read, written string
	}{
		{reflect.TypeFor[None](), ``, ``},
		{reflect.TypeFor[chan int](), ``, ``},
		{reflect.TypeFor[string](), `"type":"string"`, `"type":"string"`},
		{reflect.TypeFor[any](), ``, ``},
		{reflect.TypeFor[int8](), `"type":"integer","format":"int8","minimum":-128,"maximum":127`, ``},
		{reflect.TypeFor[int64](), `"type":"integer","format":"int64","minimum":-9223372036854775808,"maximum":9223372036854775807`, ``},
		{reflect.TypeFor[uint64](), `"type":"integer","format":"uint64","minimum":0,"maximum":18446744073709551615`, ``},
		{reflect.TypeFor[*bool](), `"type":["boolean","null"]`, ``},
		{reflect.TypeFor[time.Time](), `"type":"string","format":"date-time"`, ``},
		{reflect.TypeFor[json.Number](), `"type":"number"`, ``},
		{reflect.TypeFor[big.Int](), `"type":"integer"`, ``},
		{reflect.TypeFor[json.RawMessage](), ``, ``},
		{reflect.TypeFor[[]byte](), `"type":["string","null"],"contentEncoding":"base64"`, ``},
		{reflect.TypeFor[[]string](), `"type":["array","null"],"items":{"type":"string"}`, ``},
		{reflect.TypeFor[[2]bool](), `"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2`, ``},
		{reflect.TypeFor[map[int]any](),
			`"type":["object","null"],"propertyNames":{"pattern":"^(0|-?[1-9][0-9]*)$"},"additionalProperties":true`, ``},
		{reflect.TypeFor[schemaKey](), `"type":"array","items":{"type":"integer"}`, ``},
		{reflect.TypeFor[schemaNote](),
			`"$ref":"#/$defs/schemaNote","$defs":{"schemaNote":{"type":"object","properties":{"body":{"type":"string"},` +
				`"size":{"type":"integer","format":"int8","minimum":-128,"maximum":127}},"additionalProperties":false,` +
				`"examples":[{"body":"renew","size":3}]}}`,
			`"$ref":"#/$defs/schemaNote","$defs":{"schemaNote":{"type":"object","properties":{"body":{"type":"string"},` +
				`"size":{"type":"integer","format":"int8","minimum":-128,"maximum":127}},"required":["body"],` +
				`"examples":[{"body":"renew","size":3}]}}`},
		{reflect.TypeFor[schemaTree](),
			`"$ref":"#/$defs/schemaTree","$defs":{"schemaTree":{"type":"object","properties":{"Name":{"type":"string"},` +
				`"Children":{"type":["array","null"],"items":{"$ref":"#/$defs/schemaTree"}},` +
				`"parent":{"anyOf":[{"$ref":"#/$defs/schemaTree"},{"type":"null"}]}},"additionalProperties":false}}`, ``},
		{reflect.TypeFor[schemaForest](),
			`"$ref":"#/$defs/schemaForest","$defs":{"schemaForest":{"type":["object","null"],` +
				`"additionalProperties":{"$ref":"#/$defs/schemaForest"}}}`, ``},
		{reflect.TypeFor[schemaDeep](),
			`"$ref":"#/$defs/schemaDeep","$defs":{"schemaDeep":{"type":"object","properties":{` +
				`"id":{"type":"integer","format":"uint16","minimum":0,"maximum":65535},"Hidden":{"type":"boolean"}},` +
				`"additionalProperties":false}}`, ``},
		{reflect.TypeFor[schemaBox[schemaBox[int]]](),
			`"$ref":"#/$defs/schemaBox_schemaBox_int","$defs":{"schemaBox_schemaBox_int":{"type":"object","properties":{` +
				`"Value":{"$ref":"#/$defs/schemaBox_int"}},"additionalProperties":false},"schemaBox_int":{"type":"object","properties":{` +
				`"Value":{"type":"integer","format":"int64","minimum":-9223372036854775808,"maximum":9223372036854775807}},` +
				`"additionalProperties":false}}`, ``},
	} {
		for use, want := range map[SchemaUse]string{ReadSchema: test.read, WrittenSchema: test.written} {
			got := string(Schema(test.typ, use))
			if test.read == "" && test.typ.Kind() != reflect.Interface && test.typ.Kind() != reflect.Slice {
				errorIf(t, got != "", "%s has the schema %s, want none", test.typ, got)
				continue
			}
			if use == WrittenSchema && want == "" && test.typ.Kind() == reflect.Struct {
				continue
			}
			if want == "" {
				want = test.read
			}
			got, _ = strings.CutPrefix(got, `{"$schema":"https://json-schema.org/draft/2020-12/schema"`)
			got = strings.TrimPrefix(strings.TrimSuffix(got, "}"), ",")
			errorIf(t, got != want, "%s: schema %d is\n%s, want\n%s", test.typ, use, got, want)
		}
	}
}

// compileSchema also checks the schema against the one of JSON Schema itself.
func compileSchema(t testing.TB, typ reflect.Type, use SchemaUse) *jsonschema.Schema {
	t.Helper()
	text := Schema(typ, use)
	for range 5 {
		errorIf(t, !bytes.Equal(Schema(typ, use), text), "%s has more than one schema", typ)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	fatalIf(t, err != nil, "the schema of %s is not JSON: %v\n%s", typ, err, text)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	fatalIf(t, err != nil, "the schema of %s: %v\n%s", typ, err, text)
	return s
}

func TestWhatIsWrittenFitsBothSchemas(t *testing.T) {
	codec := New()
	full := schemaZoo{
		Bytes: []byte{1, 2}, Notes: []*schemaNote{nil, {Body: "x"}}, NotePtr: new(schemaNote), Named: map[string]schemaNote{"a": {}},
		Counted: map[int16]bool{-1: true, 0: false, 300: true}, Addresses: map[netip.Addr]uint8{netip.IPv6Loopback(): 1},
		Any: []any{1, "x", nil}, Number: new(big.Int).Lsh(big.NewInt(1), 100), Maybe: new(bool), Said: `"`, Odd: "<>",
		Raw: json.RawMessage(`{"a":[]}`), Uint64: 1<<64 - 1, Int64: -1 << 63,
		schemaDeep: schemaDeep{schemaOther: &schemaOther{Shared: "s"}},
	}
	for _, typ := range schemaZooTypes {
		if typ.Kind() == reflect.Interface {
			continue
		}
		values := []reflect.Value{reflect.Zero(typ)}
		switch typ {
		case reflect.TypeFor[schemaDeep](): // testing/quick makes no values with unexported fields
		case reflect.TypeFor[schemaZoo]():
			values = append(values, reflect.ValueOf(full))
		default:
			random := rand.New(rand.NewSource(1))
			for range 50 {
				v, ok := quick.Value(typ, random)
				fatalIf(t, !ok, "there is no %s", typ)
				values = append(values, v)
			}
		}
		schemas := []*jsonschema.Schema{compileSchema(t, typ, ReadSchema), compileSchema(t, typ, WrittenSchema)}
		for _, v := range values {
			p := reflect.New(typ)
			p.Elem().Set(v)
			text, err := codec.appendJSON(nil, p.Interface())
			fatalIf(t, err != nil, "%s: %v", typ, err)
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			fatalIf(t, err != nil, "%s: %v", typ, err)
			for _, s := range schemas {
				err := s.Validate(doc)
				fatalIf(t, err != nil, "%s: %v\n%s", typ, err, text)
			}
		}
	}
}

// beyond matches numbers that a schema cannot refuse: whole numbers with a fraction or exponent,
// -0, and numbers in text that are out of the range of their type.
var beyond = regexp.MustCompile(`[0-9][.eE]|[0-9]{4}|-0`)

// FuzzSchemaAllowsWhatDecodes feeds JSON to the read schemas: the decoder accepts what they allow.
func FuzzSchemaAllowsWhatDecodes(f *testing.F) {
	for _, s := range []string{
		`null`, `true`, `"x"`, `-1`, `256`, `[]`, `{}`, `{"body":"a","size":-128}`, `{"body":null}`, `{"size":128}`, `{"Body":"a"}`,
		`{"1":"AQ=="}`, `{"-1":""}`, `[{"body":""},{}]`, `[1,2]`, `[1,2,3]`, `{"Value":{"a":1,"b":null}}`, `{"id":65535,"Hidden":true}`,
		`{"hundred":"12","maybe":"true","Counted":{"-5":true},"raw":[{}],"any":{}}`, `{"Text":1}`, `[["a"],null]`, `{"Note":null}`,
	} {
		f.Add(s)
	}
	codec := New()
	schemas := make([]*jsonschema.Schema, len(schemaZooTypes))
	for i, typ := range schemaZooTypes {
		schemas[i] = compileSchema(f, typ, ReadSchema)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if beyond.MatchString(text) {
			return
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return
		}
		for i, typ := range schemaZooTypes {
			if schemas[i].Validate(doc) != nil {
				continue
			}
			err := codec.decodeJSON([]byte(text), reflect.New(typ).Interface())
			errorIf(t, err != nil && !beyondSchemas(err), "the schema of %s allows %s, and decoding says: %v", typ, text, err)
		}
	})
}

// beyondSchemas reports whether an error is about the content of a string.
func beyondSchemas(err error) bool {
	return strings.Contains(err.Error(), "not valid JSON for the type") || strings.Contains(err.Error(), "a JSON string")
}
