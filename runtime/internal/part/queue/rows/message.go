package queuerows

import (
	"encoding/binary"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// state is where a message is on its way.
type state uint8

// The states, as they are stored.
const (
	pending state = iota + 1
	delayed
	locked
	dead
)

// String returns the state's name in host.ListedMessage.
func (s state) String() string {
	switch s {
	case pending:
		return "pending"
	case delayed:
		return "delayed"
	case locked:
		return "processing"
	case dead:
		return "dead"
	}
	return "unknown"
}

const (
	flagReply   = 1 << iota // the sender wants the result
	flagBackoff             // it has pauses of its own
	flagTTL                 // expires and ttl are there
	flagSpan                // span is there
)

// A message is the record of one message, of kinds 05 and 1a. All integers are big-endian, times
// are Unix ms:
//
//	format, state, flags    1 byte each
//	priority                u16, two's complement
//	attempts                u32
//	nonce                   u64
//	created, due, tried, died  u64 each
//	expires, ttl            u64 each, only with flagTTL
//	trace, span, flags      16, 8 and 1 bytes, only with flagSpan
//	queue, dedup id         uvarint length and bytes each
//	pauses                  uvarint count, uvarint ms each; only with flagBackoff
//	keys                    uvarint count, uvarint length and bytes each
//	code, cause             uvarint length and bytes each
//	body                    the rest
//
// The fields that change while a message is received, fails and dies have a fixed size, except the
// cause. So an actor with a used-up quota can still give up its messages. Slices are parts of the
// row that was read.
type message struct {
	id       uint64
	state    state
	flags    uint8
	priority int16
	attempts uint32
	nonce    uint64 // of the last lock; grows with each
	created  int64  // when it was sent
	due      int64  // delayed: when it can be received; locked: when the lock ends; dead: when it is removed
	tried    int64  // when an attempt failed last; 0 if none did
	died     int64
	expires  int64     // when it is given up unless it is locked; 0 is never
	ttl      int64     // what expires is made of, for a requeue
	span     host.Span // of what sent it, if that is recorded
	queue    []byte
	dedup    []byte
	backoff  []byte // pauses as they are stored, count first
	keys     []byte // keys as they are stored, count first
	code     []byte // of the last failure
	cause    []byte
	body     []byte
}

// Bounds of what a message may carry.
const (
	maxName     = 64
	maxPauses   = 100
	maxKeys     = 10
	maxKeyBytes = 1_900 // of a packed key, so that it fits the store as a key of kind kv
	maxCause    = 1_024 // bytes of the text of a failure
	maxCode     = 64
)

// until returns when a delayed message is due: it waits no longer than it lives.
func (m *message) until() int64 {
	if m.expires != 0 {
		return min(m.due, m.expires)
	}
	return m.due
}

func (m *message) expired(now int64) bool { return m.expires != 0 && m.expires <= now }

func (m *message) wantsReply() bool { return m.flags&flagReply != 0 }

// place returns where the message stands in the index of its state.
func (m *message) place() place {
	switch m.state {
	case pending:
		return place{-int64(m.priority), m.id}
	case delayed:
		return place{m.until(), m.id}
	default:
		return place{m.due, m.id}
	}
}

// append encodes the record.
func (m *message) append(b []byte) []byte {
	b = append(b, format, byte(m.state), m.flags)
	b = binary.BigEndian.AppendUint16(b, uint16(m.priority))
	b = binary.BigEndian.AppendUint32(b, m.attempts)
	b = binary.BigEndian.AppendUint64(b, m.nonce)
	for _, t := range [...]int64{m.created, m.due, m.tried, m.died} {
		b = binary.BigEndian.AppendUint64(b, uint64(t))
	}
	if m.flags&flagTTL != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(m.expires))
		b = binary.BigEndian.AppendUint64(b, uint64(m.ttl))
	}
	if m.flags&flagSpan != 0 {
		b = append(append(append(b, m.span.Trace[:]...), m.span.ID[:]...), m.span.Flags)
	}
	b = appendText(b, m.queue)
	b = appendText(b, m.dedup)
	if m.flags&flagBackoff != 0 {
		b = append(b, m.backoff...)
	}
	if len(m.keys) == 0 {
		b = append(b, 0)
	} else {
		b = append(b, m.keys...)
	}
	b = appendText(b, m.code)
	b = appendText(b, m.cause)
	return append(b, m.body...)
}

