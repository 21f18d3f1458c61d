package journal

import "time"

// A Reader reads the rows of one run. Keys are those of package keyspace, kind workflow: they begin
// with the byte 07.
type Reader interface {
	// Get returns the value of a key. The value must not be changed, and is valid until the
	// transaction ends.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls visit with the rows start <= key < end in the order of keys, until it returns an
	// error, which Scan returns. Key and value are valid during the call.
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

// PutNew puts a row whose key has none.
func PutNew(j Journal, key, value []byte) error {
	if n, ok := j.(NewPutter); ok {
		return n.PutNew(key, value)
	}
	return j.Put(key, value)
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
