package codec

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A selfDescribing type describes its own JSON form, because it has a MarshalJSON or because its
// fields say too little. JSONSchema is called on a zero value and returns a JSON Schema (2020-12)
// without "$defs" and without "$ref". A result that is not a JSON object counts as no schema: any
// value.
type selfDescribing interface{ JSONSchema() []byte }

// A withExample type has an example in the schemas that describe it. JSONExample is called on a
// zero value and returns a value of the type.
type withExample interface{ JSONExample() any }

// SchemaUse says what a schema is for.
type SchemaUse uint8

const (
	// ReadSchema describes values to decode. A value that it allows decodes, except for rules that
	// a schema cannot express: that whole numbers are written without a fraction, that numbers in
	// text and keys are in range, that text is base64, a time or JSON. The decoder also accepts
	// null for any zero value, and names of members in another case.
	ReadSchema SchemaUse = iota
	// WrittenSchema describes encoded values: members that are always written are required. It does
	// not close its objects, because a later version of the code may write more.
	WrittenSchema
)

// Schema returns the JSON Schema (2020-12) of the JSON form of t, or nil if there is none: for
// None, and for types that cannot be encoded. Named structs, and other named types that may contain
// themselves, are in "$defs" under the names of their Go types. Equal types have equal bytes.
func Schema(t reflect.Type, use SchemaUse) []byte {
	if t == reflect.TypeFor[None]() || len(shapeOf(t, JSON).faults) > 0 {
		return nil
	}
	w := schemaWriter{use: use, names: make(map[reflect.Type]string), taken: make(map[string]bool)}
	root := w.schema(t)
	var b bytes.Buffer
	b.WriteString(`{"$schema":"https://json-schema.org/draft/2020-12/schema"`)
	if len(root) > len("{}") && root[0] == '{' {
		b.WriteByte(',')
		b.WriteString(strings.TrimSuffix(root[1:], "}"))
	}
	for i, d := range w.defs {
		b.WriteString([]string{`,"$defs":{`, `,`}[min(i, 1)])
		fmt.Fprintf(&b, "%q:%s", d.name, d.schema)
	}
	if len(w.defs) > 0 {
		b.WriteByte('}')
	}
	b.WriteByte('}')
	return b.Bytes()
}

// A schemaWriter writes one schema. defs are in the order in which they were first met.
type schemaWriter struct {
	use   SchemaUse
	names map[reflect.Type]string
	taken map[string]bool
	defs  []*schemaDef
}

type schemaDef struct{ name, schema string }

// schema returns the schema of t: "true", an object, or a reference to a definition.
func (w *schemaWriter) schema(t reflect.Type) string {
	if !w.defined(t) {
		return w.build(t)
	}
	name, ok := w.names[t]
	if !ok {
		name = w.name(t)
		w.names[t] = name
		d := &schemaDef{name: name}
		w.defs = append(w.defs, d)
		d.schema = w.build(t)
	}
	return `{"$ref":"#/$defs/` + name + `"}`
}

// defined reports whether t gets a definition. A type that contains itself does so through a named
// type.
func (w *schemaWriter) defined(t reflect.Type) bool {
	if t.Name() == "" {
		return false
	}
	if _, ok := w.special(t); ok {
		return false
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer:
		return true
	}
	return false
}

// name returns the name of a definition: the name of the type in characters that OpenAPI allows,
// with a number if it is taken.
func (w *schemaWriter) name(t reflect.Type) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(t.Name(), func(r rune) bool { return strings.ContainsRune("[], *", r) }) {
		part = part[strings.LastIndexAny(part, "./")+1:]
		if b.Len() > 0 {
			b.WriteByte('_')
		}
		for _, r := range part {
			switch {
			case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_':
				b.WriteRune(r)
			default:
				fmt.Fprintf(&b, "u%X", r)
			}
		}
	}
	name := b.String()
	for i := 2; w.taken[name]; i++ {
		name = b.String() + strconv.Itoa(i)
	}
	w.taken[name] = true
	return name
}

// special returns the schema of a type whose JSON form does not follow from its kind.
func (w *schemaWriter) special(t reflect.Type) (string, bool) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return `{"type":"string","format":"date-time"}`, true
	case reflect.TypeFor[big.Int]():
		return `{"type":"integer"}`, true
	case reflect.TypeFor[json.Number]():
		return `{"type":"number"}`, true
	}
	if d, ok := zeroOf[selfDescribing](t); ok {
		s := bytes.TrimSpace(d.JSONSchema())
		var compact bytes.Buffer
		if len(s) == 0 || s[0] != '{' || json.Compact(&compact, s) != nil {
			return "true", true
		}
		return w.annotate(t, compact.String()), true
	}
	own, text := implements[json.Unmarshaler](t), implements[encoding.TextUnmarshaler](t)
	if w.use == WrittenSchema {
		own, text = implements[json.Marshaler](t), implements[encoding.TextMarshaler](t)
	}
	switch {
	case own:
		return "true", true
	case text:
		return `{"type":"string"}`, true
	}
	return "", false
}