// decode reads a record. The message shares its memory.
func (m *message) decode(id uint64, b []byte) error {
	s := scan{b: b}
	s.format()
	*m = message{id: id, state: state(s.byte()), flags: s.byte()}
	m.priority, m.attempts, m.nonce = int16(s.u16()), s.u32(), s.u64()
	m.created, m.due, m.tried, m.died = s.ms(), s.ms(), s.ms(), s.ms()
	if m.flags&flagTTL != 0 {
		m.expires, m.ttl = s.ms(), s.ms()
	}
	if m.flags&flagSpan != 0 {
		copy(m.span.Trace[:], s.take(len(m.span.Trace)))
		copy(m.span.ID[:], s.take(len(m.span.ID)))
		m.span.Flags = s.byte()
	}
	m.queue, m.dedup = s.text(maxName), s.text(host.MaxDedupID)
	if m.flags&flagBackoff != 0 {
		m.backoff = s.list(maxPauses, func() { s.uvarint() })
	}
	m.keys = s.list(maxKeys, func() { s.text(maxKeyBytes) })
	m.code, m.cause = s.text(maxCode), s.text(maxCause)
	switch {
	case m.state < pending || m.state > dead:
		s.fail("unknown state")
	case m.flags >= flagSpan<<1:
		s.fail("unknown flags")
	case m.priority < -host.MaxQueuePriority || m.priority > host.MaxQueuePriority:
		s.fail("the priority is out of range")
	case len(m.queue) == 0:
		s.fail("it has no queue")
	}
	if s.err != nil {
		return corrupt("message %d: %v", id, s.err)
	}
	m.body = s.b
	return nil
}

// list reads a count and that many elements, and returns all of it as it is stored.
func (s *scan) list(most uint64, element func()) []byte {
	whole := s.b
	n := s.uvarint()
	if n > most {
		s.fail("a list is too long")
		return nil
	}
	for range n {
		element()
	}
	if s.err != nil {
		return nil
	}
	return whole[: len(whole)-len(s.b) : len(whole)-len(s.b)]
}

// weight is how many bytes of bodies are written if the message becomes a dead letter.
func (m *message) weight() int {
	n := 1
	_ = m.eachKey(func([]byte) error { n += 3; return nil }) // with a version and an index
	return n * len(m.body)
}

// eachKey visits the keys that get the body when the message is given up.
func (m *message) eachKey(visit func(packed []byte) error) error {
	s := scan{b: m.keys}
	if len(m.keys) == 0 {
		return nil
	}
	for range s.uvarint() {
		if err := visit(s.text(maxKeyBytes)); err != nil {
			return err
		}
	}
	return nil
}

// pause returns the pause after the attempts that the message has had, and false if they were all.
func (m *message) pause(queue []time.Duration) (ms int64, ok bool) {
	if m.flags&flagBackoff == 0 {
		if int64(m.attempts) > int64(len(queue)) {
			return 0, false
		}
		return milliseconds(queue[max(m.attempts, 1)-1]), true
	}
	s := scan{b: m.backoff}
	n := s.uvarint()
	if uint64(m.attempts) > n {
		return 0, false
	}
	for range max(m.attempts, 1) {
		ms = int64(min(s.uvarint(), uint64(milliseconds(host.MaxQueueDelay))))
	}
	return ms, true
}

// milliseconds rounds a span up, so that no wait is shorter than was asked for.
func milliseconds(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
