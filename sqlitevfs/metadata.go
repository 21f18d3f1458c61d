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

// maxMetadata is the length of the longest value.
const maxMetadata = 1 + binary.MaxVarintLen32 + binary.MaxVarintLen64 + binary.MaxVarintLen32 + 16

// append appends the value: format byte 1, uvarints of Pages, Sequence and Migrations, the fingerprint.
func (m Metadata) append(dst []byte) []byte {
	dst = append(dst, metadataFormat)
	dst = binary.AppendUvarint(dst, uint64(m.Pages))
	dst = binary.AppendUvarint(dst, m.Sequence)
	dst = binary.AppendUvarint(dst, uint64(m.Migrations))
	return append(dst, m.Fingerprint[:]...)
}

// parseMetadata is the inverse of append. The error wraps [ErrCorrupt].
func parseMetadata(b []byte) (m Metadata, err error) {
	if len(b) == 0 || b[0] != metadataFormat {
		return m, fmt.Errorf("%w: metadata of an unknown format", ErrCorrupt)
	}
	rest := b[1:]
	var fields [3]uint64
	for i, limit := range [3]uint64{1<<32 - 1, 1<<64 - 1, 1<<32 - 1} {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > limit {
			return Metadata{}, fmt.Errorf("%w: metadata has a bad number at byte %d", ErrCorrupt, len(b)-len(rest))
		}
		fields[i], rest = v, rest[n:]
	}
	if len(rest) != len(m.Fingerprint) {
		return Metadata{}, fmt.Errorf("%w: metadata has %d bytes where %d are the fingerprint", ErrCorrupt, len(rest), len(m.Fingerprint))
	}
	m.Pages, m.Sequence, m.Migrations = uint32(fields[0]), fields[1], uint32(fields[2])
	copy(m.Fingerprint[:], rest)
	return m, nil
}

// ReadMetadata returns the metadata of a database, and false if there is no database. The error wraps [ErrCorrupt] if
// what is there is not metadata; other errors are those of r.
func ReadMetadata(r Reader) (Metadata, bool, error) {
	m, n, err := readMetadata(r, make([]byte, 0, maxMetadata+3))
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
