package kv

import (
	"math"
	"math/big"
	"slices"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// What a node in the process of its caller gets of some inputs: see host.Local. A query runs while
// its caller waits, so of the inputs of queries only keys are copied that become parts of the
// output.

// Detach gives the input a key of its own, and returns it.
func (in *GetInput) Detach() any {
	in.Key = in.Key.detach()
	return in
}

// Detach gives the input keys of its own, and returns it.
func (in *GetManyInput) Detach() any {
	keys := make([]Key, len(in.Keys))
	for i, key := range in.Keys {
		keys[i] = key.detach()
	}
	in.Keys = keys
	return in
}

// Detach returns a copy: an answer of several pages is asked for with one input.
func (in *ListInput) Detach() any {
	out := *in
	return &out
}

// Detach returns a copy, like that of ListInput.
func (in *CountInput) Detach() any {
	out := *in
	return &out
}

// Detach gives the input keys of its own, and returns it: a commit may go on when its caller has
// given up. Everything else of it must be nobody else's.
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

// Size returns about how many bytes a commit has.
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

// detach returns a copy whose integers have the types that they have when a key is decoded.
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
