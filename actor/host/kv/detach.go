package kv

import (
	"math"
	"math/big"
	"slices"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The forms of some inputs for a node in the process of its caller: see host.Local. A query runs
// while its caller waits, so only the keys in its input that become parts of the output are copied.

// Detach copies the key of the input, and returns the input.
func (in *GetInput) Detach() any {
	in.Key = in.Key.detach()
	return in
}

// Detach copies the keys of the input, and returns the input.
func (in *GetManyInput) Detach() any {
	keys := make([]Key, len(in.Keys))
	for i, key := range in.Keys {
		keys[i] = key.detach()
	}
	in.Keys = keys
	return in
}

// Detach returns a copy, because one input requests several pages.
func (in *ListInput) Detach() any {
	out := *in
	return &out
}

// Detach returns a copy, like that of ListInput.
func (in *CountInput) Detach() any {
	out := *in
	return &out
}

// Detach copies the keys of the input and returns it: a commit may go on when its caller has given
// up. The rest of the input must not be shared.
func (in *CommitInput) Detach() any {
	for i := range in.Checks {
		in.Checks[i].Key = in.Checks[i].Key.detach()
	}
	for i := range in.Mutations {
		m := &in.Mutations[i]
		m.Key = m.Key.detach()
		m.Prefix, m.Start, m.End = m.Prefix.detach(), m.Start.detach(), m.End.detach()
	}
	return in
}

// Size returns the approximate size of a commit in bytes.
func (in *CommitInput) Size() (n int64) {
	const fixed = 64 // of a check or mutation
	for i := range in.Checks {
		n += fixed + int64(len(in.Checks[i].Value))
	}
	for i := range in.Mutations {
		n += fixed + int64(len(in.Mutations[i].Value))
	}
	return n
}

// detach returns a copy whose integers have the types of a decoded key.
func (k Key) detach() Key {
	if k == nil {
		return nil
	}
	out := make(Key, len(k))
	for i, part := range k {
		switch n := part.(type) {
		case []byte:
			part = slices.Clone(n)
		case Raw:
			part = unpack(slices.Clone(n))
		case tuple.Tuple:
			part = tuple.Tuple(Key(n).detach())
		case *big.Int:
			if n != nil {
				part = plain(n)
			}
		case int:
			part = int64(n)
		case int8:
			part = int64(n)
		case int16:
			part = int64(n)
		case int32:
			part = int64(n)
		case uint:
			part = whole(uint64(n))
		case uint8:
			part = int64(n)
		case uint16:
			part = int64(n)
		case uint32:
			part = int64(n)
		case uint64:
			part = whole(n)
		}
		out[i] = part
	}
	return out
}

// whole returns an integer in the smallest type of a decoded key.
func whole(n uint64) any {
	if n <= math.MaxInt64 {
		return int64(n)
	}
	return n
}

func plain(n *big.Int) any {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.IsUint64():
		return n.Uint64()
	}
	return new(big.Int).Set(n)
}
