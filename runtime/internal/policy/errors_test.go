package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestTooLargeHasItsLimit: the module makes errors with the code TooLarge by host.OverLimit only,
// which asks for a limit and a size. All that is done with the code elsewhere is to compare with
// it.
func TestTooLargeHasItsLimit(t *testing.T) {
	defines := []string{"actor/host/error.go", "actor/error.go"}
	spells := []string{ // and mean something else
		"runtime/internal/natspub/metrics.go", "runtime/internal/natspub/envelope.go",
	}
	eachFile(t, parser.SkipObjectResolution, func(rel string, f *ast.File) {
		if strings.HasSuffix(rel, "_test.go") || slices.Contains(defines, rel) {
			return
		}
		compared := make(map[ast.Node]bool)
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				compared[n.X], compared[n.Y] = n.Op == token.EQL || n.Op == token.NEQ, n.Op == token.EQL || n.Op == token.NEQ
			case *ast.CaseClause:
				for _, x := range n.List {
					compared[x] = true
				}
			case *ast.SelectorExpr:
				if n.Sel.Name == "TooLarge" && !compared[n] {
					t.Errorf("%s uses the code TooLarge for something else than a comparison; host.OverLimit makes the error", rel)
				}
			case *ast.Ident:
				if n.Name == "TooLarge" && f.Name.Name == "host" && !compared[n] {
					t.Errorf("%s uses the code TooLarge for something else than a comparison; OverLimit makes the error", rel)
				}
			case *ast.BasicLit:
				if n.Value == `"too_large"` && !slices.Contains(spells, rel) {
					t.Errorf("%s spells the code too_large", rel)
				}
			}
			return true
		})
	})
}
