package actor_test

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each program in testdata/mustnotcompile is wrong in one way that the API promises to catch at compile time. Its first
// line holds a part of the compiler's message. control.go is a program without a mistake. All use the contract in the
// folder of that name.
func TestMistakesDoNotCompile(t *testing.T) {
	files, err := filepath.Glob("testdata/mustnotcompile/*.go")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d programs, %v", len(files), err)
	}
	fset := token.NewFileSet()
	imports := compiledImports(t, fset)
	contract, err := parser.ParseFile(fset, "testdata/mustnotcompile/contract/contract.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".go"), func(t *testing.T) {
			parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if len(parsed.Comments) == 0 {
				t.Fatal("the first line is not a comment with what the compiler says")
			}
			want, ok := strings.CutPrefix(parsed.Comments[0].List[0].Text, "// want:")
			if want = strings.TrimSpace(want); !ok || (want == "") != (filepath.Base(file) == "control.go") {
				t.Fatal("the first line does not say what the compiler says")
			}
			var got []error
			conf := types.Config{Importer: imports, Error: func(err error) { got = append(got, err) }}
			conf.Check("mustnotcompile", fset, []*ast.File{contract, parsed}, nil)
			message := strings.Join(strings.Fields(errorText(got)), " ")
			switch {
			case want == "" && len(got) > 0:
				t.Errorf("does not compile: %s", message)
			case want != "" && len(got) != 1:
				t.Errorf("%d mistakes, want one: %s", len(got), message)
			case !strings.Contains(message, want):
				t.Errorf("the compiler says\n%s\nwant\n%s", message, want)
			}
		})
	}
}

func errorText(errs []error) string {
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}

// compiledImports imports package actor and what it depends on from the build cache.
func compiledImports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".", "context")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}
