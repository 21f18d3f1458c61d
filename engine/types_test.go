package engine

import (
	"reflect"
	"strings"
	"testing"
)

// Each package that uses a type of the engine compiles again the generic code that the type
// mentions: see databaseOf. Methods that are not exported count as well, and reflect does not show
// them.
func TestExportedTypesMentionNoGenericOnes(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(way string, of reflect.Type)
	visit = func(way string, of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		if (strings.Contains(of.PkgPath(), "/cockroachdb/") || of.PkgPath() == "internal/sync") && strings.Contains(of.Name(), "[") {
			t.Errorf("%s has the type %v", way, of)
			return
		}
		for m := range of.Methods() {
			visit(way+"."+m.Name, m.Type)
		}
		switch of.Kind() {
		case reflect.Map:
			visit(way, of.Key())
			visit(way, of.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Chan:
			visit(way, of.Elem())
		case reflect.Struct:
			for f := range of.Fields() {
				visit(way+"."+f.Name, f.Type)
			}
		case reflect.Func:
			for in := range of.Ins() {
				visit(way, in)
			}
			for out := range of.Outs() {
				visit(way, out)
			}
		}
	}
	for _, of := range []any{&Store{}, &Space{}, &WriteSet{}, &Snapshot{}, &Aside{}, &Found{}, &Disk{}, &Options{}} {
		visit(reflect.TypeOf(of).Elem().Name(), reflect.TypeOf(of))
	}
}
