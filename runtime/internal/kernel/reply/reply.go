// Package reply keeps the replies to calls with an idempotency key.
package reply

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Request tells calls apart that have the same idempotency key.
type Request struct {
	Key    string // the idempotency key
	Method string
	Codec  host.Codec
	Input  []byte
}

// A Reply is the result of a call.
type Reply struct {
	Version engine.Version // of the turn
	Output  []byte
}

// stored is the value of KindIdempotency, a record of package record.
type stored struct {
	_           struct{} `cbor:",toarray"`
	Fingerprint []byte   // 16 bytes: xxh3-128 over method, codec and input
	Codec       uint8
	Version     uint64
	Output      []byte
}

func (r *Request) fingerprint() []byte {
	h := xxh3.New()
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(r.Method)))
	h.Write(n[:])
	h.WriteString(r.Method)
	h.Write([]byte{byte(r.Codec)})
	h.Write(r.Input)
	s := h.Sum128().Bytes()
	return s[:]
}

// Find returns the stored reply of an earlier request with the same key. ok is false if there is
// none, or it has expired. The error is an *host.Error with code IdempotencyMismatch if the earlier
// request was a different one.
func Find(rows *engine.WriteSet, r Request) (found Reply, ok bool, err error) {
	at := rows.Savepoint()
	rows.Advance(time.Now().UnixMilli()) // an expired reply reads as absent from now on
	e, ok, err := rows.Get(keyspace.Idempotency.Append(nil, r.Key))
	rows.Rollback(at)
	if err != nil || !ok {
		return found, false, err
	}
	if e.Expire != 0 && e.Expire <= time.Now().UnixMilli() {
		return found, false, nil // the write set's clock still stands at the last turn
	}
	var s stored
	if err := record.Decode(e.Value, &s); err != nil {
		return found, false, err
	}
	if !bytes.Equal(s.Fingerprint, r.fingerprint()) {
		return found, false,
			host.Errorf(host.IdempotencyMismatch, "the idempotency key was used before with another method or input")
	}
	return Reply{engine.Version(s.Version), s.Output}, true, nil
}

// Keep stores a reply until o.ExpireAt.
func Keep(rows *engine.WriteSet, r Request, is Reply, o engine.PutOptions) error {
	rec, err := record.Encode(&stored{Fingerprint: r.fingerprint(), Codec: uint8(r.Codec),
		Version: uint64(is.Version), Output: is.Output})
	if err != nil {
		return err
	}
	return rows.Put(keyspace.Idempotency.Append(nil, r.Key), rec, o)
}
