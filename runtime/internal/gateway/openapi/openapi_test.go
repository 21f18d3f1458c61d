package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// described returns behaviors with everything that a document can describe, and one with nothing.
func described() []*host.Behavior {
	const defs = `"$defs":{"Note":{"type":"object","properties":{"body":{"type":"string"},"next":{"$ref":"#/$defs/Note"}}%s}}`
	full := &host.Behavior{
		Type: "tenant",
		Methods: []host.Method{
			{Name: "add", Kind: host.Action}, {Name: "total", Kind: host.Query}, {Name: "create", Kind: host.Creation},
			{Name: "clear", Kind: host.Action},
		},
		Events:    []host.Event{{Name: "added"}, {Name: "secret", Subscribe: "hook"}},
		Alarms:    []host.AlarmMethod{{Name: "remind"}},
		Queues:    []host.Queue{{Name: "jobs", Handler: "job"}, {Name: "mail"}, {Name: host.AnyName}},
		Schedules: []host.ScheduleMethod{{Name: "nightly"}, {Name: host.AnyName}},
		Streams:   []host.Stream{{Name: "tokens"}, {Name: "log", External: true}},
		Workflows: []host.Workflow{{Name: "renew"}},
		Schema: func(kind host.ValueKind, index int) []byte {
			switch {
			case kind == host.MethodInput && index == 1, kind == host.MethodOutput && index >= 2, kind == host.MethodInput && index == 3:
				return nil
			case kind == host.MethodInput || kind == host.MethodOutput:
				closed := `,"additionalProperties":false`
				if kind == host.MethodOutput {
					closed = `,"required":["body"]`
				}
				return fmt.Appendf(nil, `{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/Note",`+defs+`}`, closed)
			case kind == host.QueueReplyValue:
				return nil
			case kind == host.StreamValue && index == 1:
				return []byte(`{"$ref":"https://example.com/elsewhere"}`)
			case kind == host.EventValue:
				return []byte(`{"type":"integer","maximum":9223372036854775807,"examples":[3]}`)
			case kind == host.SchedulePayload:
				return []byte(`true`)
			}
			return fmt.Appendf(nil, `{"type":"string","maxLength":%d}`, int(kind)*10+index)
		},
	}
	guarded := &host.Behavior{Type: "guarded", Events: []host.Event{{Name: "said"}}, Connections: host.ConnectionMethods{Connect: "hook"}}
	return []*host.Behavior{full, guarded, {Type: "plain", Methods: []host.Method{{Name: "do", Kind: host.Action}}}}
}

// parsedDocument is a document as its readers parse it.
type parsedDocument struct {
	t    *testing.T
	root map[string]any
	c    *jsonschema.Compiler
}

func parseDocument(t *testing.T, n Node) parsedDocument {
	t.Helper()
	n.MaxPage, n.MaxIdempotencyKey, n.MaxReason, n.DatabaseType = 1000, 255, 1024, "application/vnd.sqlite3"
	text, err := Document(n)
	must(t, err)
	return readDocument(t, text)
}

func readDocument(t *testing.T, text []byte) parsedDocument {
	t.Helper()
	d := parsedDocument{t, decode(t, string(text)).(map[string]any), jsonschema.NewCompiler()}
	d.c.DefaultDraft(jsonschema.Draft2020)
	d.c.AssertFormat()
	must(t, d.c.AddResource("https://node/openapi.json", d.root))
	return d
}

// decode reads JSON in the form that schemas validate.
func decode(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	must(t, err)
	return v
}

// schema compiles the schema at a JSON pointer.
func (d parsedDocument) schema(pointer string) *jsonschema.Schema {
	d.t.Helper()
	s, err := d.c.Compile("https://node/openapi.json#" + (&url.URL{Fragment: pointer}).EscapedFragment())
	errorIf(d.t, err != nil, "%s: %v", pointer, err)
	return s
}

// at follows a JSON pointer.
func (d parsedDocument) at(pointer string) (any, bool) {
	var at any = d.root
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "#/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		m, ok := at.(map[string]any)
		if !ok {
			return nil, false
		}
		if at, ok = m[part]; !ok {
			return nil, false
		}
	}
	return at, true
}

// walk visits every object with its JSON pointer.
func walk(pointer string, v any, visit func(pointer string, o map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(pointer, v)
		for k, member := range v {
			walk(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), member, visit)
		}
	case []any:
		for i, element := range v {
			walk(fmt.Sprintf("%s/%d", pointer, i), element, visit)
		}
	}
}

