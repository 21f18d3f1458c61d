package policy

import (
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// surfaces are the packages that authors read, with the most names that each may export: types,
// functions, methods, methods of interfaces, constants and variables.
var surfaces = []struct {
	folder string
	names  int
}{
	{"actor", 250},
	{"workflow", 180},
}

// optionInterfaces is how many kinds of options package actor may have.
const optionInterfaces = 8

// sameRole has the names that packages actor and workflow may both export.
var sameRole = []string{"Context"}

// TestSurfacesStaySmall counts what authors must read.
func TestSurfacesStaySmall(t *testing.T) {
	source := newConstants(root(t))
	for _, s := range surfaces {
		p, err := source.Import(path.Join(module, s.folder))
		if err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				count += 1 + len(methodsOf(o))
			}
		}
		t.Logf("package %s exports %d names", s.folder, count)
		if count > s.names || count < s.names/2 {
			t.Errorf("package %s exports %d names; %d is the most", s.folder, count, s.names)
		}
	}
}

// methodsOf returns the exported methods of a type, also promoted ones if they are of a type that
// is not exported. A type of package host counts there.
func methodsOf(o types.Object) (names []string) {
	if _, ok := o.(*types.TypeName); !ok {
		return nil
	}
	named, ok := types.Unalias(o.Type()).(*types.Named)
	if !ok || strings.HasSuffix(named.Obj().Pkg().Path(), "/host") || strings.HasSuffix(named.Obj().Pkg().Path(), "/handle") {
		return nil
	}
	if i, ok := named.Underlying().(*types.Interface); ok {
		for m := range i.ExplicitMethods() {
			if m.Exported() {
				names = append(names, m.Name())
			}
		}
		return names
	}
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if !m.Obj().Exported() {
			continue
		}
		recv := m.Obj().(*types.Func).Signature().Recv().Type()
		if p, ok := recv.(*types.Pointer); ok {
			recv = p.Elem()
		}
		if of, ok := recv.(*types.Named); ok && (of.Obj() == named.Obj() || !of.Obj().Exported()) {
			names = append(names, m.Obj().Name())
		}
	}
	return names
}

// TestNamesOfAuthorsDoNotCollide compares the packages that a file with a workflow imports.
func TestNamesOfAuthorsDoNotCollide(t *testing.T) {
	source := newConstants(root(t))
	actor, err := source.Import(path.Join(module, "actor"))
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := source.Import(path.Join(module, "workflow"))
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, name := range actor.Scope().Names() {
		o := actor.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		if other := workflow.Scope().Lookup(name); other != nil && !slices.Contains(sameRole, name) {
			t.Errorf("actor.%s and workflow.%s have one name", name, name)
		}
		if strings.HasSuffix(name, "Option") {
			options++
		}
	}
	if options > optionInterfaces {
		t.Errorf("package actor has %d kinds of options; %d is the most", options, optionInterfaces)
	}
}
