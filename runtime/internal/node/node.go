// Package node composes a node: the kernel, its parts, and the turn and query of handlers. It has
// the only list of parts.
package node

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/admin"
	"github.com/cairn-run/cairn/runtime/internal/part/alarm"
	"github.com/cairn-run/cairn/runtime/internal/part/attribute"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	"github.com/cairn-run/cairn/runtime/internal/part/kv"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	kvvalue "github.com/cairn-run/cairn/runtime/internal/part/kv/value"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	"github.com/cairn-run/cairn/runtime/internal/part/queue"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
	"github.com/cairn-run/cairn/runtime/internal/part/schedule"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
	"github.com/cairn-run/cairn/runtime/internal/part/state"
	"github.com/cairn-run/cairn/runtime/internal/part/stream"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
	"github.com/cairn-run/cairn/runtime/internal/part/token"
	"github.com/cairn-run/cairn/runtime/internal/part/trace"
	"github.com/cairn-run/cairn/runtime/internal/part/usage"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Options configure a node: its kernel, and its parts.
type Options struct {
	options.Options
	// SQL bounds the connections of the actors' SQLite databases.
	SQL sqlite.Options
	// Traces says which operations of actors are recorded.
	Traces trace.Options
	// UsageOff turns off the counts of what actors do.
	UsageOff bool
	// Audit says how long the records of operators' verbs are kept.
	Audit audit.Options
	// Parts are additional to the parts of every node.
	Parts []kernel.Part
}

// Parts lists the capabilities of actors.
func Parts(o *Options) []kernel.Part {
	runs, letters := run.New(), mail.New()
	o.Audit.JSON = func(cbor []byte) ([]byte, error) {
		return kvvalue.Value{Encoding: host.EncodedCBOR, Data: cbor}.AppendJSON(nil)
	}
	letters.Handle(host.QueueSend, mail.MessageHandler{Check: queue.CheckSend, Handle: queue.TakeSend})
	run.HandleMessages(letters)
	parts := []kernel.Part{
		kv.New(queue.Send, kv.Database{Write: sqlite.WriteReserved, Read: sqlite.ReadReserved},
			stream.Own(kvrows.LogName)), alarm.New(), schedule.New(), queue.New(runs, kv.Keep),
		sqlite.New(o.SQL, kv.Imported), new(stream.Part), new(event.Part), new(conn.Part),
		letters, task.New(appendItems), runs, new(admin.Part), token.New(), &usage.Part{Off: o.UsageOff}, new(attribute.Part), new(state.Part), audit.New(o.Audit),
	}
	return append(append(parts, trace.New(o.Traces)...), o.Parts...)
}

// appendItems appends to a stream for a task.
func appendItems(t *kernel.Turn, name string, items [][]byte) (uint64, error) {
	return stream.Append(t.Core, t, name, items)
}

// The names under which the parts' views of a turn and of a query are embedded.
type (
	alarmTurn    = alarm.Turn
	kvTurn       = kv.Turn
	scheduleTurn = schedule.Turn
	streamTurn   = stream.Turn
	queueTurn    = queue.Turn
	eventTurn    = event.Turn
	connTurn     = conn.Turn
	mailTurn     = mail.Turn
	sqliteTurn   = sqlite.Turn
	taskTurn     = task.Turn
	runTurn      = run.Turn

	kvQuery       = kv.Query
	scheduleQuery = schedule.Query
	streamQuery   = stream.Query
	connQuery     = conn.Query
	queueQuery    = queue.Query
	sqliteQuery   = sqlite.Query
)

// A handlerTurn is the turn of a handler, with the methods of each part.
type handlerTurn struct {
	kernel.Turn
	alarmTurn
	kvTurn
	scheduleTurn
	streamTurn
	queueTurn
	eventTurn
	connTurn
	mailTurn
	sqliteTurn
	taskTurn
	runTurn
}

var (
	_ host.RunTurn    = (*handlerTurn)(nil)
	_ kernel.Observer = (*handlerTurn)(nil)
)

// Lookup implements host.Node.
func (h *handlerTurn) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return survey.Lookup(h.Actor.Kernel, ctx, a)
}

// List implements host.Node.
func (h *handlerTurn) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return survey.List(h.Actor.Kernel, ctx, q)
}

// attributes is not a field, which would put a turn into the next size class of the allocator.
func (h *handlerTurn) attributes() attribute.Turn { return attribute.Turn{K: &h.Turn} }

// Attribute implements host.Reader.
func (h *handlerTurn) Attribute(i int) (host.AttributeValue, bool, error) {
	return h.attributes().Attribute(i)
}

// SetAttribute implements host.Turn.
func (h *handlerTurn) SetAttribute(i int, value host.AttributeValue) error {
	return h.attributes().SetAttribute(i, value)
}

// ClearAttribute implements host.Turn.
func (h *handlerTurn) ClearAttribute(i int) (bool, error) { return h.attributes().ClearAttribute(i) }

// newTurn makes a turn with the view of it that handlers get.
func newTurn() *kernel.Turn {
	h := new(handlerTurn)
	t := &h.Turn
	t.Host = h
	h.alarmTurn.K, h.kvTurn.K, h.scheduleTurn.K, h.streamTurn.K, h.queueTurn.K, h.eventTurn.K = t, t, t, t, t, t
	h.connTurn.K, h.mailTurn.K, h.sqliteTurn.K, h.taskTurn.K, h.runTurn.K = t, t, t, t, t
	return t
}

// A handlerQuery is the view of a query's handler.
type handlerQuery struct {
	call.Query
	kvQuery
	scheduleQuery
	streamQuery
	connQuery
	queueQuery
	sqliteQuery
}

var _ host.Reader = (*handlerQuery)(nil)

// Lookup implements host.Node.
func (h *handlerQuery) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return survey.Lookup(h.Actor.Kernel, ctx, a)
}

// List implements host.Node.
func (h *handlerQuery) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return survey.List(h.Actor.Kernel, ctx, q)
}

// Attribute implements host.Reader. It is no field, as in a turn.
func (h *handlerQuery) Attribute(i int) (host.AttributeValue, bool, error) {
	return attribute.Query{K: &h.Query}.Attribute(i)
}

// newQuery makes a query with the view of its handler.
func newQuery() call.HandlerQuery {
	h := new(handlerQuery)
	q := &h.Query
	h.kvQuery.K, h.scheduleQuery.K, h.streamQuery.K, h.connQuery.K, h.queueQuery.K, h.sqliteQuery.K = q, q, q, q, q, q
	return h
}