// each visits every operation.
func (d parsedDocument) each(visit func(path, method string, operation map[string]any)) {
	for path, item := range d.root["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			visit(path, method, op.(map[string]any))
		}
	}
}

func TestTheDocumentIsOpenAPI(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "openapi-3.1.schema.json"))
	must(t, err)
	official := readDocument(t, text).schema("")
	for _, n := range []Node{{}, {Behaviors: described()}, {Behaviors: described(), Token: true, Databases: true}} {
		must(t, official.Validate(parseDocument(t, n).root))
	}
}

func TestEverySchemaInTheDocumentCompilesAndAllowsItsExamples(t *testing.T) {
	d := parseDocument(t, Node{Behaviors: described(), Databases: true})
	compiled := 0
	check := func(pointer string, schema any) {
		d.schema(pointer)
		compiled++
		walk("", schema, func(inner string, o map[string]any) {
			examples, ok := o["examples"].([]any)
			if !ok || strings.HasSuffix(inner, "/properties") {
				return
			}
			for _, example := range examples {
				same(t, d.schema(pointer+inner).Validate(example), nil, pointer, inner, example)
			}
		})
	}
	for name, schema := range d.root["components"].(map[string]any)["schemas"].(map[string]any) {
		check("/components/schemas/"+name, schema)
	}
	walk("/paths", d.root["paths"], func(pointer string, o map[string]any) {
		if schema, ok := o["schema"].(map[string]any); ok {
			check(pointer+"/schema", schema)
		}
	})
	errorIf(t, compiled < 10, "only %d schemas found", compiled)
}

// A client that validates its requests by the document can send all positions from the node.
func TestPositionsFitTheDocument(t *testing.T) {
	d := parseDocument(t, Node{Behaviors: described()})
	const life = "0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14"
	for _, name := range []string{"After", "LastEventID"} {
		s := d.schema("/components/parameters/" + name + "/schema")
		for _, text := range []string{"0", "17", "17@" + life, "", "x", "-1", "+1", "1@", "1@2", "1@" + life + "0",
			"17@" + strings.ToUpper(life)} {
			_, fault := host.ParsePosition(text)
			if err := s.Validate(text); (err == nil) != (fault == nil) {
				t.Errorf("%s %q: the schema says %v, the node %v", name, text, err, fault)
			}
		}
	}
	bodies := 0
	walk("/paths", d.root["paths"], func(pointer string, o map[string]any) {
		p, ok := o["properties"].(map[string]any)
		if !ok || p["token"] == nil || p["after"] == nil {
			return
		}
		bodies++
		for text, valid := range map[string]bool{`{"after":17,"life":"` + life + `"}`: true,
			`{"life":"","after":0}`: true, `{"life":"x"}`: false} {
			err := d.schema(pointer).Validate(decode(t, text))
			errorIf(t, (err == nil) != valid, "the body %s of connect: %v", text, err)
		}
	})
	errorIf(t, bodies == 0, "no body of connect found")
}

func TestTheDocumentHangsTogether(t *testing.T) {
	d := parseDocument(t, Node{Behaviors: described(), Token: true, Databases: true})
	walk("#", d.root, func(pointer string, o map[string]any) {
		if ref, ok := o["$ref"].(string); ok {
			if _, ok := d.at(ref); !ok || !strings.HasPrefix(ref, "#/components/") {
				t.Errorf("%s refers to %s, which is not there", pointer, ref)
			}
		}
	})
	seen, calls := make(map[string]string), 0
	d.each(func(path, method string, op map[string]any) {
		where, id := method+" "+path, op["operationId"].(string)
		same(t, seen[id], "", where, id)
		seen[id] = where
		if strings.Contains(path, "/-/call/") {
			calls++
			// Client generators use one body and its schema for each operation. A second encoding
			// without a schema would make the body unknown to them.
			walk("", op, func(pointer string, o map[string]any) {
				content, ok := o["content"].(map[string]any)
				body, _ := content["application/json"].(map[string]any)
				errorIf(t, ok && (body["schema"] == nil || len(content) != 1), "%s%s has %v", path, pointer, content)
			})
		}
		declared := make(map[string]bool) // "in name"
		parameters, _ := op["parameters"].([]any)
		for _, p := range parameters {
			p := p.(map[string]any)
			if ref, ok := p["$ref"].(string); ok {
				at, _ := d.at(ref)
				p = at.(map[string]any)
			}
			name := fmt.Sprint(p["in"], " ", p["name"])
			errorIf(t, declared[name] || p["in"] == "path" && !strings.Contains(path, "{"+p["name"].(string)+"}"),
				"%s declares %s twice, or it is not in the path", where, name)
			declared[name] = true
		}
		for part := range strings.SplitSeq(path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok && !declared["path "+strings.TrimSuffix(name, "}")] {
				t.Errorf("%s does not declare %s", where, part)
			}
		}
		errorIf(t, op["summary"] == "" || len(op["tags"].([]any)) != 1, "%s has no summary or not one tag", where)
	})
	errorIf(t, calls < 20, "only %d calls were found", calls)
}

