package streamrows

import (
	"encoding/binary"
	"math"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// An item is one item of a stream with what its row says: format byte 1 | time, Unix ms, uvarint |
// bytes of all items before it, uvarint | data.
type item struct {
	seq    uint64
	time   int64
	before uint64
	data   []byte
}

const itemFormat = 1

func appendItem(dst []byte, it *item) []byte {
	dst = append(dst, itemFormat)
	dst = binary.AppendUvarint(dst, uint64(max(it.time, 0)))
	dst = binary.AppendUvarint(dst, it.before)
	return append(dst, it.data...)
}

// parseItem decodes a row; data shares memory with value.
func parseItem(value []byte) (it item, err error) {
	if len(value) == 0 || value[0] != itemFormat {
		return it, &engine.CorruptError{Reason: "the item of a stream has an unknown format"}
	}
	rest := value[1:]
	t, n := binary.Uvarint(rest)
	if n <= 0 || t > math.MaxInt64 {
		return it, &engine.CorruptError{Reason: "the item of a stream has no time"}
	}
	rest = rest[n:]
	before, n := binary.Uvarint(rest)
	if n <= 0 {
		return it, &engine.CorruptError{Reason: "the item of a stream has no position"}
	}
	return item{time: int64(t), before: before, data: rest[n:]}, nil
}

// readItem reads an item that must be there.
func readItem(rows engine.Reader, name string, seq uint64) (item, error) {
	e, found, err := rows.Get(keyspace.StreamItem.Append(nil, name, seq))
	if err != nil {
		return item{}, err
	}
	if !found {
		return item{}, &engine.CorruptError{Reason: "an item of a stream is missing"}
	}
	it, err := parseItem(e.Value)
	it.seq = seq
	return it, err
}
