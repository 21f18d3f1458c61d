package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The first two elements of every row's tuple.
const (
	rootFirst  = 0
	rootSecond = 3
)

// Space is the third element of every row's tuple: what the store keeps there.
// Like the kinds, the table of spaces may only grow.
type Space int

const (
	SpaceDirectory  Space = 70 // (0, 3, 70, namespace, type, key part...) -> actor id
	SpaceTombstones Space = 71 // (0, 3, 71, actor id) -> what was destroyed, and when
	SpaceActors     Space = 72 // (0, 3, 72, actor id, ...) -> the actors' own rows
	SpaceWakes      Space = 73 // (0, 3, 73, due Unix ms, actor id, kind, name, instance) -> empty
	SpaceOutbox     Space = 74 // (0, 3, 74, sequence) -> change record to publish
	SpaceStore      Space = 75 // (0, 3, 75, name) -> metadata of the store
)

// SpaceInfo is what the table of spaces says about one space.
type SpaceInfo struct {
	Space Space
	Name  string // as printed by Space.String
	Form  string // the elements after the space, in the notation of docs/keyspace.md
	Value string // what is stored there
}

// Spaces returns the table of all spaces, in order.
func Spaces() []SpaceInfo {
	return []SpaceInfo{
		{SpaceDirectory, "directory", "namespace, type, key part...", "actor id"},
		{SpaceTombstones, "tombstone", "actor id", "identity of a destroyed actor, and when"},
		{SpaceActors, "actor", "actor id, row", "rows of the actors"},
		{SpaceWakes, "wake", "due Unix ms, actor id, wake kind, name, instance", "empty; index of what wakes an actor"},
		{SpaceOutbox, "outbox", "sequence", "change record to publish"},
		{SpaceStore, "store", "name", "metadata of the store, such as its format version"},
	}
}

// String returns the name of the space, or "space N" for one that is not in the
// table.
func (s Space) String() string {
	switch s {
	case SpaceDirectory:
		return "directory"
	case SpaceTombstones:
		return "tombstone"
	case SpaceActors:
		return "actor"
	case SpaceWakes:
		return "wake"
	case SpaceOutbox:
		return "outbox"
	case SpaceStore:
		return "store"
	default:
		return "space " + strconv.Itoa(int(s))
	}
}

// AppendSpacePrefix appends the bytes that every row of a space begins with;
// [Successor] of them ends the space.
func AppendSpacePrefix(dst []byte, s Space) []byte {
	dst = tuple.AppendInt(dst, rootFirst)
	dst = tuple.AppendInt(dst, rootSecond)
	return tuple.AppendInt(dst, int64(s))
}