func TestTheDocumentHasEveryMethodThatActorsHave(t *testing.T) {
	paths := parseDocument(t, Node{Behaviors: described()}).root["paths"].(map[string]any)
	names := []string{"add", "total", "create", "clear"}
	for _, m := range method.All() {
		names = append(names, m.Name)
	}
	for _, name := range names {
		errorIf(t, paths["/actors/tenant/{key}/-/call/"+name] == nil, "the document lacks %s", name)
	}
	for path := range paths {
		if rest, ok := strings.CutPrefix(path, "/actors/plain/"); ok {
			for _, absent := range []string{"/queue", "schedule.", "alarm.", "stream", "/events"} {
				errorIf(t, strings.Contains(rest, absent), "the type plain has %s", path)
			}
		}
	}
	errorIf(t, paths["/actors/guarded/{key}/-/events"] != nil || paths["/actors/guarded/{key}/-/connect"] == nil,
		"a type with a connect hook has anonymous events, or no connections")
}

func TestValuesStandUnderTheNamesThatTheyBelongTo(t *testing.T) {
	d := parseDocument(t, Node{Behaviors: described()})
	long := `"` + strings.Repeat("x", 51) + `"` // queue bodies may have 50, 51 and 52 characters
	for _, test := range []struct {
		method, part, value string
		good                bool
	}{
		{"add", "requestBody", `{"body":"x","next":{"body":"y"}}`, true},
		{"add", "requestBody", `{"body":"x","next":{"extra":1}}`, false},
		{"add", "responses/200", `{"body":"x","extra":1}`, true},
		{"add", "responses/200", `{}`, false},
		{"queue.send", "requestBody", `{"queue":"jobs","messages":[{"body":"x"}]}`, true},
		{"queue.send", "requestBody", `{"queue":"jobs","messages":[{"body":` + long + `}]}`, false},
		{"queue.send", "requestBody", `{"queue":"mail","messages":[{"body":` + long + `}]}`, true},
		{"queue.send", "requestBody", `{"queue":"other","messages":[{"body":` + long + `}]}`, true},
		{"queue.send", "requestBody", `{"queue":"0","messages":[]}`, false},
		{"queue.send", "requestBody", `{"queue":"jobs"}`, false},
		{"queue.send", "requestBody", `{"queue":"jobs","messages":[],"extra":1}`, false},
		{"queue.receive", "requestBody", `{"queue":"mail"}`, true},
		{"queue.ack", "requestBody", `{"queue":"mail","receipts":["r"],"reply":null}`, true},
		{"queue.ack", "requestBody", `{"queue":"jobs","receipts":["r"]}`, false}, // handled by the actor
		{"stream.append", "requestBody", `{"stream":"log","items":[1,{}]}`, true},
		{"stream.append", "requestBody", `{"stream":"tokens","items":["x"]}`, false}, // not open to clients
		{"schedule.set", "requestBody", `{"name":"nightly","cron":"@daily","payload":7}`, true},
		{"schedule.set", "requestBody", `{"name":"any","at":"2030-01-01T00:00:00Z","missed":"never"}`, false},
		{"schedule.list", "responses/200", `{"schedules":[{"name":"nightly"},{"name":"x","missed":"once","new_member":1}]}`, true},
		{"actor.pause", "requestBody", `{}`, true},
		{"sql.query", "requestBody", `{"sql":"SELECT ?1, ?2","args":[null,{"base64":"AA=="},1.5,true,"x"]}`, true},
		{"sql.query", "requestBody", `{"sql":"SELECT ?1","args":[[1]]}`, false},
		{"sql.query", "requestBody", `{}`, false},
		{"sql.exec", "responses/200", `{"columns":[{"name":"a"}],"rows":[[9007199254740993,null,{"base64":""}]],"changes":0}`, true},
		{"sql.exec", "responses/200", `{"columns":[],"rows":[{}],"changes":0}`, false},
	} {
		schema := d.schema("/paths/~1actors~1tenant~1{key}~1-~1call~1" + test.method + "/post/" + test.part +
			"/content/application~1json/schema")
		err := schema.Validate(decode(t, test.value))
		errorIf(t, (err == nil) != test.good, "%s %s %s: %v", test.method, test.part, test.value, err)
	}
}

