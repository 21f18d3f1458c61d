package engine

import (
	"bytes"
	"errors"

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

// cursor walks over the logical keys of an actor in the store, forward or in
// reverse. It stands on a key whose rows it has not consumed: key tells
// which, load reads it, skip goes on.
//
// Forward, the data rows of a key come first and its metadata last, so a value
// is put together before its size is known; in reverse, the metadata comes first
// and the chunks are filled in from the last to the first.
type cursor struct {
	it      iterator
	reverse bool
	valid   bool
	prefix  []byte // of the rows of the key that it stands on
	key     []byte // that key
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
	n := keyspace.SplitRow(row)
	if n == len(row) {
		return c.corrupt("not a row of a logical key")
	}
	c.prefix = append(c.prefix[:0], row[:n]...)
	c.key = unescape(c.key[:0], row[actorPrefix+2:n-2])
	if isState(c.key) && string(row[n:]) == metadataSuffix {
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

// unescape undoes the escaping of a wrapped key: 00 FF stands for 00.
func unescape(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(dst, b...)
		}
		dst = append(dst, b[:i+1]...)
		b = b[i+2:]
	}
}

// metadataSuffix is what a metadata row ends with, after the prefix.
const metadataSuffix = "\x15\x2C"

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
		if ok := c.it.Prev(); !ok || !bytes.HasPrefix(c.it.Key(), c.prefix) {
			return c.stand(ok)
		}
		if ok := c.it.Prev(); !ok || !bytes.HasPrefix(c.it.Key(), c.prefix) {
			return c.stand(ok)
		}
		return c.stand(c.it.SeekLT(c.prefix))
	case c.last:
		return c.stand(c.it.Next())
	case string(c.it.Key()[len(c.prefix):]) == metadataSuffix:
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

// load reads the entry of the key that it stands on; skip then moves on. The
// value is read into mem, unless that is nil.
func (c *cursor) load(mem *arena) (m metadata, value []byte, err error) {
	if c.reverse {
		return c.loadReverse(mem)
	}
	if m, err = c.loadForward(mem != nil); err == nil && mem != nil {
		value = mem.copy(c.value)
	}
	return m, value, err
}

// loadForward reads the entry of the key that it stands on, and the value too if
// that is wanted: into c.value, which is valid until the next one is read.
func (c *cursor) loadForward(values bool) (m metadata, err error) {
	n := 0
	c.value = c.value[:0]
	for {
		isMetadata, chunk, err := c.rowKind()
		if err != nil {
			return m, err
		}
		if isMetadata {
			break
		}
		moved := false
		if values {
			if chunk != n {
				return m, c.corrupt("chunks of the value are out of order")
			}
			data, err := c.it.ValueAndErr()
			if err != nil {
				return m, err
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
				return m, err
			}
			return m, &CorruptError{Row: clone(c.prefix), Reason: "a key has no metadata"}
		}
	}
	m, inline, err := c.metadata()
	if err != nil {
		return m, err
	}
	if values {
		c.value = append(c.value, inline...)
		if n != int(m.chunks) || len(c.value) != int(m.size) {
			return m, c.corrupt("the value has not the size that the metadata tells")
		}
	}
	c.last = true
	return m, nil
}

// peek returns the value of the key that it stands on, going forward; it is valid
// until skip. A value that lies with its metadata is not copied.
func (c *cursor) peek() ([]byte, error) {
	isMetadata, _, err := c.rowKind()
	if err != nil {
		return nil, err
	}
	if !isMetadata {
		_, err = c.loadForward(true)
		return c.value, err
	}
	m, inline, err := c.metadata()
	if err == nil && m.chunks > 0 {
		err = c.corrupt("the value has not the size that the metadata tells")
	}
	c.last = err == nil
	return inline, err
}

// metadata reads the metadata row that the iterator is on. The value, if it lies there, is valid while the iterator is.
func (c *cursor) metadata() (m metadata, value []byte, err error) {
	data, err := c.it.ValueAndErr()
	if err != nil {
		return m, nil, err
	}
	m, value, ok, err := parseEntry(data)
	if err == nil && !ok {
		return m, nil, c.corrupt("data rows of a state that is not there")
	}
	return m, value, at(c.it.Key(), err)
}

func (c *cursor) loadReverse(mem *arena) (m metadata, value []byte, err error) {
	isMetadata, _, err := c.rowKind()
	if err != nil {
		return m, nil, err
	}
	if !isMetadata {
		return m, nil, c.corrupt("a key has no metadata")
	}
	m, inline, err := c.metadata()
	if err != nil || mem == nil || m.chunks == 0 {
		if c.first = m.chunks == 0; inline != nil && mem != nil {
			value = mem.copy(inline)
		}
		return m, value, err
	}
	value = mem.alloc(int(m.size))
	for chunk := int(m.chunks) - 1; chunk >= 0; chunk-- {
		if !c.it.Prev() {
			if err := c.it.Error(); err != nil {
				return m, nil, err
			}
			return m, nil, &CorruptError{Row: clone(c.prefix), Reason: "a chunk of the value is missing"}
		}
		isMetadata, got, err := c.rowKind()
		if err != nil {
			return m, nil, err
		}
		if isMetadata || got != chunk {
			return m, nil, c.corrupt("chunks of the value are out of order")
		}
		data, err := c.it.ValueAndErr()
		if err != nil {
			return m, nil, err
		}
		if err := at(c.it.Key(), fillChunk(chunkOf(value, chunk), data)); err != nil {
			return m, nil, err
		}
	}
	c.first = true
	return m, value, nil
}
