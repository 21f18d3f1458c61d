package workflow_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// unlisted are methods that every reader expects of an error, or of a value with a text form.
var unlisted = regexp.MustCompile(`^(Error|Unwrap|Is|String|(M|Unm)arshal(CBOR|Text))$`)

// TestCommentsOfAliasesListTheirMembers checks the comments of aliases, because go doc shows no
// fields and no methods of an alias.
func TestCommentsOfAliasesListTheirMembers(t *testing.T) {
	members := map[string][]string{} // fields and methods, by type
	for _, d := range declarations(t, "internal/replay", "internal/journal") {
		if m, ok := d.(*ast.FuncDecl); ok && m.Recv != nil {
			receiver := regexp.MustCompile(`\w+`).FindString(types.ExprString(m.Recv.List[0].Type))
			members[receiver] = append(members[receiver], m.Name.Name)
		}
		eachType(d, func(s *ast.TypeSpec, _ string) {
			ast.Inspect(s.Type, func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if ok {
					for _, name := range field.Names {
						members[s.Name.Name] = append(members[s.Name.Name], name.Name)
					}
				}
				return !ok
			})
		})
	}
	aliases := 0
	for _, d := range declarations(t, ".", "host") {
		eachType(d, func(s *ast.TypeSpec, comment string) {
			if !s.Assign.IsValid() {
				return
			}
			aliases++
			for _, m := range members[s.Name.Name] {
				if ast.IsExported(m) && !unlisted.MatchString(m) && !listed(comment, m) {
					t.Errorf("the comment of %s does not list %s", s.Name.Name, m)
				}
			}
		})
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

func declarations(t *testing.T, dirs ...string) (list []ast.Decl) {
	t.Helper()
	for _, dir := range dirs {
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
			list = append(list, f.Decls...)
		}
	}
	return list
}

func eachType(d ast.Decl, visit func(s *ast.TypeSpec, comment string)) {
	if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
		for _, s := range g.Specs {
			visit(s.(*ast.TypeSpec), g.Doc.Text())
		}
	}
}
