package keyspace

import (
	"bytes"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// UserKV is a key of the application's own key-value store: 04 and the packed
// tuple of the user key. Every user key of Cairn is a tuple; the empty one is
// the key 04.
type UserKV struct {
	Packed []byte // canonical packed form, see package tuple
}

// AppendUserKV appends the key of a user key in its packed form. With the packed
// form of the first elements it is the start of the range of all user keys that
// begin with them, which ends at [TupleEnd].
func AppendUserKV(dst, packed []byte) []byte {
	dst = append(dst, byte(KindUserKV))
	return append(dst, packed...)
}

// AppendUserTuple packs a user key and appends its key. On error it returns dst
// as it was and a [*tuple.ElementError].
func AppendUserTuple(dst []byte, t tuple.Tuple) ([]byte, error) {
	n := len(dst)
	dst, err := tuple.Append(append(dst, byte(KindUserKV)), t)
	if err != nil {
		return dst[:n], err
	}
	return dst, nil
}

// ParseUserKV returns the packed user key, in new memory, after checking that it
// is a canonical tuple.
func ParseUserKV(key []byte) ([]byte, error) {
	if _, err := ParseUserTuple(key); err != nil {
		return nil, err
	}
	return bytes.Clone(key[1:]), nil
}

// ParseUserTuple returns the elements of the user key.
func ParseUserTuple(key []byte) (tuple.Tuple, error) {
	if err := checkKind(key, KindUserKV); err != nil {
		return nil, err
	}
	t, err := tuple.Unpack(key[1:])
	return t, within(KindUserKV, 1, err)
}

// Kind returns [KindUserKV].
func (UserKV) Kind() Kind { return KindUserKV }

// Append appends the bytes of the key.
func (k UserKV) Append(dst []byte) []byte { return AppendUserKV(dst, k.Packed) }

// String returns the form kv("users", 42).
func (k UserKV) String() string {
	t, err := tuple.Unpack(k.Packed)
	if err != nil {
		return string(appendHex([]byte("kv?"), k.Packed))
	}
	return string(t.AppendText([]byte("kv")))
}

func (UserKV) key() {}
