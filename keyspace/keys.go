package keyspace

// The table of all logical keys. Each row is the only definition of a layout: the functions that
// print and parse any key read it, and a test compares docs/keyspace.md with it.
var (
	// Persisted is the key of the actor's state.
	Persisted = Single{layout{Kind: 0x01, prints: "persisted", owner: "actor", value: "state of the actor"}}

	// Connection is the key of a stored connection. Its id is UTF-8 and not empty.
	Connection = Text{layout{Kind: 0x02, prints: "connection(%)", fields: []field{{asUTF8, "connection id"}},
		owner: "connections", value: "one connection that outlives a sleep"}}

	// InspectorToken is the key of the one token with the right to inspect the whole actor.
	InspectorToken = Single{layout{Kind: 0x03, prints: "inspector-token",
		owner: "tokens", value: "the token with the right inspect: its id, what it allows, and the SHA-256 of its secret"}}

	// UserKV is a key of the application's own key-value store: a tuple, which may be empty.
	UserKV = Packed{layout{Kind: 0x04, prints: "kv%", fields: []field{{asElements, "user key..."}},
		owner: "application", value: "whatever the application put"}}

	// QueueMessage is the key of a message. All queues of an actor share the sequence of ids.
	QueueMessage = Number{layout{Kind: 0x05, prints: "queue/%", fields: []field{{asU64From1, "message id"}},
		owner: "queues", value: "one message, with the span of what sent it if that is recorded"}}

	// QueueMetadata is the key of the metadata that all queues of the actor share.
	QueueMetadata = Single{layout{Kind: 0x06, prints: "queue-metadata", owner: "queues",
		value: "next message id and counts"}}

	// WorkflowName is the key of a name in the registry that locations refer to. Indexes count from
	// 0.
	WorkflowName = Element[uint32]{layout{Kind: KindWorkflow, family: "\x15\x01", prints: "workflow/name %",
		fields: []field{{asUint32, "name index"}}, owner: "workflow", value: "name"}}

	// WorkflowHistory is the key of an entry of the history. A segment is the index of a name, or
	// the tuple (name index, iteration) for an iteration of a loop.
	WorkflowHistory = Place{layout{Kind: KindWorkflow, family: "\x15\x02", prints: "workflow/history%",
		fields: []field{{asLocation, "segment..."}}, value: "entry of the history"}}

	// WorkflowField is the key of a field of the run.
	WorkflowField = Element[Field]{layout{Kind: KindWorkflow, family: "\x15\x03", prints: "workflow/%",
		fields: []field{{asField, "field"}}, value: "field of the run"}}

	// WorkflowEntry is the key of the metadata of an entry in histories of form 1. Metadata that is
	// written now has a [WorkflowMetadata] key.
	WorkflowEntry = Name{layout{Kind: KindWorkflow, family: "\x15\x04", prints: "workflow/entry(%)",
		fields: []field{{asString, "entry id"}}, value: "metadata of an entry, in histories of form 1"}}

	// WorkflowMetadata is the key of the metadata of an entry.
	WorkflowMetadata = Element[uint32]{layout{Kind: KindWorkflow, family: "\x15\x04", prints: "workflow/entry %",
		fields: []field{{asUint32, "entry number"}}, value: "metadata of an entry"}}

	// WorkflowUndo is the key of an undo obligation.
	WorkflowUndo = Element[uint64]{layout{Kind: KindWorkflow, family: "\x15\x05", prints: "workflow/undo %",
		fields: []field{{asUint, "number"}}, value: "undo obligation"}}

	// WorkflowMessage is the key of a message from another run that was not yet consumed.
	WorkflowMessage = Element[uint64]{layout{Kind: KindWorkflow, family: "\x15\x06", prints: "workflow/inbox %",
		fields: []field{{asUint, "number"}}, value: "message from another run"}}

	// WorkflowBlob is the key of the head of a large value, and with a chunk number the key of a
	// part.
	WorkflowBlob = Blob{layout{Kind: KindWorkflow, family: "\x15\x08", prints: "workflow/blob %",
		fields: []field{{asHash, "SHA-256"}}, value: "head of a large value"}}

	workflowBlobPart = layout{Kind: KindWorkflow, family: "\x15\x08", prints: "workflow/blob %/chunk %",
		fields: []field{{asHash, "SHA-256"}, {asChunk, "chunk"}}, value: "part of a large value"}

	// TraceChunk is the key of a chunk of spans: the start of its bucket in Unix seconds, and its
	// number there.
	TraceChunk = MomentItem{layout{Kind: KindTraces, family: "\x15\x01", prints: "trace/%/chunk %",
		fields: []field{{asInt, "bucket start s"}, {asUint, "chunk"}}, owner: "traces", value: "one chunk of spans"}}

	// TraceBucket is the key of the totals of a bucket of chunks.
	TraceBucket = Moment{layout{Kind: KindTraces, family: "\x15\x02", prints: "trace/%/totals",
		fields: []field{{asInt, "bucket start s"}}, value: "bytes, chunks and times of a bucket of spans"}}

	// SQLiteMetadata is the key of the size and the metadata of a file.
	SQLiteMetadata = File{layout{Kind: KindSQLite, family: "\x00", prints: "sqlite/%/metadata",
		fields: []field{{asFile, "file"}}, owner: "sqlitevfs", value: "file size"}}

	// SQLiteChunk is the key of one page of a file. Indexes count from 0.
	SQLiteChunk = Page{layout{Kind: KindSQLite, family: "\x01", prints: "sqlite/%/chunk %",
		fields: []field{{asFile, "file"}, {asU32, "chunk"}}, value: "one page of a file"}}

	// Alarm is the key of a pending alarm. The instance distinguishes alarms of one name.
	Alarm = Pair{layout{Kind: 0x10, prints: "alarm(%, %)", fields: []field{{asString, "name"}, {asString, "instance"}},
		owner: "alarms", value: "when it is due, payload, attempts"}}

	// Expiry is an entry of the index of keys that expire. Keys order by the time of expiry.
	Expiry = Timed{layout{Kind: 0x11, prints: "expiry(%, %)", fields: []field{{asInt, "Unix ms"}, {asKey, "key bytes"}},
		owner: "engine", value: "empty; index of the keys that expire"}}

	// Idempotency is the key of a stored reply, by the idempotency key that the caller sent.
	Idempotency = Name{layout{Kind: 0x12, prints: "idempotency(%)", fields: []field{{asString, "idempotency key"}},
		owner: "kernel", value: "reply of a call, kept for repeats"}}

	// Received is the key of the last sequence handled from a sender, by the raw bytes of its id.
	Received = Actor{layout{Kind: 0x13, prints: "received/%", fields: []field{{asActor, "sender id"}},
		owner: "mail", value: "last sequence handled from that sender"}}

	// Outgoing is the key of a message that its target has not handled yet.
	Outgoing = Number{layout{Kind: 0x14, prints: "outgoing/%", fields: []field{{asU64, "sequence"}},
		owner: "mail", value: "message not yet handled by its target"}}

	// FailedSend is the key of a message that was given up and moved aside.
	FailedSend = Number{layout{Kind: 0x15, prints: "failed-send/%", fields: []field{{asU64, "sequence"}},
		owner: "mail", value: "message moved aside: error, attempts, time"}}

	// Event is the key of an event that is kept for subscribers that resume.
	Event = Number{layout{Kind: 0x16, prints: "event/%", fields: []field{{asU64From1, "event sequence"}},
		owner: "events", value: "event kept for resuming subscribers"}}

	// QueueReady is the key of the index of messages that can be received now. Its rank is the
	// negated priority of the message, so keys order as messages are received.
	QueueReady = Index{layout{Kind: 0x17, prints: "queue-ready(%, %, %)",
		fields: []field{{asString, "queue"}, {asInt, "rank"}, {asUint, "id"}},
		owner:  "queues", value: "empty; index of the messages that can be received"}}

	// QueueDelayed is the key of the index of messages that wait for a time: delayed messages, and
	// messages that a worker has locked.
	QueueDelayed = Index{layout{Kind: 0x18, prints: "queue-delayed(%, %, %)",
		fields: []field{{asString, "queue"}, {asInt, "due Unix ms"}, {asUint, "id"}},
		owner:  "queues", value: "empty; index of the messages that are delayed or locked"}}

	// QueueStats is the key of the counts of one queue.
	QueueStats = Name{layout{Kind: 0x19, prints: "queue-stats(%)", fields: []field{{asString, "queue"}},
		owner: "queues", value: "counts of one queue, where its ready messages begin, when it wakes"}}

	// DeadLetter is the key of a message that was given up.
	DeadLetter = Item{layout{Kind: 0x1A, prints: "dead-letter(%, %)",
		fields: []field{{asString, "queue"}, {asUint, "id"}},
		owner:  "queues", value: "message that was given up: error, attempts, times"}}

	// QueueDedup is the key of a de-duplication id that a queue has seen.
	QueueDedup = Pair{layout{Kind: 0x1B, prints: "queue-dedup(%, %)",
		fields: []field{{asString, "queue"}, {asString, "de-duplication id"}},
		owner:  "queues", value: "id of the message that was sent with it"}}

	// QueueReply is the key of the result of a message, kept for the sender that wants it.
	QueueReply = Number{layout{Kind: 0x1C, prints: "queue-reply/%", fields: []field{{asU64From1, "message id"}},
		owner: "queues", value: "reply to a message, kept for its sender"}}

	// Schedule is the key of a schedule. The instance distinguishes schedules of one name.
	Schedule = Pair{layout{Kind: 0x1D, prints: "schedule(%, %)",
		fields: []field{{asString, "name"}, {asString, "instance"}},
		owner:  "schedules", value: "rule, next run, payload"}}

	// ScheduleRun is the key of the result of one run of a schedule. Runs count from 1.
	ScheduleRun = PairItem{layout{Kind: 0x1E, prints: "schedule-run(%, %, %)",
		fields: []field{{asString, "name"}, {asString, "instance"}, {asUint, "run"}},
		owner:  "schedules", value: "times and result of one run"}}

	// Stream is the key of the metadata of one stream.
	Stream = Name{layout{Kind: 0x1F, prints: "stream(%)", fields: []field{{asString, "stream"}},
		owner: "streams", value: "first and next sequence, bytes, whether it is closed"}}

	// StreamItem is the key of one item of a stream. Sequences count from 1.
	StreamItem = Item{layout{Kind: 0x20, prints: "stream-item(%, %)",
		fields: []field{{asString, "stream"},
			{asUint, "sequence"}}, owner: "streams", value: "one item; of the stream \"$kv\" a change of an entry"}}

	// Control is the key of the settings that operators made for an actor.
	Control = Single{layout{Kind: 0x21, prints: "control", owner: "operators",
		value: "what operators have set: a pause, limits"}}

	// Run is the key of the time and state that a living workflow run waits for.
	Run = Single{layout{Kind: 0x22, prints: "run", owner: "runs",
		value: "what a workflow run that lives waits for: a time, the state"}}

	// KVScope is the key of a scope of the key-value store, by the common prefix of its keys.
	KVScope = Inner{layout{Kind: 0x23, prints: "kv-scope(%)", fields: []field{{asKey, "kv key"}},
		owner: "kv", value: "policy of a scope"}}

	// KVCount is the key of the counts of a scope.
	KVCount = Inner{layout{Kind: 0x24, prints: "kv-count(%)", fields: []field{{asKey, "kv key"}},
		owner: "kv", value: "entries, bytes and groups of a scope"}}

	// KVGroup is the key of the counts of a group: the entries of a scope with the same next part.
	KVGroup = InnerPart{layout{Kind: 0x25, prints: "kv-group(%, %)",
		fields: []field{{asKey, "kv key"}, {asElements, "part"}},
		owner:  "kv", value: "entries and bytes of a group"}}

	// KVVersion is the key of an old version of an entry, by the negated version of the commit that
	// made it: keys order from the newest to the oldest.
	KVVersion = InnerItem{layout{Kind: 0x26, prints: "kv-version(%, %)",
		fields: []field{{asKey, "kv key"}, {asInt, "-version"}},
		owner:  "kv", value: "what an entry was: its value and times, or that it was gone"}}

	// KVPin is the key of a version that is kept for readers.
	KVPin = Number{layout{Kind: 0x27, prints: "kv-pin/%", fields: []field{{asU64From1, "version"}},
		owner: "kv", value: "when a version was pinned, and until when"}}

	// KVPurge is the key of the time at which expired keys are removed.
	KVPurge = Single{layout{Kind: 0x29, prints: "kv-purge", owner: "kv",
		value: "when keys are removed that have expired"}}

	// KVIndex is the key of a search index, by the common prefix of its keys.
	KVIndex = Inner{layout{Kind: 0x2A, prints: "kv-index(%)", fields: []field{{asKey, "kv key"}},
		owner: "kv", value: "fields and tokenizer of a search index, and how far it is built"}}

	// UUID is the key of the last UUID's time, which keeps the UUIDs of commits growing.
	UUID = Single{layout{Kind: 0x28, prints: "uuid", owner: "kv", value: "time of the last UUID that a commit made"}}

	// KVHandled is the key of how far the handler of a map's changes has read the log.
	KVHandled = Name{layout{Kind: 0x2B, prints: "kv-handled(%)", fields: []field{{asString, "map"}},
		owner: "kv", value: "how far the handler of the changes of a map has read the log, and when it goes on"}}

	// KVBranch is the key of a branch of the key-value store. Branch 1 is the store itself.
	KVBranch = Number{layout{Kind: 0x2C, prints: "kv-branch/%", fields: []field{{asU64From1, "branch"}},
		owner: "kv", value: "name of a branch, what it was forked from and merged into"}}

	// KVBranchEntry is the key of an entry in which a branch differs from its origin.
	KVBranchEntry = Numbered{layout{Kind: 0x2D, prints: "kv-branch-entry/%%",
		fields: []field{{asUint, "branch"}, {asElements, "user key..."}},
		owner:  "kv", value: "entry of a branch, or that it has none"}}

	// Token is the key of a token, by its id.
	Token = Name{layout{Kind: 0x2E, prints: "token(%)", fields: []field{{asString, "token id"}},
		owner: "tokens", value: "what a token allows, and the SHA-256 of its secret"}}

	// Usage is the key of the actor's usage on a day, by the number of days since 1970.
	Usage = Number{layout{Kind: 0x2F, prints: "usage/%", fields: []field{{asU64, "day"}},
		owner: "usage", value: "what the actor did on a day: calls, turns, time, bytes"}}

	// Attribute is the key of an attribute that actors are found by. Without its kind it is the
	// element of the name.
	Attribute = Name{layout{Kind: 0x30, prints: "attribute(%)", fields: []field{{asString, "name"}},
		owner: "attributes", value: "value of an attribute that actors are found by: one element of a tuple"}}
)

