// Command calls counts the functions that an HTTP action runs through, from the socket to the
// reply. docs/calls.md has the figures.
//
// It builds a program with coverage counters that calls an action 1,000 times, and lists the
// functions whose first statement ran in nine of ten calls. Run it in the root of the module: go
// run ./runtime/internal/policy/calls
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	module = "github.com/cairn-run/cairn/"
	often  = 900 // of the 1,000 calls of the probe
	short  = 3   // a function with so many statements only reads a field, or asks another
)

func main() {
	dir, err := os.MkdirTemp("", "cairn-calls")
	if err != nil {
		log.Fatal(err)
	}
	blocks, err := measure(dir)
	if rerr := os.RemoveAll(dir); err == nil {
		err = rerr
	}
	if err != nil {
		log.Fatal(err)
	}
	report(functions(blocks))
}

// A place is a position in a file.
type place struct{ line, column int }

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.column, q.column))
}

// A block is statements that run together, and how often they ran.
type block struct {
	from, to place
	count    int
}

// measure runs the probe and returns the blocks of each file.
func measure(dir string) (map[string][]block, error) {
	probe, profile := filepath.Join(dir, "probe"), filepath.Join(dir, "profile")
	for _, args := range [][]string{
		{"go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", probe,
			"./runtime/internal/policy/calls/probe"},
		{probe, dir},
		{"go", "tool", "covdata", "textfmt", "-i=" + filepath.Join(dir, "counters"), "-o=" + profile},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+dir) // or the probe warns at its end
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
	}
	f, err := os.Open(profile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blocks := make(map[string][]block)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, at, ok := strings.Cut(lines.Text(), ".go:")
		if !ok {
			continue // the first line has the mode
		}
		var b block
		var statements int
		if _, err := fmt.Sscanf(at, "%d.%d,%d.%d %d %d", &b.from.line, &b.from.column, &b.to.line,
			&b.to.column, &statements, &b.count); err != nil {
			return nil, fmt.Errorf("%s: %w", lines.Text(), err)
		}
		name = strings.TrimPrefix(name, module) + ".go"
		blocks[name] = append(blocks[name], b)
	}
	return blocks, lines.Err()
}

// A function is on the way of a call.
type function struct {
	file, name string
	statements int
}

// functions lists the functions that ran often, by file and in their order there.
func functions(blocks map[string][]block) (list []function) {
	files := token.NewFileSet()
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || len(fn.Body.List) == 0 {
				continue
			}
			at := files.Position(fn.Body.List[0].Pos())
			first := place{at.Line, at.Column}
			if slices.ContainsFunc(blocks[name], func(b block) bool {
				return b.count >= often && b.from.compare(first) <= 0 && first.compare(b.to) < 0
			}) {
				list = append(list, function{name, nameOf(fn), statements(fn)})
			}
		}
	}
	return list
}

// nameOf returns a function's name, with its receiver's type.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// statements counts the statements of a function, with those within others.
func statements(fn *ast.FuncDecl) (n int) {
	ast.Inspect(fn.Body, func(x ast.Node) bool {
		if s, ok := x.(ast.Stmt); ok {
			if _, block := s.(*ast.BlockStmt); !block {
				n++
			}
		}
		return true
	})
	return n
}

var (
	stores = regexp.MustCompile(`^(engine|keyspace|actor)/`)
	nouns  = regexp.MustCompile(`^runtime/internal/kernel/\w+/`)
)

// report prints the counts, and the functions.
func report(list []function) {
	all := func(function) bool { return true }
	way := func(f function) bool { return !stores.MatchString(f.file) }
	count := func(what string, in func(function) bool) {
		files := make(map[string]bool)
		n, long := 0, 0
		for _, f := range list {
			if !in(f) {
				continue
			}
			files[f.file] = true
			if n++; f.statements > short {
				long++
			}
		}
		fmt.Printf("%3d files, %3d functions, %3d of more than %d statements: %s\n", len(files), n, long, short, what)
	}
	count("all", all)
	count("without engine, keys and the codecs of package actor", way)
	count("of these, without the packages below the kernel that stand alone",
		func(f function) bool { return way(f) && !nouns.MatchString(f.file) })
	last := ""
	for _, f := range list {
		if f.file != last {
			fmt.Println(f.file)
			last = f.file
		}
		fmt.Printf("    %-40s %d\n", f.name, f.statements)
	}
}
