package policy

import (
	"bytes"
	"go/ast"
	"go/parser"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// capability matches the types and constants of package host that belong to a part.
var capability = regexp.MustCompile(`^(Queue|Enqueue|Received|Sent|Stream|Schedule|Tick|Alarm|Connection|Connect|LiveConnection|Run|Workflow|SQL|` +
	`KV|Send|Message|Subscription|Subscribe|Emitted|Task)([A-Z]\w*)?$`)

// The kernel stays small. What it has too much of only becomes less: the goal is 4,000 lines, and
// 450 in a file.
const (
	kernelLines = 4000
	fileLines   = 450
)

// TestKernelKnowsNoCapability holds the kernel to its name: it uses nothing of package host that
// only a part needs, and does not grow. That it imports no part is in the import table.
func TestKernelKnowsNoCapability(t *testing.T) {
	const dir = "runtime/internal/kernel/"
	total := 0
	eachFile(t, parser.SkipObjectResolution, func(rel string, f *ast.File) {
		if !strings.HasPrefix(rel, dir) || strings.Contains(strings.TrimPrefix(rel, dir), "/") || strings.HasSuffix(rel, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "host" && capability.MatchString(sel.Sel.Name) {
					t.Errorf("%s uses host.%s, which is of a part", rel, sel.Sel.Name)
				}
			}
			return true
		})
		source, err := os.ReadFile(filepath.Join(root(t), rel))
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(source, []byte("\n"))
		total += lines
		if lines > fileLines {
			t.Errorf("%s has %d lines; %d is the most", rel, lines, fileLines)
		}
	})
	if total > kernelLines || total < kernelLines-200 {
		t.Errorf("the kernel has %d lines; kernelLines says %d, which only becomes less", total, kernelLines)
	}
}
