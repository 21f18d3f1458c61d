package openapi

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write text.go anew from the comments of package host")

// The descriptions in the document are the comments of package host, which the program does not have when it runs. So
// they are kept in text.go, and this test tells when the comments have changed.
func TestDescriptionsAreTheCommentsOfTheContract(t *testing.T) {
	want := generateText(t)
	if *update {
		must(t, os.WriteFile("text.go", want, 0o644))
	}
	got, err := os.ReadFile("text.go")
	must(t, err)
	errorIf(t, !bytes.Equal(got, want),
		"text.go is out of date: run go test -run Descriptions -update in this directory")
}

// hostComments is what the source of package host says.
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
		errorIf(t, err != nil || len(files) == 0, "%v %v", "no source of package host: ", err)
		c.files(t, prefix, files)
	}
	return c
}

// files takes up the files of a package, whose structs have names with a prefix.
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

// constant takes up a constant: a code, another name of a closed list, or a number.
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

// structure takes up a struct that has a JSON form, under the name of its schema.
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

// sentence joins the lines of a comment's last paragraph. What stands before it is about the members that follow.
func sentence(doc string) string {
	paragraphs := strings.Split(strings.TrimSpace(doc), "\n\n")
	return strings.Join(strings.Fields(paragraphs[len(paragraphs)-1]), " ")
}

var identifier = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)

// clean puts the names of members and the values of constants for Go's names.
func clean(text string, names map[string]string) string {
	return identifier.ReplaceAllStringFunc(text, func(word string) string {
		if name, ok := names[word]; ok {
			return name
		}
		return word
	})
}

// wrapped quotes a text on several lines.
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
