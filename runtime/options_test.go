package runtime

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// constants returns the constants that match accepts in a Go file, by name.
func constants(t *testing.T, path string, match func(*ast.ValueSpec) bool) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			if spec := s.(*ast.ValueSpec); match(spec) {
				names = append(names, spec.Names[0].Name)
			}
		}
	}
	return names
}

func TestNATSListenWithoutAServerSaysWhatToSet(t *testing.T) {
	o := Options{Dir: t.TempDir(), NATSListen: "127.0.0.1:0"}
	o.EnsureDefaults()
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "set it to localnats.Serve") {
		t.Errorf("the error is %v", err)
	}
}

func TestEveryOperationThatAuthorizeIsAskedAboutHasAConstant(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join("internal", "gateway", "serve", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		asked = append(asked, constants(t, path, func(s *ast.ValueSpec) bool {
			typ, ok := s.Type.(*ast.Ident)
			return ok && typ.Name == "Operation"
		})...)
	}
	if len(asked) < 14 {
		t.Fatalf("only %d operations were read: %v", len(asked), asked)
	}
	named := make(map[string]bool)
	for _, name := range constants(t, "options.go", func(s *ast.ValueSpec) bool {
		if len(s.Values) != 1 {
			return false
		}
		value, ok := s.Values[0].(*ast.SelectorExpr)
		return ok && "Op"+value.Sel.Name == s.Names[0].Name
	}) {
		named[name] = true
	}
	for _, name := range asked {
		if !named["Op"+name] {
			t.Errorf("package runtime has no Op%s", name)
		}
	}
}

func TestURLsInLogsHaveNoPasswords(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "localhost:4222": "localhost:4222", "nats://node:p@a:1,tls://s3cret@b:2": "nats://node:xxxxx@a:1,tls://xxxxx@b:2",
		"node:p@a:1": "xxxxx",
	} {
		if got := withoutPasswords(urls); got != want {
			t.Errorf("%s: %s, not %s", urls, got, want)
		}
	}
}
