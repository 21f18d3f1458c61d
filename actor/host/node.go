package host

import (
	"context"
	"time"
)

// A Node takes calls to actors: a runtime in this process, a client of a remote one, or a running
// turn, which adds its deadline, its trace context and its place in the chain of calls.
type Node interface {
	// Call runs a method and returns when its effects are durable. The error is an *Error.
	Call(ctx context.Context, r *Request) (Reply, error)
	// Lookup describes an actor without waking or creating it. The error code is NotFound if there
	// is none.
	Lookup(ctx context.Context, a Address) (Status, error)
	// List pages through the actors of a type, without waking them.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Destroy runs the actor's destroy hook and removes everything it stored. The error code is
	// NotFound if there is none.
	Destroy(ctx context.Context, a Address) error
}

// An Address names an actor by type and key.
type Address struct {
	Type string   `json:"type"`
	Key  []string `json:"key"`
}

// A Request is one call.
type Request struct {
	Address
	// Method is the name of an action, query or creation; "" with Create only creates.
	Method string
	Codec  Codec
	Input  []byte
	// IdempotencyKey, if not "", makes the reply part of the commit; a repeated request gets the
	// stored reply for 24 hours. It has up to 255 bytes.
	IdempotencyKey string
	// Create demands that the actor does not exist yet, Existing that it does. Otherwise a missing
	// actor is created.
	Create, Existing bool
	// Continues is set if the request continues an earlier one of the same client, such as the next
	// page of a stream that it follows. Limits.CallRate counted the first.
	Continues bool
	// Veiled is set if the caller may not operate the actor. Its workflow run is then shown without
	// the texts of pauses and of errors without a code.
	Veiled bool
	// Traceparent is the W3C trace context of a caller that is not an actor.
	Traceparent string
	// Connection is the id of the connection that the call comes over, set by the runtime.
	Connection string
	// Order, if not nil, places the request among others of the same client.
	Order Order
	// Value replaces Input: a pointer to the input of a built-in method, for a [Local] node and
	// without an IdempotencyKey. Values of applications in it have the Codec. The node then owns
	// the request, and Reply.Value is a pointer to the output.
	Value any
}

// A Local is a Node in the process of its callers, which need not encode the inputs of some
// built-in methods.
type Local interface {
	Node
	// TakesValues marks a node whose Call accepts a Request.Value. It does nothing.
	TakesValues()
}

// An Order runs the requests of one client in the order in which they were sent, although each has
// its own goroutine. A node calls its methods on the goroutine of Call. Calling a method again
// changes nothing. The client's next request waits for Placed, Waits or the return of Call,
// whichever comes first.
type Order interface {
	// Placed is called when the request is in the actor's mailbox, or has the version to read.
	Placed()
	// Reads waits until the requests before this one are answered, except waiting ones. A node
	// calls it before it takes the version that a query reads. It returns false if ctx ends first.
	Reads(ctx context.Context) bool
	// Waits is called when the first attempt of the request found nothing and the request waits.
	Waits()
}

// A Reply is the answer to a request.
type Reply struct {
	Output []byte
	// Value replaces Output for a request with a Value.
	Value any
	// Version is the actor's version that the answer reflects.
	Version uint64
	// Replayed reports whether the answer was stored by an earlier request with the same
	// idempotency key.
	Replayed bool
}

// A State is the state of an actor, for operators.
type State string

// The states of an actor.
const (
	Asleep State = "asleep"
	Awake  State = "awake"
	// Paused: an operator stopped it.
	Paused State = "paused"
	// Failed: the actor could not be woken or keeps crashing. Its data is kept.
	Failed State = "failed"
)

