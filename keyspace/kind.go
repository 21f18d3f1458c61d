package keyspace

import "strconv"

// Kind is the first byte of a logical key: which subsystem of the actor owns it.
//
// The table of kinds may only grow. A kind that is no longer written keeps its
// number and its parser, so that old stores stay readable.
type Kind byte

const (
	KindPersisted      Kind = 0x01 // 01: the actor's state
	KindConnections    Kind = 0x02 // 02 | UTF-8 connection id
	KindInspectorToken Kind = 0x03 // 03
	KindUserKV         Kind = 0x04 // 04 | tuple(user key...)
	KindQueueMessages  Kind = 0x05 // 05 | u64 message id, the first is 1
	KindQueueMetadata  Kind = 0x06 // 06
	KindWorkflow       Kind = 0x07 // 07 | tuple(family, ...)
	KindTraces         Kind = 0x08 // 08 | tuple(1, bucket start in s, chunk)
	KindSQLite         Kind = 0x09 // 09 00 file, 09 01 file u32 chunk

	KindAlarms       Kind = 0x10 // 10 | tuple(alarm name, instance)
	KindExpiry       Kind = 0x11 // 11 | tuple(expiry in Unix ms, logical key)
	KindIdempotency  Kind = 0x12 // 12 | tuple(idempotency key)
	KindReceived     Kind = 0x13 // 13 | 16 bytes id of the sender
	KindOutgoing     Kind = 0x14 // 14 | u64 sequence, the first is 1
	KindFailedSends  Kind = 0x15 // 15 | u64 sequence
	KindEventHistory Kind = 0x16 // 16 | u64 event sequence, the first is 1
	KindQueueReady   Kind = 0x17 // 17 | tuple(queue, rank, id)
	KindQueueDelayed Kind = 0x18 // 18 | tuple(queue, due Unix ms, id)
	KindQueueStats   Kind = 0x19 // 19 | tuple(queue)
	KindDeadLetters  Kind = 0x1A // 1A | tuple(queue, id)
	KindQueueDedup   Kind = 0x1B // 1B | tuple(queue, de-duplication id)
	KindQueueReplies Kind = 0x1C // 1C | u64 message id
	KindSchedules    Kind = 0x1D // 1D | tuple(name, instance)
	KindScheduleRuns Kind = 0x1E // 1E | tuple(name, instance, run)
	KindStreams      Kind = 0x1F // 1F | tuple(stream)
	KindStreamItems  Kind = 0x20 // 20 | tuple(stream, sequence)
	KindControl      Kind = 0x21 // 21
	KindRun          Kind = 0x22 // 22
)

// KindInfo is what the table of kinds says about one kind.
type KindInfo struct {
	Kind  Kind
	Name  string // as printed by Kind.String
	Owner string // the subsystem that reads and writes these keys
	Form  string // the bytes after the first, in the notation of docs/keyspace.md
	Value string // what is stored there
}

