package policy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// hard are the phrases that plain English does without, in comments and pages: people in place of
// data, causatives, and "is to" in place of "must".
var hard = regexp.MustCompile(`\b(what (?:came|comes|became|becomes|become) of|what it (?:came|comes) to|` +
	`who|whoever|whom|somebody|anybody|everybody|those that|the one which|no more than one of|any more|not longer than|but for|` +
	`(?:is|are|was|were) to be|sees? to it|takes? in what|takes? (?:in|note)|has \w+ come true|lets those know|lets? \w+ know|` +
	`learns|hears|what is here|in question)\b|\bno more[.,;:)]`)

// Each match of hard has one of the hints, which are found much faster.
var hints = strings.Split("what |who|somebody|anybody|everybody|those that|the one which|no more|any more|not longer|but for|to be|to it|"+
	"take|come true|know|learns|hears|in question", "|")

// unsure finds a function that returns a bool and "reports that", or "reports if", and not "reports
// whether".
var unsure = regexp.MustCompile(`^\w+ reports (?:that|if)\b`)

func TestProseIsPlain(t *testing.T) {
	where := make(map[string][]string)
	note := func(rel, text string) {
		found := unsure.FindAllString(text, -1)
		for line := range strings.Lines(strings.ToLower(text)) {
			if slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(line, hint) }) {
				found = append(found, hard.FindAllString(line, -1)...)
			}
		}
		for _, m := range found {
			dir := path.Dir(filepath.ToSlash(rel))
			where[dir] = append(where[dir], fmt.Sprintf("%s: %q", rel, m))
		}
	}
	eachFile(t, parser.ParseComments|parser.SkipObjectResolution, func(rel string, f *ast.File) {
		for _, c := range f.Comments {
			note(rel, c.Text())
		}
	})
	top := root(t)
	if err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != top || d.Name() == "node_modules" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(file) == ".md" {
			page, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(top, file)
			note(rel, string(page))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	for _, dir := range slices.Sorted(maps.Keys(where)) {
		t.Errorf("%s has hard phrases; say it in plain English:\n\t%s", dir, strings.Join(where[dir], "\n\t"))
	}
}

// TestCommentsAreNarrow holds comments to 100 columns, except code and output in them.
func TestCommentsAreNarrow(t *testing.T) {
	top := root(t)
	eachFile(t, parser.ParseComments|parser.SkipObjectResolution, func(rel string, f *ast.File) {
		source, err := os.ReadFile(filepath.Join(top, rel))
		if err != nil {
			t.Fatal(err)
		}
		for _, group := range f.Comments {
			if ast.IsGenerated(f) || strings.Contains(group.Text(), "Output:\n") {
				continue
			}
			for _, c := range group.List {
				at := int(c.Slash - f.FileStart)
				indent := string(source[bytes.LastIndexByte(source[:at], '\n')+1 : at])
				if strings.Trim(indent, "\t") != "" || !strings.HasPrefix(c.Text, "// ") {
					continue // beside code, or code itself
				}
				if n := 4*len(indent) + utf8.RuneCountInString(c.Text); n > 100 {
					t.Errorf("%s: a comment has %d columns, with tabs of 4; 100 is the most: %s", rel, n, c.Text)
				}
			}
		}
	})
}
