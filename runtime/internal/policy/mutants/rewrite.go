//go:build unix

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// helpers is what a package gets beside its mutants. A mutant is reached where it makes a
// difference: at a comparison whose other form has another result, and at a return of an error that
// is not nil.
const helpers = `package %s

import (
	"strconv"
	"syscall"
)

var mutantActive, mutantMarks = mutantStart()

func mutantStart() (active int, marks []byte) {
	text, _ := syscall.Getenv("MUTANT")
	active, _ = strconv.Atoi(text)
	if file, ok := syscall.Getenv("MUTANT_REACHED"); ok {
		if fd, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CLOEXEC, 0); err == nil {
			defer syscall.Close(fd)
			if marks, err := syscall.Mmap(fd, 0, %[2]d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err == nil {
				return active, marks
			}
		}
	}
	return active, make([]byte, %[2]d)
}

func mutantOn(id int) bool {
	mutantMarks[id] = 1
	return id == mutantActive
}

func mutantFlip[B ~bool](id int, b B) B { return b != B(mutantOn(id)) }

func mutantPick[B ~bool](id int, b, other B) B { return b != B(b != other && B(mutantOn(id))) }

func mutantNil(id int, err error) error {
	if err != nil && mutantOn(id) {
		return nil
	}
	return err
}
`

// A mutant is one change of the code that can be switched on.
type mutant struct {
	id            int
	file          string // below the root of the module
	line          int
	kind, text    string // text is its line in the source
	from, to      int    // the code that changes, and what is put around it; before has a place for id
	before, after string
	dropped       bool // it does not compile
}

// spared are calls that tests need not notice.
var spared = regexp.MustCompile(`^(panic|runtime\.KeepAlive)$|(?i)log\w*(\.with\(.*\))?\.(debug|info|warn|error|log|print)\w*$`)

// boundary is the comparison that differs only if both sides are the same.
var boundary = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}

func (m *mutant) String() string {
	return fmt.Sprintf("%d %s:%d %s: %s", m.id, m.file, m.line, m.kind, m.text)
}

// mutantsOf returns the mutants of a file, without ids. What is around another mutant comes before
// it.
func mutantsOf(file string, source []byte) (all []*mutant, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	offset := func(p token.Pos) int { return files.PositionFor(p, false).Offset }
	text := func(n ast.Node) string { return string(source[offset(n.Pos()):offset(n.End())]) }
	lines := strings.Split(string(source), "\n")
	add := func(n ast.Node, kind, before, after string) {
		line := files.PositionFor(n.Pos(), false).Line
		all = append(all, &mutant{file: file, line: line, kind: kind, text: strings.TrimSpace(lines[line-1]),
			from: offset(n.Pos()), to: offset(n.End()), before: before, after: after})
	}
	condition := func(cond ast.Expr) {
		if cond == nil {
			return
		}
		add(cond, "condition", "mutantFlip(%d, ", ")")
		parts := operands(cond)
		for _, x := range parts {
			if len(parts) > 1 {
				add(x, "operand", "mutantFlip(%d, ", ")")
			}
			if b, ok := x.(*ast.BinaryExpr); ok && boundary[b.Op] != "" && simple(b.X) && simple(b.Y) {
				add(x, "boundary", "mutantPick(%d, ", fmt.Sprintf(", %s %s %s)", text(b.X), boundary[b.Op], text(b.Y)))
			}
		}
	}
	statements := func(list []ast.Stmt) {
		for _, s := range list {
			removed := false
			switch s := s.(type) {
			case *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt:
				removed = true
			case *ast.AssignStmt:
				removed = s.Tok != token.DEFINE &&
					slices.ContainsFunc(s.Lhs, func(x ast.Expr) bool { return text(x) != "_" })
			case *ast.ExprStmt:
				call, ok := s.X.(*ast.CallExpr)
				removed = ok && !spared.MatchString(text(call.Fun))
			}
			if removed {
				add(s, "statement", "if !mutantOn(%d) { ", " }")
			}
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Recv == nil && fn.Name.Name == "init" || ast.IsGenerated(f) || directed(fn.Doc) {
			continue
		}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				condition(n.Cond)
			case *ast.ForStmt:
				condition(n.Cond)
			case *ast.BlockStmt:
				statements(n.List)
			case *ast.CaseClause:
				statements(n.Body)
			case *ast.CommClause:
				statements(n.Body)
			case *ast.ReturnStmt:
				if len(n.Results) > 0 && isError(n.Results[len(n.Results)-1]) {
					add(n.Results[len(n.Results)-1], "error", "mutantNil(%d, ", ")")
				}
			}
			return true
		})
	}
	return all, nil
}

// directed reports whether a function has a directive for the compiler.
func directed(doc *ast.CommentGroup) bool {
	return doc != nil &&
		slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:") })
}

// operands returns the parts of a condition between && and ||.
func operands(x ast.Expr) []ast.Expr {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return operands(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			return append(operands(x.X), operands(x.Y)...)
		}
	}
	return []ast.Expr{x}
}

// simple reports whether x can be evaluated twice: a name, a literal, or len of one.
func simple(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident, *ast.BasicLit:
		return true
	case *ast.SelectorExpr:
		return simple(x.X)
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.Ident)
		return ok && f.Name == "len" && simple(x.Args[0])
	}
	return false
}

// isError reports whether x looks like an error that is not nil.
func isError(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.HasPrefix(strings.ToLower(x.Name), "err")
	case *ast.SelectorExpr:
		return strings.HasPrefix(x.Sel.Name, "Err")
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (f.Sel.Name == "Errorf" || f.Sel.Name == "New" && fmt.Sprint(f.X) == "errors")
	}
	return false
}

// rewrite returns the source with its mutants, on the same lines.
func rewrite(source []byte, all []*mutant) []byte {
	type insert struct {
		at   int
		text string
	}
	var inserts []insert
	for _, m := range slices.Backward(all) { // what ends at one place ends inside out
		if !m.dropped {
			inserts = append(inserts, insert{m.to, m.after})
		}
	}
	for _, m := range all {
		if !m.dropped {
			inserts = append(inserts, insert{m.from, fmt.Sprintf(m.before, m.id)})
		}
	}
	slices.SortStableFunc(inserts, func(a, b insert) int { return a.at - b.at })
	var out bytes.Buffer
	at := 0
	for _, i := range inserts {
		out.Write(source[at:i.at])
		out.WriteString(i.text)
		at = i.at
	}
	out.Write(source[at:])
	return out.Bytes()
}
