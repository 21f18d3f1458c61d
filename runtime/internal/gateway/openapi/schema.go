package openapi

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/actor/host/usage"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A family is all queues, schedules or streams of a behavior. Each name has its own value schema,
// so inputs and outputs with values differ by name.
type family struct {
	// field is the member that holds the name in inputs and outputs.
	field string
	names []string
	// declared are all declared names of the kind; AnyName does not include them.
	declared []string
	// value returns the schema of a value of the i-th name, in a member.
	value func(i int, member string) any
}

// A shaper makes schemas of the structs of package host. It supports only types that they use: no
// embedded structs, and no maps except map[string]string.
type shaper struct {
	d *document
	// typ and family determine the values inside; a nil family allows any.
	typ    string
	family *family
	// input closes objects, so that unknown members are refused. Answers may get more members in
	// later versions.
	input bool
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// unfixed means that a value may belong to any name of the family.
const unfixed = -1

// of returns the schema of t.
func (s shaper) of(t reflect.Type) any { return s.member(t, "", unfixed) }

func (s shaper) member(t reflect.Type, name string, fixed int) any {
	switch t {
	case typeOf[json.RawMessage](): // a stored value of a run
		return object{}
	case typeOf[host.Raw]():
		return s.raw(name, fixed)
	case typeOf[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case typeOf[[][]any](): // rows
		return object{"type": "array", "items": object{"type": "array", "items": sqlValue()}}
	case typeOf[map[string]any](): // attributes
		return object{"type": "object"}
	case typeOf[[]any]():
		if name == "args" {
			return object{"type": "array", "items": sqlValue()}
		}
		// a key
		return object{"type": "array", "items": object{"type": []string{"string", "number", "boolean"}}, "minItems": 1}
	case typeOf[host.Code]():
		return object{"type": "string", "enum": host.Codes()}
	}
	if own, ok := reflect.Zero(t).Interface().(interface{ JSONSchema() []byte }); ok {
		var schema object
		if err := json.Unmarshal(own.JSONSchema(), &schema); err != nil {
			panic(fmt.Sprintf("openapi: the schema of %s: %s", t, err))
		}
		return schema
	}
	if t.Implements(typeOf[encoding.TextMarshaler]()) {
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		if values, ok := hostEnums[t.Name()]; ok {
			return object{"type": "string", "enum": values}
		}
		return object{"type": "string"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Uint8, reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": uint64(1)<<t.Bits() - 1}
	case reflect.Uint64:
		return object{"type": "integer", "format": "uint64", "minimum": 0}
	case reflect.Pointer:
		return s.member(t.Elem(), name, fixed)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		return object{"type": "array", "items": s.member(t.Elem(), name, fixed)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.member(t.Elem(), name, fixed)}
	case reflect.Struct:
		return s.object(t, fixed)
	}
	panic(fmt.Sprintf("openapi: no schema for %s", t))
}

// sqlValue returns the schema of a value of a database.
func sqlValue() object {
	bytes := object{"type": "object", "required": []string{"base64"}, "additionalProperties": false,
		"properties": object{"base64": object{"type": "string", "contentEncoding": "base64"}}}
	return object{"anyOf": []any{object{"type": []string{"string", "number", "boolean", "null"}}, bytes}}
}

// raw returns the schema of a value of the application.
func (s shaper) raw(member string, fixed int) any {
	switch {
	case s.family == nil:
		return object{}
	case fixed != unfixed:
		return s.family.value(fixed, member)
	}
	var all []any
	for i := range s.family.names {
		all = append(all, s.family.value(i, member))
	}
	return anyOf(all)
}

// anyOf allows the values of any of the schemas.
func anyOf(schemas []any) any {
	var distinct []any
	for _, s := range schemas {
		if o, ok := s.(object); ok && len(o) == 0 {
			return s // allows everything
		}
		if !slices.ContainsFunc(distinct, func(other any) bool { return reflect.DeepEqual(s, other) }) {
			distinct = append(distinct, s)
		}
	}
	if len(distinct) == 1 {
		return distinct[0]
	}
	return object{"anyOf": distinct}
}

// prefixes are the prefixes of schema names, by the package of the struct.
var prefixes = map[string]string{
	reflect.TypeFor[wfhost.RunStatus]().PkgPath(): "Workflow", reflect.TypeFor[wfhost.Failure]().PkgPath(): "Workflow",
	reflect.TypeFor[kv.Entry]().PkgPath(): "KV", reflect.TypeFor[token.Token]().
						PkgPath(): "Token", reflect.TypeFor[usage.Work]().PkgPath(): "Usage",
	reflect.TypeFor[trace.Span]().PkgPath(): "Trace", reflect.TypeFor[audit.Record]().PkgPath(): "Audit",
	reflect.TypeFor[changes.Record]().PkgPath(): "Changes",
}

// schemaName returns the schema name of a struct. Names of some packages have a prefix.
func schemaName(t reflect.Type) string {
	prefix := prefixes[t.PkgPath()]
	return prefix + strings.TrimPrefix(t.Name(), prefix)
}

// object returns a reference to the schema of a struct, or to one schema for each name if the
// struct holds the name.
func (s shaper) object(t reflect.Type, fixed int) any {
	dynamic := s.family != nil && carries(t)
	if dynamic && fixed == unfixed && hasMember(t, s.family.field) {
		var all []any
		for i := range s.family.names {
			all = append(all, s.object(t, i))
		}
		return anyOf(all)
	}
	name := schemaName(t)
	if s.input && !strings.HasSuffix(name, "Input") {
		name += ".Input"
	}
	switch {
	case dynamic && fixed == unfixed:
		name = s.typ + "." + name + ".all"
	case dynamic && s.family.names[fixed] == host.AnyName:
		name = s.typ + "." + name + ".any"
	case dynamic:
		name = s.typ + "." + name + "-" + s.family.names[fixed]
	}
	if _, ok := s.d.schemas[name]; !ok {
		s.d.schemas[name] = nil // during construction
		s.d.schemas[name] = s.members(t, fixed)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s shaper) members(t reflect.Type, fixed int) object {
	properties, required := object{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if f.Anonymous && name == "" {
			maps.Copy(properties, s.members(f.Type, fixed)["properties"].(object))
			continue
		}
		schema, _ := s.member(f.Type, name, fixed).(object)
		if schema == nil {
			schema = object{}
		}
		if s.family != nil && fixed != unfixed && name == s.family.field {
			schema = s.family.nameSchema(fixed)
		}
		schema = maps.Clone(schema)
		if text := hostText[schemaName(t)+"."+name]; text != "" {
			schema["description"] = text
		}
		if low, high, ok := strings.Cut(f.Tag.Get("range"), ","); ok {
			schema["minimum"], schema["maximum"] = json.Number(low), json.Number(high)
		}
		if s.input && slices.Contains(setByRuntime[t.Name()], name) {
			schema["readOnly"] = true
		}
		properties[name] = schema
		if options == "" {
			required = append(required, name)
		}
	}
	o := object{"type": "object", "properties": properties}
	if text := hostText[schemaName(t)]; text != "" {
		o["description"] = text
	}
	if len(required) > 0 {
		o["required"] = required
	}
	if s.input {
		o["additionalProperties"] = false
	}
	return o
}

// setByRuntime are members of inputs that the runtime sets.
var setByRuntime = map[string][]string{
	"Schedule": {"next", "runs", "attempts", "skipped", "last_result", "last_error"},
}

// namePattern is the pattern of names of queues, schedules and streams.
const namePattern = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"

// nameSchema allows the i-th name of the family. AnyName allows every name that is not declared.
func (f *family) nameSchema(i int) object {
	if f.names[i] != host.AnyName {
		return object{"type": "string", "const": f.names[i]}
	}
	schema := object{"type": "string", "pattern": namePattern}
	if len(f.declared) > 0 {
		schema["not"] = object{"enum": f.declared}
	}
	return schema
}

// nameParameter allows all names of the family.
func (f *family) nameParameter() object {
	if slices.Contains(f.names, host.AnyName) {
		return object{"type": "string", "pattern": namePattern}
	}
	return object{"type": "string", "enum": f.names}
}

// carries reports whether t contains a value of the application.
func carries(t reflect.Type) bool {
	switch {
	case t == typeOf[host.Raw]():
		return true
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer:
		return carries(t.Elem())
	case t.Kind() == reflect.Struct && t != typeOf[time.Time]():
		for i := range t.NumField() {
			if carries(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

func hasMember(t reflect.Type, name string) bool {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return true
		}
	}
	return false
}

var (
	componentName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	definition    = regexp.MustCompile(`"\$ref":"#/\$defs/([^"/]*)"`)
	reference     = regexp.MustCompile(`"\$(ref|dynamicRef|id|anchor|dynamicAnchor)":`)
)

// value returns the schema of a behavior's value as a part of the document, and whether there is a
// value. The definitions of the schema become components, named after the type. If a component of
// that name exists and differs, use is added to the name. A schema that refers to anything except
// its own definitions is replaced by one for any value.
func (d *document) value(b *host.Behavior, kind host.ValueKind, index int, use string) (schema any, exists bool) {
	if b.Schema == nil {
		return object{}, true
	}
	text := b.Schema(kind, index)
	if len(text) == 0 {
		return nil, false
	}
	var compact bytes.Buffer
	var root map[string]json.RawMessage
	var defs map[string]json.RawMessage
	if json.Compact(&compact, text) != nil || json.Unmarshal(compact.Bytes(), &root) != nil {
		return object{}, true
	}
	if json.Unmarshal(root["$defs"], &defs) != nil && root["$defs"] != nil {
		return object{}, true
	}
	delete(root, "$schema")
	delete(root, "$defs")
	rest, err := json.Marshal(root)
	if err != nil || !contained(rest, defs) {
		return object{}, true
	}
	for name, def := range defs {
		if !componentName.MatchString(name) || !contained(def, defs) {
			return object{}, true
		}
	}
	for i := 0; ; i++ {
		suffix := []string{"", "." + use, "." + strconv.Itoa(i)}[min(i, 2)]
		parts := make(map[string]json.RawMessage, len(defs))
		for name, def := range defs {
			parts[b.Type+"."+name+suffix] = renamed(def, b.Type+".", suffix)
		}
		if d.add(parts) {
			return members(renamed(rest, b.Type+".", suffix)), true
		}
	}
}

// members returns the members of a JSON object as raw JSON.
func members(text []byte) object {
	var m map[string]json.RawMessage
	if json.Unmarshal(text, &m) != nil {
		return object{}
	}
	o := make(object, len(m))
	for k, v := range m {
		o[k] = v
	}
	return o
}

// renamed changes the references of a schema to the components of its definitions.
func renamed(schema []byte, prefix, suffix string) []byte {
	return definition.ReplaceAll(schema, []byte(`"$$ref":"#/components/schemas/`+prefix+`${1}`+suffix+`"`))
}

// contained reports whether a schema refers only to the definitions.
func contained(schema []byte, defs map[string]json.RawMessage) bool {
	matches := definition.FindAllSubmatch(schema, -1)
	for _, m := range matches {
		if _, ok := defs[string(m[1])]; !ok {
			return false
		}
	}
	return len(reference.FindAll(schema, -1)) == len(matches)
}

// add adds components, unless another component has one of the names.
func (d *document) add(parts map[string]json.RawMessage) bool {
	for name, text := range parts {
		if other, ok := d.schemas[name]; ok {
			if raw, same := other.(json.RawMessage); !same || !bytes.Equal(raw, text) {
				return false
			}
		}
	}
	for name, text := range parts {
		d.schemas[name] = text
	}
	return true
}
