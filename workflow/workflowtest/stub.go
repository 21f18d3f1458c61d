package workflowtest

import (
	"slices"
	"strings"

	"github.com/cairn-run/cairn/workflow"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A stub replaces the bodies of steps.
type stub struct {
	pattern string
	fn      func(sc *workflow.StepCtx) (any, error)
}

// Block waits until the context of a step ends, and returns its error. It is for stubs that the
// test cuts off: the Env goes on while it waits, although it otherwise waits for each body to
// return. In a bubble of testing/synctest, a receive from sc.Done() does the same.
func Block(sc *workflow.StepCtx) error { return memory.Block(sc) }

// undoOf is the prefix of the name of an undo handler's execution.
const undoOf = "undo of "

// matches reports whether a pattern matches the path of an operation, or an end of it that begins
// with a name.
func matches(pattern, path string) bool {
	if i := strings.Index(path, undoOf); i >= 0 {
		var ok bool
		if pattern, ok = strings.CutPrefix(pattern, undoOf); !ok {
			return false
		}
		path = path[i+len(undoOf):]
	}
	for {
		if glob(pattern, path) {
			return true
		}
		i := strings.IndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[i+1:]
	}
}

// glob reports whether a pattern matches a text: * stands for any text without a slash, ? for any
// one character except a slash.
func glob(pattern, text string) bool {
	p := []rune(pattern)
	// reach[i] means that the first i runes of the pattern match the text read so far.
	reach := make([]bool, len(p)+1)
	reach[0] = true
	stars := func() {
		for i, c := range p {
			if c == '*' && reach[i] {
				reach[i+1] = true
			}
		}
	}
	stars()
	for _, c := range text {
		next := make([]bool, len(p)+1)
		for i, want := range p {
			switch {
			case !reach[i]:
			case want == '*':
				next[i] = next[i] || c != '/'
			case want == '?':
				next[i+1] = next[i+1] || c != '/'
			default:
				next[i+1] = next[i+1] || c == want
			}
		}
		if reach = next; !slices.Contains(reach, true) {
			return false
		}
		stars()
	}
	return reach[len(p)]
}
