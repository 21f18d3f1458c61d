package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// The values of Cairn's own kinds that are the kernel's, as records of package record.
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
	// replyRecord is the value of KindIdempotency.
	replyRecord struct {
		_           struct{} `cbor:",toarray"`
		Fingerprint []byte   // 16 bytes: xxh3-128 over method, codec and input
		Codec       uint8
		Version     uint64
		Output      []byte
	}
)

func mustEncMode(o cbor.EncOptions) cbor.EncMode {
	m, err := o.EncMode()
	if err != nil {
		panic(err) // the options are constants of this package
	}
	return m
}

// MustDecMode makes a decoding mode from options that are constants; it panics if they are wrong.
func MustDecMode(o cbor.DecOptions) cbor.DecMode {
	m, err := o.DecMode()
	if err != nil {
		panic(err) // the options are constants of this package
	}
	return m
}

// The state's value (KindPersisted) is the state version as a varint, then what Instance.Save wrote.

func appendStateHeader(dst []byte, version uint64) []byte { return binary.AppendUvarint(dst, version) }

func splitState(value []byte) (version uint64, blob []byte, err error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, nil, fmt.Errorf("kernel: stored state has no version header")
	}
	return version, value[n:], nil
}

// Address returns the address of the target.
func (r *MessageRecord) Address() host.Address { return host.Address{Type: r.Type, Key: r.Key} }

// Pinned returns the incarnation that the message is bound to, or the zero id.
func (r *MessageRecord) Pinned() (id keyspace.ActorID) {
	copy(id[:], r.Target)
	return id
}
