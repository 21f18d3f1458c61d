package keyspace

import (
	"strconv"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Expiry is an entry of the index of keys that expire: 11 and the tuple (Unix
// milliseconds, key bytes). The value is empty. Keys order by the time at which
// they expire.
type Expiry struct {
	At  int64  // Unix milliseconds
	Key []byte // logical key that expires; not empty and not itself an expiry key
}

// AppendExpiry appends the key of an index entry.
func AppendExpiry(dst []byte, atMS int64, key []byte) []byte {
	return tuple.AppendBytes(AppendExpiryTime(dst, atMS), key)
}

// AppendExpiryTime appends what the entries of one millisecond begin with. As
// the end of a range it excludes that millisecond and all later ones.
func AppendExpiryTime(dst []byte, atMS int64) []byte {
	return tuple.AppendInt(append(dst, byte(KindExpiry)), atMS)
}

// ParseExpiry takes an index entry apart. Key is in new memory.
func ParseExpiry(key []byte) (Expiry, error) {
	if err := checkKind(key, KindExpiry); err != nil {
		return Expiry{}, err
	}
	k, err := parseExpiry(key[1:])
	return k, within(KindExpiry, 1, err)
}

func parseExpiry(packed []byte) (k Expiry, err error) {
	d := tuple.NewDecoder(packed)
	if k.At, err = d.Int(); err != nil {
		return Expiry{}, err
	}
	at := d.Offset()
	if k.Key, err = d.AppendBytes(nil); err != nil {
		return Expiry{}, err
	}
	if len(k.Key) == 0 || Kind(k.Key[0]) == KindExpiry {
		return Expiry{}, &tuple.SyntaxError{Offset: at + 1, Reason: "want a key that can expire"}
	}
	if err := d.End(); err != nil {
		return Expiry{}, err
	}
	return k, nil
}

// Kind returns [KindExpiry].
func (Expiry) Kind() Kind { return KindExpiry }

// Append appends the bytes of the key.
func (k Expiry) Append(dst []byte) []byte { return AppendExpiry(dst, k.At, k.Key) }

// String returns the form expiry(1771891200000, kv("users", 42)).
func (k Expiry) String() string {
	inner := k.Key
	dst := []byte("expiry(")
	dst = strconv.AppendInt(dst, k.At, 10)
	dst = append(dst, ", "...)
	if len(inner) > 0 && Kind(inner[0]) == KindExpiry {
		dst = appendHex(dst, inner) // not a key that can expire: do not descend
	} else {
		dst = append(dst, Format(inner)...)
	}
	return string(append(dst, ')'))
}

func (Expiry) key() {}