func TestEqualNodesHaveEqualDocuments(t *testing.T) {
	n := Node{Behaviors: described()}
	first, err := Document(n)
	must(t, err)
	for range 5 {
		again, err := Document(n)
		fatalIf(t, err != nil || !bytes.Equal(first, again), "the document changes %v", err)
	}
}

// The node's answers, at their shortest and at their longest, fit their schemas in the document.
func TestAnswersFitTheirSchemas(t *testing.T) {
	d := document{node: &Node{}, paths: object{}, schemas: object{}}
	types := map[reflect.Type]bool{typeOf[host.Status](): false, typeOf[host.ListPage](): false, typeOf[host.Error](): false,
		typeOf[host.StoredKey](): false, typeOf[host.Welcome](): false, typeOf[host.ReceivedMessage](): false}
	for _, m := range method.All() {
		if m.Output != nil {
			types[m.Output] = false
		}
		if m.Input != nil {
			types[m.Input] = true
		}
	}
	for typ, input := range types {
		shape := shaper{d: &d, input: input}
		text, err := json.Marshal(object{"schema": shape.of(typ), "components": object{"schemas": d.schemas}})
		must(t, err)
		s := readDocument(t, text).schema("/schema")
		for _, full := range []bool{false, true} {
			v := reflect.New(typ)
			fill(v.Elem(), full)
			text, err := json.Marshal(v.Interface())
			must(t, err)
			same(t, s.Validate(decode(t, string(text))), nil, typ, text)
		}
	}
}

// fill sets the fields that must not be zero, or all fields if full.
func fill(v reflect.Value, full bool) {
	switch t := v.Type(); {
	case t == typeOf[host.Raw](), t == typeOf[json.RawMessage]():
		if full {
			v.SetBytes([]byte(`{"a":[1]}`))
		}
	case t == typeOf[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_000_000_000, 1).UTC()))
	case t == typeOf[host.Code]():
		v.SetString(string(host.NotFound))
	case t.Kind() == reflect.String:
		if values := hostEnums[t.Name()]; values != nil {
			v.SetString(values[0])
		} else if full {
			v.SetString("x")
		}
	case t.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(t, 0, 1))
		if full {
			e := reflect.New(t.Elem()).Elem()
			if t.Elem().Kind() == reflect.Interface {
				e.Set(reflect.ValueOf("part"))
			} else {
				fill(e, full)
			}
			v.Set(reflect.Append(v, e))
		}
	case t.Kind() == reflect.Map:
		if full {
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(reflect.ValueOf("k"), reflect.ValueOf("v"))
		}
	case t.Kind() == reflect.Pointer:
		if full {
			v.Set(reflect.New(t.Elem()))
			fill(v.Elem(), full)
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			fill(v.Field(i), full)
		}
	case !full:
	case v.CanInt():
		v.SetInt(7)
	case v.CanUint():
		v.SetUint(1 << 63)
	case t.Kind() == reflect.Bool:
		v.SetBool(true)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// same reports an error unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Errorf("%v: %v, not %v", where, got, want)
	}
}

var update = flag.Bool("update", false, "write text.go anew from the comments of package host")

// The descriptions in the document are the comments of package host, which a running program does
// not have. So text.go has a copy, and this test fails when the comments have changed.
func TestDescriptionsAreTheCommentsOfTheContract(t *testing.T) {
	want := generateText(t)
	if *update {
		must(t, os.WriteFile("text.go", want, 0o644))
	}
	got, err := os.ReadFile("text.go")
	must(t, err)
	errorIf(t, !bytes.Equal(got, want), "text.go is out of date: run go test -run Descriptions -update in this directory")
}

// hostComments holds comments and constants from the source of package host.
type hostComments struct {
	text    map[string]string
	enums   map[string][]string
	numbers map[string]string // constants with a plain number
}

func readHost(t *testing.T) hostComments {
	t.Helper()
	c := hostComments{text: make(map[string]string), enums: make(map[string][]string), numbers: make(map[string]string)}
	packages := map[string]string{"host": ""}
	for path, prefix := range prefixes {
		if _, dir, is := strings.Cut(path, "/actor/"); is {
			packages[dir] = prefix
		}
	}
	for dir, prefix := range packages {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "actor", filepath.FromSlash(dir), "*.go"))
		errorIf(t, err != nil || len(files) == 0, "no source of package host: %v", err)
		c.files(t, prefix, files)
	}
	return c
}

