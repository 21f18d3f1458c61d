package host

import (
	"time"
)

// A MethodKind says what a method may do and what starts it.
type MethodKind uint8

// The kinds of methods.
const (
	// Action may read and write; it is a turn.
	Action MethodKind = iota + 1
	// Query reads a committed state and takes no turn.
	Query
	// Creation runs once, in the turn that creates an actor by an explicit create with input.
	Creation
)

// String returns the kind's name as it stands in documentation and logs.
func (k MethodKind) String() string {
	switch k {
	case Action:
		return "action"
	case Query:
		return "query"
	case Creation:
		return "creation"
	}
	return "unknown"
}

// A Method is one callable name of a behavior.
type Method struct {
	// Name is unique within the behavior.
	Name string
	Kind MethodKind
	// Handler is the Go function that implements the method, for logs and the watchdog's report.
	Handler string
}

// An AlarmMethod is one alarm that a behavior handles.
type AlarmMethod struct {
	Name    string
	Handler string
}

// An Event is one kind of event that a behavior emits.
type Event struct {
	Name string
	// Durable is set if a full outbox refuses a commit that emits the event, instead of dropping
	// the event.
	Durable bool
	// Subscribe names, for logs, the hook that runs before a client is subscribed; with "" every
	// client may subscribe. An event with a hook is delivered to connections only, and not to
	// anonymous subscribers.
	Subscribe string
}

// A ValueKind selects a value of a behavior for Convert and Schema.
type ValueKind uint8

// The values of a behavior; the index counts within Methods, Events, Alarms, Queues, Schedules,
// Streams or Workflows.
const (
	MethodInput ValueKind = iota + 1
	MethodOutput
	EventValue
	AlarmPayload
	QueueBody
	QueueReplyValue
	SchedulePayload
	StreamValue
	ConnectParams // index 0
	WorkflowInput
	WorkflowOutput
)

// Limits bound one actor of a type. A zero field means the default of the runtime, which its
// Options state.
type Limits struct {
	// TurnTimeout bounds one turn. The turn's context ends then; a handler that does not return is
	// reported and abandoned.
	TurnTimeout time.Duration
	// QueryTimeout bounds one query. The query's context ends then, which interrupts its SQL and
	// its waits.
	QueryTimeout time.Duration
	// MailboxCount and MailboxBytes bound the calls that wait, and the sum of their inputs.
	MailboxCount int
	MailboxBytes int64
	// StateBytes bounds the encoded state.
	StateBytes int
	// ValueBytes bounds one value of the key-value store; up to 16 MiB.
	ValueBytes int
	// StorageBytes bounds what the actor stores in all: keys plus values.
	StorageBytes int64
	// WriteSetBytes bounds what one turn writes.
	WriteSetBytes int
	// SQLMemoryBytes bounds the heap of one connection to the actor's SQLite database, and
	// SQLTemporaryBytes its temporary files; both at most what the node allows. SQLTurnBytes bounds
	// the pages that one turn changes, SQLValueBytes one string, blob or row.
	SQLMemoryBytes    int64
	SQLTemporaryBytes int64
	SQLTurnBytes      int64
	SQLValueBytes     int
	// EventHistory is how many emitted events are kept for subscribers that resume. Negative keeps
	// none.
	EventHistory int
	// SendAttempts is how often a message to another actor is tried before it becomes a dead
	// letter.
	SendAttempts int
	// CallRate bounds calls from outside per second, after a burst of CallBurst; 0 does not bound
	// them. Built-in methods count like the actor's own. Calls of other actors, methods for
	// operators, and a worker's calls about received messages are not counted.
	CallRate  float64
	CallBurst int
	// Connections bounds the clients that are connected or may come back.
	Connections int
	// ConnectionBytes bounds the memory for one client that does not read; beyond it the client is
	// cut off.
	ConnectionBytes int
	// ConnectionGrace is how long a lost client may take to come back before its connection ends.
	ConnectionGrace time.Duration
	// TaskGrace is how long tasks may take to return when the actor goes to sleep.
	TaskGrace time.Duration
}

// A Behavior is one actor type's code: its description for a runtime and the functions to run it.
// It is immutable once handed to a runtime, and all its functions may be called from many
// goroutines.
type Behavior struct {
	// Type is the actor type's name: 1 to 64 characters, a letter first, then letters, digits, "-"
	// and "_".
	Type string
	// StateVersion is the version that Save writes. Load gets the version that it reads.
	StateVersion uint64
	// Methods, Alarms and Events are addressed by their index.
	Methods []Method
	Alarms  []AlarmMethod
	Events  []Event
	// Queues, Schedules and Streams are, too. At most one of each has the name AnyName.
	Queues    []Queue
	Schedules []ScheduleMethod
	Streams   []Stream
	// Maps are the maps that bound or count their entries.
	Maps []Map
	// Attributes are the values by which actors are found, addressed by their index.
	Attributes []Attribute
	// Workflows are the workflows that actors can run.
	Workflows []Workflow
	// Connections are the connection hooks. The zero value has none, and every client may connect.
	Connections ConnectionMethods
	// IdleTimeout is how long an awake actor stays in memory unused. 0 means the runtime's default.
	// If it is negative, only memory pressure and shutdown put the actor to sleep.
	IdleTimeout time.Duration
	Limits      Limits
	// HasSleep reports whether Instance.Sleep does something, so that going to sleep takes a turn.
	HasSleep bool
	// HasWake reports whether Instance.Wake does something. If it is false, Wake is called only in
	// a turn that creates the actor or migrates its state.
	HasWake bool
	// SharedState reports whether many queries may read one decoded state. A query handler then
	// gets a copy that shares no changeable memory with it. Otherwise each query decodes its own.
	SharedState bool
	// Migrations are the schema of the actors' SQLite databases.
	Migrations []Migration
	// OpenSQL opens sql.query and sql.exec to all callers of the actor; otherwise they are for
	// operators.
	OpenSQL bool
	// OpenKV opens the methods kv.* in the same way.
	OpenKV bool
	// SQLDecimal allows SQLite's functions of exact decimals.
	SQLDecimal bool
	// New makes the instance of an actor that wakes.
	New func() Instance
	// Decode reads a stored state for queries; the result is handed to Query. A nil blob is a state
	// never saved.
	Decode func(version uint64, blob []byte) (any, error)
	// Query runs query method on a decoded state, decodes input and appends the encoded output to
	// out.
	Query func(r Reader, method int, state any, codec Codec, input, out []byte) ([]byte, error)
	// Convert decodes a value and appends it in another encoding, or in the same to check it. The
	// error describes the fault of the value and may be shown to its sender. A nil Convert accepts
	// no values.
	Convert func(kind ValueKind, index int, from Codec, value []byte, to Codec, out []byte) ([]byte, error)
	// Schema returns the JSON Schema (2020-12) of a value's JSON form, or nil if it has none. A nil
	// Schema has none.
	Schema func(kind ValueKind, index int) []byte
}

