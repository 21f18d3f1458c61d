package sqlitevfs

import (
	"encoding/binary"
	"fmt"

	"github.com/cairn-run/cairn/keyspace"
)

// Metadata is the data of a database besides its pages.
type Metadata struct {
	// Pages is the length of the file, in pages.
	Pages uint32
	// Sequence grows by one with every commit that changes a page.
	Sequence uint64
	// Migrations is the number of applied migrations, and Fingerprint their [Fingerprint].
	Migrations  uint32
	Fingerprint [16]byte
}

// The first byte of the value.
const (
	formatPlain   = 1 // there are no patches
	formatPatched = 2 // patches follow
)

// metadataSize is the length of a value without patches, and of the part before them. A commit that
// only rewrites pages must fit into a full actor, so a commit with hardly any room makes no
// patches.
const metadataSize = 1 + 4 + 8 + 4 + 16

// append appends the value without patches: format byte 1, Pages, Sequence and Migrations,
// big-endian, the fingerprint.
func (m Metadata) append(dst []byte) []byte {
	dst = append(dst, formatPlain)
	dst = binary.BigEndian.AppendUint32(dst, m.Pages)
	dst = binary.BigEndian.AppendUint64(dst, m.Sequence)
	dst = binary.BigEndian.AppendUint32(dst, m.Migrations)
	return append(dst, m.Fingerprint[:]...)
}

// appendWith appends the value with patches.
func (m Metadata) appendWith(dst []byte, l patches) []byte {
	format := len(dst)
	dst = m.append(dst)
	if len(l) > 0 {
		dst[format] = formatPatched
	}
	return l.append(dst)
}

// parseMetadata is the inverse of append. parsePatches reads the rest of a value with patches, from
// metadataSize on. The error wraps [ErrCorrupt].
func parseMetadata(b []byte) (m Metadata, err error) {
	if len(b) == 0 || b[0] != formatPlain && b[0] != formatPatched {
		return m, fmt.Errorf("%w: metadata of an unknown format", ErrCorrupt)
	}
	if len(b) < metadataSize || (len(b) > metadataSize) != (b[0] == formatPatched) {
		return m, fmt.Errorf("%w: metadata of format %d has %d bytes, and without patches %d",
			ErrCorrupt, b[0], len(b), metadataSize)
	}
	m.Pages = binary.BigEndian.Uint32(b[1:])
	m.Sequence = binary.BigEndian.Uint64(b[5:])
	m.Migrations = binary.BigEndian.Uint32(b[13:])
	copy(m.Fingerprint[:], b[17:])
	return m, nil
}

// ReadMetadata returns the metadata of a database, and false if there is no database. The error
// wraps [ErrCorrupt] if the value is not metadata; other errors are those of r.
func ReadMetadata(r Reader) (Metadata, bool, error) {
	m, v, err := readMetadata(r, make([]byte, 0, metadataSize+3))
	return m, v != nil && err == nil, err
}

// readMetadata also returns the value, or nil if there is none. It uses scratch for the key and the
// value.
func readMetadata(r Reader, scratch []byte) (m Metadata, value []byte, err error) {
	key := keyspace.SQLiteMetadata.Append(scratch[:0], keyspace.SQLiteMain)
	v, ok, err := r.Get(key[len(key):], key)
	if err != nil {
		return m, nil, fmt.Errorf("read the metadata of the database: %w", err)
	}
	if !ok {
		return m, nil, nil
	}
	m, err = parseMetadata(v)
	return m, v, err
}
