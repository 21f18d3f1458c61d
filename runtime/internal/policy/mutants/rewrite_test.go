//go:build unix

package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

const before = `package p

import "errors"

func init() { println() }

//go:noinline
func directed(a *int) { *a++ }

func f(a, b int, ok bool) (n int, err error) {
	defer close(make(chan int))
	for i := 0; i < b; i++ {
		n += i // a comment
	}
	if _ = a; ok && (a >= len("x") || !ok) { n--; println(a,
		b) }
	switch {
	case ok:
		func() { n = b }()
	}
	if err != nil {
		return 0, err
	}
	panic(errors.New("x"))
}
`

const after = `package p

import "errors"

func init() { println() }

//go:noinline
func directed(a *int) { *a++ }

func f(a, b int, ok bool) (n int, err error) {
	if !mutantOn(1) { defer close(make(chan int)) }
	for i := 0; mutantFlip(2, mutantPick(3, i < b, i <= b)); i++ {
		if !mutantOn(4) { n += i } // a comment
	}
	if _ = a; mutantFlip(5, mutantFlip(6, ok) && (mutantFlip(7, mutantPick(8, a >= len("x"), a > len("x"))) || mutantFlip(9, !ok))) { if !mutantOn(10) { n-- }; if !mutantOn(11) { println(a,
		b) } }
	switch {
	case ok:
		if !mutantOn(12) { func() { if !mutantOn(13) { n = b } }() }
	}
	if mutantFlip(14, err != nil) {
		return 0, mutantNil(15, err)
	}
	panic(errors.New("x"))
}
`

func TestMutantsAreOnTheirLinesAndCompile(t *testing.T) {
	all, err := mutantsOf("p.go", []byte(before))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range all {
		m.id = i + 1
	}
	got := string(rewrite([]byte(before), all))
	if got != after {
		t.Errorf("got\n%s\nwant\n%s", got, after)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, text := range []string{got, fmt.Sprintf(helpers, "p", len(all)+1)} {
		f, err := parser.ParseFile(fset, "", strings.NewReader(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	if _, err := (&types.Config{Importer: importer.ForCompiler(fset, "source", nil)}).Check("p", fset, files, nil); err != nil {
		t.Error(err)
	}
}
