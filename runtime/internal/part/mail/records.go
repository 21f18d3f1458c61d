package mail

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// The values of the kinds of this part, as records of package record.
type (
	// MessageRecord is the value of KindOutgoing.
	MessageRecord struct {
		_           struct{} `cbor:",toarray"`
		Type        string
		Key         []string
		Target      []byte // pinned incarnation, 16 bytes; empty until the target exists
		Method      string
		Input       []byte
		Sent        int64 // unix milliseconds
		Traceparent string
	}
	// FailedRecord is the value of KindFailedSends.
	FailedRecord struct {
		_        struct{} `cbor:",toarray"`
		Message  MessageRecord
		Code     string
		Reason   string
		Attempts int
		Failed   int64 // unix milliseconds
	}
)

// Address returns the address of the target.
func (r *MessageRecord) Address() host.Address { return host.Address{Type: r.Type, Key: r.Key} }

// Pinned returns the incarnation that the message is bound to, or the zero id.
func (r *MessageRecord) Pinned() (id keyspace.ActorID) {
	copy(id[:], r.Target)
	return id
}
