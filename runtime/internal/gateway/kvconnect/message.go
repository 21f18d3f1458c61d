package kvconnect

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the protocol.
const (
	readSuccess = 1

	writeSuccess      = 1
	writeCheckFailure = 2

	mutationSet                  = 1
	mutationDelete               = 2
	mutationSum                  = 3
	mutationMax                  = 4
	mutationMin                  = 5
	mutationSetVersionstampedKey = 9

	encodingV8    = 1
	encodingLE64  = 2
	encodingBytes = 3
)

// A readRange is a request for entries with start <= key < end.
type readRange struct {
	start, end []byte
	limit      int32
	reverse    bool
}

// An atomicWrite is a commit.
type atomicWrite struct {
	checks    []check
	mutations []mutation
	enqueues  []enqueue
}

type check struct{ key, versionstamp []byte }

type mutation struct {
	key            []byte
	value          kvValue
	kind           int32
	expireAtMS     int64
	sumMin, sumMax []byte
	sumClamp       bool
}

type kvValue struct {
	data     []byte
	encoding int32
}

type enqueue struct {
	payload           []byte
	deadlineMS        int64
	keysIfUndelivered [][]byte
	backoffMS         []uint32
}

// An entry is an entry of an answer.
type entry struct {
	key          []byte
	value        kvValue
	versionstamp []byte
}

// errWire is the error for a message that is not of the protocol.
var errWire = errors.New("the body is not a message of the protocol")

// fields calls f for each field of a message, in order. data is the content of a field of bytes, n
// the number of other fields. f ignores unknown fields.
func fields(b []byte, f func(number protowire.Number, kind protowire.Type, data []byte, n uint64) error) error {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return errWire
		}
		b = b[size:]
		var data []byte
		var n uint64
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			data, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(number, kind, b)
		}
		if size < 0 {
			return errWire
		}
		b = b[size:]
		if err := f(number, kind, data, n); err != nil {
			return err
		}
	}
	return nil
}

// A field is the destination of a message's field: exactly one of the pointers is set.
type field struct {
	bytes *[]byte
	int32 *int32
	int64 *int64
	bool  *bool
	// each handles a field of bytes.
	each func(data []byte) error
	// packed collects numbers, sent one by one or together, up to one more than allowed.
	packed *[]uint32
	most   int
}

// parse reads a message whose known fields are in a table.
func parse(b []byte, known map[protowire.Number]field) error {
	return fields(b, func(number protowire.Number, kind protowire.Type, data []byte, n uint64) error {
		to, is := known[number]
		if !is {
			return nil
		}
		isBytes := to.bytes != nil || to.each != nil
		switch {
		case isBytes && kind == protowire.BytesType:
			if to.each != nil {
				return to.each(data)
			}
			*to.bytes = data
			return nil
		case to.packed != nil && kind == protowire.BytesType:
			for len(data) > 0 && len(*to.packed) <= to.most {
				n, size := protowire.ConsumeVarint(data)
				if size < 0 {
					return errWire
				}
				*to.packed, data = append(*to.packed, uint32(n)), data[size:]
			}
			return nil
		case isBytes || kind != protowire.VarintType:
			return errWire
		case to.packed != nil:
			if len(*to.packed) <= to.most {
				*to.packed = append(*to.packed, uint32(n))
			}
		case to.int32 != nil:
			*to.int32 = int32(n)
		case to.int64 != nil:
			*to.int64 = int64(n)
		default:
			*to.bool = n != 0
		}
		return nil
	})
}

// appended returns a field that appends each message of a repeated field to a list of up to most.
func appended[T any](list *[]T, most int, what string, read func(b []byte, to *T) error) field {
	return field{each: func(data []byte) error {
		if len(*list) == most {
			return fmt.Errorf("there are more than %d %s", most, what)
		}
		*list = append(*list, *new(T))
		return read(data, &(*list)[len(*list)-1])
	}}
}

