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
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Each program in testdata/mistakes.txtar is wrong in one way that the API promises to catch at
// compile time.
func TestMistakesDoNotCompile(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/mistakes.txtar")
	fatalIf(t, err != nil || len(archive.Files) < 60, "%d programs, %v", len(archive.Files), err)
	fset := token.NewFileSet()
	imports := compiledImports(t, fset)
	parse := func(f txtar.File, header string) *ast.File {
		parsed, err := parser.ParseFile(fset, f.Name, header+string(f.Data), 0)
		ensure(t, err)
		return parsed
	}
	contract := parse(archive.Files[0], "")
	for _, f := range archive.Files[1:] {
		t.Run(f.Name, func(t *testing.T) {
			first, code, _ := strings.Cut(string(f.Data), "\n")
			want, ok := strings.CutPrefix(first, "// want: ")
			if !ok {
				code = string(f.Data)
			}
			fatalIf(t, ok == (f.Name == "control"), "the first line does not say what the compiler says")
			header := "package mustnotcompile\n"
			for _, path := range []string{"context", "time", "github.com/cairn-run/cairn/actor",
				"github.com/cairn-run/cairn/actor/handle"} {
				if strings.Contains(code, filepath.Base(path)+".") {
					header += "import " + strconv.Quote(path) + "\n"
				}
			}
			var got []error
			conf := types.Config{Importer: imports, Error: func(err error) { got = append(got, err) }}
			conf.Check("mustnotcompile", fset, []*ast.File{contract, parse(f, header)}, nil)
			message := strings.Join(strings.Fields(errorText(got)), " ")
			switch {
			case !ok && len(got) > 0:
				t.Errorf("does not compile: %s", message)
			case ok && len(got) != 1:
				t.Errorf("%d mistakes, want one: %s", len(got), message)
			case !ok:
			case want == "" || !strings.Contains(message, want):
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
	args := append([]string{"list"}, raceFlag()...)
	cmd := exec.Command("go", append(args, "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", ".", "context")...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	fatalIf(t, err != nil, "go list: %v", err)
	exports := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
}

// raceFlag selects the packages with which this test was compiled, so that the go command does not
// compile all of them again.
func raceFlag() (flags []string) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = append(flags, "-race")
	}
	return flags
}