// zeroOf returns a zero value of t as an I, if t has its methods. Pointers do not count: their
// elements do.
func zeroOf[I any](t reflect.Type) (I, bool) {
	if !implements[I](t) {
		var none I
		return none, false
	}
	v, ok := reflect.New(t).Interface().(I)
	return v, ok
}

// annotate adds the example of t, if it has one.
func (w *schemaWriter) annotate(t reflect.Type, schema string) string {
	e, ok := zeroOf[withExample](t)
	if !ok {
		return schema
	}
	text, err := json.Marshal(e.JSONExample())
	if err != nil {
		return schema
	}
	return with(schema, `"examples":[`+string(text)+`]`)
}

// with adds a member to a schema that is an object.
func with(schema, member string) string {
	if schema == "{}" {
		return "{" + member + "}"
	}
	return strings.TrimSuffix(schema, "}") + "," + member + "}"
}

func (w *schemaWriter) build(t reflect.Type) string {
	if s, ok := w.special(t); ok {
		return s
	}
	switch t.Kind() {
	case reflect.Bool:
		return `{"type":"boolean"}`
	case reflect.String:
		return `{"type":"string"}`
	case reflect.Float32:
		return `{"type":"number","format":"float"}`
	case reflect.Float64:
		return `{"type":"number","format":"double"}`
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		lowest := int64(math.MinInt64) >> (64 - t.Bits())
		return fmt.Sprintf(`{"type":"integer","format":"int%d","minimum":%d,"maximum":%d}`,
			t.Bits(), lowest, -(lowest + 1))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		greatest := uint64(math.MaxUint64) >> (64 - t.Bits())
		return fmt.Sprintf(`{"type":"integer","format":"uint%d","minimum":0,"maximum":%d}`, t.Bits(), greatest)
	case reflect.Pointer:
		return nullable(w.schema(t.Elem()))
	case reflect.Slice:
		if bytesInBase64(t) {
			return `{"type":["string","null"],"contentEncoding":"base64"}`
		}
		return w.annotate(t, `{"type":["array","null"],"items":`+w.schema(t.Elem())+`}`)
	case reflect.Array:
		return fmt.Sprintf(`{"type":"array","items":%s,"minItems":%d,"maxItems":%[2]d}`, w.schema(t.Elem()), t.Len())
	case reflect.Map:
		return w.annotate(t,
			`{"type":["object","null"]`+keyNames(t.Key())+`,"additionalProperties":`+w.schema(t.Elem())+`}`)
	case reflect.Struct:
		return w.annotate(t, w.object(t))
	}
	return "true" // an interface
}

// nullable returns a schema that also allows null.
func nullable(schema string) string {
	const plain = `{"type":"`
	switch {
	case schema == "true", strings.HasPrefix(schema, `{"type":["`):
		return schema
	case strings.HasPrefix(schema, plain):
		kind, rest, _ := strings.Cut(schema[len(plain):], `"`)
		return `{"type":["` + kind + `","null"]` + rest
	}
	return `{"anyOf":[` + schema + `,{"type":"null"}]}`
}

// bytesInBase64 reports whether encoding/json writes a slice as base64.
func bytesInBase64(t reflect.Type) bool {
	e := t.Elem()
	return e.Kind() == reflect.Uint8 && !implements[json.Marshaler](e) && !implements[encoding.TextMarshaler](e)
}

// keyNames returns the bounds of the names of a map's members. Text marshalers have none.
func keyNames(key reflect.Type) string {
	if key.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return ""
	}
	switch key.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return `,"propertyNames":{"pattern":"` + signedText + `"}`
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return `,"propertyNames":{"pattern":"` + unsignedText + `"}`
	}
	return ""
}

// The forms of integers in text.
const (
	signedText   = `^(0|-?[1-9][0-9]*)$`
	unsignedText = `^(0|[1-9][0-9]*)$`
)