// A Status describes an actor for operators.
type Status struct {
	ID    string   `json:"id"`
	Type  string   `json:"type"`
	Key   []string `json:"key"`
	State State    `json:"state"`
	// Version counts the turns that wrote something, including the runtime's own, such as settling
	// messages or moving alarms. Generation counts the activations that wrote.
	Version    uint64 `json:"version"`
	Generation uint64 `json:"generation"`
	// Keys and Bytes are exact: the number of stored keys, and the sum of keys and values.
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
	// TraceBytes is the size of the stored spans, apart from Bytes. Lists leave it out.
	TraceBytes int64     `json:"trace_bytes,omitempty"`
	Created    time.Time `json:"created"`
	Updated    time.Time `json:"updated"`
	// Attributes are the values by which the actor is found: strings, integers, booleans and times.
	Attributes map[string]any `json:"attributes,omitempty"`
	// Mailbox counts the calls that wait.
	Mailbox int `json:"mailbox"`
	// PendingSends counts waiting messages to other actors, FailedSends messages that were moved
	// aside.
	PendingSends int `json:"pending_sends"`
	FailedSends  int `json:"failed_sends"`
	// Alarms counts armed alarms; NextAlarm is the earliest.
	Alarms    int        `json:"alarms"`
	NextAlarm *time.Time `json:"next_alarm,omitempty"`
	// Failure says why State is Failed.
	Failure *Failure `json:"failure,omitempty"`
	// Pause says why State is Paused.
	Pause *Pause `json:"pause,omitempty"`
	// Run describes the actor's workflow run; nil if it has none.
	Run *RunSummary `json:"run,omitempty"`
	// Limits are the limits that operators have set for the actor.
	Limits *ActorLimits `json:"limits,omitempty"`
	// Connections counts the clients that are connected to this node right now, Tasks the tasks
	// that run.
	Connections int `json:"connections"`
	Tasks       int `json:"tasks"`
}

// A Failure says why an actor does not run.
type Failure struct {
	// Code is the code of the error, and ErrorID names its line in the node's log; "" if the error
	// has none.
	Code    Code   `json:"code,omitempty"`
	ErrorID string `json:"error_id,omitempty"`
	// Reason is the cause in words. For operators it includes the text of a hook or migration;
	// other callers read Public.
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	RetryAt  time.Time `json:"retry_at"`
	// Public is the cause in words for every caller.
	Public string `json:"-" cbor:"-"`
}

// A ListQuery selects actors. All fields are optional.
type ListQuery struct {
	Type string
	// Prefix selects keys that begin with these parts.
	Prefix []string
	// Where has conditions that all hold for the selected actors, such as "plan=pro", "size>1MiB"
	// or "state=failed": the name of a field or attribute, one of = != < <= > >=, and a value. An
	// actor without an attribute meets no condition on it. Without a Type the types are searched
	// one after the other, or all together if Sort is neither key nor empty.
	Where []string
	// Sort is the field or attribute that orders the actors: key, state, size, updated or an
	// attribute. "-" before it reverses the order. Actors of the same value are in the order of
	// their types and keys; actors without the attribute are left out. States are failed, paused,
	// awake, asleep. Size and updated order by steps: an eighth of the size, a minute. Without
	// Sort, the order is that of the index for Where, and of the keys if there is no Where.
	Sort string
	// Limit is 1 to 1,000; 0 means 100. A page of a query with Where may be shorter and have a
	// cursor, because it examines up to 10,000 actors.
	Limit int
	// Cursor continues an earlier page of the same selection.
	Cursor string
	// Brief fills in only ID, Type and Key of each Status. It costs a small part of a full list,
	// which reads rows of each actor.
	Brief bool
}

// A ListPage is one page of actors. Cursor is "" at the end.
type ListPage struct {
	Actors []Status `json:"actors"`
	Cursor string   `json:"cursor,omitempty"`
	// Uncertain names selected actors that the page leaves out because the disk failed before their
	// last commit was durable, even if that commit created or destroyed them. A restart of the node
	// shows what was kept.
	Uncertain []Address `json:"uncertain,omitempty"`
}
