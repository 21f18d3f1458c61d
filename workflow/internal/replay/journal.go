package replay

import "time"

// A Reader reads the rows of one run. Keys are those of package keyspace, kind workflow: they begin with the byte 07.
type Reader interface {
	// Get returns the value of a key. The value must not be changed, and is valid until the transaction ends.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls visit with the rows start <= key < end in the order of keys, until it returns an error, which Scan returns.
	// Key and value are valid during the call.
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

// A NewPutter is a Journal that saves work where the caller knows that a key has no row: it need not look for the old one.
type NewPutter interface {
	// PutNew is Put of a key that has no row, neither in the store nor by the transaction.
	PutNew(key, value []byte) error
}

// putNew puts a row whose key has none.
func putNew(j Journal, key, value []byte) error {
	if n, ok := j.(NewPutter); ok {
		return n.PutNew(key, value)
	}
	return j.Put(key, value)
}

// A Turn is one transaction of the host.
type Turn interface {
	Journal

	// Now is the transaction's time. It need not be monotonic.
	Now() time.Time
	// Value is what [Tx.Host] returns to functions that run inside the transaction.
	Value() any

	// Receive removes up to limit messages that can be received now from the named queues, and returns them, the oldest of
	// the highest priority first.
	Receive(queues []string, limit int) ([]Delivery, error)
	// Return puts received messages back at the head of their queues.
	Return(messages []Delivery) error
	// Reply answers a message whose sender waits. Only the first reply of a message counts.
	Reply(m *Delivery, reply []byte, failure *Failure) error

	// Send sends a message to another run, exactly once and in order, when the transaction is durable.
	Send(m *Outgoing) error
}

// A Delivery is a message out of a queue of the host.
type Delivery struct {
	Queue string
	ID    uint64 // names the message within its queue
	Body  []byte // CBOR
	Sent  time.Time
	// WantReply is set if the sender waits for a reply.
	WantReply bool
}

// A Destination names the actor of a child run by its type and key in the host's directory.
type Destination struct {
	Type string   `cbor:"1,keyasint,omitempty" json:"type,omitempty"`
	Key  []string `cbor:"2,keyasint,omitempty" json:"key,omitempty"`
}

// An Outgoing is a message of a run to another one: a child to start or to cancel, or the result of one for its parent.
type Outgoing struct {
	To Destination
	// Verb says what it is: "start", "cancel", "terminate" and "ask" for children, "result" for a parent. Only
	// "start" may create the destination. One of "start" or "ask" that cannot be delivered is handed to [Undeliverable].
	Verb string
	// Body is in CBOR, and opaque to the host, which hands it to [Deliver] in a transaction of the destination.
	Body []byte
}
