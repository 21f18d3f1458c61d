package host

import "time"

// The built-in methods of every actor. They are called like any other, over every gateway, with the
// inputs and outputs of this file as JSON or CBOR. Their names have a dot, which names of
// behaviors' methods cannot have. Package method has their table.
//
// Values of the application (bodies, items, payloads) are Raw: in the encoding of the request,
// checked and converted by the behavior's type. Times are RFC 3339, spans milliseconds. Unknown
// members are refused.
//
// The tag range bounds a member that a request has. A request without the member, and 0 in Go,
// means the default.
const (
	QueueSend        = "queue.send"
	QueueReceive     = "queue.receive"
	QueueAck         = "queue.ack"
	QueueNack        = "queue.nack"
	QueueExtend      = "queue.extend"
	QueueHeld        = "queue.held"
	QueueResult      = "queue.result"
	QueueStatsMethod = "queue.stats"
	QueuePeek        = "queue.peek"
	QueueDelete      = "queue.delete" // all is queue.purge
	QueuePurge       = "queue.purge"  // messages that wait, except messages that workers hold
	QueueSkip        = "queue.skip"
	QueueDeadList    = "queue.dead.list"
	QueueDeadRequeue = "queue.dead.requeue"
	QueueDeadDelete  = "queue.dead.delete"
	QueueReplace     = "queue.replace"

	ScheduleSet     = "schedule.set"
	ScheduleCancel  = "schedule.cancel"
	ScheduleTrigger = "schedule.trigger"
	ScheduleList    = "schedule.list"
	ScheduleRuns    = "schedule.runs"

	AlarmList   = "alarm.list"
	AlarmCancel = "alarm.cancel"
	AlarmRun    = "alarm.run"

	KVGet      = "kv.get"
	KVGetMany  = "kv.get_many"
	KVList     = "kv.list"
	KVListMany = "kv.list_many"
	KVCount    = "kv.count"
	KVSample   = "kv.sample"
	KVCommit   = "kv.commit"
	KVWatch    = "kv.watch"
	KVFeed     = "kv.feed"

	KVScopes      = "kv.scopes"
	KVGroups      = "kv.groups"
	KVSetScope    = "kv.set_scope"
	KVRemoveScope = "kv.remove_scope"

	KVHistory      = "kv.history"
	KVFork         = "kv.fork"
	KVBranches     = "kv.branches"
	KVRemoveBranch = "kv.remove_branch"
	KVDiff         = "kv.diff"
	KVMerge        = "kv.merge"
	KVPin          = "kv.pin"
	KVUnpin        = "kv.unpin"

	KVSetIndex    = "kv.set_index"
	KVRemoveIndex = "kv.remove_index"
	KVIndexes     = "kv.indexes"
	KVSearch      = "kv.search"

	KVRender = "kv.render"
	KVPurge  = "kv.purge"

	TokenCreate = "token.create"
	TokenList   = "token.list"
	TokenRevoke = "token.revoke"

	TraceRead = "trace.read"
	UsageGet  = "usage.get"

	StreamAppend = "stream.append"
	StreamClose  = "stream.close"
	StreamDelete = "stream.delete" // the sequence goes on
	StreamRead   = "stream.read"
	StreamList   = "stream.list"

	ConnectionList  = "connection.list"
	ConnectionClose = "connection.close"

	ActorPause  = "actor.pause"
	ActorResume = "actor.resume" // counts 1 if it was paused
	ActorWake   = "actor.wake"
	ActorSleep  = "actor.sleep"
	ActorRetry  = "actor.retry" // counts 1 if it had failed
	ActorWhy    = "actor.why"
	LimitsSet   = "limits.set"   // sets the members that are given
	LimitsReset = "limits.reset" // counts how many were set
	SendSkip    = "send.skip"

	SendDeadList    = "send.dead.list"
	SendDeadRequeue = "send.dead.requeue" // as new messages
	SendDeadDelete  = "send.dead.delete"

	SQLQuery   = "sql.query"
	SQLExec    = "sql.exec"    // logged with its reason
	SQLMigrate = "sql.migrate" // wakes nothing if it is a dry run
	SQLStatus  = "sql.status"
)

// QueueSendInput sends messages, all or none.
type QueueSendInput struct {
	Queue string `json:"queue"`
	// Messages are 1 to MaxQueueBatch.
	Messages []QueueMessageInput `json:"messages" max:"1000"`
}

// QueueMessageInput is a message to send.
type QueueMessageInput struct {
	Body     Raw    `json:"body"`
	DelayMS  int64  `json:"delay_ms,omitempty"`
	Priority int    `json:"priority,omitempty"`
	DedupID  string `json:"dedup_id,omitempty"`
	// TTLMS is at least 1; absent is no limit.
	TTLMS *int64 `json:"ttl_ms,omitempty"`
	// BackoffMS overrides the queue's pauses; absent does not, empty means one attempt.
	BackoffMS []int64 `json:"backoff_ms,omitzero" max:"100"`
	// KeysIfUndelivered are keys of the key-value store: arrays of strings, numbers and booleans.
	KeysIfUndelivered [][]any `json:"keys_if_undelivered,omitempty" max:"10"`
	WantReply         bool    `json:"want_reply,omitempty"`
}

