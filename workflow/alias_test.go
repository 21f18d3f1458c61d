package workflow_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unlisted are methods that every reader expects of an error, or of a value with a text form.
var unlisted = regexp.MustCompile(`^(Error|Unwrap|Is|String|(M|Unm)arshal(CBOR|Text))$`)

// TestCommentsOfAliasesListTheirMembers: go doc shows no fields and no methods of an alias, so its comment does.
func TestCommentsOfAliasesListTheirMembers(t *testing.T) {
	members := map[string][]string{} // exported fields and methods, by type
	for _, f := range append(parse(t, "internal/replay"), parse(t, "internal/journal")...) {
		for _, d := range f.Decls {
			if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
				members[receiver(m)] = append(members[receiver(m)], m.Name.Name)
			}
			eachType(d, func(s *ast.TypeSpec, _ string) {
				var fields []*ast.Field
				switch u := s.Type.(type) {
				case *ast.StructType:
					fields = u.Fields.List
				case *ast.InterfaceType:
					fields = u.Methods.List
				}
				for _, f := range fields {
					for _, n := range f.Names {
						members[s.Name.Name] = append(members[s.Name.Name], n.Name)
					}
				}
			})
		}
	}
	aliases := 0
	for _, dir := range []string{".", "host"} {
		for _, f := range parse(t, dir) {
			for _, d := range f.Decls {
				eachType(d, func(s *ast.TypeSpec, comment string) {
					if !s.Assign.IsValid() {
						return
					}
					aliases++
					for _, m := range members[s.Name.Name] {
						if ast.IsExported(m) && !unlisted.MatchString(m) && !listed(comment, m) {
							t.Errorf("%s: the comment of %s does not list %s", dir, s.Name.Name, m)
						}
					}
				})
			}
		}
	}
	if aliases < 50 {
		t.Errorf("only %d aliases were found", aliases)
	}
}

// listed reports whether the code in a comment declares a member.
func listed(comment, member string) bool {
	for line := range strings.Lines(comment) {
		code, isCode := strings.CutPrefix(line, "\t")
		if isCode && !strings.HasPrefix(code, "//") && regexp.MustCompile(`(^|, |\) )`+member+`\b`).MatchString(code) {
			return true
		}
	}
	return false
}

func parse(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func receiver(m *ast.FuncDecl) string {
	name := ""
	ast.Inspect(m.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

func eachType(d ast.Decl, visit func(s *ast.TypeSpec, comment string)) {
	g, ok := d.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, s := range g.Specs {
		if s, ok := s.(*ast.TypeSpec); ok {
			visit(s, g.Doc.Text())
		}
	}
}
