package kvconnect

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The limits of an AtomicWrite, which clients rely on.
const (
	maxKey             = 2_048
	maxValue           = 65_536 // stored
	maxChecks          = 10
	maxMutations       = 1_000 // with enqueues
	maxWrite           = 819_200
	maxUndeliveredKeys = 10
)

// atomicWrite answers an AtomicWrite.
func (s *store) atomicWrite(ctx context.Context, body []byte) ([]byte, error) {
	w, err := parseAtomicWrite(body)
	if err != nil {
		return nil, refused("%s", err)
	}
	in, err := w.commit(time.Now())
	if err != nil {
		return nil, err
	}
	var out struct {
		OK      bool
		Failed  []int
		Version uint64
	}
	if err := s.call(ctx, host.KVCommit, in, &out); err != nil {
		return nil, err
	}
	return appendAtomicWriteOutput(nil, kv.Stamp(out.Version), out.Failed), nil
}

// commit returns the commit of an AtomicWrite.
func (w *atomicWrite) commit(now time.Time) (*kv.CommitInput, error) {
	if n := len(w.mutations) + len(w.enqueues); n > maxMutations {
		return nil, refused("there are %d mutations and enqueues; the limit is %d", n, maxMutations)
	}
	if n := w.size(); n > maxWrite {
		return nil, host.OverLimit("bytes of the keys and values", maxWrite, int64(n))
	}
	in := &kv.CommitInput{Checks: make([]kv.Check, len(w.checks)), Mutations: make([]kv.Mutation, len(w.mutations))}
	for i := range w.checks {
		if err := w.checks[i].translate(&in.Checks[i]); err != nil {
			return nil, within(err, "checks", i)
		}
	}
	for i := range w.mutations {
		if err := w.mutations[i].translate(&in.Mutations[i], now); err != nil {
			return nil, within(err, "mutations", i)
		}
	}
	if len(w.enqueues) == 0 {
		return in, nil
	}
	messages := make([]host.QueueMessageInput, len(w.enqueues))
	for i := range w.enqueues {
		if err := w.enqueues[i].translate(&messages[i], now); err != nil {
			return nil, within(err, "enqueues", i)
		}
	}
	in.Sends = []host.QueueSendInput{{Queue: Queue, Messages: messages}}
	return in, nil
}

// size counts the bytes of keys and values.
func (w *atomicWrite) size() (n int) {
	for i := range w.checks {
		n += len(w.checks[i].key)
	}
	for i := range w.mutations {
		n += len(w.mutations[i].key) + len(w.mutations[i].value.data)
	}
	for i := range w.enqueues {
		n += len(w.enqueues[i].payload)
		for _, key := range w.enqueues[i].keysIfUndelivered {
			n += len(key)
		}
	}
	return n
}

// keyOf reads a key. It accepts only keys that every client of Deno KV can read: a tuple of its
// types, in its only form.
func keyOf(b []byte) (kv.Key, error) {
	if len(b) > maxKey {
		return nil, host.OverLimit("bytes of the key", maxKey, int64(len(b)))
	}
	parts, err := tuple.Unpack(b)
	if err != nil {
		return nil, refused("the key is no tuple: %s", err)
	}
	key := kv.Key(parts)
	if _, err := key.Entry(); err != nil {
		return nil, err
	}
	for i, part := range parts {
		if f, double := part.(float64); double && math.IsNaN(f) {
			parts[i] = math.Float64frombits(0x7FF8000000000000)
		}
	}
	if again, err := key.Pack(); err != nil || !bytes.Equal(again, b) {
		return nil, refused("the key has a part that is not in its shortest form")
	}
	return key, nil
}

func (c *check) translate(to *kv.Check) (err error) {
	if to.Key, err = keyOf(c.key); err != nil {
		return err
	}
	version := uint64(0) // there must be no entry
	switch len(c.versionstamp) {
	case 0:
	case 10:
		version = binary.BigEndian.Uint64(c.versionstamp)
		if version == 0 || !bytes.Equal(c.versionstamp, kv.Stamp(version)) {
			version = math.MaxUint64 // no entry has it
		}
	default:
		return refused("the versionstamp has %d bytes; it has 10, or none if there must be no entry", len(c.versionstamp))
	}
	to.Version = &version
	return nil
}

func (m *mutation) translate(to *kv.Mutation, now time.Time) (err error) {
	if to.Key, err = keyOf(m.key); err != nil {
		return err
	}
	if m.expireAtMS < -1 {
		return refused("expire_at_ms is %d; it is a time, or 0 or -1 for never", m.expireAtMS)
	}
	switch m.kind {
	case mutationSet, mutationSetVersionstampedKey:
		if to.Op, to.Literal = "put", true; m.kind != mutationSet {
			to.Key = append(to.Key, kv.Versionstamp)
		}
	case mutationDelete:
		to.Op = "delete"
		return nil
	case mutationSum:
		to.Op = "sum"
		err = m.bounds(to)
	case mutationMax, mutationMin:
		to.Op = "max"
		if m.kind == mutationMin {
			to.Op = "min"
		}
		if m.value.encoding != encodingLE64 {
			err = refused("the operand of %s is no KvU64", to.Op)
		}
	default:
		err = refused("the mutation_type %d is not known", m.kind)
	}
	if err != nil {
		return err
	}
	if m.expireAtMS > 0 {
		if m.expireAtMS-now.UnixMilli() > kv.MaxTTL {
			return refused("expire_at_ms is more than 100 years from now")
		}
		at := time.UnixMilli(m.expireAtMS).UTC()
		to.Expires = &at
	}
	to.Value, to.Encoding, err = m.value.translate()
	return err
}

// bounds translates the bounds of a sum.
func (m *mutation) bounds(to *kv.Mutation) error {
	if len(m.sumMin)+len(m.sumMax) == 0 {
		return nil // there is nothing to clamp either
	}
	if m.value.encoding != encodingV8 {
		return refused("sum_min and sum_max do not apply to a KvU64")
	}
	if n := max(len(m.sumMin), len(m.sumMax)); n > maxValue {
		return host.OverLimit("bytes of a bound", maxValue, int64(n))
	}
	if len(m.sumMin) > 0 {
		to.Min = kv.ByteString(m.sumMin)
	}
	if len(m.sumMax) > 0 {
		to.Max = kv.ByteString(m.sumMax)
	}
	to.Clamp = m.sumClamp
	return nil
}

// translate returns a value in CBOR, and the name of its encoding.
func (v *kvValue) translate() (host.Raw, string, error) {
	if len(v.data) > maxValue {
		return nil, "", host.OverLimit("bytes of the value", maxValue, int64(len(v.data)))
	}
	encoding := host.Encoding(v.encoding)
	switch v.encoding {
	case encodingV8, encodingBytes:
	case encodingLE64:
		if len(v.data) != 8 {
			return nil, "", refused("a KvU64 has %d bytes and not 8", len(v.data))
		}
	default:
		return nil, "", refused("the encoding %d is not known", v.encoding)
	}
	return kv.ByteString(v.data), encoding.String(), nil
}