// files adds the files of a package. The schema names of its structs have a prefix.
func (c *hostComments) files(t *testing.T, prefix string, files []string) {
	t.Helper()
	var types []*ast.TypeSpec
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		for _, d := range f.Decls {
			d, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Doc == nil {
						spec.Doc = d.Doc
					}
					types = append(types, spec)
				case *ast.ValueSpec:
					if d.Tok == token.CONST {
						c.constant(spec)
					}
				}
			}
		}
	}
	for _, spec := range types {
		c.structure(prefix+strings.TrimPrefix(spec.Name.Name, prefix), spec)
	}
}

// constant adds a constant: a code, another name of a closed list, or a number.
func (c *hostComments) constant(spec *ast.ValueSpec) {
	if len(spec.Values) != 1 {
		return
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return
	}
	name := spec.Names[0].Name
	if literal.Kind == token.INT {
		c.numbers[name] = strings.ReplaceAll(literal.Value, "_", ",")
		return
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return
	}
	typ, typed := spec.Type.(*ast.Ident)
	switch {
	case !typed:
	case typ.Name == "Code":
		text := strings.TrimPrefix(sentence(spec.Doc.Text()), name+": ")
		c.text["Code."+value] = strings.ToUpper(text[:1]) + text[1:]
	default:
		c.enums[typ.Name] = append(c.enums[typ.Name], value)
	}
}

// structure adds a struct that has a JSON form, under the name of its schema.
func (c *hostComments) structure(name string, spec *ast.TypeSpec) {
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	names := make(map[string]string) // members by field
	for _, f := range s.Fields.List {
		if f.Tag == nil || len(f.Names) == 0 {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		member, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if member != "" && member != "-" {
			names[f.Names[0].Name] = member
		}
	}
	if len(names) == 0 {
		return
	}
	maps.Copy(names, c.numbers)
	names[spec.Name.Name] = spec.Name.Name
	if spec.Doc != nil {
		first, _, _ := strings.Cut(spec.Doc.Text(), "\n\n")
		c.text[name] = clean(sentence(first), names)
	}
	for _, f := range s.Fields.List {
		if f.Tag == nil || f.Doc == nil || names[f.Names[0].Name] == "" {
			continue
		}
		c.text[name+"."+names[f.Names[0].Name]] = clean(sentence(f.Doc.Text()), names)
	}
}

// sentence joins the lines of a comment's last paragraph. Earlier paragraphs are about several
// members.
func sentence(doc string) string {
	paragraphs := strings.Split(strings.TrimSpace(doc), "\n\n")
	return strings.Join(strings.Fields(paragraphs[len(paragraphs)-1]), " ")
}

var identifier = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)

// clean replaces Go's names by the names of members and the values of constants.
func clean(text string, names map[string]string) string {
	return identifier.ReplaceAllStringFunc(text, func(word string) string {
		if name, ok := names[word]; ok {
			return name
		}
		return word
	})
}

// wrapped quotes a text in several lines.
func wrapped(text string) string {
	var lines []string
	line := ""
	for _, word := range strings.SplitAfter(text, " ") {
		if len(line)+len(word) > 90 {
			lines, line = append(lines, strconv.Quote(line)), ""
		}
		line += word
	}
	return strings.Join(append(lines, strconv.Quote(line)), " +\n\t\t")
}

func generateText(t *testing.T) []byte {
	t.Helper()
	c := readHost(t)
	var b bytes.Buffer
	b.WriteString("// Code generated from the comments of package host by TestDescriptionsAreTheCommentsOfTheContract. DO NOT EDIT.\n\n")
	b.WriteString("package openapi\n\n")
	b.WriteString("// hostText describes structs, their members and the error codes.\nvar hostText = map[string]string{\n")
	for _, k := range slices.Sorted(maps.Keys(c.text)) {
		fmt.Fprintf(&b, "\t%q: %s,\n", k, wrapped(c.text[k]))
	}
	b.WriteString("}\n\n// hostEnums are the closed lists of names.\nvar hostEnums = map[string][]string{\n")
	for _, k := range slices.Sorted(maps.Keys(c.enums)) {
		fmt.Fprintf(&b, "\t%q: {\n", k)
		for _, value := range c.enums[k] {
			fmt.Fprintf(&b, "\t\t%q,\n", value)
		}
		b.WriteString("\t},\n")
	}
	b.WriteString("}\n")
	out, err := format.Source(b.Bytes())
	must(t, err)
	return out
}