// Kinds returns the table of all kinds, in order.
func Kinds() []KindInfo {
	return []KindInfo{
		{KindPersisted, "persisted", "actor", "", "state of the actor"},
		{KindConnections, "connection", "connections", "UTF-8 connection id", "one connection that outlives a sleep"},
		{KindInspectorToken, "inspector-token", "inspector", "", "secret that opens the inspector"},
		{KindUserKV, "kv", "application", "tuple(user key...)", "whatever the application put"},
		{KindQueueMessages, "queue", "queues", "u64 message id", "one message"},
		{KindQueueMetadata, "queue-metadata", "queues", "", "next message id and counts"},
		{KindWorkflow, "workflow", "workflow", "tuple(family, ...)", "names, history, fields, metadata, large values"},
		{KindTraces, "trace", "traces", "tuple(1, bucket start s, chunk)", "one chunk of spans"},
		{KindSQLite, "sqlite", "sqlitevfs", "00 file | 01 file u32 chunk", "file size; one page of a file"},
		{KindAlarms, "alarm", "alarms", "tuple(name, instance)", "when it is due, payload, attempts"},
		{KindExpiry, "expiry", "engine", "tuple(Unix ms, key bytes)", "empty; index of the keys that expire"},
		{KindIdempotency, "idempotency", "kernel", "tuple(idempotency key)", "reply of a call, kept for repeats"},
		{KindReceived, "received", "mail", "16 bytes sender id", "last sequence handled from that sender"},
		{KindOutgoing, "outgoing", "mail", "u64 sequence", "message not yet handled by its target"},
		{KindFailedSends, "failed-send", "mail", "u64 sequence", "message moved aside: error, attempts, time"},
		{KindEventHistory, "event", "events", "u64 event sequence", "event kept for resuming subscribers"},
		{KindQueueReady, "queue-ready", "queues", "tuple(queue, rank, id)", "empty; index of the messages that can be received"},
		{KindQueueDelayed, "queue-delayed", "queues", "tuple(queue, due Unix ms, id)", "empty; index of the messages that are delayed or locked"},
		{KindQueueStats, "queue-stats", "queues", "tuple(queue)", "counts of one queue, where its ready messages begin, when it wakes"},
		{KindDeadLetters, "dead-letter", "queues", "tuple(queue, id)", "message that was given up: error, attempts, times"},
		{KindQueueDedup, "queue-dedup", "queues", "tuple(queue, de-duplication id)", "id of the message that was sent with it"},
		{KindQueueReplies, "queue-reply", "queues", "u64 message id", "reply to a message, kept for its sender"},
		{KindSchedules, "schedule", "schedules", "tuple(name, instance)", "rule, next run, payload"},
		{KindScheduleRuns, "schedule-run", "schedules", "tuple(name, instance, run)", "times and result of one run"},
		{KindStreams, "stream", "streams", "tuple(stream)", "first and next sequence, bytes, whether it is closed"},
		{KindStreamItems, "stream-item", "streams", "tuple(stream, sequence)", "one item"},
		{KindControl, "control", "operators", "", "what operators have set: a pause, limits"},
		{KindRun, "run", "runs", "", "what a workflow run that lives waits for: a time, the state"},
	}
}

// String returns the name of the kind, such as "kv", or "kind 0x.." for one
// that is not in the table.
func (k Kind) String() string {
	switch k {
	case KindPersisted:
		return "persisted"
	case KindConnections:
		return "connection"
	case KindInspectorToken:
		return "inspector-token"
	case KindUserKV:
		return "kv"
	case KindQueueMessages:
		return "queue"
	case KindQueueMetadata:
		return "queue-metadata"
	case KindWorkflow:
		return "workflow"
	case KindTraces:
		return "trace"
	case KindSQLite:
		return "sqlite"
	case KindAlarms:
		return "alarm"
	case KindExpiry:
		return "expiry"
	case KindIdempotency:
		return "idempotency"
	case KindReceived:
		return "received"
	case KindOutgoing:
		return "outgoing"
	case KindFailedSends:
		return "failed-send"
	case KindEventHistory:
		return "event"
	case KindQueueReady:
		return "queue-ready"
	case KindQueueDelayed:
		return "queue-delayed"
	case KindQueueStats:
		return "queue-stats"
	case KindDeadLetters:
		return "dead-letter"
	case KindQueueDedup:
		return "queue-dedup"
	case KindQueueReplies:
		return "queue-reply"
	case KindSchedules:
		return "schedule"
	case KindScheduleRuns:
		return "schedule-run"
	case KindStreams:
		return "stream"
	case KindStreamItems:
		return "stream-item"
	case KindControl:
		return "control"
	case KindRun:
		return "run"
	default:
		return "kind 0x" + string(appendHexByte(nil, byte(k)))
	}
}

func appendHexByte(dst []byte, b byte) []byte {
	if b < 0x10 {
		dst = append(dst, '0')
	}
	return strconv.AppendUint(dst, uint64(b), 16)
}

// KindRange returns the bounds of all logical keys of a kind: start <= key <
// end. The end of the last possible kind, 0xFF, is nil: no bound.
func KindRange(k Kind) (start, end []byte) {
	start = []byte{byte(k)}
	return start, Successor(start)
}
