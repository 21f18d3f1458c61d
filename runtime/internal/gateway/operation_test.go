package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

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
	for _, m := range method.All() {
		name := m.Name
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
	for _, m := range method.All() {
		name := m.Name
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
