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
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		src, err := os.ReadFile(file)
		for _, m := range function.FindAllSubmatch(src, -1) {
			declared[string(m[1])] = true
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
		names := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test stands behind: %s", line)
		}
		for _, n := range names {
			if !declared[n[1]] {
				t.Errorf("docs/guarantees.md names %s, which does not exist", n[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d promises were found", rows)
	}
}

// TestLinksInDocsResolve checks the relative links of every page.
func TestLinksInDocsResolve(t *testing.T) {
	top := root(t)
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != top {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".md") {
			return nil
		}
		page, err := os.ReadFile(file)
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(string(page), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