// layouts is the table in order of kind and family.
var layouts = [...]*layout{
	&Persisted.layout, &Connection.layout, &InspectorToken.layout, &UserKV.layout, &QueueMessage.layout,
	&QueueMetadata.layout, &WorkflowName.layout, &WorkflowHistory.layout, &WorkflowField.layout,
	&WorkflowEntry.layout, &WorkflowMetadata.layout, &WorkflowUndo.layout, &WorkflowMessage.layout,
	&WorkflowBlob.layout, &workflowBlobPart, &TraceChunk.layout, &TraceBucket.layout, &SQLiteMetadata.layout, &SQLiteChunk.layout,
	&Alarm.layout, &Expiry.layout, &Idempotency.layout, &Received.layout, &Outgoing.layout,
	&FailedSend.layout, &Event.layout, &QueueReady.layout, &QueueDelayed.layout, &QueueStats.layout,
	&DeadLetter.layout, &QueueDedup.layout, &QueueReply.layout, &Schedule.layout, &ScheduleRun.layout,
	&Stream.layout, &StreamItem.layout, &Control.layout, &Run.layout, &KVScope.layout, &KVCount.layout,
	&KVGroup.layout, &KVVersion.layout, &KVPin.layout, &UUID.layout, &KVPurge.layout, &KVIndex.layout,
	&KVHandled.layout, &KVBranch.layout, &KVBranchEntry.layout, &Token.layout, &Usage.layout, &Attribute.layout,
}
