package policy

import (
	"go/ast"
	"go/parser"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// functionPages are the pages in which every name of the form pkg.Func or pkg.Type.Method is a
// function of the module.
var functionPages = []string{"docs/calls.md"}

// TestFunctionsInDocsExist checks the functions that the pages about the life of a call name.
func TestFunctionsInDocsExist(t *testing.T) {
	declared := make(map[string][]string) // the files that declare it, by their base names
	eachFile(t, parser.SkipObjectResolution, func(rel string, f *ast.File) {
		if strings.HasSuffix(rel, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := f.Name.Name + "."
				if d.Recv != nil {
					name += receiver(d.Recv.List[0].Type) + "."
				}
				declared[name+d.Name.Name] = append(declared[name+d.Name.Name], path.Base(filepath.ToSlash(rel)))
			case *ast.GenDecl:
				for _, s := range d.Specs {
					s, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					it, ok := s.Type.(*ast.InterfaceType)
					if !ok {
						continue
					}
					for _, m := range it.Methods.List {
						for _, n := range m.Names {
							name := f.Name.Name + "." + s.Name.Name + "." + n.Name
							declared[name] = append(declared[name], path.Base(filepath.ToSlash(rel)))
						}
					}
				}
			}
		}
	})
	function := regexp.MustCompile("`([a-z][a-z0-9]*(?:\\.[A-Za-z]\\w*){1,2})`")
	inFile := regexp.MustCompile("(\\w+\\.go)`")
	file := regexp.MustCompile(`\.(go|md)$`)
	for _, page := range functionPages {
		text, err := os.ReadFile(filepath.Join(root(t), page))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, m := range function.FindAllStringSubmatch(string(text), -1) {
			if file.MatchString(m[1]) || m[1] == "queue.send" { // a file, or a built-in method
				continue
			}
			found++
			if declared[m[1]] == nil {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(line, "|")
			if len(cells) != 5 || !strings.Contains(cells[3], ".go`") { // a step, its functions, their files
				continue
			}
			files := inFile.FindAllStringSubmatch(cells[3], -1)
			for _, m := range function.FindAllStringSubmatch(cells[2], -1) {
				if !slices.ContainsFunc(files, func(f []string) bool { return slices.Contains(declared[m[1]], f[1]) }) {
					t.Errorf("%s: %s is declared in %v, which%sdoes not say", page, m[1], declared[m[1]], cells[3])
				}
			}
		}
		if found < 50 {
			t.Errorf("%s names only %d functions", page, found)
		}
	}
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
