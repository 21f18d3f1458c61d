package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/doc"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// exampled are the packages whose exported identifiers all appear in an example, except those of
// some files.
var exampled = []struct{ pkg, except, why string }{
	{pkg: "actor"},
	{pkg: "workflow"},
	{pkg: "actor/kv", except: "bridge.go", why: "package actor and gateways alone call its functions"},
	{pkg: "actor/handle", except: "bridge.go", why: "package actor alone can call its functions"},
}

// programs is the folder of the programs whose output their tests check.
const programs = "docs/examples"

// TestEachIdentifierHasAnExample finds the exported types, functions, methods and constants that no
// example shows: neither the file of an Example function with output, nor one of the programs. A
// type is also shown by a value of the type and by a call that takes or returns it, a method also
// by a call that takes its receiver as an interface with the method.
func TestEachIdentifierHasAnExample(t *testing.T) {
	l := loadExamples(t)
	shown := make(map[string]bool)
	for _, p := range l.packages {
		l.show(t, p, shown)
	}
	for _, e := range exampled {
		names := l.exported(t, e.pkg, e.except)
		if len(names) < 10 {
			t.Errorf("%s has only %d exported identifiers", e.pkg, len(names))
		}
		for _, name := range names {
			if !shown[name] {
				t.Errorf("no example shows %s", name)
			}
		}
	}
}

// A listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir, Export, ForTest string
	GoFiles                          []string
	ImportMap                        map[string]string
	DepOnly                          bool
}

type exampleLoader struct {
	files    *token.FileSet
	exports  map[string]string
	packages []*listed // those with examples
}

func loadExamples(t *testing.T) *exampleLoader {
	t.Helper()
	args := append([]string{"list"}, raceFlag()...)
	args = append(args, "-test", "-export", "-deps", "-json=ImportPath,Dir,Export,ForTest,GoFiles,ImportMap,DepOnly", "./"+programs+"/...")
	for _, e := range exampled {
		args = append(args, "./"+e.pkg)
	}
	cmd := exec.Command("go", args...)
	var fault bytes.Buffer
	cmd.Dir, cmd.Stderr = root(t), &fault
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &fault)
	}
	l := &exampleLoader{files: token.NewFileSet(), exports: make(map[string]string)}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return l
		} else if err != nil {
			t.Fatal(err)
		}
		l.exports[p.ImportPath] = p.Export
		name, _, _ := strings.Cut(p.ImportPath, " ")
		program := strings.HasPrefix(p.ImportPath, module+"/"+programs) && p.ForTest == "" && !strings.HasSuffix(name, ".test")
		if !p.DepOnly && (program || strings.HasSuffix(name, "_test") && !strings.HasPrefix(p.ForTest, module+"/"+programs)) {
			l.packages = append(l.packages, p)
		}
	}
}

// raceFlag has the go command use the packages that this test was compiled with, instead of
// compiling all of them again.
func raceFlag() (flags []string) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		flags = append(flags, "-race")
	}
	return flags
}

// importer reads what the compiler wrote of the packages that p imports.
func (l *exampleLoader) importer(p *listed) types.Importer {
	return importer.ForCompiler(l.files, "gc", func(path string) (io.ReadCloser, error) {
		if to := p.ImportMap[path]; to != "" {
			path = to
		}
		return os.Open(l.exports[path])
	})
}

// exported returns the exported identifiers of a package, apart from those of one file.
func (l *exampleLoader) exported(t *testing.T, pkg, except string) (names []string) {
	t.Helper()
	p, err := l.importer(new(listed)).Import(module + "/" + pkg)
	if err != nil {
		t.Fatal(err)
	}
	add := func(o types.Object) {
		if o.Exported() && filepath.Base(l.files.Position(o.Pos()).Filename) != except {
			names = append(names, nameOf(o))
		}
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		add(o)
		if _, ok := o.(*types.TypeName); !ok || !o.Exported() {
			continue
		}
		if named, ok := o.Type().(*types.Named); ok {
			for m := range named.Methods() {
				if name := m.Name(); name != "Error" && name != "String" { // fmt calls them
					add(m)
				}
			}
		}
	}
	return names
}

// show adds what the examples of a package show.
func (l *exampleLoader) show(t *testing.T, p *listed, shown map[string]bool) {
	t.Helper()
	var parsed, examples []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(l.files, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		if p.ForTest == "" || slices.ContainsFunc(doc.Examples(f), func(e *doc.Example) bool { return e.Output != "" }) {
			examples = append(examples, f)
		}
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object), Types: make(map[ast.Expr]types.TypeAndValue)}
	check := types.Config{Importer: l.importer(p)}
	if _, err := check.Check(p.ImportPath, l.files, parsed, info); err != nil {
		t.Fatal(err)
	}
	s := shower{info, shown, make(map[types.Type]bool)}
	for _, f := range examples {
		ast.Inspect(f, s.visit)
	}
}

type shower struct {
	*types.Info
	shown map[string]bool
	seen  map[types.Type]bool
}

func (s *shower) visit(n ast.Node) bool {
	if id, ok := n.(*ast.Ident); ok && s.Uses[id] != nil {
		s.shown[nameOf(s.Uses[id])] = true
	}
	if e, ok := n.(ast.Expr); ok {
		s.typ(s.Types[e].Type)
	}
	if c, ok := n.(*ast.CallExpr); ok {
		if f, ok := s.Types[c.Fun].Type.(*types.Signature); ok {
			for i := range min(len(c.Args), f.Params().Len()) {
				s.methods(s.Types[c.Args[i]].Type, f.Params().At(i).Type())
			}
		}
	}
	return true
}

// methods shows the methods of a value that becomes an interface.
func (s *shower) methods(from, to types.Type) {
	if it, ok := to.Underlying().(*types.Interface); ok && !types.IsInterface(from) {
		for m := range it.Methods() {
			if o, _, _ := types.LookupFieldOrMethod(from, true, m.Pkg(), m.Name()); o != nil {
				s.shown[nameOf(o)] = true
			}
		}
	}
}

// typ shows a type and what it consists of.
func (s *shower) typ(t types.Type) {
	if t == nil || s.seen[t] {
		return
	}
	s.seen[t] = true
	list := func(l *types.TypeList) {
		for a := range l.Types() {
			s.typ(a)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		s.shown[nameOf(t.Obj())] = true
		list(t.TypeArgs())
		s.typ(t.Rhs())
	case *types.Named:
		s.shown[nameOf(t.Obj())] = true
		list(t.TypeArgs())
	case *types.Signature:
		s.typ(t.Params())
		s.typ(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			s.typ(v.Type())
		}
	case *types.Interface:
		for e := range t.EmbeddedTypes() {
			s.typ(e)
		}
	case interface{ Elem() types.Type }: // pointers, slices, arrays, maps, channels
		s.typ(t.Elem())
	}
}

// nameOf returns the package's path and the name of an object, after that of the receiver's type if
// it is a method; "" for what no package declares by a name of its own.
func nameOf(o types.Object) string {
	if o.Pkg() == nil {
		return ""
	}
	name := o.Pkg().Path() + "."
	if f, ok := o.(*types.Func); ok {
		if recv := f.Origin().Signature().Recv(); recv != nil {
			of := recv.Type()
			if p, ok := of.(*types.Pointer); ok {
				of = p.Elem()
			}
			named, ok := of.(*types.Named)
			if !ok {
				return ""
			}
			name += named.Obj().Name() + "."
		}
	} else if o.Parent() != nil && o.Parent() != o.Pkg().Scope() {
		return ""
	}
	return name + o.Name()
}
