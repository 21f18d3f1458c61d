package policy

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesNameTestsThatExist holds docs/guarantees.md to its word.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	top := root(t)
	page, err := os.ReadFile(filepath.Join(top, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^(?:func |scenario )(Test\w+\(|[\w-]+)(?: crashes)?`)
	err = filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		script := strings.Contains(filepath.Dir(file), "testdata") && filepath.Ext(file) == ""
		if err != nil || d.IsDir() || !script && !strings.HasSuffix(file, "_test.go") {
			return err
		}
		src, err := os.ReadFile(file)
		for _, m := range function.FindAllSubmatch(src, -1) {
			declared[strings.TrimSuffix(string(m[1]), "(")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| promise") {
			continue
		}
		rows++
		names := regexp.MustCompile("`(Test\\w+)(?:/([\\w-]+))?`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test stands behind: %s", line)
		}
		for _, n := range names {
			if !declared[n[1]] || n[2] != "" && !declared[n[2]] {
				t.Errorf("docs/guarantees.md names %s, which does not exist", n[0])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d promises were found", rows)
	}
}

// TestLinksInDocsResolve checks the relative links of every page, and that docs/index.md leads to
// each page of docs.
func TestLinksInDocsResolve(t *testing.T) {
	top := root(t)
	pages := make(map[string][]string) // the files that a page links to
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != top {
			return filepath.SkipDir
		}
		if strings.HasSuffix(file, ".md") {
			pages[file] = linksOf(t, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(top, "docs", "index.md")
	reached, next := map[string]bool{index: true}, []string{index}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		for _, to := range pages[page] {
			if !reached[to] {
				reached[to] = true
				next = append(next, to)
			}
		}
	}
	for page := range pages {
		if strings.HasPrefix(page, filepath.Dir(index)) && !reached[page] {
			t.Errorf("no links lead from docs/index.md to %s", page)
		}
	}
}

var (
	codeInPage = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	linkInPage = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)]*))?\)`)
	headline   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// linksOf returns the files that a page links to. It reports links to files and headlines that do
// not exist.
func linksOf(t *testing.T, page string) (files []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range linkInPage.FindAllStringSubmatch(codeInPage.ReplaceAllString(string(text), ""), -1) {
		if strings.Contains(m[1], "://") {
			continue
		}
		file := page
		if m[1] != "" {
			file = filepath.Join(filepath.Dir(page), m[1])
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s links to %s, which does not exist", page, m[1])
			continue
		}
		if m[2] != "" && strings.HasSuffix(file, ".md") && !hasHeadline(t, file, m[2]) {
			t.Errorf("%s links to %s#%s, which has no such headline", page, m[1], m[2])
		}
		files = append(files, file)
	}
	return files
}

// hasHeadline reports whether a page has a headline with an anchor, as GitHub makes it of the text.
func hasHeadline(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range headline.FindAllStringSubmatch(string(text), -1) {
		if strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}
