package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// rowRange returns the rows of the logical keys in [start, end); a nil end has
// no bound.
func rowRange(id keyspace.ActorID, start, end []byte) (lower, upper []byte) {
	lower = keyspace.AppendScanPrefix(nil, id, start)
	if end != nil {
		return lower, keyspace.AppendScanPrefix(nil, id, end)
	}
	return lower, keyspace.Successor(keyspace.AppendScanPrefix(nil, id, nil))
}

// cursor walks over the logical keys of an actor in the store, forward or in reverse. It stands on
// a key whose rows it has not consumed: key is that key, load reads it, skip moves on.
//
// Forward, the data rows of a key come first and its metadata last, so a value is put together
// before its size is known; in reverse, the metadata comes first and the chunks are filled in from
// the last to the first.
type cursor struct {
	it      iterator
	reverse bool
	valid   bool
	whole   bool   // the iterator is on the metadata of the key that it stands on; prefix is not read from it
	prefix  []byte // of the rows of the key that it stands on
	key     []byte // that key
	meta    metadata
	value   []byte // chunks put together
	seek    []byte
	first   bool // in reverse: the iterator is on the first row of the key
	last    bool // forward: the iterator is on the last row of the key, its metadata
}

func newCursor(r reader, id keyspace.ActorID, start, end []byte, reverse bool) (*cursor, error) {
	lower, upper := rowRange(id, start, end)
	it, err := newIter(r, &pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, err
	}
	c := &cursor{it: it, reverse: reverse}
	if reverse {
		err = c.stand(it.Last())
	} else {
		err = c.stand(it.First())
	}
	if err != nil {
		return nil, errors.Join(err, it.Close())
	}
	return c, nil
}

func (c *cursor) close() error { return c.it.Close() }

func (c *cursor) corrupt(reason string) error {
	return &CorruptError{Row: clone(c.it.Key()), Reason: reason}
}

// actorPrefix is the length of the common prefix of all rows of an actor.
const actorPrefix = 22

// stand reads the key at the iterator's position.
func (c *cursor) stand(ok bool) error {
	c.valid, c.first, c.last = ok, false, false
	if !ok {
		return c.it.Error()
	}
	row := c.it.Key()
	if c.whole = c.standWhole(row); !c.whole {
		n := keyspace.SplitRow(row)
		if n == len(row) {
			return c.corrupt("not a row of a logical key")
		}
		c.prefix = append(c.prefix[:0], row[:n]...)
		c.unescape(row[actorPrefix+2:], n-2-actorPrefix-2)
	}
	if c.whole && isState(c.key) {
		value, err := c.it.ValueAndErr()
		if err != nil {
			return err
		}
		if _, _, exists, err := parseEntry(value); err != nil || exists {
			return at(row, err)
		}
		if c.reverse {
			return c.stand(c.it.Prev())
		}
		return c.stand(c.it.Next())
	}
	return nil
}

// standWhole reads the key of a metadata row, which most rows are, without looking for the end of
// the key: no row of a chunk ends with the same bytes. It returns false for other rows.
func (c *cursor) standWhole(row []byte) bool {
	n := len(row) - len(metadataEnd)
	return n >= actorPrefix+2 && string(row[n:]) == metadataEnd && c.unescape(row[actorPrefix+2:], n-actorPrefix-2)
}

// keep reads the prefix of a metadata row, before the iterator leaves it.
func (c *cursor) keep() {
	if c.whole {
		row := c.it.Key()
		c.prefix = append(c.prefix[:0], row[:len(row)-len(metadataSuffix)]...)
	}
}

// unescape reads the key of a wrapper, in which 00 FF stands for 00, from the beginning of a row.
// It returns false if the wrapper ends before end.
func (c *cursor) unescape(row []byte, end int) bool {
	if cap(c.key) < len(row)+8 {
		c.key = make([]byte, 0, 2*len(row)+8)
	}
	key, n, i := c.key[:cap(c.key)], 0, 0
	for i < end && i+8 <= len(row) {
		x := binary.LittleEndian.Uint64(row[i:])
		binary.LittleEndian.PutUint64(key[n:], x)
		zero := (x - 0x0101010101010101) &^ x & 0x8080808080808080 // the lowest bit is that of the first byte 00
		whole := bits.TrailingZeros64(zero) / 8                    // 8 without one
		if whole >= end-i {
			c.key = key[:n+end-i]
			return true
		}
		if n, i = n+whole, i+whole; whole < 8 {
			if n, i = n+1, i+2; i > end || row[i-1] != 0xFF {
				return false
			}
		}
	}
	for ; i < end; i++ {
		key[n] = row[i]
		n++
		if row[i] == 0 {
			if i++; i == end || row[i] != 0xFF {
				return false
			}
		}
	}
	c.key = key[:n]
	return true
}

// metadataSuffix ends a metadata row, after the prefix. metadataEnd is the same with the end of the
// wrapper before it.
const (
	metadataSuffix = "\x15\x2C"
	metadataEnd    = "\x00\x00" + metadataSuffix
)

// rowKind returns whether the iterator's row is the metadata of the key it stands
// on, or a data row with its chunk number.
func (c *cursor) rowKind() (isMetadata bool, chunk int, err error) {
	row := c.it.Key()
	if !bytes.HasPrefix(row, c.prefix) {
		return false, 0, c.corrupt("a key without its metadata comes before this row")
	}
	suffix := row[len(c.prefix):]
	if string(suffix) == metadataSuffix {
		return true, 0, nil
	}
	if len(suffix) < 3 || suffix[0] != 0x15 || suffix[1] != 0x04 {
		return false, 0, c.corrupt("unknown row of a logical key")
	}
	digits := suffix[3:]
	if code := int(suffix[2]); code != 0x14+len(digits) || len(digits) > 3 {
		return false, 0, c.corrupt("bad chunk number")
	}
	for _, d := range digits {
		chunk = chunk<<8 | int(d)
	}
	return false, chunk, nil
}

