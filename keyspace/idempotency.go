package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Idempotency is the key of a stored reply: 12 and the tuple (idempotency key),
// the key being what the caller sent.
type Idempotency struct{ Name string }

// AppendIdempotency appends the key of a stored reply.
func AppendIdempotency(dst []byte, name string) []byte {
	return tuple.AppendString(append(dst, byte(KindIdempotency)), name)
}

// ParseIdempotency returns the caller's idempotency key.
func ParseIdempotency(key []byte) (string, error) {
	if err := checkKind(key, KindIdempotency); err != nil {
		return "", err
	}
	d := tuple.NewDecoder(key[1:])
	name, err := d.String()
	if err == nil {
		err = d.End()
	}
	if err != nil {
		return "", within(KindIdempotency, 1, err)
	}
	return name, nil
}

// Kind returns [KindIdempotency].
func (Idempotency) Kind() Kind { return KindIdempotency }

// Append appends the bytes of the key.
func (k Idempotency) Append(dst []byte) []byte { return AppendIdempotency(dst, k.Name) }

// String returns the form idempotency("order-7").
func (k Idempotency) String() string { return "idempotency(" + strconv.Quote(k.Name) + ")" }

func (Idempotency) key() {}
