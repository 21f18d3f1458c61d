package keyspace

import (
	"bytes"
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// ChunkSize is how many bytes of a value one data row holds. A longer value of n
// bytes has ceil(n/ChunkSize) data rows, numbered from 0. A value of at most so
// many bytes is in its metadata row.
const ChunkSize = 10_000

// The element of an actor's row that says what the row is. Wrapped keys come
// first because a nested tuple sorts before an integer; for one key the data
// rows come before the metadata row, so one seek reads a whole entry.
const (
	tagHead     = 0  // S | 14
	tagIdentity = 1  // S | 15 01
	tagData     = 4  // S | KeyWrapper | 15 04 | chunk
	tagMetadata = 44 // S | KeyWrapper | 15 2C
)

// actorRows is how the rows of all actors begin: the tuple (0, 3, 72) and the
// code of a UUID.
const actorRows = "\x14\x15\x03\x15\x48\x30"

// actorPrefixLen is the length of S, the bytes that all rows of one actor begin
// with.
const actorPrefixLen = len(actorRows) + len(ActorID{})

// The bytes around the escaped key in a KeyWrapper, which is a nested tuple of
// one byte string.
const (
	wrapperBegin = "\x05\x01"
	wrapperEnd   = "\x00\x00"
)

// AppendActorPrefix appends S: 22 bytes that every row of the actor begins with
// and no other row. [Successor] of them ends the actor's rows.
func AppendActorPrefix(dst []byte, id ActorID) []byte {
	dst = append(dst, actorRows...)
	return append(dst, id[:]...)
}

// AppendSlotPrefix appends the bytes that the rows of all actors of a slot begin
// with. The rows of the slots [a, b) are the range from the prefix of a to the
// prefix of b; with b = [Slots] they end where the space does.
func AppendSlotPrefix(dst []byte, slot uint16) []byte {
	dst = append(dst, actorRows...)
	return append(dst, byte(slot>>8), byte(slot))
}

// AppendWrapper appends KeyWrapper(key): 05 01, the key with each 00 as 00 FF,
// 00 00. No wrapper is a prefix of another, and wrappers order as the keys do.
func AppendWrapper(dst, key []byte) []byte {
	dst = append(dst, wrapperBegin...)
	dst = tuple.AppendEscaped(dst, key)
	return append(dst, wrapperEnd...)
}

// AppendKeyPrefix appends S | KeyWrapper(key): what the rows of one logical key
// begin with and no other row; it is what [SplitRow] splits off.
func AppendKeyPrefix(dst []byte, id ActorID, key []byte) []byte {
	return AppendWrapper(AppendActorPrefix(dst, id), key)
}

// AppendDataRow appends the row of one chunk of a value; chunk counts from 0 and
// is not negative.
func AppendDataRow(dst []byte, id ActorID, key []byte, chunk int) []byte {
	dst = AppendKeyPrefix(dst, id, key)
	dst = append(dst, 0x15, tagData)
	return tuple.AppendInt(dst, int64(chunk))
}

// AppendMetadataRow appends the row of a logical key's metadata, which exists if
// and only if the key does.
func AppendMetadataRow(dst []byte, id ActorID, key []byte) []byte {
	dst = AppendKeyPrefix(dst, id, key)
	return append(dst, 0x15, tagMetadata)
}

// AppendHeadRow appends the row of an actor's head in a store of format 1. Since
// then the head is in the metadata row of the key of the state, and each commit
// of the actor removes this row if it is there.
func AppendHeadRow(dst []byte, id ActorID) []byte {
	return append(AppendActorPrefix(dst, id), 0x14)
}

// AppendIdentityRow appends the row of an actor's identity: namespace, type,
// key, time of creation; written once.
func AppendIdentityRow(dst []byte, id ActorID) []byte {
	return append(AppendActorPrefix(dst, id), 0x15, tagIdentity)
}

// AppendScanPrefix appends S | 05 01 | escaped prefix, without the end of a
// wrapper. It is a bound between rows that means the same as prefix does
// between logical keys: the rows of every key >= prefix are greater, those of
// every key < prefix are less. So it serves twice:
//
//   - Keys that begin with prefix: from here to [Successor] of these bytes. An
//     empty prefix gives all logical keys of the actor.
//   - Keys in [start, end): from AppendScanPrefix(start) to
//     AppendScanPrefix(end).
func AppendScanPrefix(dst []byte, id ActorID, prefix []byte) []byte {
	dst = AppendActorPrefix(dst, id)
	dst = append(dst, wrapperBegin...)
	return tuple.AppendEscaped(dst, prefix)
}

// SplitRow returns the length of the part of a row by which bloom filters and
// block lookups group rows: up to the end of the KeyWrapper in a row of
// [SpaceActors] that has one, so that the data and metadata rows of a logical
// key share it; the whole row otherwise. It takes any bytes.
//
// It keeps what Pebble asks of a split:
//
//  1. SplitRow(row[:SplitRow(row)]) == SplitRow(row), and a row that is only a
//     prefix sorts before the longer rows with that prefix.
//  2. If a <= b then a's prefix <= b's prefix. Whether bytes contain a whole
//     wrapper depends only on the bytes up to its end, so everything that
//     begins with a wrapper splits there, and nothing else lies between it and
//     its extensions.
//  3. Bytes after the prefix compare bytewise.
func SplitRow(row []byte) int {
	n, _ := splitWrapper(row)
	return n
}

// splitWrapper returns what SplitRow does, and whether there is a wrapper.
func splitWrapper(row []byte) (n int, wrapped bool) {
	const content = actorPrefixLen + len(wrapperBegin)
	if len(row) < content+len(wrapperEnd) ||
		string(row[:len(actorRows)]) != actorRows ||
		string(row[actorPrefixLen:content]) != wrapperBegin {
		return len(row), false
	}
	for at := content; ; {
		i := bytes.IndexByte(row[at:], 0)
		if i < 0 || at+i+1 == len(row) {
			return len(row), false
		}
		at += i + 2
		switch row[at-1] {
		case 0x00:
			return at, true
		case 0xFF: // an escaped 00 of the key
		default:
			return len(row), false
		}
	}
}

// AppendSplitSuccessor appends the smallest bytes that are greater than prefix
// and split to themselves, where prefix itself does (SplitRow(prefix) ==
// len(prefix)). It is what a Pebble comparer calls the immediate successor. A
// 00 byte after the prefix would do for a row without a wrapper only: after a
// wrapper, everything that goes on splits to the wrapper again.
func AppendSplitSuccessor(dst, prefix []byte) []byte {
	if n, wrapped := splitWrapper(prefix); wrapped && n == len(prefix) {
		dst = append(dst, prefix[:n-1]...)
		return append(dst, 0x01)
	}
	dst = append(dst, prefix...)
	return append(dst, 0x00)
}

// AppendDirectoryRow appends the row that finds an actor by its name.
func AppendDirectoryRow(dst []byte, namespace, typ string, key []string) []byte {
	dst = AppendSpacePrefix(dst, SpaceDirectory)
	dst = tuple.AppendString(dst, namespace)
	dst = tuple.AppendString(dst, typ)
	for _, part := range key {
		dst = tuple.AppendString(dst, part)
	}
	return dst
}

// AppendDirectoryPrefix appends what the directory rows of all actors of a type
// whose keys begin with the parts of keyPrefix begin with. The end of that
// range is [TupleEnd], not [Successor]: a part that goes on with a 00 byte is
// another part. An empty typ (with no keyPrefix) means all types of the
// namespace.
func AppendDirectoryPrefix(dst []byte, namespace, typ string, keyPrefix []string) []byte {
	if typ == "" && len(keyPrefix) == 0 {
		dst = AppendSpacePrefix(dst, SpaceDirectory)
		return tuple.AppendString(dst, namespace)
	}
	return AppendDirectoryRow(dst, namespace, typ, keyPrefix)
}

// AppendTombstoneRow appends the row that remembers a destroyed actor.
func AppendTombstoneRow(dst []byte, id ActorID) []byte {
	dst = AppendSpacePrefix(dst, SpaceTombstones)
	return tuple.AppendUUID(dst, tuple.UUID(id))
}

// WakeKind says what will be done when a row of the wake index is due.
type WakeKind uint8

const (
	WakeAlarm       WakeKind = 1 // an alarm of the actor, named by name and instance
	WakeSends       WakeKind = 2 // messages to other actors to deliver or to retry
	WakeExpiry      WakeKind = 3 // keys of the actor that expire
	WakeQueue       WakeKind = 4 // a queue, by name, whose next delayed or locked message is due; at 0: messages for the actor's own handlers
	WakeSchedule    WakeKind = 5 // a schedule of the actor, named by name and instance
	WakeConnections WakeKind = 6 // a connection, by name, that was lost and has not come back; at 0: connections that a restart loses
	WakePaused      WakeKind = 7 // at 0 only: the actor is paused
	WakeRun         WakeKind = 8 // a workflow run that waits for a time; at 0: one that a restart has to take up
	WakeListed      WakeKind = 9 // at PausedRunsDue and FailedRunsDue only: a workflow run of the type name, listed with the reason instance
)

// The times of rows that are never due. They keep lists of workflow runs in the wake index, which a commit of the actor
// changes and a node reads without a look at the actors: the runs that are paused or have failed.
const (
	PausedRunsDue int64 = 1 << 61
	FailedRunsDue int64 = 1<<61 + 1
)

// String returns the name of the kind, such as "alarm", or "wake kind N".
func (k WakeKind) String() string {
	switch k {
	case WakeAlarm:
		return "alarm"
	case WakeSends:
		return "sends"
	case WakeExpiry:
		return "expiry"
	case WakeQueue:
		return "queue"
	case WakeSchedule:
		return "schedule"
	case WakeConnections:
		return "connections"
	case WakePaused:
		return "paused"
	case WakeRun:
		return "run"
	case WakeListed:
		return "listed run"
	default:
		return "wake kind " + strconv.Itoa(int(k))
	}
}

// AppendWakeRow appends a row of the wake index. Rows order by due time (Unix
// milliseconds), then by actor.
func AppendWakeRow(dst []byte, dueMS int64, id ActorID, kind WakeKind, name, instance string) []byte {
	dst = AppendWakeTime(dst, dueMS)
	dst = tuple.AppendUUID(dst, tuple.UUID(id))
	dst = tuple.AppendUint(dst, uint64(kind))
	dst = tuple.AppendString(dst, name)
	return tuple.AppendString(dst, instance)
}

// AppendWakeTime appends what the wake rows due at one millisecond begin with.
// As the end of a range it excludes that millisecond and all later ones.
func AppendWakeTime(dst []byte, dueMS int64) []byte {
	dst = AppendSpacePrefix(dst, SpaceWakes)
	return tuple.AppendInt(dst, dueMS)
}

// AppendOutboxRow appends the row of one change record.
func AppendOutboxRow(dst []byte, seq uint64) []byte {
	dst = AppendSpacePrefix(dst, SpaceOutbox)
	return tuple.AppendUint(dst, seq)
}

// AppendMetaRow appends the row of one named piece of the store's metadata.
func AppendMetaRow(dst []byte, name string) []byte {
	dst = AppendSpacePrefix(dst, SpaceStore)
	return tuple.AppendString(dst, name)
}
