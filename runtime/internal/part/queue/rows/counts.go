package queuerows

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// index is one of the indexes of a queue.
type index uint8

// The indexes, in the order of their fronts in the counts.
const (
	readyIndex index = iota
	delayedIndex
	lockedIndex
	ttlIndex
	deadIndex
	indexes
)

// suffixes tell the indexes of kind 18 apart; they stand after the name of the queue.
var suffixes = [indexes]string{lockedIndex: "/locked", ttlIndex: "/ttl", deadIndex: "/dead"}

// appendIndex appends the prefix of the keys of an index of a queue.
func appendIndex(b []byte, ix index, queue string) []byte {
	if ix == readyIndex {
		return keyspace.QueueReady.Prefix(b, queue)
	}
	b = keyspace.QueueDelayed.Prefix(b, queue)
	end := b[len(b)-1]
	return append(append(b[:len(b)-1], suffixes[ix]...), end)
}

// counts describe a queue without its messages. The record is the format, then as uvarint the sum
// of the bodies' bytes and the messages sent, done and failed, then as varint the wake row's time
// (0 for none), then the fronts in the order of index, and last, unless it is 0, retired as
// uvarint.
type counts struct {
	fronts             [indexes]front
	bytes              int64
	sent, done, failed uint64
	wake               int64
	retired            uint64 // waiting messages with smaller ids are of a run that has ended; 0 for none: see Retire
}

func (c *counts) held() int64 {
	return c.fronts[readyIndex].n + c.fronts[delayedIndex].n + c.fronts[lockedIndex].n
}

func (c *counts) append(b []byte) []byte {
	b = append(b, format)
	b = binary.AppendUvarint(b, uint64(c.bytes))
	b = binary.AppendUvarint(b, c.sent)
	b = binary.AppendUvarint(b, c.done)
	b = binary.AppendUvarint(b, c.failed)
	b = binary.AppendVarint(b, c.wake)
	for i := range c.fronts {
		b = c.fronts[i].append(b)
	}
	if c.retired != 0 {
		b = binary.AppendUvarint(b, c.retired)
	}
	return b
}

// decode reads a record into counts that are empty.
func (c *counts) decode(queue string, b []byte) error {
	s := scan{b: b}
	s.format()
	bytes := s.uvarint()
	c.bytes, c.sent, c.done, c.failed = int64(bytes), s.uvarint(), s.uvarint(), s.uvarint()
	c.wake = s.varint()
	if bytes > 1<<60 || c.wake < 0 {
		s.fail("a number is out of range")
	}
	c.fronts[readyIndex].ranked = true
	for i := range c.fronts {
		c.fronts[i].decode(&s)
	}
	if c.retired = 0; len(s.b) > 0 {
		c.retired = s.uvarint()
	}
	if err := s.end(); err != nil {
		return corrupt("counts of queue %q: %v", queue, err)
	}
	return nil
}

// readCounts reads the counts of a queue, which are zero if it was never used.
func readCounts(rows engine.Reader, queue string, c *counts) error {
	c.fronts[readyIndex].ranked = true
	e, ok, err := rows.Get(keyspace.QueueStats.Append(nil, queue))
	if err != nil || !ok {
		return err
	}
	return c.decode(queue, e.Value)
}

// metadata is the row of kind 06: the format, then as uvarint the next message id and the number of
// messages in all queues of the actor, without dead letters.
type metadata struct {
	next  uint64
	count int64
}

func (m *metadata) append(b []byte) []byte {
	b = append(b, format)
	b = binary.AppendUvarint(b, m.next)
	return binary.AppendUvarint(b, uint64(m.count))
}

func (m *metadata) decode(b []byte) error {
	s := scan{b: b}
	s.format()
	var count uint64
	m.next, count = s.uvarint(), s.uvarint()
	if m.count = int64(count); m.next == 0 || count > 1<<50 {
		s.fail("a number is out of range")
	}
	if err := s.end(); err != nil {
		return corrupt("queue metadata: %v", err)
	}
	return nil
}

// A reply is the row of kind 1c: the format, one byte (1 for a failure, 2 for a reply that is still
// to come), the queue's name, and then the reply, or the code and message of the failure as two
// texts, or nothing. The failure's metadata follows, as two texts for each entry in the order of
// the keys; records of older releases have none.
type reply struct {
	open    bool
	queue   []byte
	failure *host.Error
	value   []byte
}

func (r *reply) append(b []byte) []byte {
	if r.open {
		return appendText(append(b, format, 2), r.queue)
	}
	if r.failure == nil {
		b = appendText(append(b, format, 0), r.queue)
		return append(b, r.value...)
	}
	b = appendText(append(b, format, 1), r.queue)
	b = appendText(appendText(b, r.failure.Code), clip(r.failure.Message))
	metadata := r.failure.ErrorMetadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		b = appendText(appendText(b, key), metadata[key])
	}
	return b
}

func (r *reply) decode(id uint64, b []byte) error {
	s := scan{b: b}
	s.format()
	kind := s.byte()
	*r = reply{open: kind == 2, queue: s.text(maxName)}
	switch {
	case kind > 2:
		s.fail("unknown kind of reply")
	case r.open:
	case kind == 1:
		r.failure = &host.Error{Code: host.Code(s.text(maxCode)), Message: string(s.text(maxCause))}
		if !r.failure.Code.Known() {
			r.failure.Code = host.Internal
		}
		if len(s.b) > 0 {
			r.failure.Metadata = make(map[string]string)
		}
		for len(s.b) > 0 {
			key := string(s.text(maxCause))
			r.failure.Metadata[key] = string(s.text(maxCause))
		}
	default:
		r.value = s.b
		s.b = nil
	}
	if err := s.end(); err != nil {
		return corrupt("reply to message %d: %v", id, err)
	}
	return nil
}

// The row of a de-duplication id is the format and, as uvarint, the id of the message.
func appendDedup(b []byte, id uint64) []byte { return binary.AppendUvarint(append(b, format), id) }

func decodeDedup(b []byte) (uint64, error) {
	s := scan{b: b}
	s.format()
	id := s.uvarint()
	if id == 0 {
		s.fail("no id")
	}
	if err := s.end(); err != nil {
		return 0, corrupt("de-duplication id: %v", err)
	}
	return id, nil
}
