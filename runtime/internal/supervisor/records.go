package supervisor

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// recordFormat is the first byte of every value that the supervisor stores, so that a later release can change a record.
const recordFormat = 1

// The values of Cairn's own kinds. Each is recordFormat followed by a CBOR array of the fields in order; fields are only
// ever added at the end.
type (
	// alarmRecord is the value of KindAlarms.
	alarmRecord struct {
		_        struct{} `cbor:",toarray"`
		Due      int64    // unix milliseconds
		Attempts int
		Payload  []byte
	}
	// messageRecord is the value of KindOutgoing.
	messageRecord struct {
		_           struct{} `cbor:",toarray"`
		Type        string
		Key         []string
		Target      []byte // pinned incarnation, 16 bytes; empty until the target exists
		Method      string
		Input       []byte
		Sent        int64 // unix milliseconds
		Traceparent string
	}
	// failedRecord is the value of KindFailedSends.
	failedRecord struct {
		_        struct{} `cbor:",toarray"`
		Message  messageRecord
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
	// eventRecord is the value of KindEventHistory.
	eventRecord struct {
		_       struct{} `cbor:",toarray"`
		Name    string
		Version uint64
		Time    int64 // unix milliseconds
		Data    []byte
	}
)

var (
	recordEncoding = mustEncMode(cbor.EncOptions{Sort: cbor.SortNone, IndefLength: cbor.IndefLengthForbidden})
	recordDecoding = mustDecMode(cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, MaxNestedLevels: 8,
		MaxArrayElements: 1 << 20,
	})
)

func mustEncMode(o cbor.EncOptions) cbor.EncMode {
	m, err := o.EncMode()
	if err != nil {
		panic(err) // the options are constants of this file
	}
	return m
}

func mustDecMode(o cbor.DecOptions) cbor.DecMode {
	m, err := o.DecMode()
	if err != nil {
		panic(err) // the options are constants of this file
	}
	return m
}

func encodeRecord(r any) ([]byte, error) {
	b, err := recordEncoding.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("supervisor: encode %T: %w", r, err)
	}
	return append([]byte{recordFormat}, b...), nil
}

func decodeRecord(b []byte, r any) error {
	if len(b) == 0 {
		return fmt.Errorf("supervisor: decode %T: empty record", r)
	}
	if b[0] != recordFormat {
		return fmt.Errorf("supervisor: decode %T: unknown record format %d", r, b[0])
	}
	if err := recordDecoding.Unmarshal(b[1:], r); err != nil {
		return fmt.Errorf("supervisor: decode %T: %w", r, err)
	}
	return nil
}

// The state's value (KindPersisted) is the state version as a varint, then what Instance.Save wrote.

func appendStateHeader(dst []byte, version uint64) []byte { return binary.AppendUvarint(dst, version) }

func splitState(value []byte) (version uint64, blob []byte, err error) {
	version, n := binary.Uvarint(value)
	if n <= 0 {
		return 0, nil, fmt.Errorf("supervisor: stored state has no version header")
	}
	return version, value[n:], nil
}

func (r *messageRecord) address() host.Address { return host.Address{Type: r.Type, Key: r.Key} }

// pinned returns the incarnation that the message is bound to, or the zero id.
func (r *messageRecord) pinned() (id keyspace.ActorID) {
	copy(id[:], r.Target)
	return id
}
