package replay

import (
	"bytes"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A location is the place of an entry in the history: the tuple bytes that stand in its key after 07 15 02. The root is
// empty. Each element ends by itself, so a location is a prefix of another one's bytes exactly if it encloses it.
type location []byte

// historyPrefix is what the keys of all entries begin with.
var historyPrefix = func() string {
	start, _ := keyspace.WorkflowHistory.Range()
	return string(start)
}()

// historyKey appends the key of an entry.
func historyKey(dst []byte, loc location) []byte {
	return append(append(dst, historyPrefix...), loc...)
}

// historyEnd appends the end of the range of a location and all inside it, which begins at its historyKey.
func historyEnd(dst []byte, loc location) []byte {
	return append(historyKey(dst, loc), 0xFF)
}

// childName appends the location of what has a name within loc.
func childName(dst []byte, loc location, name uint32) location {
	return tuple.AppendUint(append(dst, loc...), uint64(name))
}

// childIteration appends the location of the i-th iteration, or element, of the loop or map at loc, whose name is name.
func childIteration(dst []byte, loc location, name, i uint32) location {
	dst = tuple.BeginNested(append(dst, loc...))
	dst = tuple.AppendUint(dst, uint64(name))
	dst = tuple.AppendUint(dst, uint64(i))
	return tuple.EndNested(dst)
}

// metadataKey appends the key of an entry's metadata.
func metadataKey(dst []byte, id uint32) []byte { return keyspace.WorkflowMetadata.Append(dst, id) }

// nameKey appends the key of a name.
func nameKey(dst []byte, index uint32) []byte { return keyspace.WorkflowName.Append(dst, index) }

// fieldKey appends the key of a field of the run.
func fieldKey(dst []byte, f keyspace.Field) []byte {
	return keyspace.WorkflowField.Append(dst, f)
}

// elementEnd returns how long the first element of loc is: 0 if it is empty or no location.
func elementEnd(loc location) int {
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

// integerEnd returns how long the integer at the beginning of b is: 0 if there is none of up to four bytes.
func integerEnd(b []byte) int {
	if len(b) == 0 || b[0] < 0x14 || b[0] > 0x18 || len(b) < 1+int(b[0]-0x14) {
		return 0
	}
	return 1 + int(b[0]-0x14)
}

// parentOf returns the location without its last element: nil for the root.
func parentOf(loc location) location {
	last := 0
	for at := 0; at < len(loc); {
		n := elementEnd(loc[at:])
		if n == 0 {
			break
		}
		last, at = at, at+n
	}
	return loc[:last:last]
}

// depth returns how many elements loc has.
func (loc location) depth() (n int) {
	for len(loc) > 0 {
		end := elementEnd(loc)
		if end == 0 {
			break
		}
		loc = loc[end:]
		n++
	}
	return n
}

// encloses reports whether inner is loc or lies inside it.
func (loc location) encloses(inner location) bool { return bytes.HasPrefix(inner, loc) }

// segments takes a location apart. It fails for bytes that are no location.
func (loc location) segments() (keyspace.Location, error) {
	if len(loc) == 0 {
		return nil, nil
	}
	return keyspace.WorkflowHistory.Parse(historyKey(nil, loc))
}
