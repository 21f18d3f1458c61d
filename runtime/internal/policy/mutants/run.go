//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A folder is a package as go list describes it.
type folder struct {
	Dir, Name                          string
	GoFiles, TestGoFiles, XTestGoFiles []string
	binary                             string // of its tests
}

// A checkout is the repository in one state. Its tests run on the mutants of this one.
type checkout struct {
	root     string
	code     map[string][]byte // of the packages with mutants and tests, by the names of files below root
	folders  []*folder         // of the tests
	tests    []*test           // those of one folder together, the quickest first
	verdicts []verdict         // on the mutants, at their ids
}

// A test is a function that -test.run can choose.
type test struct {
	*folder
	name           string
	lines          int
	cost           time.Duration
	reaches, finds []byte // 1 at the ids of mutants
}

// A verdict is what the tests find about a mutant.
type verdict struct {
	test        *test  // it finds the mutant, or ran with the test that does
	by          string // the name of a test, or "panic", "fatal error", "hang", "memory" or "exit"; empty if it is not found
	found, runs int
}

// list returns packages of the checkout at root.
func list(root string, packages []string) (all []*folder, err error) {
	cmd := exec.Command("go",
		append([]string{"list", "-json=Dir,Name,GoFiles,TestGoFiles,XTestGoFiles"}, packages...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More() && err == nil; {
		f := &folder{}
		all, err = append(all, f), d.Decode(f)
	}
	return all, err
}

// open reads a checkout, and returns its packages with mutants too.
func open(root string, packages []string) (c *checkout, mutated []*folder, err error) {
	root, err = filepath.Abs(root)
	c = &checkout{root: root, code: map[string][]byte{}}
	if err == nil {
		mutated, err = list(root, packages)
	}
	if c.folders = mutated; err == nil && *from != "" {
		c.folders, err = list(root, strings.Split(*from, ","))
	}
	for _, f := range slices.Concat(mutated, c.folders) {
		for _, name := range f.GoFiles {
			if err == nil {
				c.code[c.below(f, name)], err = os.ReadFile(filepath.Join(f.Dir, name))
			}
		}
	}
	return c, mutated, err
}

// below returns the name of a file of a folder, below the root.
func (c *checkout) below(f *folder, name string) string {
	rel, _ := filepath.Rel(c.root, f.Dir)
	return filepath.Join(rel, name)
}

// complaint is a line of the compiler.
var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// build compiles the tests with the changed texts of files. Mutants that do not compile are
// dropped: then the texts must be written again.
func (c *checkout) build(ctx context.Context, texts map[string]string, all []*mutant) (again bool, err error) {
	replace := map[string]string{}
	for file, text := range texts {
		replace[filepath.Join(c.root, file)] = text
	}
	dir, err := os.MkdirTemp(temp, "build")
	overlay := filepath.Join(dir, "overlay.json")
	text, _ := json.Marshal(map[string]any{"Replace": replace})
	if err := cmp.Or(err, os.WriteFile(overlay, text, 0o600)); err != nil {
		return false, err
	}
	for i, f := range c.folders {
		f.binary = filepath.Join(dir, fmt.Sprint(i))
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", f.binary, f.Dir)
		cmd.Dir = c.root
		out, err := cmd.CombinedOutput()
		for _, at := range complaint.FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(at[2]))
			for _, m := range all {
				if m.line == line && !m.dropped && filepath.Base(string(at[1])) == filepath.Base(texts[m.file]) {
					m.dropped, again = true, true
				}
			}
		}
		if err != nil && !again {
			return false, fmt.Errorf("%s does not compile: %w\n%s", f.Dir, err, out)
		}
	}
	return again, nil
}

// learn lists the tests, and runs each alone without a mutant. A test that fails is left out.
func (c *checkout) learn(ctx context.Context, ids int) error {
	c.verdicts = make([]verdict, ids)
	for _, f := range c.folders {
		lines := map[string]int{}
		for _, name := range slices.Concat(f.TestGoFiles, f.XTestGoFiles) {
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, filepath.Join(f.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range parsed.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
					lines[fn.Name.Name] = files.Position(fn.End()).Line - files.Position(fn.Pos()).Line + 1
				}
			}
		}
		if len(lines) == 0 {
			continue
		}
		cmd := exec.CommandContext(ctx, f.binary, "-test.list", *match)
		cmd.Dir = f.Dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s does not list its tests: %w\n%s", f.Dir, err, out)
		}
		var tests []*test
		for name := range strings.FieldsSeq(string(out)) {
			if lines[name] > 0 && !strings.HasPrefix(name, "Benchmark") {
				tests = append(tests, &test{folder: f, name: name, lines: lines[name], finds: make([]byte, ids)})
			}
		}
		each(ctx, tests, func(t *test) {
			start := time.Now()
			by, out := run(ctx, []*test{t}, 0, 10*time.Minute)
			t.cost = time.Since(start)
			if by != "" && ctx.Err() == nil {
				t.reaches = nil
				log.Printf("LEFT OUT, because it fails without a mutant (%s): %s in %s\n%s", by, t.name, f.Dir, out)
			}
		})
		tests = slices.DeleteFunc(tests, func(t *test) bool { return t.reaches == nil })
		slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.cost, b.cost) })
		if len(tests) == 0 {
			continue
		}
		if by, out := run(ctx, tests, none, 10*time.Minute); by != "" && ctx.Err() == nil {
			return fmt.Errorf("the tests of %s pass alone, but fail together without a mutant (%s)\n%s", f.Dir, by, out)
		}
		c.tests = append(c.tests, tests...)
	}
	return ctx.Err()
}