// QueueSendOutput has a result for each message.
type QueueSendOutput struct {
	Messages []Sent `json:"messages"`
}

// QueueReceiveInput takes messages out and locks them.
type QueueReceiveInput struct {
	Queue string `json:"queue"`
	// Limit is 1 to MaxQueueBatch; absent means 1.
	Limit int `json:"limit,omitempty" range:"1,1000"`
	// LockMS is how long they are locked, at least 1; absent means the queue's time.
	LockMS int64 `json:"lock_ms,omitempty" range:"1,2592000000"`
	// WaitMS is how long to wait for the first message, up to 60,000; 0 does not wait.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// ReceivedMessage is a received message in the request's encoding.
type ReceivedMessage struct {
	ID        uint64    `json:"id"`
	Queue     string    `json:"queue"`
	Body      Raw       `json:"body"`
	Attempt   int       `json:"attempt"`
	Priority  int       `json:"priority,omitempty"`
	Sent      time.Time `json:"sent"`
	DedupID   string    `json:"dedup_id,omitempty"`
	WantReply bool      `json:"want_reply,omitempty"`
	// Traceparent is the W3C trace context of the sender, if it is recorded.
	Traceparent string    `json:"traceparent,omitempty"`
	Receipt     string    `json:"receipt"`
	LockedUntil time.Time `json:"locked_until"`
}

// QueueReceiveOutput has no messages if none arrived in time.
type QueueReceiveOutput struct {
	Messages []ReceivedMessage `json:"messages"`
}

// QueueAckInput says that messages are done.
type QueueAckInput struct {
	Queue    string   `json:"queue"`
	Receipts []string `json:"receipts" max:"1000"`
	// Reply goes to the senders that want one.
	Reply Raw `json:"reply,omitempty"`
}

// QueueNackInput gives messages back, each as a failed attempt.
type QueueNackInput struct {
	Queue    string   `json:"queue"`
	Receipts []string `json:"receipts" max:"1000"`
	// DelayMS overrides the pause before the next attempt; absent does not.
	DelayMS *int64 `json:"delay_ms,omitempty"`
	// Error is kept with the message, up to 1,024 bytes.
	Error string `json:"error,omitempty"`
	// Dead makes them dead letters at once.
	Dead bool `json:"dead,omitempty"`
}

// QueueSettleOutput counts the settled messages and names the receipts that are no longer valid:
// their lock expired, and the message is with another worker, in the queue again, or gone. These
// receipts had no effect.
type QueueSettleOutput struct {
	Settled int      `json:"settled"`
	Lost    []string `json:"lost,omitempty"`
}

// QueueExtendInput locks messages for longer, counted from now.
type QueueExtendInput struct {
	Queue    string   `json:"queue"`
	Receipts []string `json:"receipts" max:"1000"`
	LockMS   int64    `json:"lock_ms,omitempty" range:"1,2592000000"`
}

// QueueExtendOutput has the new end of the locks, except of lost messages.
type QueueExtendOutput struct {
	LockedUntil time.Time `json:"locked_until"`
	Lost        []string  `json:"lost,omitempty"`
}

// QueueHeldInput asks which receipts are still valid.
type QueueHeldInput struct {
	Queue    string   `json:"queue"`
	Receipts []string `json:"receipts" max:"1000"`
	// WaitMS is how long to wait until one of them is no longer valid, up to 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// QueueHeldOutput names the valid receipts: they still lock their messages.
type QueueHeldOutput struct {
	Held []string `json:"held"`
}

// QueueResultInput asks for the result of a message that was sent with WantReply.
type QueueResultInput struct {
	Queue string `json:"queue"`
	ID    uint64 `json:"id"`
	// WaitMS is how long to wait for it, up to 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// QueueResultOutput is the result of a message. The error code is NotFound if the message is
// unknown or its reply no longer kept.
type QueueResultOutput struct {
	Done bool `json:"done"`
	// Reply is the reply of the handler or worker; Error is why the message became a dead letter.
	Reply Raw    `json:"reply,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// QueueInput names a queue.
type QueueInput struct {
	Queue string `json:"queue"`
}

// QueueStatsInput names a queue, or "" for all of the actor.
type QueueStatsInput struct {
	Queue string `json:"queue,omitempty"`
}

// QueueStatsOutput is in the order of names.
type QueueStatsOutput struct {
	Queues []QueueStats `json:"queues"`
}

// QueueListInput pages through messages in the order of their ids.
type QueueListInput struct {
	Queue string `json:"queue"`
	// IDs selects messages; none selects all.
	IDs []uint64 `json:"ids,omitempty" max:"1000"`
	// After continues after a message; Limit is 1 to MaxQueueBatch, absent means 100.
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty" range:"1,1000"`
}

// QueueListOutput is one page; More says that there is another, after the last id.
type QueueListOutput struct {
	Messages []ListedMessage `json:"messages"`
	More     bool            `json:"more,omitempty"`
}

// A ListedMessage is a message as operators see it.
type ListedMessage struct {
	ID    uint64 `json:"id"`
	Queue string `json:"queue"`
	Body  Raw    `json:"body"`
	// State is "pending", "delayed", "processing" or "dead".
	State    string    `json:"state"`
	Priority int       `json:"priority,omitempty"`
	Attempts int       `json:"attempts"`
	Sent     time.Time `json:"sent"`
	// Due is when a delayed or locked message can be received.
	Due     *time.Time `json:"due,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	DedupID string     `json:"dedup_id,omitempty"`
	// Error is why the last attempt failed, with details that senders do not get; Tried is when it
	// failed; Died is when the message became a dead letter.
	Error string     `json:"error,omitempty"`
	Tried *time.Time `json:"tried,omitempty"`
	Died  *time.Time `json:"died,omitempty"`
}

// QueueReplaceInput changes a message that no worker holds, or a dead letter. Absent members stay.
type QueueReplaceInput struct {
	Queue    string `json:"queue"`
	ID       uint64 `json:"id"`
	Body     Raw    `json:"body,omitempty"`
	Priority *int   `json:"priority,omitempty"`
	// DelayMS is the delay before the message can be received; 0 is none. A dead letter has none.
	DelayMS *int64 `json:"delay_ms,omitempty"`
}

// QueueSelectInput selects messages by id, or all.
type QueueSelectInput struct {
	Queue string   `json:"queue"`
	IDs   []uint64 `json:"ids,omitempty" max:"1000"`
	All   bool     `json:"all,omitempty"`
}

// The methods of the state of an actor.
const (
	StateGet     = "state.get"
	StateReplace = "state.replace"
)

// StateOutput is the state of an actor as it is stored. In JSON, byte strings are
// {"$bytes":base64}, tags are {"$tag":number,"value":...}, maps with keys that are no text, or that
// begin with "$", are {"$map":[[key,value],...]}, and numbers with a fraction or an exponent are
// floating-point numbers; NaN and the infinities are {"$float":"NaN"}, {"$float":"Infinity"} and
// {"$float":"-Infinity"}.
type StateOutput struct {
	// State is null if none is stored.
	State Raw `json:"state"`
	// Version is the version of the commit that wrote it; 0 if none is stored.
	Version uint64 `json:"version"`
	// Form is the version of the state's form, which the code gives it.
	Form uint64 `json:"form"`
}

// StateReplaceInput replaces the state of an actor by one in the form of the code that runs.
type StateReplaceInput struct {
	State Raw `json:"state"`
	// Version is the version of the state to replace. If the state has another by now, the code is
	// FailedPrecondition.
	Version *uint64 `json:"version,omitempty"`
}

// CountOutput counts what a call did.
type CountOutput struct {
	Count int64 `json:"count"`
	// More is set if there was more to do than one call does: call again. It is set by queue.purge,
	// and by calls for all messages.
	More bool `json:"more,omitempty"`
}

// ScheduleInput names a schedule.
type ScheduleInput struct {
	Name     string `json:"name"`
	Instance string `json:"instance,omitempty"`
}

// ScheduleListInput selects schedules by name; "" selects all.
type ScheduleListInput struct {
	Name string `json:"name,omitempty"`
}

// ScheduleListOutput is in the order of name and instance.
type ScheduleListOutput struct {
	Schedules []Schedule `json:"schedules"`
}

// ScheduleRunsOutput has the latest run first.
type ScheduleRunsOutput struct {
	Runs []ScheduleRun `json:"runs"`
}

// AlarmListOutput is in the order of name and instance.
type AlarmListOutput struct {
	Alarms []ListedAlarm `json:"alarms"`
}

// A ListedAlarm is an armed alarm as operators see it.
type ListedAlarm struct {
	Name     string    `json:"name"`
	Instance string    `json:"instance,omitempty"`
	Due      time.Time `json:"due"`
	Attempts int       `json:"attempts,omitempty"`
}

// StreamInput names a stream.
type StreamInput struct {
	Stream string `json:"stream"`
}

// StreamAppendInput appends items, all or none.
type StreamAppendInput struct {
	Stream string `json:"stream"`
	// Items are 1 to MaxStreamBatch.
	Items []Raw `json:"items" max:"1000"`
	// Close closes the stream after them; then Items may be empty.
	Close bool `json:"close,omitempty"`
}

// StreamAppendOutput is the sequence of the last item.
type StreamAppendOutput struct {
	Last uint64 `json:"last"`
}

// StreamReadInput reads the items after a position.
type StreamReadInput struct {
	Stream string `json:"stream"`
	// After is the sequence of the last item that the reader has; 0 reads from the beginning.
	After uint64 `json:"after,omitempty"`
	// Life is the id of the actor's life that After counts in, or "" for the present one: see
	// Position. If the actor is gone, the error code is Destroyed if Life is set and NotFound if
	// not.
	Life string `json:"life,omitempty"`
	// Limit is 1 to MaxStreamBatch; absent means 100.
	Limit int `json:"limit,omitempty" range:"1,1000"`
	// WaitMS is how long to wait for the first item, up to 60,000.
	WaitMS int64 `json:"wait_ms,omitempty" range:"0,60000"`
}

// StreamReadOutput is a page of a stream in the request's encoding.
type StreamReadOutput struct {
	Missed uint64 `json:"missed,omitempty"`
	// Reset is set if the position belongs to another life of the actor. Reading begins anew, and
	// Missed counts from the first item.
	Reset  bool             `json:"reset,omitempty"`
	Items  []ReadStreamItem `json:"items"`
	Next   uint64           `json:"next"`
	Closed bool             `json:"closed,omitempty"`
	// Life is the id of the actor's life to which the items and Next belong.
	Life string `json:"life,omitempty"`
}

// ReadStreamItem is an item of a stream in the request's encoding.
type ReadStreamItem struct {
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	Value    Raw       `json:"value"`
}

// StreamListInput names a stream, or "" for all of the actor.
type StreamListInput struct {
	Stream string `json:"stream,omitempty"`
}

// StreamListOutput is in the order of names.
type StreamListOutput struct {
	Streams []StreamInfo `json:"streams"`
}

// ConnectionListInput pages through connections in the order of their ids.
type ConnectionListInput struct {
	After string `json:"after,omitempty"`
	// Limit is 1 to 1,000; absent means 100.
	Limit int `json:"limit,omitempty" range:"1,1000"`
}

// ConnectionListOutput is one page.
type ConnectionListOutput struct {
	Connections []ConnectionInfo `json:"connections"`
	More        bool             `json:"more,omitempty"`
}

// ConnectionCloseInput closes a connection, for a reason that the client sees.
type ConnectionCloseInput struct {
	Connection string `json:"connection"`
	Reason     string `json:"reason,omitempty"`
}

// PauseInput pauses an actor: calls, messages, alarms and schedules wait or are refused until it is
// resumed.
type PauseInput struct {
	// Reason is shown to callers and operators, up to 1,024 bytes.
	Reason string `json:"reason,omitempty"`
}

// LimitsResetInput names the limits of an actor to reset to its type's, by their names in
// ActorLimits; no name selects all.
type LimitsResetInput struct {
	Names []string `json:"names,omitempty" max:"100"`
}

// SendSkipInput names the target of the message to move aside.
type SendSkipInput struct {
	Type string   `json:"type"`
	Key  []string `json:"key" max:"16"`
}

// SendListInput pages through messages to other actors that were given up, in the order in which
// they were sent.
type SendListInput struct {
	// IDs selects messages; none selects all.
	IDs []uint64 `json:"ids,omitempty" max:"1000"`
	// After continues after a message; Limit is 1 to MaxQueueBatch, absent means 100.
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty" range:"1,1000"`
}

// SendListOutput is one page; More says that there is another, after the last id.
type SendListOutput struct {
	Messages []DeadLetter `json:"messages"`
	More     bool         `json:"more,omitempty"`
}

// A DeadLetter is a message to another actor that was given up, as operators see it. Its sender
// keeps it for 14 days, and up to 10,000 of them.
type DeadLetter struct {
	ID uint64 `json:"id"`
	// Type and Key name the target of the message, Method the action.
	Type   string   `json:"type"`
	Key    []string `json:"key"`
	Method string   `json:"method"`
	// Input is the input of the action: CBOR, or JSON with byte strings in base64; absent if JSON
	// cannot show it.
	Input    Raw       `json:"input,omitempty"`
	Attempts int       `json:"attempts"`
	Sent     time.Time `json:"sent"`
	Died     time.Time `json:"died"`
	// Expires is when it is removed; nil if an earlier release gave it up, because then it stays.
	Expires *time.Time `json:"expires,omitempty"`
	// Code and Error say why the last attempt failed.
	Code  Code   `json:"code"`
	Error string `json:"error"`
}

// SendSelectInput selects messages to other actors by id, or all.
type SendSelectInput struct {
	IDs []uint64 `json:"ids,omitempty" max:"1000"`
	All bool     `json:"all,omitempty"`
}