// skip moves to the next key, after load or without it.
func (c *cursor) skip() error {
	switch {
	case c.first:
		return c.stand(c.it.Prev())
	case c.reverse:
		// If the key has only one data row, a step over it is cheaper than a seek.
		c.keep()
		if ok := c.it.Prev(); !ok || !bytes.HasPrefix(c.it.Key(), c.prefix) {
			return c.stand(ok)
		}
		if ok := c.it.Prev(); !ok || !bytes.HasPrefix(c.it.Key(), c.prefix) {
			return c.stand(ok)
		}
		return c.stand(c.it.SeekLT(c.prefix))
	case c.last, c.whole:
		return c.stand(c.it.Next())
	default:
		return c.stand(c.it.NextPrefix())
	}
}

// jump moves past a hidden range that the key is in.
func (c *cursor) jump(id keyspace.ActorID, hidden span) error {
	if c.reverse {
		c.seek = keyspace.AppendScanPrefix(c.seek[:0], id, hidden.start)
		return c.stand(c.it.SeekLT(c.seek))
	}
	if hidden.end == nil {
		c.valid = false
		return nil
	}
	c.seek = keyspace.AppendScanPrefix(c.seek[:0], id, hidden.end)
	return c.stand(c.it.SeekGE(c.seek))
}

// load reads the entry of the current key, and its value if values is set. Both are valid until
// skip, which then moves on. It does not copy a value in the metadata row.
func (c *cursor) load(values bool) (m *metadata, value []byte, err error) {
	switch {
	case c.reverse:
		value, err = c.loadReverse(values)
	case c.whole:
		value, err = c.metadata()
		if err == nil && values && c.meta.chunks > 0 {
			err = c.corrupt("the value has not the size that the metadata tells")
		}
		c.last = err == nil
	default:
		value, err = c.loadForward(values)
	}
	if err != nil {
		return nil, nil, err
	}
	return &c.meta, value, nil
}

// loadForward reads the chunks of a value, if values is set, and the metadata after them.
func (c *cursor) loadForward(values bool) ([]byte, error) {
	n := 0
	c.value = c.value[:0]
	for {
		isMetadata, chunk, err := c.rowKind()
		if err != nil {
			return nil, err
		}
		if isMetadata {
			break
		}
		moved := false
		if values {
			if chunk != n {
				return nil, c.corrupt("chunks of the value are out of order")
			}
			data, err := c.it.ValueAndErr()
			if err != nil {
				return nil, err
			}
			c.value = append(c.value, data...)
			moved = c.it.Next()
		} else if n == 0 {
			moved = c.it.Next()
		} else {
			c.seek = append(append(c.seek[:0], c.prefix...), metadataSuffix...)
			moved = c.it.SeekGE(c.seek)
		}
		n++
		if !moved {
			if err := c.it.Error(); err != nil {
				return nil, err
			}
			return nil, &CorruptError{Row: clone(c.prefix), Reason: "a key has no metadata"}
		}
	}
	inline, err := c.metadata()
	if err != nil {
		return nil, err
	}
	if values {
		c.value = append(c.value, inline...)
		if n != int(c.meta.chunks) || len(c.value) != int(c.meta.size) {
			return nil, c.corrupt("the value has not the size that the metadata tells")
		}
	}
	c.last = true
	return c.value, nil
}

// metadata reads the metadata row at the iterator. A value in that row is valid while the iterator
// stays.
func (c *cursor) metadata() (value []byte, err error) {
	data, err := c.it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	value, ok := c.meta.inline(data)
	if ok {
		return value, nil
	}
	c.meta, value, ok, err = parseEntry(data)
	if err == nil && !ok {
		return nil, c.corrupt("data rows of a state that is not there")
	}
	if err != nil {
		return nil, at(c.it.Key(), err)
	}
	return value, nil
}

// loadReverse reads the metadata, and the chunks before it if values is set.
func (c *cursor) loadReverse(values bool) ([]byte, error) {
	if !c.whole {
		isMetadata, _, err := c.rowKind()
		if err != nil {
			return nil, err
		}
		if !isMetadata {
			return nil, c.corrupt("a key has no metadata")
		}
	}
	inline, err := c.metadata()
	if err != nil || !values || c.meta.chunks == 0 {
		c.first = err == nil && c.meta.chunks == 0
		return inline, err
	}
	c.keep()
	size := int(c.meta.size)
	c.value = slices.Grow(c.value[:0], size)[:size]
	for chunk := int(c.meta.chunks) - 1; chunk >= 0; chunk-- {
		if !c.it.Prev() {
			if err := c.it.Error(); err != nil {
				return nil, err
			}
			return nil, &CorruptError{Row: clone(c.prefix), Reason: "a chunk of the value is missing"}
		}
		isMetadata, got, err := c.rowKind()
		if err != nil {
			return nil, err
		}
		if isMetadata || got != chunk {
			return nil, c.corrupt("chunks of the value are out of order")
		}
		data, err := c.it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		if err := at(c.it.Key(), fillChunk(chunkOf(c.value, chunk), data)); err != nil {
			return nil, err
		}
	}
	c.first = true
	return c.value, nil
}