// A Map is the entries of the key-value store whose keys begin with its name. Their count is kept.
// A zero field bounds nothing.
type Map struct {
	Name string
	// Keys and Bytes bound the entries, and the bytes of their keys and values.
	Keys, Bytes int64
	// TTL is the time to live of entries that are put without one.
	TTL time.Duration
	// Log keeps the changes of entries in the log of the actor; LogEvents, LogBytes and LogFor
	// bound it.
	Log                 bool
	LogEvents, LogBytes int64
	LogFor              time.Duration
	// Handler is the name of the code that handles the changes of entries, "" for none. The map
	// needs Log.
	Handler string
}

// A KVChange is a change of an entry of a map.
type KVChange struct {
	// Sequence is its position in the log of the actor, and Version the version of its commit.
	Sequence, Version uint64
	Time              time.Time
	// Cause is set, delete, delete_range or expired.
	Cause string
	// Key is packed, with the name of the map. Value is the value of a set, and Expire when it
	// expires; zero for never.
	Key, Value []byte
	Expire     time.Time
	// Missed counts earlier changes, of all entries, that the log no longer had.
	Missed uint64
}

// Open is the set of operators' methods that a type opens to its callers.
type Open uint8

// A type may open its actors' databases, and their key-value stores.
const (
	SQLOpen Open = 1 << iota
	KVOpen
)

// Open returns the methods that the type opens to its callers.
func (b *Behavior) Open() (o Open) {
	if b.OpenSQL {
		o |= SQLOpen
	}
	if b.OpenKV {
		o |= KVOpen
	}
	return o
}

// An Instance is one awake actor's state in memory and the handlers bound to it. The runtime calls
// it from one goroutine at a time. If a handler returns an error or panics, the runtime calls Load
// again with the last committed state before anything else.
type Instance interface {
	// Load replaces the state by the one in blob, and migrates it if version is older than the
	// behavior's. A nil blob is a new actor. A newer version is an *Error with code StateTooNew.
	Load(version uint64, blob []byte) error
	// Save appends the encoded state to dst. Equal states encode to equal bytes.
	Save(dst []byte) ([]byte, error)
	// Act runs an action or creation method, decodes input and appends the encoded output to out.
	Act(t Turn, method int, codec Codec, input, out []byte) ([]byte, error)
	// Alarm runs the handler of an alarm that is due.
	Alarm(t Turn, alarm int, instance string, payload []byte) error
	// Message runs the handler of a queue and appends its reply, in CBOR, to out.
	Message(t Turn, queue int, m *Received, out []byte) ([]byte, error)
	// Schedule runs the handler of a schedule.
	Schedule(t Turn, schedule int, tick *Tick, payload []byte) error
	// Change runs the handler of the changes of a map, by its index in Behavior.Maps.
	Change(t Turn, kvMap int, c *KVChange) error
	// Connect runs the connect hook, which may refuse. params is JSON; c.State and c.Params will be
	// stored, and the hook may set them.
	Connect(t Turn, c *ConnectionState, params []byte) error
	// Disconnect runs the disconnect hook; the connection is no longer listed. cause is nil if the
	// client ended it. It does not run when the actor is destroyed; Destroy runs instead.
	Disconnect(t Turn, c *ConnectionState, cause *Error) error
	// Subscribe runs the hook of an event, which may refuse the subscription of a connection.
	Subscribe(t Turn, event int, c *ConnectionState) error
	// State returns the instance's own state, in the form of Behavior.Decode, for turns of tasks
	// and workflows.
	State() any
	// Create, Wake, Sleep and Destroy run the lifecycle hooks; a hook that is not set does nothing.
	Create(t Turn) error
	Wake(t Turn) error
	Sleep(t Turn) error
	Destroy(t Turn) error
}

// A Codec is the encoding of an input or output.
type Codec uint8

// The codecs. Calls between actors in a process use CBOR, the gateways JSON.
const (
	CBOR Codec = iota + 1
	JSON
)

// String returns the codec's media type.
func (c Codec) String() string {
	switch c {
	case CBOR:
		return "application/cbor"
	case JSON:
		return "application/json"
	}
	return "unknown"
}
