package method_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
)

// TestTheTableHasEveryNameOfPackageHost compares the rows with the untyped constants of package
// host that have a dot.
func TestTheTableHasEveryNameOfPackageHost(t *testing.T) {
	names := make(map[string]bool)
	for _, name := range []string{"builtin.go", "workflow.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), "../"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Type == nil && len(spec.Values) == 1 {
				lit, _ := spec.Values[0].(*ast.BasicLit)
				if s, err := strconv.Unquote(lit.Value); err == nil && method.BuiltIn(s) {
					names[s] = true
				}
			}
			return true
		})
	}
	if len(names) < 50 {
		t.Fatalf("only %d names were read", len(names))
	}
	for name := range names {
		if r, ok := method.Find(name); !ok || r.Name != name {
			t.Errorf("%s has no row", name)
		}
	}
	if all := method.All(); len(all) != len(names) {
		t.Errorf("%d rows have %d names", len(all), len(names))
	}
}

func TestRowsAreWhole(t *testing.T) {
	for _, r := range method.All() {
		if r.Kind != host.Action && r.Kind != host.Query || !strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s: kind %s, summary %q", r.Name, r.Kind, r.Summary)
		}
		if r.Kind == host.Query && r.Creates {
			t.Errorf("%s is a query and creates actors", r.Name)
		}
		for _, typ := range []reflect.Type{r.Input, r.Output} {
			if typ != nil && typ.Kind() != reflect.Struct {
				t.Errorf("%s takes or returns a %s", r.Name, typ)
			}
		}
		waits := false
		if r.Input != nil {
			for _, f := range reflect.VisibleFields(r.Input) {
				waits = waits || strings.HasPrefix(f.Tag.Get("json"), "wait_ms,")
			}
		}
		if waits != r.Waits {
			t.Errorf("%s waits: %v; its input can say how long: %v", r.Name, r.Waits, waits)
		}
	}
}

// Methods that the table lacks are for operators, so that a method of a later version is not open
// to all.
func TestUnknownMethodsAreForOperators(t *testing.T) {
	const everything = host.SQLOpen | host.KVOpen
	for _, name := range []string{"actor.new", "x.y", "."} {
		r, ok := method.Find(name)
		if ok || r.By(everything) != method.Operators || r.Counted(everything) || r.Creating(everything) || !method.BuiltIn(name) {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
	}
	for _, name := range []string{"", "add", "actor"} {
		if _, ok := method.Find(name); ok || method.BuiltIn(name) {
			t.Errorf("%q is built in", name)
		}
	}
}

// TestTagsOfListsAreTheirLimits compares the tags max of the lists of inputs with the constants
// that are checked later.
func TestTagsOfListsAreTheirLimits(t *testing.T) {
	for _, test := range []struct {
		of    any
		field string
		max   int
	}{
		{kv.GetManyInput{}, "Keys", kv.MaxKeys},
		{kv.ListManyInput{}, "Lists", kv.MaxLists},
		{kv.CommitInput{}, "Checks", kv.MaxChecks},
		{kv.CommitInput{}, "Mutations", kv.MaxMutations},
		{kv.CommitInput{}, "Sends", kv.MaxSends},
		{kv.MergeInput{}, "Keys", kv.MaxKeys},
		{kv.FeedInput{}, "Prefixes", kv.MaxWatchedPrefixes},
		{kv.WatchInput{}, "Keys", kv.MaxWatchedKeys},
		{kv.SetIndexInput{}, "Fields", kv.MaxIndexFields},
		{host.QueueSendInput{}, "Messages", host.MaxQueueBatch},
		{host.QueueAckInput{}, "Receipts", host.MaxQueueBatch},
		{host.QueueNackInput{}, "Receipts", host.MaxQueueBatch},
		{host.QueueExtendInput{}, "Receipts", host.MaxQueueBatch},
		{host.QueueHeldInput{}, "Receipts", host.MaxQueueBatch},
		{host.QueueListInput{}, "IDs", host.MaxQueueBatch},
		{host.QueueSelectInput{}, "IDs", host.MaxQueueBatch},
		{host.SendListInput{}, "IDs", host.MaxQueueBatch},
		{host.SendSelectInput{}, "IDs", host.MaxQueueBatch},
		{host.StreamAppendInput{}, "Items", host.MaxStreamBatch},
	} {
		f, found := reflect.TypeOf(test.of).FieldByName(test.field)
		if !found || f.Tag.Get("max") != strconv.Itoa(test.max) {
			t.Errorf("%T.%s: %q, want %d", test.of, test.field, f.Tag.Get("max"), test.max)
		}
	}
}
