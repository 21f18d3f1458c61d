package keyspace

import (
	"bytes"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The first two elements of every row's tuple.
const (
	rootFirst  = 0
	rootSecond = 3
)

// space is the third element of every row's tuple: it says what the row stores. Like the kinds, the
// table of spaces may only grow.
type space int

const (
	spaceDirectory  space = 70
	spaceTombstones space = 71
	spaceActors     space = 72
	spaceWakes      space = 73
	spaceOutbox     space = 74
	spaceStore      space = 75
	spaceListing    space = 76
	spaceAudit      space = 77
)

type spaceFacts struct {
	space  space
	name   string
	fields string // the elements after the space
	value  string // a description of the value
}

// spaces is the table of spaces. A test compares docs/keyspace.md with it.
var spaces = [...]spaceFacts{
	{spaceDirectory, "directory", "namespace, type, key part...", "actor id"},
	{spaceTombstones, "tombstone", "actor id", "identity of a destroyed actor, and when"},
	{spaceActors, "actor", "actor id, row", "rows of the actors"},
	{spaceWakes, "wake", "due Unix ms, actor id, wake kind, name, instance", "empty; index of what wakes an actor"},
	{spaceOutbox, "outbox", "sequence", "change record to publish"},
	{spaceStore, "store", "name", "metadata of the store, such as its format version"},
	{spaceListing, "listing", "namespace, type, field, value, key part...", "actor id; index that actors are found by"},
	{spaceAudit, "audit", "0, sequence; or 1, namespace, type, key part..., sequence",
		"record of an operator's verb; or empty, its place in the log of one actor"},
}

// appendSpace appends the bytes that every row of a space begins with.
func appendSpace(dst []byte, s space) []byte {
	dst = tuple.AppendInt(dst, rootFirst)
	dst = tuple.AppendInt(dst, rootSecond)
	return tuple.AppendInt(dst, int64(s))
}

// ChunkSize is how many bytes of a value one data row holds. A longer value of n bytes has
// ceil(n/ChunkSize) data rows, numbered from 0. A value of up to ChunkSize bytes is in its metadata
// row.
const ChunkSize = 10_000

// The element of an actor's row that gives its type. Wrapped keys come first because a nested tuple
// sorts before an integer. For one key the data rows come before the metadata row, so one seek
// reads a whole entry.
const (
	tagHead     = 0  // S | 14
	tagIdentity = 1  // S | 15 01
	tagData     = 4  // S | KeyWrapper | 15 04 | chunk
	tagMetadata = 44 // S | KeyWrapper | 15 2C
)

// actorRows begins the rows of all actors: the tuple (0, 3, 72) and the code of a UUID.
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

// appendWrapper appends KeyWrapper(key): 05 01, the key with each 00 as 00 FF,
// 00 00. No wrapper is a prefix of another, and wrappers order as the keys do.
func appendWrapper(dst, key []byte) []byte {
	dst = append(dst, wrapperBegin...)
	dst = tuple.AppendEscaped(dst, key)
	return append(dst, wrapperEnd...)
}

// appendKeyPrefix appends S | KeyWrapper(key): the prefix of all rows of one logical key and no
// others. [SplitRow] splits it off.
func appendKeyPrefix(dst []byte, id ActorID, key []byte) []byte {
	return appendWrapper(AppendActorPrefix(dst, id), key)
}

// AppendDataRow appends the row of one chunk of a value; chunk counts from 0 and
// is not negative.
func AppendDataRow(dst []byte, id ActorID, key []byte, chunk int) []byte {
	dst = appendKeyPrefix(dst, id, key)
	dst = append(dst, 0x15, tagData)
	return tuple.AppendInt(dst, int64(chunk))
}

// AppendMetadataRow appends the row of a logical key's metadata, which exists if
// and only if the key does.
func AppendMetadataRow(dst []byte, id ActorID, key []byte) []byte {
	dst = appendKeyPrefix(dst, id, key)
	return append(dst, 0x15, tagMetadata)
}

// AppendHeadRow appends the row of an actor's head in a store of format 1. In later formats the
// head is in the metadata row of the state, and each commit of the actor removes this row if it
// exists.
func AppendHeadRow(dst []byte, id ActorID) []byte {
	return append(AppendActorPrefix(dst, id), 0x14)
}

// AppendIdentityRow appends the row of an actor's identity: namespace, type,
// key, time of creation; written once.
func AppendIdentityRow(dst []byte, id ActorID) []byte {
	return append(AppendActorPrefix(dst, id), 0x15, tagIdentity)
}

// AppendScanPrefix appends S | 05 01 | escaped prefix, without the end of a wrapper. It is the
// bound between rows that prefix is between logical keys: the rows of every key >= prefix are
// greater, those of every key < prefix are less. It has two uses:
//
//   - Keys that begin with prefix: from here to [Successor] of these bytes. An empty prefix gives
//     all logical keys of the actor.
//   - Keys in [start, end): from AppendScanPrefix(start) to AppendScanPrefix(end).
func AppendScanPrefix(dst []byte, id ActorID, prefix []byte) []byte {
	dst = AppendActorPrefix(dst, id)
	dst = append(dst, wrapperBegin...)
	return tuple.AppendEscaped(dst, prefix)
}

// SplitRow returns the length of the part of a row by which bloom filters and block lookups group
// rows: up to the end of the KeyWrapper in a row of an actor that has one, so the data and metadata
// rows of a logical key share it; the whole row otherwise. It takes any bytes.
//
// It meets Pebble's conditions for a split:
//
//  1. SplitRow(row[:SplitRow(row)]) == SplitRow(row), and a row that is only a prefix sorts before
//     the longer rows with that prefix.
//  2. If a <= b then a's prefix <= b's prefix. Whether bytes contain a whole wrapper depends only
//     on the bytes up to its end. So all rows that begin with a wrapper split there, and no other
//     rows are between it and its extensions.
//  3. Bytes after the prefix compare bytewise.
func SplitRow(row []byte) int {
	n, _ := splitWrapper(row)
	return n
}

// splitWrapper returns the result of SplitRow, and whether there is a wrapper.
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

// AppendSplitSuccessor appends the smallest bytes that are greater than prefix and split to
// themselves, if prefix does (SplitRow(prefix) == len(prefix)). A Pebble comparer calls this the
// immediate successor. Appending a 00 byte is right only for a row without a wrapper: any extension
// of a wrapper splits to the wrapper again.
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
	dst = appendSpace(dst, spaceDirectory)
	dst = tuple.AppendString(dst, namespace)
	dst = tuple.AppendString(dst, typ)
	for _, part := range key {
		dst = tuple.AppendString(dst, part)
	}
	return dst
}