// object returns the schema of a struct.
func (w *schemaWriter) object(t reflect.Type) string {
	var b strings.Builder
	var required []string
	b.WriteString(`{"type":"object"`)
	fields := jsonFields(t)
	for i, f := range fields {
		b.WriteString([]string{`,"properties":{`, `,`}[min(i, 1)])
		name := `"` + f.name + `"` // the names that encoding/json allows need no escape
		b.WriteString(name)
		b.WriteByte(':')
		if _, special := w.special(f.typ); f.quoted && !special {
			b.WriteString(quotedSchema(f.typ))
		} else {
			b.WriteString(w.schema(f.typ))
		}
		if !f.optional {
			required = append(required, name)
		}
	}
	if len(fields) > 0 {
		b.WriteByte('}')
	}
	switch {
	case w.use == ReadSchema:
		b.WriteString(`,"additionalProperties":false`)
	case len(required) > 0:
		b.WriteString(`,"required":[` + strings.Join(required, ",") + `]`)
	}
	b.WriteByte('}')
	return b.String()
}

// quotedSchema returns the schema of a field with the option "string".
func quotedSchema(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return nullable(quotedSchema(t.Elem()))
	}
	switch t.Kind() {
	case reflect.Bool:
		return `{"type":"string","pattern":"^(true|false)$"}`
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return `{"type":"string","pattern":"` + signedText + `"}`
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return `{"type":"string","pattern":"` + unsignedText + `"}`
	case reflect.Float32, reflect.Float64:
		return `{"type":"string","pattern":"^-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][-+]?[0-9]+)?$"}`
	}
	return `{"type":"string","contentMediaType":"application/json"}` // a string inside a string
}

// A jsonField is a member of the JSON form of a struct.
type jsonField struct {
	name  string
	typ   reflect.Type
	index []int // the way to it through embedded structs
	// optional: it is not always written. tagged: its name comes from a tag. quoted: its value
	// stands in a string.
	optional, tagged, quoted bool
}

// jsonFields lists the members of a struct in the order in which encoding/json writes them. The
// rules are those of package json. Of several fields with one name, the least deeply embedded one
// wins, then the only one with a tag. Otherwise all are left out.
func jsonFields(t reflect.Type) []jsonField {
	type place struct {
		typ      reflect.Type
		index    []int
		optional bool
	}
	byName := make(map[string][]jsonField)
	visited := make(map[reflect.Type]bool)
	for level := []place{{typ: t}}; len(level) > 0; {
		var next []place
		count := make(map[reflect.Type]int)
		for _, p := range level {
			count[p.typ]++
		}
		for _, p := range level {
			if visited[p.typ] {
				continue
			}
			visited[p.typ] = true
			for i := range p.typ.NumField() {
				sf := p.typ.Field(i)
				f := jsonField{typ: sf.Type, index: append(slices.Clone(p.index), i), optional: p.optional}
				inner := sf.Type
				if inner.Kind() == reflect.Pointer && inner.Name() == "" {
					inner = inner.Elem()
				}
				tag := sf.Tag.Get("json")
				if tag == "-" || !sf.IsExported() && !(sf.Anonymous && inner.Kind() == reflect.Struct) {
					continue
				}
				name, options, _ := strings.Cut(tag, ",")
				f.read(name, strings.Split(options, ","), inner)
				if !f.tagged && sf.Anonymous && inner.Kind() == reflect.Struct {
					next = append(next, place{inner, f.index, p.optional || sf.Type.Kind() == reflect.Pointer})
					continue
				}
				if !f.tagged {
					f.name = sf.Name
				}
				for range min(count[p.typ], 2) { // twice is ambiguous
					byName[f.name] = append(byName[f.name], f)
				}
			}
		}
		level = next
	}
	var fields []jsonField
	for _, candidates := range byName {
		if f, ok := winner(candidates); ok {
			fields = append(fields, f)
		}
	}
	slices.SortFunc(fields, func(a, b jsonField) int { return slices.Compare(a.index, b.index) })
	return fields
}

// read applies a tag to the field.
func (f *jsonField) read(name string, options []string, inner reflect.Type) {
	valid := func(r rune) bool {
		return strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) || unicode.IsLetter(r) || unicode.IsDigit(r)
	}
	if name != "" && strings.IndexFunc(name, func(r rune) bool { return !valid(r) }) < 0 {
		f.name, f.tagged = name, true
	}
	f.optional = f.optional || slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
	if slices.Contains(options, "string") {
		switch k := inner.Kind(); {
		case k >= reflect.Bool && k <= reflect.Float64, k == reflect.String:
			f.quoted = true
		}
	}
}

// winner picks one of the fields with the same name.
func winner(candidates []jsonField) (jsonField, bool) {
	depth := len(slices.MinFunc(candidates, func(a, b jsonField) int { return len(a.index) - len(b.index) }).index)
	var top, tagged []jsonField
	for _, f := range candidates {
		if len(f.index) > depth {
			continue
		}
		top = append(top, f)
		if f.tagged {
			tagged = append(tagged, f)
		}
	}
	switch {
	case len(top) == 1:
		return top[0], true
	case len(tagged) == 1:
		return tagged[0], true
	}
	return jsonField{}, false
}
