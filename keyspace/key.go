package keyspace

import (
	"encoding/binary"
	"encoding/hex"
)

// Key is a logical key, taken apart. It is implemented by the types of this
// package and by no others:
//
//	Persisted, Connection, InspectorToken, UserKV, QueueMessage, QueueMetadata,
//	WorkflowName, WorkflowHistory, WorkflowField, WorkflowEntry,
//	WorkflowMetadata, WorkflowUndo, WorkflowMessage, WorkflowBlob, TraceChunk,
//	SQLiteMetadata, SQLiteChunk, Alarm, Expiry, Idempotency, Received, Outgoing,
//	FailedSend, Event, QueueReady, QueueDelayed, QueueStats, DeadLetter,
//	QueueDedup, QueueReply, Schedule, ScheduleRun, Stream, StreamItem, Control
type Key interface {
	// Kind returns the first byte of the key.
	Kind() Kind
	// Append appends the bytes of the key: the inverse of Parse.
	Append(dst []byte) []byte
	// String returns the key as Format prints it.
	String() string

	key() // closes the interface
}

// Parse takes a logical key of any kind apart. It accepts exactly the keys that
// the Append functions make from valid arguments: appending the result gives
// the same bytes. The error is a [*SyntaxError].
func Parse(key []byte) (Key, error) {
	if len(key) == 0 {
		return nil, &SyntaxError{"key", 0, "empty"}
	}
	switch Kind(key[0]) {
	case KindPersisted:
		return asKey(Persisted{}, ParsePersisted(key))
	case KindConnections:
		id, err := ParseConnection(key)
		return asKey(Connection{id}, err)
	case KindInspectorToken:
		return asKey(InspectorToken{}, ParseInspectorToken(key))
	case KindUserKV:
		packed, err := ParseUserKV(key)
		return asKey(UserKV{packed}, err)
	case KindQueueMessages:
		id, err := ParseQueueMessage(key)
		return asKey(QueueMessage{id}, err)
	case KindQueueMetadata:
		return asKey(QueueMetadata{}, ParseQueueMetadata(key))
	case KindWorkflow:
		return ParseWorkflow(key)
	case KindTraces:
		chunk, err := ParseTraceChunk(key)
		return asKey(chunk, err)
	case KindSQLite:
		return ParseSQLite(key)
	case KindAlarms:
		alarm, err := ParseAlarm(key)
		return asKey(alarm, err)
	case KindExpiry:
		expiry, err := ParseExpiry(key)
		return asKey(expiry, err)
	case KindIdempotency:
		name, err := ParseIdempotency(key)
		return asKey(Idempotency{name}, err)
	case KindReceived:
		sender, err := ParseReceived(key)
		return asKey(Received{sender}, err)
	case KindOutgoing:
		seq, err := ParseOutgoing(key)
		return asKey(Outgoing{seq}, err)
	case KindFailedSends:
		seq, err := ParseFailedSend(key)
		return asKey(FailedSend{seq}, err)
	case KindEventHistory:
		seq, err := ParseEvent(key)
		return asKey(Event{seq}, err)
	case KindQueueReady:
		k, err := ParseQueueReady(key)
		return asKey(k, err)
	case KindQueueDelayed:
		k, err := ParseQueueDelayed(key)
		return asKey(k, err)
	case KindQueueStats:
		k, err := ParseQueueStats(key)
		return asKey(k, err)
	case KindDeadLetters:
		k, err := ParseDeadLetter(key)
		return asKey(k, err)
	case KindQueueDedup:
		k, err := ParseQueueDedup(key)
		return asKey(k, err)
	case KindQueueReplies:
		id, err := ParseQueueReply(key)
		return asKey(QueueReply{id}, err)
	case KindSchedules:
		k, err := ParseSchedule(key)
		return asKey(k, err)
	case KindScheduleRuns:
		k, err := ParseScheduleRun(key)
		return asKey(k, err)
	case KindStreams:
		k, err := ParseStream(key)
		return asKey(k, err)
	case KindStreamItems:
		k, err := ParseStreamItem(key)
		return asKey(k, err)
	case KindControl:
		return asKey(Control{}, ParseControl(key))
	case KindRun:
		return asKey(Run{}, ParseRun(key))
	default:
		return nil, &SyntaxError{"key", 0, "unknown " + Kind(key[0]).String()}
	}
}

// asKey drops the key of a failed parse.
func asKey(k Key, err error) (Key, error) {
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Format prints a logical key for people: kv("users", 42), workflow/history[3,
// loop 3 #7, 5], sqlite/main/chunk 0, alarm("remind", ""). Bytes that are not a
// key print as the name of their kind, if it has one, a question mark, and all
// bytes in hexadecimal: queue?x"0501". It never panics.
func Format(key []byte) string {
	if k, err := Parse(key); err == nil {
		return k.String()
	}
	var dst []byte
	if len(key) > 0 {
		for _, info := range Kinds() {
			if byte(info.Kind) == key[0] {
				dst = append(dst, info.Name...)
			}
		}
	}
	return string(appendHex(append(dst, '?'), key))
}

func appendHex(dst, b []byte) []byte {
	dst = append(dst, `x"`...)
	dst = hex.AppendEncode(dst, b)
	return append(dst, '"')
}

// parseExact checks a key that is nothing but its kind.
func parseExact(key []byte, kind Kind) error {
	if err := checkKind(key, kind); err != nil {
		return err
	}
	if len(key) > 1 {
		return &SyntaxError{what(kind), 1, "bytes after the kind"}
	}
	return nil
}

func what(kind Kind) string { return kind.String() + " key" }

func checkKind(key []byte, kind Kind) error {
	switch {
	case len(key) == 0:
		return &SyntaxError{what(kind), 0, "empty"}
	case Kind(key[0]) != kind:
		return &SyntaxError{what(kind), 0, "found " + Kind(key[0]).String()}
	}
	return nil
}

// appendSequence and parseSequence are the keys of a kind and a u64.
func appendSequence(dst []byte, kind Kind, v uint64) []byte {
	dst = append(dst, byte(kind))
	return binary.BigEndian.AppendUint64(dst, v)
}

func parseSequence(key []byte, kind Kind, least uint64) (uint64, error) {
	if err := checkKind(key, kind); err != nil {
		return 0, err
	}
	if len(key) != 9 {
		return 0, &SyntaxError{what(kind), min(len(key), 9), "want eight bytes after the kind"}
	}
	v := binary.BigEndian.Uint64(key[1:])
	if v < least {
		return 0, &SyntaxError{what(kind), 1, "number below the first"}
	}
	return v, nil
}
