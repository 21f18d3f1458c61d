package policy

import (
	"bytes"
	"flag"
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
	"strconv"
	"strings"
	"testing"
)

var updateProse = flag.Bool("update-prose", false, "shrink testdata/prose.txt to what the tree has")

// hard are the phrases that plain English does without, in comments and pages: people in place of data, causatives, and
// "is to" in place of "must".
var hard = regexp.MustCompile(`(?i)\b(what (?:came|comes|became|becomes|become) of|what it (?:came|comes) to|` +
	`who|whoever|whom|somebody|anybody|everybody|those that|the one which|no more than one of|any more|not longer than|but for|` +
	`(?:is|are|was|were) to be|sees? to it|takes? in what|takes? (?:in|note)|has \w+ come true|lets those know|lets? \w+ know|` +
	`learns|hears|what is here|in question)\b|\bno more[.,;:)]`)

// unsure finds a function that returns a bool and "reports that", or "reports if", and not "reports whether".
var unsure = regexp.MustCompile(`^\w+ reports (?:that|if)\b`)

// TestProseIsPlain: no folder gets more hard phrases than testdata/prose.txt allows it, and that list only shrinks.
func TestProseIsPlain(t *testing.T) {
	const list = "testdata/prose.txt"
	found := make(map[string]int)
	where := make(map[string][]string)
	note := func(rel, text string) {
		for _, m := range append(hard.FindAllString(text, -1), unsure.FindAllString(text, -1)...) {
			dir := path.Dir(filepath.ToSlash(rel))
			found[dir]++
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

	allowed := make(map[string]int)
	text, err := os.ReadFile(list)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	total := 0
	for line := range strings.Lines(string(text)) {
		dir, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%s: %q is not a folder and a number", list, line)
		}
		allowed[dir], total = n, total+n
	}
	if *updateProse {
		var b bytes.Buffer
		sum := 0
		for _, dir := range slices.Sorted(maps.Keys(found)) {
			fmt.Fprintf(&b, "%s %d\n", dir, found[dir])
			sum += found[dir]
		}
		if len(text) > 0 && sum > total {
			t.Fatalf("the tree has %d hard phrases and the list allows %d: it only shrinks", sum, total)
		}
		if err := os.MkdirAll(filepath.Dir(list), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if n := found[dir]; n > allowed[dir] {
			t.Errorf("%s has %d hard phrases, allowed are %d; say it in plain English:\n\t%s", dir, n, allowed[dir], strings.Join(where[dir], "\n\t"))
		}
	}
	for dir, n := range allowed {
		if found[dir] < n {
			t.Errorf("%s has %d hard phrases and is allowed %d: run this test with -update-prose", dir, found[dir], n)
		}
	}
}
