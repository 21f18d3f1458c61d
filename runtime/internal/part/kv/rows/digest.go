package kvrows

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// DigestSize is the size in bytes of a Digest that is written.
const DigestSize = 16

// A Digest stands for the keys and versions of a set of entries, in any order: the sum of their
// hashes. The zero value stands for no entry.
type Digest [2]uint64

// Add adds an entry, whose key is the key of its row.
func (d *Digest) Add(e *engine.Entry) {
	hash := sha256.Sum256(binary.BigEndian.AppendUint64(e.Key[:len(e.Key):len(e.Key)], uint64(e.Version)))
	d[0] += binary.BigEndian.Uint64(hash[:])
	d[1] += binary.BigEndian.Uint64(hash[8:])
}

// Append appends the DigestSize bytes of the digest.
func (d Digest) Append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, d[0]), d[1])
}

// ReadDigest reads the result of Append.
func ReadDigest(b [DigestSize]byte) Digest {
	return Digest{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

// MaxChecked bounds the entries that the checks of ranges of one commit read.
const MaxChecked = 100_000

// digest returns the digest of the entries with start <= key < end.
func digest(r engine.Reader, start, end []byte, done *work) (d Digest, err error) {
	q := engine.ListQuery{KeysOnly: true}
	q.Start, q.End = Bounds(start, end)
	checked := done.checked // not done itself, which a commit without such checks need not allocate
	err = r.Each(q, func(e *engine.Entry) bool {
		checked++
		d.Add(e)
		return checked <= MaxChecked
	})
	if done.checked = checked; err == nil && checked > MaxChecked {
		err = host.OverLimit("entries that the checks of one commit read", MaxChecked, int64(checked))
	}
	return d, err
}
