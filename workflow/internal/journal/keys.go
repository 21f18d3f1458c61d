package journal

import (
	"bytes"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A Location is the place of an entry in the history: the tuple bytes in its key after 07 15 02.
// The root is empty. Each element marks its own end, so a location encloses another one exactly if
// it is a prefix of its bytes.
type Location []byte

// HistoryPrefix is the prefix of the keys of all entries.
var HistoryPrefix = func() string {
	start, _ := keyspace.WorkflowHistory.Range()
	return string(start)
}()

// HistoryKey appends the key of an entry.
func HistoryKey(dst []byte, loc Location) []byte {
	return append(append(dst, HistoryPrefix...), loc...)
}

// HistoryEnd appends the end of the range of a location and all inside it. The range begins at its
// HistoryKey.
func HistoryEnd(dst []byte, loc Location) []byte {
	return append(HistoryKey(dst, loc), 0xFF)
}

// ChildName appends the location of a name within loc.
func ChildName(dst []byte, loc Location, name uint32) Location {
	return tuple.AppendUint(append(dst, loc...), uint64(name))
}

// ChildIteration appends the location of the i-th iteration, or element, of the loop or map at loc,
// whose name is name.
func ChildIteration(dst []byte, loc Location, name, i uint32) Location {
	dst = tuple.BeginNested(append(dst, loc...))
	dst = tuple.AppendUint(dst, uint64(name))
	dst = tuple.AppendUint(dst, uint64(i))
	return tuple.EndNested(dst)
}

// MetadataKey appends the key of an entry's metadata.
func MetadataKey(dst []byte, id uint32) []byte { return keyspace.WorkflowMetadata.Append(dst, id) }

// NameKey appends the key of a name.
func NameKey(dst []byte, index uint32) []byte { return keyspace.WorkflowName.Append(dst, index) }

// FieldKey appends the key of a field of the run.
func FieldKey(dst []byte, f keyspace.Field) []byte {
	return keyspace.WorkflowField.Append(dst, f)
}

// ElementEnd returns the length of the first element of loc: 0 if loc is empty or invalid.
func ElementEnd(loc Location) int {
	if len(loc) == 0 {
		return 0
	}
	if loc[0] != 0x05 {
		return integerEnd(loc)
	}
	at := 1
	for range 2 {
		n := integerEnd(loc[at:])
		if n == 0 {
			return 0
		}
		at += n
	}
	if at >= len(loc) || loc[at] != 0 {
		return 0
	}
	return at + 1
}

// integerEnd returns the length of the integer at the beginning of b: 0 if there is none of up to
// four bytes.
func integerEnd(b []byte) int {
	if len(b) == 0 || b[0] < 0x14 || b[0] > 0x18 || len(b) < 1+int(b[0]-0x14) {
		return 0
	}
	return 1 + int(b[0]-0x14)
}

// ParentOf returns the location without its last element: nil for the root.
func ParentOf(loc Location) Location {
	last := 0
	for at := 0; at < len(loc); {
		n := ElementEnd(loc[at:])
		if n == 0 {
			break
		}
		last, at = at, at+n
	}
	return loc[:last:last]
}

// Depth returns the number of elements of loc.
func (loc Location) Depth() (n int) {
	for len(loc) > 0 {
		end := ElementEnd(loc)
		if end == 0 {
			break
		}
		loc = loc[end:]
		n++
	}
	return n
}

// Encloses reports whether inner is loc or lies inside it.
func (loc Location) Encloses(inner Location) bool { return bytes.HasPrefix(inner, loc) }

// Segments decodes a location. It fails for bytes that are no location.
func (loc Location) Segments() (keyspace.Location, error) {
	if len(loc) == 0 {
		return nil, nil
	}
	return keyspace.WorkflowHistory.Parse(HistoryKey(nil, loc))
}
