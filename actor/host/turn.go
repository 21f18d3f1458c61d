package host

import (
	"context"
	"database/sql"
	"log/slog"
	"time"
)

// An Identity names one actor.
type Identity struct {
	Type string
	Key  []string
	// ID is the UUID of this life of the actor, from creation to destruction.
	ID string
}

// A Reader has the operations of a query. As a context it ends with the caller's. It is valid until
// the handler returns; reading through it afterwards is an error.
type Reader interface {
	context.Context
	Node

	// Self names the actor.
	Self() Identity
	// Logger logs with the actor's type, key and version as attributes.
	Logger() *slog.Logger
	// Version is the version of the state that is read; during a turn, the version that it will
	// commit.
	Version() uint64
	// Traceparent is the W3C trace context that the call came with, or "".
	Traceparent() string

	// KVGet reads one entry of the actor's key-value store. Keys are packed tuples.
	KVGet(key []byte) (KVEntry, bool, error)
	// KVList reads entries in key order, into a page.
	KVList(q KVQuery, page *KVPage) error
	// KVCount counts the entries whose keys begin with a packed tuple. It is one read for a scope,
	// such as a Map.
	KVCount(prefix []byte) (int64, error)

	// SQL returns the handle of the actor's SQLite database, the same at every call. In a turn it
	// also writes, as part of the commit; in a query it reads the query's version. After the end
	// SQL returns a closed handle.
	SQL() *sql.DB

	// Attribute returns the value of an attribute, by its index in the behavior's Attributes; false
	// means that it has none.
	Attribute(attribute int) (AttributeValue, bool, error)

	// QueueStats counts the messages of a queue.
	QueueStats(queue string) (QueueStats, error)
	// Schedules lists the schedules of one name, or all if name is "", in order of name and
	// instance.
	Schedules(name string) ([]Schedule, error)
	// StreamInfo describes a stream, StreamRead reads the items after a position.
	StreamInfo(stream string) (StreamInfo, error)
	StreamRead(stream string, after uint64, limit int) (StreamPage, error)
	// Connections lists connections in order of their ids, after one of them; limit 0 means 1,000.
	Connections(after string, limit int) ([]ConnectionState, error)
	// Connection returns one connection; false means that there is none.
	Connection(id string) (ConnectionState, bool, error)
	// Caller is the id of the connection that the call came over, or "".
	Caller() string
}

// A Turn has the operations of a handler. Its writes become one commit with the actor's state when
// the handler returns without an error, and are dropped otherwise.
type Turn interface {
	Reader

	// Now is the turn's time: the same for everything that the turn writes.
	Now() time.Time

	// KVPut stores a value with its encoding. A zero expire means that the entry does not expire.
	KVPut(key, value []byte, encoding Encoding, expire time.Time) error
	// KVDelete removes an entry and reports whether there was one.
	KVDelete(key []byte) (bool, error)
	// KVDeleteRange removes the entries with start <= key < end and counts them. A nil end is the
	// end of the store.
	KVDeleteRange(start, end []byte) (int64, error)

	// SetAttribute sets an attribute to a value of its kind. Setting the same value again writes
	// nothing.
	SetAttribute(attribute int, value AttributeValue) error
	// ClearAttribute removes the value of an attribute and reports whether it had one.
	ClearAttribute(attribute int) (bool, error)

	// Emit publishes an event once the turn is durable. event is the index in the behavior's
	// Events, data is JSON.
	Emit(event int, data []byte) error
	// EmitTo publishes an event to some connections: to one if to is not "", otherwise to all
	// subscribed ones except those in except. Lost connections get it if they come back in time.
	EmitTo(event int, data []byte, to string, except []string) error
	// Send queues a one-way call to an action of another actor, or to QueueSend, as part of this
	// turn's commit.
	Send(m *Message) error

	// SetAlarm arms an alarm, replacing one of the same name and instance.
	SetAlarm(a Alarm) error
	// CancelAlarm disarms an alarm and reports whether it was armed.
	CancelAlarm(name, instance string) (bool, error)
	// Alarms lists the armed alarms of one name, or of all names if name is "", in order of name
	// and instance.
	Alarms(name string) ([]Alarm, error)

	// Enqueue sends messages to one of the actor's own queues.
	Enqueue(queue string, messages []Enqueue) ([]Sent, error)
	// SetSchedule sets a schedule, replacing one of the same name and instance, and returns the
	// result. If the rule stays the same, the ticks do too.
	SetSchedule(s Schedule) (Schedule, error)
	// CancelSchedule removes a schedule and its history and reports whether there was one.
	CancelSchedule(name, instance string) (bool, error)
	// StreamAppend appends items, in CBOR, to a stream and returns the sequence of the last.
	// Appending to a closed stream has the error code FailedPrecondition.
	StreamAppend(stream string, items [][]byte) (uint64, error)
	// StreamClose closes a stream: readers end after its last item.
	StreamClose(stream string) error

	// SetConnectionState stores the state of a connection. The error code is NotFound if it is
	// gone.
	SetConnectionState(id string, state []byte) error
	// CloseConnection ends a connection, with a reason for the client, and reports whether there
	// was one. It runs the disconnect hook in this turn.
	CloseConnection(id string, reason *Error) (bool, error)

	// StartRun starts a run of a workflow, as part of the turn. The error code is AlreadyExists if
	// the actor has another run.
	StartRun(s RunStart) (RunStarted, error)
	// ControlRun controls the run, as part of the turn. The error code is NotFound if there is
	// none, and FailedPrecondition, with the reason, if the run does not allow it.
	ControlRun(c RunControl) error

	// Go starts a task when the turn is durable.
	Go(name string, f func(Task) error) error

	// DestroySelf removes the actor and everything it stored when the turn commits.
	DestroySelf()
}

// An Alarm is a durable appointment of an actor with itself.
type Alarm struct {
	// Name is the alarm's contract name, Instance tells alarms of one name apart; it may be "".
	Name, Instance string
	Due            time.Time
	// Payload is CBOR.
	Payload []byte
	// Attempts counts how often the handler has failed.
	Attempts int
}

// A Message is a one-way call: to an action of another actor or to QueueSend, with an input in
// CBOR.
type Message struct {
	Type   string
	Key    []string
	Method string
	Input  []byte
}
