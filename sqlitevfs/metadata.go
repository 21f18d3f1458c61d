package sqlitevfs

import (
	"encoding/binary"
	"fmt"

	"github.com/cairn-run/cairn/keyspace"
)

// Metadata is what is kept about a database beside its pages.
type Metadata struct {
	// Pages is the length of the file, in pages.
	Pages uint32
	// Sequence grows by one with every commit that changes a page.
	Sequence uint64
	// Migrations is how many migrations were applied, and Fingerprint the [Fingerprint] of those.
	Migrations  uint32
	Fingerprint [16]byte
}

// metadataFormat is the first byte of the value.
const metadataFormat = 1

// metadataSize is the length of every value: a commit that only rewrites pages must fit into an actor that is full.
const metadataSize = 1 + 4 + 8 + 4 + 16

// append appends the value: format byte 1, Pages, Sequence and Migrations, big-endian, the fingerprint.
func (m Metadata) append(dst []byte) []byte {
	dst = append(dst, metadataFormat)
	dst = binary.BigEndian.AppendUint32(dst, m.Pages)
	dst = binary.BigEndian.AppendUint64(dst, m.Sequence)
	dst = binary.BigEndian.AppendUint32(dst, m.Migrations)
	return append(dst, m.Fingerprint[:]...)
}

// parseMetadata is the inverse of append. The error wraps [ErrCorrupt].
func parseMetadata(b []byte) (m Metadata, err error) {
	if len(b) == 0 || b[0] != metadataFormat {
		return m, fmt.Errorf("%w: metadata of an unknown format", ErrCorrupt)
	}
	if len(b) != metadataSize {
		return m, fmt.Errorf("%w: metadata has %d bytes, want %d", ErrCorrupt, len(b), metadataSize)
	}
	m.Pages = binary.BigEndian.Uint32(b[1:])
	m.Sequence = binary.BigEndian.Uint64(b[5:])
	m.Migrations = binary.BigEndian.Uint32(b[13:])
	copy(m.Fingerprint[:], b[17:])
	return m, nil
}

// ReadMetadata returns the metadata of a database, and false if there is no database. The error wraps [ErrCorrupt] if
// what is there is not metadata; other errors are those of r.
func ReadMetadata(r Reader) (Metadata, bool, error) {
	m, n, err := readMetadata(r, make([]byte, 0, metadataSize+3))
	return m, n >= 0 && err == nil, err
}

// readMetadata also returns the length of the value, or -1 if there is none. It uses scratch for the key and the value.
func readMetadata(r Reader, scratch []byte) (Metadata, int, error) {
	key := keyspace.AppendSQLiteMetadata(scratch[:0], keyspace.SQLiteMain)
	v, ok, err := r.Get(key[len(key):], key)
	if err != nil {
		return Metadata{}, -1, fmt.Errorf("read the metadata of the database: %w", err)
	}
	if !ok {
		return Metadata{}, -1, nil
	}
	m, err := parseMetadata(v)
	return m, len(v), err
}