// parseSnapshotRead reads a SnapshotRead.
func parseSnapshotRead(b []byte) (ranges []readRange, err error) {
	err = parse(b, map[protowire.Number]field{1: appended(&ranges, maxRanges, "ranges",
		func(b []byte, r *readRange) error {
			return parse(b, map[protowire.Number]field{1: {bytes: &r.start}, 2: {bytes: &r.end},
				3: {int32: &r.limit}, 4: {bool: &r.reverse}})
		})})
	return ranges, err
}

// parseAtomicWrite reads an AtomicWrite.
func parseAtomicWrite(b []byte) (*atomicWrite, error) {
	w := new(atomicWrite)
	err := parse(b, map[protowire.Number]field{
		1: appended(&w.checks, maxChecks, "checks", func(b []byte, c *check) error {
			return parse(b, map[protowire.Number]field{1: {bytes: &c.key}, 2: {bytes: &c.versionstamp}})
		}),
		2: appended(&w.mutations, maxMutations, "mutations", parseMutation),
		3: appended(&w.enqueues, maxMutations, "enqueues", func(b []byte, e *enqueue) error {
			return parse(b, map[protowire.Number]field{
				1: {bytes: &e.payload}, 2: {int64: &e.deadlineMS}, 4: {packed: &e.backoffMS, most: maxPauses},
				3: appended(&e.keysIfUndelivered, maxUndeliveredKeys, "keys_if_undelivered",
					func(b []byte, key *[]byte) error {
						*key = b
						return nil
					}),
			})
		}),
	})
	return w, err
}

// parseWatch reads the keys of a Watch.
func parseWatch(b []byte) (keys [][]byte, err error) {
	err = parse(b, map[protowire.Number]field{1: appended(&keys, maxWatched, "keys", func(b []byte, key *[]byte) error {
		return parse(b, map[protowire.Number]field{1: {bytes: key}})
	})})
	return keys, err
}

func parseMutation(b []byte, m *mutation) error {
	return parse(b, map[protowire.Number]field{
		1: {bytes: &m.key}, 3: {int32: &m.kind}, 4: {int64: &m.expireAtMS}, 5: {bytes: &m.sumMin}, 6: {bytes: &m.sumMax}, 7: {bool: &m.sumClamp},
		2: {each: func(b []byte) error {
			return parse(b, map[protowire.Number]field{1: {bytes: &m.value.data}, 2: {int32: &m.value.encoding}})
		}},
	})
}

func appendBytes(b []byte, number protowire.Number, data []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), data)
}

func appendVarint(b []byte, number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}

// appendSnapshotReadOutput appends a SnapshotReadOutput. Its reads are strongly consistent.
func appendSnapshotReadOutput(b []byte, ranges [][]entry) []byte {
	for _, entries := range ranges {
		size := 0
		for i := range entries {
			size += fieldSize(entries[i].size())
		}
		b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.BytesType), uint64(size))
		for i := range entries {
			b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.BytesType), uint64(entries[i].size()))
			b = entries[i].append(b)
		}
	}
	return appendVarint(appendVarint(b, 4, 1), 8, readSuccess)
}

// fieldSize returns the size of a field of bytes, whose number must be below 16.
func fieldSize(n int) int { return 1 + protowire.SizeBytes(n) }

func (e *entry) size() int {
	return fieldSize(len(e.key)) + fieldSize(len(e.value.data)) + 2 + fieldSize(len(e.versionstamp))
}

// append appends a KvEntry.
func (e *entry) append(b []byte) []byte {
	b = appendBytes(appendBytes(b, 1, e.key), 2, e.value.data)
	return appendBytes(appendVarint(b, 3, uint64(e.value.encoding)), 4, e.versionstamp)
}

// appendAtomicWriteOutput appends an AtomicWriteOutput: with a versionstamp, or with the positions
// of the checks that failed.
func appendAtomicWriteOutput(b, versionstamp []byte, failed []int) []byte {
	if failed == nil {
		return appendBytes(appendVarint(b, 1, writeSuccess), 2, versionstamp)
	}
	var packed []byte
	for _, i := range failed {
		packed = protowire.AppendVarint(packed, uint64(i))
	}
	return appendBytes(appendVarint(b, 1, writeCheckFailure), 4, packed)
}
