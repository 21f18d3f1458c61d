package keyspace

import (
	"encoding/binary"
	"strconv"
)

// SQLiteFile says which of the files of an actor's database a key belongs to.
type SQLiteFile byte

const (
	SQLiteMain    SQLiteFile = 0 // the database
	SQLiteJournal SQLiteFile = 1 // rollback journal
	SQLiteWAL     SQLiteFile = 2 // write-ahead log
	SQLiteSHM     SQLiteFile = 3 // index of the write-ahead log
)

// String returns "main", "journal", "wal", "shm" or "file N".
func (f SQLiteFile) String() string {
	switch f {
	case SQLiteMain:
		return "main"
	case SQLiteJournal:
		return "journal"
	case SQLiteWAL:
		return "wal"
	case SQLiteSHM:
		return "shm"
	default:
		return "file " + strconv.Itoa(int(f))
	}
}

// The second byte of a SQLite key.
const (
	sqliteMetadata = 0
	sqliteChunk    = 1
)

// ParseSQLite takes a SQLite key of either form apart; the result is a
// [SQLiteMetadata] or a [SQLiteChunk].
func ParseSQLite(key []byte) (Key, error) {
	if err := checkKind(key, KindSQLite); err != nil {
		return nil, err
	}
	fail := func(at int, reason string) (Key, error) {
		return nil, &SyntaxError{what(KindSQLite), at, reason}
	}
	if len(key) < 3 {
		return fail(len(key), "cut short")
	}
	file := SQLiteFile(key[2])
	if file > SQLiteSHM {
		return fail(2, "unknown "+file.String())
	}
	switch key[1] {
	case sqliteMetadata:
		if len(key) != 3 {
			return fail(3, "bytes after the file")
		}
		return SQLiteMetadata{file}, nil
	case sqliteChunk:
		if len(key) != 7 {
			return fail(min(len(key), 7), "want four bytes after the file")
		}
		return SQLiteChunk{file, binary.BigEndian.Uint32(key[3:])}, nil
	default:
		return fail(1, "unknown form "+strconv.Itoa(int(key[1])))
	}
}

// SQLiteMetadata is the key of a file's size: 09 00 file.
type SQLiteMetadata struct{ File SQLiteFile }

// AppendSQLiteMetadata appends the key of a file's size.
func AppendSQLiteMetadata(dst []byte, file SQLiteFile) []byte {
	return append(dst, byte(KindSQLite), sqliteMetadata, byte(file))
}

// ParseSQLiteMetadata returns the file.
func ParseSQLiteMetadata(key []byte) (SQLiteFile, error) {
	k, err := ParseSQLite(key)
	if err != nil {
		return 0, err
	}
	if k, ok := k.(SQLiteMetadata); ok {
		return k.File, nil
	}
	return 0, &SyntaxError{what(KindSQLite), 1, "key of a chunk"}
}

// Kind returns [KindSQLite].
func (SQLiteMetadata) Kind() Kind { return KindSQLite }

// Append appends the bytes of the key.
func (k SQLiteMetadata) Append(dst []byte) []byte { return AppendSQLiteMetadata(dst, k.File) }

// String returns the form sqlite/main/metadata.
func (k SQLiteMetadata) String() string { return "sqlite/" + k.File.String() + "/metadata" }

func (SQLiteMetadata) key() {}

// SQLiteChunk is the key of one page of a file: 09 01 file u32.
type SQLiteChunk struct {
	File  SQLiteFile
	Index uint32 // from 0
}

// AppendSQLiteChunk appends the key of a page.
func AppendSQLiteChunk(dst []byte, file SQLiteFile, index uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendSQLiteChunks(dst, file), index)
}

// AppendSQLiteChunks appends what the keys of all pages of a file begin with;
// the range ends at [Successor].
func AppendSQLiteChunks(dst []byte, file SQLiteFile) []byte {
	return append(dst, byte(KindSQLite), sqliteChunk, byte(file))
}

// ParseSQLiteChunk returns the file and the index of the page.
func ParseSQLiteChunk(key []byte) (SQLiteFile, uint32, error) {
	k, err := ParseSQLite(key)
	if err != nil {
		return 0, 0, err
	}
	if k, ok := k.(SQLiteChunk); ok {
		return k.File, k.Index, nil
	}
	return 0, 0, &SyntaxError{what(KindSQLite), 1, "key of a file's size"}
}

// Kind returns [KindSQLite].
func (SQLiteChunk) Kind() Kind { return KindSQLite }

// Append appends the bytes of the key.
func (k SQLiteChunk) Append(dst []byte) []byte { return AppendSQLiteChunk(dst, k.File, k.Index) }

// String returns the form sqlite/main/chunk 0.
func (k SQLiteChunk) String() string {
	return "sqlite/" + k.File.String() + "/chunk " + strconv.FormatUint(uint64(k.Index), 10)
}

func (SQLiteChunk) key() {}