// reaching returns the tests that reach a mutant.
func (c *checkout) reaching(m *mutant) []*test {
	return slices.DeleteFunc(slices.Clone(c.tests), func(t *test) bool { return t.reaches[m.id] == 0 })
}

// try runs the tests that reach a mutant until one finds it: few and quick ones first, then more at
// a time.
func (c *checkout) try(ctx context.Context, m *mutant) {
	v := &c.verdicts[m.id]
	v.runs++
	budget := 100 * time.Millisecond
	for rest := c.reaching(m); len(rest) > 0; budget *= 4 {
		n, cost := 1, rest[0].cost
		for n < len(rest) && rest[n].folder == rest[0].folder && cost+rest[n].cost <= budget {
			cost += rest[n].cost
			n++
		}
		if by, _ := run(ctx, rest[:n], m.id, 10*time.Second+5*cost); by != "" {
			v.test, v.by = rest[0], by
			v.found++
			return
		}
		rest = rest[n:]
	}
}

// tryEach runs each test that reaches one of the mutants alone.
func (c *checkout) tryEach(ctx context.Context, all []*mutant) {
	type pair struct {
		*test
		*mutant
	}
	var pairs []pair
	for _, m := range all {
		c.verdicts[m.id].runs = 1
		for _, t := range c.reaching(m) {
			pairs = append(pairs, pair{t, m})
		}
	}
	each(ctx, pairs, func(p pair) {
		if by, _ := run(ctx, []*test{p.test}, p.id, 10*time.Second+5*p.cost); by != "" {
			p.finds[p.id] = 1
		}
	})
	for _, p := range slices.Backward(pairs) {
		if p.finds[p.id] == 1 {
			c.verdicts[p.id] = verdict{p.test, p.name, 1, 1}
		}
	}
}

// A tail is the end of what was written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	*t = (*t)[max(0, len(*t)-1<<20):]
	return len(p), nil
}

const (
	maxMemory = 3 << 30 // of a process
	none      = -1      // the id of no mutant
)

var (
	failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)|^(panic|fatal error): `)
	started atomic.Int64 // runs with a mutant
)

// run runs tests of one package in a process of their own. It returns what failed, in the words of
// a verdict, and what was printed. With the id 0 there is no mutant either, and the first test is
// told what it reaches.
func run(ctx context.Context, tests []*test, id int, most time.Duration) (by string, out tail) {
	dir, err := os.MkdirTemp(temp, "run")
	if err != nil {
		return "exit", tail(err.Error())
	}
	defer os.RemoveAll(dir)
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	cmd := exec.Command(tests[0].binary, "-test.paniconexit0", "-test.failfast", "-test.run",
		"^("+strings.Join(names, "|")+")$")
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = tests[0].Dir, &out, &out, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "MUTANT="+strconv.Itoa(id))
	marks := dir + ".marks"
	if id == 0 {
		cmd.Env = append(cmd.Env, "MUTANT_REACHED="+marks)
		err = os.WriteFile(marks, make([]byte, len(tests[0].finds)), 0o600)
	} else if id != none {
		started.Add(1)
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "exit", tail(err.Error())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timeout, tick := time.After(cmp.Or(*limit, most)), time.NewTicker(200*time.Millisecond)
	defer tick.Stop()
	for running := true; running; {
		var size, pages int
		select {
		case err = <-ended:
			running = false
		case <-ctx.Done():
			by = "exit"
		case <-timeout:
			by = "hang"
		case <-tick.C:
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", cmd.Process.Pid)); err == nil {
				_, _ = fmt.Sscan(string(stat), &size, &pages)
			}
			if pages*os.Getpagesize() > maxMemory {
				by = "memory"
			}
		}
		if by != "" || !running { // its children too
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}
	if id == 0 {
		tests[0].reaches, _ = os.ReadFile(marks)
	}
	if m := failure.FindSubmatch(out); by == "" && err != nil && m != nil {
		by = string(m[1]) + string(m[2])
	} else if by == "" && err != nil {
		by = "exit"
	}
	return by, out
}
