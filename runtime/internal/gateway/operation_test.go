package gateway

import (
	"cmp"
	"regexp"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The page says which operation a built-in method is, by its name or by its family.
func TestEveryBuiltinMethodHasItsOperation(t *testing.T) {
	rows, listed := tableRows(readPage(t, "http.md"), 2), make(map[string]serve.Operation)
	for _, op := range []serve.Operation{serve.Call, serve.Work, serve.Follow, serve.Operate} {
		for _, m := range regexp.MustCompile("`([a-z.]+\\.(?:[a-z]+|\\*))`").FindAllStringSubmatch(rows[string(op)], -1) {
			if listed[m[1]] != "" {
				t.Errorf("the page has %s as %s and as %s", m[1], listed[m[1]], op)
			}
			listed[m[1]] = op
		}
	}
	used := make(map[string]bool)
	for _, m := range method.All() {
		family, _, _ := strings.Cut(m.Name, ".")
		used[m.Name], used[family+".*"] = true, true
		if op := OperationOf(m.Name, 0); op != cmp.Or(listed[m.Name], listed[family+".*"]) {
			t.Errorf("%s is %s, and not so on the page", m.Name, op)
		}
	}
	for name := range listed {
		if !used[name] {
			t.Errorf("the page has %s, which is not built in", name)
		}
	}
	for name, op := range map[string]serve.Operation{"add": serve.Call, "": serve.Call, "actor": serve.Call, "actor.new": serve.Operate, "x.y": serve.Operate} {
		if got := OperationOf(name, 0); got != op {
			t.Errorf("%q is %s, want %s", name, got, op)
		}
	}
	for name, op := range map[string]serve.Operation{
		host.SQLQuery: serve.Call, host.SQLExec: serve.Call, host.SQLMigrate: serve.Operate, host.SQLStatus: serve.Operate, host.ActorPause: serve.Operate,
	} {
		if got := OperationOf(name, host.SQLOpen|host.KVOpen); got != op {
			t.Errorf("%s of a type that opens SQL is %s, want %s", name, got, op)
		}
	}
}
