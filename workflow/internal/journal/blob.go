package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/keyspace"
)

// Large payloads have rows of their own, by the hash of their content, so that equal payloads of a
// run are stored once. The head row counts the references of entries. The transaction that drops
// the last reference removes the rows. An entry and the heads that it changes are written in one
// transaction, so a crash leaves no rows without references.

const (
	InlineLimit = 16 << 10 // the largest payload within its entry, in bytes
	BlobChunk   = 64 << 10 // bytes of a payload in one row

	// DefaultMaxPayload is the maximum size of a result, state or message, in bytes, unless a run
	// has another limit.
	DefaultMaxPayload = 16 << 20
)

// ErrTooLarge is matched by a *TooLargeError.
var ErrTooLarge = errors.New("too large")

// A TooLargeError says which value exceeds which limit.
type TooLargeError struct {
	What  string // such as "output of step \"charge\""
	Size  int64
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("workflow: %s has %d bytes, and the limit is %d", e.What, e.Size, e.Limit)
}

// Is reports whether target is ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// AddBlob adds a reference to a payload, and writes the payload if it is the first.
func AddBlob(j Journal, hash *keyspace.WorkflowHash, payload []byte) error {
	refs, size, err := BlobHead(j, hash)
	if err != nil {
		return err
	}
	if refs == 0 {
		for chunk := uint32(1); len(payload) > 0; chunk++ {
			n := min(len(payload), BlobChunk)
			if err := j.Put(keyspace.WorkflowBlob.Append(nil, hash, chunk), payload[:n]); err != nil {
				return err
			}
			size, payload = size+uint64(n), payload[n:]
		}
	}
	return putBlobHead(j, hash, refs+1, size)
}

// ShareBlob adds a reference to a stored payload.
func ShareBlob(j Journal, hash *keyspace.WorkflowHash) error {
	refs, size, err := BlobHead(j, hash)
	if err != nil {
		return err
	}
	if refs == 0 {
		return Corrupt(keyspace.WorkflowBlob.Append(nil, hash, 0), errors.New("missing"))
	}
	return putBlobHead(j, hash, refs+1, size)
}

// DropBlob drops a reference, and removes the payload with the last one.
func DropBlob(j Journal, hash *keyspace.WorkflowHash) error {
	refs, size, err := BlobHead(j, hash)
	switch {
	case err != nil:
		return err
	case refs > 1:
		return putBlobHead(j, hash, refs-1, size)
	}
	start := keyspace.WorkflowBlob.Append(nil, hash, 0)
	return j.DeleteRange(start, keyspace.TupleEnd(start))
}

func putBlobHead(j Journal, hash *keyspace.WorkflowHash, refs, size uint64) error {
	value := binary.AppendUvarint(binary.AppendUvarint([]byte{Form2, 0}, refs), size)
	return j.Put(keyspace.WorkflowBlob.Append(nil, hash, 0), value)
}

// BlobHead returns the number of references to a payload, 0 if it is not stored, and its size.
func BlobHead(r Reader, hash *keyspace.WorkflowHash) (refs, size uint64, err error) {
	key := keyspace.WorkflowBlob.Append(nil, hash, 0)
	value, ok, err := r.Get(key)
	if err != nil || !ok {
		return 0, 0, err
	}
	form, err := FormOf("large value", value)
	if err == nil && form != Form2 {
		err = &SyntaxError{"large value", 0, fmt.Sprintf("form %d", form)}
	}
	if err != nil {
		return 0, 0, Corrupt(key, err)
	}
	d := Decoder{What: "large value", B: value, Off: 2}
	refs, size = d.Uvarint(), d.Uvarint()
	if d.Err == nil && refs == 0 {
		d.Fail(2, "no references")
	}
	return refs, size, Corrupt(key, d.End())
}

// readBlob reads a payload.
func readBlob(r Reader, ref *LargeRef) ([]byte, error) {
	start := keyspace.WorkflowBlob.Append(nil, &ref.Hash, 1)
	end := keyspace.TupleEnd(keyspace.WorkflowBlob.Append(nil, &ref.Hash, 0))
	var payload []byte
	err := r.Scan(start, end, func(_, value []byte) error {
		if payload == nil {
			payload = make([]byte, 0, min(ref.Size, DefaultMaxPayload))
		}
		payload = append(payload, value...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if uint64(len(payload)) != ref.Size || sha256.Sum256(payload) != ref.Hash {
		return nil, Corrupt(start, errors.New("is not what its hash and size say"))
	}
	return payload, nil
}

// FetchPayloads reads the large payloads of an entry.
func FetchPayloads(r Reader, e *Entry) error {
	for i := range e.Large {
		ref := &e.Large[i]
		payload, err := readBlob(r, ref)
		if err != nil {
			return err
		}
		switch {
		case ref.Payload == PayloadOutput:
			e.Output = payload
		case ref.Payload == PayloadState:
			e.State = payload
		case ref.Payload == PayloadFailure && e.Failure != nil:
			e.Failure.Data = payload
		case ref.Payload >= PayloadMessages && ref.Payload-PayloadMessages < len(e.Messages):
			e.Messages[ref.Payload-PayloadMessages].Body = payload
		}
	}
	e.Large = nil
	return nil
}

// HashOf returns the hash of a payload.
func HashOf(payload []byte) keyspace.WorkflowHash { return sha256.Sum256(payload) }

// SameRefs reports whether two entries refer to the same payloads.
func SameRefs(a, b []LargeRef) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Payload != b[i].Payload || !bytes.Equal(a[i].Hash[:], b[i].Hash[:]) {
			return false
		}
	}
	return true
}
