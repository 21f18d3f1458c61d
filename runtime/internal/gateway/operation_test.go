package gateway

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// builtinNames reads the names of the built-in methods from the sources of package host.
func builtinNames(t *testing.T) []string {
	t.Helper()
	var names []string
	var decls []ast.Decl
	for _, name := range []string{"builtin.go", "workflow.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "..", "actor", "host", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		decls = append(decls, file.Decls...)
	}
	for _, d := range decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, spec := range decl.Specs {
			for _, value := range spec.(*ast.ValueSpec).Values {
				lit, ok := value.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, ".") {
					continue
				}
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
		}
	}
	return names
}

func TestEveryBuiltinMethodHasItsOperation(t *testing.T) {
	want := make(map[string]serve.Operation)
	for op, names := range map[serve.Operation]string{
		serve.Work:   "queue.receive queue.ack queue.nack queue.extend queue.held",
		serve.Follow: "stream.read",
		serve.Call: "queue.send queue.result queue.stats schedule.list alarm.list " +
			"stream.append stream.close stream.list workflow.start workflow.status workflow.result",
		serve.Operate: "queue.peek queue.delete queue.purge queue.skip queue.dead.list queue.dead.requeue queue.dead.delete " +
			"schedule.set schedule.cancel schedule.trigger schedule.runs alarm.cancel stream.delete connection.list connection.close send.skip send.dead.list send.dead.requeue send.dead.delete " +
			"actor.pause actor.resume actor.wake actor.sleep actor.retry actor.why limits.set limits.reset sql.query sql.exec sql.migrate sql.status " +
			"workflow.cancel workflow.terminate workflow.pause workflow.resume workflow.retry workflow.rewind workflow.history " +
			"workflow.watch workflow.export workflow.import",
	} {
		for name := range strings.FieldsSeq(names) {
			want[name] = op
		}
	}
	names := builtinNames(t)
	if len(names) < 30 {
		t.Fatalf("only %d names were read", len(names))
	}
	for _, name := range names {
		switch op, ok := want[name]; {
		case !ok:
			t.Errorf("%s is new: decide which operation it is", name)
		case OperationOf(name, false) != op:
			t.Errorf("%s is %s, want %s", name, OperationOf(name, false), op)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not built in: %v", want)
	}
	for name, op := range map[string]serve.Operation{"add": serve.Call, "": serve.Call, "actor": serve.Call, "actor.new": serve.Operate, "x.y": serve.Operate} {
		if got := OperationOf(name, false); got != op {
			t.Errorf("%q is %s, want %s", name, got, op)
		}
	}
	for name, op := range map[string]serve.Operation{
		host.SQLQuery: serve.Call, host.SQLExec: serve.Call, host.SQLMigrate: serve.Operate, host.SQLStatus: serve.Operate, host.ActorPause: serve.Operate,
	} {
		if got := OperationOf(name, true); got != op {
			t.Errorf("%s of a type that opens SQL is %s, want %s", name, got, op)
		}
	}
}

func TestThePagesNameTheOperationOfEveryBuiltinMethod(t *testing.T) {
	page := readPage(t, "http.md")
	for _, name := range builtinNames(t) {
		op := OperationOf(name, false)
		row := ""
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, fmt.Sprintf("| `%s` |", op)) {
				row = line
			}
		}
		family, _, _ := strings.Cut(name, ".")
		if !strings.Contains(row, "`"+name+"`") && !strings.Contains(row, "`"+family+".*`") && op != serve.Call {
			t.Errorf("the row of %s does not have %s: %q", op, name, row)
		}
	}
}
