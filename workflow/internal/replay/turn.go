package replay

import "time"

// A Turn is one transaction of the host.
type Turn interface {
	Journal

	// Now is the transaction's time. It need not be monotonic.
	Now() time.Time
	// Value is the result of [Tx.Host] in functions that run inside the transaction.
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

// An Outgoing is a message of a run to another one: a child to start or to cancel, or the result of
// one for its parent.
type Outgoing struct {
	To Destination
	// Verb is "start", "cancel", "terminate" or "ask" for children, "result" for a parent. Only
	// "start" may create the destination. If a "start" or "ask" cannot be delivered, the host
	// passes it to [Undeliverable].
	Verb string
	// Body is in CBOR, and opaque to the host, which passes it to [Deliver] in a transaction of the
	// destination.
	Body []byte
}
