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
			errorIf(t, listed[m[1]] != "", "the page has %s as %s and as %s", m[1], listed[m[1]], op)
			listed[m[1]] = op
		}
	}
	used := make(map[string]bool)
	for _, m := range method.All() {
		family, _, _ := strings.Cut(m.Name, ".")
		used[m.Name], used[family+".*"] = true, true
		same(t, OperationOf(m.Name, 0), cmp.Or(listed[m.Name], listed[family+".*"]), m.Name)
	}
	for name := range listed {
		errorIf(t, !used[name], "the page has %s, which is not built in", name)
	}
	for name, op := range map[string]serve.Operation{"add": serve.Call, "": serve.Call, "actor": serve.Call, "actor.new": serve.Operate, "x.y": serve.Operate} {
		same(t, OperationOf(name, 0), op, name)
	}
	for name, op := range map[string]serve.Operation{
		host.SQLQuery: serve.Call, host.SQLExec: serve.Call, host.SQLMigrate: serve.Operate, host.SQLStatus: serve.Operate, host.ActorPause: serve.Operate,
	} {
		same(t, OperationOf(name, host.SQLOpen|host.KVOpen), op, name)
	}
}
