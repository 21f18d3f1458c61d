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
		snippets := goBlocks(t, page)
		if len(snippets) == 0 {
			if page != "cell.md" { // which has its own tests, beside the code of cells
				t.Errorf("%s has no snippet", page)
			}
			continue
		}
		code, err := os.ReadFile(strings.TrimSuffix(page, ".md") + "_test.go")
		if err != nil {
			t.Errorf("%s has no test: %v", page, err)
			continue
		}
		for _, snippet := range snippets {
			if !strings.Contains(flat(string(code)), flat(snippet)) {
				t.Errorf("%s: this is not in its test:\n%s", page, snippet)
			}
		}
	}
}

// TestSnippetsOfOtherPagesStandInCode holds the snippets of the pages beside the guides to code that is compiled: that of
// the examples and of the tests here.
func TestSnippetsOfOtherPagesStandInCode(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir("..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, ".go") {
			return err
		}
		text, err := os.ReadFile(file)
		code.WriteString(flat(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../*.md", "../operate/*.md", "../errors/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	n := 0
	for _, page := range pages {
		for _, snippet := range goBlocks(t, page) {
			if n++; !strings.Contains(code.String(), flat(snippet)) {
				t.Errorf("%s: this is in no Go file below docs:\n%s", page, snippet)
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d snippets were found", n)
	}
}

// goBlocks returns the Go snippets of a page.
func goBlocks(t *testing.T, page string) []string {
	t.Helper()
	return blocks(t, page, "go")
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
