package host

import (
	"time"

	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// A Reader reads the rows of one run. Keys are those of package keyspace, kind workflow: they
// begin with the byte 07.
type Reader interface {
	// Get returns the value of a key. The value must not be changed, and is valid until the
	// transaction ends.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls visit with the rows start <= key < end in the order of keys, until visit returns
	// an error, which Scan returns. Key and value are valid during the call.
	Scan(start, end []byte, visit func(key, value []byte) error) error
}

// A Journal is where a run keeps its history, within one transaction. It sees its own writes.
type Journal interface {
	Reader
	// Put sets a row. It keeps neither slice.
	Put(key, value []byte) error
	Delete(key []byte) error
	// DeleteRange removes the rows start <= key < end.
	DeleteRange(start, end []byte) error
}

// A NewPutter is a Journal with a faster Put for keys that have no row: it need not look for the
// old one.
type NewPutter interface {
	// PutNew is Put of a key that has no row, neither in the store nor by the transaction.
	PutNew(key, value []byte) error
}

// A Turn is one transaction of the host. Its changes happen together or not at all; if not, the
// host calls Run.Discard.
//
// Errors of its methods end the transaction: the run returns them from Run.Advance, and the host
// undoes it.
type Turn interface {
	Journal

	// Now is the transaction's time. It need not be monotonic.
	Now() time.Time
	// Value is the result of Tx.Host of package workflow in functions that run inside the
	// transaction.
	Value() any

	// Receive removes up to limit messages that can be received now from the named queues, and
	// returns them, the oldest of the highest priority first.
	Receive(queues []string, limit int) ([]Delivery, error)
	// Return puts received messages back at the head of their queues.
	Return(messages []Delivery) error
	// Reply answers a message whose sender waits. Only the first reply of a message counts.
	Reply(m *Delivery, reply []byte, failure *Failure) error

	// Send sends a message to another run, exactly once and in order, when the transaction is
	// durable.
	Send(m *Outgoing) error
}

// A Delivery is a message out of a queue of the host.
//
//	Queue string
//	ID uint64 // names the message within its queue
//	Body []byte // CBOR
//	Sent time.Time
//	// WantReply is set if the sender waits for a reply.
//	WantReply bool
type Delivery = replay.Delivery

// An Outgoing is a message of a run to another one: a child to start or to cancel, or the result
// of one for its parent.
//
//	To Destination
//	// Verb is "start", "cancel", "terminate" or "ask" for children, "result" for a parent. Only
//	// "start" may create the destination. If a "start" or "ask" cannot be delivered, the host
//	// passes it to [Undeliverable].
//	Verb string
//	// Body is in CBOR, and opaque to the host, which passes it to [Deliver] in a transaction of
//	// the destination.
//	Body []byte
//	// AsksLiving reports whether a message of a run asks a child that lives. A host that can
//	// read the child's rows at once need not deliver such a message. child has the rows of the
//	// actor that m goes to.
//	func (m *Outgoing) AsksLiving(child Reader) (bool, error)
type Outgoing = replay.Outgoing