// AppendDirectoryPrefix appends the common prefix of the directory rows of a type whose actors'
// keys begin with the parts of keyPrefix. The range ends at [TupleEnd], not [Successor]: a part
// that continues with a 00 byte is another part. An empty typ (with no keyPrefix) means all types
// of the namespace.
func AppendDirectoryPrefix(dst []byte, namespace, typ string, keyPrefix []string) []byte {
	if typ == "" && len(keyPrefix) == 0 {
		dst = appendSpace(dst, spaceDirectory)
		return tuple.AppendString(dst, namespace)
	}
	return AppendDirectoryRow(dst, namespace, typ, keyPrefix)
}

// Directory returns the bounds of the directory.
func Directory() (start, end []byte) {
	start = appendSpace(nil, spaceDirectory)
	return start, Successor(start)
}

// AppendTombstoneRow appends the row that remembers a destroyed actor.
func AppendTombstoneRow(dst []byte, id ActorID) []byte {
	return tuple.AppendUUID(appendSpace(dst, spaceTombstones), tuple.UUID(id))
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

// AppendWakeTime appends the common prefix of the wake rows due at one millisecond. As the end of a
// range it excludes that millisecond and all later ones.
func AppendWakeTime(dst []byte, dueMS int64) []byte {
	return tuple.AppendInt(appendSpace(dst, spaceWakes), dueMS)
}

// AppendOutboxRow appends the row of one change record.
func AppendOutboxRow(dst []byte, seq uint64) []byte {
	return tuple.AppendUint(appendSpace(dst, spaceOutbox), seq)
}

// OutboxRange returns the bounds of the rows of all change records.
func OutboxRange() (start, end []byte) {
	start = appendSpace(nil, spaceOutbox)
	return start, Successor(start)
}

// The element after the space of audit rows: the type of the row.
const (
	auditRecord = 0
	auditActor  = 1
)

// AppendAuditRow appends the row of one record of the audit log.
func AppendAuditRow(dst []byte, seq uint64) []byte {
	return tuple.AppendUint(tuple.AppendInt(appendSpace(dst, spaceAudit), auditRecord), seq)
}

// AppendAuditActorRow appends the row that finds a record of the audit log by its actor. The rows
// of one actor order by sequence.
func AppendAuditActorRow(dst []byte, namespace, typ string, key []string, seq uint64) []byte {
	dst = tuple.AppendInt(appendSpace(dst, spaceAudit), auditActor)
	dst = tuple.AppendString(dst, namespace)
	dst = tuple.AppendString(dst, typ)
	for _, part := range key {
		dst = tuple.AppendString(dst, part)
	}
	return tuple.AppendUint(dst, seq)
}

// AppendMetaRow appends the row of one named piece of the store's metadata.
func AppendMetaRow(dst []byte, name string) []byte {
	return tuple.AppendString(appendSpace(dst, spaceStore), name)
}
