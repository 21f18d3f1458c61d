package guides_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSnippetsStandInTestsThatRun(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no guides: ", err)
	}
	for _, page := range pages {
		snippets := blocks(t, page, "go")
		if len(snippets) == 0 {
			if page != "cell.md" { // which has its own tests, beside the code of cells
				t.Errorf("%s has no snippet", page)
			}
			continue
		}
		wantInCode(t, page, snippets, strings.TrimSuffix(page, ".md")+"_test.go")
	}
}

// wantInCode checks that files have the snippets of a page.
func wantInCode(t *testing.T, page string, snippets []string, files ...string) {
	t.Helper()
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		code.WriteString(flat(string(text)))
	}
	for _, snippet := range snippets {
		if !strings.Contains(code.String(), flat(snippet)) {
			t.Errorf("%s: this is in no file that is compiled:\n%s", page, snippet)
		}
	}
}

// TestSnippetsOfOtherPagesStandInCode holds the snippets of the pages beside the guides to code
// that is compiled: that of the examples and of the tests here.
func TestSnippetsOfOtherPagesStandInCode(t *testing.T) {
	var files, pages []string
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".go") {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"../../README.md", "../*.md", "../operate/*.md", "../errors/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	n := 0
	for _, page := range pages {
		snippets := blocks(t, page, "go")
		if n += len(snippets); len(snippets) > 0 {
			wantInCode(t, page, snippets, files...)
		}
	}
	if n < 8 {
		t.Errorf("only %d snippets were found", n)
	}
}

// blocks returns the snippets of a page in a language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rest := range strings.Split("\n"+string(text), "\n```"+language+"\n")[1:] {
		block, _, ok := strings.Cut(rest, "```")
		if !ok {
			t.Fatalf("%s: a block does not end", page)
		}
		all = append(all, block)
	}
	return all
}

// flat removes what differs between a page and a test: indentation, and the alignment of comments.
func flat(code string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(code) {
		b.WriteString(strings.Join(strings.Fields(line), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
