// Command breaks damages the code on purpose, one place at a time, and reports whether the tests
// find it.
//
// The places are in breaks.txt: a name and what breaks, the tests that must find it, and the change
// in the manner of a diff. An entry names no file, so that it stays valid when code moves: the
// program looks for the only place of the module with the old lines, and for the packages with the
// tests. Lines are compared without indentation and comments. The word "or" begins another change,
// for code that reads otherwise.
//
// Nothing is copied or written in the module: `go test -overlay` compiles the changed text instead
// of the file. The exit status is 0 if each break is found, except those marked "survives".
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed breaks.txt
var list string

// An entry is one break.
type entry struct {
	name, what string
	survives   bool // no test finds it yet
	tests      []string
	hunks      []hunk // alternatives, exactly one of which fits
}

// A hunk replaces the lines old by new.
type hunk struct{ old, new []string }

var (
	only  = flag.String("only", "", "names of breaks to try, separated by commas; all if empty")
	show  = flag.Bool("list", false, "print where the breaks are, and run nothing")
	limit = flag.Duration("timeout", 2*time.Minute,
		"how long the tests of a break may take; a break that hangs them is found")

	root   string                  // of the module
	files  = map[string]*source{}  // the Go files without tests
	places = map[string][]place{}  // of a line of code
	tests  = map[string][]string{} // packages with a test of that name
)

// A source is a file: its lines, and those with code, without indentation and comment, at their
// places.
type source struct {
	lines, codes []string
	at           []int
}

// A place is a line of the code of a file.
type place struct {
	path string
	code int
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	entries := slices.DeleteFunc(parse(), func(e *entry) bool {
		return *only != "" && !slices.Contains(strings.Split(*only, ","), e.name)
	})
	read()
	if !*show {
		all := &entry{}
		for _, e := range entries {
			all.tests = append(all.tests, e.tests...)
		}
		if out, err := all.test(10 * *limit); err != nil {
			log.Fatalf("the tests fail without a break: %v\n%s", err, out)
		}
	}
	counts, bad := map[string]int{}, len(entries) == 0
	for _, e := range entries {
		path, verdict := e.try()
		verdict, output, _ := strings.Cut(verdict, "\n")
		counts[verdict]++
		fmt.Printf("%-16s %-26s %-55s %s\n%s", verdict, e.name, path, e.what, output)
		bad = bad || !strings.HasPrefix(verdict, "found") && (verdict != "survived" || !e.survives)
	}
	fmt.Println(len(entries), "breaks:", strings.TrimPrefix(fmt.Sprint(counts), "map"))
	if bad {
		os.Exit(1)
	}
}

func parse() (all []*entry) {
	e := &entry{}
	for i, line := range strings.Split(strings.TrimSpace(list), "\n") {
		mark, rest := line[:min(1, len(line))], strings.TrimSpace(line[min(1, len(line)):])
		h := &hunk{}
		if len(e.hunks) > 0 {
			h = &e.hunks[len(e.hunks)-1]
		}
		switch {
		case mark == "", mark == "#":
		case mark == "=":
			e = &entry{hunks: make([]hunk, 1)}
			e.name, e.what, _ = strings.Cut(rest, ": ")
			all = append(all, e)
		case strings.HasPrefix(line, "tests "):
			e.tests = strings.Fields(line)[1:]
		case line == "survives":
			e.survives = true
		case line == "or":
			e.hunks = append(e.hunks, hunk{})
		case mark == "-":
			h.old = append(h.old, code(rest))
		case mark == "+":
			h.new = append(h.new, rest)
		case strings.TrimSpace(mark) == "":
			h.old, h.new = append(h.old, code(rest)), append(h.new, rest)
		default:
			log.Fatalf("breaks.txt:%d: %q is no part of an entry", i+1, line)
		}
	}
	return all
}

// code returns a line without indentation and comment.
func code(line string) string {
	line, _, _ = strings.Cut(" "+strings.TrimSpace(line)+" ", " // ")
	return strings.TrimSpace(line)
}

// read finds the module above the working directory and reads its Go files, those of nested modules
// excepted.
func read() {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	root = filepath.Dir(strings.TrimSpace(string(mod)))
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = cmp.Or(err, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if _, nested := os.Stat(filepath.Join(path, "go.mod")); path != root &&
			(nested == nil || d.Name() == ".git") && d.IsDir() {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		if !strings.HasSuffix(path, "_test.go") {
			f := &source{lines: strings.Split(string(text), "\n")}
			for i, line := range f.lines {
				if c := code(line); c != "" {
					places[c] = append(places[c], place{rel, len(f.codes)})
					f.at, f.codes = append(f.at, i), append(f.codes, c)
				}
			}
			files[rel] = f
			return err
		}
		for _, f := range function.FindAllSubmatch(text, -1) {
			tests[string(f[1])] = append(tests[string(f[1])], "./"+filepath.Dir(rel))
		}
		return err
	}))
	if err != nil {
		log.Fatal(err)
	}
}

// find returns the file with the old lines of a hunk, its text with the new ones, and the number of
// such places.
func (e *entry) find() (path, text string, found int) {
	for _, h := range e.hunks {
		n := len(h.old)
		if n == 0 {
			continue
		}
		for _, p := range places[h.old[0]] {
			f := files[p.path]
			if i := p.code; i+n <= len(f.codes) && slices.Equal(f.codes[i:i+n], h.old) {
				found++
				path, text = p.path,
					strings.Join(slices.Concat(f.lines[:f.at[i]], h.new, f.lines[f.at[i+n-1]+1:]), "\n")
			}
		}
	}
	return path, text, found
}

// try runs the tests of e with its change. After the first line of the verdict comes what explains
// it.
func (e *entry) try() (path, verdict string) {
	path, text, found := e.find()
	if found != 1 {
		return fmt.Sprintf("%d places", found), "not found"
	}
	for _, name := range e.tests {
		if len(tests[name]) == 0 {
			return path, "no such test\n" + name + "\n"
		}
	}
	if *show {
		return path, "found"
	}
	dir, err := os.MkdirTemp("", "breaks")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, path): file}})
	if err := cmp.Or(os.WriteFile(file, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		log.Fatal(err)
	}
	out, err := e.test(*limit, "-overlay", overlay)
	has := func(s string) bool { return bytes.Contains(out, []byte(s)) }
	switch {
	case err == nil:
		return path, "survived"
	case has("[build failed]"), has("[setup failed]"):
		return path, "does not compile\n" + string(out)
	case has("panic: test timed out"):
		return path, "found by a hang"
	case has("--- FAIL"), has("panic: "), has("fatal error: "):
		return path, "found"
	}
	return path, "cannot be tried\n" + string(out)
}

func (e *entry) test(limit time.Duration, flags ...string) ([]byte, error) {
	var packages []string
	for _, name := range e.tests {
		packages = append(packages, tests[name]...)
	}
	slices.Sort(packages)
	args := slices.Concat([]string{"test", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String()}, flags,
		[]string{"-run", "^(" + strings.Join(e.tests, "|") + ")$"}, slices.Compact(packages))
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	return cmd.CombinedOutput()
}
