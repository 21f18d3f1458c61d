package keyspace

import (
	"encoding/binary"
	"strconv"
)

// SQLiteFile is the number of one of the files of an actor's database.
type SQLiteFile byte

const (
	SQLiteMain    SQLiteFile = 0 // the database
	SQLiteJournal SQLiteFile = 1 // rollback journal
)

// fileNames has the names of all files; 2 is the write-ahead log and 3 its index.
var fileNames = [...]string{"main", "journal", "wal", "shm"}

// String returns "main", "journal", "wal", "shm" or "file N".
func (f SQLiteFile) String() string {
	if int(f) < len(fileNames) {
		return fileNames[f]
	}
	return "file " + strconv.Itoa(int(f))
}

// File is a key of a file.
type File struct{ layout }

// Append appends the key.
func (l *File) Append(dst []byte, file SQLiteFile) []byte {
	return append(dst, byte(l.Kind), l.family[0], byte(file))
}

// Page is a key of one page of a file.
type Page struct{ layout }

// Append appends the key.
func (l *Page) Append(dst []byte, file SQLiteFile, index uint32) []byte {
	return binary.BigEndian.AppendUint32(l.Prefix(dst, file), index)
}

// Prefix appends the common prefix of the keys of a file's pages. The range ends at [Successor].
func (l *Page) Prefix(dst []byte, file SQLiteFile) []byte {
	return append(dst, byte(l.Kind), l.family[0], byte(file))
}

// Parse returns the file and the index of the page.
func (l *Page) Parse(key []byte) (SQLiteFile, uint32, error) {
	var v values
	err := l.parse(key, &v)
	return SQLiteFile(v.n[0]), uint32(v.n[1]), err
}
